"""Rooms for tests that are about the order of steps, not about a disk's patience."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
_ENOUGH = 1 << 29


def quick_place() -> Path | None:
    """Return where files are in memory, if the system has such a place, and room in it."""
    if os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free >= _ENOUGH:
        return _IN_MEMORY
    return None


@contextmanager
def quick_room(otherwise: Path) -> Iterator[Path]:
    """Give a directory whose files are in memory where that can be."""
    place = quick_place()
    if place is None:
        yield otherwise
        return
    with tempfile.TemporaryDirectory(prefix="memfin-test-", dir=place) as room:
        yield Path(room)
