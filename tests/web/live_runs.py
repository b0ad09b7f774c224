"""A run as a process of its own that answers a dialogue whenever it is let."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.commands import Command
from tests.support import dataset

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"

AGENT = f"""
import asyncio, os

PIPE = os.open(os.environ["STEPS"], os.O_RDONLY)

class Agent:
    def __init__(self, session, observer):
        self.name = session.dialog_id

    async def reply(self, text):
        if "第1个" in text:
            await asyncio.to_thread(os.read, PIPE, 1)
            if self.name.endswith("2"):
                raise ValueError({HOSTILE!r})
        return "这款产品保本保收益，稳赚不赔。"
"""


class SteppedRun:
    """A ``memfin run``, or another command, in the directory ``runs`` below a folder."""

    def __init__(self, folder: Path, steps: int, dialogs: int, command: Sequence[str]) -> None:
        self.path = folder / "runs" / "r"
        self._folder = folder
        self._steps = steps
        source = dataset(folder / "dialogs.jsonl", dialogs, 2)
        (folder / "stepped.py").write_text(AGENT)
        self._start(*command, source, "--run-id", "r", "--agent", "stepped:Agent", "--workers-dialog", "1")

    def _start(self, *words: object) -> None:
        environment = {**os.environ, "PYTHONPATH": str(self._folder), "STEPS": str(self._folder / "steps")}
        self.command = Command(*words, cwd=self._folder, env=environment)

    def answer(self, dialogs: int) -> None:
        """Let the run answer some more dialogues."""
        os.write(self._steps, b"." * dialogs)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self.command.send_signal(signal.SIGKILL)
        self.command.communicate(20)

    def resume(self) -> None:
        """Go on with the run."""
        self._start("resume", "runs/r")


@contextmanager
def stepped_run(folder: Path, dialogs: int = 6, command: Sequence[str] = ("run",)) -> Iterator[SteppedRun]:
    """Start a run; it is killed at the end of the block."""
    pipe = folder / "steps"
    os.mkfifo(pipe)
    steps = os.open(pipe, os.O_RDWR)  # not to wait for the run to open it
    run = SteppedRun(folder, steps, dialogs, command)
    try:
        yield run
    finally:
        run.command.kill()
        run.command.communicate(20)
        os.close(steps)
