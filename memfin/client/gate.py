"""One gate for all calls of a run: rates, concurrency, pauses, retries, and the circuit breaker.

What may start is decided at once, in pure state (`window`, `concurrency`, `breaker`); calls only wait
for the decision. They start in the order in which they came.
"""

import asyncio
import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from memfin.client.attempts import Attempts
from memfin.client.breaker import Breaker
from memfin.client.clock import Clock, LoopClock, Timer
from memfin.client.concurrency import AdaptiveConcurrency
from memfin.client.errors import WireError
from memfin.client.heartbeat import Heartbeat
from memfin.client.outcomes import GateResult, GateStatistics
from memfin.client.permits import Permit, Waiter
from memfin.client.retry_after import MOST
from memfin.client.window import SlidingWindow

T = TypeVar("T")

MOST_ATTEMPTS: Final = 5
MOST_DOWN: Final = 60.0
"""Seconds that calls wait for an endpoint that is down, before they are turned away."""

BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 30.0
"""Seconds: the bound on the first wait before another attempt, doubled each time, up to the longest."""

_REFUNDED: Final = frozenset({"connect", "rate_limited"})


class CallGate:
    """Lets calls through, one gate for all workers of a run.

    ``rpm`` and ``tpm`` bound requests and tokens a minute, see `SlidingWindow`; every attempt counts.
    ``workers`` bounds the calls under way; a refusal for the rate (HTTP 429) halves that bound. A
    server's wish to wait, cut to ``most_pause`` seconds, and a refusal without one pause all calls.
    A call fails with its last `WireError` after ``most_attempts`` failures, or twice as many refusals;
    at once when its error is not retryable, and, with one of the kind ``unavailable``, when the endpoint
    has been down for ``most_down`` seconds, or has refused every call for its rate for that long.
    ``on_notice`` is told in one line when the gate pauses, opens or closes; it must not raise.

    ``clock`` and ``draw`` (a number in [0, 1) for the jitter) are for tests.
    """

    def __init__(  # noqa: PLR0913 - each setting stands alone
        self,
        *,
        workers: int,
        rpm: float | None = None,
        tpm: float | None = None,
        most_attempts: int = MOST_ATTEMPTS,
        on_notice: Callable[[str], None],
        name: str = "endpoint",
        most_pause: float = MOST,
        most_down: float = MOST_DOWN,
        clock: Clock | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        self._requests = SlidingWindow.of_requests(rpm) if rpm is not None else None
        self._tokens = SlidingWindow.of_tokens(tpm) if tpm is not None else None
        self._windows = [window for window in (self._requests, self._tokens) if window is not None]
        self._concurrency = AdaptiveConcurrency(workers)
        self._breaker = Breaker(most_down)
        self._most_down = most_down
        self._most_attempts = most_attempts
        self._most_pause = most_pause
        self._notify = on_notice
        self._clock: Clock = clock or LoopClock()
        self._draw = draw
        self._numbers = itertools.count()
        self._queue: list[tuple[int, Waiter]] = []
        self._timer: Timer | None = None
        self._heart = Heartbeat(self._clock, self._held_up)
        self._paused_until = 0.0
        self._refused_rounds = 0
        self._refused_since: float | None = None
        self._gave_up = False
        self._last_failure = ""
        self._in_flight = 0
        self._calls = 0
        self._attempts = 0
        self._failures: Counter[str] = Counter()
        self._most_in_flight = 0
        self._halvings = 0
        self._openings = 0

    async def call(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        tokens: int = 0,
        used: Callable[[T], int | None] | None = None,
        probe: Callable[[], Awaitable[int | None]] | None = None,
    ) -> GateResult[T]:
        """Make attempts until one succeeds.

        ``tokens`` is the estimate of what an attempt costs; ``used`` tells from the value what it
        really cost, None where that is not known. ``probe`` asks the endpoint for next to nothing and
        returns the tokens that took: it tries an open breaker, so that no call is used up by that, and
        it decides whether a call that has failed for an error of the endpoint has failed by itself.

        Raises:
            WireError: the last one, its ``attempts`` counted. Other exceptions pass at once.
        """
        number = next(self._numbers)
        self._calls += 1
        attempts = Attempts(self._most_attempts, probed=probe is not None)
        waited = 0.0
        while True:
            permit, wait = await self._admitted(number, tokens)
            waited += wait
            if isinstance(permit, WireError):
                permit.attempts = attempts.made
                raise permit
            if probe is not None and (permit.trying or attempts.doubtful):
                there = await self._asked(permit, probe)
                attempts.found(there=there)
                if not there and self._breaker.wait(self._clock.now()) <= 0:
                    waited += await self._sleep(self._backoff(attempts.made))
                continue
            try:
                value = await attempt()
                spent = used(value) if used is not None else None
            except WireError as problem:
                error = problem
            except BaseException:
                self._abandoned(permit)
                raise
            else:
                self._succeeded(permit, spent)
                return GateResult(value, attempts.made + 1, waited)
            self._failed(permit, error)
            if (unavailable := self._refused_for_good(error)) is not None:
                unavailable.attempts = attempts.made + 1
                raise unavailable
            attempts.failed(error)
            if attempts.doubtful or error.kind == "parameter":
                continue
            waited += await self._sleep(self._backoff(attempts.made))

    async def _asked(self, permit: Permit, probe: Callable[[], Awaitable[int | None]]) -> bool:
        """Say whether the endpoint is there: whether it answers at all."""
        try:
            spent = await probe()
        except WireError as problem:
            self._failed(permit, problem)
            if (unavailable := self._refused_for_good(problem)) is not None:
                raise unavailable from None
            return not problem.of_endpoint and problem.kind != "rate_limited"
        except BaseException:
            self._abandoned(permit)
            raise
        self._succeeded(permit, spent)
        return True

    def statistics(self) -> GateStatistics:
        """Return the counts at this moment."""
        return GateStatistics(
            calls=self._calls,
            attempts=self._attempts,
            failures=dict(sorted(self._failures.items())),
            concurrency=self._concurrency.limit,
            most_in_flight=self._most_in_flight,
            halvings=self._halvings,
            openings=self._openings,
        )

    async def _admitted(self, number: int, tokens: int) -> tuple[Permit | WireError, float]:
        """Wait for leave to make one attempt, or for the error of an endpoint that is down; and how long."""
        if (permit := self._at_once(tokens)) is not None:
            return permit, 0.0
        asked = self._clock.now()
        waiter = Waiter(tokens, asyncio.get_running_loop().create_future())
        heapq.heappush(self._queue, (number, waiter))
        self._pump()
        try:
            return await waiter.permit, self._clock.now() - asked
        except asyncio.CancelledError:
            if waiter.permit.done() and not waiter.permit.cancelled():
                # Leave was given, and the caller cancelled before it could take it.
                self._returned(waiter.permit.result())
            self._pump()
            raise

    def _held_up(self, since: float, now: float) -> None:
        """Note that the loop stood still: the windows count what had started since as started now."""
        for window in self._windows:
            window.held_up(since, now)

    def _pump(self) -> None:
        """Let through what may start now, in order, and set the timer for what comes next."""
        self._look()
        if self._queue or self._timer is not None:
            self._admit()
            self._look()

    def _look(self) -> None:
        if self._windows:
            self._heart.look(wanted=self._in_flight > 0)

    def _at_once(self, tokens: int) -> Permit | None:
        """Return a permit when nobody waits and the call may start now: the usual case, without a detour."""
        if self._queue or self._in_flight >= self._concurrency.limit:
            return None
        self._look()
        now = self._clock.now()
        if self._breaker.wait(now) > 0 or self._delay(now, tokens) > 0:
            return None
        permit = self._permit(now, tokens)
        if self._in_flight == 1:
            self._look()
        return permit

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
                return  # one call tries whether the endpoint is back; its outcome pumps again
            if closed_for > 0 and self._breaker.gives_up_in(now) <= 0:
                self._turn_away(now)
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
        """Return how long pause and windows keep the next call from starting."""
        delay = self._paused_until - now
        if self._requests is not None:
            delay = max(delay, self._requests.wait(now))
        if self._tokens is not None:
            delay = max(delay, self._tokens.wait(now, tokens))
        return delay

    def _permit(self, now: float, tokens: int) -> Permit:
        self._in_flight += 1
        self._attempts += 1
        self._most_in_flight = max(self._most_in_flight, self._in_flight)
        return Permit(
            self._requests.start(now) if self._requests is not None else None,
            self._tokens.start(now, tokens) if self._tokens is not None else None,
            self._concurrency.round,
            trying=self._breaker.started(),
        )

    def _returned(self, permit: Permit | WireError) -> None:
        """Take back a permit that nobody used."""
        if isinstance(permit, WireError):
            return
        self._attempts -= 1
        if self._requests is not None and permit.request is not None:
            self._requests.take_back(permit.request)
        self._correct(permit, 0)
        self._abandoned(permit)

    def _abandoned(self, permit: Permit) -> None:
        """End an attempt without an outcome; what it may have cost stays counted."""
        self._in_flight -= 1
        self._breaker.abandoned(self._clock.now(), trying=permit.trying)
        self._pump()

    def _succeeded(self, permit: Permit, spent: int | None) -> None:
        self._in_flight -= 1
        self._correct(permit, spent)
        self._concurrency.succeeded()
        self._refused_rounds = 0
        self._refused_since = None
        self._answered()
        self._pump()

    def _failed(self, permit: Permit, error: WireError) -> None:
        self._in_flight -= 1
        self._failures[error.kind] += 1
        self._correct(permit, 0 if error.kind in _REFUNDED and error.tokens is None else error.tokens)
        now = self._clock.now()
        if error.of_endpoint:
            self._last_failure = str(error)
            if self._breaker.failed(now, trying=permit.trying):
                self._openings += 1
                wait = self._breaker.wait(now)
                self._notify(f"{self._name} is down ({error}); calls wait, next try in {wait:.0f} s")
        else:
            self._answered()
        if error.kind == "rate_limited":
            self._last_failure = str(error)
            self._refused_since = now if self._refused_since is None else self._refused_since
            self._refused(permit, now)
        elif not error.of_endpoint:
            self._refused_since = None
        if error.retry_after:
            self._pause(now, error.retry_after, f"{self._name} asks to wait")
        self._pump()

    def _refused_for_good(self, error: WireError) -> WireError | None:
        """Return the error of a call that is refused when nothing but refusals came for too long.

        It is looked at when a refusal comes: a long pause alone gives nothing up. All that wait are
        turned away with it; a call that comes later may try its luck.
        """
        refused = self._clock.now() - (self._refused_since or 0.0)
        if error.kind != "rate_limited" or self._refused_since is None or refused < self._most_down:
            return None
        said = f"has refused every call for its rate for {refused:.0f} s"
        if not self._gave_up:
            self._gave_up = True
            self._notify(f"{self._name} {said}; it counts as down and is given up")
        text = f"the endpoint {said} ({self._last_failure})"
        self._turn_all_away(text)
        return WireError("unavailable", text)

    def _refused(self, permit: Permit, now: float) -> None:
        """Slow down, once for all calls that were under way together."""
        if permit.round != self._concurrency.round:
            return
        before = self._concurrency.limit
        if self._concurrency.refused(permit.round):
            self._halvings += 1
            self._notify(
                f"{self._name} is over its rate; calls at a time: {before} -> {self._concurrency.limit}"
            )
        self._refused_rounds += 1
        self._paused_until = max(self._paused_until, now + self._backoff(self._refused_rounds))

    def _pause(self, now: float, seconds: float, reason: str) -> None:
        until = now + min(seconds, self._most_pause)
        if until > self._paused_until:
            if self._paused_until <= now:
                self._notify(f"{reason}; all calls pause for {until - now:.1f} s")
            self._paused_until = until

    def _answered(self) -> None:
        """Note that the endpoint is up, whatever it said."""
        if self._refused_since is None:
            self._gave_up = False
        if self._breaker.answered():
            self._notify(f"{self._name} answers again; calls go on")

    def _turn_away(self, now: float) -> None:
        """Fail all that wait: the endpoint has been down for too long."""
        down = self._breaker.down_for(now)
        if not self._gave_up:
            self._gave_up = True
            self._notify(f"{self._name} has been down for {down:.0f} s and is given up")
        self._turn_all_away(f"the endpoint has been down for {down:.0f} s ({self._last_failure})")

    def _turn_all_away(self, text: str) -> None:
        waiting, self._queue = self._queue, []
        for _, waiter in waiting:
            if not waiter.permit.done():
                waiter.permit.set_result(WireError("unavailable", text))

    def _correct(self, permit: Permit, spent: int | None) -> None:
        if self._tokens is not None and permit.tokens is not None and spent is not None:
            self._tokens.correct(permit.tokens, spent)

    def _backoff(self, number: int) -> float:
        """Return the wait before the next attempt: anything up to a bound that doubles."""
        return self._draw() * min(LONGEST_BACKOFF, BACKOFF * 2.0 ** min(number - 1, 16))

    async def _sleep(self, seconds: float) -> float:
        """Wait by the gate's clock; return the seconds."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not over.done():
                over.set_result(None)

        timer = self._clock.call_later(seconds, wake)
        try:
            await over
        finally:
            timer.cancel()
        return seconds
