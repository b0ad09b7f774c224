"""What all tests share: async tests run on asyncio, the one backend that MemFin supports."""

import os

import pytest

from tests.support import unmeasured

# The workers of pytest-xdist are measured, the hundreds of commands that tests start are not: measuring
# them doubles the time of the suite, and what commands do is tested in process as well.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in os.environ.keys() - unmeasured().keys():
        del os.environ[name]


def pytest_xdist_auto_num_workers() -> int:
    """Return more workers than processors: many tests wait for processes, servers and the disk."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
