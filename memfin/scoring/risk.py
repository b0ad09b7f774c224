"""Risk tags: their names, and those that a reply discloses (trace schema section 3.3)."""

import re
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from memfin.contracts.reading import shown
from memfin.errors import UsageError
from memfin.sandbox.references import one_line
from memfin.scoring.lexicon import read_table
from memfin.text.normalize import normalize

FIELD: Final = "risk_tag"

CANONICAL_TAGS: Final = (
    "volatility_risk",
    "no_guaranteed_return",
    "market_uncertainty",
    "suitability_match",
    "not_buy_sell_advice",
    "not_investment_advice",
    "credit_risk",
    "liquidity_risk",
    "interest_rate_risk",
    "past_performance_not_future",
    "risk_disclosure_present",
)
"""The seed's set. ``risk_disclosure_present`` is only ever required: any predicted tag meets it."""

EXTENSION_TAGS: Final = (
    "policy_risk",
    "fx_risk",
    "inflation_risk",
    "valuation_risk",
    "technology_risk",
    "cost_risk",
    "reinvestment_risk",
    "compliance_risk",
    "not_tax_advice",
)

DETECTED_TAGS: Final = frozenset((*CANONICAL_TAGS, *EXTENSION_TAGS)) - {"risk_disclosure_present"}
"""The tags that detectors find."""

_SEPARATORS: Final = re.compile(r"[\s_\-/.。,]+")


class TagNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lexicon ``tag_names.toml``: known names and free wordings by tag."""

    names: dict[str, list[str]]
    patterns: dict[str, str]


def canonical_risk_tag(name: str) -> str | None:
    """Return the canonical or extension tag that a required risk tag means, None for an unknown one.

    Chinese names, English ids and common variants are known, whatever their width, case and
    separators (trace schema section 3.3).
    """
    key = _SEPARATORS.sub("", normalize(name))
    exact, patterns = _tag_index()
    if (tag := exact.get(key)) is not None:
        return tag
    spaced = " ".join(_SEPARATORS.split(normalize(name)))
    return next((tag for tag, pattern in patterns if pattern.search(spaced)), None)


@cache
def _tag_index() -> tuple[dict[str, str], tuple[tuple[str, re.Pattern[str]], ...]]:
    table = read_table("tag_names", TagNames)
    exact = {_SEPARATORS.sub("", tag): tag for tag in (*CANONICAL_TAGS, *EXTENSION_TAGS)}
    for tag, names in table.names.items():
        exact.update((_SEPARATORS.sub("", normalize(name)), tag) for name in names)
    return exact, tuple((tag, re.compile(pattern)) for tag, pattern in table.patterns.items())


def read_tag_map(path: str | None) -> dict[str, str]:
    """Return the canonical risk tags of a file by the dataset's names for them; none without a path.

    Raises:
        UsageError: the file cannot be read, has another form, or names an unknown tag.
    """
    if path is None:
        return {}
    try:
        decode = msgspec.json.decode if path.endswith(".json") else msgspec.toml.decode
        mapping = decode(Path(path).read_bytes(), type=dict[str, str])
    except OSError as problem:
        raise UsageError(f"--tag-map {path}: {problem.strerror or problem}") from None
    except (msgspec.DecodeError, ValueError) as problem:
        advice = 'expected "name" = "canonical tag", in TOML or in a .json file as one object'
        raise UsageError(f"--tag-map {path}: {one_line(str(problem))}; {advice}") from None
    known = (*CANONICAL_TAGS, *EXTENSION_TAGS)
    for name, tag in mapping.items():
        if tag not in known:
            raise UsageError(
                f"--tag-map {path}: {shown(name)} = {shown(tag)} is no risk tag; known: {', '.join(known)}"
            )
    return mapping
