"""Calls into agents: whatever the agent does ends as an answer, a failure or a time-out."""

import asyncio
import gc
import inspect
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest

from memfin.agents.calls import AgentCalls, TransportError, as_reply, builds_async_agent
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import AgentReply, Session
from memfin.sandbox import calls as calls_module
from memfin.sandbox.calls import LOOP_HINT, CallFailed, CallTimedOut, is_async

SESSION = Session(run_id="r", dialog_id="d", session_id="s", user_id="u")
LONG = 20.0
"""Seconds that no call here needs: a test that waits this long has failed."""
SHORT = 0.02


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "CANCEL_GRACE", SHORT)


def agent(**methods: Any) -> SimpleNamespace:
    return SimpleNamespace(**methods)


@asynccontextmanager
async def opened(the_agent: Any) -> AsyncIterator[AgentCalls]:
    calls = AgentCalls("d")
    await calls.open(lambda session, observer: the_agent, SESSION, TurnObserver(), LONG)
    try:
        yield calls
    finally:
        await calls.close(LONG)


def agent_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("memfin agent")]


async def fails(reply: Callable[..., Any], limit: float = LONG) -> str:
    """Return the one line that a failing reply is told in; the agent must be usable afterwards."""
    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallFailed) as failed:
            await calls.reply("q", limit)
        assert agent_tasks() == []
    message = str(failed.value)
    assert len(message.splitlines()) == 1
    return message


# --- what an agent returns


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "answer",
    ["好", Text("好"), AgentReply(text="好"), AgentReply(text=Text("好")), {"text": "好", "other": 1}],
)
async def test_a_reply_is_a_text_a_reply_or_a_mapping(answer: object) -> None:
    async def reply(text: str) -> object:
        return answer

    async with opened(agent(reply=reply)) as calls:
        got = await calls.reply("q", LONG)
    assert got == AgentReply(text="好")
    assert type(got.text) is str


def test_a_mapping_carries_observations_too() -> None:
    assert as_reply({"text": "a", "recall": {"query": "q"}}) == AgentReply(text="a", recall={"query": "q"})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "the agent returned None; expected str or AgentReply"),
        (5, "the agent returned an object of type int; expected str or AgentReply"),
        (b"x", "the agent returned an object of type bytes; expected str or AgentReply"),
        (["x"], "the agent returned an object of type list; expected str or AgentReply"),
        ({"answer": "x"}, "the agent returned an object without text; expected str or AgentReply"),
        ({"text": None}, "the agent returned a reply whose text is None; expected str"),
        (AgentReply(text=5), "the agent returned a reply whose text is an object of type int; expected str"),  # type: ignore[arg-type]
        ("ab\ud800", "the reply holds a lone surrogate at character 2 and cannot be written"),
    ],
)
async def test_anything_else_is_a_failure(answer: object, message: str) -> None:
    async def reply(text: str) -> object:
        return answer

    assert await fails(reply) == message


async def test_a_mapping_that_breaks_is_a_failure() -> None:
    class Broken(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise OSError("lazy loading failed")

        def __iter__(self) -> Iterator[str]:
            return iter(("text",))

        def __len__(self) -> int:
            return 1

        def __contains__(self, key: object) -> bool:
            return True

    async def reply(text: str) -> object:
        return Broken()

    assert await fails(reply) == "OSError: lazy loading failed"


# --- what an agent raises


class OddError(BaseException):
    pass


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


FAILURES = [
    (ValueError("two\nlines"), "ValueError: two lines"),
    (ValueError(), "ValueError"),
    (MuteError(), "MuteError"),
    (UnicodeError("\ud800"), "UnicodeError: ⟨U+D800⟩"),
    (SystemExit(3), "the agent called sys.exit(3)"),
    (SystemExit("bye\nbye"), "the agent called sys.exit('bye\\nbye')"),
    (GeneratorExit("gone"), "GeneratorExit: gone"),
    (OddError("odd"), "OddError: odd"),
    (BaseExceptionGroup("many", [OddError("odd")]), "BaseExceptionGroup: many (1 sub-exception)"),
    (
        BaseExceptionGroup("many", [SystemExit(1), KeyboardInterrupt()]),
        "BaseExceptionGroup: many (2 sub-exceptions)",
    ),
    (ExceptionGroup("many", [ValueError()]), "ExceptionGroup: many (1 sub-exception)"),
    (asyncio.CancelledError("own"), "the agent cancelled its own call"),
    (StopAsyncIteration("over"), "StopAsyncIteration: over"),
    (TimeoutError("a call of its own"), "TimeoutError: a call of its own"),
    (MemoryError(), "MemoryError"),
]
each_failure = pytest.mark.parametrize(("error", "message"), FAILURES, ids=lambda v: type(v).__name__)


@each_failure
async def test_an_async_agent_may_raise_anything(error: BaseException, message: str) -> None:
    async def reply(text: str) -> str:
        await asyncio.sleep(0)
        raise error

    assert await fails(reply) == message


@each_failure
async def test_a_plain_agent_may_raise_anything(error: BaseException, message: str) -> None:
    def reply(text: str) -> str:
        raise error

    assert await fails(reply) == message


@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt])
async def test_a_plain_agent_may_raise_what_no_future_carries(kind: type[BaseException]) -> None:
    def reply(text: str) -> str:
        raise kind("x")

    assert await fails(reply) == f"RuntimeError: {kind.__name__}: x"


async def test_an_async_agent_may_raise_stop_iteration() -> None:
    async def reply(text: str) -> str:
        raise StopIteration("x")

    assert await fails(reply) == "RuntimeError: coroutine raised StopIteration"


async def test_sys_exit_ends_the_turn_and_nothing_else() -> None:
    async def reply(text: str) -> str:
        if text == "first":
            sys.exit("I am out")
        return text

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallFailed, match=r"sys\.exit\('I am out'\)"):
            await calls.reply("first", LONG)
        assert (await calls.reply("second", LONG)).text == "second"


async def test_an_agent_may_cancel_itself() -> None:
    async def reply(text: str) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(LONG)
        return "never"

    assert await fails(reply) == "the agent cancelled its own call"


@pytest.mark.parametrize("error", [TransportError("429"), ConnectionResetError("reset"), BrokenPipeError()])
@pytest.mark.parametrize("plain", [False, True])
async def test_transport_errors_come_through_as_they_are(error: Exception, plain: bool) -> None:
    async def reply(text: str) -> str:
        raise error

    def plain_reply(text: str) -> str:
        raise error

    async with opened(agent(reply=plain_reply if plain else reply)) as calls:
        with pytest.raises(type(error)) as raised:
            await calls.reply("q", LONG)
    assert raised.value is error


class Treacherous:
    """Raises where its methods are looked up."""

    def __init__(self, name: str, error: BaseException) -> None:
        self._name, self._error = name, error

    async def reply(self, text: str) -> str:
        return text

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name == self._name:
            raise self._error
        return super().__getattribute__(name)


@pytest.mark.parametrize("error", [ValueError("property"), SystemExit(1)])
async def test_looking_up_reply_may_raise(error: BaseException) -> None:
    with pytest.raises(CallFailed):
        async with opened(Treacherous("reply", error)):
            pass


async def test_looking_up_commit_and_close_may_raise() -> None:
    for name in ("commit", "close"):
        with pytest.raises(CallFailed, match="property"):
            async with opened(Treacherous(name, ValueError("property"))):
                pass


# --- agents that take their time


async def test_a_call_over_its_time_is_cancelled() -> None:
    seen: list[BaseException] = []

    async def reply(text: str) -> str:
        try:
            await asyncio.sleep(LONG)
        except BaseException as error:
            seen.append(error)
            raise
        return "late"

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut, match=r"no answer within 0\.02 s"):
            await calls.reply("q", SHORT)
        assert [type(error) for error in seen] == [asyncio.CancelledError]
        assert (calls.abandoned, agent_tasks(), calls.stuck) == (0, [], False)


async def test_cleaning_up_within_the_grace_is_no_abandonment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "CANCEL_GRACE", LONG)
    cleaned: list[bool] = []

    async def reply(text: str) -> str:
        try:
            await asyncio.sleep(LONG)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            cleaned.append(True)
        return "late"

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", SHORT)
        assert (cleaned, calls.abandoned) == ([True], 0)


async def test_no_time_left_is_a_time_out() -> None:
    async def reply(text: str) -> str:
        await asyncio.sleep(LONG)
        return "late"

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", -1.0)


async def deaf() -> None:
    """Wait for ever, whatever the cancellation; only closing ends it."""
    while True:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            continue


async def test_a_call_that_swallows_cancellation_is_left_behind_and_counted() -> None:
    async def reply(text: str) -> str:
        if text == "first":
            await deaf()
        return text

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("first", SHORT)
        assert (calls.abandoned, agent_tasks()) == (1, [])
        assert (await calls.reply("second", LONG)).text == "second"


async def test_finally_blocks_of_a_cut_call_still_run() -> None:
    closed: list[bool] = []

    async def reply(text: str) -> str:
        try:
            await deaf()
        finally:
            closed.append(True)
        return text

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", SHORT)
    assert closed == [True]


async def test_a_call_that_refuses_even_to_be_closed_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unraisable: list[Any] = []  # Python itself reports the coroutine that ignores its closing
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    refusing = [True]

    async def reply(text: str) -> str:
        while refusing:
            try:
                await asyncio.sleep(LONG)
            except BaseException:  # noqa: BLE001, S112 - the worst an agent can do
                continue
        return text

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", SHORT)
        assert (calls.abandoned, agent_tasks()) == (1, [])
        refusing.clear()
        gc.collect()
        assert (await calls.reply("second", LONG)).text == "second"


async def test_answering_the_cancellation_with_a_reply_is_still_a_time_out() -> None:
    async def reply(text: str) -> str:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            return "partial answer"
        return "late"

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", SHORT)
        assert calls.abandoned == 0


async def test_a_failure_after_the_time_is_over_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def reply(text: str) -> str:
        try:
            await asyncio.sleep(LONG)
        finally:
            raise ValueError("while cancelled")

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", SHORT)
    gc.collect()
    assert caplog.records == []


async def test_a_plain_call_over_its_time_keeps_its_thread_and_the_next_waits_for_it() -> None:
    release, said = threading.Event(), []

    def reply(text: str) -> str:
        if text == "first":
            release.wait(LONG)
        said.append(text)
        return text

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("first", SHORT)
        assert [calls.stuck] == [True]
        with pytest.raises(CallTimedOut):
            await calls.reply("second", SHORT)  # under its own time-out, and never begun
        assert agent_tasks() == []
        release.set()
        assert (await calls.reply("third", LONG)).text == "third"
        assert said == ["first", "third"]
        assert [calls.stuck] == [False]
    assert calls.abandoned == 0


async def test_a_plain_call_that_never_returns_is_counted_when_the_dialogue_ends() -> None:
    release = threading.Event()

    def reply(text: str) -> str:
        release.wait(LONG)
        return text

    async with opened(agent(reply=reply)) as calls:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", SHORT)
    assert calls.abandoned == 1
    release.set()


async def test_a_plain_call_that_came_back_leaves_nothing_stuck() -> None:
    def reply(text: str) -> str:
        return text

    async with opened(agent(reply=reply)) as calls:
        busy = 0
        for _ in range(4000):  # the thread is not always quick to say that it is free
            await calls.reply("q", LONG)
            busy += calls.stuck
    assert (busy, calls.abandoned) == (0, 0)


# --- where calls run


async def test_plain_methods_of_a_dialogue_share_one_daemon_thread_of_their_own() -> None:
    threads: list[threading.Thread] = []

    def note(*text: str) -> str:
        threads.append(threading.current_thread())
        return "x"

    async with opened(agent(reply=note, commit=note, close=note)) as calls:
        await calls.reply("q", LONG)
        await calls.commit("a", LONG)
    async with opened(agent(reply=note)) as others:
        await others.reply("q", LONG)
    first, *same, other = threads
    assert (same, first.daemon, first.name) == ([first, first], True, "memfin-agent-d")
    assert other not in (first, threading.main_thread())


async def test_the_thread_of_a_closed_dialogue_ends() -> None:
    threads: list[threading.Thread] = []

    def reply(text: str) -> str:
        threads.append(threading.current_thread())
        return text

    async with opened(agent(reply=reply)) as calls:
        await calls.reply("q", LONG)
    await anyio.to_thread.run_sync(threads[0].join, LONG)
    assert not threads[0].is_alive()


async def test_async_agents_run_on_the_loop_and_need_no_thread() -> None:
    before = set(threading.enumerate())

    class Agent:
        def __init__(self, session: Session, observer: object) -> None:
            self.loop = asyncio.get_running_loop()

        async def reply(self, text: str) -> str:
            assert asyncio.get_running_loop() is self.loop
            assert set(threading.enumerate()) <= before
            return text

    calls = AgentCalls("d")
    await calls.open(Agent, SESSION, TurnObserver(), LONG)
    assert (await calls.reply("q", LONG)).text == "q"
    await calls.close(LONG)


async def test_context_variables_reach_the_agent_wherever_it_runs() -> None:
    variable: ContextVar[str] = ContextVar("variable")

    def plain(text: str) -> str:
        return variable.get()

    async def on_loop(text: str) -> str:
        return variable.get()

    async with opened(agent(reply=plain)) as one, opened(agent(reply=on_loop)) as two:
        variable.set("set")
        assert [(await calls.reply("q", LONG)).text for calls in (one, two)] == ["set", "set"]


async def test_a_plain_method_may_return_an_awaitable() -> None:
    async def answer(text: str) -> str:
        return f"awaited {text}"

    def reply(text: str) -> Any:
        return answer(text)

    async with opened(agent(reply=reply)) as calls:
        assert (await calls.reply("q", LONG)).text == "awaited q"


async def test_an_agent_may_use_what_asyncio_and_anyio_offer() -> None:
    async def reply(text: str) -> str:
        assert inspect.iscoroutine(current := asyncio.current_task().get_coro()), current  # type: ignore[union-attr]
        with anyio.move_on_after(SHORT) as moved:
            await anyio.sleep(LONG)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT):
                await asyncio.sleep(LONG)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        here = await anyio.to_thread.run_sync(threading.current_thread)
        assert anyio.get_current_task().name is not None
        return f"{moved.cancelled_caught} {here is threading.main_thread()}"

    async with opened(agent(reply=reply)) as calls:
        assert (await calls.reply("q", LONG)).text == "True False"


# --- factories


async def made_by(factory: Callable[..., Any], limit: float = LONG) -> AgentCalls:
    calls = AgentCalls("d")
    try:
        await calls.open(factory, SESSION, TurnObserver(), limit)
    finally:
        await calls.close(LONG)
    return calls


async def test_factories_may_be_coroutine_functions() -> None:
    async def reply(text: str) -> str:
        return text

    async def factory(session: Session, observer: object) -> SimpleNamespace:
        await asyncio.sleep(0)
        return agent(reply=reply, commit=reply)

    assert (await made_by(factory)).has_commit


async def test_a_plain_factory_runs_in_the_thread_and_gets_session_and_observer() -> None:
    got: list[Any] = []

    def factory(session: Session, observer: object) -> SimpleNamespace:
        got.extend((session, observer, threading.current_thread()))
        return agent(reply=str)

    calls = await made_by(factory)
    assert got[0] is SESSION
    assert isinstance(got[1], TurnObserver)
    assert got[2] is not threading.main_thread()
    assert not calls.has_commit


@pytest.mark.parametrize(("made", "kind"), [(None, "None"), (5, "an object of type int")])
async def test_a_factory_that_makes_no_agent_is_a_failure(made: object, kind: str) -> None:
    with pytest.raises(CallFailed, match=f"the factory returned {kind}; expected an object with a reply"):
        await made_by(lambda session, observer: made)


@each_failure
async def test_a_factory_may_raise_anything(error: BaseException, message: str) -> None:
    def factory(session: object, observer: object) -> None:
        raise error

    with pytest.raises(CallFailed) as failed:
        await made_by(factory)
    assert str(failed.value) == message


async def test_a_factory_of_the_wrong_signature_is_a_failure() -> None:
    with pytest.raises(CallFailed, match="TypeError"):
        await made_by(lambda: agent(reply=str))


async def test_a_factory_that_hangs_is_a_time_out() -> None:
    async def factory(session: object, observer: object) -> None:
        await asyncio.sleep(LONG)

    with pytest.raises(CallTimedOut):
        await made_by(factory, SHORT)


async def test_a_plain_factory_that_needs_the_loop_is_told_how_to_get_it() -> None:
    def factory(session: object, observer: object) -> None:
        asyncio.get_running_loop()

    with pytest.raises(CallFailed) as failed:
        await made_by(factory)
    assert str(failed.value) == f"RuntimeError: no running event loop{LOOP_HINT}"


def test_what_counts_as_async() -> None:
    async def function() -> None: ...

    class CallableObject:
        async def __call__(self) -> None: ...

    class AsyncAgent:
        async def reply(self, text: str) -> str:
            return text

    class PlainAgent:
        def reply(self, text: str) -> str:
            return text

    assert [is_async(call) for call in (function, CallableObject(), AsyncAgent().reply)] == [True] * 3
    assert [is_async(call) for call in (print, PlainAgent().reply, PlainAgent)] == [False] * 3
    assert builds_async_agent(AsyncAgent)
    assert not builds_async_agent(PlainAgent)
    assert not builds_async_agent(function)


# --- the end


async def test_closing_without_a_close_method_or_an_agent_is_quiet() -> None:
    await AgentCalls("d").close(LONG)
    async with opened(agent(reply=str)):
        pass


async def test_close_is_called_once_and_its_failure_told() -> None:
    closed: list[bool] = []

    async def close() -> None:
        closed.append(True)
        raise OSError("socket")

    with pytest.raises(CallFailed, match="OSError: socket"):
        async with opened(agent(reply=str, close=close)):
            pass
    assert closed == [True]


async def test_a_close_that_hangs_is_bounded() -> None:
    calls = AgentCalls("d")
    await calls.open(lambda session, observer: agent(reply=str, close=deaf), SESSION, TurnObserver(), LONG)
    with pytest.raises(CallTimedOut):
        await calls.close(SHORT)
    assert (calls.abandoned, agent_tasks()) == (1, [])


async def test_a_plain_close_waits_but_shortly_for_a_call_that_hangs() -> None:
    release = threading.Event()
    calls = AgentCalls("d")
    plain = agent(reply=lambda text: release.wait(LONG), close=lambda: None)
    await calls.open(lambda session, observer: plain, SESSION, TurnObserver(), LONG)
    try:
        with pytest.raises(CallTimedOut):
            await calls.reply("q", SHORT)
        with pytest.raises(CallTimedOut, match="no answer within 1 s"):
            await calls.close(LONG)
    finally:
        release.set()
    assert (calls.abandoned, agent_tasks()) == (1, [])


async def wait_for_start(started: asyncio.Event) -> None:
    await asyncio.wait_for(started.wait(), LONG)


@pytest.mark.parametrize("swallows", [False, True])
async def test_cancelling_the_host_cancels_the_call_and_goes_on(swallows: bool) -> None:
    started = asyncio.Event()

    async def reply(text: str) -> str:
        started.set()
        await (deaf() if swallows else asyncio.sleep(LONG))
        return text

    async with opened(agent(reply=reply)) as calls:
        # natively, as a plain asyncio host does
        host = asyncio.ensure_future(calls.reply("q", LONG))
        await wait_for_start(started)
        host.cancel()
        with pytest.raises(asyncio.CancelledError):
            await host
        assert (calls.abandoned, agent_tasks()) == (int(swallows), [])
        # by a cancel scope, which delivers again and again
        started.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(calls.reply, "q", LONG)
            await wait_for_start(started)
            group.cancel_scope.cancel()
        assert (calls.abandoned, agent_tasks()) == (2 * int(swallows), [])


async def test_cancelling_the_host_during_the_grace_leaves_no_task_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls_module, "CANCEL_GRACE", 0.2)
    cancelled = asyncio.Event()

    async def reply(text: str) -> str:
        while True:
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                cancelled.set()

    async with opened(agent(reply=reply)) as calls:
        async with anyio.create_task_group() as group:
            group.start_soon(calls.reply, "q", SHORT)
            await wait_for_start(cancelled)  # the time is over, the grace runs
            group.cancel_scope.cancel()
        assert (calls.abandoned, agent_tasks()) == (1, [])


async def test_cancelling_before_the_call_has_begun_leaves_nothing_unawaited() -> None:
    async def reply(text: str) -> str:
        return text

    async with opened(agent(reply=reply)) as calls:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await calls.reply("q", LONG)
        assert scope.cancelled_caught
        assert agent_tasks() == []
