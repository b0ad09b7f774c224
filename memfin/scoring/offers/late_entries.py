"""Entries right behind a rally: 连涨五天, 顺势加一成; up six days running, I would add now."""

import re
from collections.abc import Iterator
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.offers.figures import NO_WAIT
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_RALLY: Final = late(
    r"历史(?:新高|纪录|最高)|刷新[^,。;]{0,4}(?:纪录|高点|记录)|突破[^,。;]{0,8}(?:箱体|平台|前高|新高|压力|"
    r"年线|"
    r"高点)|(?:排行榜?|涨幅榜|业绩榜|排名)[^,。;]{0,3}(?:前[一二三五十\d]|榜首|第一)|高开|领涨|[天日]{2}涨|"
    r"(?:收益|业绩|涨幅)榜|冠军|"
    r"加速上[涨行攻]|"
    r"[一二两三四五六七八九\d]+连(?:板|阳)|连板|封板|收阳|一字板|一字开|涨停|翻番|新高|record high|"
    r"all-time high|"
    r"doubled|tripled|broke out|连[着续](?:[大猛]?涨)|涨了?[一二两三四五六七八九十\d]+(?:天|"
    r"个交易日|周|个月)|"
    r"(?:best|top)[- ]performing|top of the (?:table|league)|gone (?:vertical|parabolic)|"
    r"straight up|on fire|ripped|ripping|new high|\d+% (?:run|rally|surge|jump|climb)|(?:days|weeks|"
    r"sessions) (?:straight|running|on the trot)|"
    r"(?:green|up|"
    r"winning) days|in a row|straight (?:gains|days|weeks)"
)
_AT_ONCE: Final = late(
    r"\s*(?:(?:you (?:can|may|could|might|should) |(?:i|we) would |just |please )?(?:add|buy|purchase|put|"
    r"place|invest|get in|start)\b|[^,.;!?。]{0,30}\b(?:at these levels|"
    r"even (?:now|"
    r"here|up here)|still (?:get|buy|purchase|"
    r"add|jump|climb|own)|"
    r"add now|(?:buy|purchase) now|do(?:n't| not) wait|(?:put|place|invest|move) [^.;!?]{0,24}(?:in|"
    r"to work) (?:today|now|"
    r"this week))\b|"
    r"[^,。;!?]{0,8}(?:这个位置|现在|照样|仍然?|仍)[^,。;!?]{0,6}(?:上车|进场|买入|追|"
    r"跟进|加仓))"
)
"""The next sentence goes on: I would still get in at these levels."""
_ENTRY: Final = late(
    r"追进|先进|进(?=[二三四五]分之|一半|[一两三]成)|上(?=[一二两三半][成仓])|跟进|"
    r"(?:就|可以|能)可?以?进(?=[,。;])|各?(?:买|配|补|加|跟|来)(?:上|进|入|"
    r"个)?(?=[一二两三半四五六七八九\d]+(?:成|万|%|个点|笔|手|点|份))|"
    r"建(?=[一二两三半]成)|(?:现在|今天|这时候?)进(?=正|刚|还|也)|就加(?=[,。;仓码])|参与一下|申购(?!费|赎)|"
    r"认购(?!费)|"
    r"投(?=[一两三四五\d]+[万千成])|补上|配上|顺势|趁势|趁热|"
    r"赶紧(?=买|进|上)|"
    r"满仓|"
    r"就进(?=[,。;])|排队|挂涨停|打板|扫板|上车|冲进|杀进|买入|进去|加仓|先上|"
    r"\b(?:climb (?:on|aboard)|(?:put|place|invest|move) (?:the first|a first|some|a third|half)|get (?:on|"
    r"in)|"
    r"hop on|jump (?:on|in)|on board|pile in|buy|purchase|join|own (?:it|an?|some)|"
    r"load up)\b"
)
_LATER: Final = late(
    r"回调(?![只很仅才]|有限|结束|不深)|回落|逢低|低位|再平衡|止盈|减|降|卖|赎|定投|等|冷静|"
    r"\b(?:pullback|dip|trim|sell|offload|unload|wait|let it|"
    r"until|gradually)\b"
)


def _start(match: re.Match[str]) -> int:
    return match.start()


def late_entries(analysis: Analysis) -> Iterator[Span]:
    """Yield entries right behind a streak of rises, in its sentence or behind the next semicolon."""
    norm = analysis.norm
    for rally in few(analysis, _RALLY.finditer(norm), _start):
        low, high = analysis.sentence_span(rally.start())
        if norm[high - 1 : high] == ";":
            _, high = analysis.sentence_span(high)
        if _AT_ONCE.search(norm, high, high + 60):
            _, high = analysis.sentence_span(high)
        if _LATER.search(NO_WAIT.sub("", norm[low:high])):
            continue
        for entry in _ENTRY.finditer(norm, rally.start(), high):
            if advised(analysis, *entry.span(), act=True):
                yield entry.span()
