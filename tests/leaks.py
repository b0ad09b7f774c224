"""What a piece of code leaves in the process: tasks, threads, open files."""

import asyncio
import threading
from pathlib import Path
from typing import NamedTuple


class Footprint(NamedTuple):
    """What there is at a moment; equal footprints mean that nothing was left."""

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


def _open_files() -> list[str]:
    found: list[str] = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except FileNotFoundError:  # the one that lists them
            continue
    return found
