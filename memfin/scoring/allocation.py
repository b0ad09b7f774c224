"""Allocations that a reply proposes: tables, lists and sentences of names with shares, in one structure.

Three layouts are read. A table gives one proposal per column of shares (options side by side) or, with asset
classes in its header, one per row. Lines in a row, each with a name and one share or sum of money, give one
proposal; a line whose share is the total of the lines below it is their heading. A sentence of parts such as
``60%债券+25%股票+15%现金`` gives one proposal. Histories, market figures, stress tests and models that are
expressly not for this client are no proposals.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from memfin.scoring.vocabulary import class_finder, load_vocabulary, term_finder
from memfin.text.document import Cell, Document, Line
from memfin.text.quantities import Quantity

_TOLERANCE: Final = 0.011
_WHOLE: Final = 1.0
_WHOLE_SLACK: Final = 0.035
_MIN_PARTS: Final = 2
_SMALLEST: Final = 0.045
"""Share of the smallest part that is read outside a plan that adds up."""
_SHORT_LINE: Final = 40
_MAX_LINE: Final = 4000
_MAX_HEAD: Final = 200
"""Characters at the head of a line in which its share is looked for."""
_NEAR: Final = 14
_CHANGES: Final = ("多", "少", "再", "加", "减", "了", "比")
_SENTENCE_BREAK: Final = re.compile(r"[。!?\n]")
_SENTENCE_MARK: Final = re.compile(r"[,。!?;:、()\n]")
_PROFILE_NAME: Final = re.compile(
    r"^\W*(?:(?:保守|谨慎|稳健|平衡|进取|激进|积极|成长)型|"
    r"(?:conservative|moderate|balanced|aggressive|growth) (?:investor|type|profile))"
)
_COMPARED: Final = re.compile(r"[<>≤≥=]\s*$")
_MAX_NAME: Final = 60
_MAX_PARTS: Final = 24
"""Parts of the longest plan that is read."""
_MAX_GAP: Final = 2
"""Lines without a share that may stand between two lines of one plan."""

_SHARE_SIGN: Final = re.compile(
    r"[%成分一p半t万$¥£€元hqf](?:(?<=[%成万$¥£€元])|(?<=分)之|(?<=一)半|(?<=p)ercent|(?<=h)alf\b|(?<=t)(?:hird|enth)s?\b|(?<=q)uarters?\b|(?<=f)ifths?\b)"
)
_NO_WEIGHT: Final = re.compile(
    r"涨|跌|收益|年化|回撤|波动|费|利率|利息|票息|概率|胜率|同比|环比|增长|增速|分位|估值|亏|损失|股息|折价|溢价|通胀|税|贡献|偏离|超过|触发|阈值|"
    r"换手|毛利|净利|负债|营收|市占|市场份额|按揭|首付|贷款|止盈|止损|达到|评分|相关|"
    r"return|yield|fee|expense|loss|drawdown|volatil|rate|growth|inflation|tax|gain|fell|rose|drop|fall|cost|"
    r"interest|percentile|drift|deviat|correlation|premium|discount"
)
_NO_PLAN: Final = re.compile(
    r"历史|回测|压力|情景|情形|假设|跌幅|涨幅|前十大|重仓股|行业分布|指数构成|基金构成|成分股|现状|^(?:现在|当前|目前|now|current)$|营收|负债|"
    r"通用|并非针对|不是给你|不是为你|教科书|不推荐|不建议|不适合|反面|错误|调整前|当前持仓|贡献|测算|国家队|社保|全市场|别人|"
    r"(?:目前|现有|现在|原来|之前|已有)的?(?:配置|持仓|组合|比例|资产|权益|股票|仓位)|基金持仓|你的持仓|"
    r"history|backtest|stress|scenario|assum|not for you|generic|textbook|today's|before|"
    r"current(?:ly)? (?:hold|portfolio|mix)|"
    r"sector weight|benchmark|index consists|top ten|top 10|someone|the fund holds|not recommend|not suit"
)
_TOTAL: Final = re.compile(r"^(?:总和|总|共|sum|all)|合计|总计|小计|一共|总共|加起来|\btotals?\b")
_SHARE_HEAD: Final = re.compile(
    r"比例|占比|仓位|权重|配置|配比|份额|目标|方案|组合|成数|金额|share|weight|allocation|percent|%|portion|amount|mix|"
    r"conservative|balanced|aggressive|option|plan|保守|稳健|平衡|进取|积极"
)
_SEPARATOR: Final = re.compile(r"[,、;+:和与及|/]|(?: and )|\n")
_SHARE_JOINTS: Final = re.compile(
    r"(?:约|大约|占比?|比例|配置?|仓位|左右|上下|各|放|投|留|保留|的|到|在|为|是|to|in|into|of|at|about|around|roughly)"
)
_CLAUSE: Final = re.compile(r",(?![0-9]{3})")
_COUNTED: Final = re.compile(
    r"([两二三四五六七八九2-9]|two|three|four|five) ?[只个支份样]?.{0,12}(?:各|each)"
)
_COUNTS: Final = {
    word: number
    for number, words in enumerate(
        ("2 两 二 two", "3 三 three", "4 四 four", "5 五 five", "6 六", "7 七", "8 八", "9 九"), 2
    )
    for word in words.split()
}
_BULLET: Final = re.compile(r"^[\W\d_]*(?:[a-e一二三四五六七八九十][.)、])?\W*")
_NUMBERING: Final = re.compile(r"^(?:\(?[0-9]{1,2}[.)、](?![0-9])|[①-⑳])\s*")
_SINGLE: Final = re.compile(
    r"沪深300|中证[0-9a]+|上证50|创业板|科创50|标普500|纳斯达克|纳指|恒生|红利低波|黄金etf|基金[甲乙丙丁a-e]|(?<![0-9])[0-9]{6}(?![0-9])|一只|单只|某只|"
    r"fund [a-z]\b|\b(?:one|single) |\betf\b|tracker|s&p 500|nasdaq|msci|index fund|"
    r"total (?:us|market|bond|stock)"
)
_SEVERAL: Final = re.compile(
    r"[/+、和与及]|等|若干|几只|多只|两只|三只|四只|五只|分散|组合|\b(?:and|several|funds|etfs|two|three)\b|类|如"
)


class Holding(NamedTuple):
    """One part of a proposal at half-open offsets of the document's text.

    ``low`` and ``high`` are fractions of the whole, equal unless the reply gives a range. ``classes``
    are asset classes with the wider ones they belong to, ``terms`` ids of the vocabulary. ``single``
    tells one fund or security from a class or a group of them.
    """

    name: str
    low: float
    high: float
    classes: frozenset[str]
    terms: frozenset[str]
    single: bool
    start: int
    end: int

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2


class Proposal(NamedTuple):
    """The holdings of one plan.

    ``whole`` tells that they add up to everything, ``laid_out`` that they stand in a list or table.
    """

    holdings: tuple[Holding, ...]
    whole: bool
    laid_out: bool
    start: int
    end: int


def proposals(document: Document) -> list[Proposal]:
    """Return the allocations that a reply proposes, in the order of the text."""
    numbers = sorted({document.line_number(match.start()) for match in _SHARE_SIGN.finditer(document.text)})
    if not numbers:
        return []
    found = [
        *_from_tables(document, frozenset(numbers)),
        *_from_lines(document, numbers),
        *_from_sentences(document, numbers),
    ]
    return sorted(found, key=lambda each: (each.start, each.end))


@lru_cache(maxsize=1024)
def classes_in(text: str) -> frozenset[str]:
    """Return the asset classes named first in a text, with the wider classes they belong to."""
    mentions = class_finder().find(text)
    if not mentions:
        return frozenset()
    # 可转债基金 is a bond, 红利低波指数基金 equity: the first class counts, with others of the same family.
    first = _family(mentions[0].ids[0])
    same = (each.ids[0] for each in mentions if _family(each.ids[0])[-1] == first[-1])
    return frozenset(name for each in same for name in _family(each))


@cache
def _family(name: str) -> tuple[str, ...]:
    parents = {entry.id: entry.within for entry in load_vocabulary().classes}
    chain = [name]
    while (parent := parents.get(chain[-1])) is not None:
        chain.append(parent)
    return tuple(chain)


def _holding(name: str, share: Quantity, start: int, end: int, *, rest: str = "", count: int = 1) -> Holding:
    words = _BULLET.sub("", name).strip()[:_MAX_NAME]
    classes = classes_in(words) or classes_in(rest)
    terms = {each for mention in term_finder().find(words + " " + rest[:_MAX_NAME]) for each in mention.ids}
    single = count == 1 and _SINGLE.search(words) is not None and _SEVERAL.search(words) is None
    return Holding(
        words, share.low * count, share.high * count, classes, frozenset(terms), single, start, end
    )


def _adds_up(holdings: Sequence[Holding]) -> bool:
    low, high = sum(each.low for each in holdings), sum(each.high for each in holdings)
    return low <= _WHOLE + _WHOLE_SLACK and high >= _WHOLE - _WHOLE_SLACK


def _proposal(
    holdings: Iterable[Holding], document: Document, *, laid_out: bool = True
) -> Iterator[Proposal]:
    parts = tuple(holdings)
    if len(parts) < _MIN_PARTS or not _adds_up(parts):
        # Parts of a plan count when their own names say what they are; a few percent are more often a rate.
        parts = tuple(each for each in parts if each.high >= _SMALLEST and classes_in(each.name))
    if not parts:
        return
    start, end = min(each.start for each in parts), max(each.end for each in parts)
    if _is_no_plan(document, start, parts[0].end):
        return
    whole = len(parts) >= _MIN_PARTS and _adds_up(parts)
    if whole or sum(each.low for each in parts) <= _WHOLE + _WHOLE_SLACK:
        yield Proposal(parts, whole, laid_out, start, end)


def _is_no_plan(document: Document, start: int, end: int) -> bool:
    """Say whether the words up to the first part, or those above it, are about no plan for this client."""
    first, _ = document.sentence_at(start)
    if _NO_PLAN.search(document.text, first, end):
        return True
    return any(_NO_PLAN.search(lead) for lead in itertools.islice(document.leads(start), 2))


# ------------------------------------------------------------------ tables


def _from_tables(document: Document, shares: frozenset[int]) -> Iterator[Proposal]:
    for table in document.tables(shares):
        if not table.rows:
            continue
        width = max(len(row) for row in table.rows)
        columns = [n for n in range(width) if _is_share_column(document, table.header, table.rows, n)]
        if _class_names(table.header) >= _MIN_PARTS:
            yield from _rows_as_options(document, table.header, table.rows)
            continue
        for column in columns:
            yield from _proposal(_column(document, table.rows, column), document)
        if not columns:
            yield from _cells_alone(document, table.rows)


def _cells_alone(document: Document, rows: Sequence[Sequence[Cell]]) -> Iterator[Proposal]:
    """Yield what single cells propose: a run of parts, or one part with its share."""
    for cell in itertools.chain.from_iterable(rows):
        if _SHARE_SIGN.search(cell.text) is None:
            continue
        yield from _run_of_parts(document, cell.start, cell.end, laid_out=True)
        share = _share_of(document, cell)
        name = "" if share is None else document.text[cell.start : share.start]
        if share is not None and name and len(cell.text) < _SHORT_LINE and _COMPARED.search(name) is None:
            yield from _proposal([_holding(name, share, cell.start, cell.end)], document)


def _class_names(cells: Sequence[str]) -> int:
    return sum(1 for cell in cells[1:] if classes_in(cell))


def _share_of(document: Document, cell: Cell) -> Quantity | None:
    """Return the share that a cell holds, when the cell is little more than that."""
    if len(cell.text) > _MAX_NAME:
        return None
    for quantity in document.quantities(cell.start, cell.end):
        if quantity.kind == "share" and 0 < quantity.high <= _WHOLE:
            return None if _NO_WEIGHT.search(document.text, cell.start, quantity.start) else quantity
    return None


def _is_share_column(
    document: Document, header: Sequence[str], rows: Sequence[Sequence[Cell]], column: int
) -> bool:
    title = header[column] if column < len(header) else ""
    if _NO_WEIGHT.search(title) or _NO_PLAN.search(title):
        return False
    shares = [_share_of(document, row[column]) for row in rows if column < len(row)]
    held = [share for share in shares if share is not None]
    if len(held) < _MIN_PARTS or len(held) * 2 < len(shares):
        return False
    total = sum(share.high for share in held)
    return (
        _SHARE_HEAD.search(title) is not None
        or abs(total - 1) < _WHOLE_SLACK
        or abs(total - 2) < _WHOLE_SLACK
    )


def _column(document: Document, rows: Sequence[Sequence[Cell]], column: int) -> Iterator[Holding]:
    for row in rows:
        if column >= len(row) or _TOTAL.search(_BULLET.sub("", row[0].text)):
            continue
        share = _share_of(document, row[column])
        if share is None:
            continue
        named = next((cell for cell in row[:column] if re.search(r"[^\W\d_]", cell.text)), row[0])
        if column == 0 and share.start == row[0].start:
            continue
        rest = " ".join(
            cell.text
            for n, cell in enumerate(row)
            if n != column and cell is not named and len(cell.text) < _MAX_NAME
        )
        start = min(named.start, row[column].start)
        yield _holding(named.text, share, start, row[column].end, rest=rest)


def _rows_as_options(
    document: Document, header: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> Iterator[Proposal]:
    for row in rows:
        parts = [
            _holding(title, share, cell.start, cell.end)
            for title, cell in zip(header[1:], row[1:], strict=False)
            if classes_in(title) and (share := _share_of(document, cell)) is not None
        ]
        if (
            len(parts) >= _MIN_PARTS
            and not _NO_PLAN.search(row[0].text)
            and not _PROFILE_NAME.match(row[0].text)
        ):
            yield from _proposal(parts, document)


# ------------------------------------------------------------------ lists and lines


class _Entry(NamedTuple):
    """A line of a plan; ``level`` grows with its indentation and is deeper for list items than for text."""

    level: int
    holding: Holding
    money: bool
    laid_out: bool


def _from_lines(document: Document, numbers: Sequence[int]) -> Iterator[Proposal]:
    for block in _blocks(document, numbers):
        leaves = _leaves([entry for entry in block if not entry.money])
        prose = {entry.holding for entry in leaves if not entry.laid_out}
        for run in _wholes([entry.holding for entry in leaves]):
            yield from _proposal(run, document, laid_out=prose.isdisjoint(run))
        runs = itertools.groupby(block, key=lambda entry: entry.money and bool(entry.holding.classes))
        money = max(([entry.holding for entry in run] for is_sum, run in runs if is_sum), key=len, default=[])
        total = sum(each.high for each in money)
        if len(money) > _MIN_PARTS:
            parts = [each._replace(low=each.low / total, high=each.high / total) for each in money]
            yield from _proposal(parts, document)


def _wholes(holdings: Sequence[Holding]) -> Iterator[Sequence[Holding]]:
    """Cut a run of holdings into plans that add up to a whole; what is left over comes one by one."""
    first = 0
    while first < len(holdings):
        last = next(
            (
                end
                for end in range(min(len(holdings), first + _MAX_PARTS), first + 1, -1)
                if _adds_up(holdings[first:end])
            ),
            first + 1,
        )
        if last > first + 1 or holdings[first].classes:
            yield holdings[first:last]
        first = last


def _blocks(document: Document, numbers: Sequence[int]) -> Iterator[list[_Entry]]:
    """Yield runs of lines that name a part with its share or sum each, out of the lines with share signs."""
    block: list[_Entry] = []
    last = 0
    for number in numbers:
        line = document.line(number)
        entry = None if line.kind == "row" else _entry(document, line)
        if entry is None:
            continue
        if block and _is_apart([document.line(n) for n in range(last + 1, number)], block):
            yield block
            block = []
        block.append(entry)
        last = number
    if block:
        yield block


def _is_apart(between: Sequence[Line], block: Sequence[_Entry]) -> bool:
    """Say whether the lines between two parts end a plan: too many, or a heading behind a whole."""
    others = [
        line for line in between if line.kind not in ("blank", "rule") and 2 * line.indent <= block[-1].level
    ]
    if len(others) > _MAX_GAP:
        return True
    ended = any(line.kind == "heading" for line in others)
    return ended and len(block) > 1 and _adds_up([each.holding for each in block])


def _entry(document: Document, line: Line) -> _Entry | None:
    """Return the part that a line names: a name with one share right behind or in front of it."""
    words = document.content(line)
    skipped = _NUMBERING.match(words)
    start = line.start + (skipped.end() if skipped else 0)
    chosen = _amount_of(document.quantities(start, min(line.end, start + _MAX_HEAD)))
    if chosen is None or words.endswith("?"):
        return None
    before, after = document.text[start : chosen.start], document.text[chosen.end : line.end]
    if not _is_name(before):
        return None
    name = re.sub(r"[\s(:|~≈=]+$", "", before)
    if not re.search(r"[^\W\d_]", name):
        # The share leads the line; its name follows.
        name, after = re.split(r"[。;,(]", after[:_MAX_NAME].lstrip(" 的:-)"), maxsplit=1)[0], ""
    rest = re.split(r"[。;]", after, maxsplit=1)[0][:_MAX_NAME]
    holding = _holding(name, chosen, line.start, chosen.end, rest=rest, count=_count(name))
    return _Entry(
        2 * line.indent + (line.kind == "item"),
        holding,
        chosen.kind == "money",
        line.kind != "text" or len(words) <= _SHORT_LINE,
    )


def _amount_of(found: Sequence[Quantity]) -> Quantity | None:
    """Return the share that a line is about, else its sum of money; None for a line of many figures."""
    shares = [each for each in found if each.kind == "share"]
    money = next((each for each in found if each.kind == "money"), None)
    if len(shares) > _MIN_PARTS + 1:
        return None
    chosen = money
    if shares and (money is None or shares[0].start < money.start + _MAX_NAME):
        chosen = shares[0]
    if chosen is None or chosen.high <= 0 or (chosen.kind == "share" and chosen.high > _WHOLE):
        return None
    return chosen


def _is_name(before: str) -> bool:
    """Say whether the words in front of a share can be the name of a part."""
    if len(before) > _MAX_NAME or re.search(r"[。!?;]", before) or len(_CLAUSE.findall(before)) > 1:
        return False
    others = (_NO_WEIGHT, _NO_PLAN, _COMPARED)
    if any(pattern.search(before) for pattern in others) or _PROFILE_NAME.match(before):
        return False
    return _TOTAL.search(_BULLET.sub("", before)) is None


def _count(name: str) -> int:
    match = _COUNTED.search(name)
    return _COUNTS.get(match[1], 1) if match else 1


def _leaves(entries: Sequence[_Entry]) -> list[_Entry]:
    """Leave out the lines whose share is the total of the deeper lines below them."""
    leaves = []
    for position, entry in enumerate(entries):
        below = []
        for each in entries[position + 1 :]:
            if each.level <= entry.level:
                break
            below.append(each)
        total = sum(each.holding.high for each in below)
        if not below or abs(total - entry.holding.high) > _TOLERANCE + 0.04 * (total > 1):
            leaves.append(entry)
    return leaves


# ------------------------------------------------------------------ sentences


def _from_sentences(document: Document, numbers: Sequence[int]) -> Iterator[Proposal]:
    for line in map(document.line, numbers):
        if line.kind != "row":
            yield from _run_of_parts(document, line.start, line.end, laid_out=False)


def _run_of_parts(document: Document, start: int, end: int, *, laid_out: bool) -> Iterator[Proposal]:
    if end - start > _MAX_LINE:
        return
    shares = [
        each
        for each in document.quantities(start, end)
        if each.kind == "share" and 0 < each.high <= _WHOLE and not _is_rate(document.text, each.end, end)
    ]
    for group in _runs(document.text, shares):
        parts = list(_parts(document.text, group, start, end))
        if len(parts) >= _MIN_PARTS and _adds_up(parts) and any(each.classes for each in parts):
            yield from _proposal(parts, document, laid_out=laid_out)
            return
    if not laid_out:
        yield from _parts_alone(document, shares, start)


def _is_rate(text: str, start: int, end: int) -> bool:
    """Say whether what follows a share makes it a rate of return, a fee or the like."""
    return _NO_WEIGHT.match(text[start : min(end, start + _MAX_NAME)].lstrip("的 ")) is not None


def _parts_alone(document: Document, shares: Sequence[Quantity], first: int) -> Iterator[Proposal]:
    """Yield parts of prose whose class stands right in front of their share (活期只留一成)."""
    for share in shares:
        name = _SENTENCE_MARK.split(document.text[max(first, share.start - _NEAR) : share.start])[-1]
        if (
            name.endswith(_CHANGES)
            or _NO_WEIGHT.search(name)
            or _COMPARED.search(name)
            or _NO_PLAN.search(name)
        ):
            continue
        if classes_in(name):
            part = _holding(name, share, share.start - len(name), share.end)
            yield from _proposal([part], document, laid_out=False)


def _runs(text: str, shares: Sequence[Quantity]) -> Iterator[list[Quantity]]:
    """Yield runs of shares of one sentence that add up to a whole as soon as they do."""
    for position in range(len(shares)):
        run: list[Quantity] = []
        total = 0.0
        for share in shares[position:]:
            if run and (
                share.start - run[-1].end > _MAX_NAME
                or _SENTENCE_BREAK.search(text, run[-1].end, share.start)
            ):
                break
            run.append(share)
            total += share.high * _count(text[max(0, share.start - 20) : share.start])
            if len(run) >= _MIN_PARTS and abs(total - 1) < _TOLERANCE:
                yield run
                return
            if total > _WHOLE + _WHOLE_SLACK and all(each.low == each.high for each in run):
                break
        if (
            len(run) >= _MIN_PARTS
            and sum(each.low for each in run) <= 1 <= sum(each.high for each in run)
            and any(each.low != each.high for each in run)
        ):
            yield run
            return


def _parts(text: str, shares: Sequence[Quantity], first: int, last: int) -> Iterator[Holding]:
    """Yield the parts that a run of shares names, whichever side of its share the names stand on."""
    cuts = [max((match.end() for match in _SEPARATOR.finditer(text, first, shares[0].start)), default=first)]
    for one, other in itertools.pairwise(shares):
        marks = list(_SEPARATOR.finditer(text, one.end, other.start))
        cuts.append(marks[-1].end() if marks else one.end)
    ends = [*cuts[1:], min(last, shares[-1].end + 24)]
    for share, start, end in zip(shares, cuts, ends, strict=True):
        before = text[start : share.start]
        if _NO_WEIGHT.search(before):
            continue
        after = _SEPARATOR.split(text[share.end : end], maxsplit=1)[0]
        name = before + after
        if classes_in(before) or term_finder().find(before):
            name = before
        elif classes_in(after):
            name = after
        yield _holding(name, share, start, share.end, count=_count(before))
