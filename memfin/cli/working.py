"""Runs a run or a soak to its end, or to the end that a signal gives it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Protocol

import click

from memfin.actors.progress_log import OnEvent
from memfin.cli.progress import warning_line
from memfin.cli.signals import SignalWatch
from memfin.contracts import ProgressEvent, RunConfig, Warned
from memfin.errors import RunFault, RunStopped

STUCK_EXIT: Final = 3

STOPPED_LOOP: Final = "the event loop was stopped under the run"

PATIENCE: Final = "running turns may end, for 5 s at most; once more ends at once"

LEFT_TASKS: Final = 1.0
"""Seconds that tasks which agents have left behind get for their end."""


class Work(Protocol):
    """What `work_to_end` runs: a run or a soak; `memfin.runtime.run.Run` says what each is for."""

    on_blocked: OnEvent | None
    give_up: Callable[[str], None] | None

    async def run(self) -> object:
        """Do all of it."""

    def stop(self, reason: str) -> None:
        """Come to an end in order; `run` then raises `RunStopped`."""

    def cancel(self, reason: str) -> None:
        """Come to an end at once."""

    def record_stop(self, reason: str) -> None:
        """Tell the artifacts from another thread that the process ends."""


class Planned(Protocol):
    """What is known of it before."""

    @property
    def config(self) -> RunConfig:
        """Return its settings."""
        ...

    @property
    def directory(self) -> Path:
        """Return where it writes."""
        ...

    @property
    def after_stop(self) -> str:
        """Return what there is once it was stopped on purpose."""
        ...


def work_to_end(work: Work, plan: Planned) -> None:
    """Run it in a loop of its own.

    SIGINT or SIGTERM ends it in order within 5 s, a second one within 0.5 s.

    Raises:
        RunStopped: a signal has ended it; the exit code is 130 or 143.
    """
    loop = asyncio.new_event_loop()
    endings = _Endings(work, plan, loop)
    work.on_blocked, work.give_up = _tell_at_once, endings.give_up
    failures: list[Exception] = []

    async def main() -> None:
        try:
            await work.run()
        except Exception as failure:  # noqa: BLE001 - raised again outside the loop, as itself
            failures.append(failure)

    try:
        # Standard output is for data, not for what agents print.
        with (
            SignalWatch(endings.stop, endings.cancel, endings.end) as watch,
            contextlib.redirect_stdout(sys.stderr),
        ):
            lost = _run_in(loop, main(), work)
    except asyncio.CancelledError:
        raise RunFault(
            f"the run's own tasks were cancelled, by {plan.config.agent} it seems; {plan.directory} holds "
            "what was done"
        ) from None
    for failure in failures:
        if isinstance(failure, RunStopped) and lost:
            raise RunFault(f"{STOPPED_LOOP}, by {plan.config.agent} it seems; {plan.after_stop}")
        if isinstance(failure, RunStopped) and watch.first is not None:
            raise _stopped(watch.first, plan)
        raise failure


class _Endings:
    """The ways in which the work may end before its time; all are called from other threads."""

    def __init__(self, work: Work, plan: Planned, loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._plan = plan
        self._loop = loop

    def stop(self, number: signal.Signals) -> None:
        self._soon(self._work.stop, number.name)
        if sys.stderr.isatty():  # somebody has pressed Ctrl-C and waits
            click.echo(f"memfin: {number.name}: {PATIENCE}", err=True)

    def cancel(self, number: signal.Signals) -> None:
        self._soon(self._work.cancel, number.name)

    def _soon(self, call: Callable[[str], None], reason: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: all is done
            self._loop.call_soon_threadsafe(call, reason)

    def end(self, number: signal.Signals) -> None:
        """Leave the process as it is; the journal bears that."""
        self._work.record_stop(number.name)
        stopped = _stopped(number, self._plan)
        click.echo(f"memfin: {stopped}", err=True)
        os._exit(stopped.exit_code)

    def give_up(self, reason: str) -> None:
        """Likewise, where the loop is lost."""
        self._work.record_stop(reason)
        click.echo(f"memfin: {reason}; the run was stopped, {self._plan.after_stop}", err=True)
        os._exit(STUCK_EXIT)


def _stopped(number: signal.Signals, plan: Planned) -> RunStopped:
    return RunStopped(f"stopped by {number.name}; {plan.after_stop}", 128 + number)


def _tell_at_once(event: ProgressEvent) -> None:
    if isinstance(event, Warned):
        click.echo(warning_line(event), err=True)


def _run_in(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None], work: Work) -> bool:
    """Run the coroutine, then close the loop whatever agents have left on it.

    Returns whether something stopped the loop under the coroutine; the work is cancelled then. A thread of
    the loop's own pool is not waited for: nothing could end it.
    """
    lost = False
    try:
        asyncio.set_event_loop(loop)
        task = loop.create_task(main)
        while not task.done():
            try:
                loop.run_until_complete(task)
            except RuntimeError:  # asyncio has no error of its own for a loop that was stopped
                if task.done():
                    raise
                lost = True
                loop.call_soon(work.cancel, STOPPED_LOOP)
        return lost
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.set_exception_handler(lambda *_: None)  # what agents have left behind is no news any more
        with contextlib.suppress(asyncio.CancelledError, RuntimeError):  # they may stop the loop once more
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=LEFT_TASKS))
            with contextlib.suppress(TimeoutError):
                loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), LEFT_TASKS))
        asyncio.set_event_loop(None)
        loop.close()
