"""How many requests, or tokens, may start when: in no window of time more than the limit."""

import math
from collections import deque
from typing import Final, Self

GUARD: Final = 0.07
"""How much wider than promised a window is kept, as a share of a second at most.

The promise is about what the server sees. A request that is late on its way makes those behind it
look too close together; up to this share of the window it does no harm.
"""

SLACK: Final = 0.01
"""Seconds by which a start may be early against the even pace, so that timers that fire late cost nothing."""

MOST_MOVES: Final = 3
"""How often a start may be counted anew because the loop stood still: it has a few steps to go to leave."""

_MOST_WINDOW: Final = 1.0
_MINUTE: Final = 60.0
_REQUEST_PACE: Final = 0.9


class Start:
    """One start that a window has counted; it can be corrected and taken back."""

    __slots__ = ("at", "counted", "moves", "weight")

    def __init__(self, at: float, weight: int) -> None:
        self.at = at
        self.weight = weight
        self.counted = True
        self.moves = 0


class SlidingWindow:
    """At most ``limit`` in any ``period`` seconds, and spread: ``pace`` seconds for each of them.

    Pure state: every method is told the time, in seconds of one clock. The clock may stand still,
    jump ahead or step back; a step back counts as no time at all.

    A start heavier than the limit is let through alone, when the window is empty: otherwise it would
    wait for ever.
    """

    def __init__(self, limit: int, period: float, pace: float) -> None:
        self._limit = limit
        self._period = period
        self._pace = pace
        self._starts: deque[Start] = deque()
        self._sum = 0
        self._due = -math.inf
        self._last = -math.inf
        self._offset = 0.0

    @classmethod
    def of_requests(cls, per_minute: float) -> Self:
        """Return the window of a limit on requests.

        It spans the whole number of requests that fit into a second, or a single one where less
        than one does. So the limit holds in every second, not only in every minute.
        """
        interval = _MINUTE / per_minute
        limit = max(1, math.floor(_MOST_WINDOW / interval * (1 + 1e-9)))
        period = limit * interval
        return cls(limit, period + GUARD * min(period, _MOST_WINDOW), _REQUEST_PACE * interval)

    @classmethod
    def of_tokens(cls, per_minute: float) -> Self:
        """Return the window of a limit on tokens.

        The limit holds in every minute. Within it starts are spread, so that in every shorter time
        no more than its share starts, and at most one call beyond that.
        """
        return cls(
            max(1, math.floor(per_minute)), _MINUTE * (1 + GUARD / 60), (1 + GUARD) * _MINUTE / per_minute
        )

    def wait(self, now: float, weight: int = 1) -> float:
        """Return how many seconds from now on the next start has to wait, 0.0 for not at all."""
        now = self._steady(now)
        return max(0.0, self._due - SLACK - now, self._until_room(now, weight))

    def start(self, now: float, weight: int = 1) -> Start:
        """Count a start at this moment; `wait` has said that it may."""
        now = self._steady(now)
        start = Start(now, weight)
        self._starts.append(start)
        self._sum += weight
        self._due = max(self._due, now) + weight * self._pace
        return start

    def correct(self, start: Start, weight: int) -> None:
        """Count a start by what it really weighed; what follows makes up for the difference."""
        change = weight - start.weight
        start.weight = weight
        self._due += change * self._pace
        if start.counted:
            self._sum += change

    def held_up(self, since: float, now: float) -> None:
        """Count what started since that moment as started now: it was held up before it could leave.

        Each start is moved `MOST_MOVES` times at most. What has left long ago would otherwise stay in the
        window for as long as the loop is busy, and nothing else could start.
        """
        now = self._steady(now)
        for start in reversed(self._starts):
            if start.at < since + self._offset or start.moves == MOST_MOVES:
                break  # those before it are older, or have been moved as often
            start.at = now
            start.moves += 1
            self._due = max(self._due, now + start.weight * self._pace)

    def take_back(self, start: Start) -> None:
        """Forget a start that did not take place."""
        self.correct(start, 0)

    def _steady(self, now: float) -> float:
        """Return the time on a clock that never goes back."""
        if now + self._offset < self._last:
            self._offset = self._last - now
        self._last = now + self._offset
        return self._last

    def _until_room(self, now: float, weight: int) -> float:
        """Return how long it takes until enough has left the window."""
        while self._starts and self._starts[0].at + self._period <= now:
            left = self._starts.popleft()
            left.counted = False
            self._sum -= left.weight
        excess = self._sum + min(weight, self._limit) - self._limit
        if excess <= 0:
            return 0.0
        for start in self._starts:
            excess -= start.weight
            if excess <= 0:
                return start.at + self._period - now
        return 0.0
