"""Runs ``python -m memfin`` as a process of its own that is forked from one where everything is imported.

Starting Python and importing costs more than most commands do. What a command sees is as it is otherwise:
its own process, directory, environment, standard streams and arguments.
"""

import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

import anyio

_FORKING: Final = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.commands", "tests.warm_commands"])


def _become(words: list[str], cwd: str, environment: dict[str, str], streams: list[str]) -> None:
    """Turn this process into one that runs the command."""
    for descriptor, (name, flags) in enumerate(
        zip(streams, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)
    ):
        opened = os.open(name, flags | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end of the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    sys.path[:] = ["", *environment.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    sys.argv[:] = ["memfin", *words]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runpy.run_module("memfin", run_name="__main__", alter_sys=True)


class Command:
    """A command that runs, to be used as a `subprocess.Popen`; what it writes goes to files."""

    def __init__(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="command"))
        self._streams = [self._folder / name for name in ("stdin", "stdout", "stderr")]
        self._written: tuple[str, str] | None = None
        for path in self._streams:
            path.write_bytes(stdin or b"" if path.name == "stdin" else b"")
        self.words = [str(word) for word in words]
        environment = dict(os.environ if env is None else env)
        streams = [str(path) for path in self._streams]
        self._process: ForkServerProcess = _FORKING.Process(
            target=_become, args=(self.words, str(cwd or Path.cwd()), environment, streams)
        )
        self._process.start()

    @property
    def returncode(self) -> int:
        """The exit code of a command that has ended; negative after a signal."""
        code = self._process.exitcode
        assert code is not None
        return code

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send the process a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End the process if it still runs."""
        if self.poll() is None:
            self._process.kill()

    def errors_so_far(self) -> str:
        """Return what has been written to standard error while the command runs."""
        return self._streams[2].read_text("utf-8")

    def first_line(self, timeout: float = 60) -> str:
        """Wait for the first line of standard output, such as the address of a server, and return it."""
        deadline = time.monotonic() + timeout
        while "\n" not in (written := self._streams[1].read_text("utf-8")):
            assert self.poll() is None, self.errors_so_far()
            assert time.monotonic() < deadline, self.words
            time.sleep(0.01)
        return written.partition("\n")[0]

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end and return what was written to standard output and to standard error."""
        if self._written is None:
            self._process.join(timeout)
            _, out, err = (path.read_text("utf-8") for path in self._streams)
            if self.poll() is None:
                raise subprocess.TimeoutExpired(self.words, timeout or 0, out.encode(), err.encode())
            self._written = out, err
            shutil.rmtree(self._folder)
        return self._written


def run_command(
    *words: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; after the timeout, kill it and fail."""
    command = Command(*words, cwd=cwd, env=env, stdin=stdin)
    try:
        out, err = command.communicate(timeout)
    except subprocess.TimeoutExpired:
        command.kill()
        command.communicate()
        raise
    return subprocess.CompletedProcess(command.words, command.returncode, out, err)


async def run_beside_us(
    *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end while the event loop goes on, which may serve it."""
    return await anyio.to_thread.run_sync(partial(run_command, *words, cwd=cwd, env=env))
