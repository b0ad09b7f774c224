"""Pairs of the same dialogue or question in two runs, and what they say together."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from memfin.contracts.run import ChangedCase, Outcome, PairedValue
from memfin.metrics.interval import paired_difference

Clusters = Mapping[str, tuple[float, float]]
"""Numerator and denominator of a value by dialogue or question."""

MOST_CHANGED: Final = 20


class Measured(NamedTuple):
    """A value of one run: its cases, its range, and which direction is good."""

    cases: Clusters
    low: float = 0.0
    high: float = 1.0
    higher_is_better: bool = True


def paired_value(a: Measured, b: Measured) -> PairedValue:
    """Compare a value over the cases that carry it in both runs."""
    pairs = [(a.cases[case], b.cases[case]) for case in sorted(a.cases.keys() & b.cases.keys())]
    difference, bounds = paired_difference(pairs, a.low, a.high)
    return PairedValue(
        a=_value(first for first, _ in pairs),
        b=_value(second for _, second in pairs),
        difference=difference,
        ci95=bounds,
        verdict=_verdict(bounds, higher_is_better=a.higher_is_better),
        pairs=len(pairs),
        higher_is_better=a.higher_is_better,
    )


def changed_cases(name: str, a: Measured, b: Measured) -> list[ChangedCase]:
    """Return the cases in which a value is not the same in both runs; ``change`` above 0 is good."""
    sign = 1 if a.higher_is_better else -1
    found = []
    for case in a.cases.keys() & b.cases.keys():
        before, after = (hits / of for hits, of in (a.cases[case], b.cases[case]))
        if before != after:
            found.append(ChangedCase(id=case, value=name, a=before, b=after, change=sign * (after - before)))
    return found


def most_changed(found: Iterable[ChangedCase]) -> list[ChangedCase]:
    """Return the cases that changed most, the worst first, then those that are better, by how much."""
    ordered = sorted(found, key=lambda case: (-abs(case.change), case.id, case.value))[:MOST_CHANGED]
    return sorted(ordered, key=lambda case: (case.change, case.id, case.value))


def _value(clusters: Iterable[tuple[float, float]]) -> float:
    kept = list(clusters)
    total = sum(of for _, of in kept)
    return sum(hits for hits, _ in kept) / total if total else 0.0


def _verdict(bounds: tuple[float, float] | None, *, higher_is_better: bool) -> Outcome:
    if bounds is None:
        return "unknown"
    low, high = bounds
    if low <= 0 <= high:
        return "no_difference"
    return "better" if (low > 0) == higher_is_better else "worse"
