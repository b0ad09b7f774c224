"""Notices that the event loop has stood still, by a beat that comes late."""

from collections.abc import Callable
from typing import Final

from memfin.client.clock import Clock, Timer

BEAT: Final = 0.02
LATE: Final = 0.01
"""Seconds between two looks at the clock, and by which one may be late."""


class Heartbeat:
    """Looks at the clock while calls are under way, and tells of every time that the loop stood still.

    ``stood_still`` is told from when to when. What was let through shortly before was then still here, or
    could not be taken note of by a server on the same machine; so the time told begins two beats before.
    """

    def __init__(self, clock: Clock, stood_still: Callable[[float, float], None]) -> None:
        self._clock = clock
        self._tell = stood_still
        self._timer: Timer | None = None
        self._next = 0.0

    def look(self, *, wanted: bool) -> None:
        """Look at the clock now; go on beating while that is ``wanted``, else stop."""
        now = self._clock.now()
        if self._timer is None:
            if wanted:
                self._set(now)
        elif not wanted or now > self._next + LATE:
            self._timer.cancel()
            self._timer = None
            self._check(now)
            if wanted:
                self._set(now)

    def _beat(self) -> None:
        now = self._clock.now()
        self._check(now)
        self._set(now)

    def _set(self, now: float) -> None:
        self._next = now + BEAT
        self._timer = self._clock.call_later(BEAT, self._beat)

    def _check(self, now: float) -> None:
        if now > self._next + LATE:
            self._tell(self._next - 2 * BEAT, now)
