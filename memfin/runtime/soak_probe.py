"""Looks at the process and the event loop while a soak goes on."""

import asyncio
from typing import Final

import anyio
import psutil

from memfin.contracts.soak import Distribution, ProcessSample
from memfin.metrics.percentiles import Percentiles

BEAT: Final = 0.02
"""Seconds between two looks at how late the loop is."""

SAMPLE_EVERY: Final = 25
"""Beats between two looks at the process."""


class Probe:
    """Measures loop lag and peaks; `run` it in a task, `take` what it saw since the last time.

    The lag of a beat is how much later than asked for the loop woke it up.

    Attributes:
        last: the last look at the process.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._lag = Percentiles()
        self.last = ProcessSample()
        self._peak = ProcessSample()

    async def run(self) -> None:
        """Measure until cancelled."""
        clock = asyncio.get_running_loop().time
        beats = 0
        while True:
            if beats % SAMPLE_EVERY == 0:
                self.look()
            beats += 1
            due = clock() + BEAT
            await anyio.sleep(BEAT)
            self._lag.add(max(0.0, clock() - due) * 1000)

    def look(self) -> ProcessSample:
        """Return what the process holds now."""
        process, peak = self._process, self._peak
        with process.oneshot():
            now = ProcessSample(
                rss_bytes=process.memory_info().rss,
                open_files=process.num_fds(),
                threads=process.num_threads(),
                tasks=len(asyncio.all_tasks()),
            )
        self._peak = ProcessSample(**{name: max(now[name], peak[name]) for name in now})
        self.last = now
        return now

    def take(self) -> tuple[Distribution, ProcessSample]:
        """Return loop lag and peaks since the last time, and begin anew."""
        taken = self._lag.distribution(), self._peak
        self._lag, self._peak = Percentiles(), self.last
        return taken
