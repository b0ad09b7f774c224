"""Listeners of runs and soaks that fail: a warning, and the run goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.contracts import (
    DialogDone,
    MetricsDone,
    ProgressEvent,
    RunFinished,
    RunInterrupted,
    SoakLimits,
    TurnDone,
    Warned,
)
from memfin.contracts.soak import ProcessSample, SoakEpoch, SoakSummary
from memfin.errors import RunStopped, UsageError
from memfin.runtime.plan import make_plan
from memfin.runtime.run import Run
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan
from memfin.validation import validate_path
from tests.support import dataset, read_jsonl

FAILED = "on_event failed and is not called any more: KeyError: 'my listener has a bug'"


class Failing:
    """Raises at the first event of a kind; ``heard`` has the events until then."""

    def __init__(self, kind: type[ProgressEvent]) -> None:
        self.kind = kind
        self.heard: list[ProgressEvent] = []

    def __call__(self, event: ProgressEvent) -> None:
        self.heard.append(event)
        if isinstance(event, self.kind):
            raise KeyError("my listener has a bug")


def settings(tmp_path: Path) -> dict[str, Any]:
    return {
        "dataset": dataset(tmp_path / "data.jsonl", 3),
        "agent": "echo",
        "runs_dir": tmp_path / "runs",
        "run_id": "r",
    }


def log_of(tmp_path: Path) -> list[dict[str, Any]]:
    return read_jsonl(tmp_path / "runs" / "logs" / "progress_r.jsonl")


def warnings_of(log: list[dict[str, Any]]) -> list[str]:
    return [entry["message"] for entry in log if entry["event"] == "warning"]


@pytest.mark.parametrize("kind", [ProgressEvent, TurnDone, DialogDone, MetricsDone])
async def test_a_listener_that_raises_is_warned_of_once_and_the_run_goes_on(
    tmp_path: Path, kind: type[ProgressEvent]
) -> None:
    failing = Failing(kind)
    async with memfin.Evaluation(**settings(tmp_path), on_event=failing) as evaluation:
        events = [event async for event in evaluation]
    assert evaluation.summary is not None
    assert [isinstance(event, kind) for event in failing.heard].count(True) == 1
    assert [event.message for event in events if isinstance(event, Warned)] == [FAILED]
    assert isinstance(events[-1], RunFinished)
    log = log_of(tmp_path)
    assert warnings_of(log) == [FAILED]
    assert (len(log), log[-1]["event"]) == (len(events), "run_finished")


async def test_a_listener_that_raises_at_the_end_is_warned_of_in_the_log(tmp_path: Path) -> None:
    async with memfin.Evaluation(**settings(tmp_path), on_event=Failing(RunFinished)) as evaluation:
        events = [event async for event in evaluation]
    assert evaluation.summary is not None
    assert isinstance(events[-1], RunFinished)
    assert warnings_of(log_of(tmp_path)) == [FAILED]
    assert list(validate_path(tmp_path / "runs" / "r")) == []


async def test_a_listener_that_raises_at_an_interruption_is_warned_of_in_the_log(tmp_path: Path) -> None:
    def stop(event: ProgressEvent) -> None:
        if isinstance(event, TurnDone):
            run.cancel("the test")
        failing(event)

    failing = Failing(RunInterrupted)
    run = Run(make_plan(**settings(tmp_path)), stop)
    with pytest.raises(RunStopped, match="stopped: the test"):
        await run.run()
    assert warnings_of(log_of(tmp_path)) == [FAILED]


async def test_who_tells_of_blocking_tells_of_a_failed_listener_even_by_failing_too(tmp_path: Path) -> None:
    told: list[ProgressEvent] = []

    def tell(event: ProgressEvent) -> None:
        told.append(event)
        raise OSError("nobody reads")

    summary = await Run(make_plan(**settings(tmp_path)), Failing(DialogDone), on_blocked=tell).run()
    assert summary.counters.valid_dialogs == 3
    assert [event.message for event in told if isinstance(event, Warned)] == [FAILED]


async def later(event: ProgressEvent) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    "start",
    [
        lambda **settings: memfin.evaluate("missing.jsonl", **settings),
        lambda **settings: memfin.Evaluation("missing.jsonl", **settings),
        lambda **settings: memfin.Evaluation.resume("missing", **settings),
        lambda **settings: memfin.BenchmarkRunner("missing", **settings).run_benchmark_async(),
    ],
)
async def test_an_asynchronous_listener_is_refused_before_anything_is_read(start: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match=r"on_event: .*later is asynchronous"):
        await start(on_event=later)


class Looking:
    """Counts what it is told of a soak, and raises at one of it."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.told = {"on_event": 0, "on_epoch": 0, "on_sample": 0}
        self.warned: list[str] = []

    def _hear(self, name: str) -> None:
        self.told[name] += 1
        if name == self.fails:
            raise ValueError(f"{name} is broken")

    def on_event(self, event: ProgressEvent) -> None:
        if isinstance(event, Warned):
            self.warned.append(event.message)
        self._hear("on_event")

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        self._hear("on_epoch")

    def on_sample(self, sample: ProcessSample) -> None:
        self._hear("on_sample")


def soak(tmp_path: Path, *listeners: Any, epochs: int) -> Soak:
    plan = make_soak_plan(**settings(tmp_path), limits=SoakLimits(epochs=epochs))
    return Soak(plan, listeners)


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("fails", ["on_event", "on_epoch", "on_sample"])
async def test_a_listener_of_a_soak_that_raises_is_warned_of_once_and_the_soak_goes_on(
    tmp_path: Path, fails: str, epochs: int
) -> None:
    failing, sound = Looking(fails), Looking()
    summary = await soak(tmp_path, failing, sound, epochs=epochs).run()
    assert (summary.state, summary.epochs) == ("finished", epochs)
    assert (failing.told[fails], sound.told["on_epoch"]) == (1, epochs)
    logs = sorted((tmp_path / "runs" / "r").rglob("progress_*.jsonl"))
    expected = (
        f"soak listener test_failing_listeners:Looking failed and is not called any more: ValueError: {fails}"
    )
    assert [message for log in logs for message in warnings_of(read_jsonl(log))] == [f"{expected} is broken"]
    assert sound.warned in ([], [f"{expected} is broken"])  # none when no epoch comes after it
    assert list(validate_path(tmp_path / "runs" / "r")) == []


async def test_a_failed_listener_of_a_soak_is_told_once_to_those_who_are_told_at_once(tmp_path: Path) -> None:
    told: list[ProgressEvent] = []
    sound = Looking()
    running = soak(tmp_path, Looking("on_event"), sound, epochs=1)
    running.on_blocked = told.append
    await running.run()
    assert (len(told), sound.warned) == (1, [])


async def test_an_asynchronous_listener_of_a_soak_is_refused(tmp_path: Path) -> None:
    class Asynchronous(Looking):
        async def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:  # type: ignore[override]
            raise NotImplementedError

    with pytest.raises(UsageError, match=r"soak listener: .*on_epoch is asynchronous"):
        soak(tmp_path, Looking(), Asynchronous(), epochs=1)
