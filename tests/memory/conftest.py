"""Tests of the memory layer work in a quick room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.memory_rooms import quick_room


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    with quick_room(tmp_path) as room:
        yield room
