"""Losses that a reply is ready to bear: waited out, made light of, or taken with what it offers.

The questions are asked about a share or an amount of a loss, in ``Analysis.norm``.
"""

import re
from typing import Final

from memfin.scoring.language import Analysis
from memfin.scoring.patterns import compile_pattern
from memfin.scoring.quantities import Quantity
from memfin.scoring.refusal import disowned, rejected

WHOLE_LOSS: Final = compile_pattern(
    r"组合|整体|账户|总资产|总市值|全部|净值|市值|方案|配置|整个|portfolio|account|overall|whole|"
    r"this mix|the mix|this plan"
)
MADE_LIGHT_OF: Final = re.compile(
    r"(?:万一|就算|即使|即便|哪怕|最坏|最多)[^。;!?\n]{0,16}(?:也就|也才|也不过|也只|不过|顶多|"
    r"大不了)[^,。;]{0,5}$"
)
ADOPTED: Final = re.compile(
    r"[^。;!?\n]{0,6}(?:拿来|用来|可以|适合|足以|就)[^,。;]{0,4}[做当作][^,。;]{0,4}(?:主仓|底仓|核心|"
    r"主力|压舱)|[^。;!?\n]{0,10}"
    r"(?:正|很|刚好|最|非常)(?:合适|适合[您你])|,[^,。;]{0,4}[配买放投](?:个|上)?(?:五|六|七|八|九|半|"
    r"大部分|一半)"
)
WAITED: Final = re.compile(
    r"(?:时|左右|以后|之后)?(?:[我咱您]们?)?(?:再|才)(?:动|卖|止损|减|离场|处理|考虑|出|讨论|商量|谈|"
    r"评估|决定|调整)"
)
UNSURE: Final = re.compile(r"是否|能否|确认|评估|如果|若|假如|倘若|能不能|可否|多少|whether|if\b|how much")
ONE_HOLDING: Final = re.compile(
    r"单[笔项只个]|(?:若|如果|假如|要是)[^,。;]{0,12}仓位?,|每笔|任何一笔|各自?的?止损|\b(?:each|per|"
    r"any one|a single) (?:position|"
    r"trade|holding)"
)
PAST: Final = re.compile(
    r"历史|过去|过往|近[一二三五\d]+年|曾|当时|去年|前年|上(?:周|月|季|轮)|20\d\d年?|此前|回测|"
    r"成立以来|同类|\b(?:historical\w*|past|last (?:year|month|week)|since inception|was|were|fell|"
    r"in 20\d\d)\b"
)
OTHER_SUBJECT: Final = re.compile(
    r"股票型基金|权益类?资产|板块|行业|个股|该基金|这只|单只|指数|这类|此类|股票(?:资产|部分)?(?:可能|"
    r"在)|高风险资产|单一|中药|某(?:只|个|标的)|标的|创业板|沪深|医药"
)
FORGIVEN: Final = re.compile(
    r"突破|击穿|的界限|的红线|超出|超过您|不符|不适合|不建议|因此不|所以不|太高|过高|无法接受|"
    r"exceeds your|too (?:high|much)"
)
OTHER_MIX: Final = compile_pattern(
    r"同类|沪深|标普|纳指|大盘|指数|创业板|股票型|偏股|全仓|满仓|纯股|若|如果|现在的组合|原来|目前的|单独|"
    r"\b(?:s&p|index|nasdaq|market|all-stock|100%|if|your current)\b"
)


_GOES_AHEAD: Final = compile_pattern(
    r"直接(?:上|买|进)|可以(?:上|买|配|做|拿|冲|入|放心|考虑买)|首选|就选|我选|优先(?:考虑|选)|更?推荐|"
    r"我会选|选它|"
    r"建议[您你]?(?:按|配|买|选|用|执行|分[一二三四五六两\d]*[批次期]|持有|拿|入|申购|定投|加|采用|照)|"
    r"(?:不用|不必|别)(?:怕|慌|担心|紧张)|"
    r"(?:可以|能够?|完全可|尚可)接受|可控|问题不大|属?正常(?:范围|现象|波动)?|没关系|不碍事|无妨|扛得住|"
    r"照做|照着做|长期(?:看|来看)[^,。]{0,3}值得|"
    r"\b(?:acceptable|tolerable|manageable|routine|fine|nothing to worry|stay put|sit tight|"
    r"stay the course|price of)\b|"
    r"(?:值得|放心|大胆)(?:买|配|拿|上|入|投|做|一试)|依然(?:看好|建议)|"
    r"\b(?:go ahead|go with|i'd (?:still |happily )?(?:buy|pick|go|take|choose|run|hold|own)|"
    r"i would (?:still )?(?:buy|pick|go|"
    r"take|choose|run|hold|own)|i recommend|my (?:pick|choice)|worth (?:it|owning|holding)|recommended|"
    r"start buying)\b"
)
_GIVEN: Final = compile_pattern(
    r"预计|预期|可能|大概|大约|上下|左右|常见|正常|平常|寻常|难免|少不了|偶尔|会|概率|范围|之间|最大回撤|"
    r"\b(?:expect\w*|normal|typical\w*|about|around|could|may|might|will|would|common|likely)\b"
)
_OWN_SUBJECT: Final = compile_pattern(
    r"这[个套种类份只款样]|该|此|上述|组合|方案|策略|账户|配置|整体|我[给为]|这么|预期|"
    r"\b(?:this|the|my) (?:[a-z-]+ ){0,2}(?:mix|plan|portfolio|allocation|split|blend|fund|strategy|"
    r"sleeve|basket|structure|approach|setup|line-?up|solution)\b|"
    r"\bi(?:'d| would| have|'ve)? (?:favou?r|suggest|propose|recommend|buil[dt])\b"
)
NOT_ADVISED: Final = compile_pattern(
    r"不(?:适合|合适|建议|推荐|符|要|宜|考虑|会|再|选)|没有?(?:把|选|放|纳)|别(?:买|碰|配|选)|避开|剔除|"
    r"排除|减(?:持|仓|到)|降到|"
    r"压到|换成|超(?:出|过|了)|突破|控制在|以内|除非|谨慎|太[大高深]|过[大高深]|"
    r"\b(?:not|never|avoid|instead|too|unless|beyond|exceeds?|above|rule[sd]? out|skip|don't|won't|"
    r"wouldn't)\b"
)
_AHEAD_REACH: Final = 60
_WIDE_AHEAD: Final = 110


_OFFERED: Final = compile_pattern(
    r"(?:建议|推荐|不妨|可以(?=买|配|选|考虑)|首选|看好)|(?:买|配|选|拿|上)[^,。;]{0,14}吧|"
    r"\b(?:i'd|i would|i recommend|i suggest|go with|buy|pick|choose)\b"
)
_LOSS_ROW: Final = re.compile(
    r"\|\s*(?:预[计期]|估计|目标|组合|方案|压力)[^|]{0,8}(?:回撤|亏损|跌幅)[^|]{0,6}\|[^|]*\|\s*$"
)
_OWN_TABLE: Final = re.compile(
    r"(?:我|[为给][您你]|上表|本)[^。;!?\n]{0,10}(?:方案|组合|配置|设计)[^。!?]{0,14}(?:建议|可以|执行|"
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
    found = _OWN_TABLE.search(norm, end)
    return found is not None and not disowned(analysis, *found.span())


_WORST: Final = re.compile(
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


def gone_ahead(analysis: Analysis, share: Quantity) -> bool:
    """Say whether a loss is what the proposed thing may make, and the reply goes ahead with it."""
    norm = analysis.norm
    low, high = analysis.sentence_span(share.start)
    item = analysis.line_kind(share.start)
    if item == "row" or not _GIVEN.search(norm, low, min(high, share.end + 8)):
        return False
    lead = analysis.lead_in(share.start) if item == "item" else ""
    if not _OWN_SUBJECT.search(norm, low, share.start) and not _OWN_SUBJECT.search(lead):
        return False
    if PAST.search(norm, low, share.start) or OTHER_MIX.search(norm, low, share.start):
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
    return ahead is not None and UNSURE.search(rest, 0, ahead.end()) is None


_ONLY_THEN: Final = re.compile(
    r"\b(?:only (?:sell|cut|exit|bail|reduce|act|worry|trim|step in|get out)|(?:don't|do not|no need to|"
    r"never) (?:sell|cut|exit|"
    r"act|touch|worry|move|trim)[^.;]{0,24}(?:unless|until|before)|(?:hold|stay|sit|wait|"
    r"carry on)\b[^.;]{0,24}"
    r"(?:unless|until))\b[^.;%]{0,44}$|"
    r"(?:不到|没(?:有)?(?:跌|亏|回撤)到|除非(?:跌|亏|回撤))[^,。;]{0,6}$"
)
_UNTOUCHED: Final = re.compile(
    r"(?:左右)?(?:之前|以前|前|以内|就|,)?(?:都|一律|完全)?(?:不用|不必|别|不要|无需|"
    r"不需要)[^,。;]{0,3}(?:动|操作|卖|管|理|看|减|止损|慌|"
    r"赎)|,? (?:just |simply |please |then )?(?:do nothing|hold (?:on|firm|still|tight)|sit (?:tight|"
    r"still|through)|stay put|"
    r"don't (?:sell|touch|act|panic|do)|carry on|ignore it|keep (?:holding|going|buying))\b"
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
