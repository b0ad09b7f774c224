"""Runs as logs of inspect_ai, read back by the library where it is installed."""

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from memfin import read_run
from memfin.cli.imports import export as export_command
from memfin.contracts import SoakLimits
from memfin.errors import UsageError
from memfin.exchange.inspect_logs import export
from memfin.report.comparison import compare_runs
from memfin.runtime.api import run_eval_parallel
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan
from tests.support import dataset

NEEDED = "the extra memfin[inspect] is not installed"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    data = dataset(tmp_path / "data.jsonl", 3)
    run_eval_parallel(data, "r", runs_dir=str(tmp_path), workers_score=0)
    return tmp_path / "r"


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("inspect_ai.log", reason=NEEDED)


def test_an_export_without_the_extra_is_one_line(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(UsageError, match=r"inspect_ai logs need the extra: pip install 'memfin\[inspect\]'"):
        export(read_run(run_dir), tmp_path)


def test_a_log_holds_every_value_row_and_message(run_dir: Path, tmp_path: Path, library: Any) -> None:
    done = CliRunner().invoke(
        export_command, [str(run_dir), "--to", "inspect", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    assert done.output == f"{tmp_path / 'out' / 'r.eval'}: 3 samples\n"
    log, run = library.read_eval_log(str(tmp_path / "out" / "r.eval")), read_run(run_dir)
    assert (log.status, log.eval.model, log.eval.dataset.name) == ("success", "builtin", "data")
    assert log.eval.metadata["settings"]["agent"] == "builtin"
    assert log.eval.task_args["dataset_sha256"] == sha256((tmp_path / "data.jsonl").read_bytes()).hexdigest()
    assert log.stats.started_at
    samples = {sample.id: sample for sample in log.samples}
    dialogs = list(run.dialogs())
    assert set(samples) == {dialog.trace.dialog_id for dialog in dialogs}
    for dialog in dialogs:
        sample, turns = samples[dialog.trace.dialog_id], dialog.trace.turns
        assert sample.metadata["rows"] == msgspec.to_builtins(dialog.rows)
        assert sample.target == [turn.gt_assistant_text for turn in turns]
        assert [each.text for each in sample.input] == [turn.user_text for turn in turns]
        replies = [each for each in sample.messages if each.role == "assistant" and not each.tool_calls]
        assert [each.text for each in replies] == [turn.pred_assistant_text for turn in turns]
        assert [each.metadata["latency_ms"] for each in replies] == [turn.latency_ms for turn in turns]
        calls = [call for each in sample.messages for call in getattr(each, "tool_calls", None) or ()]
        assert [(call.function, call.arguments) for call in calls] == [
            (tool.tool_name, tool.args) for turn in turns for tool in turn.tools
        ]
        assert {name: score.value for name, score in sample.scores.items()} == {
            name: result.by_dialog[sample.id]
            for name, result in run.summary.metrics.items()
            if sample.id in result.by_dialog
        }
        risk = sample.scores["m3_risk_coverage"].explanation
        assert all(one.rule in risk for row in dialog.rows for one in row.findings if one.field == "risk_tag")
    for name, result in run.summary.metrics.items():
        values = {each.name: each.metrics for each in log.results.scores if each.scorer == name}
        assert values.keys() == result.micro.keys() - result.not_measured.keys()
        for key, metrics in values.items():
            assert metrics["micro"].value == result.micro[key]


def test_logs_of_two_runs_compare_like_those_of_the_library(
    run_dir: Path, tmp_path: Path, library: Any
) -> None:
    run_eval_parallel(tmp_path / "data.jsonl", "e", agent_factory="echo", runs_dir=str(tmp_path))
    for name in ("r", "e"):
        export(read_run(tmp_path / name), tmp_path)
    found = compare_runs(tmp_path / "r.eval", tmp_path / "e.eval")
    assert (found.suite, found.pairs, found.inputs_changed) == ("samples", 3, ["solver"])
    macro = {
        f"{name}.{key}": value
        for name, result in read_run(run_dir).summary.metrics.items()
        for key, value in result.macro.items()
    }
    assert {name: value.a for name, value in found.values.items() if name in macro} == pytest.approx(
        {name: value for name, value in macro.items() if name in found.values}
    )


def test_epochs_of_a_soak_are_those_of_the_samples(tmp_path: Path, library: Any) -> None:
    data = dataset(tmp_path / "data.jsonl", 2)
    limits = SoakLimits(epochs=2, keep_epochs=2)
    plan = make_soak_plan(data, agent="echo", runs_dir=tmp_path, run_id="s", limits=limits)
    anyio.run(Soak(plan).run)
    assert export(read_run(tmp_path / "s"), tmp_path) == {"s.eval": 4}
    log = library.read_eval_log(str(tmp_path / "s.eval"))
    assert sorted((sample.id, sample.epoch) for sample in log.samples)[:2] == [
        (log.samples[0].id, 1),
        (log.samples[0].id, 2),
    ]
    assert (log.eval.config.epochs, log.eval.dataset.samples, log.results.total_samples) == (2, 2, 4)


def test_a_failed_dialogue_is_a_sample_with_an_error(tmp_path: Path, library: Any) -> None:
    def broken(text: str) -> str:
        raise RuntimeError("no answer")

    data = dataset(tmp_path / "data.jsonl", 1)
    run_eval_parallel(data, "b", runs_dir=str(tmp_path), agent_factory=broken, workers_score=0)
    export(read_run(tmp_path / "b"), tmp_path)
    (sample,) = library.read_eval_log(str(tmp_path / "b.eval")).samples
    assert "no answer" in sample.error.message
    assert compare_runs(tmp_path / "b.eval", tmp_path / "b.eval").values["failed"].a == 1.0
