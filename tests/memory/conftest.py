"""Tests of the memory layer work in a quick room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.memory_rooms import quick_room
from tests.memory.memory_world import Clock


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    with quick_room(tmp_path) as room:
        yield room


@pytest.fixture
def clock() -> Clock:
    return Clock()
