"""What all tests share: async tests run on asyncio, the one backend that MemFin supports."""

import sys

import pygal  # type: ignore[import-untyped]
import pytest

# pygal leaves an import hook of an old kind behind, over which imports that come later stumble.
assert pygal
sys.meta_path[:] = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
