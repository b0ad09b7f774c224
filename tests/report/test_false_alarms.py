"""False alarms and power of the verdicts of a comparison, over simulated runs of agents."""

import random

import pytest

from memfin.metrics.interval import ratio_interval
from memfin.report.comparison import Measured, judge_together, paired_value
from tests.support import length

VALUES = 6
RUNS = length(60, 1000)


def run_of(chance: random.Random, hard: list[list[float]], skill: float, mood: float) -> dict[str, Measured]:
    """Return the values of a run: the same turns are hard for every agent, ``mood`` is by dialogue."""
    values: dict[str, Measured] = {f"v{number}": Measured({}) for number in range(VALUES)}
    for dialog, turns in enumerate(hard):
        moods = [chance.gauss(0, mood) for _ in range(VALUES)]
        for turn, bar in enumerate(turns, 1):
            for shift, measured in zip(moods, values.values(), strict=True):
                hit = bar + shift + chance.gauss(0, 0.2) < skill
                measured.units[f"d{dialog}", 0, turn] = (float(hit), 1.0)
    return values


@pytest.mark.parametrize(("dialogs", "mood"), [(14, 0.1), (50, 0.2)])
def test_of_equal_agents_at_most_one_comparison_in_twenty_has_a_worse_value(
    dialogs: int, mood: float
) -> None:
    chance = random.Random(dialogs)
    alarms = 0
    for _ in range(RUNS):
        hard = [[chance.random() for _ in range(chance.randint(4, 13))] for _ in range(dialogs)]
        a, b = run_of(chance, hard, 0.6, mood), run_of(chance, hard, 0.6, mood)
        compared = {name: paired_value(a[name], b[name]) for name in a}
        judge_together(compared, a.keys(), {}, {})
        alarms += any(value.verdict == "worse" for value in compared.values())
    assert alarms <= 0.05 * RUNS


@pytest.mark.parametrize("dialogs", [14, 50, 300])
def test_a_gate_at_95_passes_an_agent_at_its_limit_in_at_most_one_of_twenty_runs(dialogs: int) -> None:
    chance = random.Random(dialogs)
    runs = length(300, 1000)
    for limit in (0.02, 0.1, 0.5):
        passed = 0
        for _ in range(runs):
            clusters = []
            for _ in range(dialogs):
                turns = chance.randint(4, 13)
                rate = chance.betavariate(2 * limit, 2 * (1 - limit))
                clusters.append((float(sum(chance.random() < rate for _ in range(turns))), float(turns)))
            bounds = ratio_interval(clusters)
            assert bounds is not None
            passed += bounds[1] <= limit
        assert passed <= 0.05 * runs, limit
