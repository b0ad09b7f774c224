"""What all tests share: async tests run on asyncio, the one backend that MemFin supports."""

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.support import length

# Commands write in the language of the locale; tests read English.
os.environ.update(LC_ALL="C.UTF-8")

# A command in the background of a script ignores SIGINT and hands that on to what the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy makes slowly what it makes well. The suite tries the same examples each time, so
# that a change is judged by itself; HYPOTHESIS_PROFILE=explore tries others, and more of them.
settings.register_profile(
    "memfin",
    deadline=None,
    derandomize=True,
    max_examples=length(40, 100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("memfin"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "memfin"))

LONG_FILES = ("e2e", "simulation", "validity", "web")

# Thousands of modules and cases that are there to stay cost every collection of garbage from here on, and a
# soak asks for one after every epoch.
gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with folders of long files, so that no worker has one of them left when the others are done."""
    items.sort(key=lambda item: item.path.parent.name not in LONG_FILES)


def pytest_collection_finish() -> None:
    """Leave what has been collected out of the collections of garbage."""
    gc.enable()
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """Return more workers than processors: many tests wait for processes, servers and the disk."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _scoring_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs of the test process that do not say how many processes score start none.

    Each takes a second of a processor until it is ready. Tests of scoring processes say how many they want,
    and commands that tests start have the usual number.
    """
    monkeypatch.setattr("memfin.actors.dialog_scoring.default_workers", lambda: 0)
