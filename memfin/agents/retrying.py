"""Asks again what failed on its way, as long as the time of the whole allows it."""

import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from memfin.agents.calls import TransportError, asked_pause

T = TypeVar("T")

FIRST_BACKOFF: Final = 0.25
LONGEST_BACKOFF: Final = 8.0
"""Seconds: the first and the longest pause before a retry."""


async def with_retries(
    call: Callable[[float], Awaitable[T]],
    *retried: type[TransportError | ConnectionError],
    limit: float,
    retries: int,
    first_pause: float,
    longest_pause: float,
    on_retry: Callable[[], None],
) -> T:
    """Return what the call returns, which gets the seconds that are left of ``limit``.

    It is made again after one of the ``retried`` errors, ``retries`` times at most, after a pause that
    doubles and is drawn at random, and is no shorter than the other side asked for. An error whose pause
    would go past the limit is raised, as is any other.
    """
    deadline = time.perf_counter() + limit
    attempt = 0
    while True:
        try:
            return await call(deadline - time.perf_counter())
        except retried as problem:
            pause = min(longest_pause, first_pause * 2**attempt)
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
            pause = max(pause, asked_pause(problem))
            attempt += 1
            if attempt > retries or time.perf_counter() + pause >= deadline:
                raise
            on_retry()
            await anyio.sleep(pause)
