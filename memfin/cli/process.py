"""Running a run or a soak in a process: event loop, SIGINT and SIGTERM, threads left at the end."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NoReturn, Self

import click

from memfin.cli.output import ProgressView, warning_line
from memfin.contracts import ProgressEvent, Warned
from memfin.errors import RunFault, RunStopped
from memfin.runtime.pipeline import DRAIN_LIMIT, Plan
from memfin.runtime.run import Run
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import SoakPlan
from memfin.scale.engine import Engine
from memfin.scale.plan import EnginePlan

STUCK_EXIT: Final = 3
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

OVERDUE: Final = 0.92
"""Share of the time for an end in order after which the process has to end as it is: what is left is for
the interpreter."""

OVERDUE_AGAIN: Final = 0.3
"""The same after a second signal, in seconds of 0.5."""

LEFT_TASKS: Final = 1.0
"""Seconds that tasks which agents have left behind get for their end."""

STOPPED_LOOP: Final = "the event loop was stopped under the run"

Work = Run[Any] | Soak | Engine
WorkPlan = Plan[Any] | SoakPlan | EnginePlan


def run_work(work: Work, plan: WorkPlan, view: ProgressView, limit: float = DRAIN_LIMIT) -> None:
    """Run it in a loop of its own.

    SIGINT or SIGTERM ends it in order within ``limit`` seconds, a second one within 0.5 s.

    Raises:
        RunStopped: a signal has ended it; the exit code is 130 or 143.
    """
    loop = asyncio.new_event_loop()
    watch = SignalWatch(work, plan, loop, view, limit)
    work.on_blocked, work.give_up = partial(_print_warning, view), watch.give_up
    failures: list[Exception] = []

    async def main() -> None:
        try:
            await work.run()
        except Exception as failure:  # noqa: BLE001 - raised again outside the loop, as itself
            failures.append(failure)

    try:
        # Standard output is for data, not for what agents print.
        with watch, contextlib.redirect_stdout(sys.stderr):
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


def _stopped(number: signal.Signals, plan: WorkPlan) -> RunStopped:
    return RunStopped(f"stopped by {number.name}; {plan.after_stop}", 128 + number)


def _print_warning(view: ProgressView, event: ProgressEvent) -> None:
    if isinstance(event, Warned):
        view.print(warning_line(event))


def _run_in(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None], work: Work) -> bool:
    """Run the coroutine, then close the loop whatever agents have left on it.

    Returns True if something stopped the loop under the coroutine; the work is cancelled then. A thread of
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


class SignalWatch:
    """Ends the work at SIGINT and SIGTERM: in order, at the second signal at once, and when time is up.

    Use as a context manager in the main thread. A thread of its own takes the signals, since nothing that
    runs on the event loop can be relied on: an agent may hold it.

    Attributes:
        first: the first signal that came.
    """

    def __init__(
        self,
        work: Work,
        plan: WorkPlan,
        loop: asyncio.AbstractEventLoop,
        view: ProgressView,
        limit: float = DRAIN_LIMIT,
    ) -> None:
        self.first: signal.Signals | None = None
        self._work = work
        self._plan = plan
        self._loop = loop
        self._view = view
        self._limit = limit
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)  # noqa: FBT003 - the name of the method says what is true
        self._thread = threading.Thread(target=self._watch, name="memfin-signals", daemon=True)
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup = -1
        self._masks = threading.local()

    def __enter__(self) -> Self:
        """Take the signals."""
        self._wakeup = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        # Replaces the default action; the thread reads the signals from its socket.
        self._before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        os.register_at_fork(
            before=self._hold, after_in_parent=self._release, after_in_child=self._give_back_in_child
        )
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Give them back."""
        self._give_back()
        self._sender.send(b"\0")
        self._thread.join()
        self._sender.close()
        self._receiver.close()

    def _hold(self) -> None:
        """Hold the signals back while a thread forks: until a child has its own handlers, ours act in it."""
        if self._before:
            self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def _release(self) -> None:
        mask = vars(self._masks).pop("before", None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _give_back_in_child(self) -> None:
        """A child's signals are its own."""
        self._give_back()
        self._release()

    def _give_back(self) -> None:
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
            while self._before:
                signal.signal(*self._before.popitem())

    def _watch(self) -> None:
        due: float | None = None
        again = False
        while True:
            left = None if due is None else max(0.0, due - time.monotonic())
            if not select.select([self._receiver], [], [], left)[0] and self.first is not None:
                self._end(self.first)
                return
            for number in self._receiver.recv(64):
                if number == 0:
                    return
                if number not in SIGNALS:
                    continue
                if self.first is None:
                    self.first = signal.Signals(number)
                    due = time.monotonic() + OVERDUE * self._limit
                    self._stop(self.first)
                elif not again:
                    again = True
                    due = min(due or 0.0, time.monotonic() + OVERDUE_AGAIN)
                    self._call_soon(self._work.cancel, self.first)

    def _stop(self, number: signal.Signals) -> None:
        self._call_soon(partial(self._work.stop, within=self._limit), number)
        if sys.stderr.isatty():  # the terminal has put ^C where the cursor is
            gap = "" if self._view.end_bar() else "\n"
            wait = "waiting up to 5 s for running turns; press Ctrl-C again to stop at once"
            click.echo(f"{gap}memfin: {number.name}: {wait}", err=True)

    def _call_soon(self, call: Callable[[str], None], number: signal.Signals) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: all is done
            self._loop.call_soon_threadsafe(call, number.name)

    def _end(self, number: signal.Signals) -> None:
        stopped = _stopped(number, self._plan)
        self._exit(number.name, str(stopped), stopped.exit_code)

    def give_up(self, reason: str) -> None:
        """End the process likewise, where the loop is lost; called from any thread."""
        self._exit(reason, f"{reason}; the run was stopped, {self._plan.after_stop}", STUCK_EXIT)

    def _exit(self, reason: str, line: str, code: int) -> NoReturn:
        """Leave the process as it is; the journal bears that."""
        self._work.record_stop(reason)
        self._view.on_exit(line, code)
        os._exit(code)
