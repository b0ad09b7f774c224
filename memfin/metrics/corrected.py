"""Rates corrected by labels of a random part of the turns: prediction-powered inference.

A detector reads every turn and is sometimes wrong; people read a few turns, drawn with known probabilities.
The corrected rate is the detector's own, times a weight, plus what the labels say of its errors (Angelopoulos
et al. 2023, "Prediction-powered inference"); the weight of least variance is that of PPI++ (Angelopoulos,
Duchi and Zrnic 2023). The dialogue is the sampling unit, as in `memfin.metrics.interval`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from memfin.contracts import CorrectedValue
from memfin.contracts.run import CorrectedDifference
from memfin.metrics.interval import (
    PRIOR_EVENTS,
    combined,
    correlation,
    design_effect,
    student_t_quantile,
    wilson_bounds,
)

RATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "m1_context_continuity.contradiction_rate": "contradiction",
        "m3_risk_coverage.risk_coverage": "risk_tags",
        "m3_risk_coverage.strict_risk_coverage_rate": "risk_tags",
        "m4_compliance.compliance_label_acc": "compliance",
        "m4_compliance.severe_violation_rate": "compliance",
        "m4_compliance.forbidden_hit_rate": "forbidden_hits",
        "m5_explainability.rubric_hit_rate": "rubric",
    }
)
"""The rates of a run that labels correct, each with the field of a label that speaks of it."""

PRIOR_GAIN: Final = 1
"""Events that the absence of any gain over labels alone weighs as much as; with fewer, coverage falls."""


class Reading(NamedTuple):
    """A turn that carries a rate, as the detector read it and perhaps a person.

    Attributes:
        dialog: the dialogue, which is the sampling unit.
        detected: what the detector adds to the numerator, between 0 and ``size``.
        label: what a person's label adds to it; None where nobody read the turn.
        size: what the turn adds to the denominator, above 0.
        probability: the probability with which the turn was drawn for labelling; up to a factor, above 0.
    """

    dialog: str
    detected: float
    label: float | None = None
    size: float = 1.0
    probability: float = 1.0


def corrected_rate(readings: Iterable[Reading], *, weight: float | None = None) -> CorrectedValue | None:
    """Return the corrected rate of a run's turns, or None with labels in fewer than two dialogues.

    Its interval has at least the effective trials of the labels alone. ``weight`` replaces the weight of
    least variance. Time and memory are linear in the turns.
    """
    found = _estimate(readings, weight)
    return None if found is None else found.rate


class _Estimate(NamedTuple):
    """A corrected rate, what each dialogue adds to its error, and the events that it rests on."""

    rate: CorrectedValue
    errors: Mapping[str, float]
    events: float


def corrected_difference(a: Iterable[Reading], b: Iterable[Reading]) -> CorrectedDifference | None:
    """Return the difference b - a of two runs' corrected rates, or None where one of them has none.

    The interval combines those of the rates (Zou and Donner 2008) with the correlation of their errors by
    dialogue: runs without a dialogue in common are independent. With few events it is shrunk towards 0.
    """
    first, second = _estimate(a), _estimate(b)
    if first is None or second is None:
        return None
    errors = [(error, second.errors.get(dialog, 0.0)) for dialog, error in first.errors.items()]
    errors += [(0.0, error) for dialog, error in second.errors.items() if dialog not in first.errors]
    events = min(first.events, second.events)
    together = correlation(errors) * events / (events + PRIOR_EVENTS)
    (low_a, high_a), (low_b, high_b) = first.rate.ci95, second.rate.ci95
    value_a, value_b = first.rate.value, second.rate.value
    difference = value_b - value_a
    below = combined(value_b - low_b, high_a - value_a, together)
    above = combined(high_b - value_b, value_a - low_a, together)
    bounds = max(-1.0, difference - below), min(1.0, difference + above)
    return CorrectedDifference(a=first.rate, b=second.rate, difference=difference, ci95=bounds)


def _estimate(readings: Iterable[Reading], weight: float | None = None) -> _Estimate | None:
    turns = [each for each in readings if each.size > 0]
    labelled = [(each, each.label) for each in turns if each.label is not None]
    if len({each.dialog for each, _ in labelled}) < 2:  # noqa: PLR2004 - no spread without a second dialogue
        return None
    # 1. Means over all turns, and over the labelled ones weighted by the inverse of their probability.
    total = math.fsum(each.size for each in turns)
    raw = math.fsum(each.detected for each in turns) / total
    read = math.fsum(each.size for each, _ in labelled)
    scale = read / math.fsum(each.size / each.probability for each, _ in labelled)
    shares = [scale / (each.probability * read) for each, _ in labelled]
    alone = math.fsum(w * label for w, (_, label) in zip(shares, labelled, strict=True))
    seen = math.fsum(w * each.detected for w, (each, _) in zip(shares, labelled, strict=True))
    # 2. What each dialogue adds to the error of the labels' mean, and to that of the detector's difference.
    of_labels: defaultdict[str, float] = defaultdict(float)
    of_detector: defaultdict[str, float] = defaultdict(float)
    sizes: defaultdict[str, float] = defaultdict(float)
    for each in turns:
        of_detector[each.dialog] += (each.detected - raw * each.size) / total
    for w, (each, label) in zip(shares, labelled, strict=True):
        of_labels[each.dialog] += w * (label - alone * each.size)
        of_detector[each.dialog] -= w * (each.detected - seen * each.size)
        sizes[each.dialog] += w * each.size * read
    if weight is None:
        weight = _best_weight(of_labels, of_detector)
    value = min(1.0, max(0.0, alone + weight * (raw - seen)))
    # 3. The interval of labels alone, and the same with more trials where the detector takes error away.
    variance_alone = math.fsum(each * each for each in of_labels.values())
    errors = {key: of_labels[key] + weight * error for key, error in of_detector.items()}
    variance = math.fsum(error * error for error in errors.values())
    hits = alone * read
    effect, events = design_effect(
        len(sizes),
        hits,
        read,
        variance_alone * read * read,
        math.fsum(each * each for each in sizes.values()),
        PRIOR_EVENTS,
    )
    left = variance / variance_alone if variance_alone else 1.0
    left = min(1.0, (events * left + PRIOR_GAIN) / (events + PRIOR_GAIN))
    quantile = student_t_quantile(len(sizes) - 1)
    rate = CorrectedValue(
        value=value,
        ci95=wilson_bounds(value, read / effect / left, quantile),
        labels=len(labelled),
        weight=weight,
        raw=raw,
        alone=alone,
        alone_ci95=wilson_bounds(alone, read / effect, quantile),
    )
    return _Estimate(rate, errors, events)


def _best_weight(of_labels: defaultdict[str, float], of_detector: defaultdict[str, float]) -> float:
    """Return the weight from 0 to 1 that minimizes the variance of the sum over dialogues."""
    spread = math.fsum(error * error for error in of_detector.values())
    if not spread:
        return 0.0
    together = math.fsum(error * of_detector[key] for key, error in of_labels.items())
    return min(1.0, max(0.0, -together / spread))
