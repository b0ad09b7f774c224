"""Rows of a run as CSV and Parquet: every row, every field, and the same values in both."""

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts import RagResult, TurnEvalRow, TurnTrace
from memfin.errors import UsageError
from memfin.exchange.tables import columns_of, export_tables
from memfin.runtime.api import run_eval_parallel
from tests.support import dataset, read_jsonl


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    data = dataset(tmp_path / "data.jsonl", 3)
    run_eval_parallel(data, "r", runs_dir=str(tmp_path), workers_score=0)
    return tmp_path / "r"


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_columns_follow_the_contract() -> None:
    types = {column.name: column.type for column in columns_of(TurnEvalRow)}
    assert {field.name for field in msgspec.structs.fields(TurnEvalRow)} == {
        name.partition(".")[0] for name in types
    }
    assert (types["turn_pair_id"], types["eligible_m1"], types["judge_score_1_5"]) == (
        "int64",
        "bool_",
        "float64",
    )
    assert (types["m1_source_hits.profile"], types["constraint_contradiction"]) == ("int64", "int64")
    assert (types["turn_status"], types["findings"], types["detectors"]) == ("string", "json", "json")
    turns = {column.name: column.type for column in columns_of(TurnTrace)}
    assert (turns["recall.query"], turns["recall.items"], turns["usage.prompt_tokens"]) == (
        "string",
        "json",
        "int64",
    )
    assert columns_of(RagResult)


def test_csv_holds_every_row(run_dir: Path, tmp_path: Path) -> None:
    counts = export_tables(run_dir, tmp_path / "tables", "csv")
    rows, traces = read_jsonl(run_dir / "turn_eval.jsonl"), read_jsonl(run_dir / "dialog_trace.jsonl")
    assert counts == {"dialog_trace": 3, "turns": len(rows), "turn_eval": len(rows)}
    found = read_csv(tmp_path / "tables" / "turn_eval.csv")
    for row, cells in zip(rows, found, strict=True):
        assert cells["turn_pair_id"] == str(row["turn_pair_id"])
        assert cells["eligible_m1"] == str(row["eligible_m1"]).lower()
        assert json.loads(cells["findings"]) == row["findings"]
        assert cells["judge_error"] == ""
    turns = read_csv(tmp_path / "tables" / "turns.csv")
    expected = [
        (trace["dialog_id"], turn["pred_assistant_text"]) for trace in traces for turn in trace["turns"]
    ]
    assert [(turn["dialog_id"], turn["pred_assistant_text"]) for turn in turns] == expected
    assert "turns" not in read_csv(tmp_path / "tables" / "dialog_trace.csv")[0]


def test_parquet_holds_the_same_with_types(run_dir: Path, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    counts = export_tables(run_dir, tmp_path / "csv", "csv")
    assert export_tables(run_dir, tmp_path / "parquet", "parquet") == counts
    types: dict[str, str] = {}
    for name in counts:
        table = parquet.read_table(tmp_path / "parquet" / f"{name}.parquet")
        shown = [
            {
                key: "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)
                for key, cell in row.items()
            }
            for row in table.to_pylist()
        ]
        assert shown == read_csv(tmp_path / "csv" / f"{name}.csv")
        types = {field.name: str(field.type) for field in table.schema}
        assert types["run_id"] == "string"
    assert types["judge_score_1_5"] == "double"


def test_unusable_input_leaves_nothing(run_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=r"missing: holds no rows; give the directory of a run"):
        export_tables(tmp_path / "missing", out, "csv")
    with pytest.raises(UsageError, match=r"exists; remove it"):
        export_tables(run_dir, run_dir, "csv")
    with (run_dir / "turn_eval.jsonl").open("a") as file:
        file.write("{}\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"turn_eval.jsonl:\d+: "):
        export_tables(run_dir, out, "csv")
    assert sorted(tmp_path.iterdir()) == before
