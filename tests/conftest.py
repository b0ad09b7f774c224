"""What all tests share: async tests run on asyncio, the one backend that MemFin supports."""

import gc
import os
import signal
from collections.abc import Iterator

import coverage
import pytest
from hypothesis import HealthCheck, settings

from tests.support import unmeasured

# The workers of pytest-xdist are measured, the hundreds of commands that tests start are not: measuring
# them doubles the time of the suite, and what commands do is tested in process as well.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in os.environ.keys() - unmeasured().keys():
        del os.environ[name]

# A command in the background of a script ignores SIGINT and hands that on to what the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy makes slowly what it makes well. The suite tries the same examples each time, so
# that a change is judged by itself; HYPOTHESIS_PROFILE=explore tries others, and more of them.
settings.register_profile(
    "memfin", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("memfin"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "memfin"))

REPETITIONS = frozenset(
    (
        "test_bench_memory",
        "test_cancellation",
        "test_contract_properties",
        "test_crash",
        "test_faults",
        "test_injections",
        "test_memory_concurrency",
        "test_memory_crash",
        "test_memory_revocation",
        "test_merging",
        "test_recovery",
        "test_simulation",
        "test_soak_memory",
        "test_unseen_replies",
    )
)
"""Files that do over and over what other files do once; they are not measured."""


@pytest.fixture(scope="module", autouse=True)
def measured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure the lines that the tests of a file run, or not."""
    now = coverage.Coverage.current()
    if now is None or request.path.stem not in REPETITIONS:
        yield
        return
    now.stop()
    yield
    now.start()


# Thousands of modules and cases that are there to stay cost every collection of garbage from here on, and a
# soak asks for one after every epoch.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what has been collected out of the collections of garbage."""
    gc.enable()
    gc.collect()
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
    monkeypatch.setattr("memfin.actors.scorer.default_workers", lambda: 0)
