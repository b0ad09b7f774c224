"""What all tests share: async tests run on asyncio, the one backend that MemFin supports."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
