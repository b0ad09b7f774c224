"""A soak of a benchmark: the same questions epoch after epoch, with the artifacts of any soak."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from memfin.cli.main import memfin
from memfin.contracts import ProcessSample, ProgressEvent, QuestionDone, SoakEpoch, SoakLimits, SoakSummary
from memfin.contracts.rag import RagSummary
from memfin.contracts.soak import rounded
from memfin.errors import GateFailed, RunStopped, UsageError
from memfin.report import write_reports
from memfin.runtime.bench import BenchEvaluation
from memfin.runtime.bench_plan import make_bench_soak_plan, make_bench_soak_resume_plan
from memfin.runtime.soak import Soak
from memfin.runtime.soak_directory import read_epochs
from memfin.runtime.soak_plan import SoakPlan, make_soak_resume_plan
from memfin.validation import validate_path
from tests.rag.bench_support import RIGHT, Counting, mixed

FIRST_ARTIFACTS = {"config.json", "rag_summary.json", "run_manifest.json", "run_stats.json"}
SCORE = "rag.overall_percentage"


class Steady(Counting):
    """Answers alike at all times; the epochs ask objects of their own."""

    made = 0

    def __init__(self, document: Any = None) -> None:
        super().__init__()
        type(self).made += 1


class Fading(Steady):
    """Gets one fact more wrong in every epoch."""

    def __init__(self, document: Any = None) -> None:
        super().__init__()
        self.wrong = [f"f{number:02}" for number in range(type(self).made - 1)]


class Failing(Steady):
    """Fails on one question."""

    def __init__(self, document: Any = None) -> None:
        super().__init__()
        self.broken = ["f03"]


class Hanging(Steady):
    """Falls silent in its second epoch after seven answers."""

    release = False
    answered = 0

    async def query(self, question: str) -> dict[str, Any]:
        if type(self).answered == 12 + 7 and not self.release:
            await anyio.sleep_forever()
        type(self).answered += 1
        return dict(RIGHT)


@pytest.fixture(autouse=True)
def fresh_systems() -> Iterator[None]:
    yield
    for kind in (Steady, Fading, Failing, Hanging):
        kind.made = 0
    Hanging.release, Hanging.answered = False, 0


class Watching:
    """Calls a function with every event of an epoch."""

    def __init__(self, told: Any) -> None:
        self._told = told

    def on_event(self, event: ProgressEvent) -> None:
        self._told(event)

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Not watched."""

    def on_sample(self, sample: ProcessSample) -> None:
        """Not watched."""


def plan(
    tmp_path: Path, rag: Any = Steady, *, epochs: int = 3, keep: int | None = None, **more: Any
) -> SoakPlan:
    limits = SoakLimits(epochs=epochs, keep_epochs=keep)
    path = mixed(tmp_path / "benchmark")
    return make_bench_soak_plan(path, limits=limits, rag=rag, runs_dir=tmp_path / "runs", run_id="s", **more)


def lines(tmp_path: Path) -> list[SoakEpoch]:
    return list(read_epochs(tmp_path / "runs" / "s"))


def epoch(tmp_path: Path, number: int) -> Path:
    return tmp_path / "runs" / "s" / "epochs" / f"{number:06}"


def findings(tmp_path: Path) -> list[str]:
    return [str(finding) for finding in validate_path(tmp_path / "runs" / "s")]


async def test_time_outs_have_a_count_of_their_own(tmp_path: Path) -> None:
    class Slow(Failing):
        async def query(self, question: str) -> dict[str, Any]:
            if question.startswith("f04"):
                await anyio.sleep_forever()
            return await super().query(question)

    summary = await Soak(plan(tmp_path, Slow, epochs=2, turn_timeout=0.2)).run()
    assert (summary.errors.failed_turns, summary.errors.timeouts) == (4, 2)
    assert summary.errors.failed_dialogs == 4
    assert summary.error_rate == pytest.approx(4 / 24)
    assert findings(tmp_path) == []


async def test_every_epoch_is_a_benchmark_run_with_a_line_in_the_soak(tmp_path: Path) -> None:
    summary = await Soak(plan(tmp_path, Failing)).run()
    assert (summary.state, summary.suite, summary.epochs) == ("finished", "rag", 3)
    assert (summary.dialogs, summary.turns) == (36, 36)
    assert (summary.errors.failed_turns, summary.errors.failed_dialogs) == (3, 3)
    assert summary.turn_latency_ms.count == 33
    for line in lines(tmp_path):
        content = (epoch(tmp_path, line.epoch) / "rag_summary.json").read_bytes()
        found = msgspec.json.decode(content, type=RagSummary)
        assert found.run_id == line.epoch_run_id == f"s.{line.epoch:06}"
        assert line.headline_values[SCORE] == rounded(found.overall_percentage) > 0
        assert line.headline_values["rag.pass_rate"] == rounded(found.pass_rate)
        assert line.headline_values["rag.fact_exact.pass_rate"] == 9 / 10
        facts = found.by_type["fact_exact"]
        percentage = 100 * facts.total_score / facts.max_score
        assert line.headline_values["rag.fact_exact.percentage"] == rounded(percentage)
    assert {drift.slope for drift in summary.metrics.values()} == {0.0}
    assert findings(tmp_path) == []


async def test_an_interrupted_soak_goes_on_and_asks_no_question_twice(tmp_path: Path) -> None:
    soak: list[Soak] = []
    done = []

    def told(event: ProgressEvent) -> None:
        if isinstance(event, QuestionDone):
            done.append(event)
            if len(done) == 12 + 7:
                soak[0].stop("enough", 0.1)

    soak.append(Soak(plan(tmp_path, Hanging), [Watching(told)]))
    with anyio.fail_after(60), pytest.raises(RunStopped, match="memfin resume"):
        await soak[0].run()
    Hanging.release = True
    with pytest.raises(UsageError, match="repeats a benchmark"):
        make_soak_resume_plan(tmp_path / "runs" / "s")
    summary = await Soak(make_bench_soak_resume_plan(tmp_path / "runs" / "s", rag=Hanging)).run()
    assert (summary.state, summary.epochs, summary.processes) == ("finished", 3, 2)
    assert [line.resumed for line in lines(tmp_path)] == [False, True, False]
    assert Hanging.answered == 36
    assert summary.metrics[SCORE].min == summary.metrics[SCORE].max
    assert findings(tmp_path) == []


async def test_old_epochs_leave_only_their_lines(tmp_path: Path) -> None:
    summary = await Soak(plan(tmp_path, epochs=4, keep=1)).run()
    assert summary.pruned_epochs == 3
    assert not any(epoch(tmp_path, number).exists() for number in (1, 2, 3))
    assert (epoch(tmp_path, 4) / "rag_results.jsonl").is_file()
    assert findings(tmp_path) == []


async def test_a_system_that_fades_drifts_and_the_report_shows_it(tmp_path: Path) -> None:
    Fading.made = 0
    summary = await Soak(plan(tmp_path, Fading, epochs=6)).run()
    drift = summary.metrics["rag.fact_exact.pass_rate"]
    assert (drift.first, drift.last, drift.drifting) == (1.0, 0.5, True)
    assert drift.slope == pytest.approx(-0.1)
    assert summary.metrics[SCORE].drifting
    assert not summary.metrics["rag.evidence_set.pass_rate"].drifting
    markdown, html = (path.read_text("utf-8") for path in write_reports(tmp_path / "runs" / "s"))
    assert "RAG Score drifts" in markdown
    assert "| Facts: passed | 100.0 % | 50.0 % |" in markdown
    assert "72 questions" in markdown
    assert "Question latency" in markdown
    assert 'aria-label="Score. All from' in html
    assert "dialogue" not in markdown + html


async def test_values_that_the_epochs_do_not_bear_out_are_found(tmp_path: Path) -> None:
    await Soak(plan(tmp_path, epochs=1)).run()
    path = tmp_path / "runs" / "s" / "soak.jsonl"
    line = json.loads(path.read_text())
    line["metrics"]["rag"]["pass_rate"] = [0.25]
    path.write_text(json.dumps(line) + "\n")
    (found,) = findings(tmp_path)
    assert "$.metrics['rag.pass_rate']: 0.25, but the epoch's summary says" in found


async def test_gates_hold_the_mean_all_failures_and_the_facts_of_the_last_epoch(tmp_path: Path) -> None:
    before = BenchEvaluation(
        mixed(tmp_path / "benchmark"), rag=Steady, runs_dir=tmp_path / "runs", run_id="before"
    )
    async with before as run:
        await run.wait()
    Fading.made = 0
    made = plan(
        tmp_path,
        Fading,
        fail_under={"overall_percentage": 99.0},
        fail_on_regression=str(tmp_path / "runs" / "before"),
    )
    summary = await Soak(made).run()
    assert [gate.partition(" ")[0] for gate in summary.gates] == ["--fail-under", "--fail-on-regression"]
    assert f"the value is {summary.metrics[SCORE].mean:.6g}" in summary.gates[0]
    assert summary.gates[1].endswith("2 fact questions that were right are wrong now: f00, f01")
    shutil.rmtree(tmp_path / "runs" / "s")
    failed = await Soak(plan(tmp_path, Failing, fail_on_error=3)).run()
    assert failed.gates == ["--fail-on-error 3: the system failed on 3 of 36 questions (8.3%)"]


def test_the_command_repeats_goes_on_and_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mixed(tmp_path / "benchmark")
    called = CliRunner().invoke(
        memfin,
        [
            "bench",
            "benchmark",
            "--run-id",
            "s",
            "--epochs",
            "2",
            "--type",
            "fact_exact",
            "--metrics-port",
            "0",
        ],
    )
    assert called.exit_code == 0, called.output
    assert "memfin: epoch 2/2: 10 questions in" in called.stderr
    assert "2 epochs, 20 questions in" in called.stdout
    (tmp_path / "runs" / "s" / "soak.jsonl").write_bytes(b"")
    again = CliRunner().invoke(memfin, ["resume", "runs/s", "--json", "--quiet"])
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["suite"] == "rag"
    refused = CliRunner().invoke(memfin, ["bench", "benchmark", "--keep-epochs", "2"])
    assert isinstance(refused.exception, UsageError)
    failed = CliRunner().invoke(
        memfin, ["bench", "benchmark", "--epochs", "1", "--fail-under", "101", "--quiet"]
    )
    assert isinstance(failed.exception, GateFailed)
