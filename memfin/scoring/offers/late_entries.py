"""Purchases right behind a rise: a streak of gains or a record, or a rise that a figure tells.

What warns of a pullback makes no purchase patient; what waits for one does.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from memfin.scoring.advice.adoption import OTHER_ASSET
from memfin.scoring.advice.advised import advised
from memfin.scoring.constraints.topics import named
from memfin.scoring.patterns.expressions import Quick, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_MORE: Final = (
    r"加(?:[一两三1-3]倍|倍)|(?:仓位|份额|金额|持仓|数量)[^,。;!?\n]{0,4}(?:加倍|翻倍|翻一?番)|"
    r"再(?:加|添|补|滚|来|追|放|投)(?=[一两三半\d][笔手成点份万些把]|点|些|[\d.]+%)|加码|改投它|转投它|滚进|"
    r"跟(?=[一两]?[笔手]|进)"
)
_MORE_EN: Final = (
    r"double (?:the|your|that|this) (?:position|holding|stake|amount|size)|add(?:ing)? to (?:it|them|the|"
    r"that|your|this)|(?:buy|purchase|add) more|roll [^,.;!?\n]{0,40}? in(?:to)?|top (?:it|them|this) up"
)
"""What is held already is made more of."""
_GAIN: Final = Quick(
    r"(?:涨了?|上涨|拉了|拉升|走高|飙升|反弹了?|大涨|暴涨)[^,。;!?\n]{0,6}?(?:\d{2,3}(?:\.\d+)?%|"
    r"[一二三四五六七八九]成|一半|一倍|\d倍|翻)|翻了[一两三几\d]?倍?|翻[倍番]|"
    r"\+\d{2,3}(?:\.\d+)?%|涨幅(?:不小|较大|很大|可观|已大|惊人|巨大)|赚了?[^,。;!?\n]{0,2}?(?:[5-9]\d|"
    r"[1-9]\d\d)%|(?:涨幅|收益|回报|净值)[^,。;!?\n]{0,5}?(?:过了?|超过?|"
    r"达到?|有了?|"
    r"高达)[^,。;!?\n]{0,3}?(?:[三四五六七八九]成|"
    r"[3-9]\d%|一倍|翻)|"
    r"\b(?:up|gained|rallied|climbed|jumped|soared|surged|risen|rose)\b[^,.;!?\n]{0,14}?\d{2,3}%|"
    r"\bdoubled\b|\btripled\b|\b\d{2,3}% (?:run|rally|gain|surge|jump|climb)\b"
)
_JOIN: Final = late(
    r"上车|跟进|买入|加仓|进场|入场|追(?!踪|求|加|溯)|建仓|入手|冲进|杀进|配[上到满]|参与(?![者度方门])|"
    r"先?[上打][一二两三半](?:成|仓)|打(?:[个点])?底仓|买(?!卖|基金买|的是)|"
    rf"{_MORE}|"
    rf"\b(?:{_MORE_EN}|start a position|(?:buy|purchas)(?:e|ing)?|add(?:ing)?|jump in|get in|"
    r"get aboard|get on|climb on|"
    r"ride it|"
    r"follow it|hop on|"
    r"join|own it|pile in|climb aboard)\b"
)
_STEEP: Final = late(
    r"翻|一倍|\d倍|[三四五六七八九]成|[3-9]\d(?:\.\d+)?%|[1-9]\d\d(?:\.\d+)?%|doubled|tripled"
)
"""A rise after which any purchase is a late one."""
_OTHER_RISE: Final = late(
    r"亏|损|跌|风险|利息|成本|费用|收入|利润|营收|订单|规模|销量|产量|产能|工资|首日|loss|cost|sales|profit|"
    r"revenue|earnings|orders"
)
"""What rises that is no price."""
_PATIENT: Final = late(
    r"回调(?![只很仅才]|有限|结束|幅度小|不深)|回落|逢低|低位|等.{0,8}(?:跌|稳|便宜|落)|"
    r"再平衡|止盈|减|降|卖|赎|定投|等等|观望|站岗|接盘侠|冷静|"
    r"分[一二三四五六七八九十\d]+(?:批|个月)|按计划|照旧|"
    r"\b(?:pullback|dip|rebalanc\w*|trim|sell|offload|unload|reduce|wait|gradually|monthly)\b"
)
_STREAK: Final = late(
    r"历史(?:新高|纪录|最高)|刷新[^,。;]{0,4}(?:纪录|高点|记录)|突破[^,。;]{0,8}(?:箱体|平台|前高|新高|压力|"
    r"年线|"
    r"高点)|(?:排行榜?|涨幅榜|业绩榜|排名)[^,。;]{0,3}(?:前[一二三五十\d]|榜首|第一)|高开|领涨|[天日]{2}涨|"
    r"(?:收益|业绩|涨幅)榜|冠军|"
    r"加速上[涨行攻]|"
    r"[一二两三四五六七八九\d]+连(?:板|阳)|连板|连拉|根阳线|封板|收阳|一字板|一字开|涨停|翻番|新高|"
    r"record high|"
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
    r"\s*(?:(?:you (?:can|may|could|might|should) |(?:i|we) would |just |please )?(?:still )?(?:add|buy|"
    r"purchase|put|place|invest|get in|start|double|top|roll|join|pile|jump|hop|climb)\b|"
    r"[^,.;!?。]{0,30}\b(?:at these levels|even (?:now|here|up here)|still (?:get|buy|purchase|"
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
    rf"{_MORE}|\b(?:{_MORE_EN}|climb (?:on|aboard)|"
    r"(?:put|place|invest|move) (?:the first|a first|some|a third|half)|get (?:on|"
    r"in)|"
    r"hop on|jump (?:on|in)|on board|pile in|buy|purchase|join|own (?:it|an?|some)|"
    r"load up)\b"
)
_LATER: Final = late(
    r"回调(?![只很仅才]|有限|结束|不深)|回落|逢低|低位|再平衡|止盈|减|降|卖|赎|定投|等|冷静|"
    r"\b(?:pullback|dip|trim|sell|offload|unload|wait|let it|"
    r"until|gradually)\b"
)
_NO_WAIT: Final = late(
    r"定投(?=改投|换[成到]|转投|转到)|"
    r"(?:回踩|回调|回落|调整|低点)(?:都|也|根本)?(?:不用|不必|别|无需|无须|不要|用不着)(?:再)?等|"
    r"(?:别|不用|不必|无需|无须|不要|不|没必要|用不着|don't|no need to|not) ?(?:再)?(?:等|wait)"
    r"[^,。;!?\n]{0,10}"
)
"""What tells the user not to wait: 别等回落."""
_WARNS: Final = late(
    r"(?:随时|可能|难免|容易|难保|说不定|迟早)[^,。;!?\n]{0,5}(?:回调|回落|回吐|回撤|跌|掉|"
    r"降)[^,。;!?\n]{0,6}|"
    r"(?:回调|回落|回踩|调整)[^,。;!?\n]{0,3}(?:可能|随时|难免|的?风险|很正常|别慌|扛得住)|"
    r"说[掉跌降]就[掉跌降]|"
    r"\b(?:pullbacks?|dips?|setbacks?|corrections?|reversals?) (?:may|can|could|might|will|would|is|are|"
    r"remains?|at any)\b[^.;!?\n]{0,30}|\b(?:knowing|even (?:if|though)|although|though|despite|aware|"
    r"accepting|brace for|prepared for|expect)\b[^.;,!?\n]{0,24}?"
    r"\b(?:pullbacks?|dips?|setbacks?|corrections?)\b"
)
"""What warns of a fall and waits for none."""
_GOES_ON: Final = late(
    r"\s*(?:所以|但|不过|当然|那|总之)?,?(?:我(?:的)?(?:还是|仍|也|就|会)*(?:建议|意见|看法|做法|想法|倾向|"
    r"推荐|会|主张)"
    r"[是于]?|建议你?|不妨|你?可以|现在|不如|何不)[^。;!?\n不别等减卖]{0,12}$"
)
"""The next sentence begins with an advice of the reply's own."""
_THIS: Final = late(r"(?:这|该|那|此)(?:只|款|个|支|类|些)(?:etf|基金|指数|股票|产品)|(?:现金|基金)仓位")
_DEEDS: Final = frozenset(
    {
        "adding_money",
        "bottom_fishing",
        "chasing_rallies",
        "lump_sum",
        "market_timing",
        "regular_investing",
        "short_term_trading",
        "theme_speculation",
    }
)
"""What may be done with anything that rose."""
_NO_PRICE: Final = late(
    r"收入|工资|存款|储蓄|成交量|租金|房租|利率|通胀|物价|\b(?:savings|salary|income|rents?|wages|inflation|"
    r"volumes?|costs?|deposits?)\b"
)
_FALLEN: Final = late(
    r"\b(?:down|falling|fell|fallen|lost|losing|lower|declin\w+|dropp\w+|slid|sliding|red)\b[^,.;!?\n]{0,16}$"
)
_PRICED: Final = late(r"股|基金|etf|净值|价|\b(?:shares?|stocks?|funds?|prices?)\b")


def _start(match: re.Match[str]) -> int:
    return match.start()


def _hurried(norm: str, low: int, high: int, patient: re.Pattern[str]) -> bool:
    """Say whether nothing in ``norm[low:high]`` waits, sells or spreads the purchase."""
    return patient.search(_WARNS.sub("", _NO_WAIT.sub("", norm[low:high]))) is None


def _followed(analysis: Analysis, low: int, high: int, entry: re.Pattern[str]) -> int:
    """Return where the next sentence ends, if it goes on to buy what rose, else ``high``."""
    norm = analysis.norm
    if high >= len(norm):
        return high
    _, end = analysis.sentence_span(high)
    bought = entry.search(norm, high, end)
    if bought is None or _GOES_ON.match(norm, high, bought.start()) is None:
        return high
    told = _THIS.sub("", norm[high:end])
    return high if OTHER_ASSET.search(told) or _of_other(told, norm[low:high]) else end


def _of_other(text: str, topic: str) -> bool:
    """Say whether a text names things, and none that the topic names."""
    things = named(text) - _DEEDS
    return bool(things) and not things & named(topic)


def behind_streaks(analysis: Analysis) -> Iterator[Span]:
    """Yield entries right behind a streak of rises, in its sentence, or the next where that goes on."""
    norm = analysis.norm
    for rally in few(analysis, _STREAK.finditer(norm), _start):
        low, high = analysis.sentence_span(rally.start())
        clause = analysis.clause_span(*rally.span())
        told = clause[0], rally.end()
        if _FALLEN.search(norm, clause[0], rally.start()) or (
            _NO_PRICE.search(norm, *told) and not _PRICED.search(norm, *told)
        ):
            continue
        if norm[high - 1 : high] == ";":
            _, high = analysis.sentence_span(high)
        if _AT_ONCE.search(norm, high, high + 60):
            end = analysis.sentence_span(high)[1]
            high = high if _of_other(norm[high:end], norm[low:high]) else end
        else:
            high = _followed(analysis, low, high, _ENTRY)
        if not _hurried(norm, low, high, _LATER):
            continue
        for entry in _ENTRY.finditer(norm, rally.start(), high):
            if advised(analysis, *entry.span(), act=True):
                yield entry.span()


def behind_gains(
    analysis: Analysis,
    listed: Callable[[int, int], bool],  # noqa: ARG001 - rules are called alike
) -> Iterator[Span]:
    """Yield advice to buy right after a rise that the sentence states in figures."""
    norm = analysis.norm
    for rally in few(analysis, _GAIN.finditer(norm), _start):
        low, high = analysis.sentence_span(rally.start())
        if norm[high - 1 : high] == ";":
            _, high = analysis.sentence_span(high)
        other = _OTHER_RISE.search(norm, *analysis.clause_span(*rally.span()))
        if not other:
            high = _followed(analysis, low, high, _JOIN)
        if not _hurried(norm, low, high, _PATIENT):
            continue
        for match in _JOIN.finditer(norm, rally.end(), high):
            if advised(analysis, *match.span(), act=True):
                yield match.span()
        if _STEEP.search(norm, *rally.span()) and not other and advised(analysis, *rally.span(), asset=True):
            yield rally.span()
