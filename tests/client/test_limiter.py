"""The limiter over all calls, on a virtual clock."""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

import anyio
import pytest

from memfin.client.errors import ErrorKind, RequestError
from memfin.client.limiter import FAILURES, REFUSALS, CallLimiter, CallResult, request_sent
from tests.client.fake_clock import FakeClock, settle
from tests.support import LONG, length


class Endpoint:
    """Takes calls on the fake clock: each lasts ``latency`` and then fails as scripted."""

    def __init__(self, clock: FakeClock, latency: float = 0.05) -> None:
        self.clock = clock
        self.latency = latency
        self.script: Iterator[RequestError | None] = iter(())
        self.always: Callable[[], RequestError | None] = lambda: None
        self.arrivals: list[tuple[float, object]] = []
        self.in_flight = 0
        self.max_in_flight = 0

    def attempt(self, name: object = None) -> Callable[[], Awaitable[object]]:
        async def attempt() -> object:
            self.arrivals.append((self.clock.time, name))
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
            try:
                fault = next(self.script, None) or self.always()
                await self.clock.sleep(self.latency)
                if fault is not None:
                    raise fault
                return name
            finally:
                self.in_flight -= 1

        return attempt


class Bench:
    """A limiter, its clock, an endpoint behind it, and what it noticed."""

    def __init__(
        self,
        *,
        workers: int = 64,
        rpm: float | None = None,
        tpm: float | None = None,
        max_attempts: int = 5,
        max_down: float = 60.0,
        draw: float = 0.5,
    ) -> None:
        self.clock = FakeClock()
        self.endpoint = Endpoint(self.clock)
        self.notices: list[str] = []
        self.limiter = CallLimiter(
            workers=workers,
            rpm=rpm,
            tpm=tpm,
            max_attempts=max_attempts,
            on_warning=self.notices.append,
            name="judge",
            max_down=max_down,
            clock=self.clock,
            draw=lambda: draw,
        )

    async def call(self, name: object = None, tokens: int = 0) -> CallResult[object]:
        return await self.limiter.call(self.endpoint.attempt(name), tokens=tokens)

    def at_rest(self) -> None:
        """Assert that nothing is left over: no permit, no waiter, no timer."""
        assert self.limiter._in_flight == 0
        assert not self.limiter._queue.locked()
        assert self.clock.pending == 0
        assert self.limiter._breaker.wait(0.0) < math.inf


def failure(kind: ErrorKind, **details: float) -> RequestError:
    status = {"status": 500, "rate_limited": 429}.get(kind)
    return RequestError(kind, f"it was {kind}", status=status, retry_after=details.get("retry_after"))


def max_within(times: Iterable[float], period: float) -> int:
    times = sorted(times)
    return max(sum(first <= at <= first + period for at in times) for first in times)


async def finished(bench: Bench, count: int, seconds: float = 3600.0, tokens: int = 0) -> list[object]:
    """Make so many calls at once; return what became of them, errors included."""
    outcomes: list[object] = [None] * count

    async def one(number: int) -> None:
        try:
            outcomes[number] = await bench.call(number, tokens)
        except RequestError as problem:
            outcomes[number] = problem

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, number)
        await bench.clock.run(seconds)
        group.cancel_scope.cancel()  # a call that is still waiting fails the test, it does not hang it
    bench.at_rest()
    return outcomes


async def test_a_call_that_succeeds_is_made_once() -> None:
    bench = Bench()
    (result,) = await finished(bench, 1)
    assert result == CallResult(0, 1)
    assert len(bench.endpoint.arrivals) == 1


async def test_no_more_calls_than_workers_are_under_way() -> None:
    bench = Bench(workers=7)
    await finished(bench, 100)
    assert bench.endpoint.max_in_flight == 7


@pytest.mark.parametrize("rpm", [30.0, *([600.0, 900.0] if LONG else [120.0, 300.0])])
async def test_requests_hold_in_every_window_and_nine_tenths_are_used(rpm: float) -> None:
    bench = Bench(rpm=rpm)
    outcomes = await finished(bench, round(rpm * 2), 200.0)
    assert all(isinstance(outcome, CallResult) for outcome in outcomes)
    times = [at for at, _ in bench.endpoint.arrivals]
    assert max_within(times, 60.0) <= rpm
    assert max_within(times, 1.0) <= max(1.0, rpm / 60)
    assert times[-1] - times[0] <= 120 / 0.9


async def test_attempts_after_a_failure_count_like_first_ones() -> None:
    bench = Bench(rpm=600, max_attempts=100)
    bench.endpoint.script = iter([fault for _ in range(100) for fault in (failure("invalid_json"), None)])
    outcomes = await finished(bench, 200)
    assert all(isinstance(outcome, CallResult) for outcome in outcomes)
    assert len(bench.endpoint.arrivals) == 300
    assert max_within([at for at, _ in bench.endpoint.arrivals], 1.0) <= 10


@pytest.mark.parametrize(("estimate", "real"), [(100, 100), (300, 100), (40, 100), (100, 7)])
async def test_tokens_hold_in_every_minute_by_real_usage(estimate: int, real: int) -> None:
    bench = Bench(tpm=60_000)
    started = bench.clock.time
    seconds = length(80, 150)

    async def worker(stop: float) -> None:
        while bench.clock.time < stop:
            await bench.limiter.call(bench.endpoint.attempt(), tokens=estimate, used=lambda _: real)

    async with anyio.create_task_group() as group:
        for _ in range(64):
            group.start_soon(worker, started + seconds)
        await bench.clock.run(seconds + 60)
    bench.at_rest()
    times = [at for at, _ in bench.endpoint.arrivals]
    # Calls under way when the first answer tells their real cost cannot be called back.
    unknown = round(max(0, real - estimate) * bench.endpoint.latency * 1000 / estimate) + real
    per_minute = max_within(times, 60.0) * real
    assert per_minute <= 60_000 + (unknown if real > estimate else 0)
    settled = [at for at in times if at > started + 2]
    assert max_within(settled, 1.0) * real <= 1000
    if real >= 100:
        assert len(times) * real >= 0.9 * 1000 * seconds


async def test_tokens_of_refused_calls_are_given_back() -> None:
    bench = Bench(tpm=6000)
    bench.endpoint.script = iter([failure("connect")])
    (result,) = await finished(bench, 1, tokens=3000)
    assert isinstance(result, CallResult)
    assert bench.endpoint.arrivals[1][0] - bench.endpoint.arrivals[0][0] < 1


async def test_what_a_failed_call_cost_is_counted() -> None:
    bench = Bench(tpm=6000)
    bench.endpoint.script = iter([RequestError("invalid_schema", "no verdict", tokens=1000)])
    (result,) = await finished(bench, 1, tokens=10)
    assert isinstance(result, CallResult)
    assert bench.endpoint.arrivals[1][0] - bench.endpoint.arrivals[0][0] > 10


async def test_calls_start_in_the_order_in_which_they_came() -> None:
    bench = Bench(workers=4, rpm=600, tpm=60_000)
    outcomes: list[int] = []

    async def one(number: int) -> None:
        tokens = 900 if number % 3 == 0 else 10  # small ones must not overtake
        await bench.limiter.call(bench.endpoint.attempt(number), tokens=tokens)
        outcomes.append(number)

    async with anyio.create_task_group() as group:
        for number in range(60):
            group.start_soon(one, number)
        await bench.clock.run(600)
    assert [name for _, name in bench.endpoint.arrivals] == list(range(60))
    assert outcomes == list(range(60))


async def test_attempts_are_bounded_and_counted_in_the_last_error() -> None:
    bench = Bench(max_attempts=4)
    bench.endpoint.always = lambda: failure("invalid_schema")
    (outcome,) = await finished(bench, 1)
    assert isinstance(outcome, RequestError)
    assert (outcome.kind, outcome.attempts) == ("invalid_schema", 4)
    assert len(bench.endpoint.arrivals) == 4


async def test_refusals_for_the_rate_are_bounded_too() -> None:
    bench = Bench(max_attempts=3)
    bench.endpoint.always = lambda: failure("rate_limited")
    outcomes = await finished(bench, 5)
    assert {outcome.attempts for outcome in outcomes if isinstance(outcome, RequestError)} == {3 * REFUSALS}


async def test_an_error_that_is_not_retryable_ends_the_call() -> None:
    bench = Bench()
    bench.endpoint.always = lambda: RequestError("status", "HTTP 401", retryable=False, status=401)
    outcomes = await finished(bench, 3)
    assert [outcome.attempts for outcome in outcomes if isinstance(outcome, RequestError)] == [1, 1, 1]
    assert len(bench.endpoint.arrivals) == 3


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
async def test_waits_between_attempts_have_full_jitter(draw: float) -> None:
    bench = Bench(max_attempts=4, draw=draw)
    bench.endpoint.always = lambda: failure("invalid_json")
    await finished(bench, 1)
    times = [at for at, _ in bench.endpoint.arrivals]
    gaps = [later - earlier - 0.05 for earlier, later in itertools.pairwise(times)]
    assert gaps == pytest.approx([draw * 0.5, draw * 1.0, draw * 2.0])


async def test_other_exceptions_pass_at_once() -> None:
    bench = Bench()

    async def broken() -> None:
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        await bench.limiter.call(broken)
    bench.at_rest()


async def test_retry_after_pauses_all_calls() -> None:
    bench = Bench(workers=8)
    bench.endpoint.script = iter([None, None, failure("status", retry_after=7.0)])
    outcomes = await finished(bench, 30)
    assert all(isinstance(outcome, CallResult) for outcome in outcomes)
    times = [at - 1000 for at, _ in bench.endpoint.arrivals]
    assert [at for at in times if at < 7] == pytest.approx([0.0] * 8 + [0.05] * 2)
    assert times[10] == pytest.approx(7.05)
    assert bench.notices == ["judge asks to wait; all calls pause for 7.0 s"]


async def test_an_absurd_retry_after_is_cut() -> None:
    bench = Bench()
    bench.endpoint.script = iter([failure("rate_limited", retry_after=1e9)])
    await finished(bench, 1)
    assert bench.endpoint.arrivals[1][0] == pytest.approx(1060.05)


async def test_concurrency_halves_once_a_round_and_grows_again() -> None:
    bench = Bench(workers=64)
    bench.endpoint.script = iter([failure("rate_limited") for _ in range(64)])
    outcomes = await finished(bench, 640)
    assert all(isinstance(outcome, CallResult) for outcome in outcomes)
    assert bench.notices == ["judge is over its rate; calls at a time: 64 -> 32"]
    assert 32 < bench.limiter._concurrency.limit < 64
    second = [at for at, _ in bench.endpoint.arrivals][64:96]
    # All refusals of the round make one pause, as long as after a single one.
    assert second == pytest.approx([1000.3] * 32)


async def test_a_server_with_a_rate_that_nobody_knew_is_found_out() -> None:
    """It serves one call each half second and refuses the others without a word when to come again."""
    bench = Bench(workers=64)
    last = -math.inf

    def refuse() -> RequestError | None:
        nonlocal last
        if bench.clock.time - last < 0.5:
            return failure("rate_limited")
        last = bench.clock.time
        return None

    bench.endpoint.always = refuse
    outcomes = await finished(bench, 200)
    assert all(isinstance(outcome, CallResult) for outcome in outcomes)
    assert bench.limiter._concurrency.limit < 8


async def test_the_breaker_opens_tries_with_one_call_and_closes() -> None:
    bench = Bench(workers=8)
    down = 1010.0
    bench.endpoint.always = lambda: failure("connect") if bench.clock.time < down else None
    outcomes = await finished(bench, 40)
    assert all(isinstance(outcome, CallResult) for outcome in outcomes)
    times = [at for at, _ in bench.endpoint.arrivals]
    # Those that were let through before the fifth failure, then single tries after 1, 2 and 4 s.
    tries = [1001.05, 1003.1, 1007.15]
    assert [at for at in times if at < 1010] == pytest.approx([1000.0] * 8 + [1000.05] * 4 + tries)
    assert bench.notices == [
        "judge is down (it was connect); calls wait, next try in 1 s",
        "judge answers again; calls continue",
    ]
    assert sum("is down" in notice for notice in bench.notices) == 1


@pytest.mark.parametrize("kind", ["connect", "closed", "timeout", "status"])
async def test_failures_of_the_endpoint_open_the_breaker(kind: ErrorKind) -> None:
    bench = Bench(workers=1, max_attempts=FAILURES)
    bench.endpoint.script = iter([failure(kind) for _ in range(FAILURES)])
    await finished(bench, 3)
    assert sum("is down" in notice for notice in bench.notices) == 1


@pytest.mark.parametrize("kind", ["rate_limited", "invalid_json", "refusal", "truncated"])
async def test_answers_of_any_kind_do_not(kind: ErrorKind) -> None:
    bench = Bench(workers=1)
    bench.endpoint.script = iter([failure(kind) for _ in range(40)])
    await finished(bench, 100)
    assert not any("is down" in notice for notice in bench.notices)


async def test_calls_are_turned_away_when_the_endpoint_stays_down_and_no_longer_when_it_is_back() -> None:
    bench = Bench(workers=4, max_down=30.0)
    bench.endpoint.always = lambda: failure("connect")
    outcomes = await finished(bench, 50)
    errors = [outcome for outcome in outcomes if isinstance(outcome, RequestError)]
    assert len(errors) == 50
    away = [error for error in errors if error.kind == "unavailable"]
    assert len(away) > 40
    assert {str(error) for error in away} == {
        "the endpoint has been down for 30 s (it was connect)",
    }
    assert not any(error.retryable for error in away)
    assert {error.attempts for error in away} >= {0}
    assert "judge has been down for 30 s and is given up" in bench.notices
    assert len(bench.notices) == 2
    assert bench.clock.time - 1000 > 30
    tried = len(bench.endpoint.arrivals)
    late = await finished(bench, 5)
    assert len(bench.endpoint.arrivals) == tried + 1
    assert [error.kind for error in late if isinstance(error, RequestError)].count("unavailable") >= 4
    bench.endpoint.always = lambda: None
    bench.clock.time += 60
    assert isinstance((await finished(bench, 1))[0], CallResult)
    assert all(isinstance(outcome, CallResult) for outcome in await finished(bench, 20))
    assert bench.notices[-1] == "judge answers again; calls continue"


async def test_a_call_that_hangs_while_trying_keeps_nobody_waiting_for_ever() -> None:
    bench = Bench(workers=8, max_down=30.0)
    bench.endpoint.always = lambda: failure("timeout")
    bench.endpoint.latency = 100.0
    ends: list[float] = []

    async def one() -> None:
        try:
            await bench.call()
        except RequestError:
            ends.append(bench.clock.time)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
        await bench.clock.run(5000)
    assert len(ends) == 20
    bench.at_rest()


PLACES: Mapping[str, float] = {
    "granted": 0.0,
    "queue_rate": 0.0,
    "queue_slot": 2.0,
    "queue_pause": 3.0,
    "queue_breaker": 1.0,
    "attempt": 0.0,
    "backoff": 0.06,
}
"""Where a cancellation may come, and the seconds after which the calls are there."""


@pytest.mark.parametrize("place", PLACES)
async def test_cancellation_leaks_nothing_wherever_it_comes(place: str) -> None:
    bench = Bench(workers=1 if place == "queue_slot" else 8, rpm=600, tpm=60_000)
    if place == "queue_breaker":
        bench.endpoint.always = lambda: failure("connect")
    elif place == "queue_pause":
        bench.endpoint.script = iter([failure("status", retry_after=50.0)])
    elif place == "backoff":
        bench.endpoint.script = iter([failure("invalid_json")])
    elif place in {"attempt", "queue_slot"}:
        bench.endpoint.latency = 30.0
    tasks = [asyncio.create_task(bench.call(number, 10)) for number in range(8)]
    if place != "granted":
        await bench.clock.run(PLACES[place])
    assert (bench.limiter._breaker.wait(0.0) > 0) == (place == "queue_breaker")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() or task.result().attempts == 1 for task in tasks)
    assert any(task.cancelled() for task in tasks)
    bench.at_rest()
    # And the limiter still works: nothing of the cancelled calls holds it up.
    bench.endpoint.script, bench.endpoint.always = iter(()), lambda: None
    bench.endpoint.latency = 0.05
    bench.clock.time += 60
    assert all(isinstance(outcome, CallResult) for outcome in await finished(bench, 20))


@pytest.mark.parametrize("standstill", [0.08, 0.15, 0.4, 1.5])
async def test_a_loop_that_stands_still_does_not_break_the_promise(standstill: float) -> None:
    """Requests that were let through arrive late, and those behind them in time."""
    bench = Bench(rpm=600)
    arrivals: list[float] = []

    async def attempt() -> None:
        if len(arrivals) % 7 == 3:
            bench.clock.time += standstill  # somebody blocks the loop before the request leaves
        request_sent()
        arrivals.append(bench.clock.time)
        await bench.clock.sleep(0.3)

    async with anyio.create_task_group() as group:
        for _ in range(150):
            group.start_soon(bench.limiter.call, attempt)
        await bench.clock.run(120)
    assert len(arrivals) == 150
    assert max_within(arrivals, 1.0) <= 10
    bench.at_rest()


async def test_cancelled_waiters_consume_nothing() -> None:
    bench = Bench(workers=64, rpm=600)
    keep: list[asyncio.Task[CallResult[object]]] = []
    for number in range(300):
        task = asyncio.create_task(bench.call(number))
        if number % 3 == 0:
            keep.append(task)
        else:
            await settle()
            task.cancel()
    await bench.clock.run(30)
    assert all(task.done() for task in keep)
    times = [at for at, name in bench.endpoint.arrivals]
    assert max_within(times, 1.0) <= 10
    kept = [at for at, name in bench.endpoint.arrivals if isinstance(name, int) and name % 3 == 0]
    assert len(kept) == 100
    assert max(kept) - min(kept) <= 10 / 0.9 + 1
    bench.at_rest()


async def test_a_try_that_is_cancelled_lets_another_call_try() -> None:
    bench = Bench(workers=1, max_attempts=FAILURES)
    bench.endpoint.script = iter([failure("connect") for _ in range(FAILURES)])
    await finished(bench, 1)
    bench.endpoint.latency = 100.0
    trying = asyncio.create_task(bench.call("trying"))
    await bench.clock.run(2)
    waiting = asyncio.create_task(bench.call("waiting"))
    await settle()
    assert bench.limiter._breaker.wait(0.0) == math.inf
    bench.endpoint.latency = 0.05
    trying.cancel()
    await bench.clock.run(1)
    assert (await waiting).value == "waiting"
    bench.at_rest()


async def test_a_pause_is_reported_once() -> None:
    bench = Bench(workers=64)
    bench.endpoint.script = iter([failure("rate_limited", retry_after=5.0) for _ in range(64)])
    await finished(bench, 64)
    assert len(bench.notices) <= 2
