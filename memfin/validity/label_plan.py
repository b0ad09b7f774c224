"""Number of labels that corrected rates need, and the draw of turns to label (``memfin plan``)."""

import math
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, NamedTuple

from memfin.contracts import CorrectedValue
from memfin.metrics.corrected import PRIOR_GAIN, Reading, corrected_rate
from memfin.metrics.interval import (
    CONFIDENCE,
    PRIOR_EVENTS,
    combined,
    ratio_interval,
    student_t_quantile,
    wilson_bounds,
)
from memfin.report import reader
from memfin.validity.corrections import JoinedRun, ReadTurn

MORE: Final = 4.0
"""Factor of the probability of turns where the detectors see a violation, with ``--more detector``."""

MIN_FLAGGED: Final = 2
"""Labels of a kind of turn, with a violation or without, that show how far its labels spread."""

_MIN_GAIN: Final = 0.25

Holds = Callable[["RatePlan", int, float], bool]
"""True of a plan, a number of labels and a factor of flagged turns, if so many are enough."""


def probabilities(labels: float, plain: int, flagged: int, more: float) -> tuple[float, float]:
    """Return the probabilities of drawing a plain and a flagged turn, for so many labels of all turns.

    A flagged turn is drawn ``more`` times as often, as far as there are turns enough.
    """
    if flagged and labels > flagged:
        more = min(more, plain / (labels - flagged))
    each = min(1.0, labels / (plain + more * flagged))
    return each, min(1.0, more * each)


def draw_turns(
    turns: Sequence[ReadTurn], labels: int, more: float, seed: int
) -> dict[tuple[str, int], float]:
    """Return turns drawn at random in their order of reading, each with its probability.

    Systematic sampling of the turns in random order has exactly these probabilities and this number.
    """
    flagged = sum(turn.flagged for turn in turns)
    chances = probabilities(min(labels, len(turns)), len(turns) - flagged, flagged, more)
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    shuffled = chance.sample(turns, len(turns))
    drawn: dict[tuple[str, int], float] = {}
    reached, mark = 0.0, chance.random()
    for turn in shuffled:
        reached += chances[turn.flagged]
        if reached > mark:
            drawn[turn.turn] = chances[turn.flagged]
            mark += 1
    order = chance.sample(list(drawn), len(drawn))
    return {turn: drawn[turn] for turn in order}


def drawn_lines(
    run_dir: Path, run: JoinedRun, drawn: Mapping[tuple[str, int], float]
) -> Iterator[dict[str, Any]]:
    """Yield the drawn turns as lines of the label form, without labels and without any finding."""
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for dialog_id, turn in drawn:
        wanted[dialog_id].add(turn)
    texts = reader.fetch_turns(run_dir, wanted)
    for (dialog_id, turn), probability in drawn.items():
        dialog = run.dataset.get(dialog_id) if run.dataset is not None else None
        constraints = {} if dialog is None else {"constraints": dialog.profile_gt.constraints_gt}
        yield {
            "id": f"{dialog_id}#{turn}",
            "text": texts[dialog_id, turn].pred_assistant_text,
            "user_text": texts[dialog_id, turn].user_text,
            "dialog_id": dialog_id,
            "turn": turn,
            **constraints,
            "probability": probability,
        }


class Kind(NamedTuple):
    """The plain or the flagged turns of a rate: their number, and the variance of one label.

    ``alone`` is that of the labels, ``corrected`` that of the labels less what the detectors explain.
    """

    turns: int
    alone: float
    corrected: float


class RatePlan(NamedTuple):
    """A rate of a run as a pilot shows it, from which the interval of any number of labels follows.

    Attributes:
        value: the corrected rate; without a pilot the raw one.
        interval: its interval.
        pilot: labels of the pilot that carry the rate.
        gain: the share of the labels' variance that the detectors take away where few turns are labelled.
        spread: the variance of a labelled turn, over that of an independent hit or miss.
        alike: the design effect by dialogue over all turns, from the detectors' values.
        sizes: the denominators, squared and summed by dialogue, and by turn.
        total: the sum of the denominators.
        dialogs: numbers of dialogues by their number of turns.
        kinds: plain and flagged turns; None where the pilot has too few of either.
        turns: the number of turns, plain and flagged, that carry the rate.
        whole: the same of all turns of the run.
    """

    value: float
    interval: tuple[float, float]
    pilot: int
    gain: float
    spread: float
    alike: float
    sizes: tuple[float, float]
    total: float
    dialogs: Counter[int]
    kinds: tuple[Kind, Kind] | None
    turns: tuple[int, int]
    whole: tuple[int, int]

    def bounds(self, labels: int, more: float = 1.0) -> tuple[float, float]:
        """Return the interval to expect of so many labels; the formula is that of `corrected_rate`."""
        chances = probabilities(labels, *self.whole, more)
        count = sum(turns * chance for turns, chance in zip(self.turns, chances, strict=True))
        share = count / sum(self.turns)
        dialogs = sum(number * (1 - (1 - share) ** turns) for turns, number in self.dialogs.items())
        if dialogs < 2:  # noqa: PLR2004 - no spread without a second dialogue
            return 0.0, 1.0
        # 1. The variance by that of independent turns: sampling, and what dialogues have of their own.
        uneven_alone, uneven = (self._uneven(place, chances, share) for place in (1, 2))
        alone = uneven_alone + share * (self.alike - 1)
        corrected = (1 - self.gain) * (uneven - share) + share * self.alike
        # 2. The design effect of labels alone, and what the detectors leave of it.
        read = share * self.total
        by_dialog, by_turn = self.sizes
        maximum = (share * (by_dialog - by_turn) + by_turn) / self.total
        events = min(self.value, 1 - self.value) * read
        effect = (events * self.spread * alone + PRIOR_EVENTS * maximum) / (events + PRIOR_EVENTS)
        left = min(1.0, (events * corrected / alone + PRIOR_GAIN) / (events + PRIOR_GAIN))
        return wilson_bounds(self.value, read / effect / left, student_t_quantile(int(dialogs) - 1))

    def shows(self, labels: int, more: float = 1.0, *, difference: float, power: float) -> bool:
        """Return True if so many labels of each of two runs show a difference of their rates so often.

        The interval of the difference has to leave out 0 with the probability ``power``, if the other run
        has the same turns and is independent. Of a higher and a lower rate there, the harder one counts.
        """
        normal = NormalDist()
        reach = 1 + normal.inv_cdf(power) / normal.inv_cdf((1 + CONFIDENCE) / 2)
        (low, high), found = self.bounds(labels, more), []
        for other in (self.value - difference, self.value + difference):
            if 0 <= other <= 1:
                under, above = self._replace(value=other).bounds(labels, more)
                up = combined(other - under, high - self.value, 0.0)
                down = combined(above - other, self.value - low, 0.0)
                found.append(reach * (up if other > self.value else down) <= difference)
        return bool(found) and all(found)

    def _uneven(self, place: int, chances: tuple[float, float], share: float) -> float:
        """Return the factor by which probabilities of drawing, by kind, change the variance of sampling."""
        if self.kinds is None or chances[0] == chances[1]:
            return 1.0
        pairs = [(kind.turns * kind[place], chance) for kind, chance in zip(self.kinds, chances, strict=True)]
        whole = sum(variance for variance, _ in pairs)
        return share * sum(variance / chance for variance, chance in pairs) / whole if whole else 1.0

    def needed(self, holds: Holds, more: float = 1.0) -> int | None:
        """Return the fewest labels that ``holds`` is true of, None where all turns are too few."""
        whole = sum(self.whole)
        found = 2 + bisect_left(range(2, whole + 1), 1, key=lambda labels: int(holds(self, labels, more)))
        return found if found <= whole else None


def rate_plan(run: JoinedRun, name: str) -> RatePlan | None:
    """Return the plan of a rate, None where too few turns carry it.

    Without labels it assumes that the raw rate is right and that the detectors add nothing to the labels.
    """
    turns = [(turn.flagged, turn.readings[name]) for turn in run.turns if name in turn.readings]
    by_dialog: defaultdict[str, list[Reading]] = defaultdict(list)
    for _, each in turns:
        by_dialog[each.dialog].append(each)
    if len(by_dialog) < 2:  # noqa: PLR2004 - as above
        return None
    total = math.fsum(each.size for _, each in turns)
    raw = math.fsum(each.detected for _, each in turns) / total
    sums = [
        (math.fsum(r.detected for r in group), math.fsum(r.size for r in group))
        for group in by_dialog.values()
    ]
    own = math.fsum((each.detected - raw * each.size) ** 2 for _, each in turns)
    alike = math.fsum((hits - raw * size) ** 2 for hits, size in sums) / own if own else 1.0
    flagged = sum(flag for flag, _ in turns)
    all_flagged = sum(turn.flagged for turn in run.turns)
    plan = RatePlan(
        value=raw,
        interval=ratio_interval(sums) or (0.0, 1.0),
        pilot=0,
        gain=0.0,
        spread=1.0,
        alike=max(1.0, alike),
        sizes=(math.fsum(size * size for _, size in sums), math.fsum(each.size**2 for _, each in turns)),
        total=total,
        dialogs=Counter(map(len, by_dialog.values())),
        kinds=None,
        turns=(len(turns) - flagged, flagged),
        whole=(len(run.turns) - all_flagged, all_flagged),
    )
    found = corrected_rate(each for _, each in turns)
    return plan if found is None else _with_pilot(plan, turns, found)


def _with_pilot(plan: RatePlan, turns: Sequence[tuple[bool, Reading]], found: CorrectedValue) -> RatePlan:
    """Return the plan with the variances that the labelled turns show."""
    alone = found.alone
    read = [(flag, each, each.label) for flag, each in turns if each.label is not None]
    weights = [1 / each.probability for _, each, _ in read]
    total = math.fsum(w * each.size for w, (_, each, _) in zip(weights, read, strict=True))
    seen = math.fsum(w * each.detected for w, (_, each, _) in zip(weights, read, strict=True)) / total
    labels = [label - alone * each.size for _, each, label in read]
    detected = [each.detected - seen * each.size for _, each, _ in read]

    def mean(left: Sequence[float], right: Sequence[float]) -> float:
        products = (w * a * b for w, a, b in zip(weights, left, right, strict=True))
        return math.fsum(products) / math.fsum(weights)

    spread, of_detector, both = mean(labels, labels), mean(detected, detected), mean(labels, detected)
    weight = min(1.0, max(0.0, both / of_detector)) if of_detector else 0.0
    independent = alone * (1 - alone) * plan.total / sum(plan.turns)
    kinds = []
    for flag in (False, True):
        places = [place for place, (flagged, _, _) in enumerate(read) if flagged == flag]
        if len(places) >= MIN_FLAGGED:
            count = math.fsum(weights[place] for place in places)
            errors = (
                math.fsum(weights[p] * (labels[p] - part * detected[p]) ** 2 for p in places) / count
                for part in (0.0, weight)
            )
            kinds.append(Kind(plan.turns[flag], *errors))
    gain = (2 * weight * both - weight * weight * of_detector) / spread if spread else 0.0
    # Errors of the detectors hide how alike the turns of a dialogue are.
    alike = 1 + (plan.alike - 1) / max(gain, _MIN_GAIN)
    return plan._replace(
        value=found.value,
        interval=found.ci95,
        pilot=len(read),
        gain=gain,
        alike=min(alike, plan.sizes[0] / plan.sizes[1]),
        spread=spread / independent if independent else 1.0,
        kinds=(kinds[0], kinds[1]) if len(kinds) == 2 else None,  # noqa: PLR2004 - both kinds
    )
