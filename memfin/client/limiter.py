"""Rate and concurrency limits, retries and a circuit breaker, shared by all calls to one endpoint.

`AdaptiveConcurrency`, `Breaker` and `Attempts` are pure state whose methods take the time, as are the
windows of `memfin.client.windows`. `CallLimiter` queues calls until that state lets them start;
`StartLimiter` does so for calls that have a rate alone.
"""

import asyncio
import math
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Generic, TypeVar

from memfin.client.errors import EndpointDown, RequestError
from memfin.client.windows import Permit, Rate, Windows

T = TypeVar("T")

_INSTANT: Final = 1e-9  # seconds that a clock may not be able to wait

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


class AdaptiveConcurrency:
    """Concurrency limit with additive increase and multiplicative decrease, from 1 to ``maximum``.

    ``round`` numbers the times between two halvings: of all calls in flight together only the first
    refused one halves the limit.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._successes = 0
        self.limit = maximum
        self.round = 0

    def succeeded(self) -> None:
        """Count an answer; after as many answers as calls in flight the limit grows by one."""
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
    """Circuit breaker. Closed: calls pass. Open: no call passes. Half open: one call probes the endpoint."""

    def __init__(self) -> None:
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._next_probe = -math.inf
        self._down_since: float | None = None

    def wait(self, now: float) -> float:
        """Return the seconds until a call may try; infinity while one is trying."""
        return max(0.0, self._next_probe - now)

    def down_for(self, now: float) -> float:
        """Return the seconds for which the endpoint has been down."""
        return 0.0 if self._down_since is None else now - self._down_since

    def started(self) -> bool:
        """Count a start; return True if this call is the probe of an open breaker."""
        if self._down_since is not None:
            self._next_probe = math.inf
        return self._down_since is not None

    def answered(self) -> bool:
        """Count an answer of any kind; return True if it closed the breaker."""
        closed = self._down_since is not None
        self._failures, self._pause = 0, FIRST_PAUSE
        self._next_probe, self._down_since = -math.inf, None
        return closed

    def failed(self, now: float, *, trying: bool) -> bool:
        """Count a failure of the endpoint; return True if it opened the breaker.

        While the breaker is open only the probe counts: other calls started before.
        """
        opened = self._down_since is None
        if opened:
            self._failures += 1
            if self._failures < FAILURES:
                return False
            self._down_since = now
        elif trying:
            self._pause = min(MAX_PAUSE, self._pause * 2)
        else:
            return False
        self._next_probe = now + self._pause
        return opened

    def abandoned(self, now: float, *, trying: bool) -> None:
        """Count a call without an outcome; another one may try at once."""
        if trying:
            self._next_probe = min(self._next_probe, now)


class Attempts:
    """Failure count of one call.

    With ``probed``, a call fails for an error of the endpoint, or for refusals of its rate, only after a
    probe of the endpoint was answered; until then the error is `doubtful`. An endpoint that turns out to
    have been down gives the call all its attempts once more, one time.

    Attributes:
        made: requests sent for the call, probes included.
        doubtful: the error that the next request has to check by a probe.
    """

    def __init__(self, maximum: int, *, probed: bool) -> None:
        self.made = 0
        self.doubtful: RequestError | None = None
        self._maximum = maximum
        self._probed = probed
        self._failures = 0
        self._refusals = 0
        self._was_down = False
        self._renewed = False

    def failed(self, error: RequestError) -> None:
        """Count a failed attempt; raise its error if it was the last one."""
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
        self.doubtful = error

    def probed(self, *, answered: bool) -> None:
        """Count a probe; raise the error in doubt if the endpoint turned out to be up."""
        if not answered:
            self._was_down = True
            return
        error, self.doubtful = self.doubtful, None
        was_down, self._was_down = self._was_down, False
        if error is None:
            return
        if self._renewed or not was_down:
            raise error
        self._renewed = True
        self._failures = self._refusals = 0


class Clock:
    """Time of the running event loop; tests derive a virtual one."""

    def now(self) -> float:  # noqa: D102
        return asyncio.get_running_loop().time()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set, or the time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), None if seconds == math.inf else seconds)


@dataclass(frozen=True, slots=True)
class CallResult(Generic[T]):
    """The value of a call, and the number of attempts it took."""

    value: T
    attempts: int


@dataclass(frozen=True, eq=False, slots=True)
class _Permit:
    """Permission for one attempt; ``trying`` marks the probe of an open breaker."""

    start: Permit
    round: int
    trying: bool


_on_sent: Final[ContextVar[Callable[[], None] | None]] = ContextVar("memfin_on_sent", default=None)


def request_sent() -> None:
    """Tell the limiter that the running attempt sends its request only now, and counts from now."""
    if (on_sent := _on_sent.get()) is not None:
        on_sent()


class CallLimiter:
    """Limiter of the calls of all workers to one endpoint, in the order in which they queue.

    ``rpm`` and ``tpm`` bound requests and tokens per minute (see `SlidingWindow`); every attempt counts.
    ``rate`` is a limit shared with other processes in place of both.
    ``workers`` bounds the calls in flight; HTTP 429 halves that bound. A Retry-After, cut to
    ``max_pause`` seconds, and a 429 without one pause all calls. A call fails with its last
    `RequestError` after ``max_attempts`` failures or twice as many refusals; at once if its error is not
    retryable; and with one of the kind ``unavailable`` when the endpoint has been down, or has refused
    every call for its rate, for ``max_down`` seconds. ``on_warning`` gets one line whenever the limiter
    pauses, opens or closes; it must not raise.

    ``clock`` and ``draw`` (a number in [0, 1) for the jitter) are for tests.
    """

    def __init__(  # noqa: PLR0913 - independent settings
        self,
        *,
        workers: int,
        rpm: float | None = None,
        tpm: float | None = None,
        rate: Rate | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        on_warning: Callable[[str], None],
        name: str = "endpoint",
        max_pause: float = MAX_RETRY_AFTER,
        max_down: float = MAX_DOWN,
        clock: Clock | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        self._rate = rate or Windows(rpm, tpm)
        self._concurrency = AdaptiveConcurrency(workers)
        self._breaker = Breaker()
        self._max_down = max_down
        self._max_attempts = max_attempts
        self._max_pause = max_pause
        self._notify = on_warning
        self._clock = clock or Clock()
        self._draw = draw
        self._queue = asyncio.Lock()  # held by the call that may start next
        self._changed = asyncio.Event()
        self._in_flight = 0
        self._paused_until = 0.0
        self._refused_rounds = 0
        self._refused_since: float | None = None
        self._times_given_up = 0
        self._gave_up = False
        self._unavailable = ""
        self._last_failure = ""

    async def close(self) -> None:
        """Close the connection to whoever gives permissions."""
        await self._rate.close()

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
        attempts = Attempts(self._max_attempts, probed=probe is not None)
        try:
            while True:
                permit = await self._acquire(tokens)
                attempts.made += 1
                if probe is not None and (permit.trying or attempts.doubtful):
                    # No call is used up to find out if the endpoint is back.
                    answer = await self._attempt(permit, probe, lambda spent: spent)
                    refusal = answer if isinstance(answer, RequestError) else None
                    if refusal is not None and refusal.kind == "unavailable":
                        raise refusal
                    answered = refusal is None or not (refusal.of_endpoint or refusal.kind == "rate_limited")
                    attempts.probed(answered=answered)
                    pausing = not answered and self._breaker.wait(self._clock.now()) <= 0
                else:
                    value = await self._attempt(permit, attempt, used)
                    if not isinstance(value, RequestError):
                        return CallResult(value, attempts.made)
                    attempts.failed(value)
                    pausing = not attempts.doubtful and value.kind != "parameter"
                if pausing:
                    await self._clock.wait(asyncio.Event(), self._backoff(attempts.made))
        except RequestError as error:
            error.attempts = attempts.made
            raise

    async def _attempt(
        self, permit: _Permit, attempt: Callable[[], Awaitable[T]], used: Callable[[T], int | None] | None
    ) -> T | RequestError:
        """Make one request; return its value or error, and release the permit."""
        token = _on_sent.set(lambda: self._sent(permit))
        try:
            value = await attempt()
            spent = used(value) if used is not None else None
        except RequestError as error:
            return self._failed(permit, error)
        except BaseException:  # cancelled, or a bug; what it may have cost stays counted
            self._breaker.abandoned(self._clock.now(), trying=permit.trying)
            raise
        else:
            self._succeeded(permit, spent)
            return value
        finally:
            _on_sent.reset(token)
            self._in_flight -= 1
            self._changed.set()

    async def _acquire(self, tokens: int) -> _Permit:
        """Wait for a permit; raise the error if the endpoint is given up meanwhile."""
        times = self._times_given_up
        async with self._queue:
            while self._times_given_up == times:
                now = self._clock.now()
                delay = self._delay(now) or self._rate.wait(now, tokens)
                if delay < _INSTANT:
                    try:
                        start = await self._rate.start(now, tokens)
                    except EndpointDown as problem:
                        raise self._refuse(str(problem)) from problem
                    # While others were asked for the start, this endpoint may have gone down.
                    if self._times_given_up == times and self._delay(self._clock.now()) < _INSTANT:
                        self._in_flight += 1
                        return _Permit(start, self._concurrency.round, self._breaker.started())
                    start.withdraw()
                    continue
                self._changed.clear()
                await self._clock.wait(self._changed, delay)
            raise RequestError("unavailable", self._unavailable)

    def _delay(self, now: float) -> float:
        """Return the seconds until a call may start, if its rate allows it; raise the error of giving up."""
        closed_for, down_for = self._breaker.wait(now), self._breaker.down_for(now)
        if 0 < closed_for < math.inf and down_for >= self._max_down:
            raise self._give_up(f"has been down for {down_for:.0f} s", " and is given up")
        # 1. Too many calls in flight, or one that probes: wait for one to end.
        # 2. The breaker is open: wait until a probe is due, or nobody waits any more.
        # 3. A pause.
        if self._in_flight >= self._concurrency.limit or closed_for == math.inf:
            return math.inf
        if closed_for > 0:
            return min(closed_for, self._max_down - down_for)
        return max(self._paused_until - now, 0.0)

    def _sent(self, permit: _Permit) -> None:
        permit.start.sent(self._clock.now())

    def _succeeded(self, permit: _Permit, spent: int | None) -> None:
        self._correct_tokens(permit, spent)
        self._concurrency.succeeded()
        self._refused_rounds = 0
        self._refused_since = None
        self._answered()

    def _failed(self, permit: _Permit, error: RequestError) -> RequestError:
        """Count a failure; return its error, or the final one if the endpoint is given up."""
        self._correct_tokens(permit, 0 if error.kind in _REFUNDED and error.tokens is None else error.tokens)
        now, refused = self._clock.now(), error.kind == "rate_limited"
        if error.of_endpoint or refused:
            self._last_failure = str(error)
        else:
            self._refused_since = None
        if not error.of_endpoint:
            self._answered()
        elif self._breaker.failed(now, trying=permit.trying):
            wait = self._breaker.wait(now)
            self._notify(f"{self._name} is down ({error}); calls wait, next try in {wait:.0f} s")
        if refused:
            self._slow_down(permit, now)
        if error.retry_after:
            self._pause(now, error.retry_after)
        # Checked when a refusal arrives, since a long pause alone gives nothing up.
        if refused and self._refused_since is not None and now - self._refused_since >= self._max_down:
            reason = f"has refused every call for its rate for {now - self._refused_since:.0f} s"
            return self._give_up(reason, "; it counts as down and is given up")
        return error

    def _answered(self) -> None:
        """Record that the endpoint answers."""
        if self._refused_since is None:
            self._gave_up = False
        if self._breaker.answered():
            self._notify(f"{self._name} answers again; calls continue")

    def _slow_down(self, permit: _Permit, now: float) -> None:
        """Halve the concurrency and pause, once for all calls that were in flight together."""
        self._refused_since = now if self._refused_since is None else self._refused_since
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

    def _give_up(self, reason: str, consequence: str) -> RequestError:
        """Fail all waiting calls and return their error; later calls may try again."""
        if not self._gave_up:
            self._gave_up = True
            self._notify(f"{self._name} {reason}{consequence}")
        return self._refuse(f"the endpoint {reason} ({self._last_failure})")

    def _refuse(self, why: str) -> RequestError:
        self._times_given_up += 1
        self._unavailable = why
        return RequestError("unavailable", why)

    def _correct_tokens(self, permit: _Permit, spent: int | None) -> None:
        if spent is not None:
            permit.start.correct(spent)

    def _backoff(self, number: int) -> float:
        """Return the wait before the next attempt: full jitter below a bound that doubles."""
        return self._draw() * min(MAX_BACKOFF, BACKOFF * 2.0 ** min(number - 1, 16))


class StartLimiter:
    """Limiter of the starts of calls, in the order in which they queue, by their rate alone."""

    def __init__(self, rate: Rate, clock: Clock | None = None) -> None:
        self._rate = rate
        self._clock = clock or Clock()
        self._queue = asyncio.Lock()

    async def admit(self) -> float:
        """Wait until a call may start, which it is to do at once; return the seconds that took.

        Raises:
            EndpointDown: who gives permissions has been away for too long.
            UsageError: the settings are not those of who gives permissions.
        """
        began = self._clock.now()
        async with self._queue:
            while (delay := self._rate.wait(self._clock.now())) >= _INSTANT:
                await self._clock.wait(asyncio.Event(), delay)
            await self._rate.start(self._clock.now())
        return self._clock.now() - began

    async def close(self) -> None:
        """Close the connection to whoever gives permissions."""
        await self._rate.close()
