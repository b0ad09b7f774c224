"""Elements of an explanation that a reply contains (metric M5's rubric items)."""

from collections.abc import Collection, Iterable
from typing import Final

from memfin.scoring.lexicons.scanner import Match
from memfin.scoring.text.language import analyze

FIELD: Final = "rubric"

RUBRIC_ITEMS: Final = ("信息依据", "风险收益平衡", "与画像匹配", "方案比较维度", "可执行步骤", "边界声明")

_LIMIT_TAGS: Final = frozenset(
    (
        "no_guaranteed_return",
        "market_uncertainty",
        "not_buy_sell_advice",
        "not_investment_advice",
        "past_performance_not_future",
        "not_tax_advice",
    )
)
_STATES_LIMITS: Final = "边界声明"
_HOPE: Final = "所求的收益"
_RISK_TAGS: Final = frozenset(
    (
        "volatility_risk",
        "no_guaranteed_return",
        "credit_risk",
        "liquidity_risk",
        "interest_rate_risk",
        "fx_risk",
        "valuation_risk",
    )
)
_WEIGHS: Final = "风险收益平衡"
_NEAR: Final = 400
"""Characters within which a hope and a risk are weighed against each other; beyond, they are apart."""


def values_besides(items: Collection[str]) -> frozenset[str]:
    """Return the lexicon's values that tell nothing about any of the given rubric items."""
    told = {*items, _HOPE} if _WEIGHS in items else set(items)
    return frozenset((*RUBRIC_ITEMS, _HOPE)) - told


def contained_items(matches: Iterable[Match], risk_tags: Collection[str]) -> list[str]:
    """Return the rubric items a reply contains, in the order of ``RUBRIC_ITEMS``.

    A disclosed limit (no advice, uncertain, no guarantee) is a statement of limits. A reply weighs risk
    against return when one sentence does, or when it names what is hoped for and close by discloses a risk.
    """
    named = list(matches)
    found = {match.rule.value for match in named if match.rule.field == FIELD}
    found.update(match.rule.value for match in implied(named))
    if not _LIMIT_TAGS.isdisjoint(risk_tags):
        found.add(_STATES_LIMITS)
    return [item for item in RUBRIC_ITEMS if item in found]


def implied(matches: Iterable[Match]) -> list[Match]:
    """Return what weighs risk against return without one sentence that does: a hope, and a risk close to it.

    The words are those of both; the rules are the ones that found them.
    """
    named = list(matches)
    if any(match.rule.field == FIELD and match.rule.value == _WEIGHS for match in named):
        return []
    for hope in named:
        if hope.rule.field == FIELD and hope.rule.value == _HOPE:
            risks = [match for match in named if match.rule.value in _RISK_TAGS and _close(match, hope)]
            if risks:
                return [_weighing(hope), _weighing(min(risks, key=_start))]
    return []


def _weighing(match: Match) -> Match:
    return match._replace(rule=match.rule._replace(field=FIELD, value=_WEIGHS))


def _start(match: Match) -> int:
    return match.start


def _close(first: Match, second: Match) -> bool:
    return first.start - second.end <= _NEAR and second.start - first.end <= _NEAR


def rubric_hits(required: Iterable[str], contained: Collection[str], text: str) -> list[str]:
    """Return the required items that a reply meets, in the order required.

    Known items are met by meaning: they are in ``contained``, as ``contained_items`` returned it. Any
    other item is met by a literal mention in ``text``, whatever its width, case and blanks.
    """
    plain = analyze(text).plain
    return [
        item
        for item in required
        if (
            item in contained
            if item in RUBRIC_ITEMS
            else bool(key := analyze(item).plain.strip()) and key in plain
        )
    ]
