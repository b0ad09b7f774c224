"""The circuit breaker's states, with the time told."""

import math

from memfin.client.breaker import FAILURES, FIRST_PAUSE, LONGEST_PAUSE, Breaker


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(60.0)
    results = [breaker.failed(at, trying=False) for _ in range(FAILURES)]
    assert results == [False] * (FAILURES - 1) + [True]
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = Breaker(60.0)
    for _ in range(20):
        for _ in range(FAILURES - 1):
            assert not breaker.failed(0.0, trying=False)
        assert not breaker.answered()
    assert breaker.state == "closed"
    assert breaker.wait(0.0) == 0


def test_one_call_tries_and_an_answer_closes_it() -> None:
    breaker = opened()
    assert breaker.wait(0.0) == FIRST_PAUSE
    assert breaker.wait(FIRST_PAUSE) == 0
    assert breaker.started()
    assert breaker.wait(FIRST_PAUSE) == math.inf
    assert breaker.answered()
    assert (breaker.state, breaker.wait(1.0), breaker.down_for(1.0)) == ("closed", 0.0, 0.0)
    assert not breaker.started()


def test_failed_tries_double_the_pause_up_to_a_bound() -> None:
    breaker, now, waits = opened(), 0.0, []
    for _ in range(7):
        waits.append(breaker.wait(now))
        now += waits[-1]
        assert breaker.started()
        assert not breaker.failed(now, trying=True)
    assert waits == [1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
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
    assert breaker.state == "half_open"


def test_a_try_without_an_outcome_makes_way_for_another() -> None:
    breaker = opened()
    assert breaker.started()
    breaker.abandoned(5.0, trying=False)
    assert breaker.state == "half_open"
    breaker.abandoned(5.0, trying=True)
    assert breaker.wait(5.0) == 0
    assert breaker.started()


def test_it_says_when_to_give_up() -> None:
    breaker = opened(100.0)
    assert Breaker(60.0).gives_up_in(0.0) == math.inf
    assert breaker.gives_up_in(130.0) == 30.0
    breaker.started()
    breaker.failed(150.0, trying=True)
    assert breaker.gives_up_in(150.0) == 10.0
    assert breaker.down_for(170.0) == 70.0
