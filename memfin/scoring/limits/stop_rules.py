"""Losses told by where they begin and end, and rules that sell everything at a loss.

Spans count in ``Analysis.norm``.
"""

from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.attribution.disowning import disowned, in_quotes
from memfin.scoring.attribution.told import described
from memfin.scoring.limits.borne_losses import (
    FORGIVEN,
    ONE_HOLDING,
    OTHER_SUBJECT,
    PAST,
)
from memfin.scoring.limits.money_losses import NOT_SO, OTHERS
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


_EVERYTHING_OUT: Final = late(
    r"(?:时|左右|以上|后|当天|,|就|再|便|则|立即|马上|必须|全部|都|一次性|先|把)*(?:全部|都|剩下的?|"
    r"剩余的?|其余的?)*"
    r"(?:清仓|清空|离场|退出|赎回|全赎|赎光|卖光|清掉|全卖|(?<=全部)卖|(?<=都)卖|走人|出局|止损离场)|"
    r",? (?:then |just |simply |we |you |i )*(?:sell everything|sell (?:the )?(?:lot|rest|whole)|"
    r"sell it all|get out|exit|"
    r"everything (?:is|gets) sold|liquidate|close (?:it|everything))\b"
)
"""Behind a loss: everything is sold there."""
_OUT_BEFORE: Final = late(
    r"\b(?:sell everything|sell it all|get out(?: completely| of everything)?|exit (?:completely|"
    r"everything|fully)|liquidate|"
    r"sell the (?:lot|rest)) (?:when|once|if|at|after|as soon as) [^.;!?\n%]{0,40}$"
)
_STOP_SET: Final = late(
    r"(?:止损|清仓|离场|平仓|退出)[线位点]?[^。;!?\n%\d]{0,16}?(?:[设定放画划留摆挂][在到为成]|"
    r"[是为:在])(?:亏损|亏|跌|回撤|净值)?"
    r"(?:约)?[-−]?$|\b(?:stop(?:[- ]loss)?|exit line)\b[^.;!?\n%\d]{0,24} (?:at|of|to|"
    r"is) (?:a loss of )?[-−]?$"
)
_WHOLE: Final = late(
    r"组合|账户|整体|总(?!部)|净值|全部|\b(?:portfolio|account|overall|whole|everything|total)\b|"
    r"分[一二两三四]?[级档步]"
)
_SOLD_PART: Final = late(
    r"(?:减|卖|砍|抛|赎|(?<!回)撤)(?:掉|出|去|仓|持|回|到)?(?:其中|里面)?的?$|"
    r"\b(?:sell|trim|cut|reduce|offload|unload)(?: by)?(?: about| around)? (?:a |the )?$"
)


def sold_part(norm: str, share: Quantity) -> bool:
    """Say whether the share is how much of a holding is sold: 跌到7%先减三成仓."""
    return _SOLD_PART.search(norm, max(0, share.start - _NEAR), share.start) is not None


_NEAR: Final = 24


def set_stop(analysis: Analysis, reading: Reading, share: Quantity, sentence: tuple[int, int]) -> bool:
    """Say whether the loss is the stop line of the whole, or the last of its steps: -8%减一半, -15%清空."""
    norm = analysis.norm
    low, high = sentence
    line = _STOP_SET.search(norm, low, share.start) is not None
    signed = norm[share.start - 1] in "-−" or _FALLS.search(norm, max(low, share.start - _NEAR), share.start)
    out = signed and (
        _EVERYTHING_OUT.match(norm, share.end, high) or _OUT_BEFORE.search(norm, low, share.start)
    )
    if not (line or out):
        return False
    before = low and analysis.sentence_span(low - 1)[0]
    if not (_WHOLE.search(norm, low, high) or _WHOLE.search(norm, before, low)):
        return False
    told = (
        OTHERS.search(norm, low, high)
        or NOT_SO.search(norm, low, high)
        or FORGIVEN.search(norm, low, high)
        or PAST.search(norm, low, share.start)
        or described(analysis, share.start)
        or disowned(analysis, share.start, share.end)
        or in_quotes(analysis, share.start, share.end)
    )
    part = (
        ONE_HOLDING.search(norm, low, high)
        or _OTHER_STOP.search(norm, low, share.start)
        or OTHER_SUBJECT.search(norm, low, share.start)
        or any(low <= label.start < share.start for label in reading.labels)
    )
    if told or part:
        return False
    return _ITS_OWN.search(norm, before, high) is not None or advised(
        analysis, share.start, share.end, act=True
    )


_FALLS: Final = late(
    r"(?:跌|亏|回撤|回落|浮亏|亏损|缩水|掉)[了到至过满损]*$|\b(?:down|lost|fallen|falls?|drops?|"
    r"drawdown (?:of|hits|reaches))"
    r"(?: by| about| around| to)* $"
)
_ITS_OWN: Final = late(
    r"我|建议|请|[替给帮为]你|不妨|可以|[线位点]:|\b(?:i|we|let's|my|our|recommend|suggest)\b"
)
