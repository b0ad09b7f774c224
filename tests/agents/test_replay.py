"""Replay of a dialogue: turns in order, every failure marked on its turn, nothing of the truth given away."""

import asyncio
import itertools
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from memfin.agents import replay as replay_module
from memfin.agents.calls import AgentCalls, TransportError
from memfin.agents.observer import Observed, TurnObserver
from memfin.agents.protocol import AgentReply, Session
from memfin.agents.replay import (
    HistoryUnsupportedError,
    Replay,
    ReplayOptions,
    build_turn_trace,
    dialog_status,
    open_session,
    replay_dialog,
)
from memfin.contracts import (
    ComplianceTrace,
    Dialog,
    DialogTrace,
    ProfileTruth,
    RecallTrace,
    ToolTrace,
    TurnPair,
    TurnTags,
    TurnTrace,
)
from memfin.contracts.reading import decode
from memfin.dataset import normalize_dialog
from memfin.sandbox import calls as calls_module
from memfin.sandbox.calls import CallFailed
from tests.support import each_case

LONG = 20.0
SHORT = 0.02


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "CANCEL_GRACE", SHORT)
    monkeypatch.setattr(replay_module, "FIRST_BACKOFF", 0.0)


def dialog(pairs: int = 3, **changes: Any) -> Dialog:
    turns: list[dict[str, Any]] = []
    for number in range(1, pairs + 1):
        turns += [
            {"role": "user", "text": f"question {number}"},
            {
                "role": "assistant",
                "text": f"reference {number}",
                "turn_tags": {"memory_required_keys_gt": [f"secret key {number}"]},
            },
        ]
    return normalize_dialog(
        {
            "dialog_id": "d",
            "profile_gt": {"risk_level_gt": "secret level", "constraints_gt": ["secret constraint"]},
            "turns": turns,
            "scenario_type": "s",
            "difficulty": "hard",
            "language": "en",
        }
        | changes
    )


class Agent:
    """Answers ``answer N``; subclasses change one thing."""

    def __init__(self, session: Session, observer: TurnObserver) -> None:
        self.session = session
        self.observer = observer
        self.asked: list[str] = []

    async def reply(self, user_text: str) -> Any:
        self.asked.append(user_text)
        return f"answer {len(self.asked)}"


async def replay(factory: Callable[..., Any], the_dialog: Dialog | None = None, **options: Any) -> Replay:
    settings: dict[str, Any] = {"turn_timeout": LONG} | options
    result = await replay_dialog(
        the_dialog or dialog(),
        7,
        factory,
        ReplayOptions(run_id="r", **settings),
        worker_id=2,
    )
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("memfin agent")] == []
    assert decode(msgspec.json.encode(result.trace), DialogTrace) == result.trace
    return result


def outcomes(result: Replay) -> list[tuple[str, str | None]]:
    return [(turn.turn_status, turn.error) for turn in result.trace.turns]


def statuses(result: Replay) -> tuple[str, list[str]]:
    return result.trace.dialog_status, [turn.turn_status for turn in result.trace.turns]


async def test_the_trace_tells_what_was_asked_answered_and_expected() -> None:
    result = await replay(Agent)
    trace = result.trace
    assert (trace.trace_version, trace.run_id, trace.dialog_id, trace.dataset_index) == ("v1", "r", "d", 7)
    assert (trace.scenario_type, trace.difficulty, trace.worker_id) == ("s", "hard", 2)
    assert (trace.dialog_status, trace.valid_dialog, trace.skip_reason, trace.dialog_error) == (
        "ok",
        True,
        None,
        None,
    )
    assert [
        (
            turn.turn_pair_id,
            turn.user_turn_abs_idx,
            turn.gt_assistant_abs_idx,
            turn.user_text,
            turn.gt_assistant_text,
            turn.gt_turn_tags.memory_required_keys_gt,
            turn.pred_assistant_text,
            turn.error,
        )
        for turn in trace.turns
    ] == [
        (n, 2 * n - 2, 2 * n - 1, f"question {n}", f"reference {n}", [f"secret key {n}"], f"answer {n}", None)
        for n in (1, 2, 3)
    ]
    assert all(turn.latency_ms is not None and 0 <= turn.latency_ms < 1000 * LONG for turn in trace.turns)
    assert (result.retries, result.abandoned, result.late_observations) == (0, 0, 0)


async def test_turns_are_asked_one_after_another_and_reported_as_they_come() -> None:
    story: list[str] = []

    class Noting(Agent):
        async def reply(self, user_text: str) -> str:
            story.append(f"> {user_text}")
            await asyncio.sleep(0)
            story.append(f"< {user_text}")
            return user_text

    async def on_turn(turn: TurnTrace) -> None:
        story.append(f"= {turn.user_text}")

    await replay_dialog(dialog(2), 1, Noting, ReplayOptions(run_id="r"), on_turn=on_turn)
    assert story == [f"{mark} question {n}" for n in (1, 2) for mark in "><="]


# --- what the agent is given


async def test_the_agent_is_given_nothing_of_the_ground_truth() -> None:
    given: list[object] = []

    class Curious(Agent):
        def __init__(self, session: Session, observer: TurnObserver) -> None:
            super().__init__(session, observer)
            given.append(msgspec.to_builtins(session))
            given.append(vars(observer))

        async def reply(self, user_text: str) -> str:
            given.extend((user_text, dict(vars(self.observer))))
            return "a"

        async def commit(self, assistant_text: str) -> None:
            given.append(assistant_text)

    await replay(Curious)
    assert "secret" not in repr(given)
    assert "reference" not in repr(given)
    assert set(Session.__struct_fields__) == {
        "run_id",
        "dialog_id",
        "session_id",
        "user_id",
        "language",
        "history_mode",
        "seed",
        "session_index",
        "now",
        "carried",
    }


def test_session_and_user_ids_belong_to_one_run_and_one_dialogue() -> None:
    sessions = [
        open_session(dialog(dialog_id=name), ReplayOptions(run_id=run))
        for run, name in itertools.product(("r1", "r2"), ("d1", "d2"))
    ]
    assert len({session.session_id for session in sessions}) == 4
    client = dialog(dialog_id="d3").replace(user_id="d1")
    sessions.append(open_session(client, ReplayOptions(run_id="r1")))
    assert len({session.user_id for session in sessions}) == 5


def test_the_session_knows_language_and_history_mode() -> None:
    session = open_session(dialog(), ReplayOptions(run_id="r", history="forced"))
    assert (session.run_id, session.dialog_id, session.language, session.history_mode) == (
        "r",
        "d",
        "en",
        "forced",
    )


async def test_the_trace_carries_the_ids_of_the_session() -> None:
    sessions: list[Session] = []

    class Remembering(Agent):
        def __init__(self, session: Session, observer: TurnObserver) -> None:
            super().__init__(session, observer)
            sessions.append(session)

    traces = [(await replay(Remembering, dialog(dialog_id=name))).trace for name in ("a", "b")]
    assert [(trace.session_id, trace.user_id) for trace in traces] == [
        (session.session_id, session.user_id) for session in sessions
    ]


# --- status


def turns_of(*states: str) -> list[TurnTrace]:
    pair = TurnPair(
        turn_pair_id=1,
        user_turn_abs_idx=0,
        gt_assistant_abs_idx=1,
        user_text="",
        gt_assistant_text="",
        gt_turn_tags=TurnTags(),
    )
    return [build_turn_trace(pair, None, Observed(), None, state) for state in states]  # type: ignore[arg-type]


@each_case(
    ("states", "status"),
    [
        (["ok", "ok"], "ok"),
        (["ok", "error"], "partial"),
        (["timeout", "ok"], "partial"),
        (["error", "timeout"], "failed"),
        (["error"], "failed"),
        (["timeout"], "failed"),
    ],
)
def test_a_dialogue_is_ok_partial_or_failed_by_its_turns(states: list[str], status: str) -> None:
    assert dialog_status(turns_of(*states)) == status


def failing_at(number: int, act: Callable[[], Any]) -> type[Agent]:
    class Failing(Agent):
        async def reply(self, user_text: str) -> Any:
            answer = await super().reply(user_text)
            return await act() if len(self.asked) == number else answer

    return Failing


async def raises() -> None:
    raise ValueError("broken\nhere")


async def returns_none() -> None:
    return None


async def hangs() -> None:
    await asyncio.sleep(LONG)


async def swallows() -> None:
    while True:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            continue


async def exits() -> None:
    raise SystemExit(4)


async def raises_group() -> None:
    raise BaseExceptionGroup("many", [KeyboardInterrupt()])


async def raises_failure() -> None:
    raise CallFailed("my own\n\ud800")


@pytest.mark.parametrize(
    ("act", "status", "error"),
    [
        (raises, "error", "ValueError: broken here"),
        (returns_none, "error", "the agent returned None; expected str or AgentReply"),
        (hangs, "timeout", "no answer within 0.05 s"),
        (swallows, "timeout", "no answer within 0.05 s"),
        (exits, "error", "the agent called sys.exit(4)"),
        (raises_group, "error", "BaseExceptionGroup: many (1 sub-exception)"),
        (raises_failure, "error", "my own ⟨U+D800⟩"),
    ],
)
async def test_a_failed_turn_is_marked_and_the_dialogue_goes_on(
    act: Callable[[], Any], status: str, error: str
) -> None:
    result = await replay(failing_at(2, act), turn_timeout=0.05)
    assert outcomes(result) == [("ok", None), (status, error), ("ok", None)]
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["answer 1", None, "answer 3"]
    assert result.trace.dialog_status == "partial"
    assert result.abandoned == (act is swallows)


async def test_a_plain_agent_that_hangs_delays_only_its_own_dialogue() -> None:
    release = threading.Event()

    class Plain:
        def __init__(self, session: Session, observer: TurnObserver) -> None:
            self.count = 0

        def reply(self, user_text: str) -> str:
            self.count += 1
            if self.count == 1:
                release.wait(LONG)
            return f"answer {self.count}"

    async def on_turn(turn: TurnTrace) -> None:
        if turn.turn_pair_id == 2:  # the second has waited for the first in vain
            release.set()

    options = ReplayOptions(run_id="r", turn_timeout=0.05)
    result = await replay_dialog(dialog(), 1, Plain, options, on_turn=on_turn)
    assert statuses(result) == ("partial", ["timeout", "timeout", "ok"])
    assert result.abandoned == 0


async def test_a_plain_agent_that_hangs_is_not_waited_for_a_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    commits: list[str] = []

    class Plain:
        def __init__(self, session: Session, observer: TurnObserver) -> None:
            pass

        def reply(self, user_text: str) -> str:
            release.wait(LONG)
            return user_text

        def commit(self, assistant_text: str) -> None:
            """Never reached: the thread is taken."""

    async def commit(self: AgentCalls, assistant_text: str, limit: float) -> None:
        commits.append(assistant_text)

    monkeypatch.setattr(AgentCalls, "commit", commit)
    result = await replay(Plain, dialog(1), history="forced", turn_timeout=0.05)
    release.set()
    assert (commits, outcomes(result)) == ([], [("timeout", "no answer within 0.05 s")])
    assert result.abandoned == 1


async def test_an_agent_that_blocks_the_loop_is_timed_out_though_it_answered() -> None:
    class Blocking(Agent):
        async def reply(self, user_text: str) -> str:
            time.sleep(0.06)  # noqa: ASYNC251 - that is the misdeed
            return "too late"

    result = await replay(Blocking, dialog(1), turn_timeout=0.05)
    assert statuses(result) == ("failed", ["timeout"])
    (turn,) = result.trace.turns
    assert turn.error is not None
    assert re.fullmatch(r"answered after \d+\.\d s, over the limit of 0\.05 s", turn.error)
    assert turn.pred_assistant_text == "too late"
    assert turn.latency_ms is not None
    assert turn.latency_ms >= 60


class HangsOnce(Agent):
    """Hangs in its second turn until ``release`` is set."""

    release = threading.Event()

    def reply(self, user_text: str) -> Any:
        self.asked.append(user_text)
        if len(self.asked) == 2:
            self.release.wait(LONG)
        return f"answer {len(self.asked)}"


async def test_a_plain_agent_that_hangs_costs_one_time_out_and_then_fails_fast() -> None:
    class Kind(HangsOnce):
        release = threading.Event()

    start = time.perf_counter()
    try:
        result = await replay(Kind, dialog(13), turn_timeout=1.0)
    finally:
        Kind.release.set()
    took = time.perf_counter() - start
    assert outcomes(result) == [
        ("ok", None),
        ("timeout", "no answer within 1 s"),
        *[("timeout", "the agent still hangs in turn 2")] * 11,
    ]
    assert result.abandoned == 1
    assert took < 8.0  # a time-out, eleven tenths of one, and the close; 12 if each turn waited in full


async def test_a_plain_agent_that_comes_back_is_asked_again() -> None:
    class Kind(HangsOnce):
        release = threading.Event()

    async def release_after_the_third(turn: TurnTrace) -> None:
        if turn.turn_pair_id == 3:
            Kind.release.set()

    result = await replay_dialog(
        dialog(5), 1, Kind, ReplayOptions(run_id="r", turn_timeout=4.0), on_turn=release_after_the_third
    )
    assert outcomes(result) == [
        ("ok", None),
        ("timeout", "no answer within 4 s"),
        ("timeout", "the agent still hangs in turn 2"),
        ("ok", None),
        ("ok", None),
    ]
    assert result.abandoned == 0


async def test_an_asynchronous_reply_does_not_wait_for_a_plain_method_that_hangs() -> None:
    release = threading.Event()

    class HangsInCommit(Agent):
        def commit(self, text: str) -> None:
            release.wait(LONG)

    try:
        result = await replay(HangsInCommit, dialog(3), turn_timeout=0.2)
    finally:
        release.set()
    assert [error for _, error in outcomes(result)] == ["commit: no answer within 0.2 s", None, None]


async def test_an_agent_that_cannot_be_created_fails_every_turn() -> None:
    def factory(session: Session, observer: TurnObserver) -> None:
        raise ImportError("no model")

    asked: list[TurnTrace] = []

    async def on_turn(turn: TurnTrace) -> None:
        asked.append(turn)

    result = await replay_dialog(dialog(2), 1, factory, ReplayOptions(run_id="r"), on_turn=on_turn)
    error = "agent could not be created: ImportError: no model"
    assert (result.trace.dialog_status, result.trace.dialog_error) == ("failed", error)
    assert outcomes(result) == [("error", error)] * 2
    assert asked == result.trace.turns
    assert [(turn.latency_ms, turn.pred_assistant_text) for turn in asked] == [(None, None)] * 2


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (lambda session, observer: None, "the factory returned None; expected an object with a reply method"),
        (lambda session: Agent, "TypeError"),
        (lambda session, observer: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda session, observer: (_ for _ in ()).throw(ConnectionError("down")), "ConnectionError: down"),
        (lambda session, observer: (_ for _ in ()).throw(SystemExit(2)), "the agent called sys.exit(2)"),
    ],
)
async def test_every_failure_of_a_factory_is_told(made: Callable[..., Any], error: str) -> None:
    result = await replay(made)
    assert result.trace.dialog_error is not None
    assert result.trace.dialog_error.startswith(f"agent could not be created: {error}")


# --- retries


class Transport(Agent):
    """Fails on its way ``failures`` times a turn."""

    failures = 2
    error: Exception = TransportError("429")

    def __init__(self, session: Session, observer: TurnObserver) -> None:
        super().__init__(session, observer)
        self.left = self.failures

    async def reply(self, user_text: str) -> Any:
        if self.left:
            self.left -= 1
            raise self.error
        self.left = self.failures
        return await super().reply(user_text)


@pytest.mark.parametrize("error", [TransportError("429"), ConnectionResetError("reset")])
async def test_transport_errors_are_retried(error: Exception) -> None:
    kind = type("Kind", (Transport,), {"error": error})
    result = await replay(kind, turn_retries=2)
    assert (statuses(result), result.retries) == (("ok", ["ok"] * 3), 6)


async def test_no_more_retries_than_allowed() -> None:
    result = await replay(Transport, dialog(1), turn_retries=1)
    assert (outcomes(result), result.retries) == ([("error", "TransportError: 429")], 1)
    result = await replay(Transport, dialog(1), turn_retries=0)
    assert (outcomes(result), result.retries) == ([("error", "TransportError: 429")], 0)


@pytest.mark.parametrize(
    "error", [ValueError("x"), OSError("x"), TimeoutError("x"), CallFailed("x"), RuntimeError("429")]
)
async def test_nothing_else_is_retried(error: Exception) -> None:
    kind = type("Kind", (Transport,), {"error": error, "failures": 1})
    result = await replay(kind, turn_retries=5)
    assert (result.retries, [status for status, _ in outcomes(result)]) == (0, ["error", "ok", "error"])


async def test_pauses_double_with_jitter_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    monkeypatch.setattr(replay_module, "FIRST_BACKOFF", 1.0)
    kind = type("Kind", (Transport,), {"failures": 8})
    result = await replay(kind, dialog(1), turn_retries=8, turn_timeout=1000.0)
    assert result.retries == len(pauses) == 8
    bounds = [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses, bounds, strict=True))
    assert len({pause / bound for pause, bound in zip(pauses, bounds, strict=True)}) > 1


async def test_no_pause_reaches_over_the_turns_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "FIRST_BACKOFF", 100.0)
    result = await replay(Transport, dialog(1), turn_timeout=2.0, turn_retries=5)
    assert (outcomes(result), result.retries) == ([("error", "TransportError: 429")], 0)


async def test_retries_share_the_turns_time() -> None:
    class Slow(Transport):
        async def reply(self, user_text: str) -> Any:
            if not self.left:
                await asyncio.sleep(LONG)
            return await super().reply(user_text)

    result = await replay(Slow, dialog(1), turn_timeout=0.1, turn_retries=5)
    assert (statuses(result), result.retries) == (("failed", ["timeout"]), 2)


# --- history


class Committing(Agent):
    def __init__(self, session: Session, observer: TurnObserver) -> None:
        super().__init__(session, observer)
        self.history: list[str] = []

    async def commit(self, assistant_text: str) -> None:
        self.history.append(assistant_text)


def kept(base: type[Committing] = Committing, **attributes: Any) -> tuple[type[Committing], list[Any]]:
    """Return a class of agents and the list that its instances put themselves into."""
    made: list[Any] = []

    class Kept(base):  # type: ignore[misc, valid-type]
        def __init__(self, session: Session, observer: TurnObserver) -> None:
            super().__init__(session, observer)
            made.append(self)

    for name, value in attributes.items():
        setattr(Kept, name, value)
    return Kept, made


async def test_free_history_commits_the_agents_own_replies() -> None:
    factory, made = kept()
    await replay(factory)
    assert made[0].history == ["answer 1", "answer 2", "answer 3"]


async def test_forced_history_commits_the_reference_replies() -> None:
    factory, made = kept()
    result = await replay(factory, history="forced")
    assert made[0].history == ["reference 1", "reference 2", "reference 3"]
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["answer 1", "answer 2", "answer 3"]


class FailingSecond(Committing):
    async def reply(self, user_text: str) -> Any:
        answer = await super().reply(user_text)
        if len(self.asked) == 2:
            raise ValueError("second")
        return answer


async def test_a_failed_turn_commits_nothing_in_free_mode() -> None:
    factory, made = kept(FailingSecond)
    await replay(factory)
    assert made[0].history == ["answer 1", "answer 3"]


async def test_a_failed_turn_still_commits_its_reference_in_forced_mode() -> None:
    factory, made = kept(FailingSecond)
    await replay(factory, history="forced")
    assert made[0].history == ["reference 1", "reference 2", "reference 3"]


async def test_an_answer_that_came_too_late_is_not_committed_in_free_mode() -> None:
    class Blocking(Committing):
        async def reply(self, user_text: str) -> Any:
            time.sleep(0.06)  # noqa: ASYNC251 - that is the misdeed
            return "late"

    factory, made = kept(Blocking)
    await replay(factory, dialog(1), turn_timeout=0.05)
    assert made[0].history == []


async def test_plain_agents_get_every_commit() -> None:
    committed: list[str] = []

    class Plain:
        def __init__(self, session: Session, observer: TurnObserver) -> None:
            self.count = 0

        def reply(self, user_text: str) -> str:
            return user_text

        def commit(self, text: str) -> None:
            committed.append(text)

    await replay(Plain, dialog(300), history="forced")
    assert committed == [f"reference {number}" for number in range(1, 301)]


async def test_forced_history_needs_commit() -> None:
    closed: list[bool] = []

    class NoCommit(Agent):
        async def close(self) -> None:
            closed.append(True)

    with pytest.raises(HistoryUnsupportedError, match="needs an agent with a commit method"):
        await replay(NoCommit, history="forced")
    assert closed == [True]


async def test_an_agent_without_commit_replays_in_free_mode() -> None:
    assert statuses(await replay(Agent)) == ("ok", ["ok"] * 3)


async def test_a_commit_that_fails_fails_its_turn() -> None:
    class BadCommit(Committing):
        async def commit(self, assistant_text: str) -> None:
            await super().commit(assistant_text)
            if len(self.history) == 2:
                raise ValueError("full")

    result = await replay(BadCommit)
    assert outcomes(result) == [("ok", None), ("error", "commit: ValueError: full"), ("ok", None)]
    assert result.trace.turns[1].pred_assistant_text == "answer 2"


async def test_a_commit_that_hangs_fails_its_turn() -> None:
    class HangingCommit(Committing):
        async def commit(self, assistant_text: str) -> None:
            await asyncio.sleep(LONG)

    result = await replay(HangingCommit, dialog(1), turn_timeout=0.05)
    assert outcomes(result) == [("error", "commit: no answer within 0.05 s")]


# --- observations


async def test_observations_are_booked_on_their_turn() -> None:
    class Observing(Agent):
        async def reply(self, user_text: str) -> Any:
            number = (await super().reply(user_text)).removeprefix("answer ")
            self.observer.recall(query=number)
            self.observer.tool(tool_name=number)
            if number == "2":
                return AgentReply(text="a", recall={"query": "carried"}, compliance={"is_compliant": True})
            self.observer.profile(number=number)
            return "a"

    first, second, third = (await replay(Observing)).trace.turns
    assert (first.recall, first.tools) == (RecallTrace(query="1"), [ToolTrace(tool_name="1")])
    assert first.profile_snapshot == {"number": "1"}
    assert (second.recall, second.tools) == (RecallTrace(query="carried"), [ToolTrace(tool_name="2")])
    assert (second.compliance, second.profile_snapshot) == (ComplianceTrace(is_compliant=True), None)
    assert (third.recall, third.compliance) == (RecallTrace(query="3"), None)


async def test_observations_of_threads_and_tasks_of_the_turn_count() -> None:
    class Observing(Agent):
        async def reply(self, user_text: str) -> Any:
            await asyncio.create_task(self.tell("task"))
            await anyio.to_thread.run_sync(lambda: self.observer.tool(tool_name="thread"))
            return "a"

        async def tell(self, name: str) -> None:
            self.observer.tool(tool_name=name)

    (turn,) = (await replay(Observing, dialog(1))).trace.turns
    assert [tool.tool_name for tool in turn.tools] == ["task", "thread"]


async def test_a_malformed_observation_is_lost_and_the_reply_is_not() -> None:
    class Careless(Agent):
        async def reply(self, user_text: str) -> Any:
            answer = await super().reply(user_text)
            if len(self.asked) == 2:
                self.observer.recall(items=[{"content": 5}])
            return answer

    result = await replay(Careless)
    turn = result.trace.turns[1]
    error = "malformed observation recall: Expected `str`, got `int` - at `$.items[0].content`"
    assert (turn.turn_status, turn.error, turn.observation_error, turn.recall) == ("ok", None, error, None)
    assert turn.pred_assistant_text == "answer 2"
    assert [each.observation_error for each in result.trace.turns if each is not turn] == [msgspec.UNSET] * 2


async def test_a_malformed_observation_of_a_failed_turn_is_recorded_too() -> None:
    class Careless(Agent):
        async def reply(self, user_text: str) -> Any:
            self.observer.recall(query=5)
            raise ValueError("first")

    (turn,) = (await replay(Careless, dialog(1))).trace.turns
    error = "malformed observation recall: Expected `str`, got `int` - at `$.query`"
    assert (turn.turn_status, turn.error, turn.observation_error) == ("error", "ValueError: first", error)


async def test_observations_of_a_failed_turn_are_kept() -> None:
    class Failing(Agent):
        async def reply(self, user_text: str) -> Any:
            self.observer.tool(tool_name="t", error="unreachable")
            raise ValueError("first")

    (turn,) = (await replay(Failing, dialog(1))).trace.turns
    assert turn.tools == [ToolTrace(tool_name="t", error="unreachable")]


async def test_late_observations_of_an_abandoned_plain_call_are_dropped_and_counted() -> None:
    told = threading.Event()
    release = threading.Event()

    class Plain:
        def __init__(self, session: Session, observer: TurnObserver) -> None:
            self.observer = observer
            self.count = 0

        def reply(self, user_text: str) -> str:
            self.count += 1
            if self.count == 1:
                release.wait(LONG)
                self.observer.recall(query="late")
                self.observer.tool(tool_name="late")
                told.set()
            return user_text

    async def on_turn(turn: TurnTrace) -> None:
        if turn.turn_pair_id == 1:
            release.set()
            await anyio.to_thread.run_sync(told.wait, LONG)

    options = ReplayOptions(run_id="r", turn_timeout=0.2)
    result = await replay_dialog(dialog(), 1, Plain, options, on_turn=on_turn)
    assert statuses(result) == ("partial", ["timeout", "ok", "ok"])
    assert [(turn.recall, turn.tools) for turn in result.trace.turns] == [(None, [])] * 3
    assert result.late_observations == 2


async def test_a_host_may_watch_observations_as_they_come() -> None:
    seen: list[str] = []

    class Watching(TurnObserver):
        def recall(self, /, **fields: Any) -> None:
            seen.append(fields["query"])
            super().recall(**fields)

    class Observing(Agent):
        async def reply(self, user_text: str) -> Any:
            self.observer.recall(query=user_text)
            return "a"

    options = ReplayOptions(run_id="r")
    result = await replay_dialog(dialog(2), 1, Observing, options, observer_factory=Watching)
    assert seen == ["question 1", "question 2"]
    assert [turn.recall for turn in result.trace.turns] == [RecallTrace(query=text) for text in seen]


# --- versions of the trace


async def test_extension_fields_stand_in_v1_1_only() -> None:
    plain = (await replay(Agent)).trace
    extended = (await replay(Agent, trace_version="v1.1", judge="heuristic")).trace
    extra = {"profile_gt", "history_mode", "judge"}
    assert extra.isdisjoint(msgspec.json.decode(msgspec.json.encode(plain)))
    assert extra <= set(msgspec.json.decode(msgspec.json.encode(extended)))
    assert (plain.trace_version, extended.trace_version) == ("v1", "v1.1")
    assert (extended.history_mode, extended.judge) == ("free", "heuristic")
    assert extended.profile_gt == ProfileTruth(
        risk_level_gt="secret level", constraints_gt=["secret constraint"]
    )
    assert (await replay(Agent, trace_version="v1.1")).trace.judge == "none"


# --- the end


@pytest.mark.parametrize("act", [raises, hangs, swallows, exits, raises_group])
async def test_a_close_that_goes_wrong_leaves_the_trace_whole(act: Callable[[], Any]) -> None:
    class BadClose(Agent):
        async def close(self) -> None:
            await act()

    result = await replay(BadClose, turn_timeout=0.05)
    assert statuses(result) == ("ok", ["ok"] * 3)
    assert result.abandoned == (act is swallows)


@asynccontextmanager
async def replaying(agent: type[Agent], started: asyncio.Event) -> AsyncIterator[asyncio.Task[Replay]]:
    options = ReplayOptions(run_id="r", turn_timeout=LONG)
    host = asyncio.create_task(replay_dialog(dialog(), 1, agent, options))
    await asyncio.wait_for(started.wait(), LONG)
    yield host
    with pytest.raises(asyncio.CancelledError):
        await host
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("memfin agent")] == []


@pytest.mark.parametrize("act", [hangs, swallows])
async def test_a_host_that_cancels_gets_its_cancellation_and_the_agent_its_close(
    act: Callable[[], Any],
) -> None:
    started = asyncio.Event()
    closed: list[bool] = []

    class Waiting(Agent):
        async def reply(self, user_text: str) -> Any:
            started.set()
            await act()

        async def close(self) -> None:
            await asyncio.sleep(0)
            closed.append(True)

    async with replaying(Waiting, started) as host:
        host.cancel()
    assert closed == [True]

    started.clear()
    async with anyio.create_task_group() as group:
        group.start_soon(replay_dialog, dialog(), 1, Waiting, ReplayOptions(run_id="r"))
        await asyncio.wait_for(started.wait(), LONG)
        group.cancel_scope.cancel()
    assert closed == [True, True]
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("memfin agent")] == []


async def test_a_host_that_cancels_does_not_wait_for_a_close_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_module, "CANCELLED_CLOSE_LIMIT", SHORT)
    started = asyncio.Event()

    class Waiting(Agent):
        async def reply(self, user_text: str) -> Any:
            started.set()
            await hangs()

        async def close(self) -> None:
            await swallows()

    async with replaying(Waiting, started) as host:
        host.cancel()


async def test_an_agent_that_blocks_the_loop_costs_its_own_turns_only() -> None:
    class Blocks:
        def __init__(self, session: Session, observer: object) -> None: ...

        async def reply(self, user_text: str) -> str:
            time.sleep(0.3)  # noqa: ASYNC251 - the misbehaviour under test
            return "late"

    class Waits:
        def __init__(self, session: Session, observer: object) -> None: ...

        async def reply(self, user_text: str) -> str:
            await asyncio.sleep(0.05)
            return "in time"

    options = ReplayOptions(run_id="r", turn_timeout=0.2)
    results = await asyncio.gather(
        replay_dialog(dialog(), 1, Blocks, options),
        *(replay_dialog(dialog(), 2, Waits, options) for _ in range(5)),
    )
    blocked, *others = ({turn.turn_status for turn in result.trace.turns} for result in results)
    assert blocked == {"timeout"}
    assert others == [{"ok"}] * 5
