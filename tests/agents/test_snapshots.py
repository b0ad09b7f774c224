"""Snapshots: a dialogue that goes on from one is the one that never stopped; without one nothing is lost."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from memfin.agents import calls as agent_calls
from memfin.agents import replay as replay_module
from memfin.agents.builtin.memory import STATE_VERSION
from memfin.agents.http.client import HttpAgent
from memfin.agents.openai.agent import OpenAIAgent
from memfin.agents.registry import resolve_agent
from memfin.agents.replay import Replay, ReplayOptions, replay_dialog
from memfin.contracts import Dialog, DialogCheckpoint, DialogTrace, HistoryMode, TurnTrace
from memfin.dataset import SAMPLE, normalize_dialog, read_entries
from memfin.sandbox import calls as foreign_calls
from tests.support import dialog, length

LONG = 20.0
SHORT = 0.02


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_calls, "CANCEL_GRACE", SHORT)
    monkeypatch.setattr(replay_module, "FIRST_BACKOFF", 0.0)
    monkeypatch.setattr(replay_module, "SNAPSHOT_LIMIT", 5 * SHORT)


def sample() -> list[Dialog]:
    with SAMPLE.open("rb") as file:
        return [entry.dialog for entry in read_entries(file) if entry.dialog is not None]


TALK = normalize_dialog(dialog("d", 4))


class Told:
    """A replay with what it told while it went on."""

    def __init__(self) -> None:
        self.begun: list[DialogCheckpoint] = []
        self.turns: list[TurnTrace] = []
        self.resumed: list[tuple[int, str | None]] = []
        self.replay: Replay | None = None

    @property
    def trace(self) -> DialogTrace:
        assert self.replay is not None
        return self.replay.trace


async def replay(
    factory: Callable[..., Any],
    talk: Dialog = TALK,
    begun: DialogCheckpoint | None = None,
    history: HistoryMode = "free",
    limit: float = LONG,
) -> Told:
    told = Told()

    async def on_turn(turn: TurnTrace) -> None:
        told.turns.append(turn)

    async def on_begun(now: DialogCheckpoint) -> None:
        told.begun.append(msgspec.json.decode(msgspec.json.encode(now), type=DialogCheckpoint))

    async def on_resume(turns: Sequence[TurnTrace], refused: str | None) -> None:
        told.resumed.append((len(turns), refused))

    told.replay = await replay_dialog(
        talk,
        1,
        factory,
        ReplayOptions(run_id="r", history=history, turn_timeout=limit),
        worker_id=0,
        on_turn=on_turn,
        on_begun=on_begun,
        begun=begun,
        on_resume=on_resume if begun is not None else None,
    )
    return told


def without_times(trace: DialogTrace) -> bytes:
    """Return the trace's bytes without what a clock decides."""
    turns = [
        turn.replace(latency_ms=None, tools=[tool.replace(latency_ms=None) for tool in turn.tools])
        for turn in trace.turns
    ]
    return msgspec.json.encode(trace.replace(turns=turns))


@pytest.mark.parametrize("history", ["free", "forced"])
@pytest.mark.parametrize("agent", ["builtin", "oracle"])
async def test_every_turn_of_the_sample_can_be_the_one_to_go_on_at(agent: str, history: HistoryMode) -> None:
    source = resolve_agent(agent)
    for talk in sample()[:: length(4, 1)]:
        whole = await replay(source.factory_for(talk), talk, history=history)
        pairs = len(talk.turns) // 2
        assert [len(begun.turns) for begun in whole.begun] == list(range(1, pairs + 1))
        for begun in whole.begun:
            rest = await replay(source.factory_for(talk), talk, begun, history)
            assert rest.resumed == [(len(begun.turns), None)]
            assert [turn.turn_pair_id for turn in rest.turns] == list(range(len(begun.turns) + 1, pairs + 1))
            assert without_times(rest.trace) == without_times(whole.trace)
            assert rest.trace.turns[: len(begun.turns)] == whole.trace.turns[: len(begun.turns)]


class Remembering:
    """Answers with everything it was asked so far."""

    made = 0
    closed = 0
    asked: list[str] = []

    def __init__(self, session: Any, observer: Any) -> None:
        type(self).made += 1
        self.heard: list[str] = []

    async def reply(self, user_text: str) -> str:
        self.asked.append(user_text)
        self.heard.append(user_text[-5:])
        return "、".join(self.heard)

    async def close(self) -> None:
        type(self).closed += 1

    def snapshot(self) -> Any:
        return msgspec.json.encode(self.heard)

    def restore(self, state: bytes) -> None:
        self.heard = msgspec.json.decode(state)


@pytest.fixture(autouse=True)
def fresh_notebook() -> None:
    Remembering.made = Remembering.closed = 0
    Remembering.asked = []


async def test_turns_that_are_known_are_not_asked_again() -> None:
    whole = await replay(Remembering)
    Remembering.asked = []
    rest = await replay(Remembering, begun=whole.begun[2])
    assert len(Remembering.asked) == 1
    assert rest.trace.turns[3].pred_assistant_text == whole.trace.turns[3].pred_assistant_text
    nothing_left = await replay(Remembering, begun=whole.begun[3])
    assert len(Remembering.asked) == 1
    assert Remembering.made == Remembering.closed == 2
    assert nothing_left.trace.turns == whole.trace.turns


async def test_agents_whose_methods_are_coroutines_are_asked_on_the_loop() -> None:
    class OnLoop(Remembering):
        threads: set[int] = set()

        async def snapshot(self) -> bytes:
            self.threads.add(threading.get_ident())
            await asyncio.sleep(0)
            return msgspec.json.encode(self.heard)

        async def restore(self, state: bytes) -> None:  # type: ignore[override] # as an agent may
            self.threads.add(threading.get_ident())
            self.heard = msgspec.json.decode(state)

    whole = await replay(OnLoop)
    rest = await replay(OnLoop, begun=whole.begun[1])
    assert without_times(rest.trace) == without_times(whole.trace)
    assert OnLoop.threads == {threading.get_ident()}


async def test_a_failed_turn_is_known_with_the_next_answered_one() -> None:
    class Failing(Remembering):
        async def reply(self, user_text: str) -> str:
            said = await super().reply(user_text)
            if len(self.heard) == 2:
                raise ValueError("fails")
            return said

    whole = await replay(Failing)
    assert [len(begun.turns) for begun in whole.begun] == [1, 3, 4]
    assert [turn.turn_status for turn in whole.begun[1].turns] == ["ok", "error", "ok"]
    for begun in whole.begun:
        assert without_times((await replay(Failing, begun=begun)).trace) == without_times(whole.trace)


async def test_what_a_dialogue_took_before_counts() -> None:
    class Lossy(Remembering):
        lost = 1

        async def reply(self, user_text: str) -> str:
            if self.lost:
                self.lost -= 1
                raise ConnectionError("reset")
            return await super().reply(user_text)

    whole = await replay(Lossy)
    rest = await replay(Lossy, begun=whole.begun[2].replace(abandoned=5, late_observations=7))
    assert rest.replay is not None
    assert (rest.replay.retries, rest.replay.abandoned, rest.replay.late_observations) == (2, 5, 7)


class Hang(Exception):  # noqa: N818 - names what it stands for
    """Instead of an answer."""


class Faulty(Remembering):
    """Gives one good snapshot; then what ``answer`` is, raised or returned, or nothing for long."""

    answer: Any
    released: threading.Event
    snapshots = 0

    def _take(self) -> Any:
        type(self).snapshots += 1
        if len(self.heard) < 2:
            return super().snapshot()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class FaultyOnLoop(Faulty):
    async def snapshot(self) -> Any:
        if len(self.heard) >= 2 and isinstance(self.answer, Hang):
            type(self).snapshots += 1
            await asyncio.sleep(LONG)
        return self._take()


class FaultyInThread(Faulty):
    def snapshot(self) -> Any:
        if len(self.heard) >= 2 and isinstance(self.answer, Hang):
            self.released.wait(LONG)
        return self._take()

    def reply(self, user_text: str) -> str:  # type: ignore[override] # as an agent may
        self.heard.append(user_text[-5:])
        return "、".join(self.heard)


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ValueError("out of order"), "ValueError: out of order"),
        (Hang(), "no answer within"),
        (None, "snapshot returned None; expected bytes"),
        ("text", "snapshot returned an object of type str; expected bytes"),
        (bytes(agent_calls.MAX_SNAPSHOT_BYTES + 1), "at most 4194304 are kept"),
        (SystemExit(3), "the agent called sys.exit(3)"),
        (ConnectionError("gone"), "ConnectionError: gone"),
    ],
    ids=["raises", "hangs", "none", "text", "too large", "exits", "connection"],
)
async def test_a_snapshot_that_cannot_be_had_costs_nothing_but_itself(
    asynchronous: bool, answer: Any, told: str
) -> None:
    base = FaultyOnLoop if asynchronous else FaultyInThread
    released = threading.Event()
    agent: Any = type("Agent", (base,), {"answer": answer, "released": released})
    found = await replay(agent)
    hangs_in_thread = isinstance(answer, Hang) and not asynchronous
    asked = agent.snapshots
    released.set()
    assert [turn.turn_status for turn in found.trace.turns] == ["ok"] * 4
    assert [len(begun.turns) for begun in found.begun] == [1]
    assert asked == (1 if hangs_in_thread else 2)  # the one that failed, which still hangs, was the last
    assert found.replay is not None
    assert told in (found.replay.snapshot_error or "")
    assert found.replay.abandoned == hangs_in_thread


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (ValueError("of another version"), "ValueError: of another version"),
        (Hang(), "no answer within"),
        (None, "it has no snapshot and restore methods any more"),
    ],
    ids=["raises", "hangs", "is gone"],
)
async def test_an_agent_that_cannot_be_restored_starts_again(problem: Exception | None, told: str) -> None:
    whole = await replay(Remembering)

    class Changed(Remembering):
        async def restore(self, state: bytes) -> None:  # type: ignore[override] # as an agent may
            self.heard = ["half", "restored"]
            if isinstance(problem, Hang):
                await asyncio.sleep(LONG)
            elif problem is not None:
                raise problem

    if problem is None:
        Changed.restore = None  # type: ignore[method-assign, assignment] # as in an agent without
    Changed.made = Changed.closed = 0
    again = await replay(Changed, begun=whole.begun[2], limit=10 * SHORT)
    assert [turns for turns, _ in again.resumed] == [0]
    assert told in (again.resumed[0][1] or "")
    assert len(again.turns) == 4
    assert without_times(again.trace) == without_times(whole.trace)
    assert (Changed.made, Changed.closed) == (2, 2)


async def test_an_agent_that_cannot_be_made_again_keeps_the_turns_that_are_known() -> None:
    whole = await replay(Remembering)

    def broken(session: Any, observer: Any) -> None:
        raise OSError("no licence")

    rest = await replay(broken, begun=whole.begun[1])
    assert [turn.turn_status for turn in rest.trace.turns] == ["ok", "ok", "error", "error"]
    assert rest.trace.dialog_error == "agent could not be created: OSError: no licence"


async def test_agents_without_both_methods_are_not_asked_for_snapshots() -> None:
    class Half:
        def __init__(self, session: Any, observer: Any) -> None:
            pass

        async def reply(self, user_text: str) -> str:
            return "yes"

        def snapshot(self) -> bytes:
            raise AssertionError("asked")

    found = await replay(Half)
    assert found.begun == []
    assert found.replay is not None
    assert found.replay.snapshot_error is None


async def test_nobody_who_keeps_snapshots_means_none_is_taken() -> None:
    class Asked(Remembering):
        def snapshot(self) -> bytes:
            raise AssertionError("asked")

    result = await replay_dialog(TALK, 1, Asked, ReplayOptions(run_id="r"))
    assert result.snapshot_error is None


def test_agents_over_the_wire_have_no_snapshots() -> None:
    for agent in (HttpAgent, OpenAIAgent):
        assert not hasattr(agent, "snapshot")


async def test_snapshots_of_the_builtin_agent_are_data_with_a_version() -> None:
    (talk, *_) = sample()
    told = await replay(resolve_agent("builtin").factory_for(talk), talk)
    states = [msgspec.msgpack.decode(begun.snapshot) for begun in told.begun]
    assert {state["version"] for state in states} == {STATE_VERSION}
    assert all(len(later["exchanges"]) > len(earlier["exchanges"]) for earlier, later in pairwise(states))
    state = states[0]
    state["version"] = STATE_VERSION + 1
    other = told.begun[0].replace(snapshot=msgspec.msgpack.encode(state))
    again = await replay(resolve_agent("builtin").factory_for(talk), talk, other)
    assert [turns for turns, _ in again.resumed] == [0]
    assert f"version {STATE_VERSION + 1}, not {STATE_VERSION}" in (again.resumed[0][1] or "")
    assert without_times(again.trace) == without_times(told.trace)


async def test_an_agent_that_is_made_after_the_wait_for_it_has_ended_is_closed() -> None:
    making, go_on = threading.Event(), threading.Event()

    def slow(session: Any, observer: Any) -> Remembering:
        making.set()
        go_on.wait(LONG)
        return Remembering(session, observer)

    task = asyncio.create_task(replay(slow))
    await asyncio.to_thread(making.wait, LONG)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (Remembering.made, Remembering.closed) == (1, 1)
