"""What ``memfin compare --json`` prints: the values of two runs of the same suite, pair by pair."""

from typing import Literal

from memfin.contracts.base import Count, Finite, Record

Verdict = Literal["better", "worse", "no_difference", "unknown"]
"""``better`` and ``worse`` only where the interval leaves 0 out; ``unknown`` where there is no interval."""


class PairedValue(Record):
    """A value in two runs, over the dialogues or questions that carry it in both.

    ``a`` and ``b`` are the values over those ``pairs`` alone, so they may differ from the summaries'.
    ``difference`` is b - a, ``ci95`` its 95 % confidence interval, None below two pairs. ``higher_is_better``
    tells which direction is good.
    """

    a: Finite
    b: Finite
    difference: Finite
    verdict: Verdict
    pairs: Count
    ci95: tuple[Finite, Finite] | None = None
    higher_is_better: bool = True


class ChangedCase(Record):
    """A dialogue, or a question, whose value changed; ``change`` above 0 says by how much b is better."""

    id: str
    value: str
    a: Finite
    b: Finite
    change: Finite


class Comparison(Record):
    """Two runs compared, ``b`` against ``a``.

    ``pairs`` counts the dialogues or questions in both runs; ``only_a`` and ``only_b`` those in one, which
    are left out. ``inputs_changed`` names what the two runs did not share besides what was to be compared.
    ``values`` holds every value by ``metric.value``; ``changed`` the cases that changed most, worst first.
    """

    a: str
    b: str
    suite: Literal["dialogues", "rag"]
    pairs: Count
    only_a: Count
    only_b: Count
    inputs_changed: list[str]
    values: dict[str, PairedValue]
    changed: list[ChangedCase] = []
