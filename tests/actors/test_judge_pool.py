import time
from pathlib import Path
from typing import Any

from anyio.lowlevel import checkpoint

from memfin.contracts import JudgeRequest, Verdict, Warned
from memfin.runtime.api import evaluate
from tests.support import WanderingAgent, dataset, read_jsonl


class CountingJudge:
    """Counts how many judgements run at a time."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.asked: list[tuple[str, int]] = []
        self.closed = False

    async def judge(self, request: JudgeRequest) -> Verdict | dict[str, Any]:
        self.running += 1
        self.most = max(self.most, self.running)
        self.asked.append((request.dialog_id, request.turn_pair_id))
        for _ in range(5):
            await checkpoint()
        self.running -= 1
        if request.turn_pair_id == 3:
            raise RuntimeError("the judge is out")
        if request.turn_pair_id == 2:
            return {"score": 9.0, "rubric_items": []}
        return Verdict(score=4.0, rubric_items=["信息依据", "something unasked"])

    def close(self) -> None:
        self.closed = True


async def test_turns_spread_over_the_workers_and_every_failure_is_counted_without_a_score(
    tmp_path: Path,
) -> None:
    judge = CountingJudge()
    warnings: list[str] = []
    summary = (
        await evaluate(
            dataset(tmp_path / "data.jsonl", 6),
            agent="echo",
            judge=lambda: judge,
            on_event=lambda event: warnings.append(event.message) if isinstance(event, Warned) else None,
            runs_dir=tmp_path,
            run_id="judged",
            workers_judge=3,
        )
    ).summary
    assert judge.most == 3
    assert len(judge.asked) == len(set(judge.asked)) == 18
    assert judge.closed
    (warning,) = [line for line in warnings if "not asked for" in line]
    assert warning.endswith(": rubric item 'something unasked' was not asked for and does not count")
    m5 = summary.metrics["m5_explainability"]
    assert m5.counts["judge_failed_turns"] == 12
    assert m5.counts["judge_scored_turns"] == 6
    assert m5.micro["judge_score_mean"] == 4.0
    assert m5.micro["rubric_hit_rate"] == 0.5
    rows = read_jsonl(tmp_path / "judged" / "turn_eval.jsonl")
    for row in rows:
        if row["turn_pair_id"] == 1:
            assert row["rubric_hit_items"] == ["信息依据"]
            assert row["judge_score_1_5"] == 4.0
        else:
            assert row["judge_score_1_5"] is None
            assert row["judge_error"]


async def test_without_a_judge_nothing_is_scored(tmp_path: Path) -> None:
    summary = (
        await evaluate(
            dataset(tmp_path / "data.jsonl", 3),
            agent=WanderingAgent,
            judge="none",
            runs_dir=tmp_path,
            run_id="none",
        )
    ).summary
    m5 = summary.metrics["m5_explainability"]
    assert m5.counts["judge_scored_turns"] == 0
    assert m5.counts["eligible_count"] == 0
    assert m5.micro["judge_score_mean"] == 0.0


async def test_judge_rpm_holds_in_every_sliding_window(tmp_path: Path) -> None:
    asked: list[float] = []

    class TimedJudge:
        async def judge(self, request: JudgeRequest) -> Verdict:
            asked.append(time.monotonic())
            return Verdict(score=3.0, rubric_items=[])

    await evaluate(
        dataset(tmp_path / "data.jsonl", 8),
        agent="echo",
        judge=TimedJudge,
        runs_dir=tmp_path,
        run_id="paced",
        workers_judge=8,
        judge_rpm=1200,
    )
    assert len(asked) == 24
    for first in asked:
        assert sum(first <= moment < first + 1.0 for moment in asked) <= 1200 / 60
