"""Rates corrected by the labels of some turns: coverage, width, and what they are built from."""

import math
import random
from collections.abc import Iterator, Sequence
from statistics import median

import pytest

from memfin.contracts import CorrectedValue
from memfin.metrics.corrected import Reading, corrected_difference, corrected_rate
from memfin.metrics.interval import ratio_interval
from tests.support import LONG, length

REDRAWS = length(15, 10_000)
LABELS = [50, 100, 200] if LONG else [50, 100]


def run_of(
    chance: random.Random, rate: float, alike: float, found: float, alarms: float, dialogs: int
) -> list[tuple[str, float, float]]:
    """Return dialogue, truth and detector of turns; turns of a dialogue are alike by so much correlation."""
    turns = []
    for number in range(dialogs):
        own = chance.betavariate(rate * (1 / alike - 1), (1 - rate) * (1 / alike - 1))
        for _ in range(chance.randint(5, 13)):
            truth = chance.random() < own
            turns.append((str(number), float(truth), float(chance.random() < (found if truth else alarms))))
    return turns


def labelled(
    chance: random.Random, turns: Sequence[tuple[str, float, float]], labels: int, more: float
) -> Iterator[Reading]:
    """Yield readings with labels drawn one by one, ``more`` times as often where the detector speaks."""
    weights = [more if detected else 1.0 for _, _, detected in turns]
    total = math.fsum(weights)
    for (dialog, truth, detected), weight in zip(turns, weights, strict=True):
        probability = min(1.0, labels * weight / total)
        drawn = chance.random() < probability
        yield Reading(dialog, detected, truth if drawn else None, 1.0, probability)


def redraws(
    rate: float, alike: float, found: float, alarms: float, *, labels: int, more: float
) -> list[CorrectedValue]:
    chance = random.Random(f"{rate} {alike} {found} {alarms} {labels} {more}")
    corrected = (
        corrected_rate(labelled(chance, run_of(chance, rate, alike, found, alarms, 2 * labels), labels, more))
        for _ in range(REDRAWS)
    )
    return [each for each in corrected if each is not None]


def covered(rates: Sequence[CorrectedValue], truth: float) -> float:
    return sum(each.ci95[0] <= truth <= each.ci95[1] for each in rates) / len(rates)


def width(bounds: tuple[float, float]) -> float:
    return bounds[1] - bounds[0]


def relative_width(rates: Sequence[CorrectedValue]) -> float:
    return median(width(each.ci95) / width(each.alone_ci95) for each in rates)


@pytest.mark.parametrize("more", [1.0, 4.0])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(
    ("rate", "alike", "found", "alarms"),
    [
        pytest.param(0.3, 0.1, 0.95, 0.05, id="good"),
        pytest.param(0.2, 0.2, 0.6, 0.2, id="biased"),
        pytest.param(0.005, 0.05, 0.8, 0.01, id="rare"),
        pytest.param(0.1, 0.1, 0.1, 0.1, id="useless"),
    ],
)
def test_the_interval_holds_the_truth_and_is_no_wider_than_that_of_labels_alone(
    rate: float, alike: float, found: float, alarms: float, labels: int, more: float
) -> None:
    rates = redraws(rate, alike, found, alarms, labels=labels, more=more)
    slack = 3 * math.sqrt(0.94 * 0.06 / len(rates))
    assert covered(rates, rate) >= 0.94 - slack
    assert relative_width(rates) <= (0.65 if found - alarms > 0.8 else 1.0)


Turns = Sequence[tuple[str, float, float]]


def run_after(chance: random.Random, before: Turns, change: float, found: float, alarms: float) -> Turns:
    """Return the turns of a second run: as in the first, but for a share of hits more or less."""
    turns = []
    for dialog, truth, _ in before:
        hit = bool(truth)
        if chance.random() < abs(change):
            hit = change > 0
        turns.append((dialog, float(hit), float(chance.random() < (found if hit else alarms))))
    return turns


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(
    ("rate", "change", "alike", "found", "alarms"),
    [
        pytest.param(0.3, -0.2, 0.1, 0.95, 0.05, id="good"),
        pytest.param(0.2, 0.0, 0.2, 0.6, 0.2, id="biased"),
        pytest.param(0.005, 0.01, 0.05, 0.8, 0.01, id="rare"),
        pytest.param(0.1, 0.1, 0.1, 0.1, 0.1, id="useless"),
    ],
)
def test_the_interval_of_a_difference_holds_the_true_one(
    rate: float, change: float, alike: float, found: float, alarms: float, labels: int, *, paired: bool
) -> None:
    chance = random.Random(f"{rate} {change} {labels} {paired}")
    truth = change * (1 - rate) if change > 0 else change * rate
    held, narrower, made = 0, [], 0
    for _ in range(REDRAWS):
        before = run_of(chance, rate, alike, found, alarms, labels)
        first = before if paired else run_of(chance, rate, alike, found, alarms, labels)
        after = run_after(chance, first, change, found, alarms)
        if not paired:
            after = [(f"other {dialog}", hit, seen) for dialog, hit, seen in after]
        drawn = chance.getstate()
        a = list(labelled(chance, before, labels, 1.0))
        if paired:
            chance.setstate(drawn)  # the same turns are labelled in both runs
        b = list(labelled(chance, after, labels, 1.0))
        if (difference := corrected_difference(a, b)) is None:
            continue
        made += 1
        held += difference.ci95[0] <= truth <= difference.ci95[1]
        apart = math.hypot(width(difference.a.ci95), width(difference.b.ci95))
        narrower.append(width(difference.ci95) / apart)
    assert held / made >= 0.94 - 3 * math.sqrt(0.94 * 0.06 / made)
    if paired and not change:
        assert median(narrower) < 0.8


def test_the_detectors_bias_is_taken_out() -> None:
    rates = redraws(0.2, 0.2, 0.6, 0.2, labels=200, more=1.0)
    raw, value = (sum(getattr(each, name) for each in rates) / len(rates) for name in ("raw", "value"))
    assert raw == pytest.approx(0.2 * 0.6 + 0.8 * 0.2, abs=0.02)
    assert value == pytest.approx(0.2, abs=0.02)


def test_a_detector_that_is_always_right_has_the_weight_1_and_leaves_no_error_of_labels() -> None:
    chance = random.Random(1)
    turns = run_of(chance, 0.3, 0.1, 1.0, 0.0, 300)
    found = corrected_rate(labelled(chance, turns, 60, 1.0))
    assert found is not None
    assert found.value == pytest.approx(found.raw, abs=0.02)
    assert found.weight > 0.9
    assert width(found.ci95) < 0.6 * width(found.alone_ci95)


def test_a_detector_that_says_the_same_of_all_turns_leaves_the_labels_alone() -> None:
    chance = random.Random(2)
    turns = [(dialog, truth, 1.0) for dialog, truth, _ in run_of(chance, 0.3, 0.1, 0.5, 0.5, 40)]
    found = corrected_rate(labelled(chance, turns, 60, 1.0))
    assert found is not None
    assert (found.weight, found.value, found.ci95) == (0.0, found.alone, found.alone_ci95)


def test_where_every_turn_is_labelled_the_rate_is_that_of_the_labels() -> None:
    chance = random.Random(3)
    turns = run_of(chance, 0.3, 0.1, 0.8, 0.1, 60)
    found = corrected_rate(Reading(dialog, detected, truth) for dialog, truth, detected in turns)
    assert found is not None
    assert found.value == pytest.approx(sum(truth for _, truth, _ in turns) / len(turns))
    sums: dict[str, list[float]] = {}
    for dialog, truth, _ in turns:
        sums.setdefault(dialog, []).append(truth)
    assert found.alone_ci95 == pytest.approx(ratio_interval((sum(s), len(s)) for s in sums.values()))


def test_sizes_make_a_ratio_of_sums() -> None:
    readings = [Reading("a", 2, 1, 4), Reading("a", 0, 0, 1), Reading("b", 1, 1, 5), Reading("c", 3, None, 6)]
    found = corrected_rate(readings, weight=0.5)
    assert found is not None
    assert (found.raw, found.alone, found.labels) == (6 / 16, 2 / 10, 3)
    assert found.value == pytest.approx(2 / 10 + 0.5 * (6 / 16 - 3 / 10))


def test_labels_of_one_dialogue_have_no_spread() -> None:
    assert corrected_rate([Reading("a", 1, 1), Reading("a", 0, 0), Reading("b", 1)]) is None


def test_the_factor_of_the_probabilities_does_not_matter() -> None:
    chance = random.Random(4)
    readings = list(labelled(chance, run_of(chance, 0.2, 0.1, 0.8, 0.1, 50), 80, 3.0))
    halved = [each._replace(probability=each.probability / 2) for each in readings]
    found, other = corrected_rate(readings), corrected_rate(halved)
    assert found is not None
    assert other is not None
    assert other.value == pytest.approx(found.value)
    assert other.ci95 == pytest.approx(found.ci95)
