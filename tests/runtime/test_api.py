import inspect
import json
import math
from pathlib import Path
from typing import Any

import pytest

import memfin
import memfin.contracts
from memfin.agents.observer import TurnObserver
from memfin.contracts import JudgeRequest, Verdict
from memfin.contracts.reading import InvalidRecord
from memfin.errors import GateFailed, UsageError
from memfin.runtime import (
    build_turn_trace,
    evaluate,
    evaluate_dialog_task,
    run_dialog_replay,
    run_eval_parallel,
    write_eval_outputs,
)
from tests.support import WanderingAgent, dataset, dialog, read_jsonl


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (
            run_dialog_replay,
            "dialog_obj run_id dataset_index agent_factory observer_factory timeout_sec",
        ),
        (build_turn_trace, "turn_pair pred_text observer_payload latency_ms turn_status error"),
        (evaluate_dialog_task, "dialog_obj dataset_index run_id agent_factory observer_factory"),
        (write_eval_outputs, "output_dir manifest dialog_traces turn_rows summary"),
        (
            run_eval_parallel,
            "dataset_path run_id max_workers_dialog max_workers_judge agent_factory observer_factory",
        ),
    ],
)
def test_the_parameters_are_those_of_the_contract_in_its_order(function: Any, names: str) -> None:
    assert list(inspect.signature(function).parameters)[: len(names.split())] == names.split()


class Looking(TurnObserver):
    """Notes the turns that it sees begin."""

    seen: list[int] = []

    def begin(self, turn_pair_id: int) -> Any:
        Looking.seen.append(turn_pair_id)
        return super().begin(turn_pair_id)


async def test_a_hosts_observer_sees_every_turn(tmp_path: Path) -> None:
    Looking.seen.clear()
    await evaluate(
        dataset(tmp_path / "d.jsonl", 2), agent=WanderingAgent, observer_factory=Looking, runs_dir=tmp_path
    )
    assert sorted(Looking.seen) == [1, 1, 2, 2, 3, 3]


def test_the_synchronous_door_does_the_same(tmp_path: Path) -> None:
    Looking.seen.clear()
    data = dataset(tmp_path / "d.jsonl", 2)
    summary = run_eval_parallel(data, "sync", 2, 1, WanderingAgent, Looking, runs_dir=tmp_path)
    assert summary.counters.valid_dialogs == 2
    assert len(Looking.seen) == 6
    assert (tmp_path / "sync" / "metrics_summary.json").is_file()


async def answer(text: str, history: list[dict[str, str]]) -> str:
    return f"{len(history)}"


def judge(request: JudgeRequest) -> float:
    return 4.0


async def test_functions_are_agents_and_judges_and_resume_by_their_references(tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", 2)
    summary = (await evaluate(data, agent=answer, judge=judge, runs_dir=tmp_path, run_id="f")).summary
    config = json.loads((tmp_path / "f" / "config.json").read_text("utf-8"))
    assert config["fingerprint_inputs"]["agent"] == f"{__name__}:answer" == config["settings"]["agent"]
    assert config["fingerprint_inputs"]["judge"]["reference"] == f"{__name__}:judge"
    traces = read_jsonl(tmp_path / "f" / "dialog_trace.jsonl")
    assert [turn["pred_assistant_text"] for turn in traces[0]["turns"]] == ["0", "2", "4"]
    assert (await memfin.Evaluation.resume(tmp_path / "f").complete()).summary == summary


async def test_gates_hold_in_the_api_too_and_hand_over_the_summary(tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", 2)
    gate = {"m3_risk_coverage.risk_coverage": 0.99}
    with pytest.raises(GateFailed, match=r"risk_coverage=0\.99") as caught:
        await evaluate(data, agent="echo", runs_dir=tmp_path, run_id="g", fail_under=gate)
    assert isinstance(caught.value.summary, memfin.EvalSummary)
    with pytest.raises(UsageError, match=r"unknown value 'no\.such'"):
        await evaluate(data, agent="echo", runs_dir=tmp_path, fail_under={"no.such": 3.0})


@pytest.mark.parametrize(
    "gates",
    [
        {"gate": ["m3_risk_coverage.risk_coverage>=0.9@95"]},
        {"gate": ["m1_context_continuity.key_coverage>=0"]},
        {"fail_over": {"m4_compliance.forbidden_hit_rate": 0.0}, "forbidden_patterns": {"a": ["."]}},
    ],
)
async def test_every_kind_of_gate_holds_in_the_api(tmp_path: Path, gates: dict[str, Any]) -> None:
    with pytest.raises(GateFailed):
        await memfin.evaluate(agent="echo", limit=2, runs_dir=str(tmp_path), **gates)


async def test_a_judge_is_closed_however_the_run_ends(tmp_path: Path) -> None:
    closed: list[str] = []

    class Closing:
        async def judge(self, request: JudgeRequest) -> Verdict:
            return Verdict(score=2.0, rubric_items=[])

        def close(self) -> None:
            closed.append("closed")

    await evaluate(
        dataset(tmp_path / "d.jsonl", 1), agent="echo", judge=Closing, runs_dir=tmp_path, run_id="a"
    )
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(UsageError):
        await evaluate(tmp_path / "bad.jsonl", agent="echo", judge=Closing, runs_dir=tmp_path, run_id="b")
    with pytest.raises(UsageError, match="exists already"):
        await evaluate(tmp_path / "d.jsonl", agent="echo", judge=Closing, runs_dir=tmp_path, run_id="a")
    assert closed == ["closed"] * 3
    (row, *_) = read_jsonl(tmp_path / "a" / "turn_eval.jsonl")
    assert row["detectors"]["judge"] == row["detectors"]["rubric"] == f"{__name__}:{Closing.__qualname__}"


async def test_outputs_that_break_the_contract_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    trace = await run_dialog_replay(dialog("a", 1), "r", 1, WanderingAgent0)
    summary = (
        await evaluate(dataset(tmp_path / "d.jsonl", 1), agent="echo", runs_dir=tmp_path, run_id="r")
    ).summary
    manifest = memfin.contracts.RunManifest(
        trace_version="v1",
        run_id="r",
        dataset_path="d",
        started_at="2026-01-01T00:00:00Z",
        model_name="m",
        workers_dialog=1,
        workers_judge=1,
        counters=summary.counters,
    )
    bad = trace.replace(turns=[turn.replace(profile_snapshot={"a": math.nan}) for turn in trace.turns])
    with pytest.raises(InvalidRecord, match=r"profile_snapshot\.a: the number is not finite"):
        write_eval_outputs(tmp_path / "out", manifest, [bad], [], summary)
    assert not (tmp_path / "out").exists()
    write_eval_outputs(tmp_path / "out", manifest, [trace], [], summary)
    assert len(read_jsonl(tmp_path / "out" / "dialog_trace.jsonl")) == 1


class WanderingAgent0:
    """Answers at once."""

    def __init__(self, session: Any, observer: Any) -> None: ...

    async def reply(self, user_text: str) -> str:
        return user_text
