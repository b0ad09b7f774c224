"""Whether a figure in a constraint is the most or the least that is allowed.

A comparison and what becomes of it decide together: ``above 60% is off the table`` and 严禁超过60% are upper
bounds, ``under 15% is not for me`` and 不低于15% lower ones.
"""

from typing import Final

from memfin.scoring.numbers.quantities import Bound, Quantity, bound
from memfin.scoring.patterns.expressions import late

_REACH: Final = 36
_BEHIND: Final = 12

_MORE: Final = late(
    r"(?:超过?|高于|多于|突破|\b(?:over|above|more than|exceed(?:s|ed|ing)?|beyond|past|(?:bigger|"
    r"larger|greater|higher) "
    r"than))[^,;\d]{0,14}$"
)
_LESS: Final = late(
    r"(?:低于|少于|小于|不足|不到|跌破|\b(?:under|below|less than|(?:smaller|lower) than|"
    r"short of))[^,;\d]{0,14}$"
)
_MOST: Final = late(r"(?:最多|至多|顶多|最高|\b(?:at most|max(?:imum)?|no more than|up to))[^,;\d]{0,8}$")
_LEAST: Final = late(r"(?:至少|最少|起码|\b(?:at least|minimum|no less than|not less than))[^,;\d]{0,8}$")
_MORE_BEHIND: Final = late(r" ?(?:以上|or more|and (?:above|more|over))")
_LESS_BEHIND: Final = late(r" ?(?:以下|or less|and (?:below|under|less))")
_REJECTED: Final = late(
    r"不(?!足|到)|别|勿|严禁|禁止?|拒绝|绝无|太[高多大]|过[高多]|\b(?:not|never|no|none|nothing|neither|"
    r"cannot|prohibited|forbidden|"
    r"off the table|unacceptable|too (?:much|high|many)|avoid|without)\b|n't\b"
)
_MENDED: Final = late(
    r"\b(?:trim|cut|sell|scale|reduce|bring|top|refill|restore|replenish|rebalance)\b|减[仓到回]|"
    r"补[足回齐到]|降回|调回"
)
"""What is done when the bound is passed."""


def limit_of(norm: str, quantity: Quantity) -> Bound:
    """Say whether a constraint's quantity is its upper bound, its lower bound, or neither can be told."""
    before = norm[max(0, quantity.start - _REACH) : quantity.start]
    behind = norm[quantity.end : quantity.end + _BEHIND]
    if _MOST.search(before) or _LEAST.search(before):
        return "at_most" if _MOST.search(before) else "at_least"
    more, less = _MORE.search(before), _LESS.search(before)
    above = more is not None or _MORE_BEHIND.match(behind) is not None
    below = less is not None or _LESS_BEHIND.match(behind) is not None
    if above == below:
        return bound(norm, quantity)
    rejected = _REJECTED.search(clause_of(norm, quantity)) or _MENDED.search(norm, quantity.end)
    return "at_most" if above == (rejected is not None) else "at_least"


def clause_of(norm: str, quantity: Quantity) -> str:
    """Return the clause of a constraint that holds the quantity."""
    return clause_at(norm, quantity.start, quantity.end)


def clause_at(norm: str, low: int, high: int) -> str:
    """Return the clause of a constraint around a span of it."""
    start = max(norm.rfind(mark, 0, low) for mark in ",;:") + 1
    ends = [end for mark in ",;" if (end := norm.find(mark, high)) >= 0]
    return norm[start : min(ends, default=len(norm))]
