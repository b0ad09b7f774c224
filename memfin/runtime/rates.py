"""The rates of a run: its own, a shard's share of them, or leased from a coordinator."""

import time
from collections.abc import Callable

from memfin.client.leases import LeasedRate, Pool, RateLimits, token_of_environment
from memfin.client.limiter import StartLimiter
from memfin.client.windows import WHOLE, Rate, Windows
from memfin.contracts import RunConfig
from memfin.runtime.settings import run_path
from memfin.shards import Shard


def rate_of(
    pool: Pool, config: RunConfig, warn: Callable[[str], None], *, tokens: bool = False
) -> Rate | None:
    """Return the limit of requests of a run, with ``tokens`` of those too; None where nothing limits them.

    Raises:
        UsageError: the coordinator's address has another form, or the environment does not hold its token.
    """
    limits = RateLimits.of(config)
    if config.rate_lease_address is not None:
        token = token_of_environment()
        patience = config.judge_patience
        return LeasedRate(config.rate_lease_address, token, pool, limits, patience=patience, warn=warn)
    rpm, tpm = (limits.agent_rpm, None) if pool == "agent" else (limits.judge_rpm, limits.judge_tpm)
    if rpm is None and not (tokens and tpm is not None):
        return None
    shard = WHOLE if config.shard is None else Shard.parse(config.shard)
    windows = Windows(rpm, tpm if tokens else None, shard=shard)
    if config.shard is not None and run_path(config).exists():
        # Whoever goes on with a shard that died does not know what it has just started.
        windows.fill(time.monotonic())
    return windows


def start_limiter(pool: Pool, config: RunConfig, warn: Callable[[str], None]) -> StartLimiter | None:
    """Return the limiter of calls that have a rate alone; None where nothing limits them.

    Raises:
        UsageError: as `rate_of`.
    """
    rate = rate_of(pool, config, warn)
    return None if rate is None else StartLimiter(rate)
