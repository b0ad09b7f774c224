"""Holdings above a limit that the reply leaves as they are.

Every function returns the half-open span (in ``Analysis.norm``) of the advice, or None.
"""

import re
from collections.abc import Sequence
from typing import Final

from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.constraints.instruments import company
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.weight import Weight

Span = tuple[int, int]

_LEFT_AS_IT_IS: Final = late(
    r"(?:维持|保持)(?:现状|不变|不动|原样|这个比例|现有|目前)|(?:可以|先|暂时|就)(?:不动|不用动|不用减|"
    r"不减|放着)|(?:不用|不必|没必要|无需)(?:减|调|动|降)|"
    r"继续(?:拿|持有)|\b(?:keep|leave|hold) (?:it|that|them|the (?:mix|split|allocation)|"
    r"everything)\b[^.;!?\n]{0,16}\b(?:as|unchanged|alone|"
    r"there)\b|\bno need to (?:trim|cut|reduce|change|rebalance)\b"
)
_CUT: Final = late(r"减(?!持新规)|降|卖|换成|\b(?:trim|sell|offload|unload|cut|reduce|lower)\b")
_REACH: Final = 80
_WIDE_REACH: Final = 160


def unchanged(analysis: Analysis, held: Sequence[Weight], limit: float) -> Span | None:
    """Return where the reply leaves what the client holds of a class above the cap as it is."""
    norm = analysis.norm
    if not held or sum(weight.low for weight in held if weight.group == held[0].group) <= limit:
        return None
    end = held[-1].end
    reach = _WIDE_REACH if norm[:2].isascii() else _REACH
    left = _LEFT_AS_IT_IS.search(norm, end, end + reach)
    if left is None or _CUT.search(norm, end, left.start()) or disowned(analysis, *left.span()):
        return None
    return left.span()


_HELD_NOW: Final = late(
    r"现有|目前|已有|已|(?:涨|升)到(?:了)?(?:组合|账户|总资产)?的?$|你(?:自己)?的|持有|持仓|占|"
    r"\b(?:has (?:grown|risen|swollen|drifted|"
    r"climbed) (?:up )?to|"
    r"makes? up|you (?:\w+ )?(?:hold|have|own)|currently|your|"
    r"already|i\.e\.)"
)
_LEFT_ALONE: Final = late(
    r"(?:维持|保持)(?:现状|不变|不动|原样|现有|目前)|(?:可以|先|暂时|就)(?:不动|不用动|不用减|不用卖|"
    r"不减|不卖|放着)|(?:不用|不必|没必要|无需)"
    r"(?:减|卖|调|动|降|分散)|继续(?:拿|持有|抱)着?|(?:接着|一直)(?:拿|持)|"
    r"\b(?:keep|leave|hold)(?: on to)? (?:the|this|that|your|it|them)\b[^.;!?\n]{0,20}\b(?:as (?:it|"
    r"they) (?:is|are)|unchanged|alone|where "
    r"(?:it(?:'s| is)|they are)|there\b|position|stake|untouched)\b|\bno need to (?:trim|sell|offload|"
    r"unload|cut|reduce|"
    r"diversify)\b|"
    r"\bhold on to (?:it|them)\b|\blet it (?:run|ride)\b"
)
_LESSENED: Final = late(
    r"减(?!少了)|降|卖|分散|腾|超|上限|\b(?:trim|sell|offload|unload|cut|reduce|lower|diversify|(?:above|"
    r"over) your)\b"
)
_MAKES_UP: Final = late(r"\bmakes? up $|占(?:了|到)?$")
_SINGLE_REACH: Final = 320
_BEFORE: Final = 60


def kept_above(reading: Reading, label: re.Pattern[str], cap: float) -> Span | None:
    """Return what the client holds above the cap, where the reply wants it left as it is."""
    analysis = reading.analysis
    norm = analysis.norm
    candidates = set(reading.candidates)
    for share in reading.shares:
        if not cap < share.low <= 1:
            continue
        if share not in candidates and not _MAKES_UP.search(norm, max(0, share.start - 12), share.start):
            continue
        low, high = analysis.sentence_span(share.start)
        first = max(0, share.start - _BEFORE)
        if not _HELD_NOW.search(norm, first, share.start):
            continue
        if not (label.search(norm, first, high) or company().search(norm, first, share.start)):
            continue
        reach = _SINGLE_REACH if norm[low : low + 2].isascii() else _SINGLE_REACH // 4
        left = _LEFT_ALONE.search(norm, share.end, share.end + reach)
        if left is None or disowned(analysis, *left.span()) or disowned(analysis, share.start, share.end):
            continue
        if _LESSENED.search(norm, share.end, left.start()) is None and not rejected(
            analysis, share.start, share.end
        ):
            return left.span()
    return None
