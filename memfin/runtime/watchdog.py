"""Supervision of user code that holds the event loop, or does not let a call be cancelled."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import Token
from typing import Final, Self

from memfin.contracts import RunConfig
from memfin.sandbox.thread import WATCH, Callee, CallWatch

BEAT: Final = 0.1
PATIENCE: Final = 0.8
"""Seconds between heartbeats, and without one before the loop counts as blocked."""

OVER_TIME: Final = 5.0
"""Seconds over the time-out of a turn after which a loop that is held counts as lost."""

THREADS_END: Final = 0.1
"""Seconds that the end of a run waits for its threads; those that nothing holds end at once."""

_OURS: Final = ("openai:", "http://", "https://")

_TITLES: Final = {"judge": "judge", "memory": "agent memory", "system": "system"}
_OF_THE_RUN: Final = frozenset({"judge", "system"})
"""Callees that serve the whole run; others are named after the dialogue that they are for."""


class LoopWatchdog:
    """Calls ``on_blocked(seconds)`` when the loop stands still, and ``on_deadline(seconds)`` when for long.

    Use as an async context manager inside the loop that it watches. The callbacks run in the
    watchdog's own thread, since the loop cannot run anything at that moment. One that returns False
    is called again, until the loop turns.
    """

    def __init__(
        self,
        on_blocked: Callable[[float], bool | None],
        on_deadline: Callable[[float], bool | None] | None = None,
        deadline: float = float("inf"),
    ) -> None:
        self._on_blocked = on_blocked
        self._on_deadline = on_deadline
        self._deadline = deadline
        self._last_beat = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memfin-watchdog", daemon=True)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        """Start the heartbeat and the thread."""
        self._beat(asyncio.get_running_loop())
        self._thread.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Stop both."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop.set()
        self._thread.join()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last_beat = time.monotonic()
        self._timer = loop.call_later(BEAT, self._beat, loop)

    def _watch(self) -> None:
        reported = 0.0
        woke = time.monotonic()
        while not self._stop.wait(BEAT):
            now = time.monotonic()
            if now - woke >= PATIENCE:
                # This thread stood still as well: Ctrl-Z, a frozen container. No agent is to blame.
                self._last_beat = now
            woke = now
            silent = now - self._last_beat
            if silent < PATIENCE:
                reported = 0.0
            elif not reported and self._on_blocked(silent) is not False:
                reported = silent
            if silent >= self._deadline and self._on_deadline is not None:
                if self._on_deadline(silent) is False:
                    continue
                return


class Supervision:
    """Watches the calls of one run into foreign code; use as an async context manager around it.

    ``warn`` gets a warning on the loop; ``warn_blocked`` gets one from a thread, while the loop stands
    still, and ``give_up`` the reason when it stands still for good.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        warn: Callable[[str, str | None], None],
        warn_blocked: Callable[[str, str | None], None],
        give_up: Callable[[str], None] | None,
    ) -> None:
        self._config = config
        self._warn = warn
        self._warn_blocked = warn_blocked
        self._give_up = give_up
        self._named: set[Callee] = set()
        self._watch = CallWatch(self._on_swallowed)
        self._token: Token[CallWatch | None] | None = None
        self._dog = LoopWatchdog(self._on_blocked, self._on_lost, config.turn_timeout + OVER_TIME)

    async def __aenter__(self) -> Self:
        """Begin; tasks that are started from here on are watched."""
        self._token = WATCH.set(self._watch)
        await self._dog.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        """End, and end the threads of the run."""
        await self._dog.__aexit__(*exception)
        self._watch.end_threads(THREADS_END)
        if self._token is not None:
            WATCH.reset(self._token)

    def _on_swallowed(self, callee: Callee) -> None:
        """Warn once for each dialogue."""
        if callee not in self._named:
            self._named.add(callee)
            self._warn(*self._warning(callee, "ignores its cancellation; the call was left behind"))

    def _on_blocked(self, seconds: float) -> bool:
        """Warn of who blocks the loop; return False while nobody can be named."""
        callee = self._watch.on_loop
        if callee is None:
            return False
        if self._is_foreign(callee):
            problem = (
                f"has blocked the event loop for {seconds:.1f} s; make its methods plain functions, "
                "or await instead of blocking"
            )
            self._warn_blocked(*self._warning(callee, problem))
        return True

    def _on_lost(self, seconds: float) -> bool:
        callee = self._watch.on_loop
        if callee is None or self._give_up is None or not self._is_foreign(callee):
            return False
        self._give_up(
            f"{self._name(callee)} has blocked the event loop for {seconds:.0f} s, over its time-out"
        )
        return True

    def _warning(self, callee: Callee, problem: str) -> tuple[str, str | None]:
        dialog_id = None if callee.what in _OF_THE_RUN else callee.name
        return f"{self._name(callee)} {problem}", dialog_id

    def _name(self, callee: Callee) -> str:
        return f"{_TITLES.get(callee.what, 'agent')} {self._reference(callee)}"

    def _reference(self, callee: Callee) -> str:
        config = self._config
        return {"judge": config.judge, "memory": config.agent_memory}.get(callee.what, config.agent)

    def _is_foreign(self, callee: Callee) -> bool:
        """Exclude what ships with MemFin: it gives the loop back; a long text may take its time."""
        reference = self._reference(callee)
        return ":" in reference and not reference.startswith(_OURS)
