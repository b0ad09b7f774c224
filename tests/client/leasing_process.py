"""Process that starts as often as its coordinator permits, and prints when, by the machine's clock."""

import asyncio
import sys
import time

from memfin.client.leases import LeasedRate, RateLimits, token_of_environment
from memfin.client.limiter import StartLimiter


def warn(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


async def main(address: str) -> None:
    rate = LeasedRate(address, token_of_environment(), "agent", RateLimits(), patience=30.0, warn=warn)
    limiter = StartLimiter(rate)
    while True:
        await limiter.admit()
        sys.stdout.write(f"{time.monotonic()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
