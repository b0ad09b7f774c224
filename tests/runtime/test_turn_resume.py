"""Turn-level resume: an interrupted dialogue goes on where it stopped, as if it never had."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from memfin.contracts import (
    DialogCheckpoint,
    DialogDone,
    DialogStarted,
    DialogTrace,
    JudgeRequest,
    ProgressEvent,
    RunResumed,
    TurnDone,
    Verdict,
    Warned,
)
from memfin.journal import DIALOG_TRACE
from memfin.journal.checkpoints import TURNS, CheckpointLog
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.support import dataset, read_jsonl

DIALOGS = 4
TURNS_EACH = 5
WORKERS = 2
SUMMARY = "metrics_summary.json"

asked: Counter[tuple[str, int]] = Counter()
limits: dict[str, int | None] = {"patience": None}


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()
    limits["patience"] = None


class Agent:
    """Answers from all it has heard, and falls silent when its patience, shared by all, is at an end."""

    def __init__(self, session: Any, observer: Any) -> None:
        self._name = session.dialog_id
        self._observer = observer
        self._heard: list[str] = []

    async def reply(self, user_text: str) -> str:
        self._heard.append(user_text)
        asked[self._name, len(self._heard)] += 1
        patience = limits["patience"]
        await (checkpoint() if patience is None or asked.total() <= patience else anyio.sleep_forever())
        self._observer.recall(short_term_context="\n".join(self._heard[:-1]), query=user_text)
        self._observer.tool(tool_name="count", args={"heard": len(self._heard)})
        self._observer.profile(risk_level="medium", max_acceptable_loss=0.1 + len(self._heard) / 30)
        return f"{self._name}-{len(self._heard)}：根据公开数据，市场存在不确定性，仅供参考。"


class Keeping(Agent):
    """With snapshots."""

    broken: Exception | None = None

    def snapshot(self) -> bytes:
        return msgspec.json.encode(self._heard)

    def restore(self, state: bytes) -> None:
        if self.broken is not None:
            raise self.broken
        self._heard = msgspec.json.decode(state)


class Judge:
    async def judge(self, request: JudgeRequest) -> Verdict:
        return Verdict(score=1 + len(request.reply) % 4, rubric_items=["信息依据"])


class OtherJudge(Judge):
    """Judges alike, by another name."""


def plan(folder: Path, name: str, agent: Any = Keeping, **settings: Any) -> RunPlan:
    defaults: dict[str, Any] = {"fsync_interval": 0, "workers_dialog": WORKERS, "judge": Judge}
    settings = defaults | settings
    return make_plan(folder / "data.jsonl", agent=agent, runs_dir=folder / name, run_id="r", **settings)


def again(folder: Path, name: str = "runs", agent: Any = Keeping, **settings: Any) -> RunPlan:
    given: dict[str, Any] = {"judge": Judge} | settings
    return make_resume_plan(folder / name / "r", agent=agent, **given)


def spoken(folder: Path, name: str = "runs") -> list[DialogTrace]:
    """Return the traces without what a clock or the order of dialogues decides."""
    return [
        trace.replace(worker_id=None, turns=[turn.replace(latency_ms=None) for turn in trace.turns])
        for trace in sorted(
            (msgspec.convert(line, DialogTrace) for line in read_jsonl(folder / name / "r" / DIALOG_TRACE)),
            key=lambda trace: trace.dataset_index,
        )
    ]


async def whole(folder: Path, agent: Any = Keeping, **settings: Any) -> bytes:
    dataset(folder / "data.jsonl", DIALOGS, TURNS_EACH)
    await Run(plan(folder, "whole", agent, **settings)).run()
    asked.clear()
    return (folder / "whole" / "r" / SUMMARY).read_bytes()


def lines(path: Path) -> list[bytes]:
    """Return the lines of a file that is being written, as far as they are complete."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def recorded(run: Path) -> Counter[str]:
    """Return how many turns the turn log holds of each dialogue."""
    found: Counter[str] = Counter()
    for line in lines(run / TURNS):
        record = msgspec.json.decode(line, type=DialogCheckpoint)
        found[record.dialog_id] = record.turns_before + len(record.turns)
    return found


async def stopped(made: RunPlan, done: Callable[[], bool], patience: int | None = None) -> None:
    """Run the plan and cancel it when something is the case."""
    limits["patience"] = patience
    run = Run(made)
    async with anyio.create_task_group() as group:
        group.start_soon(run.run)
        with anyio.fail_after(30):
            while not done():  # noqa: ASYNC110 - the disk sets no event
                await anyio.sleep(0.002)
        group.cancel_scope.cancel()
    assert run.summary is None
    limits["patience"] = None
    asked.clear()


def open_turns(folder: Path) -> Counter[str]:
    """Return how many turns are committed of each dialogue that is not complete."""
    return turns_besides(folder, {trace["dialog_id"] for trace in traces_of(folder / "runs" / "r")})


def turns_besides(folder: Path, done: set[str]) -> Counter[str]:
    """Return how many turns are committed of each dialogue but those."""
    found = recorded(folder / "runs" / "r")
    return Counter({name: count for name, count in found.items() if name not in done})


def traces_of(run: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in lines(run / DIALOG_TRACE)]


def progress(folder: Path) -> int:
    """Return how many turns are committed."""
    # One look at the traces: a dialogue that is completed meanwhile must not count twice.
    done = {trace["dialog_id"] for trace in traces_of(folder / "runs" / "r")}
    return turns_besides(folder, done).total() + TURNS_EACH * len(done)


async def stop_at(folder: Path, turns: int, agent: Any = Keeping, **settings: Any) -> Counter[str]:
    """Stop a run when so many turns are answered and committed; return how many of each open dialogue."""
    made = plan(folder, "runs", agent, **settings)
    await stopped(made, lambda: progress(folder) >= turns, patience=turns)
    return open_turns(folder)


@pytest.mark.parametrize(
    ("turns", "history"),
    [(turns, ("free", "forced")[turns // 2 % 2]) for turns in range(1, DIALOGS * TURNS_EACH, 2)],
)
async def test_an_interrupted_dialogue_goes_on_at_the_turn_where_it_stopped(
    tmp_path: Path, turns: int, history: str
) -> None:
    class Committing(Keeping):
        async def commit(self, assistant_text: str) -> None:
            self._heard[-1] += assistant_text

    expected = await whole(tmp_path, Committing, history=history)
    begun = await stop_at(tmp_path, turns, Committing, history=history)
    events: list[ProgressEvent] = []
    await Run(again(tmp_path, agent=Committing), events.append).run()
    assert (tmp_path / "runs" / "r" / SUMMARY).read_bytes() == expected
    assert spoken(tmp_path) == spoken(tmp_path, "whole")
    assert asked.total() == DIALOGS * TURNS_EACH - turns
    assert max(asked.values()) == 1
    assert not [(name, turn) for name, turn in asked if turn <= begun[name]]
    assert isinstance(first := events[0], RunResumed)
    assert first.dialogs_begun == len(begun)
    started = {event.dialog_id: event.first_turn for event in events if isinstance(event, DialogStarted)}
    assert {name: turn for name, turn in started.items() if turn > 1} == {
        name: count + 1 for name, count in begun.items()
    }
    assert sum(isinstance(event, TurnDone) for event in events) == DIALOGS * TURNS_EACH - turns
    assert not [event for event in events if isinstance(event, Warned)]
    assert not (tmp_path / "runs" / "r" / TURNS).exists()
    assert list(validate_run(tmp_path / "runs" / "r")) == []


async def test_a_dialogue_that_is_stopped_at_every_turn_comes_to_the_same_end(tmp_path: Path) -> None:
    expected = await whole(tmp_path)
    await stop_at(tmp_path, 1)
    for turns in range(2, DIALOGS * TURNS_EACH):
        await stopped(again(tmp_path), lambda turns=turns: progress(tmp_path) >= turns, patience=1)  # type: ignore[misc]
        assert progress(tmp_path) == turns
    await Run(again(tmp_path)).run()
    assert asked.total() == 1
    assert (tmp_path / "runs" / "r" / SUMMARY).read_bytes() == expected
    assert spoken(tmp_path) == spoken(tmp_path, "whole")


async def test_an_agent_without_snapshots_writes_nothing_and_starts_again(tmp_path: Path) -> None:
    expected = await whole(tmp_path, Agent)
    run = tmp_path / "runs" / "r"
    await stopped(
        plan(tmp_path, "runs", Agent), lambda: asked.total() > TURNS_EACH + 2, patience=TURNS_EACH + 2
    )
    assert not (run / TURNS).exists()
    events: list[ProgressEvent] = []
    await Run(again(tmp_path, agent=Agent), events.append).run()
    assert (run / SUMMARY).read_bytes() == expected
    assert {event.first_turn for event in events if isinstance(event, DialogStarted)} == {1}
    assert isinstance(events[0], RunResumed)
    assert events[0].dialogs_begun == 0


async def test_a_dialogue_that_is_complete_within_a_group_writes_no_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append(*arguments: object) -> None:
        raise AssertionError("written")

    dataset(tmp_path / "data.jsonl", 2, TURNS_EACH)
    monkeypatch.setattr(CheckpointLog, "append", append)
    await Run(plan(tmp_path, "runs", fsync_interval=1.0)).run()
    assert len(traces_of(tmp_path / "runs" / "r")) == 2


async def test_an_agent_that_refuses_its_snapshot_starts_again_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await whole(tmp_path)
    begun = await stop_at(tmp_path, 3)
    monkeypatch.setattr(Keeping, "broken", ValueError("of another version"))
    events: list[ProgressEvent] = []
    await Run(again(tmp_path), events.append).run()
    assert (tmp_path / "runs" / "r" / SUMMARY).read_bytes() == expected
    assert {event.first_turn for event in events if isinstance(event, DialogStarted)} == {1}
    warned = {event.dialog_id: event.message for event in events if isinstance(event, Warned)}
    assert set(warned) == set(begun)
    for message in warned.values():
        assert message.endswith("so the dialogue restarts: ValueError: of another version")


async def test_an_agent_whose_snapshots_fail_goes_on_and_says_so(tmp_path: Path) -> None:
    class Failing(Keeping):
        def snapshot(self) -> bytes:
            raise OSError("no room")

    expected = await whole(tmp_path, Agent)
    events: list[ProgressEvent] = []
    await Run(plan(tmp_path, "runs", Failing), events.append).run()
    metrics = [
        msgspec.json.decode(each)["metrics"]
        for each in (expected, (tmp_path / "runs" / "r" / SUMMARY).read_bytes())
    ]
    assert metrics[0] == metrics[1]
    warned = [event.message for event in events if isinstance(event, Warned)]
    assert len(warned) == DIALOGS
    assert all(message.endswith("so an interruption loses turns: OSError: no room") for message in warned)


async def test_a_turn_log_that_is_damaged_costs_turns_and_a_warning(tmp_path: Path) -> None:
    expected = await whole(tmp_path)
    begun = await stop_at(tmp_path, 4)
    path = tmp_path / "runs" / "r" / TURNS
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    assert [str(finding) for finding in validate_run(path.parent)] == [
        f"{path}:1: $: the line is not as it was written; its dialogue continues from an earlier turn"
    ]
    events: list[ProgressEvent] = []
    await Run(again(tmp_path), events.append).run()
    assert (tmp_path / "runs" / "r" / SUMMARY).read_bytes() == expected
    assert [event.message for event in events if isinstance(event, Warned)] == [
        f"{TURNS}: offset 0: a damaged line; its dialogue continues from an earlier turn"
    ]
    assert asked.total() > DIALOGS * TURNS_EACH - begun.total()


async def test_what_another_judge_or_agent_would_go_on_with_starts_again(tmp_path: Path) -> None:
    await whole(tmp_path)
    begun = await stop_at(tmp_path, 3)
    assert begun
    events: list[ProgressEvent] = []
    await Run(again(tmp_path, judge=OtherJudge, force=True), events.append).run()
    assert {event.first_turn for event in events if isinstance(event, DialogStarted)} == {1}
    assert spoken(tmp_path) == spoken(tmp_path, "whole")


async def test_a_dialogue_that_is_replayed_again_starts_from_the_beginning(tmp_path: Path) -> None:
    class Failing(Keeping):
        fails = True

        async def reply(self, user_text: str) -> str:
            said = await super().reply(user_text)
            if self.fails and self._name == "d0001" and len(self._heard) == TURNS_EACH:
                while "d0001" not in recorded(tmp_path / "runs" / "r"):  # noqa: ASYNC110 - as above
                    await anyio.sleep(0.002)
                raise ValueError("fails")
            return said

    expected = await whole(tmp_path, Keeping)
    # d0001 is done, and its turns are still in the file, since other dialogues are under way.
    done: set[str] = set()
    limits["patience"] = 2 * TURNS_EACH + 3
    run = Run(
        plan(tmp_path, "runs", Failing),
        lambda event: done.update([event.dialog_id] if isinstance(event, DialogDone) else []),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(run.run)
        with anyio.fail_after(30):
            while not ("d0001" in done and asked.total() > 2 * TURNS_EACH + 3):  # noqa: ASYNC110 - as above
                await anyio.sleep(0.002)
        group.cancel_scope.cancel()
    assert "d0001" in recorded(tmp_path / "runs" / "r")
    asked.clear()
    limits["patience"] = None
    Failing.fails = False
    await Run(again(tmp_path, agent=Failing, retry_failed=True)).run()
    assert [asked["d0001", turn] for turn in range(1, TURNS_EACH + 1)] == [1] * TURNS_EACH
    metrics = [
        msgspec.json.decode(each)["metrics"]
        for each in (expected, (tmp_path / "runs" / "r" / SUMMARY).read_bytes())
    ]
    assert metrics[0] == metrics[1]
