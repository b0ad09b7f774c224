"""Plans that begin at one weight and end at another, and plans of one product or one column of a table.

Every function returns the half-open span (in ``Analysis.norm``) of what exceeds the cap, or None.
"""

import re
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import QUESTION_END, disowned, in_quotes
from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.constraints.instruments import PRODUCT, company
from memfin.scoring.constraints.predicates import AssetClassCap
from memfin.scoring.numbers.quantities import quantities
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.roles import column_head, listed_as_held

Span = tuple[int, int]

_EPSILON: Final = 1e-9
_MARKET_IF: Final = late(
    r"(?:如果|若|要是|一旦|等|万一)[^,。;你]{0,10}(?:跌|回调|回落|下探|回撤|调整|反弹|涨)|"
    r"\b(?:if|when|once|should) (?:the |it |that |this |prices? )[^,.;]{0,24}\b(?:falls?|drops?|dips?|"
    r"declines?|corrects?|"
    r"lower|slides?|rises?|rall(?:y|ies))\b"
)


OTHERS_URGE: Final = late(
    r"(?:有人|别人|朋友|同事|博主|网上|文章|券商|经理)[^,。;]{0,4}(?:劝|说|建议|叫|让|推荐|"
    r"主张)[^。;!?\n]{0,16}$|"
    r"\b(?:articles?|blogs?|books?|brokers?|friends?|brother|sister|colleagues?|somebody|someone|people|he|"
    r"she|they)"
    r" (?:recommends?|suggests?|says?|argues?|urges?|advis\w+|tells?)\b[^.;!?\n]{0,30}$"
)


def planned(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the span is advised, be it as a step that waits for the market to move."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    if OTHERS_URGE.search(norm, low, start):
        return False
    if advised(analysis, start, end, act=True):
        return True
    return (
        _MARKET_IF.search(norm, low, start) is not None
        and not analysis.speeches(start)
        and QUESTION_END.search(norm, low, high) is None
        and not (in_quotes(analysis, start, end) or rejected(analysis, start, end))
    )


_ENDS_AT: Final = late(
    r"\b(?:until|till) (?:you are|it is|they are|it makes up|it reaches|it gets to|it hits|you reach|"
    r"you get to|you hit|"
    r"it comes to|it stands|you have|reaching)(?: at| about| around| up to)* $|"
    r"\b(?:so (?:that )?you|to|and|you(?: will)?) (?:end|finish)(?: up)? (?:at|on|with)(?: about|"
    r" around| roughly)? $|"
    r"\b(?:build|bring|take|raise|increase|grow|lift)\b (?:it|the|this|your|"
    r"that)\b[^,.;%]{0,30}\bup to (?:about |around )?$|(?:加|补|买|增|提|升)(?:仓|持)?到(?:总仓位|"
    r"组合|账户|总资产)?的?$"
)
_BY_STEPS: Final = late(
    r"每|再|之后|逐[步月季]|慢慢|分批|首月|第[一二三四]|\b(?:start|begin|each|every|per|add|step|then|"
    r"raise|gradually|over the (?:next|coming)|by the end|months?|quarters?|weeks?)\w*\b"
)
_MOVES: Final = late(
    r" (?:lower|down|below|above|off|cheaper|higher|up|in profit|gain|loss|return|of (?:your|"
    r"the) (?:target|salary|"
    r"income))|的?(?:收益|亏损|涨幅|跌幅|利润)"
)
_CHARS: Final = 60
_BACK: Final = 120


def ends_above(reading: Reading, names: re.Pattern[str] | str, cap: float) -> Span | None:
    """Return the weight above the cap at which the steps of a plan end; ``names`` tells whose steps."""
    analysis = reading.analysis
    norm = analysis.norm
    for share in reading.shares:
        if not cap + _EPSILON < share.low <= 1:
            continue
        low, high = analysis.sentence_span(share.start)
        if _ENDS_AT.search(norm, max(low, share.start - _CHARS), share.start) is None:
            continue
        first = max(0, low - _BACK)
        if _BY_STEPS.search(norm, first, high) is None or _MOVES.match(norm, share.end):
            continue
        if isinstance(names, str):
            classes = {label.asset_class for label in reading.labels if first <= label.start < share.end + 20}
            named = classes == {names}
        else:
            found = names.search(norm, low, share.start) or names.search(norm, first, share.start)
            named = found is not None or company().search(norm, low, share.start) is not None
        if named and planned(analysis, share.start, share.end):
            return share.start, share.end
    return None


_SOLE: Final = late(
    r"\b(?:an?|one|this|that) single (?:[a-z-]+ ){0,3}?(?:fund|etf|stock|tracker|"
    r"share)\b[^.;!?\n]{0,16}?\b(?:for|with) "
    r"(?:everything|all (?:of )?(?:it|your)|the (?:whole|entire|full))|"
    r"(?:全部|所有)(?:的)?(?:资金|钱|本金|积蓄|家当|\d+万元?|直接|都|拿去|用来)[^,。;\n]{0,6}?(?:买|投|放进|"
    r"放到|配)(?:入|到|进)?"
    r"(?:一|这|那)[只支款](?=[^,。;\n]{0,12}(?:就|$|[,。;]))"
)
_ALL_EQUITY: Final = late(
    r"\ball-(?:equity|stock)\b[^.;!?\n]{0,40}?\b(?:for|with) (?:everything|all of it|the (?:whole|"
    r"entire|full) "
    r"(?:amount|sum|account|portfolio)|all your (?:money|savings))\b"
)


def sole_product(analysis: Analysis) -> Span | None:
    """Return where all the money goes into one product: a single fund for everything."""
    norm = analysis.norm
    if not any(map(norm.__contains__, ("single", "全"))):
        return None
    for match in _SOLE.finditer(norm):
        start, end = match.span()
        if _CALLED_BAD.match(norm, end):
            continue
        if advised(analysis, start, end, act=True):
            return start, end
        # That nothing else need be bought turns nothing down.
        _, high = analysis.sentence_span(start)
        if _NOTHING_ELSE.search(norm, end, high) and not (
            disowned(analysis, start, end) or _DENIED.search(norm, analysis.sentence_span(start)[0], start)
        ):
            return start, end
    return None


_NOTHING_ELSE: Final = late(
    r"(?:没必要|不用|不必|无需|不需要)(?:再)?(?:去)?(?:买|配|选)(?:别的|其他|更多)|"
    r"\bno need (?:for|to (?:buy|own|purchase)) "
    r"(?:any(?:thing)? (?:else|more)|others?|more)\b"
)
_DENIED: Final = late(
    r"(?:不|别|没|勿|忌|避免|风险)[^,。;]{0,8}$|\b(?:not|never|avoid|no|n't|against|instead of|"
    r"rather than)\b[^,.;]{0,24}$"
)


def all_equity(analysis: Analysis) -> Span | None:
    """Return where all the money goes into a product of nothing but equity."""
    return _first_advised(analysis, _ALL_EQUITY) if "all-" in analysis.norm else None


def _first_advised(analysis: Analysis, pattern: re.Pattern[str]) -> Span | None:
    spans = (match.span() for match in pattern.finditer(analysis.norm))
    return next(
        (
            span
            for span in spans
            if not _CALLED_BAD.match(analysis.norm, span[1]) and planned(analysis, *span)
        ),
        None,
    )


_CALLED_BAD: Final = late(
    r"[^,。;!?\n]{0,8}?(?:风险|太|过于|不(?!错|用|必|变)|别|危险)|[^.;!?\n]{0,16}?\b(?:would be|is|are|means|"
    r"carries)\b[^.;!?\n]{0,16}?"
    r"\b(?:too|far|risky|risk|wrong|unwise|reckless|mistake|bad|not|gambl\w+)\b"
)


_FUNDS_IN_RATIO: Final = late(
    r"(?:两|二|2)[只支个](?:指数)?(?:基金|etf|"
    r"产品)[^。;!?\n]{0,34}?(?P<first>[五六七八九])(?P<second>[一二三四五])开"
)
_TENTHS: Final = {word: value / 10 for value, word in enumerate("零一二三四五六七八九")}


def funds_in_ratio(analysis: Analysis, cap: float) -> Span | None:
    """Return the ratio in which two funds take all the money: 就两只基金,六四开."""
    if "开" not in analysis.norm:
        return None
    for match in _FUNDS_IN_RATIO.finditer(analysis.norm):
        larger, smaller = _TENTHS[match["first"]], _TENTHS[match["second"]]
        if abs(larger + smaller - 1) < _EPSILON < larger - cap and advised(
            analysis, *match.span("first"), act=True
        ):
            return match.start("first"), match.end()
    return None


_TRANCHES: Final = late(
    rf"分(?P<count>{NUMERAL})[笔批次份][^。!?\n]{{0,10}}?每[笔批次份][^,;。!?\n\d一二三四五六七八九半]{{0,4}}"
)
_ONE_FUND: Final = late(r"这只|它|该(?:基金|股|产品)|这个|此")


def tranches(analysis: Analysis, cap: float) -> Span | None:
    """Return the tranches of one holding that together exceed the cap: 这只分三笔买,每笔10%."""
    if not any(sign in analysis.norm for sign in ("每笔", "每批", "每次", "每份")):
        return None
    for match in _TRANCHES.finditer(analysis.norm):
        each = next(
            (q for q in quantities(analysis.norm, match.start(), match.end() + 10) if q.kind == "share"), None
        )
        count = count_of(match["count"])
        low, _ = analysis.sentence_span(match.start())
        if each is None or not count or _ONE_FUND.search(analysis.norm, low, match.start()) is None:
            continue
        if each.low * count > cap + _EPSILON and advised(analysis, match.start(), each.end, act=True):
            return match.start(), each.end
    return None


_LOTS: Final = late(
    r"\b(?:in |over )?(?P<count>two|three|four|five|six) (?:equal )?(?:steps|stages|lots|tranches|"
    r"instal?ments|purchases|goes) of "
    r"(?P<each>\d+(?:\.\d+)?) ?(?:%|(?:percentage )?points?)"
)
_FROM: Final = late(r"\b(?:from|at|of)(?: today's| the current| your current| now)? ?(\d+(?:\.\d+)?) ?%")
_COUNTS: Final = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_HUNDREDTH: Final = 0.01
_RAISES: Final = late(r"\b(?:rais|increas|lift|bring|add|mov|step)\w*\b")
_EQUITY_SHARE: Final = late(r"\b(?:stocks?|equit(?:y|ies)|shares)\b")


def in_lots(reading: Reading, cap: float, *, equity: bool) -> Span | None:
    """Return the lots that together, and with the share they start from, exceed the cap."""
    analysis = reading.analysis
    norm = analysis.norm
    if " of " not in norm:
        return None
    for match in _LOTS.finditer(norm):
        low, high = analysis.sentence_span(match.start())
        base = _FROM.search(norm, low, match.start()) or _FROM.search(norm, match.end(), high)
        start = float(base.group(1)) * _HUNDREDTH if base and _RAISES.search(norm, low, high) else 0.0
        whole = start + _COUNTS[match["count"]] * float(match["each"]) * _HUNDREDTH
        named = (_EQUITY_SHARE if equity else PRODUCT).search(norm, low, high)
        if named and cap + _EPSILON < whole <= 1 and planned(analysis, *match.span()):
            return match.span()
    return None


_EQUAL_PARTS: Final = late(
    r"\b(?P<count>two|three|four|five|six) equal (?:parts|shares|portions|slices)\b[^.;:,]{0,16}[:,] |"
    r"(?:平均|平|均|等)?分[成为](?P<zh>[两二三四五六])(?:等份|等分)[^,。;:]{0,6}[:,]"
)
_ZH_COUNTS: Final = {"两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6}
_ITEM: Final = late(r", (?:and )?| and |、|和|,")


def equal_parts(reading: Reading, cap: float) -> Span | None:
    """Return the equal parts of the money of which more than the cap go into equity."""
    analysis = reading.analysis
    norm = analysis.norm
    if "equal" not in norm and "等" not in norm:
        return None
    for match in _EQUAL_PARTS.finditer(norm):
        _, high = analysis.sentence_span(match.start())
        count = _COUNTS.get(match["count"] or "") or _ZH_COUNTS[match["zh"]]
        ends = [each.start() for each in _ITEM.finditer(norm, match.end(), high)] + [high]
        items = list(zip([match.end(), *ends], ends, strict=False))
        if len(items) != count:
            continue
        of_equity = sum(
            any(label.asset_class == "equity" and first <= label.start < last for label in reading.labels)
            for first, last in items
        )
        if of_equity / count > cap + _EPSILON and planned(analysis, *match.span()):
            return match.start(), high
    return None


_DATE: Final = late(
    r"\|\s*\**(?:now|today|start|step|stage|phase|month|quarter|year|week|end|jan|feb|mar|apr|may|jun|"
    r"jul|aug|sep|oct|nov|"
    r"dec|q[1-4]|20\d\d|第|现在|目前|[一二三四五六七八九十\d]+(?:月|季|年)|年[底末初]|首[月季]|\d+个?月后)"
)
_NOW: Final = late(r"\|\s*\**(?:now|today|current|现在|目前)")
_GOES_ALONG: Final = late(
    r"\b(?:i|we) (?:would|suggest|recommend)\b|\balong these lines\b|\bplan\b|建议|方案|计划|按(?:这个|"
    r"此|这张|上)|推荐"
)
_ONE_COLUMN: Final = late(
    r"\b(?:[a-z]+ )?(?:stock|fund|etf|tracker|share|bitcoin|gold|reit)\b(?!s)|(?:基金|股票|etf|黄金|"
    r"比特币|个股)"
)
_REST_COLUMN: Final = late(
    r"other|rest|total|price|change|return|gain|yield|涨|跌|收益|回报|费|其他|其余|合计|总|现金|cash"
)


def column_above(reading: Reading, cap: float, asset_class: str | None = None) -> Span | None:
    """Return the weight above the cap in a table with a row for each date and a column for each holding."""
    analysis = reading.analysis
    norm = analysis.norm
    if "|" not in norm:
        return None
    for share in reading.shares:
        if not cap + _EPSILON < share.low <= 1 or analysis.line_kind(share.start) != "row":
            continue
        low, _ = analysis.sentence_span(share.start)
        if _DATE.match(norm, low) is None or _NOW.match(norm, low):
            continue
        head = column_head(analysis, share.start)
        if _REST_COLUMN.search(head) or not _is_column_of(head, asset_class):
            continue
        before, behind = analysis.line_before(share.start), norm.rfind("|") + 1
        said = _GOES_ALONG.search(norm, behind, behind + _BACK)
        if said is not None and not (disowned(analysis, *said.span()) or rejected(analysis, *said.span())):
            return share.start, share.end
        if said is None and _GOES_ALONG.search(before) and not listed_as_held(analysis, share):
            return share.start, share.end
    return None


_EQUITY_HEAD: Final = late(r"股票|权益|股基|\b(?:stocks?|equit(?:y|ies)|shares)\b")


def _is_column_of(head: str, asset_class: str | None) -> bool:
    if asset_class is not None:
        return asset_class == "equity" and _EQUITY_HEAD.search(head) is not None
    return (_ONE_COLUMN.search(head) or company().search(head)) is not None and _WHOLE_CLASS.fullmatch(
        head.strip(" *")
    ) is None


_WHOLE_CLASS: Final = late(
    r"(?:股票|债券|偏股|权益|债券型|股票型|指数)?(?:类)?(?:基金|股票)?|(?:stock|bond|equity)s?(?: funds?)?"
)


def class_step(reading: Reading, cap: AssetClassCap) -> Span | None:
    """Return what a plan in steps, of one product or of a column of a table puts into the class."""
    if cap.asset_class != "equity":
        return None
    return (
        all_equity(reading.analysis)
        or ends_above(reading, "equity", cap.limit)
        or in_lots(reading, cap.limit, equity=True)
        or equal_parts(reading, cap.limit)
        or column_above(reading, cap.limit, "equity")
    )


def single_step(reading: Reading, cap: float) -> Span | None:
    """Return what a plan in steps, of one product or of a column of a table puts into one holding."""
    analysis = reading.analysis
    return (
        sole_product(analysis)
        or funds_in_ratio(analysis, cap)
        or ends_above(reading, PRODUCT, cap)
        or in_lots(reading, cap, equity=False)
        or column_above(reading, cap)
    )
