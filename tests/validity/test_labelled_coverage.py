"""Coverage and width of corrected rates where turns are real replies with labels of people.

Each redraw makes a run of dialogues drawn from the labelled ones with replacement, ten turns per label, and
labels turns of it at random. The truth is the rate by the labels of all turns that it is drawn from.
"""

import math
import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import pytest

from memfin.contracts import LabelledReply
from memfin.contracts.reading import iter_jsonl
from memfin.metrics.corrected import Reading, corrected_rate
from memfin.validity import Found, found_by_detectors
from memfin.validity.found import given_labels
from tests.support import LONG, length

LABELS = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "labels"
REDRAWS: Final = length(12, 10_000)
TURNS_PER_LABEL: Final = 10

pytestmark = pytest.mark.skipif(
    not LABELS.is_dir(), reason=f"the labelled turns are not in this checkout: no {LABELS}"
)

Turn = tuple[float, float, float]
"""What label and detector add to the numerator, and what the turn adds to the denominator."""


@dataclass(frozen=True)
class Population:
    """Labelled dialogues, and the weights with which they are drawn."""

    dialogs: Sequence[Sequence[Turn]]
    weights: Sequence[float]

    def mean(self, of: Callable[[Turn], float]) -> float:
        """Return a mean over the turns by the weights of their dialogues."""
        sums = (math.fsum(map(of, turns)) for turns in self.dialogs)
        return math.fsum(w * each for w, each in zip(self.weights, sums, strict=True)) / math.fsum(
            w * len(turns) for w, turns in zip(self.weights, self.dialogs, strict=True)
        )

    @cached_property
    def sums(self) -> list[tuple[float, float]]:
        """Return the detector's numerator and the denominator of each dialogue."""
        return [(sum(turn[1] for turn in turns), sum(turn[2] for turn in turns)) for turns in self.dialogs]

    @cached_property
    def turns_each(self) -> float:
        """Return the mean number of turns of a dialogue that is drawn."""
        sizes = map(len, self.dialogs)
        return sum(w * size for w, size in zip(self.weights, sizes, strict=True)) / sum(self.weights)

    @cached_property
    def truth(self) -> float:
        return self.mean(lambda turn: turn[0]) / self.mean(lambda turn: turn[2])

    @cached_property
    def correlation(self) -> float:
        """Return that of label and detector over the turns."""
        label = self.truth
        detected = self.mean(lambda turn: turn[1]) / self.mean(lambda turn: turn[2])
        both = self.mean(lambda turn: (turn[0] - label * turn[2]) * (turn[1] - detected * turn[2]))
        spreads = (
            self.mean(lambda turn: (turn[0] - label * turn[2]) ** 2),
            self.mean(lambda turn: (turn[1] - detected * turn[2]) ** 2),
        )
        return both / math.sqrt(math.prod(spreads)) if all(spreads) else 0.0


def tags(row: LabelledReply, found: Found) -> Turn | None:
    given = given_labels(row.risk_tags)
    return _shares(given, found.risk_tags or ())


def rubric(row: LabelledReply, found: Found) -> Turn | None:
    return _shares(given_labels(row.rubric), found.rubric)


def tag(name: str) -> Callable[[LabelledReply, Found], Turn | None]:
    def one(row: LabelledReply, found: Found) -> Turn | None:
        given = given_labels(row.risk_tags)
        return _shares({name: given[name]}, found.risk_tags or ()) if name in given else None

    return one


def contradiction(row: LabelledReply, found: Found) -> Turn | None:
    return None if row.contradiction is None else (row.contradiction, float(bool(found.contradiction)), 1.0)


def _shares(given: dict[str, bool], found: Sequence[str]) -> Turn | None:
    hits = sum(name in found for name in given)
    return (float(sum(given.values())), float(hits), float(len(given))) if given else None


@cache
def read_labels(file: str) -> list[tuple[LabelledReply, Found]]:
    """Return the labelled replies of a file with what the detectors find in them."""
    return [(row, found_by_detectors(row)) for _, row in iter_jsonl(LABELS / file, LabelledReply)]


def population(
    file: str,
    read: Callable[[LabelledReply, Found], Turn | None],
    rate: float | None = None,
    change: Callable[[random.Random, Turn], Turn] | None = None,
) -> Population:
    """Return the dialogues of a file; with a ``rate``, those with a hit are drawn less, down to that rate.

    A ``change`` of the detector is drawn for 40 copies of each dialogue.
    """
    found: defaultdict[str, list[Turn]] = defaultdict(list)
    for row, readings in read_labels(file):
        if (turn := read(row, readings)) is not None:
            found[row.id.split("|")[2]].append(turn)
    dialogs, weights = list(found.values()), [1.0] * len(found)
    if rate is not None:
        hits = [sum(turn[0] for turn in turns) for turns in dialogs]
        sizes = [sum(turn[2] for turn in turns) for turns in dialogs]
        # rate = f H / (f S + T), of H hits and S turns with a hit in the dialogue, T turns without one
        inside = sum(size for size, hit in zip(sizes, hits, strict=True) if hit)
        factor = rate * (sum(sizes) - inside) / (sum(hits) - rate * inside)
        weights = [factor if hit else 1.0 for hit in hits]
    if change is not None:
        chance = random.Random(file)
        dialogs = [[change(chance, turn) for turn in turns] for turns in dialogs for _ in range(40)]
        weights = [weight for weight in weights for _ in range(40)]
    return Population(dialogs, weights)


def biased(chance: random.Random, turn: Turn) -> Turn:
    """Return the turn with a detector that misses 40 % of the hits, and has 15 % false alarms."""
    label, _, size = turn
    return label, float(chance.random() < (0.6 if label else 0.15)), size


def useless(chance: random.Random, turn: Turn) -> Turn:
    """Return the turn with a detector that knows nothing of it."""
    return turn[0], float(chance.random() < 0.3), turn[2]


def run_of(chance: random.Random, drawn: Population, labels: int) -> Iterator[Reading]:
    """Yield the readings of a run; unlabelled turns of a dialogue are one reading, which is the same."""
    count = round(TURNS_PER_LABEL * labels / drawn.turns_each)
    places = chance.choices(range(len(drawn.dialogs)), drawn.weights, k=count)
    dialogs = [drawn.dialogs[place] for place in places]
    ends = list(accumulate(map(len, dialogs)))
    chosen: defaultdict[int, list[int]] = defaultdict(list)
    for place in chance.sample(range(ends[-1]), labels):
        dialog = bisect(ends, place)
        chosen[dialog].append(ends[dialog] - place - 1)
    for number, (turns, place) in enumerate(zip(dialogs, places, strict=True)):
        rest_detected, rest_size = drawn.sums[place]
        for read in chosen.get(number, ()):
            label, detected, size = turns[read]
            rest_detected, rest_size = rest_detected - detected, rest_size - size
            yield Reading(str(number), detected, label, size)
        yield Reading(str(number), rest_detected, None, rest_size)


CASES = {
    "all risk tags": ("turns_dev.jsonl", tags, None, None),
    "market uncertainty": ("turns_dev.jsonl", tag("market_uncertainty"), None, None),
    "interest rate risk": ("turns_dev.jsonl", tag("interest_rate_risk"), None, None),
    "rubric": ("turns_dev.jsonl", rubric, None, None),
    "contradictions": ("real_dev.jsonl", contradiction, None, None),
    "biased detector": ("turns_dev.jsonl", tag("volatility_risk"), None, biased),
    "biased detector of few events": ("real_dev.jsonl", contradiction, None, biased),
    "0.7 % contradictions": ("real_dev.jsonl", contradiction, 0.007, None),
    "0.8 % credit risk": ("turns_dev.jsonl", tag("credit_risk"), 0.008, None),
    "0.7 % contradictions, biased detector": ("real_dev.jsonl", contradiction, 0.007, biased),
    "useless detector": ("turns_dev.jsonl", tag("market_uncertainty"), None, useless),
    "useless detector of few events": ("real_dev.jsonl", contradiction, None, useless),
}


class Measured(NamedTuple):
    """Coverage of the intervals, and their median width by that of labels alone."""

    coverage: float
    width: float


def measured(case: str, drawn: Population, labels: int, redraws: int) -> Measured:
    chance = random.Random(f"{case} {labels}")
    rates = [
        rate for _ in range(redraws) if (rate := corrected_rate(run_of(chance, drawn, labels))) is not None
    ]
    return Measured(
        sum(each.ci95[0] <= drawn.truth <= each.ci95[1] for each in rates) / len(rates),
        median(width_of(each.ci95) / width_of(each.alone_ci95) for each in rates),
    )


def width_of(bounds: tuple[float, float]) -> float:
    return bounds[1] - bounds[0]


@pytest.mark.parametrize("labels", [50, 100, 200] if LONG else [100])
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_truth_of_labelled_turns(case: str, labels: int) -> None:
    drawn = population(*CASES[case])
    found = measured(case, drawn, labels, REDRAWS)
    assert found.coverage >= 0.94 - 3 * math.sqrt(0.94 * 0.06 / REDRAWS)
    # Where labels hold hardly an event, they cannot show that the detector is right.
    narrow = drawn.correlation > 0.8 and labels * drawn.truth >= 5
    assert found.width <= (0.65 if narrow else 1.05)
