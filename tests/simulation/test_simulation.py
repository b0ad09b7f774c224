"""Runs in virtual time, each disturbed as its seed says: nothing is lost, nothing is done twice.

A failure names its seed; ``MEMFIN_SEED=N pytest tests/simulation`` runs that one alone, and
``MEMFIN_SEEDS=N`` as many as one likes.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.simulated_run import INTERRUPTIONS, World, simulate
from tests.support import length

SEEDS = int(os.environ.get("MEMFIN_SEEDS") or length(120, 1000))
ONLY = os.environ.get("MEMFIN_SEED")
PARTS = 2
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


def test_a_seed_gives_the_same_run_again(worlds: list[World], tmp_path: Path) -> None:
    for seed in range(8):
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
