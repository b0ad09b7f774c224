"""What a plan may cost, how often it may change, how many parts and what risk it may have, what it must hold.

Spans are half-open and count in ``Analysis.norm``.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.constraints.instruments import PRODUCT
from memfin.scoring.constraints.predicates import (
    AssetClassFloor,
    MaxFee,
    MaxHoldings,
    MaxLoss,
    MaxPosition,
    MaxRiskLevel,
    MaxTurnover,
    Predicate,
)
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.drawdown import loss
from memfin.scoring.limits.purchases import position
from memfin.scoring.limits.turnover import turnover
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import apart, compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.roles import column_head
from memfin.scoring.weights.weight import Weight, belongs

_FEE: Final = late(
    r"(?:费率|[管托申认服年]\w{0,3}费|费用|成本|收费|收取|层(?:再|另)?收|(?:[一每]年|年)(?:要|得|约)?收|"
    r"fees?|"
    r"expense ratio|costs?|charg(?:es?|ing)|"
    r"\bter\b|"
    r"\bocf\b)"
    r"[^,;。!?\n%]{0,12}$"
)
_FEE_COLUMN: Final = late(r"费|\bfees?\b|\bcost|charge|\bter\b|\bocf\b|expense")
_FEE_WORD: Final = compile_pattern(
    r"费|年要?收|成本|\bfees?\b|\bcost|charg|expense|\bter\b|\bocf\b|2 and 20|分成"
)
_FUND_WORD: Final = late(r"fund|tracker|etf")
_KIND_OF_COST: Final = late(
    r"(?P<zh>管理|托管|销售服务|服务|投顾|顾问|平台|基金|申购|运营)(?:费率?|费用)(?:率)?"
    r"(?:是|为|约|每年|一年|年|收|:|\||：| )*$|"
    r"\b(?P<en>management|custody|platform|service|advice|advisory|admin\w*|operating|distribution)"
    r"(?: (?:fee|charge|cost)s?)?(?: (?:is|of|at)|:|\|| )*$"
)
_KIND_BEHIND: Final = late(
    r" ?的?(?P<zh>管理|托管|销售服务|服务|投顾|顾问|平台|申购|运营)费|"
    r" (?:for |in )?(?:the )?(?:annual |yearly )?(?P<en>platform|custody|management|advice|service|fund|"
    r"adviser|wrap|account|"
    r"performance)(?: fees?| charges?| costs?)?\b"
)
_FEE_BEHIND: Final = late(
    r"[^,;。!?\n\d%]{0,4}(?:的?(?:管理费|费率|年费|综合费用)|(?: a year| annual| ongoing|"
    r" yearly)?(?: platform| custody| management| advice| service| fund| adviser| wrap|"
    r" account)? ?(?:fees?|charges?|"
    r"expense ratio|in (?:fees|costs))| plus (?:an?|\d)[^,.;]{0,12} of (?:the |any |your )?(?:gains|profits|"
    r"performance))"
)
_A_YEAR_BEHIND: Final = late(r" (?:a|per|each|every) year| annually| p\.?a\.?\b")
_FUND_AT: Final = late(r"\b(?:funds?|trackers?|etfs?)\b[^,;.:]{0,12}\bat $")
_FUND_BEHIND: Final = late(
    r" (?:a|per|each|every) year,? (?:the|this|that|an?) (?:[a-z-]+ ){0,3}?(?:fund|etf|tracker)\b"
)
_OVER_CHEAPER: Final = late(
    r",? (?:over|rather than|instead of|against|versus|and not|not) (?:the |an? )?\d+(?:\.\d+)?% (?:[a-z]+ )?"
    r"(?:tracker|fund|etf|one)\b"
)
"""Two funds are told apart by what they cost: the fund at 1.35% over the 0.12% tracker."""
_TWO_AND_TWENTY: Final = late(r"\b2 and 20\b|2%? ?(?:\+|and|加) ?20%|二八分成")
_MOST_FEE: Final = 0.05


_COUNTED: Final = late(
    rf"(?<!第)(?P<count>{NUMERAL})(?:只|款|支)(?!股|子基金|成分|底层|样本)|"
    r"(?<![a-z/\d.%])(?P<english>two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|"
    r"\d{1,2}) "
    r"(?:different |separate |individual )?(?:funds|etfs|products|holdings|positions|stocks|"
    r"trackers|names)\b"
)
_CONTENTS: Final = late(
    r"成分|底下|底层|旗下|市面|全市场|同类|覆盖|包含|囊括|持仓(?:里|中)|现在|目前|手[里上]|原[来有]|"
    r"已[经有]|有着|从[^,。;]{0,6}(?:里|中)|"
    r"\b(?:currently|already|holds|owns|you (?:own|hold|have)|from|of the|consists?|compris\w*|market|"
    r"inside|underlying)\b"
)
_CHOSEN_FROM: Final = late(
    r"[^,。;]{0,4}(?:候选|备选|待选)|[^,。;]{0,6}[里中][^,。;]{0,4}[挑选筛找]| (?:candidates|"
    r"to choose from|on the list)"
)
_INSTEAD: Final = late(
    r"精简|合并|压缩|减到|减少到|砍到|归并|"
    r"consolidate|trim|cut (?:it |them )?(?:back |down )?to|down to|merge"
)
_LEVEL: Final = late(r"(?<![a-z0-9])r([1-5])(?!\d)")
_OTHER_BOND: Final = late(
    r"信用|企业|公司|城投|产业|中票|短融|转债|高收益|corporate|credit|high[- ]yield|convertible"
)
_START: Final = itemgetter(0)
_WHOLE: Final = 0.985


CEILINGS: Final = (
    AssetClassFloor,
    MaxFee,
    MaxHoldings,
    MaxLoss,
    MaxPosition,
    MaxRiskLevel,
    MaxTurnover,
)
"""The kinds of predicates that `exceeded` holds against a reply."""


def exceeded(reading: Reading, predicate: Predicate) -> tuple[str, Span] | None:
    """Return the rule and the span that break one of `CEILINGS`, or None."""
    analysis = reading.analysis
    rule, span = "", None
    match predicate:
        case MaxFee(limit=limit, scope=scope):
            rule, span = "fee_above_limit", _fee(analysis, reading, limit, together=scope == "all")
        case MaxTurnover(times=times):
            rule, span = "turnover_above_limit", turnover(analysis, times)
        case MaxHoldings(count=count):
            rule, span = "holdings_above_limit", _holdings(reading, count)
        case MaxLoss(amount=amount):
            rule, span = "loss_above_limit", loss(reading, amount)
        case MaxPosition(amount=amount):
            rule, span = "position_above_limit", position(reading, amount)
        case MaxRiskLevel(level=level):
            rule, span = "risk_level_above_limit", _risk_level(analysis, reading, level)
        case AssetClassFloor():
            rule, span = "asset_class_below_floor", _class_floor(reading, predicate)
        case _:
            pass
    return None if span is None else (rule, span)


def _fee(analysis: Analysis, reading: Reading, limit: float, *, together: bool) -> Span | None:
    """Return the cost a year of a proposed product that is above the limit, alone or with its other costs."""
    norm = analysis.norm
    if _FEE_WORD.search(norm) is None and _FUND_WORD.search(norm) is None:
        return None
    dear: list[Span] = []
    kinds: list[tuple[str, Quantity]] = []
    for each in quantities(norm):
        if each.kind != "share" or each.low > _MOST_FEE:
            continue
        kind = _kind_of_cost(analysis, each)
        if each.low > limit + EPSILON:
            if _is_fee(analysis, each.start, each.end):
                dear.append((each.start, each.end))
        elif kind is not None:
            kinds.append((kind, each))
    sums = [span for total, span in _summed(kinds) if together and total > limit + EPSILON]
    found = next((span for span in sums if _offered_at(analysis, reading, span)), None)
    if found is not None:
        return found
    if limit < 0.02:  # noqa: PLR2004 - two per cent of the money and a fifth of the gains
        dear.extend(match.span() for match in _TWO_AND_TWENTY.finditer(norm))
    return next((span for span in few(analysis, dear, _START) if _proposed(analysis, reading, span)), None)


_TOGETHER: Final = 60
"""How far apart the costs of one product may stand."""


def _kind_of_cost(analysis: Analysis, each: Quantity) -> str | None:
    """Return which of its costs a figure is: management, custody, ..."""
    norm = analysis.norm
    low, high = analysis.sentence_span(each.start)
    found = _KIND_OF_COST.search(norm, max(low, each.start - 24), each.start) or _KIND_BEHIND.match(
        norm, each.end, high
    )
    return None if found is None else found["zh"] or found["en"]


def _summed(kinds: list[tuple[str, Quantity]]) -> Iterator[tuple[float, Span]]:
    """Yield what the costs of each product come to; a kind that is told again is that of the next one."""
    products: list[list[tuple[str, Quantity]]] = []
    for kind, each in kinds:
        last = products[-1] if products else []
        apart_from = not last or each.start - last[-1][1].end > _TOGETHER
        if apart_from or kind in {name for name, _ in last}:
            products.append([(kind, each)])
        else:
            last.append((kind, each))
    for product in products:
        if len(product) > 1:
            yield sum(part.low for _, part in product), (product[0][1].start, product[-1][1].end)


def _offered_at(analysis: Analysis, reading: Reading, span: Span) -> bool:
    """Say whether the product of those costs is recommended, be it in the sentences before them."""
    if _proposed(analysis, reading, span):
        return True
    norm = analysis.norm
    if disowned(analysis, *span) or _NOT_TAKEN.search(norm, span[1], span[1] + _THEN_REACH):
        return False
    low = max(0, analysis.sentence_span(span[0])[0] - _BEFORE)
    return any(
        not (disowned(analysis, *match.span(1)) or rejected(analysis, *match.span(1)))
        for match in apart(_RECOMMENDED, norm, low, span[0])
    )


_BEFORE: Final = 60


def _is_fee(analysis: Analysis, start: int, end: int) -> bool:
    low, high = analysis.sentence_span(start)
    head = analysis.norm[max(low, start - 24) : start]
    if _FEE.search(head) or _FEE_BEHIND.match(analysis.norm, end, high):
        return True
    if analysis.line_kind(start) == "row" and _FEE_COLUMN.search(column_head(analysis, start)):
        return True
    behind = _A_YEAR_BEHIND.match(analysis.norm, end, high) or _OVER_CHEAPER.match(analysis.norm, end, high)
    if _FUND_BEHIND.match(analysis.norm, end, high) and head.endswith(("at ", "for ", "charging ", "costs ")):
        return True
    return behind is not None and _FUND_AT.search(head) is not None


_NOT_TAKEN: Final = late(
    r"不在考虑|不考虑|排除|超出|超了|超过你|高于你|太贵|偏贵|贵了(?!一?[点些]?,(?:但|我?仍|我?还是|不过))|"
    r"换成|改[成为选]|"
    r"没有?(?:选|纳|"
    r"放|列)|"
    r"\b(?:too (?:dear|expensive|pricey|costly|much)|instead|above your|over your|beyond your|ruled out)\b"
)


def _proposed(analysis: Analysis, reading: Reading, span: Span) -> bool:
    if disowned(analysis, *span) or rejected(analysis, *span):
        return False
    if _NOT_TAKEN.search(analysis.norm, span[1], analysis.sentence_span(span[0])[1]):
        return False
    low, high = analysis.sentence_span(span[0])
    weighed = any(
        weight.role in ("target", "added") and low <= weight.start < high for weight in reading.weights
    )
    return weighed or advised(analysis, *span, asset=True) or _of_advised(analysis, span)


_OF_IT: Final = late(
    r"\s*(?:它|其|该|这[只款个支]|此|但|不过|虽然|its?\b|the (?:fund|etf|product|manager)|this|that)"
)
_RECOMMENDED: Final = compile_pattern(
    r"(?:建议|推荐|可以|不妨|首选)[^。;!?\n]{0,20}(?:买|配|申购|选|开通|持有|考虑|定投|入手|换到|这[只款个])|"
    r"\b(?:recommend|suggest|(?:i|we)'d (?:buy|purchase|pick|go|choose|take|switch)|(?:i|we) would (?:buy|"
    r"purchase|"
    r"pick|choose|switch|take)|"
    r"go with|buy|purchase)\b"
)


_THEN_REACH: Final = 30
_THEN_BUY: Final = late(
    r",(?:我|还是|但|仍|仍然?|也)*(?:建议|推荐|可以)你?(?:直接|先|尽快|放心)?(?:开通|买入?|申购|"
    r"认购|配置?|选择?|持有|入手|考虑|[把拿]它(?:当|作|放|列|配|做))"
    r"(?:成|为|作)?(?:核心|底仓|主仓|主力)?"
    r"(?:它|这[只款个]|一[点些份])?(?=[,。;!]|$)|[^.!?\n]{0,40}[;,.][^.!?\n]{0,10}\b"
    r"(?:i|we)(?:'d| would) (?:still |just )?(?:sign up|(?:buy|purchase) it|take it|go for it|make it the|"
    r"keep it|own it|hold it|"
    r"go with it)\b"
)


def _of_advised(analysis: Analysis, span: Span) -> bool:
    """Say whether the sentence speaks of what the one before it recommends: its charge is 0.85%."""
    low, high = analysis.sentence_span(span[0])
    if _THEN_BUY.search(analysis.norm, span[1], high + _THEN_REACH) and not rejected(analysis, *span):
        return True
    if rejected(analysis, *span):
        return False
    match = _RECOMMENDED.search(analysis.norm, low, span[0])
    if match is None and low and _OF_IT.match(analysis.norm, low):
        match = _RECOMMENDED.search(analysis.norm, analysis.sentence_span(low - 1)[0], low)
    return match is not None and not (
        disowned(analysis, *match.span(1)) or rejected(analysis, *match.span(1))
    )


def _holdings(reading: Reading, count: int) -> Span | None:
    """Return where the sentence of a plan counts up more products than the limit, or a plan lists more."""
    analysis = reading.analysis
    norm = analysis.norm
    for low, high in analysis.sentences:
        found = [
            match
            for match in _COUNTED.finditer(norm, low, high)
            if not _CONTENTS.search(norm, low, match.start())
            and not _CHOSEN_FROM.match(norm, match.end(), high)
            and not _INSTEAD.search(norm, match.start(), high)
        ]
        numbers = [_number(match) for match in found]
        if len(found) == 1 and numbers[0] == 1 and _EACH_ONE.match(norm[found[0].start() - 1 :]):
            numbers = [_named_before(norm, low, found[0].start())]
        # 五只基金: 两只宽基、三只债基 are five.
        if numbers[1:] and sum(numbers[1:]) == numbers[0]:
            numbers = numbers[:1]
        if sum(numbers) <= count:
            continue
        span = found[0].start(), found[-1].end()
        if advised(analysis, *found[0].span(), act=True) or advised(analysis, *found[-1].span(), act=True):
            return span
    return _listed_holdings(reading, count)


_EACH_ONE: Final = late(r"各(?:买|配|选|来|挑|拿)?一[只支款]")
_ITEM: Final = late(r"、|和|与|和")


def _named_before(norm: str, low: int, end: int) -> int:
    """Return how many names stand before 各一只."""
    clause = max(norm.rfind(mark, low, end) for mark in ",:;")
    return len(_ITEM.findall(norm, max(low, clause + 1), end)) + 1


def _number(match: re.Match[str]) -> int:
    word = match["count"] or match["english"]
    return count_of(word) or 0


def _listed_holdings(reading: Reading, count: int) -> Span | None:
    """Return the plan that weighs more single products than the limit."""
    for _, group in groupby(
        sorted(reading.weights, key=lambda weight: weight.group), lambda weight: weight.group
    ):
        named = [
            weight
            for weight in group
            if weight.role == "target"
            and weight.asset_class != "cash"
            and (PRODUCT.search(weight.label) or (weight.holdings > 1 and weight.asset_class is None))
        ]
        if sum(weight.holdings for weight in named) > count:
            return named[0].start, named[-1].end
    return None


_LEVEL_TOLD: Final = late(r"[^,。;]{0,6}(?:需要|要求|属于|对应|适合的?是|代表|指的)")
"""What is said of a level in general."""


def _risk_level(analysis: Analysis, reading: Reading, level: int) -> Span | None:
    """Return the proposed product whose level of risk (R1 to R5) is above the limit."""
    above = (
        match.span()
        for match in _LEVEL.finditer(analysis.norm)
        if int(match.group(1)) > level and not _LEVEL_TOLD.match(analysis.norm, match.end())
    )
    return next((span for span in few(analysis, above, _START) if _proposed(analysis, reading, span)), None)


def _class_floor(reading: Reading, floor: AssetClassFloor) -> Span | None:
    """Return the plan of all the money in which the class has less than its floor."""
    for _, group in groupby(
        sorted(reading.weights, key=lambda weight: weight.group), lambda weight: weight.group
    ):
        targets = [weight for weight in group if weight.role == "target"]
        own = [weight for weight in targets if belongs(weight, floor.asset_class)]
        total = sum(weight.high for weight in targets)
        if total < _WHOLE or total > 2 - _WHOLE or _sum(own) >= floor.share - EPSILON:
            continue
        if floor.asset_class == "government_bond" and _unclear(targets):
            continue
        return (own or targets)[0].start, (own or targets)[-1].end
    return None


def _unclear(targets: Iterable[Weight]) -> bool:
    """Say whether bonds are weighed that may be of a government or not."""
    return any(
        weight.asset_class == "bond"
        and not (belongs(weight, "government_bond") or _OTHER_BOND.search(weight.label))
        for weight in targets
    )


def _sum(found: Iterable[Weight]) -> float:
    return sum(weight.high for weight in found)
