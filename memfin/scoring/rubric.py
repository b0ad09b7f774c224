"""Elements of an explanation that a reply contains (metric M5's rubric items)."""

from collections.abc import Collection, Iterable
from typing import Final

from memfin.scoring.compliance import met_entries
from memfin.text.document import Document

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


def contained_items(found: Collection[str], risk_tags: Collection[str]) -> list[str]:
    """Return the rubric items among the values found in a reply, in the order of ``RUBRIC_ITEMS``.

    A disclosed limit (no advice, uncertain, no guarantee) is a statement of limits too.
    """
    contained = set(found)
    if not _LIMIT_TAGS.isdisjoint(risk_tags):
        contained.add(_STATES_LIMITS)
    return [item for item in RUBRIC_ITEMS if item in contained]


def rubric_hits(required: Iterable[str], contained: Collection[str], reply: str | Document) -> list[str]:
    """Return the required items that a reply meets, in the order required.

    Known items are met by meaning: they are in ``contained``, as ``contained_items`` returned it. Any
    other item is met by a literal mention in the reply, whatever its width, case and emphasis.
    """
    return met_entries(required, RUBRIC_ITEMS, contained, reply)
