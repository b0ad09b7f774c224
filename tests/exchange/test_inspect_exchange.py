"""Runs as logs of inspect_ai and logs as traces, through the library where it is installed."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from memfin import AgentReply, read_run
from memfin.cli.imports import command
from memfin.cli.imports import export as export_command
from memfin.cli.run import score
from memfin.contracts import SoakLimits
from memfin.errors import UsageError
from memfin.exchange.export_inspect import export
from memfin.exchange.inspect_logs import import_inspect
from memfin.report.comparison import compare_runs
from memfin.runtime.api import run_eval_parallel
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan
from tests.support import dataset, read_jsonl

NEEDED = "the extra memfin[inspect] is not installed"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    data = dataset(tmp_path / "data.jsonl", 3)
    run_eval_parallel(data, "r", runs_dir=str(tmp_path), workers_score=0)
    return tmp_path / "r"


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("inspect_ai.log", reason=NEEDED)


def test_commands_without_the_extra_are_one_line(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(UsageError, match=r"inspect_ai logs need the extra: pip install 'memfin\[inspect\]'"):
        export(read_run(run_dir), tmp_path)
    (tmp_path / "a.eval").touch()
    with pytest.raises(UsageError, match=r"a\.eval: .* need the extra: pip install 'memfin\[inspect\]'"):
        import_inspect(tmp_path / "a.eval", tmp_path / "trace.jsonl")


def test_a_log_holds_every_value_row_and_message(run_dir: Path, tmp_path: Path, library: Any) -> None:
    done = CliRunner().invoke(
        export_command, [str(run_dir), "--to", "inspect", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    assert done.output == f"{tmp_path / 'out' / 'r.eval'}: 3 records\n"
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
    def metered(text: str) -> AgentReply:
        return AgentReply(text=text, usage={"calls": 1, "prompt_tokens": 3, "completion_tokens": 2})

    run_eval_parallel(tmp_path / "data.jsonl", "e", agent_factory=metered, runs_dir=str(tmp_path))
    for name in ("r", "e"):
        export(read_run(tmp_path / name), tmp_path)
    found = compare_runs(tmp_path / "r.eval", tmp_path / "e.eval")
    assert (found.suite, found.pairs, found.inputs_changed) == ("samples", 3, ["solver"])
    usage = library.read_eval_log(str(tmp_path / "e.eval"), header_only=True).stats.model_usage
    turns = len(list(read_run(tmp_path / "e").turns()))
    assert [(each.input_tokens, each.total_tokens) for each in usage.values()] == [(3 * turns, 5 * turns)]
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


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with the logs of `inspect_conversation_factory`."""
    pytest.importorskip("inspect_ai", reason=NEEDED)
    directory = tmp_path_factory.mktemp("inspect")
    factory = Path(__file__).with_name("inspect_conversation_factory.py")
    done = subprocess.run([sys.executable, factory, directory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.parametrize("name", ["talk.eval", "talk.json"])
def test_samples_become_dialogues_with_turns_tools_and_times(talks: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "trace.jsonl"
    done = CliRunner().invoke(command, ["inspect", str(talks / name), "--out", str(out), "--run-id", "mine"])
    assert (done.exit_code, done.output) == (0, f"4 dialogues, 8 turns: {out}\n")
    traces = {each["dialog_id"]: each for each in read_jsonl(out)}
    assert set(traces) == {"tool_epoch_1", "tool_epoch_2", "given_epoch_1", "given_epoch_2"}
    trace = traces["tool_epoch_2"]
    assert (trace["run_id"], trace["dialog_status"], trace["valid_dialog"]) == ("mine", "ok", True)
    asked, then = trace["turns"]
    assert (asked["user_text"], asked["pred_assistant_text"]) == ("price A", "Guaranteed profit: A 12.5")
    assert (then["user_text"], then["pred_assistant_text"]) == ("and then?", "Guaranteed profit: and then?")
    (call,) = asked["tools"]
    assert (call["tool_name"], call["args"], call["result_excerpt"]) == ("price", {"fund": "A"}, "A 12.5")
    assert asked["latency_ms"] >= call["latency_ms"] >= 0
    assert (asked["recall"], asked["gt_assistant_text"], then["tools"]) == (None, "", [])
    given = traces["given_epoch_1"]["turns"]
    assert [turn["user_text"] for turn in given] == ["price none", "and then?"]
    assert given[0]["tools"][0]["error"] == "no such fund"


def test_an_imported_log_is_scored_and_what_has_no_label_is_not_measured(talks: Path, tmp_path: Path) -> None:
    import_inspect(talks / "talk.eval", tmp_path / "trace.jsonl")
    done = CliRunner().invoke(score, [str(tmp_path / "trace.jsonl"), "--out", str(tmp_path / "scored")])
    assert done.exit_code == 0, done.output
    metrics = read_run(tmp_path / "scored").summary.metrics
    assert metrics["m4_compliance"].micro["severe_violation_rate"] > 0
    assert metrics["m1_context_continuity"].not_measured.keys() >= {"key_coverage"}


def test_an_unfinished_log_gives_what_is_finished_and_a_warning(talks: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        command, ["inspect", str(talks / "stopped.eval"), "--out", str(tmp_path / "trace.jsonl")]
    )
    assert "stopped.eval: its status is error: only finished samples are in it" in done.output
    last = {each["dialog_id"]: each for each in read_jsonl(tmp_path / "trace.jsonl")}["stop"]
    assert (last["dialog_status"], last["turns"][0]["turn_status"]) == ("failed", "error")
    assert "no answer" in last["turns"][0]["error"]


def test_an_exported_run_is_imported_with_the_same_replies(
    run_dir: Path, tmp_path: Path, library: Any
) -> None:
    export(read_run(run_dir), tmp_path)
    import_inspect(tmp_path / "r.eval", tmp_path / "trace.jsonl")
    fields = ("user_text", "pred_assistant_text", "turn_status")
    found, wanted = (
        {each["dialog_id"]: [[turn[name] for name in fields] for turn in each["turns"]] for each in traces}
        for traces in (read_jsonl(tmp_path / "trace.jsonl"), read_jsonl(run_dir / "dialog_trace.jsonl"))
    )
    assert found == wanted


def test_files_that_cannot_be_imported_are_one_line(talks: Path, tmp_path: Path) -> None:
    whole = (talks / "talk.eval").read_bytes()
    files = {"half.eval": whole[: len(whole) // 2], "empty.eval": b"", "list.json": b"[]", "a.txt": b"a"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in (*files, "missing.eval"):
        with pytest.raises(UsageError, match=name) as problem:
            import_inspect(tmp_path / name, tmp_path / "trace.jsonl")
        assert "\n" not in str(problem.value)
        assert not (tmp_path / "trace.jsonl").exists()
    with pytest.raises(UsageError, match=r"empty\.eval exists; remove it or name another file"):
        import_inspect(talks / "talk.eval", tmp_path / "empty.eval")
