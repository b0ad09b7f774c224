"""What a piece of code leaves in the process: tasks, threads, open files."""

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple


class Footprint(NamedTuple):
    """Tasks, threads and open files of a process at a moment."""

    tasks: frozenset[str]
    threads: frozenset[str]
    files: tuple[str, ...]


def footprint() -> Footprint:
    """Return the present footprint of the process, seen from a task of the event loop."""
    return Footprint(
        frozenset(task.get_name() for task in asyncio.all_tasks()),
        frozenset(thread.name for thread in threading.enumerate()),
        tuple(sorted(_open_files())),
    )


def left_since(before: Footprint) -> Footprint:
    """Return what there is now and was not there before; threads of other tests may have ended meanwhile."""
    now = footprint()
    files = Counter(now.files) - Counter(before.files)
    return Footprint(now.tasks - before.tasks, now.threads - before.threads, tuple(files.elements()))


NOTHING = Footprint(frozenset(), frozenset(), ())


def _open_files() -> list[str]:
    found: list[str] = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except FileNotFoundError:  # the one that lists them
            continue
    return found
