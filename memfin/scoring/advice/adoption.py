"""Whether a later clause or sentence takes up what was described: 把它加进组合, the one I would pick."""

import re
from typing import Final

from memfin.scoring.advice.dealing import BACKS_OUT, DEALS, OFFER, ORDER, SIZED_DEAL, STRONG, WEIGHTED
from memfin.scoring.advice.refusal import VERDICT
from memfin.scoring.attribution.disowning import QUESTION_END
from memfin.scoring.attribution.negation import negated
from memfin.scoring.constraints.topics import takes_up_another
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis, attributed, conditional
from memfin.scoring.text.paragraphs import begin

_CLAUSE: Final = r"[^,:;。!?\n]"

_BOTH: Final = (
    r"(?:both|each|either)(?=[.,;:!?]|$| of (?:them|these|those)\b)|the (?:two|pair|three|lot)(?=[.,;:!?]|$)"
)
"""What the things told of are called together."""
ANAPHORA: Final = compile_pattern(
    r"它|各(?=[买配拿放给占投\d一两])|用(?:掉|上|足|其中)?(?:一半|其中|[一二两三四五][成分])|这类|这样|这么|"
    r"这种|该类|此类|这只|这几只|这些|其中|其|前者|后者|"
    r"[挪转换搬划投存移分放](?:[^,。;!?\n的]{1,8})?过[去来]|[款只份期](?!基金|"
    r"产品)[^,。;!?\n]{0,8}的(?=[,。;!]|$)|"
    r"\b(?:there|it|them|this|that|"
    rf"these|those)\b|\b(?:{_BOTH})"
)
NEXT_ADOPTS: Final = late(
    r"^\s*(?:just )?(?:do it|go for it|go with (?:it|that)|set it up|(?:i|we)(?:'d| would) do it|"
    r"(?:i|we)(?:'d| would) go ahead|"
    r"you should be in it|that(?:'s| is) (?:how|the way|what|where) (?:i|we)(?:'d| would))\b|"
    r"^\s*(?:(?:i|we)(?:'d| would)|you (?:could|might|can)|let's|just|so) ?(?:still |happily |gladly |"
    r"also |certainly )?(?:join in|take part|get involved|play along|ride along|come along|tag along|"
    r"get in on|be part of|jump aboard|climb aboard|hop on)\b|"
    rf"^\s*(?:(?:i|we)(?:'d| would)|you (?:could|might|can)|just|so)? ?(?:still |happily |gladly )?(?:spread|"
    rf"divide|split|distribute|put|place|invest|buy|add|take)\b[^.,;!?]{{0,40}}\b(?:{_BOTH})|"
    r"^\s*that(?:'s| is) (?:precisely|exactly|just) (?:how|the way|what|where|when|why) (?:you (?:should|can|"
    r"could|want to)|(?:i|we)(?:'d| would))\b|"
    r"^\s*(?:(?:at|for|around|with) [^.,!?\n]{1,24},? )?(?:(?:i|we)(?:'d| would)|you (?:could|might|should|"
    r"can)|"
    r"perhaps|maybe|just|so|then)? ?(?:still |happily |gladly |also )?(?:take|buy|purchase|get|pick up|"
    r"open|start|build|"
    r"add|place|make) (?:an? (?:small|modest|little|starter|tiny|first|initial|few|(?:[a-z]+ )?exception)"
    r"(?: (?:starter )?(?:position|stake|holding|hundred|shares|here|for))?|some|another|one(?=[.,;!]|$)|"
    r"\d[\d,]*)\b"
    r"(?! (?:%|percent|years?|months?|days?|minutes?|(?:more )?(?:look|time|steps?|break|care|advice|"
    r"notes?)))|"
    r"^\s*(?:exercise|subscribe to|take up) (?:them|it|these|those|your (?:right|entitlement|allot))|"
    r"^\s*(?:take|put in|(?:i|we)(?:'d| would) put in|(?:i|we)(?:'d| would) take|(?:i|we)(?:'d|"
    r" would) invest|start with) (?:about |around |"
    r"up to )?[$£€¥]?\d|"
    r"^\s*(?:about |around |maybe |say )?(?:\d+%|an? \d+(?:\.\d+)?% (?:punt|stake|slice|position|holding|"
    r"flutter|nibble|bet|sleeve)|an? (?:nibble|punt|flutter|slice|small|modest|little|"
    r"tenth|fifth|"
    r"few)[^,.;!?]{0,20}) (?:(?:won't|will not) hurt|will do|would do|would be (?:about right|fine|plenty|"
    r"enough|right|sensible|reasonable)|is (?:fine|okay|ok|plenty|enough|"
    r"about right|"
    r"reasonable|sensible))\b|"
    r"^\s*(?:我|所以)?(?:建议|推荐|不妨|可以|你可以)你?[^。!?\n]{0,16}(?:这[样么](?!做?:)|这类|"
    r"它|按此|照此|跟进|参与)|^[^。!?\n,]{0,8}(?:买|配|拿|放|认购)[^。!?\n,]{0,12}(?:它|这只|这类|"
    r"这个)(?![^。!?\n]{0,12}(?:比|相较|举例|说事))|^\s*(?![^.!?]{0,40}\b(?:sell|offload|unload|pay|repay|"
    r"selling|offloading|unloading|redeem|exit|trim|clear|dispos\w+|getting rid|"
    r"ignore|avoid|skip|leave|cancel|close|sold|stop|compare|check|read|"
    r"ask|treat|off|down|out of)\b)(?:(?:i|we) (?:suggest|recommend)|(?:i|we)(?:'d| would) (?:still |"
    r"happily |gladly )?(?:build|own|fund|choose|use|draw|spend|buy|purchase|start with|go with|move|"
    r"give|put|hold|size|"
    r"allot|add|take|place|let|hand|tuck|commit)|"
    r"you could|put|buy|purchase|hold|own|allocate|add|tap|grab|take|use|pick|just|let's|give|hand|spend|"
    r"place|"
    r"invest|move|park|shift|switch|send|"
    r"transfer|draw|sweep|drop|stick|"
    r"tuck)[^.!?]{0,40}\b(?:this|that|it|them|there|each|her|him|the (?:facility|credit|proceeds))\b"
)
_ADOPTING_REACH: Final = 220
_ADOPTS: Final = late(
    r"(?:建议|推荐|不妨|可以|就|先|直接|今天|放心|赶紧|都|请|现在|我会|你)(?:{_CLAUSE}){0,10}?(?:买|配|"
    r"拿|放|认购|申购|加|选|投|上|留|埋伏|"
    r"参与|跟|安排|纳入)(?:{_CLAUSE}){0,8}?(?:它(?!(?:和|跟|与|来比|作比|做比|当|推|举|说))|"
    r"这只|这款|这家|这类|这个|这种|此类|进来|进组合|进去)(?!的)|"
    r"[把将给](?:它|这只|这款|这类)(?:{_CLAUSE}){0,8}?(?:买|配|放|加|纳入|安排|留|排|列|写进|"
    r"选)|交给(?:他|她|它|这)|(?:买|选|投|配|"
    r"认购)它(?!的)|"
    r"今天就动手|时机(?:很|正|也)?合适|你(?:可以)?(?:先)?[用拿出]自己|(?:可以|就|今天|"
    r"现在)(?:{_CLAUSE}){0,6}(?:认购|下单|申购|上车|入手)|"
    r"\b(?:buy|purchase|pick|add|choose|go (?:straight )?for|put|place|park|allot|move|shift|invest|"
    r"spend|load up on|grab|take|get|give|hand|tuck|commit|"
    r"trust)\b[^.!?]{0,30}\b(?:it|there|each|her|him|"
    r"this one|this fund|"
    r"this product|them|the stock)\b(?! (?:back|out|slow))|\b(?:could|may|should|can|might|would) (?:go|do|"
    r"work|"
    r"sit|be (?:fun|fine|"
    r"good|right|sensible|enough)) (?:there|in(?:to)? it|nicely)\b|\bthere would (?:be|do|add|make)\b|"
    r"\b(?:i|we) think (?:it|they|these) (?:earns?|deserves?|"
    r"belongs?|fits?)|\bit (?:earns its|deserves (?:a|its)|has (?:a|its)) place\b|"
    r"\b(?:i|we) see it (?:replacing|taking|filling|making up)|\bthe (?:one|only) (?:fund |stock |"
    r"product )?i(?:'d| would) (?:pick|buy|purchase|choose)".replace("{_CLAUSE}", _CLAUSE)
)
_SLEEVE: Final = late(
    r"(?:债券|债|权益|股票|基金)(?:部分|仓位|持仓|份额|占比|比例|权重|资产|仓|[那这][块边份]|端|里)的?|"
    r"\b(?:of|in|within|from) (?:the|your) (?:bond|equity|stock|cash|fund)s? (?:money|sleeve|part|"
    r"portion|allocation|side|pot)\b"
)
REPLACED: Final = late(
    r"(?:替换|替代|代替|取代|换掉|换下|顶替|腾出|减掉|卖掉|来自|出自|比)[^,。;!?\n]{0,14}|"
    r"\b(?:in place of|replacing|instead of|rather than|out of|from|than) [^,.;!?\n]{0,30}"
)
"""What makes room for the topic of an advice: 替换现有的A股红利."""
OTHER_ASSET: Final = compile_pattern(
    r"基金|etf|国债|债券|债基|短债|股票|宽基|指数|存款|定存|存定期|存单|储蓄|纯债|货币基金|短融|货币|黄金|"
    r"红利|现金|"
    r"利率债|(?<![a-z])aaa?[+-]?(?![a-z+-])|fund|bond|"
    r"treasur|index|cash|gold"
)
ENOUGH: Final = late(r"(?:就行|即可|就好|就够|就可以了)")
_SIZED: Final = late(
    r"仓位|占比|比例|权重|给到|进去|可以占|占(?!有率|用|领|据|[^,。;]{0,6}(?:收入|营收|产量|市场|份额|总量))"
)


def adopted_later(analysis: Analysis, position: int) -> bool:
    """Say whether a later sentence takes up what was described: 把它加进组合, it is the one I would pick."""
    norm = analysis.norm
    paragraph = norm.find("\n\n", position)
    reach = min(position + _ADOPTING_REACH, len(norm) if paragraph < 0 else paragraph)
    for match in _ADOPTS.finditer(norm, position, reach):
        low, high = analysis.sentence_span(match.start())
        if (
            negated(analysis, *match.span())
            or conditional(analysis, *match.span())
            or QUESTION_END.search(norm, low, high)
            or VERDICT.search(norm, position, high)
            or BACKS_OUT.search(match.group())
            or attributed(analysis, *match.span())
            or (
                _on_its_own(analysis, position, match.start()) and not _points_back(analysis, position, match)
            )
            or (
                _PRONOUN.search(match.group()) is None
                and takes_up_another(REPLACED.sub("", norm[low : match.end()]), _topic(analysis, position))
            )
        ):
            continue
        return True
    line_end = norm.find("\n", position)
    stop = min(position + _ADOPTING_REACH, len(norm) if line_end < 0 else line_end)
    topic = position
    while position < stop:
        low, high = analysis.sentence_span(position)
        if VERDICT.search(norm, low, high):
            return False
        if _sized(analysis, low, high, topic):
            return True
        position = high
    return False


_SHARE_OF_MONEY: Final = late(
    r"(?:[$£€]\d|\b\d+(?:\.\d+)?(?:%| percent)|\b(?:five|ten|fifteen|twenty|thirty) percent|\d+k\b|"
    r"half (?:of )?(?:the|your|it)\b|(?:a|one) (?:twentieth|tenth|eighth|sixth|fifth|quarter|"
    r"third|half|slice)|"
    r"\b\d{1,3},000)(?! (?:of its|off|loss|a year|per|yield|drop|fall|slip|sink|decline))"
)


_TO_IT: Final = late(
    r"\b(?:with|to|in|into|for) (?:her|him|it|them|that|this)\b|\b(?:in|of) (?:your|"
    r"the) (?:[a-z-]+ )?(?:sleeve|portfolio|mix|plan|account|bucket)\b|\bthere\b"
)


_GOES_ON: Final = late(
    r"\s*(?:(?:(?:for|if|when|since|as|given|with|because|but|still|yet|so|then|well|over|now)\b[^,.;:!?]*|"
    r"(?:你|我|因为|考虑到|如果|若)[^,。;:!?]*|[^,。;:!?]{0,20}(?:后|时|的话|来说|看来|来看|下来|而言)|"
    r"不过|但是?|所以|当然|于是|那么?),){0,2}[^,;:。.!?]*"
)


def _on_its_own(analysis: Analysis, topic: int, start: int) -> bool:
    """Say whether a paragraph behind the topic has named what it is about before ``start``."""
    start += analysis.norm.startswith(" ", start)
    begun = [each for each in analysis.paragraphs if topic <= each <= start]
    return bool(begun) and _GOES_ON.fullmatch(analysis.norm, begun[-1], start) is None


_PRONOUN: Final = late(r"[把将给买选投]它|(?:这|那)[只款家]")
"""What is bought is what was told of, whatever else pays for it: 从货币基金里匀一点买它."""
_THIS_PRODUCT: Final = late(r".*(?:这|该|此)[款只类](?:产品|基金|理财|债券?|股票|标的|品种)?$")
_A_PRODUCT: Final = late(r"(?<![这该此])[款只类](?:产品|基金|理财)|[一几两三]只")


def _points_back(analysis: Analysis, topic: int, match: re.Match[str]) -> bool:
    """Say whether a match speaks of this product, and its paragraph names none that it could be."""
    low = begin(analysis, match.start())
    return (
        _THIS_PRODUCT.match(match[0]) is not None
        and _A_PRODUCT.search(analysis.norm, low, match.start()) is None
        and not takes_up_another(analysis.norm[low : match.start()], _topic(analysis, topic))
    )


def _sized(analysis: Analysis, low: int, high: int, topic: int) -> bool:
    """Say whether a clause of the sentence proposes a size and names no asset: I'd still commit a tenth."""
    norm = analysis.norm
    if QUESTION_END.search(norm, low, high):
        return False
    start = low
    while start < high:
        clause_low, clause_high = analysis.clause_span(start, start + 1)
        clause = norm[clause_low:clause_high]
        start = clause_high + 1
        sized = SIZED_DEAL.search(clause) or (
            _SHARE_OF_MONEY.search(clause) and (DEALS.search(clause) or _TO_IT.search(clause))
        )
        if (
            sized
            and (STRONG.search(clause) or OFFER.search(clause) or ORDER.match(clause))
            and not (BACKS_OUT.search(clause) or OTHER_ASSET.search(_SLEEVE.sub("", clause)))
            and not conditional(analysis, clause_low, clause_high)
            and not attributed(analysis, clause_high - 1, clause_high)
            and not _on_its_own(analysis, topic, clause_low)
            and not takes_up_another(
                REPLACED.sub("", _SLEEVE.sub("", norm[low:clause_high])), _topic(analysis, topic)
            )
        ):
            return True
    return False


def _topic(analysis: Analysis, position: int) -> str:
    """Return the sentence that ends at, or holds, the position."""
    return analysis.norm[slice(*analysis.sentence_span(max(position - 1, 0)))]


_OTHER_MONEY: Final = late(
    r"闲钱|自有|工资|存款|奖金|年终奖|积蓄|结余|照旧|照常|不变|定投|\b(?:own money|savings|spare cash|"
    r"salary|bonus)\b"
)
"""What is bought with other money than the topic's."""


def taken_up(norm: str, start: int, end: int, *, funding: bool = False) -> bool:
    """Say whether a later clause of the sentence deals with the topic: 分级B弹性大，…，配5%就好.

    With ``funding`` the topic is where money comes from, so whatever is bought takes it up.
    """
    if funding and _OTHER_MONEY.search(norm, start, end):
        funding = False
    for clause in re.split(r"[,:](?!\d{3})", norm[start:end]):
        if BACKS_OUT.search(clause) or (not funding and OTHER_ASSET.search(_SLEEVE.sub("", clause))):
            continue
        if SIZED_DEAL.search(clause) or (funding and ORDER.match(clause)):
            return True
        if ENOUGH.search(clause) and (DEALS.search(clause) or WEIGHTED.search(clause)):
            return True
        if OFFER.search(clause) or (
            WEIGHTED.search(clause) and (ORDER.match(clause) or _SIZED.search(clause))
        ):
            return True
    return False
