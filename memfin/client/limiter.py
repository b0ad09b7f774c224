"""Rate and concurrency limits, retries and a circuit breaker, shared by all calls to one endpoint.

Everything up to `CallLimiter` is pure state: methods take the time as an argument. `CallLimiter` is the
thin asynchronous shell that queues calls until that state lets them start.
"""

import asyncio
import heapq
import itertools
import math
import random
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Generic, Literal, Protocol, Self, TypeVar

from memfin.client.errors import RequestError

T = TypeVar("T")

# Sliding windows. A request that is slow on its way makes those behind it look too close together at the
# server; GUARD is the share of a second, at most, by which a window is wider than promised for that.
GUARD: Final = 0.07
SLACK: Final = 0.01  # seconds by which a start may be early, so that late timers cost no throughput
MAX_MOVES: Final = 3  # times that one start may be moved because the event loop was blocked
_MINUTE: Final = 60.0
_REQUEST_PACE: Final = 0.9

HEARTBEAT: Final = 0.02  # seconds between two looks at the clock
LATE: Final = 0.01  # seconds of lateness that count as a blocked loop

FAILURES: Final = 5  # failures of the endpoint in a row that open the breaker
FIRST_PAUSE: Final = 1.0  # seconds before the first probe of an open breaker, doubled each time
MAX_PAUSE: Final = 15.0
MAX_DOWN: Final = 60.0  # seconds that calls wait for an endpoint that is down

MAX_ATTEMPTS: Final = 5
REFUSALS: Final = 2  # times max_attempts that a call may be rate limited, which is not its own fault
BACKOFF: Final = 0.5  # seconds: upper bound of the first wait between attempts, doubled each time
MAX_BACKOFF: Final = 30.0

MAX_RETRY_AFTER: Final = 60.0  # seconds to which a Retry-After header is cut
ABSURD_RETRY_AFTER: Final = 86_400.0  # seconds above which the header is ignored as a mistake
_SECONDS: Final = re.compile(r"([+-]?)([0-9]{1,15})(?:\.[0-9]{0,15})?")

_REFUNDED: Final = frozenset({"connect", "rate_limited"})  # kinds of errors that cost no tokens


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Parse a Retry-After header (RFC 9110 section 10.2.3) into seconds, bounded by `MAX_RETRY_AFTER`.

    Seconds may have a fraction; dates have any of the three forms of HTTP, and one without a zone is
    UTC. Past dates and negative seconds are 0.0. Anything else, and values above `ABSURD_RETRY_AFTER`,
    are None. ``now`` is an aware datetime.
    """
    if header is None:
        return None
    text = header.strip()
    if match := _SECONDS.fullmatch(text):
        seconds = 0.0 if match[1] == "-" else float(text)
    else:
        try:
            date = parsedate_to_datetime(text)
            seconds = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return None if seconds > ABSURD_RETRY_AFTER else min(max(seconds, 0.0), MAX_RETRY_AFTER)


@dataclass(eq=False, slots=True)
class Start:
    """One start counted by a window; its weight can be corrected later."""

    at: float
    weight: int
    counted: bool = True
    moves: int = 0


class SlidingWindow:
    """At most ``limit`` in any ``period`` seconds, spread evenly: ``pace`` seconds for each unit of weight.

    A start heavier than the limit is let through alone when the window is empty. The clock is monotonic.
    """

    def __init__(self, limit: int, period: float, pace: float) -> None:
        self._limit = limit
        self._period = period
        self._pace = pace
        self._starts: deque[Start] = deque()
        self._sum = 0
        self._due = -math.inf

    @classmethod
    def of_requests(cls, per_minute: float) -> Self:
        """Limit requests: a window of one second, or of a single request where fewer fit into a second."""
        interval = _MINUTE / per_minute
        limit = max(1, math.floor(1 / interval * (1 + 1e-9)))
        period = limit * interval
        return cls(limit, period + GUARD * min(period, 1.0), _REQUEST_PACE * interval)

    @classmethod
    def of_tokens(cls, per_minute: float) -> Self:
        """Limit tokens per minute; shorter times get their share and at most one call beyond it."""
        pace = (1 + GUARD) * _MINUTE / per_minute
        return cls(max(1, math.floor(per_minute)), _MINUTE * (1 + GUARD / 60), pace)

    def wait(self, now: float, weight: int = 1) -> float:
        """Return the seconds until the next start is allowed, 0.0 for now."""
        return max(0.0, self._due - SLACK - now, self._until_room(now, weight))

    def start(self, now: float, weight: int = 1) -> Start:
        """Count a start that `wait` has allowed."""
        start = Start(now, weight)
        self._starts.append(start)
        self._sum += weight
        self._due = max(self._due, now) + weight * self._pace
        return start

    def correct(self, start: Start, weight: int) -> None:
        """Replace the weight of a start, 0 for one that did not take place; later starts make up for it."""
        change = weight - start.weight
        start.weight = weight
        self._due += change * self._pace
        if start.counted:
            self._sum += change

    def loop_blocked(self, since: float, now: float) -> None:
        """Count starts since that moment as started now: a blocked loop kept them from leaving.

        Each start moves `MAX_MOVES` times at most. On a loop that is always late a start would
        otherwise never leave the window, and nothing else could begin.
        """
        for start in reversed(self._starts):
            if start.at < since or start.moves == MAX_MOVES:
                break  # those before it are older, or have moved as often
            start.at = now
            start.moves += 1
            self._due = max(self._due, now + start.weight * self._pace)

    def _until_room(self, now: float, weight: int) -> float:
        while self._starts and self._starts[0].at + self._period <= now:
            left = self._starts.popleft()
            left.counted = False
            self._sum -= left.weight
        excess = self._sum + min(weight, self._limit) - self._limit
        for start in self._starts:
            if excess <= 0:
                break
            excess -= start.weight
            if excess <= 0:
                return start.at + self._period - now
        return 0.0


class AdaptiveConcurrency:
    """Additive increase, multiplicative decrease of the calls in flight, between 1 and ``maximum``.

    ``round`` numbers the times between two halvings: of all calls in flight together only the first
    refused one halves the limit.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._successes = 0
        self.limit = maximum
        self.round = 0

    def succeeded(self) -> None:
        """Count an answer; as many answers as calls in flight make room for one more."""
        self._successes += 1
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(self._maximum, self.limit + 1)

    def refused(self, round_started: int) -> bool:
        """Count a refusal (HTTP 429) of a call that started in that round; return True if it halved."""
        if round_started != self.round:
            return False
        self.round += 1
        self._successes = 0
        before, self.limit = self.limit, max(1, self.limit // 2)
        return self.limit != before


class Breaker:
    """A circuit breaker. Closed: calls pass. Open: none does. Half open: one call probes the endpoint.

    ``max_down`` is the number of seconds after which waiting calls fail instead of waiting longer.
    """

    def __init__(self, max_down: float) -> None:
        self._max_down = max_down
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._next_try = 0.0
        self._down_since = 0.0
        self.state: Literal["closed", "open", "half_open"] = "closed"

    def wait(self, now: float) -> float:
        """Return the seconds until a call may try; infinity while one is trying."""
        if self.state == "closed":
            return 0.0
        return math.inf if self.state == "half_open" else max(0.0, self._next_try - now)

    def down_for(self, now: float) -> float:
        """Return how many seconds the endpoint has been down."""
        return 0.0 if self.state == "closed" else max(0.0, now - self._down_since)

    def gives_up_in(self, now: float) -> float:
        """Return the seconds until waiting calls fail; infinity while the breaker is closed."""
        return math.inf if self.state == "closed" else self._down_since + self._max_down - now

    def started(self) -> bool:
        """Count a start; return True if this call is the probe of an open breaker."""
        if self.state != "open":
            return False
        self.state = "half_open"
        return True

    def answered(self) -> bool:
        """Count an answer of any kind; return True if it closed the breaker."""
        self._failures = 0
        self._pause = FIRST_PAUSE
        closed = self.state != "closed"
        self.state = "closed"
        return closed

    def failed(self, now: float, *, trying: bool) -> bool:
        """Count a failure of the endpoint; return True if it opened the breaker.

        While the breaker is open only the probe counts: other calls started before.
        """
        opened = self.state == "closed"
        if opened:
            self._failures += 1
            if self._failures < FAILURES:
                return False
            self._down_since = now
        elif not trying:
            return False
        else:
            self._pause = min(MAX_PAUSE, self._pause * 2)
        self.state = "open"
        self._next_try = now + self._pause
        return opened

    def abandoned(self, now: float, *, trying: bool) -> None:
        """Count a call that ended without an outcome; another one may try at once."""
        if trying and self.state == "half_open":
            self.state = "open"
            self._next_try = now


class Attempts:
    """Failure count of one call.

    With ``probed``, a call fails for an error of the endpoint, or for refusals of its rate, only after a
    probe of the endpoint was answered; until then the error is `doubtful`. An endpoint that turns out to
    have been down gives the call all its attempts once more, one time.

    Attributes:
        made: requests sent for the call, probes included.
    """

    def __init__(self, maximum: int, *, probed: bool) -> None:
        self.made = 0
        self._maximum = maximum
        self._probed = probed
        self._failures = 0
        self._refusals = 0
        self._doubted: RequestError | None = None
        self._was_down = False
        self._renewed = False

    @property
    def doubtful(self) -> bool:
        """True if the next request has to probe the endpoint."""
        return self._doubted is not None

    def failed(self, error: RequestError) -> None:
        """Count a failed attempt; raise its error if it was the last one."""
        self.made += 1
        error.attempts = self.made
        if error.kind == "parameter":
            return  # the next request omits it, so this happens once for each
        refused = error.kind == "rate_limited"
        self._refusals += refused
        self._failures += not refused
        exhausted = self._failures >= self._maximum or self._refusals >= REFUSALS * self._maximum
        if error.retryable and not exhausted:
            return
        of_endpoint = error.of_endpoint and (error.retryable or error.status is None)
        if not (self._probed and (of_endpoint or refused)):
            raise error
        self._doubted = error

    def probed(self, *, answered: bool) -> None:
        """Count a probe; raise the doubtful error if the endpoint was there all along."""
        self.made += 1
        if not answered:
            self._was_down = True
            return
        doubted, self._doubted = self._doubted, None
        was_down, self._was_down = self._was_down, False
        if doubted is None:
            return
        if self._renewed or not was_down:
            doubted.attempts = self.made
            raise doubted
        self._renewed = True
        self._failures = self._refusals = 0


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None: ...  # noqa: D102


class Clock:
    """Source of time and timers: the running event loop; tests derive a virtual one."""

    def now(self) -> float:  # noqa: D102
        return asyncio.get_running_loop().time()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:  # noqa: D102
        return asyncio.get_running_loop().call_later(delay, callback)


class Heartbeat:
    """Detects a blocked event loop by a timer that fires late.

    ``on_blocked`` gets the beginning and the end of the blockage. The beginning is two beats early: a
    request let through shortly before had not left yet, or was not seen by a server on the same machine.
    """

    def __init__(self, clock: Clock, on_blocked: Callable[[float, float], None]) -> None:
        self._clock = clock
        self._on_blocked = on_blocked
        self._timer: Timer | None = None
        self._next = 0.0

    def look(self, *, wanted: bool) -> None:
        """Check the clock now; keep beating while ``wanted``."""
        now = self._clock.now()
        if self._timer is not None and (not wanted or now > self._next + LATE):
            self._timer.cancel()
            self._timer = None
            self._check(now)
        if wanted and self._timer is None:
            self._next = now + HEARTBEAT
            self._timer = self._clock.call_later(HEARTBEAT, self._beat)

    def _beat(self) -> None:
        self._timer = None
        self._check(self._clock.now())
        self.look(wanted=True)

    def _check(self, now: float) -> None:
        if now > self._next + LATE:
            self._on_blocked(self._next - 2 * HEARTBEAT, now)


@dataclass(frozen=True, slots=True)
class CallResult(Generic[T]):
    """The value of a call, and the number of attempts it took."""

    value: T
    attempts: int


@dataclass(frozen=True, eq=False, slots=True)
class _Permit:
    """Permission for one attempt; ``trying`` marks the probe of an open breaker."""

    request: Start | None
    tokens: Start | None
    round: int
    trying: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Waiter:
    """A queued call; its future gets a permit, or the error of an endpoint that is given up."""

    tokens: int
    permit: asyncio.Future[_Permit | RequestError]


class CallLimiter:
    """Lets the calls of all workers through, in the order in which they came.

    ``rpm`` and ``tpm`` bound requests and tokens per minute (see `SlidingWindow`); every attempt counts.
    ``workers`` bounds the calls in flight; HTTP 429 halves that bound. A Retry-After, cut to
    ``max_pause`` seconds, and a 429 without one pause all calls. A call fails with its last
    `RequestError` after ``max_attempts`` failures or twice as many refusals; at once if its error is not
    retryable; and with one of the kind ``unavailable`` when the endpoint has been down, or has refused
    every call for its rate, for ``max_down`` seconds. ``on_notice`` gets one line whenever the limiter
    pauses, opens or closes; it must not raise.

    ``clock`` and ``draw`` (a number in [0, 1) for the jitter) are for tests.
    """

    def __init__(  # noqa: PLR0913 - independent settings
        self,
        *,
        workers: int,
        rpm: float | None = None,
        tpm: float | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        on_notice: Callable[[str], None],
        name: str = "endpoint",
        max_pause: float = MAX_RETRY_AFTER,
        max_down: float = MAX_DOWN,
        clock: Clock | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        self._requests = None if rpm is None else SlidingWindow.of_requests(rpm)
        self._tokens = None if tpm is None else SlidingWindow.of_tokens(tpm)
        self._concurrency = AdaptiveConcurrency(workers)
        self._breaker = Breaker(max_down)
        self._max_down = max_down
        self._max_attempts = max_attempts
        self._max_pause = max_pause
        self._notify = on_notice
        self._clock = clock or Clock()
        self._draw = draw
        self._numbers = itertools.count()
        self._queue: list[tuple[int, _Waiter]] = []
        self._timer: Timer | None = None
        self._heartbeat = Heartbeat(self._clock, self._loop_blocked)
        self._paused_until = 0.0
        self._refused_rounds = 0
        self._refused_since: float | None = None
        self._gave_up = False
        self._last_failure = ""
        self._in_flight = 0

    async def call(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        tokens: int = 0,
        used: Callable[[T], int | None] | None = None,
        probe: Callable[[], Awaitable[int | None]] | None = None,
    ) -> CallResult[T]:
        """Make attempts until one succeeds.

        ``tokens`` is the estimated cost of an attempt; ``used`` returns the real one from the value, None
        if unknown. ``probe`` sends a minimal request and returns its tokens.

        Raises:
            RequestError: the last one, its ``attempts`` counted. Other exceptions pass at once.
        """
        number = next(self._numbers)
        attempts = Attempts(self._max_attempts, probed=probe is not None)
        while True:
            permit = await self._acquire(number, tokens)
            if isinstance(permit, RequestError):
                permit.attempts = attempts.made
                raise permit

            # A permit ends in exactly one of these ways:
            # 1. The breaker is open, or the last error is doubtful: the permit pays for a probe, so that
            #    no call is used up to find out if the endpoint is back. The call then asks for another.
            # 2. The attempt succeeds: `_succeeded`.
            # 3. It fails with a RequestError: `_failed`. Then, in this order: everybody waiting fails
            #    if the endpoint has only refused for too long; `attempts` raises the last error; the
            #    call queues again, at once for a probe or without a refused parameter, else after a backoff.
            # 4. It is cancelled or raises anything else: `_abandoned`. What it may have cost stays counted.
            if probe is not None and (permit.trying or attempts.doubtful):
                answered = await self._probed(permit, probe)
                attempts.probed(answered=answered)
                if not answered and self._breaker.wait(self._clock.now()) <= 0:
                    await self._sleep(self._backoff(attempts.made))
                continue
            try:
                value = await attempt()
                spent = used(value) if used is not None else None
            except RequestError as problem:
                error = problem
            except BaseException:
                self._abandoned(permit)
                raise
            else:
                self._succeeded(permit, spent)
                return CallResult(value, attempts.made + 1)
            self._failed(permit, error)
            if (unavailable := self._refused_for_good(error)) is not None:
                unavailable.attempts = attempts.made + 1
                raise unavailable
            attempts.failed(error)
            if not attempts.doubtful and error.kind != "parameter":
                await self._sleep(self._backoff(attempts.made))

    async def _probed(self, permit: _Permit, probe: Callable[[], Awaitable[int | None]]) -> bool:
        """Return True if the endpoint answers the probe at all."""
        try:
            spent = await probe()
        except RequestError as problem:
            self._failed(permit, problem)
            if (unavailable := self._refused_for_good(problem)) is not None:
                raise unavailable from None
            return not problem.of_endpoint and problem.kind != "rate_limited"
        except BaseException:
            self._abandoned(permit)
            raise
        self._succeeded(permit, spent)
        return True

    async def _acquire(self, number: int, tokens: int) -> _Permit | RequestError:
        """Wait for a permit, or for the error of an endpoint that is given up."""
        waiter = _Waiter(tokens, asyncio.get_running_loop().create_future())
        heapq.heappush(self._queue, (number, waiter))
        self._pump()
        try:
            return await waiter.permit
        except asyncio.CancelledError:
            # 1. Still queued: the future is cancelled, `_pump` drops it and lets the next one through.
            # 2. The permit was set in the same step of the loop, and nobody will use it: give it back.
            # 3. The same with an error: nothing to give back.
            if waiter.permit.done() and not waiter.permit.cancelled():
                permit_or_error = waiter.permit.result()
                if isinstance(permit_or_error, _Permit):
                    self._give_back(permit_or_error)
            self._pump()
            raise

    def _pump(self) -> None:
        """Let through the calls that may start now, in order, and set the timer for the next one."""
        self._look()
        if self._queue or self._timer is not None:
            self._admit()
            self._look()

    def _admit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            waiter = self._queue[0][1]
            if waiter.permit.done():  # cancelled
                heapq.heappop(self._queue)
                continue
            now = self._clock.now()
            closed_for = self._breaker.wait(now)
            if closed_for == math.inf:
                return  # the outcome of the probe pumps again
            if closed_for > 0 and self._breaker.gives_up_in(now) <= 0:
                self._give_up(f"has been down for {self._breaker.down_for(now):.0f} s", " and is given up")
                return
            if self._in_flight >= self._concurrency.limit:
                return  # a call that ends pumps again
            delay = self._delay(now, waiter.tokens)
            if closed_for > 0:
                delay = min(closed_for, self._breaker.gives_up_in(now))
            if delay > 0:
                self._timer = self._clock.call_later(delay, self._pump)
                return
            heapq.heappop(self._queue)
            waiter.permit.set_result(self._permit(now, waiter.tokens))

    def _delay(self, now: float, tokens: int) -> float:
        """Return the seconds for which pause and windows hold back the next call."""
        delay = self._paused_until - now
        if self._requests is not None:
            delay = max(delay, self._requests.wait(now))
        if self._tokens is not None:
            delay = max(delay, self._tokens.wait(now, tokens))
        return delay

    def _look(self) -> None:
        if self._requests is not None or self._tokens is not None:
            self._heartbeat.look(wanted=self._in_flight > 0)

    def _loop_blocked(self, since: float, now: float) -> None:
        for window in (self._requests, self._tokens):
            if window is not None:
                window.loop_blocked(since, now)

    def _permit(self, now: float, tokens: int) -> _Permit:
        self._in_flight += 1
        return _Permit(
            None if self._requests is None else self._requests.start(now),
            None if self._tokens is None else self._tokens.start(now, tokens),
            self._concurrency.round,
            self._breaker.started(),
        )

    def _give_back(self, permit: _Permit) -> None:
        """Take back a permit that nobody used."""
        if self._requests is not None and permit.request is not None:
            self._requests.correct(permit.request, 0)
        self._correct_tokens(permit, 0)
        self._abandoned(permit)

    def _abandoned(self, permit: _Permit) -> None:
        self._in_flight -= 1
        self._breaker.abandoned(self._clock.now(), trying=permit.trying)
        self._pump()

    def _succeeded(self, permit: _Permit, spent: int | None) -> None:
        self._in_flight -= 1
        self._correct_tokens(permit, spent)
        self._concurrency.succeeded()
        self._refused_rounds = 0
        self._refused_since = None
        self._answered()
        self._pump()

    def _failed(self, permit: _Permit, error: RequestError) -> None:
        self._in_flight -= 1
        self._correct_tokens(permit, 0 if error.kind in _REFUNDED and error.tokens is None else error.tokens)
        now = self._clock.now()
        if error.of_endpoint:
            self._last_failure = str(error)
            if self._breaker.failed(now, trying=permit.trying):
                wait = self._breaker.wait(now)
                self._notify(f"{self._name} is down ({error}); calls wait, next try in {wait:.0f} s")
        else:
            self._answered()
        if error.kind == "rate_limited":
            self._last_failure = str(error)
            self._refused_since = now if self._refused_since is None else self._refused_since
            self._slow_down(permit, now)
        elif not error.of_endpoint:
            self._refused_since = None
        if error.retry_after:
            self._pause(now, error.retry_after)
        self._pump()

    def _answered(self) -> None:
        """Note that the endpoint is up, whatever the answer."""
        if self._refused_since is None:
            self._gave_up = False
        if self._breaker.answered():
            self._notify(f"{self._name} answers again; calls go on")

    def _slow_down(self, permit: _Permit, now: float) -> None:
        """Halve the concurrency and pause, once for all calls that were in flight together."""
        if permit.round != self._concurrency.round:
            return
        before = self._concurrency.limit
        if self._concurrency.refused(permit.round):
            self._notify(
                f"{self._name} is over its rate; calls at a time: {before} -> {self._concurrency.limit}"
            )
        self._refused_rounds += 1
        self._paused_until = max(self._paused_until, now + self._backoff(self._refused_rounds))

    def _pause(self, now: float, seconds: float) -> None:
        until = now + min(seconds, self._max_pause)
        if until > self._paused_until:
            if self._paused_until <= now:
                self._notify(f"{self._name} asks to wait; all calls pause for {until - now:.1f} s")
            self._paused_until = until

    def _refused_for_good(self, error: RequestError) -> RequestError | None:
        """Return the error of a call whose endpoint has only refused for ``max_down`` seconds.

        Checked when a refusal arrives, since a long pause alone gives nothing up. All waiting calls fail
        with it; a call that comes later may try again.
        """
        refused = self._clock.now() - (self._refused_since or 0.0)
        if error.kind != "rate_limited" or self._refused_since is None or refused < self._max_down:
            return None
        reason = f"has refused every call for its rate for {refused:.0f} s"
        return self._give_up(reason, "; it counts as down and is given up")

    def _give_up(self, reason: str, consequence: str) -> RequestError:
        """Fail all waiting calls and return their error."""
        if not self._gave_up:
            self._gave_up = True
            self._notify(f"{self._name} {reason}{consequence}")
        text = f"the endpoint {reason} ({self._last_failure})"
        waiting, self._queue = self._queue, []
        for _, waiter in waiting:
            if not waiter.permit.done():
                waiter.permit.set_result(RequestError("unavailable", text))
        return RequestError("unavailable", text)

    def _correct_tokens(self, permit: _Permit, spent: int | None) -> None:
        if self._tokens is not None and permit.tokens is not None and spent is not None:
            self._tokens.correct(permit.tokens, spent)

    def _backoff(self, number: int) -> float:
        """Return the wait before the next attempt: full jitter below a bound that doubles."""
        return self._draw() * min(MAX_BACKOFF, BACKOFF * 2.0 ** min(number - 1, 16))

    async def _sleep(self, seconds: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()
