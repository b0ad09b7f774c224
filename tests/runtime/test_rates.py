"""Rates of a run: of requests to the agent, a shard's share of them, and leases."""

import time
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.client.coordinator import rate_coordinator
from memfin.client.leases import TOKEN_VARIABLE, RateLimits
from memfin.client.windows import Windows
from memfin.contracts import RunConfig
from memfin.errors import RunFault, UsageError
from memfin.runtime.rates import rate_of, start_limiter
from memfin.runtime.resume import make_resume_plan
from tests.client.test_shares import max_within

STARTS: list[float] = []


class Agent:
    """Notes when it is asked; the first attempt at each dialogue fails on its way."""

    def __init__(self, *_: object) -> None:
        self._lost = False

    async def reply(self, user_text: str) -> str:
        STARTS.append(time.monotonic())
        if not self._lost:
            self._lost = True
            raise memfin.TransportError("lost")
        return f"You said: {user_text}"


async def evaluated(tmp_path: Path, **settings: Any) -> Any:
    STARTS.clear()
    settings = {"judge": "none", "limit": 4, "workers_dialog": 4, "workers_score": 0, **settings}
    return await memfin.evaluate(agent=Agent, runs_dir=tmp_path, **settings)


async def test_every_attempt_at_a_turn_counts_and_waiting_is_no_part_of_its_time(tmp_path: Path) -> None:
    result = await evaluated(tmp_path, agent_rpm=1200, turn_timeout=1.0)
    assert len(STARTS) > 20
    assert max_within(STARTS, 1.0) <= 20
    assert STARTS[-1] - STARTS[0] > (len(STARTS) - 20) / 20
    turns = [turn for trace in result.traces() for turn in trace.turns]
    assert {turn.turn_status for turn in turns} == {"ok"}
    assert max(turn.latency_ms for turn in turns) < 1000


async def test_a_run_with_leases_starts_what_its_coordinator_permits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = RateLimits(agent_rpm=1200.0)
    async with rate_coordinator(limits, warn=lambda _: None) as lease:
        monkeypatch.setenv(TOKEN_VARIABLE, lease.token)
        await evaluated(tmp_path, rate_lease_address=lease.address)
        assert len(STARTS) > 20
        assert max_within(STARTS, 1.0) <= 20
        with pytest.raises(UsageError, match="agent_rpm: is 60, but 1200 at the rate coordinator"):
            await evaluated(tmp_path, rate_lease_address=lease.address, agent_rpm=60)
    with pytest.raises(RunFault, match=r"the rate coordinator .* has been away .* memfin resume"):
        await evaluated(tmp_path, rate_lease_address=lease.address, judge_patience=0.2)


def test_a_lease_needs_an_address_and_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(UsageError, match="rate_lease_address: set MEMFIN_RATE_TOKEN"):
        start_limiter("agent", RunConfig(rate_lease_address="127.0.0.1:1"), print)
    monkeypatch.setenv(TOKEN_VARIABLE, "x")
    with pytest.raises(UsageError, match="'somewhere' is no address; expected HOST:PORT"):
        start_limiter("agent", RunConfig(rate_lease_address="somewhere"), print)


@pytest.mark.parametrize("pool", ["judge", "agent"])
def test_a_shard_takes_its_share(pool: Any, tmp_path: Path) -> None:
    config = RunConfig(judge_rpm=600, agent_rpm=600, shard="1/5", run_id="r", runs_dir=str(tmp_path))
    rate = rate_of(pool, config, print)
    assert isinstance(rate, Windows)
    now = 1000.0
    for _ in range(2):  # 10 per second over five shards
        now += rate.wait(now)
        rate.admit(now)
    assert now + rate.wait(now) > 1001.0
    (tmp_path / "r.shards" / "1-of-5").mkdir(parents=True)
    again = rate_of(pool, config, print)
    assert again is not None
    assert again.wait(time.monotonic()) > 0.9  # a shard that goes on does not know what it has just started
    assert rate_of(pool, RunConfig(), print) is None


async def test_a_shard_that_was_moved_pauses_as_well_when_it_goes_on(tmp_path: Path) -> None:
    await evaluated(tmp_path / "one", limit=1, shard="1/2", run_id="r", agent_rpm=6000)
    moved = (tmp_path / "one").rename(tmp_path / "two")
    plan = make_resume_plan(moved / "r.shards" / "1-of-2", agent=Agent)
    assert plan.starts is not None
    assert await plan.starts.admit() > 0.5
    await plan.close()
