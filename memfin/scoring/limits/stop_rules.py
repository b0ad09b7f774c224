"""Losses told by where they begin and end, and rules that sell everything at a loss.

Spans count in ``Analysis.norm``.
"""

from typing import Final

from memfin.scoring.limits.borne_losses import (
    FORGIVEN,
    ONE_HOLDING,
    PAST,
)
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

_LEVEL_SIGN: Final = late(r"到(?<=[跌落水掉亏赔低滑撤]到)")
_FALL_TO: Final = late(
    r"(?:从|由)(?:最高|高点)?的?(?P<high>\d+(?:\.\d+)?)[元万]*(?:左右)?[^,。;\d]{0,4}(?:跌|回落|走低|下滑|"
    r"掉|缩水?|"
    r"降|亏)到(?P<low>\d+(?:\.\d+)?)(?!%|成|\d)|"
    r"(?P<high2>\d+(?:\.\d+)?)万(?:元)?(?:的盘子|的?本金|的?账户|的?组合|的?资金|,)[^。;!?\n]{0,10}(?:跌|"
    r"缩水|亏|赔|回落|走低|下滑)到(?P<low2>\d+(?:\.\d+)?)万|"
    r"\b(?:fall|slip|sink|decline|drop|slide|go|dip|"
    r"shrink)\w* from [$£€]?(?P<high3>\d[\d,]*(?:\.\d+)?)k? to [$£€]?(?P<low3>\d[\d,]*(?:\.\d+)?)(?!%)"
)


_STOP_AT: Final = late(
    r"(?:止损|预警|警戒|平仓|"
    r"清仓)[线位点]?[^,。;!?\n\d]{0,10}净值[^,。;!?\n\d]{0,3}(?P<value>0\.\d{1,2})(?![\d%])"
)


def tells_levels(norm: str) -> bool:
    """Say whether a loss may be told by levels; most replies have no sign of it."""
    return _LEVEL_SIGN.search(norm) is not None or " from " in norm or ("净值" in norm and "0." in norm)


def levels(norm: str) -> list[Quantity]:
    """Return the losses that are told by levels: 净值从1.2跌到1.0, 止损线设在净值0.9."""
    found: list[Quantity] = []
    for match in _FALL_TO.finditer(norm):
        first, last = (float(value.replace(",", "")) for value in match.groups() if value is not None)
        if last < first:
            start, end = match.span(match.lastgroup or 0)
            found.append(Quantity("share", 1 - last / first, 1 - last / first, start, end, ""))
    for match in _STOP_AT.finditer(norm):
        fall = 1 - float(match["value"])
        found.append(Quantity("share", fall, fall, *match.span("value"), ""))
    return found


_STOP_RULE: Final = late(
    r"(?:左右|以上|时)?,?(?:就|即|便|再|立即|立刻|马上|必须|全部)+(?:清仓|平仓|斩仓|割肉|离场|止损|全部?卖|"
    r"走人|认赔|出局)"
)
"""Behind a loss: what is to be done when it is reached, so that it is the stop line."""
_OTHER_STOP: Final = late(r"个股|单[只笔个]|每[只笔个]|这只|该(?:基金|股)|它|(?<!没)有人|客户|别人")
_RULE_BEGINS: Final = frozenset("左以时,就即使再立马必全")


def stop_rule(
    analysis: Analysis, reading: Reading, share: Quantity, clause: tuple[int, int], sentence: tuple[int, int]
) -> bool:
    """Say whether the loss is the one at which everything is to be sold: 一旦亏损到12%就清仓."""
    norm = analysis.norm
    if norm[share.end : share.end + 1] not in _RULE_BEGINS or not _STOP_RULE.match(
        norm, share.end, sentence[1]
    ):
        return False
    return not (
        ONE_HOLDING.search(norm, sentence[0], share.start)
        or FORGIVEN.search(norm, *sentence)
        or any(clause[0] <= label.start < share.start for label in reading.labels)
        or PAST.search(norm, *clause)
        or _OTHER_STOP.search(norm, sentence[0], share.start)
    )
