"""Results of runs, benchmarks and soaks, read from their directories."""

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.contracts import BenchConfig, DialogTrace, SoakLimits, TurnEvalRow
from memfin.contracts.reading import InvalidRecord
from memfin.errors import UsageError
from memfin.language import use_language
from memfin.pytest_plugin import assert_gates
from memfin.runtime import run_eval_parallel
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan
from tests.support import dialog, read_jsonl, write_jsonl


class Bold:
    """Answers its first turn with a promise, and fails the second."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.turns = 0

    def reply(self, user_text: str) -> str:
        self.turns += 1
        if self.turns == 2:
            raise ValueError("no idea")
        return "😀这只基金保本保息，净值会有波动。"


def data(path: Path, dialogs: int = 3) -> Path:
    broken = {"dialog_id": "d1", "turns": []}
    return write_jsonl(path, [*(dialog(f"d{number}", 2) for number in range(dialogs)), broken])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    run_eval_parallel(data(path / "d.jsonl"), agent_factory=Bold, runs_dir=path, run_id="r", seed=7)
    return path / "r"


async def test_records_of_a_run_are_those_of_its_files(run: Path) -> None:
    results = memfin.read_run(str(run))
    assert (results.run_id, results.directory, results.suite) == ("r", run, "dialogues")
    assert results.summary.counters.valid_dialogs == 3
    assert (results.config.seed, type(results.config)) == (7, memfin.RunConfig)
    rows, traces = list(results.rows()), list(results.traces())
    assert [type(each) for each in (rows[0], traces[0])] == [TurnEvalRow, DialogTrace]
    assert [row.dialog_id for row in rows] == [
        row["dialog_id"] for row in read_jsonl(run / "turn_eval.jsonl")
    ]
    assert list(results.rows()) == rows  # every iterator begins anew


async def test_dialogues_have_their_rows_in_whatever_order_the_files_are(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "r")
    lines = (run / "turn_eval.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "r" / "turn_eval.jsonl").write_bytes(b"\n".join(reversed(lines)))
    for path in (run, tmp_path / "r"):
        found = {
            (each.trace.dialog_id, each.trace.valid_dialog): each for each in memfin.read_run(path).dialogs()
        }
        assert len(found) == 4
        for (name, valid), each in found.items():
            turns = [(name, turn.turn_pair_id) for turn in each.trace.turns]
            assert len(turns) == (2 if valid else 0)
            assert sorted((row.dialog_id, row.turn_pair_id) for row in each.rows) == turns


async def test_a_finding_has_the_words_that_it_covers(run: Path) -> None:
    found = list(memfin.read_run(run).findings())
    assert {(one.dialog_id, one.turn) for one in found} == {(f"d{number}", 1) for number in range(3)}
    promise = next(one for one in found if one.value == "volatility_risk")
    assert promise.words == "净值会有波动"[promise.start - 10 : promise.end - 10]
    assert all(len(one.words) == one.end - one.start > 0 and one.rule for one in found)


async def test_a_benchmark_has_results(tmp_path: Path) -> None:
    runner = memfin.BenchmarkRunner(runs_dir=tmp_path, run_id="b", limit=4)
    summary = await runner.run_benchmark_async("oracle")
    results = memfin.read_run(tmp_path / "b")
    assert results.summary == summary.replace(individual_results=[])
    assert isinstance(results.config, BenchConfig)
    assert sorted(one.id for one in results.results()) == sorted(one.id for one in summary.individual_results)
    with pytest.raises(UsageError, match=r"b has no rows; it is a run of a benchmark: use results\(\)$"):
        results.rows()


async def test_a_soak_has_the_epochs_that_are_kept(tmp_path: Path) -> None:
    limits = SoakLimits(epochs=3, keep_epochs=2)
    plan = make_soak_plan(
        data(tmp_path / "d.jsonl"), agent="echo", runs_dir=tmp_path, run_id="s", limits=limits
    )
    await Soak(plan).run()
    soak = memfin.read_run(tmp_path / "s")
    assert (soak.suite, soak.run_id, soak.summary.epochs, soak.config.agent) == ("soak", "s", 3, "echo")
    assert [epoch.run_id for epoch in soak.epochs()] == ["s.000002", "s.000003"]
    assert [len(list(epoch.rows())) for epoch in soak.epochs()] == [6, 6]
    with pytest.raises(UsageError, match=r"s has no findings; it is a soak: use epochs\(\)$"):
        soak.findings()


def test_memory_does_not_grow_with_the_run(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "r")
    for name in ("dialog_trace.jsonl", "turn_eval.jsonl"):
        text = (run / name).read_text("utf-8")
        with (tmp_path / "r" / name).open("a", encoding="utf-8") as file:
            file.writelines(text.replace('"dialog_id":"d', f'"dialog_id":"{n}') for n in range(300))
    results = memfin.read_run(tmp_path / "r")
    tracemalloc.start()
    try:
        counts = [sum(1 for _ in each()) for each in (results.rows, results.turns, results.findings)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert counts[:2] == [6 * 301] * 2
    # CPython keeps up to 2000 freed tuples of each length, here of the names of a record's fields.
    assert peak < (tmp_path / "r" / "turn_eval.jsonl").stat().st_size / 3


def unfinished(run: Path) -> None:
    (run / "metrics_summary.json").unlink()


def emptied(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


def broken(run: Path) -> None:
    (run / "metrics_summary.json").write_text('{"run_id": 7}')


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (shutil.rmtree, "no such directory; give the directory of a run"),
        (unfinished, "the run has not finished; memfin resume .*r goes on with it"),
        (emptied, "not a run directory"),
        (broken, r"metrics_summary\.json: \$\.run_id: Expected `str`, got `int`"),
    ],
)
async def test_a_directory_without_a_finished_run_is_one_line(
    change: Callable[[Path], None], words: str, run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "r")
    change(tmp_path / "r")
    with pytest.raises(UsageError, match=words) as caught:
        memfin.read_run(tmp_path / "r")
    assert "\n" not in str(caught.value)


async def test_an_evaluation_has_results_once_it_is_complete(tmp_path: Path) -> None:
    async with memfin.Evaluation(data(tmp_path / "d.jsonl"), agent="echo", runs_dir=tmp_path) as evaluation:
        with pytest.raises(UsageError, match="the run has not finished"):
            _ = evaluation.results
        results = await evaluation.wait()
    assert isinstance(results, memfin.Results)
    assert results.summary is evaluation.results.summary is evaluation.summary
    assert results.summary == memfin.read_run(evaluation.directory).summary
    assert len(list(results.rows())) == results.summary.counters.total_turn_pairs == 6
    assert repr(results) == f"<Results {evaluation.directory} valid_dialogs=3 total_turn_pairs=6>"
    assert_gates(results, "m4_compliance.severe_violation_rate<=1")
    async with memfin.BenchEvaluation(runs_dir=tmp_path, limit=1, run_id="b") as bench:
        found = await bench.wait()
    assert (
        found.summary.total_tests == len(found.summary.individual_results) == len(list(found.results())) == 1
    )
    assert (
        repr(found) == f"<Results {tmp_path / 'b'} total_tests=1 passed_tests={found.summary.passed_tests}>"
    )
    assert_gates(found, "overall_percentage>=0")


async def test_reports_are_written_at_the_end_in_the_language_of_the_context(tmp_path: Path) -> None:
    source = data(tmp_path / "d.jsonl")
    with use_language("zh"), pytest.raises(memfin.GateFailed):
        await memfin.evaluate(
            source, agent=Bold, runs_dir=tmp_path, run_id="zh", report=True, fail_on_error=0
        )
    await memfin.evaluate(source, agent="echo", runs_dir=tmp_path, run_id="without")
    assert (tmp_path / "zh" / "report.html").is_file()
    assert (tmp_path / "zh" / "report.md").read_text("utf-8").startswith("# MemFin 评测报告")
    assert not (tmp_path / "without" / "report.md").exists()


def test_the_synchronous_function_writes_reports_too(tmp_path: Path) -> None:
    source = data(tmp_path / "d.jsonl")
    run_eval_parallel(source, run_id="r", agent_factory="echo", report=True, runs_dir=tmp_path)
    assert (tmp_path / "r" / "report.md").read_text("utf-8").startswith("# MemFin evaluation report")


async def test_a_bad_line_is_named_with_its_number(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "r")
    rows = tmp_path / "r" / "turn_eval.jsonl"
    rows.write_text(rows.read_text("utf-8") + "{}\n")
    for records in (memfin.read_run(tmp_path / "r").rows(), memfin.read_run(tmp_path / "r").findings()):
        with pytest.raises(InvalidRecord, match=r"turn_eval\.jsonl:7: "):
            list(records)


async def test_a_log_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({}))
    with pytest.raises(UsageError, match="a file; give the directory of a run"):
        memfin.read_run(tmp_path / "a.json")


async def test_runs_are_compared_by_path_or_results(run: Path, tmp_path: Path) -> None:
    echo = await memfin.evaluate(data(tmp_path / "d.jsonl"), agent="echo", runs_dir=tmp_path, run_id="e")
    found = memfin.compare(run, echo, margins={"failed": 0.5})
    assert isinstance(found, memfin.Comparison)
    assert (found.a, found.b, found.pairs) == ("r", "e", 3)
    assert (found.values["failed"].a, found.values["failed"].b) == (0.5, 0.0)
    assert found.values["failed"].margin == 0.5
    with pytest.raises(UsageError, match="no_such"):
        memfin.compare(str(run), str(run), margins={"no_such": 0.5})
