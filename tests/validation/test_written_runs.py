"""Whatever a run writes is sound: odd agents, failing judges, broken input, interruptions."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from memfin.contracts import HistoryMode, JudgeRequest, TraceVersion, Verdict
from memfin.runtime.api import evaluate
from memfin.validation import validate_path
from tests.support import TAGS, dialog, read_jsonl, write_jsonl


class MixedAgent:
    """Answers, raises, hangs, says nothing and tells odd observations, by turns."""

    def __init__(self, session: Any, observer: Any) -> None:
        if session.dialog_id == "no agent":
            raise RuntimeError("no agent for this dialogue")
        self._observer = observer
        self._turn = sum(map(ord, session.dialog_id)) % 7

    async def reply(self, user_text: str) -> str:
        self._turn += 1
        self._observer.recall(short_term_context=user_text, profile_context="风险偏好：稳健；不使用杠杆")
        self._observer.profile(risk_level="medium", max_drawdown=0.1, horizon=["长期"], preferences=None)
        match self._turn % 7:
            case 1:
                raise ValueError("no reply this time")
            case 2:
                await anyio.sleep(60)
            case 3:
                return "  "
            case 4:
                self._observer.tool(tool_name="t", latency_ms=float("nan"))
            case 5:
                self._observer.compliance(is_compliant=False, violations=[{"severity": "high"}])
                return "保证收益，稳赚不赔，建议加杠杆全仓买入。"
        return "根据公开数据，市场存在不确定性，本金可能亏损，以上仅供参考。"

    async def commit(self, assistant_text: str) -> None:
        self._observer.recall(packed_context=assistant_text)


class FailingJudge:
    """Judges well, satisfies items that nobody required, fails and breaks its contract, by turns."""

    def __init__(self) -> None:
        self._calls = 0

    def judge(self, request: JudgeRequest) -> Any:
        self._calls += 1
        match self._calls % 4:
            case 0:
                raise ValueError("no verdict this time")
            case 1:
                return {"score": 9, "rubric_items": []}
            case 2:
                return Verdict(score=2.5, rubric_items=[*request.rubric_required, "never asked for"])
        return {"score": 4, "rubric_items": request.rubric_required[:1]}


ODD_TAGS: list[dict[str, Any]] = [
    {},
    {"memory_required_keys_gt": ["nonsense", "history_turn_index:1", "history_turn_index:99"]},
    {"risk_disclosure_required_gt": ["risk_disclosure_present", "外星风险", "外星风险"]},
    {"compliance_label_gt": "severe", "explainability_rubric_gt": ["闻所未闻", "信息依据", "信息依据"]},
    TAGS,
    TAGS | {"memory_required_keys_gt": [*TAGS["memory_required_keys_gt"]] * 2},
]


@pytest.fixture
def odd_dataset(tmp_path: Path) -> Path:
    dialogs: list[object] = []
    for number in range(8):
        one = dialog(f"d{number}", 6, difficulty="med" if number % 2 else "extreme")
        for index, tags in enumerate(ODD_TAGS):
            one["turns"][2 * index + 1]["turn_tags"] = tags
        dialogs.append(one)
    incomplete = dialog("incomplete")
    del incomplete["profile_gt"]["horizon_gt"]
    dialogs += [dialog("no agent"), incomplete, dialog("d0"), {"turns": []}, 3, dialog("x", profile_gt=None)]
    return write_jsonl(tmp_path / "data.jsonl", dialogs)


@pytest.mark.parametrize("trace_version", ["v1", "v1.1"])
@pytest.mark.parametrize("history", ["free", "forced"])
@pytest.mark.parametrize("judge", [FailingJudge, "heuristic", "none"])
async def test_a_complete_run_has_no_findings(
    tmp_path: Path, odd_dataset: Path, trace_version: TraceVersion, history: HistoryMode, judge: Any
) -> None:
    await evaluate(
        odd_dataset,
        agent=MixedAgent,
        judge=judge,
        runs_dir=tmp_path / "runs",
        run_id="odd",
        history=history,
        trace_version=trace_version,
        turn_timeout=0.05,
    )
    run = tmp_path / "runs" / "odd"
    assert [str(finding) for finding in validate_path(run)] == []
    traces, rows = read_jsonl(run / "dialog_trace.jsonl"), read_jsonl(run / "turn_eval.jsonl")
    statuses = {turn["turn_status"] for trace in traces for turn in trace["turns"]}
    assert statuses == {"ok", "error", "timeout"}
    assert {trace["dialog_status"] for trace in traces} == {"partial", "failed", "skipped"}
    assert {trace["difficulty"] for trace in traces} == {"medium", "easy", None}
    if judge is FailingJudge:
        assert {row["judge_error"] is None for row in rows} == {True, False}


class SlowAgent(MixedAgent):
    async def reply(self, user_text: str) -> str:
        await anyio.sleep(60 if "d3" in user_text else 0)
        return "市场存在不确定性，仅供参考。"


@pytest.mark.parametrize("first", [0, 3])
async def test_an_interrupted_run_has_no_findings(tmp_path: Path, first: int) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog(f"d{number}") for number in range(first, 6)])
    started = anyio.Event()

    async def interrupted() -> None:
        with anyio.CancelScope() as scope:

            async def stop() -> None:
                await started.wait()
                await anyio.sleep(0.3)
                scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                await evaluate(
                    data,
                    agent=SlowAgent,
                    runs_dir=tmp_path / "runs",
                    run_id="cut",
                    workers_dialog=1,
                    on_event=lambda _: started.set(),
                )

    await interrupted()
    run = tmp_path / "runs" / "cut"
    assert not (run / "metrics_summary.json").exists()
    assert bool((run / "dialog_trace.jsonl").read_bytes()) == (first == 0)
    assert [str(finding) for finding in validate_path(run)] == []
