"""What a judge has to say to the run: lines for its progress log, told when they come up."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

MOST: Final = 1000
"""Lines that wait to be taken; later ones push the oldest out."""


class Notices:
    """Takes lines from anywhere in the judge, a worker thread included, and gives them to one reader."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._came: asyncio.Event | None = None

    def post(self, line: str) -> None:
        """Leave a line; never blocks and never fails."""
        self._lines.append(line)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._came is not None:
            self._came.set()

    def waiting(self) -> list[str]:
        """Take the lines that are there now."""
        found = []
        while self._lines:
            found.append(self._lines.popleft())
        return found

    async def each(self) -> AsyncIterator[str]:
        """Yield lines as they come, until the reader is cancelled."""
        self._loop = asyncio.get_running_loop()
        self._came = asyncio.Event()
        while True:
            self._came.clear()
            for line in self.waiting():
                yield line
            await self._came.wait()
