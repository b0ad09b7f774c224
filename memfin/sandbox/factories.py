"""Calls into an object that a factory makes first, also when nobody waits for it any more."""

from collections.abc import Callable
from typing import Any, Final

from memfin.sandbox.calls import ForeignCalls, is_async

LATE_CLOSE: Final = 1.0
"""Seconds to wait in the end for an object that its factory still makes, or that hangs in a plain call."""


class FactoryCalls(ForeignCalls):
    """Calls into what a factory makes: `make` it first, `close` it in the end."""

    def __init__(self, what: str, name: str, passing: tuple[type[Exception], ...] = ()) -> None:
        super().__init__(what, name, passing)
        self._made: Any = None
        self._has_close = False
        self._closes_on_loop = False
        self._late: Any = None
        self._making = False

    async def make(self, factory: Callable[..., Any], *args: Any, on_loop: bool = False) -> Any:
        """Return what the factory makes, on the loop where it is asynchronous, else in the thread."""
        made = await self._make(factory, *args, on_loop=on_loop)
        close = getattr(made, "close", None)  # which may raise, and is told by now
        self._has_close, self._closes_on_loop = callable(close), is_async(close)
        self._made = made
        return made

    async def close(self, limit: float, *, hasty: bool = False) -> None:
        """Have the object close, where it can, and end the thread; raise `CallFailed` when that fails."""
        try:
            if self._has_close:
                if self.stuck and not self._closes_on_loop:
                    limit = min(limit, LATE_CLOSE)
                await self.bounded(lambda: self.invoke(self._made.close), limit, hasty=hasty)
            elif self._making:
                await self.bounded(self._close_late, min(limit, LATE_CLOSE), hasty=hasty)
        finally:
            self.stop()

    async def _make(self, factory: Callable[..., Any], *args: Any, on_loop: bool) -> Any:
        if on_loop or is_async(factory):
            return await self.invoke(factory, *args, on_loop=True)

        def make() -> Any:
            self._late = factory(*args)
            return self._late

        self._making = True  # and stays so when the wait is cancelled, while the thread goes on
        try:
            made = await self.invoke(make)
        except Exception:
            self._making = False
            raise
        self._making, self._late = False, None
        return made

    async def _close_late(self) -> None:
        """Close the object that a thread made although the wait for it had been given up."""
        await self._thread.call(lambda: None)  # which the thread comes to after the factory
        close = getattr(self._late, "close", None)
        if callable(close):
            await self.invoke(close)
