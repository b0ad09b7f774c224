"""Streams of a run's events, one for every subscriber."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

import memfin
from memfin.contracts import (
    DialogDone,
    DialogScored,
    ProgressEvent,
    QuestionDone,
    RunFinished,
    RunInterrupted,
    RunStarted,
    TurnDone,
    TurnReplayed,
)
from memfin.errors import UsageError
from memfin.runtime.subscriptions import Subscribers, Subscription
from tests.leaks import NOTHING, footprint, left_since
from tests.support import dataset, read_jsonl

DIALOGS = 6
TURNS = 3


class Guarantees:
    """Breaks the rules in every reply; ``silent`` dialogues get none."""

    silent: Sequence[str] = ()

    def __init__(self, session: Any, observer: Any) -> None:
        self.session = session

    async def reply(self, user_text: str) -> str:
        if self.session.dialog_id in Guarantees.silent:
            await asyncio.Event().wait()
        return f"{user_text}：这只基金保本保息。"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {
        "dataset": dataset(tmp_path / "data.jsonl", DIALOGS, TURNS),
        "agent": Guarantees,
        "runs_dir": tmp_path,
        "run_id": "r",
        "workers_dialog": 2,
        "workers_score": 0,
    }


def dialog_ids(tmp_path: Path) -> list[str]:
    return [dialog["dialog_id"] for dialog in read_jsonl(tmp_path / "data.jsonl")]


async def all_of(events: AsyncIterator[ProgressEvent]) -> list[Any]:
    return [event async for event in events]


async def test_every_subscriber_gets_all_events_of_its_kinds(tmp_path: Path, settings: Any) -> None:
    heard: list[ProgressEvent] = []
    evaluation = memfin.Evaluation(**settings, on_event=heard.append)
    early: Subscription[Any] = evaluation.subscribe()
    ends = evaluation.subscribe((TurnDone, RunFinished))
    records = evaluation.subscribe((TurnReplayed, DialogScored, DialogDone))
    async with evaluation:
        late = evaluation.subscribe(RunFinished)
        read = await asyncio.gather(*map(all_of, (early, ends, records, late)))
        iterated = await all_of(evaluation)
        assert await all_of(evaluation.subscribe()) == []
    assert read[0] == iterated == heard
    assert read[1] == [event for event in iterated if isinstance(event, TurnDone | RunFinished)]
    assert read[3] == iterated[-1:]
    assert isinstance(iterated[0], RunStarted)
    kinds = {event["event"] for event in read_jsonl(tmp_path / "logs" / "progress_r.jsonl")}
    assert not kinds & {"turn_replayed", "dialog_scored"}

    traces = {trace["dialog_id"]: trace for trace in read_jsonl(tmp_path / "r" / "dialog_trace.jsonl")}
    turns = [event for event in read[2] if isinstance(event, TurnReplayed)]
    assert len(turns) == DIALOGS * TURNS
    for event in turns:
        trace = traces[event.dialog_id]["turns"][event.turn_pair_id - 1]
        assert (event.user_text, event.reply) == (trace["user_text"], trace["pred_assistant_text"])
        assert event.turn.latency_ms == trace["latency_ms"]
    scored = [event for event in read[2] if isinstance(event, DialogScored)]
    rows = [(row.dialog_id, row.turn_pair_id, row.judge_score_1_5) for each in scored for row in each.rows]
    assert len(rows) == DIALOGS * TURNS
    assert rows == [
        (row["dialog_id"], row["turn_pair_id"], row["judge_score_1_5"])
        for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
    ]
    done = [event.dialog_id for event in read[2] if isinstance(event, DialogDone)]
    assert done == [event.dialog_id for event in scored]


async def test_a_subscriber_stops_the_run_at_the_third_severe_violation(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guarantees, "silent", dialog_ids(tmp_path)[2:])
    severe = 0
    with anyio.fail_after(20):
        async with memfin.Evaluation(**settings) as evaluation:
            async for event in evaluation.subscribe(kinds=(DialogScored,)):
                severe += sum(row.pred_compliance_label == "severe_violation" for row in event.rows)
                if severe >= 3:
                    await evaluation.stop(within=0.5)
            events = await all_of(evaluation)
    assert severe >= 3
    assert evaluation.summary is None
    assert isinstance(events[-1], RunInterrupted)
    monkeypatch.setattr(Guarantees, "silent", [])
    async with memfin.Evaluation.resume(tmp_path / "r", agent=Guarantees) as evaluation:
        scored = await all_of(evaluation.subscribe(DialogScored))
    assert 3 <= len(scored) < DIALOGS


async def test_the_iterator_stops_the_run(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guarantees, "silent", dialog_ids(tmp_path))
    with anyio.fail_after(20):
        async with memfin.Evaluation(**settings) as evaluation:
            async for event in evaluation:
                if isinstance(event, RunStarted):
                    await evaluation.stop(within=0.5)
    assert evaluation.summary is None


async def test_slow_and_dead_subscribers_lose_their_own_events_only(settings: Any) -> None:
    before = footprint()
    evaluation = memfin.Evaluation(**settings)
    slow, closed = evaluation.subscribe((TurnReplayed, DialogScored), buffer=2), evaluation.subscribe()
    prompt = evaluation.subscribe((TurnReplayed, DialogScored))

    async def dies() -> None:
        async for _ in evaluation.subscribe(buffer=1):
            raise ZeroDivisionError

    async with evaluation:
        dead = asyncio.create_task(dies())
        async with closed:
            await anext(closed)
        await evaluation.wait()
        with pytest.raises(ZeroDivisionError):
            await dead
    everything = await all_of(prompt)
    assert (len(everything), prompt.dropped) == (DIALOGS * (TURNS + 1), 0)
    assert slow.dropped == len(everything) - 2
    assert await all_of(slow) == everything[-2:]
    assert closed.dropped == 0
    assert len(await all_of(closed)) < len(everything)
    assert left_since(before) == NOTHING


def test_records_are_made_only_for_those_who_subscribe() -> None:
    subscribers = Subscribers()
    everything: Subscription[ProgressEvent] = subscribers.add(None, 1)
    assert not subscribers.wants(TurnReplayed)
    turns = subscribers.add((TurnReplayed,), 1)
    assert subscribers.wants(TurnReplayed)
    assert not subscribers.wants(DialogScored)
    del turns
    gc.collect()
    assert not subscribers.wants(TurnReplayed)
    assert subscribers.wants(DialogDone)
    del everything


@pytest.mark.parametrize("name", ["missing.jsonl", "data.jsonl"])
async def test_subscriptions_end_with_a_run_that_cannot_start(
    tmp_path: Path, settings: Any, name: str
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "turn_eval.jsonl").write_text("{}\n")
    settings["dataset"] = tmp_path / name
    evaluation = memfin.Evaluation(**settings)
    events = evaluation.subscribe()
    with anyio.fail_after(20):
        with pytest.raises(UsageError):
            await evaluation.complete()
        assert RunFinished not in map(type, await all_of(events))


async def test_a_benchmark_has_subscribers_too(tmp_path: Path) -> None:
    async with memfin.BenchEvaluation(rag="oracle", limit=2, runs_dir=tmp_path) as evaluation:
        events = await all_of(evaluation.subscribe(QuestionDone))
    assert len(events) == 2


@pytest.mark.parametrize("kinds", [(TurnDone, int), "turn_done", ProgressEvent])
def test_other_classes_are_refused(kinds: Any) -> None:
    with pytest.raises(UsageError, match=r"^kinds: .* is no event; give classes of memfin.contracts: Dialog"):
        memfin.Evaluation().subscribe(kinds)


def test_a_buffer_holds_an_event() -> None:
    with pytest.raises(ValueError, match="one event at least"):
        memfin.Evaluation().subscribe(buffer=0)
