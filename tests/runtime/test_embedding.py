"""Evaluations inside a host's event loop."""

import asyncio
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

import memfin
from memfin.contracts import (
    AnyProgressEvent,
    DialogDone,
    DialogStarted,
    JudgeRequest,
    MetricsDone,
    ProgressEvent,
    RunFinished,
    RunInterrupted,
    RunStarted,
    TurnDone,
    Verdict,
    Warned,
)
from memfin.errors import GateFailed, RunFault, RunStopped, UsageError
from memfin.runtime.subscriptions import Subscribers
from memfin.validation import validate_run
from tests.leaks import NOTHING, footprint, left_since
from tests.support import dataset, read_jsonl

DIALOGS = 6
TURNS = 3
LONG = 30.0
HASTE = 1.0
SLACK = 3.0
SOON = 0.2
"""Seconds that a cancelled run has, and what a busy machine may add; what hangs here hangs for `LONG`."""

has_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to count open files")


class Agent:
    """Answers after a trip around the loop; while ``patience`` is exhausted, it does not answer at all."""

    patience: int | None = None
    answered = 0

    def __init__(self, session: Any, observer: Any) -> None:
        self.session = session
        self.observer = observer
        self.turn = 0

    async def reply(self, user_text: str) -> str:
        self.turn += 1
        if Agent.patience is not None and Agent.answered >= Agent.patience:
            await self.hang()
        await anyio.lowlevel.checkpoint()
        Agent.answered += 1
        self.observer.recall(query=user_text, short_term_context=user_text)
        return f"{self.session.dialog_id}-{self.turn}：市场存在不确定性，仅供参考。"

    async def hang(self) -> None:
        await asyncio.sleep(LONG)


class PlainAgent:
    """The same in a thread."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.session = session

    def reply(self, user_text: str) -> str:
        return f"{self.session.dialog_id}：市场存在不确定性，仅供参考。"


class Stubborn(Agent):
    """Hangs, swallows its cancellation, and from then on hangs in ``close`` as well."""

    async def hang(self) -> None:
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                continue

    async def close(self) -> None:
        if Agent.patience is not None and Agent.answered >= Agent.patience:
            await self.hang()


class HangingJudge:
    """Judges, and does not close where agents hang."""

    async def judge(self, request: JudgeRequest) -> Verdict:
        return Verdict(score=3.0, rubric_items=[])

    async def close(self) -> None:
        if Agent.patience is not None:
            await asyncio.sleep(LONG)


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    Agent.patience, Agent.answered = None, 0
    yield
    Agent.patience, Agent.answered = None, 0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return dataset(tmp_path / "data.jsonl", DIALOGS, TURNS)


def settings(tmp_path: Path, run_id: str = "r", **others: Any) -> dict[str, Any]:
    return {"agent": Agent, "runs_dir": tmp_path, "run_id": run_id, "workers_dialog": 2, **others}


def log_of(tmp_path: Path, run_id: str = "r") -> list[dict[str, Any]]:
    return read_jsonl(tmp_path / "logs" / f"progress_{run_id}.jsonl")


async def is_resumed(tmp_path: Path, expected: bytes, **who: Any) -> None:
    """Hold an interrupted run against the contract, go on with it, and hold the end against another's."""
    assert list(validate_run(tmp_path / "r")) == []
    assert log_of(tmp_path)[-1]["event"] == "run_interrupted"
    Agent.patience = None
    async with memfin.Evaluation.resume(tmp_path / "r", **who) as evaluation:
        await evaluation.wait()
    assert (tmp_path / "r" / "metrics_summary.json").read_bytes() == expected


async def whole(tmp_path: Path, data: Path, run_id: str = "r", **others: Any) -> bytes:
    """Return the summary of a run of that name that nothing interrupts."""
    await memfin.evaluate(data, **settings(tmp_path / "whole", run_id, **others))
    Agent.answered = 0
    return (tmp_path / "whole" / run_id / "metrics_summary.json").read_bytes()


async def test_events_are_the_typed_records_of_the_progress_log(tmp_path: Path, data: Path) -> None:
    events: list[ProgressEvent] = []
    heard: list[ProgressEvent] = []
    async with memfin.Evaluation(data, **settings(tmp_path), on_event=heard.append) as evaluation:
        assert evaluation.run_id == "r"
        events += [event async for event in evaluation]
        assert evaluation.summary is not None
        assert [event async for event in evaluation] == []
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert events == heard
    log = (tmp_path / "logs" / "progress_r.jsonl").read_bytes().splitlines()
    assert events == [msgspec.json.decode(line, type=AnyProgressEvent) for line in log]
    assert sum(isinstance(event, TurnDone) for event in events) == DIALOGS * TURNS
    assert sum(isinstance(event, DialogDone) for event in events) == DIALOGS
    assert evaluation.dropped_events == 0
    assert evaluation.stats is not None
    assert evaluation.stats.turns_by_status == {"ok": DIALOGS * TURNS}
    assert {entry.name for entry in evaluation.statistics()} >= {"source", "scorer", "trace_writer"}
    assert evaluation.directory == tmp_path / "r"
    assert (tmp_path / "r" / "metrics_summary.json").read_bytes() == await whole(tmp_path, data)


async def test_leaving_early_stops_the_run_in_order(tmp_path: Path, data: Path) -> None:
    expected = await whole(tmp_path, data)

    class Slow(Agent):
        async def reply(self, user_text: str) -> str:
            await asyncio.sleep(0.05)
            return await super().reply(user_text)

    Slow.__qualname__ = Agent.__qualname__  # the same agent by name
    async with memfin.Evaluation(data, **settings(tmp_path, agent=Slow)) as evaluation:
        async for event in evaluation:
            if isinstance(event, DialogStarted):
                break
    assert evaluation.summary is None
    assert evaluation.stats is None
    assert log_of(tmp_path)[-1]["reason"] == "the host left before the end"
    await is_resumed(tmp_path, expected, agent=Agent)
    assert [event["event"] for event in log_of(tmp_path)].count("run_resumed") == 1


async def test_what_is_answered_when_a_run_is_stopped_is_kept(tmp_path: Path, data: Path) -> None:
    expected = await whole(tmp_path, data)
    released = asyncio.Event()

    class Waiting(Agent):
        async def reply(self, user_text: str) -> str:
            if self.session.dialog_id >= "d0002":
                await released.wait()
            return await super().reply(user_text)

    Waiting.__qualname__ = Agent.__qualname__  # the same agent by name
    async with memfin.Evaluation(data, **settings(tmp_path, agent=Waiting)) as evaluation:
        begun: set[str] = set()
        while not (len(begun) == 4 and len(done(tmp_path)) == 2):
            event = await anext(evaluation)
            if isinstance(event, DialogStarted):
                begun.add(event.dialog_id)
        async with anyio.create_task_group() as group:
            group.start_soon(evaluation.stop)
            await anyio.wait_all_tasks_blocked()
            released.set()
        events = [event async for event in evaluation]
        assert isinstance(events[-1], RunInterrupted)
        assert events[-1].reason == "the host stopped the run"
        # The turn that each of two workers was in is answered, and no other has begun.
        assert sum(isinstance(event, TurnDone) for event in events) == 2
        assert not any(isinstance(event, DialogStarted) for event in events)
        with pytest.raises(RunStopped, match=r"the host stopped the run; memfin resume .* goes on"):
            await evaluation.wait()
    assert len(done(tmp_path)) == 2
    await is_resumed(tmp_path, expected, agent=Agent)


def done(tmp_path: Path) -> set[str]:
    return {event["dialog_id"] for event in log_of(tmp_path) if event["event"] == "dialog_done"}


async def test_a_run_that_is_stopped_when_all_is_done_is_complete(tmp_path: Path, data: Path) -> None:
    async with memfin.Evaluation(data, **settings(tmp_path)) as evaluation:
        async for event in evaluation:
            if isinstance(event, MetricsDone):
                break
    assert evaluation.summary is not None
    assert log_of(tmp_path)[-1]["event"] == "run_finished"


async def test_a_reader_that_does_not_read_costs_events_and_not_the_run(tmp_path: Path, data: Path) -> None:
    async with memfin.Evaluation(data, **settings(tmp_path), event_buffer=5) as evaluation:
        await evaluation.wait()
        events = [event async for event in evaluation]
    assert len(events) == 5
    assert isinstance(events[-1], RunFinished)
    assert evaluation.dropped_events == len(log_of(tmp_path)) - 5
    async with memfin.Evaluation(data, **settings(tmp_path, "one"), event_buffer=1) as evaluation:
        await evaluation.wait()
        assert [type(event) for event in [event async for event in evaluation]] == [RunFinished]
    with pytest.raises(ValueError, match="one event at least"):
        memfin.Evaluation(event_buffer=0)


async def test_a_reader_that_is_cancelled_while_it_waits_loses_nothing() -> None:
    subscribers = Subscribers()
    buffer = subscribers.add([MetricsDone], 3)
    for _ in range(2):
        with anyio.move_on_after(0.001) as scope:
            await buffer.get()
        assert scope.cancelled_caught
    event = MetricsDone(ts="t", run_id="r", turn_rows=0)
    read: list[ProgressEvent | None] = []

    async def reader() -> None:
        read.append(await buffer.get())

    async with anyio.create_task_group() as group:
        group.start_soon(reader)
        group.start_soon(reader)
        await anyio.wait_all_tasks_blocked()
        subscribers.put(event)
        await anyio.wait_all_tasks_blocked()
        assert read == [event]
        subscribers.end()
    assert read == [event, None]


Work = Callable[[], Coroutine[Any, Any, None]]


async def in_asyncio_group(work: list[Work]) -> None:
    async def run(each: Work) -> None:
        await each()

    async with asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(run(each))


async def in_anyio_group(work: list[Work]) -> None:
    async with anyio.create_task_group() as group:
        for each in work:
            group.start_soon(each)


@pytest.mark.parametrize("group", [in_asyncio_group, in_anyio_group])
async def test_several_run_at_once_in_the_hosts_task_group(
    tmp_path: Path, data: Path, group: Callable[[list[Work]], Awaitable[None]]
) -> None:
    found: dict[str, list[ProgressEvent]] = {}

    async def read(run_id: str) -> None:
        async with memfin.Evaluation(data, **settings(tmp_path, run_id)) as evaluation:
            found[run_id] = [event async for event in evaluation]

    await group([lambda name=name: read(name) for name in ("a", "b", "c", "d")])  # type: ignore[misc]
    for run_id, events in found.items():
        assert {event.run_id for event in events} == {run_id}
        assert isinstance(events[-1], RunFinished)
        assert (tmp_path / run_id / "metrics_summary.json").read_bytes() == await whole(
            tmp_path, data, run_id
        )


def loops() -> list[Any]:
    absent = pytest.mark.skipif(not has_uvloop(), reason="uvloop is not installed")
    return ["asyncio", "eager", pytest.param("uvloop", marks=absent)]


def has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401, PLC0415 - an option
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("name", loops())
def test_any_event_loop_will_do(tmp_path: Path, data: Path, name: str) -> None:
    if name == "eager" and sys.version_info < (3, 12):
        pytest.skip("eager tasks came with Python 3.12")
    factory: Any = None
    if name == "uvloop":
        import uvloop  # noqa: PLC0415 - an option

        factory = uvloop.new_event_loop

    async def main() -> None:
        if name == "eager":
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        before = footprint()
        async with asyncio.TaskGroup() as group:
            for run_id in ("a", "b"):
                group.create_task(memfin.evaluate(data, **settings(tmp_path, run_id)))
        Agent.patience = Agent.answered + 5
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await memfin.evaluate(data, **settings(tmp_path, "cut", agent=Stubborn))
        assert left_since(before) == NOTHING

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert (tmp_path / "a" / "metrics_summary.json").is_file()
    assert log_of(tmp_path, "cut")[-1]["reason"] == "the host was cancelled"


@has_proc
async def test_nothing_stays_behind_however_runs_end(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2, 1)
    (tmp_path / "bad.jsonl").write_text("{}\n")
    before = footprint()

    async def cancelled(number: int) -> None:
        with anyio.move_on_after(0.001 * (number % 20)):
            await memfin.evaluate(data, **settings(tmp_path, f"c{number}", fsync_interval=0))

    async def left(number: int) -> None:
        chosen = settings(tmp_path, f"l{number}", fsync_interval=0)
        async with memfin.Evaluation(data, **chosen) as evaluation:
            await anext(evaluation)

    async def failed(number: int) -> None:
        with pytest.raises(UsageError):
            await memfin.evaluate(tmp_path / "bad.jsonl", **settings(tmp_path, f"f{number}"))
        with pytest.raises(UsageError):
            await memfin.evaluate(data, **settings(tmp_path, f"f{number}", agent="no.such:agent"))
        with pytest.raises(ZeroDivisionError):
            async with memfin.Evaluation(data, **settings(tmp_path, f"x{number}")):
                raise ZeroDivisionError

    async def plain(number: int) -> None:
        await memfin.evaluate(data, **settings(tmp_path, f"p{number}", agent=PlainAgent, fsync_interval=0))
        assert left_since(before) == NOTHING

    for number in range(20):
        for end in (cancelled, left, failed, plain):
            await end(number)
            assert left_since(before) == NOTHING, (end.__name__, number)


async def test_the_hosts_signals_and_logging_stay_as_they_are(tmp_path: Path, data: Path) -> None:
    def state() -> list[object]:
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        loggers = [logging.getLogger(), *map(logging.getLogger, sorted(logging.root.manager.loggerDict))]
        return [
            [signal.getsignal(number) for number in signal.valid_signals()],
            wakeup,
            asyncio.get_event_loop_policy(),
            asyncio.get_running_loop().get_exception_handler(),
            asyncio.get_running_loop().get_task_factory(),
            {logger.name: (logger.level, list(logger.handlers)) for logger in loggers},
        ]

    before = state()
    seen: list[list[object]] = []
    await memfin.evaluate(data, **settings(tmp_path), on_event=lambda event: seen.append(state()))
    assert len(seen) > DIALOGS
    assert all(each == before for each in seen)
    assert state() == before


async def test_what_is_unusable_is_told_on_entering(tmp_path: Path, data: Path) -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("no such file", {"dataset": tmp_path / "missing.jsonl"}),
        ("unknown setting 'worker'", {"dataset": data, "worker": 3}),
        ("cannot be imported", {"dataset": data, "agent": "no.such:agent"}),
    ]
    for problem, arguments in cases:
        with pytest.raises(UsageError, match=problem):
            async with memfin.Evaluation(runs_dir=tmp_path / "runs", **arguments):
                pytest.fail("the block was entered")
    assert not (tmp_path / "runs").exists()
    await memfin.evaluate(data, **settings(tmp_path))
    with pytest.raises(UsageError, match="exists already"):
        async with memfin.Evaluation(data, **settings(tmp_path)):
            pytest.fail("the block was entered")


async def test_what_ends_the_run_is_raised_where_the_host_looks(tmp_path: Path, data: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    evaluation = memfin.Evaluation(tmp_path / "bad.jsonl", **settings(tmp_path, "bad"))
    with pytest.raises(UsageError, match="no valid dialogue"):
        async with evaluation:
            assert [event async for event in evaluation] == ["not reached"]  # type: ignore[comparison-overlap]
    evaluation = memfin.Evaluation(tmp_path / "bad.jsonl", **settings(tmp_path, "bad"))
    with pytest.raises(UsageError, match="no valid dialogue"):
        async with evaluation:
            await asyncio.wait({evaluation._task})
    with pytest.raises(RuntimeError, match="runs once"):
        await evaluation.__aenter__()
    with pytest.raises(RuntimeError, match="once it is entered"):
        await memfin.Evaluation(data).wait()
    with pytest.raises(RuntimeError, match="once it is entered"):
        memfin.Evaluation(data).directory  # noqa: B018 - looking it up is what fails


async def test_an_agent_that_cancels_every_task_is_a_fault_and_no_cancellation(
    tmp_path: Path, data: Path
) -> None:
    others = asyncio.all_tasks()

    class CancelsAll(Agent):
        async def reply(self, user_text: str) -> str:
            for task in asyncio.all_tasks() - others:
                task.cancel()
            return await super().reply(user_text)

    with pytest.raises(RunFault, match="its own tasks were cancelled; it can be resumed"):
        await memfin.evaluate(data, **settings(tmp_path, agent=CancelsAll))


@pytest.mark.parametrize(
    "name", ["source", "replayer-0", "scorer", "judge_pool", "trace_writer", "aggregator", "progress_log"]
)
async def test_an_agent_that_cancels_one_actor_ends_the_run_with_a_fault(
    tmp_path: Path, data: Path, name: str
) -> None:
    cancelled = []

    class CancelsOne(Agent):
        async def reply(self, user_text: str) -> str:
            for task in asyncio.all_tasks():
                if task.get_name() == name:
                    task.cancel()
                    cancelled.append(name)
            return await super().reply(user_text)

    chosen = settings(tmp_path, agent=CancelsOne)
    with anyio.fail_after(20), pytest.raises(RunFault, match=r"memfin resume .* goes on"):
        await memfin.evaluate(data, **chosen)
    assert cancelled, {task.get_name() for task in asyncio.all_tasks()}
    assert list(validate_run(tmp_path / "r")) == []


async def test_gates_are_asked_for_in_the_block_and_raised_by_evaluate(tmp_path: Path, data: Path) -> None:
    chosen = settings(tmp_path, fail_under={"m5_explainability.judge_score_mean": 5.0})
    async with memfin.Evaluation(data, **chosen) as evaluation:
        assert evaluation.failed_gates == []
        await evaluation.wait()
    (line,) = evaluation.failed_gates
    assert line.startswith("--fail-under m5_explainability.judge_score_mean=5: the value is ")
    chosen["run_id"] = "again"
    with pytest.raises(GateFailed, match="judge_score_mean=5: the value is"):
        await memfin.evaluate(data, **chosen)


Go = Callable[[], None]
"""Lets a host be cancelled a little later."""


@asynccontextmanager
async def by_asyncio_timeout() -> AsyncIterator[Go]:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            yield lambda: limit.reschedule(asyncio.get_running_loop().time() + SOON)


@asynccontextmanager
async def by_anyio_fail_after() -> AsyncIterator[Go]:
    with pytest.raises(TimeoutError), anyio.fail_after(None) as scope:  # noqa: PT012 - the block is what fails

        def go() -> None:
            scope.deadline = anyio.current_time() + SOON

        yield go


@asynccontextmanager
async def by_an_outer_scope() -> AsyncIterator[Go]:
    with anyio.CancelScope() as outer, anyio.CancelScope():

        def go() -> None:
            outer.deadline = anyio.current_time() + SOON

        yield go
    assert outer.cancelled_caught


@asynccontextmanager
async def by_a_sibling_that_fails() -> AsyncIterator[Go]:
    told = asyncio.Event()

    async def fail() -> None:
        await told.wait()
        await asyncio.sleep(SOON)
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):  # noqa: PT012 - the block is what fails
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            yield told.set


WAYS = [by_asyncio_timeout, by_anyio_fail_after, by_an_outer_scope, by_a_sibling_that_fails]


@has_proc
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("leaving", [False, True])
async def test_a_host_that_is_cancelled_is_rid_of_the_run_at_once(
    tmp_path: Path, data: Path, way: Callable[[], Any], *, leaving: bool
) -> None:
    """Also while it leaves the block, where the run would have had 5 s to end in order."""
    expected = await whole(tmp_path, data, agent=Stubborn, judge=HangingJudge)
    Agent.patience = DIALOGS * TURNS // 2
    before = footprint()
    async with way() as go:
        chosen = settings(tmp_path, agent=Stubborn, judge=HangingJudge)
        async with memfin.Evaluation(data, **chosen) as evaluation:
            while Agent.answered < Agent.patience:  # noqa: ASYNC110 - agents of all kinds count here
                await asyncio.sleep(0.001)
            start = time.monotonic()
            go()
            if not leaving:
                await evaluation.wait()
    assert time.monotonic() - start < SOON + HASTE + SLACK
    assert left_since(before) == NOTHING
    events = log_of(tmp_path)
    assert events[-1]["event"] == "run_interrupted"
    assert list(validate_run(tmp_path / "r")) == []
    named = {event["message"] for event in events if event["event"] == "warning"}
    assert f"agent {__name__}:Stubborn ignores its cancellation; the call was left behind" in named
    await is_resumed(tmp_path, expected, agent=Stubborn, judge=HangingJudge)


BLOCKED = "has blocked the event loop for"


class Blocking(Agent):
    """Holds the loop until the progress log says so."""

    seen: list[float] = []
    log: Path

    async def reply(self, user_text: str) -> str:
        if not Blocking.seen:
            start = time.monotonic()
            while BLOCKED not in self.log.read_text() and time.monotonic() < start + LONG:
                time.sleep(0.01)  # noqa: ASYNC251 - the misdeed
            Blocking.seen.append(time.monotonic() - start)
        return await super().reply(user_text)


async def test_an_agent_that_blocks_the_loop_is_named_while_it_does(tmp_path: Path, data: Path) -> None:
    """By name, in the log at once, and once to the host that reads events."""
    Blocking.seen, Blocking.log = [], tmp_path / "logs" / "progress_r.jsonl"
    async with asyncio.TaskGroup() as group:
        other = group.create_task(memfin.evaluate(data, **settings(tmp_path, "other")))
        async with memfin.Evaluation(data, **settings(tmp_path, agent=Blocking)) as evaluation:
            warned = [event async for event in evaluation if isinstance(event, Warned)]
    (event,) = warned
    assert event.message.startswith(f"agent {__name__}:Blocking {BLOCKED}")
    assert event.dialog_id is not None
    assert event.dialog_id.startswith("d000")
    assert Blocking.seen[0] < 1.0 + SLACK
    assert [each["message"] for each in log_of(tmp_path) if each["event"] == "warning"] == [event.message]
    # The run beside it has stood still as well, but its own agents are not to blame.
    assert other.result().summary.counters.valid_dialogs == DIALOGS
    assert not [each for each in log_of(tmp_path, "other") if each["event"] == "warning"]


async def test_a_host_that_blocks_its_own_loop_is_not_told_of_agents(tmp_path: Path, data: Path) -> None:
    async with memfin.Evaluation(data, **settings(tmp_path)) as evaluation:
        time.sleep(1.5)  # noqa: ASYNC251 - that is the host's own affair
        await evaluation.wait()
    assert not [each for each in log_of(tmp_path) if each["event"] == "warning"]


async def test_an_agent_that_ignores_its_time_out_is_named_at_once(tmp_path: Path, data: Path) -> None:
    Agent.patience = 5
    order: list[str] = []
    async with memfin.Evaluation(data, **settings(tmp_path, agent=Stubborn, turn_timeout=0.05)) as evaluation:
        async for event in evaluation:
            match event:
                case Warned() if "ignores its cancellation" in event.message:
                    order.append(f"named {event.dialog_id}")
                    assert f"{__name__}:Stubborn" in event.message
                case DialogDone():
                    order.append(f"done {event.dialog_id}")
                case _:
                    continue
            if evaluation.summary is None and "named" in order[-1]:
                Agent.patience = None
    assert evaluation.summary is not None
    named = [line.removeprefix("named ") for line in order if line.startswith("named ")]
    assert named
    assert len(set(named)) == len(named)  # once for each dialogue
    for dialog_id in named:
        assert order.index(f"named {dialog_id}") < order.index(f"done {dialog_id}")
    assert evaluation.stats is not None
    assert evaluation.stats.abandoned_calls >= len(named)
