"""The pure state of the limiter: sliding windows, concurrency, circuit breaker, Retry-After."""

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.client.limiter import (
    ABSURD_RETRY_AFTER,
    FAILURES,
    FIRST_PAUSE,
    MAX_PAUSE,
    MAX_RETRY_AFTER,
    AdaptiveConcurrency,
    Breaker,
    retry_after_seconds,
)
from memfin.client.windows import GUARD, SLACK, SlidingWindow, Start
from tests.support import each_case, length


def max_within(starts: Sequence[tuple[float, int]], period: float) -> int:
    """Return the most that any window of that length holds, its ends included."""
    return max(
        (sum(weight for at, weight in starts if first <= at <= first + period) for first, _ in starts),
        default=0,
    )


def greedy(window: SlidingWindow, seconds: float, weight: int = 1) -> list[tuple[float, int]]:
    """Start whenever it is allowed, for so long; return the starts."""
    now, starts = 0.0, []
    while now < seconds:
        wait = window.wait(now, weight)
        if wait > 0:
            now += wait
            continue
        window.start(now, weight)
        starts.append((now, weight))
    return starts


@each_case("per_minute", [0.5, 1, 7, 59, 60, 61, 90, 119, 600, 630, 6000, 60_000])
def test_every_window_holds_and_nine_tenths_are_used(per_minute: float) -> None:
    seconds = max(20.0, 600 / per_minute)
    starts = greedy(SlidingWindow.of_requests(per_minute), seconds)
    for period in (1.0, 5.0, 60.0):
        allowed = max(1, math.floor(per_minute / 60 * period + 1e-9))
        whole = math.ceil(per_minute / 60 * period - 1e-9)
        # Where no whole number fits into the window, neither does an even pace.
        assert max_within(starts[:1500], period) <= (allowed if whole == allowed else whole)
    assert len(starts) >= 0.9 * per_minute / 60 * seconds


def test_starts_are_spread_over_the_second() -> None:
    starts = greedy(SlidingWindow.of_requests(600), 5)
    assert max_within(starts, 0.5) <= 6
    assert max_within(starts, 0.05) <= 1


def test_a_request_may_be_late_on_its_way_without_breaking_the_promise() -> None:
    starts = [at for at, _ in greedy(SlidingWindow.of_requests(600), 10)]
    for late in range(len(starts) - 10):
        assert starts[late + 10] - (starts[late] + 0.9 * GUARD) > 1.0


def test_late_timers_cost_no_use() -> None:
    window, now, starts = SlidingWindow.of_requests(600), 0.0, []
    lag = itertools.cycle([0.0, 0.02, 0.005, 0.03])
    while now < 20:
        if wait := window.wait(now):
            now += wait + next(lag)
            continue
        window.start(now)
        starts.append((now, 1))
    assert max_within(starts, 1.0) == 10
    assert len(starts) >= 180


def test_the_wait_is_exact_and_enough() -> None:
    """All sequences of weights: nothing starts before the wait is over, and then it does."""
    for weights in itertools.product((1, 2, 5, 9), repeat=5):
        window, now, starts = SlidingWindow(5, 1.0, 0.1), 0.0, []
        for weight in weights:
            if wait := window.wait(now, weight):
                assert window.wait(now + 0.99 * wait, weight) > 0
                now += wait
            assert window.wait(now, weight) < 1e-9, weights
            now += window.wait(now, weight)
            window.start(now, weight)
            starts.append((now, weight))
        for first, _ in starts:
            inside = [weight for at, weight in starts if first <= at < first + 1.0 - 1e-9]
            assert sum(inside) <= 5 or len(inside) == 1, weights


def test_a_start_heavier_than_the_limit_goes_alone() -> None:
    window = SlidingWindow(100, 60.0, 0.0)
    assert window.wait(0.0, 1000) == 0
    window.start(0.0, 1000)
    assert window.wait(0.0, 1) == 60
    assert window.wait(60.0, 1) == 0


@given(
    st.lists(st.tuples(st.integers(1, 700), st.integers(0, 1500), st.floats(0, 30)), min_size=1, max_size=60),
    st.integers(500, 3000),
)
@settings(max_examples=length(40, 300), deadline=None)
def test_tokens_hold_in_every_minute_by_what_was_known(
    calls: list[tuple[int, int, float]], per_minute: int
) -> None:
    """Each call has an estimate, a real cost, and how long it takes until that is known."""
    window = SlidingWindow.of_tokens(per_minute)
    now = 0.0
    marks: list[Start] = []
    running: list[tuple[float, int, int]] = []
    counted: list[list[float]] = []
    for estimate, real, duration in calls:
        while True:
            for end, index, cost in sorted(running):
                if end <= now:
                    window.correct(marks[index], cost)
                    counted[index][1] = cost
                    running.remove((end, index, cost))
            wait = window.wait(now, estimate)
            if wait <= 0:
                break
            now += min([wait, *(end - now for end, _, _ in running if end > now)])
        before = sum(weight for at, weight in counted if at > now - 60)
        assert before + estimate <= per_minute or before == 0
        index = len(counted)
        marks.append(window.start(now, estimate))
        counted.append([now, estimate])
        running.append((now + duration, index, real))


def test_overestimates_are_given_back_and_underestimates_made_up_for() -> None:
    window = SlidingWindow.of_tokens(6000)  # 100 a second
    start = window.start(0.0, 1000)
    assert window.wait(0.0, 100) > 10
    window.correct(start, 100)
    assert window.wait(0.0, 100) == pytest.approx(1 + GUARD - SLACK)
    window.correct(start, 2000)
    assert window.wait(0.0, 100) == pytest.approx(20 * (1 + GUARD) - SLACK)


def test_a_request_that_leaves_late_counts_from_then_on() -> None:
    window = SlidingWindow(3, 1.0, 0.1)
    starts = [window.start(at) for at in (0.0, 0.2, 0.4)]
    for start in starts[1:]:
        window.sent(start, 0.7)
    assert window.wait(0.7) == pytest.approx(0.3)  # the first left in time
    window.start(1.0)
    assert window.wait(1.0) == pytest.approx(0.7)
    assert window.wait(6.0) == 0
    window.sent(starts[1], 6.0)
    assert window.wait(6.0) == pytest.approx(0.1 - SLACK)


def test_memory_is_that_of_one_window() -> None:
    window = SlidingWindow.of_requests(600)
    greedy(window, 1000)
    assert len(window._starts) <= 11


def test_it_halves_once_for_all_calls_that_were_under_way_together() -> None:
    concurrency = AdaptiveConcurrency(64)
    together = concurrency.round
    assert [concurrency.refused(together) for _ in range(64)] == [True] + [False] * 63
    assert concurrency.limit == 32
    assert concurrency.refused(concurrency.round)
    assert concurrency.limit == 16
    assert not concurrency.refused(together)


def test_it_never_falls_below_one() -> None:
    concurrency = AdaptiveConcurrency(5)
    halved = [concurrency.refused(concurrency.round) for _ in range(10)]
    assert halved == [True, True] + [False] * 8
    assert concurrency.limit == 1


def test_it_grows_by_one_for_as_many_answers_as_may_be_under_way() -> None:
    concurrency = AdaptiveConcurrency(8)
    concurrency.refused(concurrency.round)
    limits = []
    for _ in range(40):
        concurrency.succeeded()
        limits.append(concurrency.limit)
    assert limits[:9] == [4, 4, 4, 5, 5, 5, 5, 5, 6]
    assert limits[-1] == 8


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    results = [breaker.failed(at, trying=False) for _ in range(FAILURES)]
    assert results == [False] * (FAILURES - 1) + [True]
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = Breaker()
    for _ in range(20):
        for _ in range(FAILURES - 1):
            assert not breaker.failed(0.0, trying=False)
        assert not breaker.answered()
    assert breaker.wait(0.0) == 0


def test_one_call_tries_and_an_answer_closes_it() -> None:
    breaker = opened()
    assert breaker.wait(0.0) == FIRST_PAUSE
    assert breaker.wait(FIRST_PAUSE) == 0
    assert breaker.started()
    assert breaker.wait(FIRST_PAUSE) == math.inf
    assert breaker.answered()
    assert (breaker.wait(1.0), breaker.down_for(1.0)) == (0.0, 0.0)
    assert not breaker.started()


def test_failed_tries_double_the_pause_up_to_a_bound() -> None:
    breaker, now, waits = opened(), 0.0, []
    for _ in range(7):
        waits.append(breaker.wait(now))
        now += waits[-1]
        assert breaker.started()
        assert not breaker.failed(now, trying=True)
    assert waits == [1.0, 2.0, 4.0, 8.0, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]
    assert breaker.answered()
    for _ in range(FAILURES):
        breaker.failed(now, trying=False)
    assert breaker.wait(now) == FIRST_PAUSE


def test_failures_of_calls_that_began_before_do_not_count_while_it_is_open() -> None:
    breaker = opened()
    for _ in range(100):
        assert not breaker.failed(0.5, trying=False)
    assert breaker.wait(0.5) == FIRST_PAUSE - 0.5
    breaker.started()
    assert not breaker.failed(1.0, trying=False)
    assert breaker.wait(5.0) == math.inf


def test_a_try_without_an_outcome_makes_way_for_another() -> None:
    breaker = opened()
    assert breaker.started()
    breaker.abandoned(5.0, trying=False)
    assert breaker.wait(5.0) == math.inf
    breaker.abandoned(5.0, trying=True)
    assert breaker.wait(5.0) == 0
    assert breaker.started()


def test_it_counts_the_time_for_which_the_endpoint_is_down() -> None:
    breaker = opened(100.0)
    assert Breaker().down_for(0.0) == 0.0
    breaker.started()
    breaker.failed(150.0, trying=True)
    assert breaker.down_for(170.0) == 70.0


NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@each_case(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("1", 1.0),
        ("  7 ", 7.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("+3", 3.0),
        ("59", 59.0),
        ("61", MAX_RETRY_AFTER),
        ("3600", MAX_RETRY_AFTER),
        ("86400", MAX_RETRY_AFTER),
        ("86401", None),
        ("9" * 15, None),
        ("9" * 5000, None),
        ("-" + "9" * 5000, None),
        ("nan", None),
        ("NaN", None),
        ("inf", None),
        ("-inf", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("٣", None),
        ("1,5", None),
        ("", None),
        (" ", None),
        ("soon", None),
        ("5 seconds", None),
        ("Sun, 01 Mar 2026 12:00:09 GMT", 9.0),
        ("Sunday, 01-Mar-26 12:00:09 GMT", 9.0),
        ("Sun Mar  1 12:00:09 2026", 9.0),
        ("Sun, 01 Mar 2026 12:00:09 -0000", 9.0),
        ("Sun, 01 Mar 2026 13:00:09 +0100", 9.0),
        ("Sun, 01 Mar 2026 13:00:00 GMT", MAX_RETRY_AFTER),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 01 Jan 9999 00:00:00 GMT", None),
        ("Sun, 99 Mar 2026 12:00:09 GMT", None),
        ("Sun, 01 Mar 2026 12:00:09 +9999999999", None),
    ],
)
def test_forms(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, NOW) == seconds


@given(st.text(max_size=80) | st.text(alphabet="0123456789+-.eE :,GMTJanSu", max_size=40))
def test_garbage_is_bounded(header: str) -> None:
    seconds = retry_after_seconds(header, NOW)
    assert seconds is None or (math.isfinite(seconds) and 0 <= seconds <= MAX_RETRY_AFTER)


@given(st.integers(-(10**18), 10**18))
def test_whole_seconds(value: int) -> None:
    seconds = retry_after_seconds(str(value), NOW)
    if abs(value) >= 10**15 or value > ABSURD_RETRY_AFTER:
        assert seconds is None
    else:
        assert seconds == min(max(value, 0), MAX_RETRY_AFTER)


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(9990, 1, 1)))  # noqa: DTZ001 - naive
def test_dates(date: datetime) -> None:
    date = date.replace(microsecond=0, tzinfo=UTC)
    ahead = (date - NOW).total_seconds()
    expected = None if ahead > ABSURD_RETRY_AFTER else min(max(ahead, 0.0), MAX_RETRY_AFTER)
    assert retry_after_seconds(format_datetime(date, usegmt=True), NOW) == expected


@given(st.integers(-100_000, 100_000), st.integers(-14, 14))
def test_dates_of_other_zones(seconds: int, hours: int) -> None:
    date = (NOW + timedelta(seconds=seconds)).astimezone(timezone(timedelta(hours=hours)))
    expected = None if seconds > ABSURD_RETRY_AFTER else min(max(seconds, 0), MAX_RETRY_AFTER)
    assert retry_after_seconds(format_datetime(date), NOW) == expected
