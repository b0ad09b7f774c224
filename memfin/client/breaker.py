"""A circuit breaker: stops calling an endpoint that is down, and tries now and then whether it is back."""

import math
from typing import Final, Literal

FAILURES: Final = 5
"""Failures in a row that open the breaker."""

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 15.0
"""Seconds between tries while it is open: doubled each time, up to the longest."""

State = Literal["closed", "open", "half_open"]


class Breaker:
    """Closed: calls pass. Open: none does. Half open: one call tries, and its outcome decides.

    Pure state: methods are told the time. ``most_down`` is how many seconds the endpoint may be down
    before calls are turned away instead of being kept waiting.
    """

    def __init__(self, most_down: float) -> None:
        self._most_down = most_down
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._next_try = 0.0
        self._down_since = 0.0
        self.state: State = "closed"

    def wait(self, now: float) -> float:
        """Return the seconds until a call may try; infinity while one is trying."""
        if self.state == "closed":
            return 0.0
        return math.inf if self.state == "half_open" else max(0.0, self._next_try - now)

    def down_for(self, now: float) -> float:
        """Return how many seconds the endpoint has been down."""
        return 0.0 if self.state == "closed" else max(0.0, now - self._down_since)

    def gives_up_in(self, now: float) -> float:
        """Return the seconds until waiting calls are turned away; infinity while the breaker is closed."""
        return math.inf if self.state == "closed" else self._down_since + self._most_down - now

    def started(self) -> bool:
        """Count a call that starts; say whether it is the one that tries an open breaker."""
        if self.state != "open":
            return False
        self.state = "half_open"
        return True

    def answered(self) -> bool:
        """Count an answer of any kind: the endpoint is up. Say whether that closed the breaker."""
        self._failures = 0
        self._pause = FIRST_PAUSE
        closed = self.state != "closed"
        self.state = "closed"
        return closed

    def failed(self, now: float, *, trying: bool) -> bool:
        """Count a failure of the endpoint; say whether it opened the breaker.

        While the breaker is open only the call that tries it counts: others began before.
        """
        if self.state == "closed":
            self._failures += 1
            if self._failures < FAILURES:
                return False
            self._down_since = now
        elif not trying:
            return False
        else:
            self._pause = min(LONGEST_PAUSE, self._pause * 2)
        opened = self.state == "closed"
        self.state = "open"
        self._next_try = now + self._pause
        return opened

    def abandoned(self, now: float, *, trying: bool) -> None:
        """Count a call that ended without an outcome; another one may try at once."""
        if trying and self.state == "half_open":
            self.state = "open"
            self._next_try = now
