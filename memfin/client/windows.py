"""Sliding windows: pure state that says when the next request may start; the time is an argument.

`Windows` joins those of one limit: requests and tokens, in one process or as a shard's share.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, Self

from memfin.errors import UsageError
from memfin.shards import Shard

# A request that is slow on its way makes those behind it look too close together at the
# server; GUARD is the share of a second, at most, by which a window is wider than promised for that.
GUARD: Final = 0.07
SLACK: Final = 0.01  # seconds by which a start may be early, so that late timers cost no throughput
TURN: Final = 0.03  # seconds of a shard's turn; the rest of the guard is for clocks that differ
_MINUTE: Final = 60.0
_REQUEST_PACE: Final = 0.9


WHOLE: Final = Shard(0, 1)


def share_of(whole: int, shard: Shard) -> int:
    """Return the units of a whole that fall to a shard; those of all shards add up to it."""
    return whole // shard.count + (shard.index < whole % shard.count)


@dataclass(eq=False, slots=True)
class Start:
    """One start counted by a window; its weight can be corrected later."""

    at: float
    weight: int
    counted: bool = True


class SlidingWindow:
    """Sliding window: at most ``limit`` in any ``period`` seconds, ``pace`` seconds per unit of weight.

    A start heavier than the limit is let through alone when the window is empty. The clock is monotonic.
    """

    def __init__(self, limit: int, period: float, pace: float) -> None:
        self.limit = limit
        self._period = period
        self._pace = pace
        self._starts: deque[Start] = deque()
        self._sum = 0
        self._due = -math.inf

    @classmethod
    def of_requests(cls, per_minute: float, *, shard: Shard = WHOLE, margin: float = 0.0) -> "SlidingWindow":
        """Limit requests: a window of one second, or of a single request where fewer fit into a second.

        Shards share out the requests of the window; where there are more shards than requests, each has
        its turn by the clock of the day. ``margin`` is by how many seconds the window is wider.
        """
        interval = _MINUTE / per_minute
        limit = max(1, math.floor(1 / interval * (1 + 1e-9)))
        period = limit * interval
        if limit < shard.count:
            return TurnWindow((period + GUARD) / limit, shard)
        width = period + GUARD * min(period, 1.0) + margin
        share = share_of(limit, shard)
        return cls(share, width, _REQUEST_PACE * period / share)

    @classmethod
    def of_tokens(cls, per_minute: float, *, shard: Shard = WHOLE, margin: float = 0.0) -> Self:
        """Limit tokens per minute; shorter periods get their share and at most one call beyond it."""
        share = max(1, share_of(max(1, math.floor(per_minute)), shard))
        pace = (1 + GUARD) * _MINUTE / (per_minute if shard.count == 1 else share)
        return cls(share, _MINUTE * (1 + GUARD / 60) + margin, pace)

    def wait(self, now: float, weight: int = 1) -> float:
        """Return the seconds until the next start is allowed, 0.0 for now."""
        while self._starts and self._starts[0].at + self._period <= now:
            left = self._starts.popleft()
            left.counted = False
            self._sum -= left.weight
        until_room, excess = 0.0, self._sum + min(weight, self.limit) - self.limit
        for start in self._starts:
            if excess <= 0:
                break
            excess -= start.weight
            until_room = start.at + self._period - now
        return max(0.0, self._due - SLACK - now, until_room)

    def start(self, now: float, weight: int = 1) -> Start:
        """Count a start that `wait` has allowed."""
        start = Start(now, weight)
        self._starts.append(start)
        self._sum += weight
        self._due = max(self._due, now) + weight * self._pace
        return start

    def fill(self, now: float) -> None:
        """Allow no start for one period, as after starts that nobody remembers."""
        self._starts.append(Start(now, self.limit))
        self._sum += self.limit

    def correct(self, start: Start, weight: int) -> None:
        """Replace the weight of a start; later starts make up for the difference."""
        change = weight - start.weight
        start.weight = weight
        self._due += change * self._pace
        if start.counted:
            self._sum += change

    def sent(self, start: Start, now: float) -> None:
        """Count a start from now, as its request was sent after a delay."""
        if now - start.at <= SLACK:
            return
        if start.counted:
            self._starts.remove(start)
        else:
            start.counted = True
            self._sum += start.weight
        start.at = now
        self._starts.append(start)
        self._due = max(self._due, now + start.weight * self._pace)


class TurnWindow(SlidingWindow):
    """A shard's turns: one start in each, ``every`` seconds after the turn of the shard before.

    The turns follow the clock of the day, so all shards agree on them without a word.
    """

    def __init__(self, every: float, shard: Shard, clock: Callable[[], float] = time.time) -> None:
        self._cycle = every * shard.count
        super().__init__(1, self._cycle / 2, 0.0)
        self._offset = every * shard.index
        self._clock = clock

    def wait(self, now: float, weight: int = 1) -> float:
        """Return the seconds until the shard's next turn, 0.0 within one that is not used yet."""
        used = super().wait(now, weight)
        into = (self._clock() + used - self._offset) % self._cycle
        return used if into < TURN else used + self._cycle - into


class Permit(Protocol):
    """Permission for one start, which counts already."""

    def sent(self, now: float) -> None:
        """Count the start from now, as its request is sent only now."""

    def correct(self, tokens: int) -> None:
        """Replace the estimate of the tokens; later starts make up for the difference."""

    def withdraw(self) -> None:
        """Count nothing, as the start does not take place."""


class Rate(Protocol):
    """A limit of starts; one caller at a time asks it."""

    def wait(self, now: float, tokens: int = 0) -> float:
        """Return the seconds before which it is useless to ask for a start, 0.0 for none."""
        ...

    async def start(self, now: float, tokens: int = 0) -> Permit:
        """Return a permission to start at once.

        Raises:
            EndpointDown: who gives permissions has been away for too long.
            UsageError: there are none for what the settings ask.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""


class Windows:
    """The windows of requests and tokens of one limit, or of a shard's share; None is no limit.

    ``margin`` is by how many seconds they are wider than those of a process that starts at once.
    """

    def __init__(
        self, rpm: float | None, tpm: float | None = None, *, shard: Shard = WHOLE, margin: float = 0.0
    ) -> None:
        self._requests = [] if rpm is None else [SlidingWindow.of_requests(rpm, shard=shard, margin=margin)]
        self._tokens = [] if tpm is None else [SlidingWindow.of_tokens(tpm, shard=shard, margin=margin)]
        self._shard = shard

    def wait(self, now: float, tokens: int = 0) -> float:
        """Return the seconds until a start is allowed; raise `UsageError` if it never is."""
        for window in self._tokens:
            if self._shard.count > 1 and tokens > window.limit:
                raise UsageError(
                    f"judge_tpm: a request of {tokens} tokens is over {window.limit} per minute, the share "
                    f"of one of {self._shard.count} shards; use fewer shards, or --rate-lease"
                )
        waits = [window.wait(now) for window in self._requests]
        return max((*waits, *(window.wait(now, tokens) for window in self._tokens), 0.0))

    def admit(self, now: float, tokens: int = 0) -> "Counted":
        """Count a start that `wait` has allowed."""
        requests = [(window, window.start(now)) for window in self._requests]
        return Counted(requests, [(window, window.start(now, tokens)) for window in self._tokens])

    def fill(self, now: float) -> None:
        """Allow no start for one period of each window, as after starts that nobody remembers."""
        for window in (*self._requests, *self._tokens):
            window.fill(now)

    async def start(self, now: float, tokens: int = 0) -> "Counted":
        """Count a start that `wait` has allowed."""
        return self.admit(now, tokens)

    async def close(self) -> None:
        """Do nothing."""


class Counted(NamedTuple):
    """A start in the windows that count it."""

    requests: list[tuple[SlidingWindow, Start]]
    tokens: list[tuple[SlidingWindow, Start]]

    def sent(self, now: float) -> None:
        """Count it from now."""
        for window, start in (*self.requests, *self.tokens):
            window.sent(start, now)

    def correct(self, tokens: int) -> None:
        """Replace its tokens."""
        for window, start in self.tokens:
            window.correct(start, tokens)

    def withdraw(self) -> None:
        """Count nothing."""
        for window, start in (*self.requests, *self.tokens):
            window.correct(start, 0)
