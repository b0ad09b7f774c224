"""SIGINT and SIGTERM, taken by a thread: it works while an agent holds the event loop, too."""

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Self

TAKEN: Final = (signal.SIGINT, signal.SIGTERM)

OVERDUE: Final = 4.6
OVERDUE_AGAIN: Final = 0.3
"""Seconds after the first and the second signal after which the process has to end as it is: what
is left of 5 and of 0.5 s is for the interpreter."""

THREADS_END: Final = 0.2
"""Seconds that threads which are about to end have for it."""

OnSignal = Callable[[signal.Signals], None]


class SignalWatch:
    """Calls ``on_first`` and ``on_second`` with the first signal, and ``on_overdue`` when time is up.

    Use as a context manager in the main thread. The calls come from the watch's own thread, since
    nothing that runs on the event loop can be relied on.

    Attributes:
        first: the first signal that came.
    """

    def __init__(self, on_first: OnSignal, on_second: OnSignal, on_overdue: OnSignal) -> None:
        self.first: signal.Signals | None = None
        self._calls = (on_first, on_second, on_overdue)
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)  # noqa: FBT003 - the name of the method says what is true
        self._thread = threading.Thread(target=self._watch, name="memfin-signals", daemon=True)
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup = -1
        self._masks = threading.local()

    def __enter__(self) -> Self:
        """Take the signals."""
        self._wakeup = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _ignore) for number in TAKEN}
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
            self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, TAKEN)

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
        on_first, on_second, on_overdue = self._calls
        due: float | None = None
        again = False
        while True:
            left = None if due is None else max(0.0, due - time.monotonic())
            if not select.select([self._receiver], [], [], left)[0] and self.first is not None:
                on_overdue(self.first)
                return
            for number in self._receiver.recv(64):
                if number == 0:
                    return
                if number not in TAKEN:
                    continue
                if self.first is None:
                    self.first = signal.Signals(number)
                    due = time.monotonic() + OVERDUE
                    on_first(self.first)
                elif not again:
                    again = True
                    due = min(due or 0.0, time.monotonic() + OVERDUE_AGAIN)
                    on_second(self.first)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Take the place of the default action; the thread hears of the signal by itself."""


def end_with_threads(code: int) -> None:
    """End the process where threads that are not MemFin's would keep it from ending; return otherwise.

    A plain function that an agent has run in a thread cannot be stopped, and the interpreter waits
    for such threads.
    """
    deadline = time.monotonic() + THREADS_END
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                for stream in (sys.stdout, sys.stderr):
                    with suppress(OSError, ValueError):
                        stream.flush()
                os._exit(code)
