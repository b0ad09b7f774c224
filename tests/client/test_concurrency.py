"""Adaptive concurrency: halves once for calls that were refused together, and grows slowly."""

from memfin.client.concurrency import AdaptiveConcurrency


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
