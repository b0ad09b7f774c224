"""A write that is cancelled, by a scope or as a task, is finished before the cancellation goes on."""

import asyncio
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from memfin.journal import DIALOG_TRACE, Entry, RunDirectory
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine

LONG = 20.0


class Standing(Disk):
    """A disk whose fsync waits to be released, once it is told to stand."""

    def __init__(self) -> None:
        self.standing = False
        self.reached, self.released = threading.Event(), threading.Event()

    def fsync(self, descriptor: int) -> None:
        if self.standing:
            self.reached.set()
            self.released.wait(LONG)
        super().fsync(descriptor)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("how", ["task", "scope"])
async def test_a_cancelled_commit_is_finished_first(tmp_path: Path, how: str, times: int) -> None:
    disk = Standing()
    scope = anyio.CancelScope()

    async def commit(directory: RunDirectory) -> None:
        with scope:
            await directory.commit([Entry("replay", 1, "d1", {DIALOG_TRACE: [b"{}"]})])
            await anyio.lowlevel.checkpoint()

    async with RunDirectory(tmp_path / "r", tmp_path / "p", disk=disk) as directory:
        disk.standing = True
        task = asyncio.create_task(commit(directory))
        await asyncio.to_thread(disk.reached.wait, LONG)
        for _ in range(times):
            if how == "scope":
                scope.cancel()
            else:
                task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done()
        disk.released.set()
        if how == "task":
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await task
            assert scope.cancelled_caught
        assert [dialog.dialog_id for dialog in examine(Disk(), tmp_path / "r").committed] == ["d1"]
