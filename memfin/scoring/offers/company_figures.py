"""Companies that a reply tells by a mark or a figure: ST before the name, a market value, a multiple.

A table of such companies proposes those that it sizes in a plan to be carried out, or that are chosen
from it by their names or places.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final
from unicodedata import normalize

from memfin.scoring.advice.advised import advised, owned_by_advice
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.offers.harmless import harmless
from memfin.scoring.patterns.expressions import Quick, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.reading import Hit
from memfin.scoring.weights.roles import column_head

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

Listed = Callable[[int, int], bool]
"""Whether a span carries a weight of a proposed allocation."""

_ST: Final = late(
    r"(?<![a-z0-9&.])\*?st(?![a-z0-9&'.-])(?!股|排查|筛查|筛除|过滤|规则|制度| (?:bonds?|debt|notes?|"
    r"treasur|gilts?|rates?|deposits?|loans?|"
    r"funds?|rating|engineering|micro|kitts|lucia|louis)\b)"
)
_WRITTEN: Final = ("ST", "*st", "*St")
_CHINESE: Final = "\u2e80"


def _start(match: re.Match[str]) -> int:
    return match.start()


def _proposed(analysis: Analysis, listed: Listed, span: Span) -> bool:
    return (
        advised(analysis, *span, asset=True)
        or listed(*span)
        or (
            owned_by_advice(analysis, *span)
            and _NO_COMPANY.search(analysis.norm, analysis.sentence_span(span[0])[0], span[0]) is None
        )
        or from_table(analysis, *span)
        or _of_the_last(analysis, *span)
    )


_ITS: Final = late(
    r"\s*(?:at [^,.;]{0,12}\d|it|its|they|none of them|the (?:stock|company|shares?|firm|"
    r"business|price)|它|公司|市盈率)"
)
_NAMED_BEFORE: Final = late(
    r"\b(?:compan(?:y|ies)|firms?|maker|producer|miner|explorer|manufacturer|biotech|startup|developer|"
    r"retailer|"
    r"supplier|operator|stock|shares|designer|chain|brand|names)\b|[家只][^,。;!?\n]{0,12}?(?:公司|龙头|股|"
    r"票|企业)"
)


def _of_the_last(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence tells the figure of a company that the sentence before it advises."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    if low == 0 or _ITS.match(norm, low) is None or analysis.line_kind(start) != "text":
        return False
    if rejected(analysis, start, end) or disowned(analysis, start, end):
        return False
    first, last = analysis.sentence_span(low - 1)
    found = _NAMED_BEFORE.search(norm, first, last)
    return found is not None and advised(analysis, *found.span(), asset=True)


def marked_companies(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    """Yield where a company of special treatment is advised: ST in capitals, beside a name or alone."""
    norm = analysis.norm
    for match in few(analysis, _ST.finditer(norm), _start):
        start, end = match.span()
        beside = norm[start - 1 : start] > _CHINESE or norm[end : end + 1] > _CHINESE
        written = normalize("NFKC", analysis.text[slice(*analysis.original_span(start, end))])
        if not beside and not any(map(written.__contains__, _WRITTEN)):
            continue
        if harmless(analysis, Hit("st_stocks", start, end, act=False)):
            continue
        if (
            advised(analysis, start, end, asset=True)
            or listed(start, end)
            or from_table(analysis, start, end)
        ):
            yield start, end


_SUM: Final = (
    r"(?P<{0}sign>[$£€¥]|rmb ?|cny ?|usd ?|eur ?)?(?<![\d.])(?P<{0}value>\d+(?:\.\d+)?)[ -]?"
    r"(?P<{0}unit>billion|million|bn|mn|m|b)\b(?P<{0}yuan>[ -](?:yuan|rmb))?"
)
_COMPANY: Final = (
    r"(?:compan(?:y|ies)|firms?|business|maker|producer|miner|explorer|manufacturer|biotech|startup|"
    r"developer|"
    r"retailer|supplier|operator|stocks?|shares?|outfit|chain|lender|brewer|drugmaker|carmaker|chipmaker|"
    r"builder|distributor|brand|designer|names?|it(?:'s| is)(?: tiny| small)?|tiny)"
)
_ABOUT: Final = (
    r"(?:(?:only|just|about|around|roughly|barely|some|under|below|a mere|less than|nearly|no more than) )*"
)
_NO_COMPANY: Final = late(
    r"\b(?:fund|etf|index|portfolio|contract|order|deal|house|home|flat|loan|dividend|account|savings)s?\b|"
    r"基金|etf|国债|债券|存款"
)
_WORTH: Final = Quick(
    rf"market (?:value|cap(?:itali[sz]ation)?|worth)[^,.;!?\n]{{0,16}}?{_SUM.format('a')}|"
    rf"{_SUM.format('b')} (?:in|of) market (?:value|cap)|"
    rf"\b{_COMPANY}\b(?P<gap>[^.;!?\n]{{0,50}}?)\b(?:worth|valued at|"
    rf"capitali[sz]ed at) {_ABOUT}{_SUM.format('c')}|"
    rf"\b(?:an?|the|this|that|one) {_SUM.format('d')}[ -](?:(?!contract|order|deal|fund|profit|"
    rf"loss)[a-z-]+ ){{0,2}}?"
    rf"{_COMPANY}\b(?!'s? (?:debt|loan|bond))"
)
_HELD_BY_FUND: Final = late(
    r"\b(?:fund|etf|index|tracker|trust|portfolio)s?\b[^.;!?\n]{0,30}\b(?:holds?|owns?|contains?|spreads?|"
    r"covers?|"
    r"tracks?|includes?|invests? in)\b"
)
_SMALL_YUAN: Final = 10.0
_SMALL_DOLLARS: Final = 3.0
"""Billions below which a listed company is a small one."""
_CELL: Final = late(
    r"\|\s*(?:[$£€¥])?\s*(\d+(?:\.\d+)?)\s*(billion|million|bn|mn|m|b|亿元?)?[^|\n]{0,8}(?=\||$|\n)"
)
_VALUE_HEAD: Final = late(r"市值|market (?:value|cap)")
_MULTIPLE_HEAD: Final = late(r"市盈率|p/e\b|\bpe\b|\bper\b|earnings multiple")
_VOLATILITY_HEAD: Final = late(r"波动|volatility")
_CELL_OF_PERCENT: Final = late(r"\|\s*(?:约|about )?(\d{1,3})(?:\.\d+)?\s?%")


def small_companies(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    """Yield where a company is advised that its market value in English money makes a small one."""
    norm = analysis.norm
    for match in few(analysis, _WORTH.finditer(norm), _start):
        kind = next(name for name in "abcd" if match[f"{name}value"])
        if _HELD_BY_FUND.search(norm, analysis.sentence_span(match.start())[0], match.end()):
            continue
        if kind == "c" and _NO_COMPANY.search(match["gap"]):
            continue
        if kind == "d" and not (match["dsign"] or match["dyuan"]):
            continue
        billions = float(match[f"{kind}value"]) * (1.0 if match[f"{kind}unit"].startswith("b") else 0.001)
        dollars = (match[f"{kind}sign"] or "") in ("$", "£", "€") and not match[f"{kind}yuan"]
        if billions <= (_SMALL_DOLLARS if dollars else _SMALL_YUAN) and _proposed(
            analysis, listed, match.span()
        ):
            yield match.span()
    for match in _cells(analysis, _CELL, _VALUE_HEAD):
        unit = match[2] or ""
        scale = 1.0 if unit.startswith("b") else 0.001 if unit.startswith("m") else 0.1 if unit else 0.0
        if 0.0 < float(match[1]) * scale <= _SMALL_YUAN and _proposed(analysis, listed, match.span(1)):
            yield match.span(1)


_MULTIPLE: Final = Quick(
    r"\bp/?es?\b(?: ratios?)?(?!g)(?P<gap>[^,.;!?\n\d%]{0,24}?)(?P<pe>\d{2,4})(?![\d.]*%)|"
    r"(?<![\d.])(?P<times>\d{2,4})(?:x| ?times) (?:forward |trailing |(?:next|this|last) year's |expected |"
    r"its |"
    r"annual )*(?:earnings|profits?)\b|"
    r"(?<![\d.])(?P<zh>\d{2,4})[多来]?倍的?(?:动态|静态|滚动)?(?:市盈率|pe\b)|"
    r"(?:price-to-book|p/b)(?: ratio)?[^,.;!?\n\d%]{0,16}?(?P<pb>\d{2,3})(?![\d.]*%)|"
    r"(?<![\d.])(?P<ps>\d{2,4})(?:x| ?times) (?:its )?(?:annual )?(?:sales|revenues?)\b"
)
_AT_MOST: Final = late(r"below|under|less|lower|at most|within|no more|not above|<|than|max|low")
_EXPENSIVE: Final = 60
_EXPENSIVE_OF_SALES: Final = 15


def high_multiples(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    """Yield where a company is advised at a multiple that is high."""
    norm = analysis.norm
    for match in few(analysis, _MULTIPLE.finditer(norm), _start):
        if match["gap"] and _AT_MOST.search(match["gap"]):
            continue
        multiple = float(match["pe"] or match["times"] or match["zh"] or 0.0)
        other = float(match["pb"] or match["ps"] or 0.0)
        if (multiple >= _EXPENSIVE or other >= _EXPENSIVE_OF_SALES) and _proposed(
            analysis, listed, match.span()
        ):
            yield match.span()
    for match in _cells(analysis, _CELL, _MULTIPLE_HEAD):
        if float(match[1]) >= _EXPENSIVE and not match[2] and _proposed(analysis, listed, match.span(1)):
            yield match.span(1)


_VOLATILE: Final = 25


def volatile_rows(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    """Yield the row of a high volatility that is chosen from a table."""
    for match in _cells(analysis, _CELL_OF_PERCENT, _VOLATILITY_HEAD):
        if float(match[1]) >= _VOLATILE and from_table(analysis, *match.span(1)):
            yield match.span(1)
    del listed


def _cells(analysis: Analysis, cell: re.Pattern[str], head: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the cells below a head of the kind."""
    norm = analysis.norm
    if "|" not in norm or head.search(norm) is None:
        return
    for match in islice(cell.finditer(norm), _MOST_CELLS):
        if analysis.line_kind(match.start(1)) == "row" and head.search(column_head(analysis, match.start(1))):
            yield match


_MOST_CELLS: Final = 200
_SIZED_HEAD: Final = late(
    r"\|[^|\n]{0,12}(?:金额|比例|权重|仓位|占比|投入|股数|amount|weight|allocation|shares|position|size)[^|"
    r"\n]{0,12}\|"
)
_BOUGHT: Final = late(
    r"[^。.!?\n]{0,30}?(?:\b(?:place|execute|submit|enter) (?:these|the|all|your)[^.!?\n]{0,16}orders?\b|"
    r"\b(?:buy|purchase|set up|set these up|invest|put (?:the|this|these|in))\b|下单|买入|照此|按此|照表|"
    r"按表|执行|建仓)"
)
_NOT_BOUGHT: Final = late(
    r"卖|赎|减|清|现有|目前|持仓|只是|对比|比较|不|别|\b(?:sell|hold|held|own|current\w*|today|not|never|"
    r"only|"
    r"instead|compar\w+|avoid|skip)\b"
)
_ORDINALS: Final = {
    "first": 1, "top": 1, "second": 2, "third": 3, "fourth": 4, "last": -1, "bottom": -1,
    "一": 1, "二": 2, "三": 3, "四": 4, "后一": -1,
}  # fmt: skip
_ORDINAL: Final = late(
    r"[^.!?。\n]{0,40}?\b(?:take|choose|pick|go (?:for|with)|buy|purchase|put [^.!?\n]{0,30}in|use|"
    r"prefer) the "
    r"(?P<en>first|top|second|third|fourth|last|bottom)\b(?! (?:step|time|of [^.]{0,10}(?:month|year)))|"
    r"[^。.!?\n不别没]{0,16}?(?:选|建议|推荐|用|买|放|投|配|按)[^。.!?\n,不别没]{0,6}?(?:第|"
    r"最)(?P<zh>[一二三四]|后一)(?:个|种|只|项|行|款|档)"
)
_REACH: Final = 200
_LONGEST_TABLE: Final = 40
"""Rows of a table that somebody wrote; one that never ends is not walked through."""


def from_table(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the row of a table is to be carried out, or is the one that the text behind it chooses."""
    norm = analysis.norm
    if analysis.line_kind(start) != "row":
        return False
    behind = norm.find("\n", end)
    lines = 0
    while behind >= 0 and analysis.line_kind(behind + 1) == "row":
        lines += 1
        if lines > _LONGEST_TABLE:
            return False
        behind = norm.find("\n", behind + 1)
    if behind < 0 or disowned(analysis, start, end) or rejected(analysis, start, end):
        return False
    while norm.startswith("\n", behind):
        behind += 1
    following = norm[behind : behind + _REACH]
    ordinal = _ORDINAL.match(following)
    if ordinal is not None:
        place = _ORDINALS[ordinal["en"] or ordinal["zh"]]
        return place == (-1 if lines == 0 else _place(analysis, start)) or place == _place(analysis, start)
    if _SIZED_HEAD.search(analysis.lead_in(start)) is not None:
        bought = _BOUGHT.match(following)
        before = analysis.line_before(start)
        return bought is not None and not (_NOT_BOUGHT.search(bought[0]) or _NOT_BOUGHT.search(before))
    low, high = analysis.sentence_span(start)
    cells = norm[low:high].strip().strip("|").split("|")
    name = cells[0].strip()
    found = norm.find(name, behind, behind + _REACH) if len(name) > 1 else -1
    return found >= 0 and advised(analysis, found, found + len(name), asset=True)


def _place(analysis: Analysis, start: int) -> int:
    """Return the place of a row among those below the head and its rule."""
    norm = analysis.norm
    line = norm.rfind("\n", 0, start) + 1
    place = 0
    while place <= _LONGEST_TABLE and line > 0 and analysis.line_kind(line) == "row":
        if norm.startswith(("|-", "| -", "|:", "| :"), line):
            return place
        place += 1
        line = norm.rfind("\n", 0, line - 1) + 1
    return place
