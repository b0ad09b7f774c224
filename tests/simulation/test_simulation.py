"""Runs in virtual time, each disturbed as its seed says: nothing is lost, nothing is done twice.

A failure names its seed; ``MEMFIN_SEED=N pytest tests/simulation`` runs that one alone, and
``TESTS_SEEDS=N`` as many as one likes.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.simulated_run import INTERRUPTIONS, Lives, World, drawn, simulate
from tests.support import length

SEEDS = int(os.environ.get("TESTS_SEEDS") or length(18, 1000))
ONLY = os.environ.get("MEMFIN_SEED")
PARTS = 2
CANCELLED = length(16, 2000)
UNWINDING = 1.0
"""Virtual seconds in which a cancelled run is gone, with a disk that answers within a twentieth of one."""
WORLDS = 8


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    folder = tmp_path_factory.mktemp("worlds")
    return [World(number, folder) for number in range(WORLDS)]


@pytest.mark.parametrize("part", range(PARTS))
def test_simulated_runs_keep_every_promise(worlds: list[World], part: int, tmp_path: Path) -> None:
    seeds = range(part, SEEDS, PARTS) if ONLY is None else [int(ONLY)] if part == int(ONLY) % PARTS else []
    ends: Counter[str] = Counter()
    restored = 0
    for seed in seeds:
        lives = simulate(worlds[seed % WORLDS], seed, tmp_path / str(seed))
        assert not lives.problems, f"MEMFIN_SEED={seed}: {lives.problems}; lives: {lives.interruptions}"
        ends.update(lives.interruptions)
        restored += lives.restored
    if len(seeds) >= 50:
        assert set(ends) == {"none", *INTERRUPTIONS}
        assert restored > len(seeds) // 20  # else nothing is known of going on within a dialogue


def test_a_run_cancelled_at_any_step_is_gone_in_time_and_leaves_nothing(
    worlds: list[World], tmp_path: Path
) -> None:
    whole = []
    for number, world in enumerate(worlds):
        lives = Lives(world, number, tmp_path / f"whole{number}", disturbed=False)
        lives.live()
        whole.append(lives.steps)
    cancelled = 0
    for seed in range(CANCELLED):
        number = seed % WORLDS
        step = drawn("step", seed).randint(1, whole[number])
        lives = Lives(worlds[number], seed, tmp_path / f"{seed}", disturbed=False, cancelled_at=step)
        lives.live()
        cancelled += not lives.complete
        assert not lives.problems, f"seed {seed}, step {step}: {lives.problems}"
        assert lives.unwinding <= UNWINDING, f"seed {seed}, step {step}: gone after {lives.unwinding:.2f} s"
        if seed % 10 == 0 and not lives.complete and lives.run.exists():
            lives.live()
            lives.check_result()
            assert not lives.problems, f"seed {seed}, step {step}, resumed: {lives.problems}"
    assert cancelled > CANCELLED * 0.8


def test_a_seed_gives_the_same_run_again(worlds: list[World], tmp_path: Path) -> None:
    for seed in range(length(4, 8)):
        logs = []
        for name in ("one", "two"):
            lives = simulate(worlds[seed % WORLDS], seed, tmp_path / f"{name}{seed}")
            log = (tmp_path / f"{name}{seed}" / "logs" / "progress_r.jsonl").read_bytes()
            events = [
                json.loads(line) for line in log.split(b"\n")[:-1]
            ]  # a power cut may have torn the last
            logs.append((lives.interruptions, [{**event, "ts": ""} for event in events]))
        assert told(logs[0], f"one{seed}") == told(logs[1], f"two{seed}")


def told(what: object, name: str) -> str:
    """Return something as text without the name of its folder and the addresses of scopes."""
    return re.sub(r"cancel scope [0-9a-f]+", "", repr(what).replace(name, ""))
