"""Records of a run as CSV and Parquet: every row, every field, and the same values in both."""

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts import TurnEvalRow
from memfin.contracts.catalog import CONTRACTS
from memfin.errors import UsageError
from memfin.exchange.exporters import export_run
from memfin.results.columns import columns_of
from memfin.results.records import TABLES
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


def shown(cell: Any) -> str:
    """Return a cell as CSV has it."""
    if cell is None:
        return ""
    return msgspec.json.encode(cell).decode() if isinstance(cell, bool | list) else str(cell)


def test_columns_follow_the_contract() -> None:
    columns = {column.name: (column.type, column.depth) for column in columns_of(TurnEvalRow)}
    assert {field.name for field in msgspec.structs.fields(TurnEvalRow)} == {
        name.partition(".")[0] for name in columns
    }
    assert list(columns)[:3] == ["run_id", "dialog_id", "turn_pair_id"]
    assert columns["turn_pair_id"] == columns["m1_source_hits.profile"] == ("int64", 0)
    assert columns["constraint_contradiction"] == ("int64", 0)
    assert (columns["eligible_m1"], columns["judge_score_1_5"]) == (("bool_", 0), ("float64", 0))
    assert (columns["turn_status"], columns["findings"]) == (("string", 0), ("json", 0))
    assert (columns["risk_pred_tags"], columns["key_hit_sources"]) == (("string", 1), ("string", 2))
    assert (columns["key_hit_flags"], columns["detectors"]) == (("int64", 1), ("json", 0))
    turns = {column.name: column.type for column in TABLES["turns"].columns}
    assert (turns["recall.query"], turns["recall.items"], turns["usage.prompt_tokens"]) == (
        "string",
        "json",
        "int64",
    )


def test_every_file_of_records_is_a_table() -> None:
    names = {
        entry.file_name
        for entry in CONTRACTS.values()
        if entry.file_format == "jsonl" and entry.file_name and "{" not in entry.file_name
    }
    assert {name for table in TABLES.values() for name in table.files} == names - {"labels.jsonl"}
    assert all(table.columns for table in TABLES.values())


def test_csv_holds_every_row(run_dir: Path, tmp_path: Path) -> None:
    counts = export_run(run_dir, tmp_path / "tables", "csv")
    rows, traces = read_jsonl(run_dir / "turn_eval.jsonl"), read_jsonl(run_dir / "dialog_trace.jsonl")
    findings = [(row["turn_pair_id"], one["rule"]) for row in rows for one in row["findings"]]
    sizes = {"dialogs": 3, "turns": len(rows), "rows": len(rows), "findings": len(findings)}
    assert counts == {f"{name}.csv": size for name, size in sizes.items()}
    found = read_csv(tmp_path / "tables" / "rows.csv")
    for row, cells in zip(rows, found, strict=True):
        assert cells["turn_pair_id"] == str(row["turn_pair_id"])
        assert cells["eligible_m1"] == str(row["eligible_m1"]).lower()
        assert json.loads(cells["findings"]) == row["findings"]
        assert json.loads(cells["risk_pred_tags"]) == row["risk_pred_tags"]
        assert cells["judge_error"] == ""
    turns = read_csv(tmp_path / "tables" / "turns.csv")
    expected = [
        (trace["dialog_id"], turn["pred_assistant_text"]) for trace in traces for turn in trace["turns"]
    ]
    assert [(turn["dialog_id"], turn["pred_assistant_text"]) for turn in turns] == expected
    assert "turns" not in read_csv(tmp_path / "tables" / "dialogs.csv")[0]
    words = read_csv(tmp_path / "tables" / "findings.csv")
    assert [(int(one["turn"]), one["rule"]) for one in words] == findings
    assert all(len(one["words"]) == int(one["end"]) - int(one["start"]) for one in words)


def test_parquet_holds_the_same_with_types(run_dir: Path, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    names = [name.removesuffix(".csv") for name in export_run(run_dir, tmp_path / "csv", "csv")]
    files = export_run(run_dir, tmp_path / "parquet", "parquet")
    assert list(files) == [f"{name}.parquet" for name in names]
    types: dict[str, str] = {}
    for name in names:
        table = parquet.read_table(tmp_path / "parquet" / f"{name}.parquet")
        rows = [{key: shown(cell) for key, cell in row.items()} for row in table.to_pylist()]
        assert rows == read_csv(tmp_path / "csv" / f"{name}.csv")
        types |= {field.name: str(field.type) for field in table.schema}
        assert types["run_id"] == "string"
    assert types["judge_score_1_5"] == "double"
    assert types["key_hit_sources"].startswith("list<element: list<element: string>")


def test_an_integer_beyond_64_bits_is_one_line(run_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet")
    lines = read_jsonl(run_dir / "turn_eval.jsonl")
    lines[0]["scored_chars"] = 2**63
    (run_dir / "turn_eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UsageError, match=r"^rows.parquet: not possible after row 0: "):
        export_run(run_dir, tmp_path / "out", "parquet")
    assert not (tmp_path / "out").exists()


def test_unusable_input_leaves_nothing(run_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=r"missing: holds no rows; give the directory of a run"):
        export_run(tmp_path / "missing", out, "csv")
    with pytest.raises(UsageError, match=r"exists; remove it"):
        export_run(run_dir, run_dir, "csv")
    with (run_dir / "turn_eval.jsonl").open("a") as file:
        file.write("{}\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"turn_eval.jsonl:\d+: "):
        export_run(run_dir, out, "csv")
    assert sorted(tmp_path.iterdir()) == before
