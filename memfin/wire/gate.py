"""One gate for all calls of a run: rates, concurrency, pauses, retries, and the circuit breaker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from memfin.wire.errors import WireError

T = TypeVar("T")


class GateResult(Generic[T]):
    """What came out: the value, the attempts it took, and the seconds it waited for its turns."""

    def __init__(self, value: T, attempts: int, waited: float) -> None:
        self.value = value
        self.attempts = attempts
        self.waited = waited


class CallGate:
    """Lets calls through; see the module."""

    def __init__(
        self,
        *,
        workers: int,
        rpm: float | None = None,
        tpm: float | None = None,
        most_attempts: int = 5,
        on_notice: Callable[[str], None],
        name: str = "endpoint",
    ) -> None:
        self._most_attempts = most_attempts
        self._slots = asyncio.Semaphore(workers)

    async def call(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        tokens: int = 0,
        used: Callable[[T], int | None] | None = None,
    ) -> GateResult[T]:
        """Make attempts until one succeeds; raise the last one's `WireError`, its ``attempts`` counted."""
        number = 0
        while True:
            number += 1
            async with self._slots:
                try:
                    return GateResult(await attempt(), number, 0.0)
                except WireError as problem:
                    problem.attempts = number
                    if not problem.retryable or number >= self._most_attempts:
                        raise
