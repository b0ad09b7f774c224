"""One run at a time writes to a run directory, whichever process started it."""

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfin.errors import UsageError
from memfin.journal import RunDirectory, progress_path
from memfin.journal.disk import Disk
from memfin.journal.lock import LOCK, RunLock, is_locked

HOLDER = """
    import asyncio, sys
    from pathlib import Path
    from memfin.journal import RunDirectory, progress_path

    async def main(runs):
        async with RunDirectory(runs / "r", progress_path(runs, "r")):
            print("held", flush=True)
            await asyncio.sleep(3600)

    asyncio.run(main(Path(sys.argv[1])))
"""


def existing(runs: Path) -> RunDirectory:
    return RunDirectory(runs / "r", progress_path(runs, "r"), existing=True)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that has the lock."""
    words = [sys.executable, "-c", textwrap.dedent(HOLDER), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


async def test_a_second_process_is_refused_with_one_clear_line(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        async with existing(tmp_path):
            raise AssertionError("opened")
    assert str(refused.value) == (
        f"run {tmp_path / 'r'}: is in use by process {holder.pid}; wait for it to end, or stop it first"
    )
    assert refused.value.exit_code == 2


async def test_a_second_run_within_the_process_is_refused(tmp_path: Path) -> None:
    async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r")):
        for _ in range(2):
            with pytest.raises(UsageError, match=f"is in use by process {os.getpid()};"):
                async with existing(tmp_path):
                    raise AssertionError("opened")
    async with existing(tmp_path):
        pass


async def test_the_lock_of_a_killed_process_blocks_nobody(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    assert holder.wait() == -signal.SIGKILL
    assert (tmp_path / "r" / LOCK).read_bytes() == b"%d\n" % holder.pid
    async with existing(tmp_path) as run:
        assert len(run.committed) == 0
        assert (tmp_path / "r" / LOCK).read_bytes() == b"%d\n" % os.getpid()


async def test_a_holder_that_did_not_sign_is_refused_as_well(tmp_path: Path) -> None:
    async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r")):
        (tmp_path / "r" / LOCK).write_bytes(b"")
        with pytest.raises(UsageError, match="is in use by another run;"):
            async with existing(tmp_path):
                raise AssertionError("opened")


async def test_a_look_at_the_lock_tells_if_a_process_has_it_and_stops_none(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    lock = tmp_path / "r" / LOCK
    assert is_locked(lock)
    assert is_locked(lock)  # the first look did not break it
    holder.kill()
    holder.wait()
    assert not is_locked(lock)
    lock.unlink()
    os.mkfifo(lock)
    assert not is_locked(lock)
    assert not is_locked(tmp_path / "none")


def test_taking_the_lock_waits_for_a_look_to_pass(tmp_path: Path) -> None:
    lock = RunLock(tmp_path, Disk())
    with (tmp_path / LOCK).open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        end = threading.Timer(0.01, fcntl.flock, (looking, fcntl.LOCK_UN))
        end.start()
        lock.acquire()
        end.join()
    assert is_locked(tmp_path / LOCK)
    lock.release()
