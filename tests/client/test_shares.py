"""Shares of a limit: all shards together start no more than one process would, whenever each begins."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.client.windows import GUARD, TURN, SlidingWindow, Windows, share_of
from memfin.errors import UsageError
from memfin.shards import Shard
from tests.support import length

SKEW = 0.999 * (GUARD - TURN)
"""Seconds by which the clocks of machines may differ."""


class Process:
    """A shard that starts as early as it may, with idle times, from a moment on."""

    def __init__(self, per_minute: float, shard: Shard, begin: float, skew: float = 0.0) -> None:
        self.now = begin
        self.starts: list[float] = []
        self._window = SlidingWindow.of_requests(per_minute, shard=shard, clock=lambda: self.now + skew)

    def work(self, until: float, idle: float = 0.0, chance: random.Random | None = None) -> None:
        while self.now < until:
            if (delay := self._window.wait(self.now)) > 1e-9:
                self.now += delay
            else:
                self._window.start(self.now)
                self.starts.append(self.now)
                if chance is not None and chance.random() < 0.2:
                    self.now += chance.uniform(0.0, idle)


def max_within(starts: list[float], period: float) -> int:
    """Return the most starts in any period, its ends included."""
    starts, most, first = sorted(starts), 0, 0
    for last, at in enumerate(starts):
        while at - starts[first] > period:
            first += 1
        most = max(most, last - first + 1)
    return most


@settings(max_examples=length(50, 1000), deadline=None)
@given(per_minute=st.floats(5.0, 3000.0), count=st.integers(2, 40), seed=st.integers(0, 2**32))
def test_shards_together_hold_the_limit_in_every_window_of_one_process(
    per_minute: float, count: int, seed: int
) -> None:
    chance = random.Random(seed)
    limit = max(1, int(per_minute / 60 + 1e-9))
    period = limit * 60 / per_minute
    together = chance.random() < 0.5  # all at once is the worst moment for shares, others for turns
    starts: list[float] = []
    for index in range(count):
        begin = 1000.0 + (0.0 if together else chance.uniform(0.0, 3 * period))
        shard = Process(per_minute, Shard(index, count), begin, chance.uniform(0.0, SKEW))
        shard.work(begin + count * 60 / per_minute + 3, 2 * period, chance)
        starts += shard.starts
    assert max_within(starts, period) <= limit
    assert len(starts) >= count


@pytest.mark.parametrize("per_minute", [60, 240, 480, 600, 6000])
def test_busy_shards_use_nine_tenths_of_the_limit(per_minute: float) -> None:
    starts: list[float] = []
    for index in range(8):
        shard = Process(per_minute, Shard(index, 8), 1000.0)
        shard.work(1400.0)
        starts += shard.starts
    assert 0.9 <= len(starts) / (400 * per_minute / 60) <= 1.0


@given(whole=st.integers(0, 10_000), count=st.integers(1, 500))
def test_the_shares_of_all_shards_add_up(whole: int, count: int) -> None:
    shares = [share_of(whole, Shard(index, count)) for index in range(count)]
    assert sum(shares) == whole
    assert max(shares) - min(shares) <= 1


def test_tokens_of_all_shards_hold_in_every_minute() -> None:
    starts: list[tuple[float, int]] = []
    for index in range(8):
        window, now = SlidingWindow.of_tokens(10_000, shard=Shard(index, 8)), 1000.0
        while now < 1400:
            delay = window.wait(now, 300 + index)
            if delay > 1e-9:
                now += delay
            else:
                window.start(now, 300 + index)
                starts.append((now, 300 + index))
    for begin, _ in starts:
        assert sum(weight for at, weight in starts if begin <= at <= begin + 60) <= 10_000


def test_a_request_above_the_share_of_the_tokens_is_refused() -> None:
    """Each shard would let it through alone, and all of them together would break the limit."""
    windows = Windows(None, 10_000, shard=Shard(0, 8))
    assert windows.wait(0.0, 1250) == 0
    with pytest.raises(UsageError, match=r"2000 tokens is over 1250 .* the share of one of 8 shards"):
        windows.wait(0.0, 2000)
    assert Windows(None, 1000).wait(0.0, 2000) == 0


def test_who_goes_on_with_a_shard_waits_for_one_window() -> None:
    windows = Windows(600, 6000)
    windows.fill(100.0)
    assert windows.wait(100.0, 1) > 60
    requests = Windows(600)
    requests.fill(100.0)
    assert 1.0 < requests.wait(100.0) < 1.1
    assert requests.wait(101.1) == 0
