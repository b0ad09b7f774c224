"""Whether what falls short of a rating is the larger part of the bonds that a reply proposes."""

import re
from itertools import pairwise
from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.weight import Weight

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_NEAR: Final = 12
_NEAR_ENGLISH: Final = 40
_HALF: Final = 0.5
_WHOLE: Final = 0.97
_MAINLY: Final = late(r"为主|主仓|大部分|全部|mostly|mainly|bulk")
_GOOD: Final = late(
    r"国债|国开|利率债|政金|政策性金融债|地方债|央票|(?<!a)aa[a+]|高等级|高评级|\b(?:treasur\w+|gilts?|"
    r"governments?|sovereigns?|policy bank|high[- ]grade|top[- ]rated|investment[- ]grade|agency)\b"
)
_BOND: Final = late(
    r"债|城投|票据|中票|短融|\b(?:bonds?|treasur\w+|gilts?|governments?|sovereigns?|corporates?|credits?|"
    r"debt|notes|high[- ]yield|junk|[abc]{1,3}[+-]?[- ]rated)\b"
)
_OTHER_ASSET: Final = late(
    r"股(?!份)|现金|存款|黄金|货币|\b(?:equit\w+|stocks?|shares|cash|gold|index funds?)\b"
)
_BULK_BEFORE: Final = late(
    r"(?:大头|一?大半|多半|过半|超过一半|绝大部分|大多数|主要|重点|主力|核心)[^,。;:!?\n不没]{0,10}$|"
    r"\b(?:most|the bulk|the majority|nearly all|almost all|all|the lion's share|two thirds|"
    r"three quarters) of (?:the |your |my )(?:bonds?|fixed[- ]income|credit|debt)\b[^.,;:!?\n]{0,40}$|"
    r"\b(?:entire|whole) (?:bond|fixed[- ]income|credit)\b[^.,;:!?\n]{0,60}$|"
    r"\b(?:use|hold|buy|own|purchase) (?:only|nothing but|just)\b[^.,;:!?\n]{0,20}$"
)
_BULK_BEHIND: Final = late(
    r"[^,。;:!?\n不]{0,14}?(?:为(?:主|核心|重点|主力)|(?:作为|当作?|做)[^,。;:!?\n]{0,6}?(?:核心|主力|"
    r"主仓|底仓|大头)|占(?:到|据|了)?[^,。;:!?\n\d]{0,8}?(?:[六七八九]成|大头|大半|多数|[6-9]\d%))|"
    r"[^.,;:!?\n]{0,40} (?:the|as your|as the|your) (?:core|backbone|mainstay|bulk|heart|main part)\b|"
    r" dominate\b"
)
_MAIN_WAY: Final = late(r"主要|重点|主打|全部|为(?:债券|固收|组合|主|核心)")
_SOLD_FOR_IT: Final = late(
    r"(?:国债|国开债?|利率债|政金债)(?:基金|etf)?(?:全|都)部?(?:给)?(?:卖|换|赎|清)[^。;!?\n]{0,16}$"
)
"""The safe bonds go altogether, and what stands behind comes in for them."""


def is_main(reading: Reading, span: Span, lesser: dict[int, float]) -> bool:
    """Say whether the holding at the span, with the ``lesser`` ones so far, is the larger part."""
    analysis = reading.analysis
    norm = analysis.norm
    low, high = analysis.sentence_span(span[0])
    if norm.startswith("than ", span[0] - 5):
        return False
    own = _own_weight(reading, span)
    if own is not None:
        lesser[own.start] = own.high
        return sum(lesser.values()) > _HALF * _all_bonds(reading, own) or _little_good(reading, low, high)
    before = _BULK_BEFORE.search(norm, low, span[0])
    if before is not None and _GOOD.search(norm, before.start(), span[0]) is None:
        return True
    if (
        _MAIN_WAY.search(norm, *span)
        or _BULK_BEHIND.match(norm, span[1], high)
        or _SOLD_FOR_IT.search(norm, low, span[0])
    ):
        return True
    return _MAINLY.search(norm, low, high) is not None


def _own_weight(reading: Reading, span: Span) -> Weight | None:
    """Return the weight of what stands at the span: of its row, or the nearest one of its words."""
    analysis = reading.analysis
    norm = analysis.norm
    low, high = analysis.sentence_span(span[0])
    row = analysis.line_kind(span[0]) == "row"
    near = _NEAR_ENGLISH if norm[span[0]].isascii() and norm[span[0] - 2 : span[0]].isascii() else _NEAR
    found = []
    for weight in reading.weights:
        if not low <= weight.start < high:
            continue
        distance = max(weight.start - span[1], span[0] - weight.end)
        gap = norm[min(span[1], weight.end) : max(span[0], weight.start)]
        parted = not row and re.search(r"[,;:]| and ", gap) is not None
        if row or distance <= (_NEAR if parted else near):
            found.append((distance + near * parted, weight.start, weight))
    return min(found)[2] if found else None


def _all_bonds(reading: Reading, own: Weight) -> float:
    """Return the share of all bonds in the table or list of a weight, one where it is not told."""
    analysis = reading.analysis
    if analysis.line_kind(own.start) not in ("row", "item"):
        return 1.0
    bonds = [
        weight.high
        for weight in reading.weights
        if weight.group == own.group
        and weight.role == "target"
        and analysis.line_kind(weight.start) == analysis.line_kind(own.start)
        and _BOND.search(analysis.norm, *analysis.sentence_span(weight.start))
    ]
    return min(sum(bonds), 1.0) if len(bonds) > 1 else 1.0


def _little_good(reading: Reading, low: int, high: int) -> bool:
    """Say whether a sentence divides the bonds up and gives less than half to the good ones."""
    analysis = reading.analysis
    norm = analysis.norm
    shares = [each for each in reading.weights if low <= each.start < high and each.role == "target"]
    if not shares or not _WHOLE <= sum(each.high for each in shares) <= 2 - _WHOLE:
        return False
    clauses = [analysis.clause_span(each.start, each.end) for each in shares]
    if any(one == other for one, other in pairwise(clauses)):
        return False
    if any(_BOND.search(norm, *each) is None or _OTHER_ASSET.search(norm, *each) for each in clauses):
        return False
    good = sum(share.high for share, each in zip(shares, clauses, strict=True) if _GOOD.search(norm, *each))
    return good < _HALF
