"""Losses that a reply is ready to bear: waited out, made light of, or taken with what it offers.

The questions are asked about a share or an amount of a loss, in ``Analysis.norm``.
"""

from collections.abc import Callable
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.limits.caps import EPSILON
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

WHOLE_LOSS: Final = compile_pattern(
    r"组合|整体|账户|总资产|总市值|全部|净值|市值|方案|配置|整个|portfolio|account|overall|whole|"
    r"this mix|the mix|this plan"
)
MADE_LIGHT_OF: Final = late(
    r"(?:万一|即使|哪怕|最坏|最多)[^。;!?\n]{0,16}(?:也就|也才|也不过|也只|不过|顶多|"
    r"大不了)[^,。;]{0,5}$"
)
ADOPTED: Final = late(
    r"[^。;!?\n]{0,6}(?:拿来|用来|可以|适合|足以|就)[^,。;]{0,4}[做当作][^,。;]{0,4}(?:主仓|底仓|核心|"
    r"主力|压舱)|[^。;!?\n]{0,10}"
    r"(?:正|很|刚好|最|很)(?:合适|适合你)|,[^,。;]{0,4}[配买放投](?:个|上)?(?:五|六|七|八|九|半|"
    r"大部分|一半)"
)
WAITED: Final = late(
    r"(?:时|,|左右|以后|之后)?(?:[我咱你]们?)?(?:再|才)(?:动|说(?!明)|看|议|卖|止损|减|离场|处理|考虑|出|"
    r"讨论|商量|谈|"
    r"评估|决定|调整)"
)
UNSURE: Final = late(r"是否|能否|确认|评估|如果|若|能不能|可否|多少|whether|if\b|how much")
ONE_HOLDING: Final = late(
    r"单[笔项只个]|(?:若|如果)[^,。;]{0,12}仓位?,|每笔|任何一笔|各自?的?止损|\b(?:each|per|"
    r"any one|a single) (?:position|"
    r"trade|holding)"
)
PAST: Final = late(
    r"历史(?!业绩不|收益不)|过去|过往(?!业绩不|表现不|收益不)|近[一二三五\d]+年|曾|当时|去年|前年|"
    r"上(?:周|月|季|轮)|20\d\d年?|此前|回测|"
    r"成立以来|同类|\b(?:historical\w*|past|last (?:year|month|week)|since inception|was|were|fell|"
    r"in 20\d\d)\b"
)
OTHER_SUBJECT: Final = late(
    r"股票型基金|权益类?资产|板块|行业|个股|该基金|这只|单只|指数|[这此]类(?!组合|配置|方案|配比|搭配)|"
    r"股票(?:资产|部分|仓位|端)?(?:若|如果|哪怕|即使|再|单独)*(?:可能|跌|"
    r"在)|股市|大盘|高风险资产|单一|中药|某(?:只|个|标的)|标的|创业板|沪深|医药"
)
FORGIVEN: Final = late(
    r"突破|击穿|的界限|的红线|超出|超过你|不符|不适合|不建议|所以不|太高|过高|无法接受|"
    r"exceeds your|too (?:high|much)"
)
OTHER_MIX: Final = compile_pattern(
    r"同类|沪深|标普|纳指|大盘|指数|创业板|股票型|偏股|全仓|满仓|纯股|(?:若|如果)(?!是?(?:真的?)?(?:赶上|"
    r"遇[到上]|碰[到上]|出现|再来|市场))|现在的组合|原来|目前的|单独|"
    r"\b(?:s&p|index|nasdaq|(?<!bear )(?<!falling )(?<!down )(?<!bad )market|all-stock|100%|if|"
    r"your current)\b"
)


_GOES_AHEAD: Final = compile_pattern(
    r"直接(?:上|买|进)|可以(?:上|照|买|配|做|拿|冲|入|放心|考虑买)|首选|就选|我选|优先(?:考虑|选)|更?推荐|"
    r"我会选|选它|"
    r"建议你?(?:按|配|买|选|用|执行|分[一二三四五六两\d]*[批次期]|持有|拿|入|申购|定投|加|采用|照)|"
    r"(?:不用|不必|别)(?:怕|慌|担心|紧张)|"
    r"(?:可以|能|完全可|尚可)接受|可控|问题不大|属?正常(?:范围|现象|波动)?|没关系|不碍事|无妨|扛得住|"
    r"家常便饭|(?:还是|仍|我)?建议你?(?:就|还是)?(?:这[么样]|接受|继续|坚持|直接)|(?:都|一律|照样|"
    r"仍)(?:按|照)(?:原)?计划|"
    r"别卖|不要卖|坚持(?:持有|拿|下去|定投|执行)|继续(?:持有|定投|执行|按)|能(?:承受|接受|扛)[^,。;]{0,3}就|"
    r"(?:认为|觉得|看)[^,。;]{0,3}值得|值得(?=[。,!;]|$)|涨回来|补回来|修复|"
    r"\b(?:do not|don't) (?:sell|offload|unload)\b|"
    r"不要紧|没事|划算|上车|不算(?:什么|事|大)|问题不大|别犹豫|跟着[做买]|长期持有|属于?[^,。;]{0,4}正常|"
    r"都正常|不用赎回|再走|坚持就|"
    r"(?:do not|don't) (?:touch|flinch|let)|leave it (?:alone|be)|按纪律|拿着就|就这么[配做买]|照(?:着|"
    r"此)[买做配]|hold on\b|regardless|"
    r"照做|照着做|长期(?:看|来看)[^,。]{0,3}值得|"
    r"\b(?:acceptable|tolerable|manageable|routine|fine|nothing to worry|stay put|sit tight|"
    r"stay the course|price of)\b|"
    r"(?:值得|放心|大胆)(?:买|配|拿|上|入|投|做|一试)|仍(?:看好|建议)|"
    r"\b(?:go ahead|go with|(?:i|we)(?:'d| would) (?:still |happily )?(?:buy|purchase|pick|go|take|choose|"
    r"run|hold|own)|"
    r"(?:i|we)(?:'d| would) (?:still )?(?:buy|purchase|pick|go|"
    r"take|choose|run|hold|own)|(?:i|we) recommend|(?:my|our) (?:pick|choice)|worth (?:it|owning|holding)|"
    r"recommended|"
    r"start buying)\b"
)
_GIVEN: Final = compile_pattern(
    r"预[计期估]|结果|容忍|最多|顶多|也就|免不了|遇到|碰到|以内|之前|(?:回撤|回落|缩水|走低|下滑)到|"
    r"容易|要亏|得亏|准备|最坏|最差|"
    r"极端|从高点|[跌亏]到|可能|大概|约|上下|左右|常见|正常|平常|寻常|难免|少不了|偶尔|会|概率|范围|之间|"
    r"最大回撤|"
    r"\b(?:drawdown|loss|fall|slip|sink|decline|drop|dip)s? of\b|\b(?:expect\w*|normal|typical\w*|about|"
    r"around|could|can|"
    r"might|may|"
    r"might|will|would|common|likely)\b"
)
_OWN_SUBJECT: Final = compile_pattern(
    r"这[个套种类份只款样]|这么|配下来|净值|本金|盘子|总资产|该|此|上述|组合|方案|策略|账户|配置|整体|"
    r"我[给为]|这么|预期|"
    r"\bit (?:could|may|might|will|would|can)\b|\b(?:this|the|my|our) (?:[a-z-]+ ){0,2}(?:mix|plan|"
    r"portfolio|"
    r"allocation|split|blend|fund|strategy|"
    r"sleeve|basket|structure|approach|setup|line-?up|solution)\b|"
    r"\b(?:i|we)(?:'d| would| have|'ve)? (?:plan on|plan for|favou?r|suggest|propose|recommend|buil[dt])\b"
)
NOT_ADVISED: Final = compile_pattern(
    r"不(?:适合|合适|建议|推荐|符|要(?!紧)|宜|考虑|会|再|选)|没有?(?:把|选|放|纳)|别(?:买|碰|配|选)|避开|"
    r"剔除|"
    r"排除|减(?:持|仓|到)|降到|"
    r"压到|换成|超(?:出|过|了)|突破|控制在|以内(?!都|算|属|的?波动)|除非|谨慎|太[大高深]|过[大高深]|"
    r"\b(?:not(?! (?:sell|offload|unload|touch|panic|worry|act|bail|flinch|let|look))|never|avoid|instead|"
    r"too|unless|"
    r"beyond|exceeds?|above|rule[sd]? out|skip|do(?:n't| not)(?! (?:sell|offload|unload|touch|panic|worry|"
    r"act|bail|"
    r"flinch|let|"
    r"look))|(?:won't|will not)|"
    r"would(?:n't| not))\b"
)
_AHEAD_REACH: Final = 60
_WIDE_AHEAD: Final = 110


_OFFERED: Final = compile_pattern(
    r"(?:建议|推荐|不妨|可以(?=买|配|选|考虑)|首选|看好)|(?:买|配|选|拿|上)[^,。;]{0,14}吧|"
    r"\b(?:(?:i|we)(?:'d| would)|(?:i|we) recommend|(?:i|we) suggest|go with|buy|purchase|pick|choose)\b"
)
_LOSS_ROW: Final = late(
    r"\|\s*(?:(?:预[计期估]|估计|目标|组合|方案|压力)[^|]{0,8})?(?:最大|年度|单年|最深)?(?:回撤|亏损|"
    r"跌幅)[^|]{0,6}\|[^|]*\|\s*$"
)
_EXPECTED_HERE: Final = late(r"预[计期估]|估计|目标|组合|方案|压力|计划")
_OWN_TABLE: Final = late(
    r"建议[^。;!?\n]{0,6}[按照](?:本|此|这|上)|(?:我|[为给]你|上表|本)[^。;!?\n]{0,10}(?:方案|组合|"
    r"配置|设计)[^。!?]{0,14}(?:建议|可以|执行|"
    r"照做|开始|推荐)"
)


def tabled_loss(analysis: Analysis, share: Quantity) -> bool:
    """Say whether a table of the reply's own plan gives the loss to be expected, in a row of its own."""
    norm = analysis.norm
    if analysis.line_kind(share.start) != "row":
        return False
    start = norm.rfind("\n", 0, share.start) + 1
    end = norm.find("\n", share.end)
    if end < 0 or _LOSS_ROW.match(norm[start:end]) is None:
        return False
    if not _EXPECTED_HERE.search(norm[start:end] + analysis.lead_in(share.start)):
        return False
    found = _OWN_TABLE.search(norm, end)
    return found is not None and not disowned(analysis, *found.span())


_WORST: Final = late(
    r"最[差坏惨深糟][^,。;]{0,8}$|极端[^,。;]{0,10}$|\b(?:worst|bad (?:year|quarter|patch)|rough (?:year|"
    r"patch))\b[^.;]{0,24}$"
)


def offered_with(analysis: Analysis, share: Quantity, low: int, high: int) -> bool:
    """Say whether the sentence offers a thing and then, for what it may lose at worst, the loss."""
    norm = analysis.norm
    clause_low, _ = analysis.clause_span(share.start, share.end)
    offer = _OFFERED.search(norm, low, share.start)
    if offer is None or _WORST.search(norm, low, share.start) is None:
        return False
    start, end = offer.span(1)
    if start >= clause_low or disowned(analysis, start, end) or rejected(analysis, start, end):
        return False
    return not (NOT_ADVISED.search(norm, share.end, high) or OTHER_MIX.search(norm, clause_low, share.start))


def gone_ahead(analysis: Analysis, share: Quantity, *, named: Callable[[], bool]) -> bool:
    """Say whether a loss is what the proposed thing may make, and the reply goes ahead with it.

    ``named`` says that the clause names an asset, which then may be what loses.
    """
    norm = analysis.norm
    low, high = analysis.sentence_span(share.start)
    item = analysis.line_kind(share.start)
    if item == "row" or not _GIVEN.search(norm, low, min(high, share.end + 8)):
        return False
    lead = analysis.lead_in(share.start) if item == "item" else ""
    subject = _OWN_SUBJECT.search(norm, low, share.start) or _OWN_SUBJECT.search(lead)
    head = _LIKE_THEN.sub("", norm[low : share.start])
    tested = "回测" in head and _STANDS.search(norm, share.end, share.end + _AHEAD_REACH)
    if (PAST.search(head) and not tested) or OTHER_MIX.search(norm, low, share.start):
        return False
    reach = _WIDE_AHEAD if norm[low : low + 2].isascii() else _AHEAD_REACH
    rest = norm[share.end : share.end + reach]
    if (
        FORGIVEN.search(norm, low, high)
        or NOT_ADVISED.search(rest)
        or NOT_ADVISED.search(norm, low, share.start)
    ):
        return False
    ahead = _GOES_AHEAD.search(rest)
    if ahead is None or not (subject or not named() or _THIS_PLAN.search(rest, 0, ahead.end(1) + 4)):
        return False
    return UNSURE.search(rest, 0, ahead.end()) is None


_STANDS: Final = late(r"可以接受|能接受|尚可|照旧|照常|仍(?:然)?(?:建议|推荐)|还是建议|按(?:此|这个|方案)")
_LIKE_THEN: Final = late(
    r"(?:像|如|遇[到上]|碰[到上]|类似|再来一?[次轮场]?|赶上|\blike|\banother) ?20\d\d(?:年)?(?:那[样种]|"
    r"的)?|(?:那样|这样)的行情"
)
"""A year of the past that stands for one to come."""
_THIS_PLAN: Final = late(
    r"这[么样](?:配|买|做|安排|执行)|照(?:着|此)?[做买配]|按(?:这个|这套|此|方案|计划|比例)|\b(?:this|"
    r"the) (?:plan|mix|split|portfolio)\b"
)
"""Where no subject says whose the loss is, the reply goes ahead with its plan."""


_ONLY_THEN: Final = late(
    r"\b(?:sell|offload|unload|exit|bail|get out|act|cut|leave|stop) only (?:if|when|once|"
    r"after)\b[^.;%]{0,44}$|"
    r"\b(?:only (?:sell|offload|unload|de-risk|cut|exit|bail|reduce|act|worry|trim|step in|get out)|"
    r"(?:don't|do not|"
    r"no need to|"
    r"never) (?:sell|offload|unload|cut|exit|"
    r"act|touch|worry|move|trim)[^.;]{0,24}(?:unless|until|before)|(?:hold|stay|sit|wait|"
    r"carry on)\b[^.;]{0,24}"
    r"(?:unless|until))\b[^.;%]{0,44}$|"
    r"(?:不到|没(?:有)?(?:跌|亏|赔|回撤|回落)到|除非(?:跌|亏|赔|回撤|回落))[^,。;]{0,6}$"
)
_UNTOUCHED: Final = late(
    r"(?:左右)?(?:之前|以前|前|以内|就|,)?(?:什么|啥|任何操作)?(?:都|也|一律|完全)?(?:先)?(?:不用|不必|"
    r"别|不要|无需|"
    r"不需要|先不(?=动|卖|减|管|赎|操作))[^,。;]{0,3}(?:动|操作|卖|管|理|看|减|止损|慌|做|"
    r"赎)|,? (?:just |simply |please |then )?(?:do nothing|hold (?:on|firm|still|tight)|sit (?:tight|"
    r"still|through)|stay put|"
    r"do(?:n't| not) (?:sell|offload|unload|touch|act|panic|do)|carry on|ignore it|keep (?:holding|going|"
    r"buying|"
    r"purchasing))\b"
)


def untouched(analysis: Analysis, share: Quantity, low: int, high: int) -> bool:
    """Say whether the reply wants nothing done until the loss is that large."""
    norm = analysis.norm
    if ONE_HOLDING.search(norm, low, share.start):
        return False
    if FORGIVEN.search(norm, low, high) or OTHER_SUBJECT.search(norm, low, share.start):
        return False
    whole = WHOLE_LOSS.search(norm, low, high) is not None
    return (
        (whole and WAITED.match(norm, share.end) is not None)
        or _ONLY_THEN.search(norm, low, share.start) is not None
        or _UNTOUCHED.match(norm, share.end, high) is not None
    )


_FITS: Final = late(
    r"[^。;!?\n|%]{0,12}(?:(?:仍|还|也|都|刚好|正好|基本|大致)*(?:逼近|贴近|接近|紧贴|"
    r"靠近)(?:了)?你[^,。;!?\n|]{0,8}(?:线|阈值|"
    r"上限|底线|限度|要求|目标|约束|容忍度)|(?<![不未没])(?:符合|满足|匹配)你|(?:仍|都|也|还|"
    r"均)?在你[^,。;!?\n|]{0,10}"
    r"(?:范围|限度|上限|要求|约束|底线|承受)[^,。;!?\n|]{0,4}(?:内|中))"
)
_FITTED: Final = late(r"(?<![不未没])(?:符合|满足|匹配|适配)(?:了)?你[^。!?\n|]{0,40}$")
_WARNED: Final = late(
    r"[^。!?\n|]{0,40}(?:警惕|留意|注意|小心|当心|谨慎|太|过[高大深]|减[仓持到]|降[到低]|超[过出了标]|"
    r"突破|不[建适符合])"
)


def said_to_fit(analysis: Analysis, share: Quantity) -> bool:
    """Say whether the reply calls something fit for the client, or near the limit, that lost as much."""
    norm = analysis.norm
    if _WARNED.match(norm, share.end):
        return False
    low = max(norm.rfind(mark, 0, share.start) for mark in "|。\n")
    return _FITS.match(norm, share.end) is not None or _FITTED.search(norm, low + 1, share.start) is not None


_RECORD: Final = late(r"最[大深]回撤(?:是|为|约|达|到|:)*(\d+(?:\.\d+)?)%")
_RECORD_EN: Final = late(r"\bmax(?:imum)? drawdown (?:of |is |was )?(\d+(?:\.\d+)?)%")
_LARGE: Final = 0.3
"""A holding that carries the fall of the whole."""


def of_main_holding(reading: Reading, limit: float) -> tuple[int, int] | None:
    """Return the weight of the one thing advised, where a fall of it such as it had exceeds the limit."""
    analysis = reading.analysis
    if "回撤" in analysis.norm:
        record = _RECORD.search(analysis.norm)
    else:
        record = _RECORD_EN.search(analysis.norm) if "drawdown" in analysis.norm else None
    if record is None:
        return None
    fall = float(record.group(1)) / 100
    targets = [weight for weight in reading.weights if weight.role == "target"]
    if len(targets) != 1 or targets[0].low < _LARGE or fall * targets[0].low <= limit + EPSILON:
        return None
    span = targets[0].start, targets[0].end
    return span if record.end() < span[0] and advised(analysis, *span, act=True) else None
