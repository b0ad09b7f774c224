"""The sliding window by itself: no window of time holds more than the limit, whatever the clock does."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.client.window import GUARD, SLACK, SlidingWindow, Start
from tests.support import each_case, length


def most_within(starts: Sequence[tuple[float, int]], period: float) -> int:
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
        assert most_within(starts[:1500], period) <= (allowed if whole == allowed else whole)
    assert len(starts) >= 0.9 * per_minute / 60 * seconds


def test_starts_are_spread_over_the_second() -> None:
    starts = greedy(SlidingWindow.of_requests(600), 5)
    assert most_within(starts, 0.5) <= 6
    assert most_within(starts, 0.05) <= 1


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
    assert most_within(starts, 1.0) == 10
    assert len(starts) >= 180


STEPS = (0.0, 0.2, 0.5, 1.0, 3.0, -1.0, -50.0)


def test_no_sequence_of_steps_of_the_clock_breaks_the_limit() -> None:
    """All sequences of some steps, stops, jumps and steps back included, with up to four tries at each."""
    for steps in itertools.product(STEPS, repeat=length(4, 6)):
        window = SlidingWindow(3, 1.0, 0.0)
        now = passed = 0.0
        starts: list[tuple[float, int]] = []
        for step in steps:
            now += step
            passed += max(0.0, step)  # a step back is no time
            for _ in range(4):
                if window.wait(now) == 0:
                    window.start(now)
                    starts.append((passed, 1))
        # A window is open at its end: what started one second ago has left it.
        assert most_within(starts, 1.0 - 1e-9) <= 3, steps


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


def test_a_step_back_loses_no_time() -> None:
    window = SlidingWindow(1, 10.0, 0.0)
    window.start(1000.0)
    assert window.wait(1004.0) == pytest.approx(6.0)
    assert window.wait(4.0) == pytest.approx(6.0)  # the clock was set back by 1000 s
    assert window.wait(9.0) == pytest.approx(1.0)
    assert window.wait(10.0) == 0


def test_a_start_heavier_than_the_limit_goes_alone() -> None:
    window = SlidingWindow(100, 60.0, 0.0)
    assert window.wait(0.0, 1000) == 0
    window.start(0.0, 1000)
    assert window.wait(0.0, 1) == 60
    assert window.wait(60.0, 1) == 0


def test_what_was_taken_back_never_was() -> None:
    window, untouched = SlidingWindow.of_requests(60), SlidingWindow.of_requests(60)
    start = window.start(0.0)
    assert window.wait(0.0) > 0
    window.take_back(start)
    assert window.wait(0.0) == untouched.wait(0.0) == 0
    for _ in range(1000):
        window.take_back(window.start(0.0))
    assert window.wait(0.0) == 0
    window.start(0.0)
    assert window.wait(0.0) == pytest.approx(1 + GUARD)


@given(
    st.lists(st.tuples(st.integers(1, 700), st.integers(0, 1500), st.floats(0, 30)), min_size=1, max_size=60),
    st.integers(500, 3000),
)
@settings(max_examples=length(100, 300), deadline=None)
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


def test_what_was_held_up_counts_from_when_it_could_leave() -> None:
    window = SlidingWindow(3, 1.0, 0.1)
    for at in (0.0, 0.2, 0.4):
        window.start(at)
    window.held_up(0.1, 0.7)
    assert window.wait(0.7) == pytest.approx(0.3)  # the first left in time
    window.start(1.0)
    assert window.wait(1.0) == pytest.approx(0.7)
    window.held_up(5.0, 6.0)
    assert window.wait(6.0) == 0


def test_a_loop_that_is_always_late_keeps_no_start_in_the_window_for_ever() -> None:
    window = SlidingWindow(1, 1.0, 0.1)
    window.start(0.0)
    now = 0.0
    while window.wait(now) > 0:
        now += 0.05  # a beat of 0.02 s comes late each time
        window.held_up(now - 0.07, now)
        assert now < 1.5
    assert now > 1.0


def test_memory_is_that_of_one_window() -> None:
    window = SlidingWindow.of_requests(600)
    greedy(window, 1000)
    assert len(window._starts) <= 11
