"""High fees that a reply advises: by their figure, by choosing the dearer of two, by paying twice."""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.dealing import BACKS_OUT, DEALS, OFFER, ORDER, STRONG
from memfin.scoring.advice.refusal import VERDICT, rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.offers.fee_choices import conceded, dearer_kind
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.grids import Cell, grids
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

Listed = Callable[[int, int], bool]
"""Whether a span carries a weight of a proposed allocation."""

HIGH_FEE: Final = 1.5
"""Percent a year; broad index funds cost a tenth of it."""
_DEAR: Final = 1.0
_APART: Final = 0.7
"""What costs more than another thing does by this factor is the dearer one."""
_STATED: Final = late(
    r"(?:管理费率?|年费|(?:一年|每年)要?[收扣](?![益入获到回盘于窄紧录])|费率|收费|合计费用|"
    r"申购费率?|总费用|费用|(?:management |"
    r"annual )?fees?|charg(?:es?|ing)|loads?|"
    r"expense ratio)[^,。;!?\n]{0,8}?(\d(?:\.\d+)?)\s?%|"
    r"(?<!只有)(?<!约有)(?<!仅有)(\d(?:\.\d+)?)% ?(?:的?(?:管理|综合|总|销售服务|年)费|的主动(?:型|"
    r"偏股|管理|权益)?基金|"
    r"(?:annual |yearly |management )?(?:fee|charge|cost)|active(?:ly managed)? fund)|"
    r"(?:\byou(?: would| will)? pay|\bcosts?(?: (?:is|are|of|comes? to|you))?)(?: about| around| roughly)? "
    r"(\d(?:\.\d+)?)% (?:a|per) year|"
    r"\b(?:fees?|charges?|costs?) (?:is|are) [a-z ]{0,14}, ?(\d(?:\.\d+)?)% (?:a|per) year"
)
_FIGURE: Final = late(r"(?<![\d.,])(\d(?:\.\d{1,2})?)\s?%|[¥$](\d{1,3}(?:,\d{3})*|\d+)(?![\d万亿k])")
_OF_FEES: Final = late(
    r"费|每年(?=\d)|\b(?:fees?|charg\w*|costs?|expenses?|ter|(?<=% )a year|(?<=% )per year|"
    r"a year(?= over)|dearer?|cheap\w*)\b"
)
_PRICED: Final = late(
    r"\b(?:funds?|etfs?|trackers?|one|product|class|version) (?:at|for) (?:about |around |just |only )?$|"
    r"\b(?:funds?|etfs?|trackers?)\b[^.;!?\n%]{0,20}, (?:at|for) $"
)
_PRICED_THING: Final = late(
    r" (?:index |active )?(?:tracker|etf|fund|one|class)\b|的(?:[^,。;]{0,6})?(?:etf|指数|联接|基金|那[只个])"
)
_NEAR_BY: Final = 60
_OTHER_FIGURE: Final = late(
    r"(?:收益|回报|涨|跌|赚|亏|利率|票息|分红|超额|跑赢|股息|溢价|仓位|占比|比例|托管|申购|赎回|"
    r"销售服务|打折|误差|"
    r"业绩报酬|提成)[^,。;!?\n]{0,8}$|"
    r"\b(?:return\w*|yield\w*|pays?|paid|gain\w*|rose|fell|up|down|beat\w*|dividend\w*|custody|load|"
    r"performance|"
    r"stamp)\b[^,.;!?\n]{0,16}$"
)
_OTHER_BEHIND: Final = late(
    r"\s?(?:的?(?:收益|回报|托管|申购|赎回|仓位|资金|份额|申赎)|of (?:the|your)|in (?:the|a|an|your|"
    r"cash|bonds)\b|into |yield|return|custody|load)"
)
_LESSER: Final = late(
    r"\b(?:over (?:the|a|an|that|one|its|funds?)|rather than|instead of|than|not the|in place of|"
    r"replac\w+|compared|"
    r"against|versus|unlike|from)\b|"
    r"比|而不是|而非|不是|除了|赎回|卖[掉出]|替换|代替|省|相较|不选|不买|没有|不到|低于|不超过"
)
"""Behind these stands what is not taken."""
_WHOLE: Final = late(
    r"全部|主仓|主力|大部分|都换|全换|\b(?:everything|all of|most of|the rest|whole|entire|"
    r"all your)\b|[6-9]\d%|"
    r"[六七八九]成"
)
_BY_NAME: Final = late(
    r"(?<![a-z])([a-e甲乙丙丁])(?:产品|基金|款|号| fund)?(?![a-z])[^,。;|\n%]{0,14}?(\d(?:\.\d{1,2})?)%"
)
_TAKES_NAME: Final = late(
    r"(?:建议|推荐|选择?|买|主仓|放|投|认购|首选)(?:你|直接|就|都|仍|还是|放在?|给|用|买|选|主仓|"
    r"全部|配|到|在|=|:)*"
    r"(?:产品|基金)?([a-e甲乙丙丁])(?![a-z0-9类]|\s?份额)|"
    r"\b(?:take|buy|choose|pick|go (?:for|with)|prefer|use|purchase|recommend|suggest) (?:fund |"
    r"product |option |index )?"
    r"([a-e])(?![a-z0-9'])(?! (?:fund|share|class|low|high|broad|good|few|bit|small|single)\b)"
)
_FEE_COLUMN: Final = late(r"费|\b(?:fees?|charges?|costs?|expenses?|ter)\b")
_SHARE_COLUMN: Final = late(r"比例|权重|占比|仓位|配置|\b(?:weights?|share|allocation|portion)\b")
_CHOICE_COLUMN: Final = late(
    r"选择|推荐|建议|结论|决定|操作|\b(?:choice|pick|advice|verdict|decision|action|recommend\w*)\b"
)
_CHOSEN: Final = late(
    r"(?:就|可)?(?:买入?|选[它这中择]?|推荐|首选|主仓|建议|是|✓|√|✔|yes|buy|purchase|pick|choose|"
    r"take|recommended|our pick|my pick|x)\W*"
)
_ORDINAL: Final = late(
    r"(?:用|买|选|推荐|建议|主仓放|放)[^,。;!?\n不没]{0,6}?(?:第([一二三四五])[只个款行种]|"
    r"(最后)一[只个款行种])|"
    r"\b(?:buy|take|choose|pick|go (?:for|with)|use|purchase)\b[^.,;!?\n]{0,12}?\bthe (first|second|"
    r"third|fourth|last)\b"
)
_ORDINALS: Final = {
    "一": 0,
    "二": 1,
    "三": 2,
    "四": 3,
    "五": 4,
    "first": 0,
    "second": 1,
    "third": 2,
    "fourth": 3,
}
_FIGURE_CELL: Final = late(r"(?:约|about )?(\d{1,2}(?:\.\d+)?) ?%(?:/年| a year| p\.?a\.?)?")
_TWICE: Final = late(
    r"(?:双层|两层|两道|双重|两头|一层)[^。;!?\n]{0,14}?(?:加起来|合计|合起来|总共|一共|"
    r"共)[^,。;!?\n\d]{0,6}?(\d(?:\.\d+)?)%|"
    r"(\d(?:\.\d+)?)%[^.;!?\n\d]{0,24}\b(?:on top of|and another|plus(?: another)?)\b[^.;!?\n\d]{0,12}"
    r"(\d(?:\.\d+)?)%[^.;!?\n\d]{0,12}?\b(?:underlying|below|lower level|funds inside)|"
    r"\b(?:two|both|double) (?:layers?|levels?) of (?:fees|charges|"
    r"costs)\b[^.;!?\n\d]{0,30}(?P<both>\d(?:\.\d+)?)%"
)
_BUT: Final = late(r"不过|但|可(?![以能])|\bbut\b|though")
_NEIGHBOURS: Final = 300


class _Fee(NamedTuple):
    value: float
    start: int
    end: int
    sum: bool


def _start(match: re.Match[str]) -> int:
    return match.start()


def high_fees(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    """Yield the fees that the reply would have the user pay though they are high, or higher than another."""
    for match in few(analysis, _STATED.finditer(analysis.norm), _start):
        fee = float(match[1] or match[2] or match[3] or match[4])
        if fee < HIGH_FEE or _has_lower_fee(analysis, match):
            continue
        if advised(analysis, *match.span(), limit=True) or _of_an_offer(analysis, *match.span()):
            yield match.span()
    yield from _paid_twice(analysis)
    yield from _dearer(analysis)
    yield from _dearer_by_name(analysis)
    yield from dearer_kind(analysis)
    yield from conceded(analysis)
    yield from _dearer_row(analysis, listed)


def _has_lower_fee(analysis: Analysis, fee: re.Match[str]) -> bool:
    """Say whether the sentence sets a lower fee beside the high one, to choose from."""
    norm = analysis.norm
    low, high = analysis.sentence_span(fee.start())
    turned = max((match.end() for match in _BUT.finditer(norm, low, fee.start())), default=low)
    if turned > low and STRONG.search(norm, turned, fee.start()):
        low = turned
    return any(
        float(match[1]) < HIGH_FEE
        for match in _FIGURE.finditer(norm, low, high)
        if match[1] and match.end() != fee.end() and not _OTHER_KIND.search(norm, low, match.start())
    )


_OTHER_KIND: Final = late(r"(?:托管|销售服务|赎回|custody)[^,。;!?\n\d]{0,6}$")
"""Fees that come on top, not in place of the one beside them."""
_OF_IT: Final = late(r"\s*(?:its?|their|they|that fund|the fund)\b|(?:它|该基金|这只)")
_SPOKEN_OF: Final = late(r"[^,。;!?\n]{0,4}(?:比|不像|而非|不是)|\s*(?:unlike|than|rather)\b")


def _of_an_offer(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether an earlier clause of the sentence offers the thing whose fee stands at the span."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    clause, high = analysis.clause_span(start, end)
    if low and _OF_IT.match(norm, low, start):
        low, _ = analysis.sentence_span(low - 1)
    head = norm[low:clause]
    return (
        clause - low > 1
        and (STRONG.search(head) or OFFER.search(head) or ORDER.match(head)) is not None
        and DEALS.search(head) is not None
        and BACKS_OUT.search(head) is None
        and _SPOKEN_OF.match(norm, clause, high) is None
        and _LESSER.search(norm, clause, start) is None
        and not disowned(analysis, start, end)
        and not rejected(analysis, start, end)
    )


def _paid_twice(analysis: Analysis) -> Iterator[Span]:
    norm = analysis.norm
    for match in few(analysis, _TWICE.finditer(norm), _start):
        stated = match[1] or match["both"]
        total = float(stated) if stated else float(match[2]) + float(match[3])
        low, _ = analysis.sentence_span(match.start())
        if total < HIGH_FEE or disowned(analysis, *match.span()) or _refused(analysis, *match.span()):
            continue
        head = norm[low : match.start()]
        marked = STRONG.search(head) or OFFER.search(head) or ORDER.match(head)
        if marked and BACKS_OUT.search(head) is None:
            yield match.span()


def _refused(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the reply speaks against the span, and not against the cheap alternative behind it."""
    if not rejected(analysis, start, end):
        return False
    _, high = analysis.sentence_span(start)
    verdict = VERDICT.search(analysis.norm, end, high)
    return verdict is None or _CHEAP.search(analysis.norm, *analysis.clause_span(*verdict.span(1))) is None


_CHEAP: Final = late(r"指数|etf|低费|便宜|\b(?:index|trackers?|cheap\w*|low-cost)\b")


def _fees(analysis: Analysis) -> list[_Fee]:
    """Return the figures of the running text that are fees."""
    norm = analysis.norm
    found = []
    for match in few(analysis, _FIGURE.finditer(norm), _start):
        low, high = analysis.sentence_span(match.start())
        clause, clause_end = analysis.clause_span(*match.span())
        if analysis.line_kind(match.start()) == "row":
            continue
        if not (
            _OF_FEES.search(norm, max(0, low - _NEAR_BY), high + _NEAR_BY)
            or _PRICED_THING.match(norm, match.end())
            or _PRICED.search(norm, max(clause, match.start() - 40), match.start())
        ) or _OTHER_FIGURE.search(norm, clause, match.start()):
            continue
        if _OTHER_BEHIND.match(norm, match.end(), clause_end):
            continue
        money = match[1] is None
        value = float(match[2].replace(",", "")) if money else float(match[1])
        found.append(_Fee(value, *match.span(), money))
    return found


def _dearer(analysis: Analysis) -> Iterator[Span]:
    """Yield the fee of what the reply takes where a cheaper one stands beside it and is not taken."""
    fees = _fees(analysis)
    if len(fees) < 2:  # noqa: PLR2004 - the dearer of two
        return
    taken = {fee: _taken(analysis, fee) for fee in fees}
    for fee in fees:
        if not taken[fee]:
            continue
        others = [
            other
            for other in fees
            if other.sum == fee.sum
            and 0 < other.value < _APART * fee.value
            and abs(other.start - fee.start) <= _NEIGHBOURS
        ]
        if not others or (fee.sum and not _of_fees_itself(analysis, fee)):
            continue
        clause = analysis.clause_span(fee.start, fee.end)
        if any(taken[other] for other in others) and not (
            fee.value >= _DEAR and _WHOLE.search(analysis.norm, *clause)
        ):
            continue
        yield fee.start, fee.end


def _of_fees_itself(analysis: Analysis, fee: _Fee) -> bool:
    low, high = analysis.clause_span(fee.start, fee.end)
    behind = analysis.norm[fee.end : min(high, fee.end + 24)]
    return _OF_FEES.search(behind) is not None or _OF_FEES.search(analysis.norm[low : fee.start]) is not None


def _taken(analysis: Analysis, fee: _Fee) -> bool:
    """Say whether the clause of a fee takes what costs it."""
    norm = analysis.norm
    low, high = analysis.clause_span(fee.start, fee.end)
    before = norm[low : fee.start]
    if disowned(analysis, fee.start, fee.end) or _refused(analysis, fee.start, fee.end):
        return False
    if _SWAPPED.search(before) or (_CHOSEN_BEHIND.match(norm, fee.end) and _LESSER.search(before) is None):
        return True
    if BACKS_OUT.search(before) or _LESSER.search(before):
        return False
    order = ORDER.match(norm[low:high])
    marked = STRONG.search(before) or OFFER.search(norm[low:high]) or order
    if order is not None and order.group().strip() == "fund":
        return False
    behind = norm[fee.end : fee.end + 12]
    return bool(marked) and (DEALS.search(before + behind) or _THE_ONE.match(behind)) is not None


_SWAPPED: Final = late(
    r"\b(?:replac|swap|switch|exchang|mov)\w*\b(?:[^.,;!?\n]|\.(?=\d)){0,50}\b(?:with|for|to|"
    r"into) [^.,;!?\n]{0,40}$|"
    r"(?:换成|换为|替换成|改成|改投|换到)[^,。;:!?\n不没]{0,10}$"
)
"""What comes in for another thing."""
_CHOSEN_BEHIND: Final = late(
    r"(?: (?:one|fund|etf|tracker|class))? (?:is|would be) (?:the one (?:i|we|to)|my |our |what i|where i)|"
    r"的?(?:那|这)?[只个款]?(?:更|最|比较|挺)(?:合适|好|值得|划算|稳妥|靠谱)|"
    r"的?(?:那|这)?[只个款]?(?:就是|才是|是)(?:我的?)?(?:首选|推荐|主仓)"
)
_THE_ONE: Final = late(r"的?[那这][只个款档]| one\b")


def _dearer_by_name(analysis: Analysis) -> Iterator[Span]:
    """Yield the letter of the dearer product: A costs 0.2%, B 1.2%, I would take B."""
    norm = analysis.norm
    costs: dict[str, float] = {}
    for match in _BY_NAME.finditer(norm):
        if _OF_FEES.search(norm, *analysis.sentence_span(match.start())):
            costs.setdefault(match[1], float(match[2]))
    for grid in grids(norm):
        column = grid.column(_FEE_COLUMN)
        for row in grid.rows:
            figure = _figure(row, column)
            name = re.search(r"(?<![a-z])([a-e])$", row[0].text)
            if figure is not None and name:
                costs.setdefault(name[1], figure)
    if len(costs) < 2:  # noqa: PLR2004 - the dearer of two
        return
    for match in _TAKES_NAME.finditer(norm):
        own = costs.get(match[1] or match[2])
        if own is None or not any(other < _APART * own for other in costs.values()):
            continue
        if not (disowned(analysis, *match.span()) or rejected(analysis, *match.span())):
            yield match.span()


def _figure(row: list[Cell], column: int | None) -> float | None:
    match = _FIGURE_CELL.fullmatch(row[column].text) if column is not None and column < len(row) else None
    return float(match[1]) if match else None


def _dearer_row(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    """Yield the row of a table that is chosen, or weighs most, though it costs more than another."""
    norm = analysis.norm
    for grid in grids(norm):
        column = grid.column(_FEE_COLUMN)
        costs = [_figure(row, column) for row in grid.rows]
        known = [cost for cost in costs if cost is not None]
        if column is None or len(known) < 2:  # noqa: PLR2004 - the dearer of two
            continue
        choice, share = grid.column(_CHOICE_COLUMN), grid.column(_SHARE_COLUMN)
        weights = [_figure(row, share) or 0.0 for row in grid.rows]
        pointed = {_pointed(match, len(costs)) for match in _ORDINAL.finditer(norm, grid.end)}
        for number, (row, cost) in enumerate(zip(grid.rows, costs, strict=True)):
            if cost is None or min(known) >= _APART * cost:
                continue
            span = row[0].start, row[0].end
            chosen = choice is not None and choice < len(row) and _CHOSEN.fullmatch(row[choice].text)
            heavy = cost >= _DEAR and weights[number] > sum(weights) / 2 and listed(*span)
            if (chosen or heavy or number in pointed) and not rejected(analysis, *span):
                yield span


def _pointed(match: re.Match[str], count: int) -> int:
    """Return which row an ordinal means."""
    if match[2] or match[3] == "last":
        return count - 1
    return _ORDINALS[match[1] or match[3]]
