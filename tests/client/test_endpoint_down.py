"""An endpoint that is down uses up no call: the limiter asks whether it is there, and gives up in the end."""

import itertools
from collections.abc import Awaitable, Callable

import anyio
import pytest

from memfin.client.errors import ErrorKind, RequestError
from memfin.client.limiter import CallLimiter, CallResult
from tests.client.fake_clock import FakeClock

LATENCY = 0.05
START = 1000.0


class Bench:
    """A limiter before an endpoint that fails for some calls, or for all while it is down."""

    def __init__(self, workers: int, *, max_down: float = 600.0, rpm: float | None = None) -> None:
        self.clock = FakeClock()
        self.notices: list[str] = []
        self.down: Callable[[], bool] = lambda: False
        self.poison: frozenset[int] = frozenset()
        self.kind: ErrorKind = "status"
        self.attempts: list[tuple[float, int]] = []
        self.probes: list[float] = []
        self.limiter = CallLimiter(
            workers=workers,
            rpm=rpm,
            on_warning=self.notices.append,
            name="judge",
            max_down=max_down,
            clock=self.clock,
            draw=lambda: 0.5,
        )

    def _failure(self) -> RequestError:
        return RequestError(
            self.kind, f"it was {self.kind}", status=503 if self.kind == "status" else None, retryable=True
        )

    def attempt(self, number: int) -> Callable[[], Awaitable[int]]:
        async def attempt() -> int:
            self.attempts.append((self.clock.time, number))
            await self.clock.sleep(LATENCY)
            if self.down() or number in self.poison:
                raise self._failure()
            return number

        return attempt

    async def probe(self) -> int | None:
        self.probes.append(self.clock.time)
        await self.clock.sleep(LATENCY)
        if self.down():
            raise self._failure()
        return 2

    async def finished(self, count: int, seconds: float = 7200.0) -> list[CallResult[int] | RequestError]:
        outcomes: dict[int, CallResult[int] | RequestError] = {}

        async def one(number: int) -> None:
            try:
                outcomes[number] = await self.limiter.call(self.attempt(number), probe=self.probe)
            except RequestError as problem:
                outcomes[number] = problem

        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(one, number)
            await self.clock.run(seconds)
            group.cancel_scope.cancel()
        assert self.clock.pending == 0
        assert self.limiter._in_flight == 0
        return [outcomes[number] for number in range(count)]


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
@pytest.mark.parametrize("down_for", [3.0, 40.0, 560.0])
async def test_no_call_is_used_up_by_an_endpoint_that_comes_back(workers: int, down_for: float) -> None:
    bench = Bench(workers)
    bench.down = lambda: 1000.06 <= bench.clock.time < START + down_for
    outcomes = await bench.finished(100)
    assert [outcome for outcome in outcomes if isinstance(outcome, RequestError)] == []
    assert bench.notices[-1] == "judge answers again; calls continue"
    # While it is down nothing is sent but one small question at a time.
    asked = [at for at in bench.probes if at < START + down_for]
    sent = [at for at, _ in bench.attempts if 1001.0 + 10 * LATENCY < at < START + down_for]
    assert asked
    assert len(sent) <= (5 if workers == 1 else 0)


@pytest.mark.parametrize("workers", [1, 3, 64])
@pytest.mark.parametrize("kind", ["connect", "timeout", "closed", "status"])
async def test_an_endpoint_that_stays_down_is_given_up_and_no_call_fails_by_itself(
    workers: int, kind: ErrorKind
) -> None:
    bench = Bench(workers, max_down=30.0)
    bench.kind = kind
    bench.down = lambda: True
    outcomes = await bench.finished(90)
    assert {outcome.kind for outcome in outcomes if isinstance(outcome, RequestError)} == {"unavailable"}
    assert len(outcomes) == 90
    assert f"the endpoint has been down for 30 s (it was {kind})" in {str(outcome) for outcome in outcomes}


@pytest.mark.parametrize(("workers", "calls"), [(1, 1), (1, 5), (8, 20)])
async def test_a_call_that_fails_by_itself_fails_after_its_attempts_and_one_question(
    workers: int, calls: int
) -> None:
    bench = Bench(workers)
    bench.poison = frozenset({0})
    outcomes = await bench.finished(calls)
    failed = outcomes[0]
    assert isinstance(failed, RequestError)
    assert (failed.kind, failed.status) == ("status", 503)
    assert sum(number == 0 for _, number in bench.attempts) == 5
    assert failed.attempts == 5 + len(bench.probes)
    assert len(bench.probes) == 1
    assert all(isinstance(outcome, CallResult) for outcome in outcomes[1:])


async def test_a_call_that_fails_by_itself_ends_even_when_the_endpoint_was_down_in_between() -> None:
    bench = Bench(1)
    bench.poison = frozenset({0})
    bench.down = lambda: bench.clock.time < START + 60
    (failed,) = await bench.finished(1)
    assert isinstance(failed, RequestError)
    assert failed.kind == "status"
    assert len(bench.attempts) == 10


async def test_the_question_keeps_to_the_rate() -> None:
    bench = Bench(1, rpm=60)
    bench.down = lambda: True
    await bench.finished(3)
    times = sorted([at for at, _ in bench.attempts] + bench.probes)
    assert len(times) > 10
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(times))


async def test_an_answer_of_any_kind_shows_that_the_endpoint_is_up() -> None:
    bench = Bench(1)
    bench.poison = frozenset({0})

    async def refused() -> int | None:
        bench.probes.append(bench.clock.time)
        raise RequestError("status", "HTTP 400", retryable=False, status=400)

    async def one() -> None:
        with pytest.raises(RequestError, match="it was status"):
            await bench.limiter.call(bench.attempt(0), probe=refused)

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        await bench.clock.run(60)
    assert len(bench.probes) == 1


async def test_a_cancelled_question_leaves_nothing_behind() -> None:
    bench = Bench(2)
    bench.down = lambda: True
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: bench.limiter.call(bench.attempt(0), probe=bench.probe))
        await bench.clock.run(1.0)
        while not bench.probes:
            await bench.clock.run(0.01)
        group.cancel_scope.cancel()
    bench.down = lambda: False
    assert all(isinstance(outcome, CallResult) for outcome in await bench.finished(5))


@pytest.mark.parametrize("workers", [1, 3, 64])
async def test_an_endpoint_that_refuses_every_call_for_its_rate_counts_as_down_after_the_patience(
    workers: int,
) -> None:
    bench = Bench(workers, max_down=300.0)
    bench.kind = "rate_limited"
    bench.down = lambda: True
    outcomes = await bench.finished(90)
    assert {outcome.kind for outcome in outcomes if isinstance(outcome, RequestError)} == {"unavailable"}
    assert len(outcomes) == 90
    reason = "has refused every call for its rate for"
    assert all(reason in str(outcome) for outcome in outcomes)
    assert sum(reason in line for line in bench.notices) == 1
    latest = max([at for at, _ in bench.attempts] + bench.probes)
    assert START + 300 <= latest < START + 300 + 120


@pytest.mark.parametrize("workers", [1, 8])
async def test_a_rate_that_frees_up_in_time_costs_no_call(workers: int) -> None:
    bench = Bench(workers, max_down=600.0)
    bench.kind = "rate_limited"
    bench.down = lambda: bench.clock.time < START + 500
    outcomes = await bench.finished(40)
    assert [outcome for outcome in outcomes if isinstance(outcome, RequestError)] == []


async def test_a_call_that_alone_is_refused_for_its_rate_fails_by_itself() -> None:
    bench = Bench(1)
    bench.kind = "rate_limited"
    bench.poison = frozenset({0})
    outcomes = await bench.finished(3)
    failed = outcomes[0]
    assert isinstance(failed, RequestError)
    assert failed.kind == "rate_limited"
    assert sum(number == 0 for _, number in bench.attempts) == 10
    assert len(bench.probes) == 1
    assert all(isinstance(outcome, CallResult) for outcome in outcomes[1:])
