"""Results as DataFrames of pandas and Polars, where these are installed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.dataset import SAMPLE
from memfin.errors import UsageError
from memfin.exchange.exporters import export_run
from memfin.runtime import run_eval_parallel

LIBRARIES = ["pandas", "polars"]


class Observing:
    def __init__(self, session: Any, observer: Any) -> None:
        self.turns = 0

    def reply(self, user_text: str) -> memfin.AgentReply:
        self.turns += 1
        return memfin.AgentReply(
            text="净值会有波动。",
            recall={"query": user_text, "items": [{"content": "稳健"}]} if self.turns > 1 else None,
            profile_snapshot={"risk_level": "medium"},
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> memfin.Results[memfin.EvalSummary]:
    path = tmp_path_factory.mktemp("frames")
    run_eval_parallel(SAMPLE, agent_factory=Observing, runs_dir=path, run_id="r", limit=3)
    return memfin.read_run(path / "r")


def records(run: memfin.Results[Any], library: str, what: Any) -> list[dict[str, Any]]:
    """Return the rows of a DataFrame of an installed library; skip the test otherwise."""
    pytest.importorskip(library, reason=f"{library} is not installed; make test-frames runs this test")
    if library == "polars":
        return list(run.to_polars(what).iter_rows(named=True))
    frame = run.to_pandas(what)
    return list(frame.astype(object).where(frame.notna(), None).to_dict("records"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_are_flat(run: memfin.Results[Any], library: str) -> None:
    found = records(run, library, "rows")
    for flat, row in zip(found, run.rows(), strict=True):
        assert flat["dialog_id"] == row.dialog_id
        assert flat["m1_source_hits.short_term"] == row.m1_source_hits.short_term
        assert list(flat["risk_pred_tags"]) == row.risk_pred_tags
        assert [one["rule"] for one in json.loads(flat["findings"])] == [one.rule for one in row.findings]
        assert json.loads(flat["detectors"]) == row.detectors
        assert flat["scored_chars"] is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_turns_and_findings_are_flat(run: memfin.Results[Any], library: str) -> None:
    turns = records(run, library, "turns")
    assert [turn["turn_pair_id"] for turn in turns] == [turn.turn_pair_id for turn in run.turns()]
    first, second = turns[:2]
    assert (first["recall.query"], first["recall.items"]) == (None, None)
    assert second["recall.query"] == second["user_text"]
    assert json.loads(second["recall.items"])[0]["content"] == "稳健"
    assert json.loads(second["profile_snapshot"]) == {"risk_level": "medium"}
    assert {turn["difficulty"] for turn in turns} == {trace.difficulty for trace in run.traces()}
    assert [one["words"] for one in records(run, library, "findings")] == [
        one.words for one in run.findings()
    ]


@pytest.mark.parametrize("library", LIBRARIES)
def test_results_of_a_benchmark_are_flat(tmp_path: Path, library: str) -> None:
    memfin.BenchmarkRunner(runs_dir=tmp_path, run_id="b", limit=4).run_benchmark("oracle")
    bench = memfin.read_run(tmp_path / "b")
    for flat, one in zip(records(bench, library, "results"), bench.results(), strict=True):
        assert (flat["id"], flat["score"], json.loads(flat["details"])) == (one.id, one.score, one.details)
        assert one.answer is not None
    with pytest.raises(UsageError, match=r"b has no rows; it is a run of a benchmark: use results\(\)$"):
        bench.to_pandas()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_table_without_records_has_its_columns(tmp_path: Path, library: str) -> None:
    module = pytest.importorskip(
        library, reason=f"{library} is not installed; make test-frames runs this test"
    )
    run_eval_parallel(SAMPLE, agent_factory="echo", judge="none", runs_dir=tmp_path, run_id="e", limit=1)
    results = memfin.read_run(tmp_path / "e")
    (tmp_path / "e" / "turn_eval.jsonl").write_text("")
    frame = getattr(results, f"to_{library}")("findings")
    assert isinstance(frame, module.DataFrame)
    assert list(frame.columns) == [
        "run_id", "dialog_id", "turn", "field", "value", "rule", "start", "end", "words"
    ]  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_that_is_missing_is_one_line(
    run: memfin.Results[Any], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        UsageError, match=rf"to_{library} needs the extra: pip install 'memfin\[{library}\]'$"
    ):
        getattr(run, f"to_{library}")()


def test_frames_of_several_runs_can_be_concatenated(run: memfin.Results[Any], tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed; make test-frames runs this test")
    run_eval_parallel(SAMPLE, agent_factory="echo", judge="none", runs_dir=tmp_path, run_id="e", limit=1)
    other = memfin.read_run(tmp_path / "e")
    for what in ("rows", "turns", "findings"):
        frames = [each.to_polars(what) for each in (run, other)]
        assert len(polars.concat(frames)) == sum(map(len, frames))
        assert all(
            dtype.is_nested() or dtype in (polars.String, polars.Int64, polars.Float64, polars.Boolean)
            for dtype in frames[1].dtypes
        )


def test_a_parquet_file_has_the_columns_of_a_frame(run: memfin.Results[Any], tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed; make test-frames runs this test")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; make test-frames runs this test")
    tables = export_run(run.directory, tmp_path / "tables", "parquet")
    assert set(tables) == {f"{name}.parquet" for name in ("dialogs", "turns", "rows", "findings")}
    for name in tables:
        what: Any = name.removesuffix(".parquet")
        assert polars.read_parquet(tmp_path / "tables" / name).equals(run.to_polars(what))
        read, made = pandas.read_parquet(tmp_path / "tables" / name), run.to_pandas(what)
        assert (list(read.columns), len(read)) == (list(made.columns), len(made))
        assert (read["run_id"] == made["run_id"]).all()


def test_an_unknown_table_is_one_line(run: memfin.Results[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", sys)  # any module: it is not used
    with pytest.raises(UsageError, match="table 'row': must be one of dialogs, turns, rows, findings,"):
        run.to_polars("row")  # type: ignore[arg-type]
