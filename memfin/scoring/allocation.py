"""Allocations that a reply proposes in tables, lists and sentences, as one structure.

A table gives one proposal per column of shares (options side by side) or, with asset classes in its header,
one per row. Lines in a row, each with a name and one share or sum of money, give one proposal; a line whose
share is the total of the lines below it is their heading. Sentences are read by `memfin.scoring.prose_plans`.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from memfin.scoring.proposals import (
    BULLET,
    COMPARED,
    MAX_NAME,
    MIN_PARTS,
    NO_PLAN,
    NO_WEIGHT,
    NONE_BEHIND,
    TOLERANCE,
    WHOLE,
    WHOLE_SLACK,
    Holding,
    Proposal,
    adds_up,
    classes_in,
    count_of,
    holding_of,
    proposal_of,
)
from memfin.scoring.prose_plans import from_sentences, ratios, run_of_parts
from memfin.text.document import Cell, Document, Line
from memfin.text.quantities import Quantity

_SHORT_LINE: Final = 40
_MAX_HEAD: Final = 200
"""Characters at the head of a line in which its share is looked for."""
_PROFILE_NAME: Final = re.compile(
    r"^\W*(?:(?:保守|谨慎|稳健|平衡|进取|激进|积极|成长)型|"
    r"(?:conservative|moderate|balanced|aggressive|growth) (?:investor|type|profile))"
)
_MAX_PARTS: Final = 24
"""Parts of the longest plan that is read."""
_MAX_GAP: Final = 2
"""Lines without a share that may stand between two lines of one plan."""

_SHARE_SIGN: Final = re.compile(
    r"[%成分一p半t万$¥£€元hqf](?:(?<=[%成万$¥£€元])|(?<=分)之|(?<=一)半|(?<=p)ercent|(?<=h)alf\b|(?<=t)(?:hird|enth)s?\b|(?<=q)uarters?\b|(?<=f)ifths?\b)"
)
_TOTAL: Final = re.compile(r"^(?:总和|总|共|sum|all)|合计|总计|小计|一共|总共|加起来|\btotals?\b")
_SHARE_HEAD: Final = re.compile(
    r"比例|占比|仓位|权重|配置|配比|份额|目标|方案|组合|成数|金额|share|weight|allocation|percent|%|portion|amount|mix|"
    r"conservative|balanced|aggressive|option|plan|保守|稳健|平衡|进取|积极"
)
_CLAUSE: Final = re.compile(r",(?![0-9]{3})")
_NUMBERING: Final = re.compile(r"^(?:\(?[0-9]{1,2}[.)、](?![0-9])|[①-⑳])\s*")


def proposals(document: Document) -> list[Proposal]:
    """Return the allocations that a reply proposes, in the order of the text."""
    numbers = sorted({document.line_number(match.start()) for match in _SHARE_SIGN.finditer(document.text)})
    found = [*ratios(document)]
    if numbers:
        found += _from_tables(document, frozenset(numbers))
        found += _from_lines(document, numbers)
        found += from_sentences(document, numbers)
    return sorted(found, key=lambda each: (each.start, each.end))


# ------------------------------------------------------------------ tables


def _from_tables(document: Document, shares: frozenset[int]) -> Iterator[Proposal]:
    for table in document.tables(shares):
        if not table.rows:
            continue
        width = max(len(row) for row in table.rows)
        columns = [n for n in range(width) if _is_share_column(document, table.header, table.rows, n)]
        if _class_names(table.header) >= MIN_PARTS:
            yield from _rows_as_options(document, table.header, table.rows)
            continue
        for column in columns:
            yield from proposal_of(_column(document, table.rows, column), document)
        if not columns:
            yield from _cells_alone(document, table.rows)


def _cells_alone(document: Document, rows: Sequence[Sequence[Cell]]) -> Iterator[Proposal]:
    """Yield what single cells propose: a run of parts, or one part with its share."""
    for cell in itertools.chain.from_iterable(rows):
        if _SHARE_SIGN.search(cell.text) is None:
            continue
        yield from run_of_parts(document, cell.start, cell.end, laid_out=True)
        share = _share_of(document, cell)
        name = "" if share is None else document.text[cell.start : share.start]
        if share is not None and name and len(cell.text) < _SHORT_LINE and COMPARED.search(name) is None:
            yield from proposal_of([holding_of(name, share, cell.start, cell.end)], document)


def _class_names(cells: Sequence[str]) -> int:
    return sum(1 for cell in cells[1:] if classes_in(cell))


def _share_of(document: Document, cell: Cell) -> Quantity | None:
    """Return the share that a cell holds, when the cell is little more than that."""
    if len(cell.text) > MAX_NAME:
        return None
    for quantity in document.quantities(cell.start, cell.end):
        if quantity.kind == "share" and 0 < quantity.high <= WHOLE:
            return None if NO_WEIGHT.search(document.text, cell.start, quantity.start) else quantity
    return None


def _is_share_column(
    document: Document, header: Sequence[str], rows: Sequence[Sequence[Cell]], column: int
) -> bool:
    title = header[column] if column < len(header) else ""
    if NO_WEIGHT.search(title) or NO_PLAN.search(title):
        return False
    shares = [_share_of(document, row[column]) for row in rows if column < len(row)]
    held = [share for share in shares if share is not None]
    if len(held) < MIN_PARTS or len(held) * 2 < len(shares):
        return False
    total = sum(share.high for share in held)
    return (
        _SHARE_HEAD.search(title) is not None or abs(total - 1) < WHOLE_SLACK or abs(total - 2) < WHOLE_SLACK
    )


def _column(document: Document, rows: Sequence[Sequence[Cell]], column: int) -> Iterator[Holding]:
    for row in rows:
        if column >= len(row) or _TOTAL.search(BULLET.sub("", row[0].text)):
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
            if n != column and cell is not named and len(cell.text) < MAX_NAME
        )
        start = min(named.start, row[column].start)
        yield holding_of(named.text, share, start, row[column].end, rest=rest)


def _rows_as_options(
    document: Document, header: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> Iterator[Proposal]:
    for row in rows:
        parts = [
            holding_of(title, share, cell.start, cell.end)
            for title, cell in zip(header[1:], row[1:], strict=False)
            if classes_in(title) and (share := _share_of(document, cell)) is not None
        ]
        if (
            len(parts) >= MIN_PARTS
            and not NO_PLAN.search(row[0].text)
            and not _PROFILE_NAME.match(row[0].text)
        ):
            yield from proposal_of(parts, document)


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
            yield from proposal_of(run, document, laid_out=prose.isdisjoint(run))
        runs = itertools.groupby(block, key=lambda entry: entry.money and bool(entry.holding.classes))
        money = max(([entry.holding for entry in run] for is_sum, run in runs if is_sum), key=len, default=[])
        total = sum(each.high for each in money)
        if len(money) > MIN_PARTS:
            parts = [each._replace(low=each.low / total, high=each.high / total) for each in money]
            yield from proposal_of(parts, document, total=total)


def _wholes(holdings: Sequence[Holding]) -> Iterator[Sequence[Holding]]:
    """Cut a run of holdings into plans that add up to a whole; what is left over comes one by one."""
    lows = list(itertools.accumulate((each.low for each in holdings), initial=0.0))
    highs = list(itertools.accumulate((each.high for each in holdings), initial=0.0))
    first = 0
    while first < len(holdings):
        last = next(
            (
                end
                for end in range(min(len(holdings), first + _MAX_PARTS), first + 1, -1)
                if lows[end] - lows[first] <= WHOLE + WHOLE_SLACK
                and highs[end] - highs[first] >= WHOLE - WHOLE_SLACK
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
    """Return True if the lines between two parts end a plan: too many, or a heading behind a whole."""
    others = [
        line for line in between if line.kind not in ("blank", "rule") and 2 * line.indent <= block[-1].level
    ]
    if len(others) > _MAX_GAP:
        return True
    ended = any(line.kind == "heading" for line in others)
    return ended and len(block) > 1 and adds_up([each.holding for each in block])


def _entry(document: Document, line: Line) -> _Entry | None:
    """Return the part that a line names: a name with one share right behind or in front of it."""
    words = document.content(line)
    skipped = _NUMBERING.match(words)
    start = line.start + (skipped.end() if skipped else 0)
    chosen = _amount_of(document.quantities(start, min(line.end, start + _MAX_HEAD)))
    if chosen is None or words.endswith("?"):
        return None
    before, after = document.text[start : chosen.start], document.text[chosen.end : line.end]
    if not _is_name(before) or NONE_BEHIND.match(after):
        return None
    name = re.sub(r"[\s(:|~≈=]+$", "", before)
    if not re.search(r"[^\W\d_]", name):
        # The share leads the line; its name follows.
        name, after = re.split(r"[。;,(]", after[:MAX_NAME].lstrip(" 的:-)"), maxsplit=1)[0], ""
    rest = re.split(r"[。;]", after, maxsplit=1)[0][:MAX_NAME]
    holding = holding_of(name, chosen, line.start, chosen.end, rest=rest, count=count_of(name))
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
    if len(shares) > MIN_PARTS + 1:
        return None
    chosen = money
    if shares and (money is None or shares[0].start < money.start + MAX_NAME):
        chosen = shares[0]
    if chosen is None or chosen.high <= 0 or (chosen.kind == "share" and chosen.high > WHOLE):
        return None
    return chosen


def _is_name(before: str) -> bool:
    """Return True if the words in front of a share can be the name of a part."""
    if len(before) > MAX_NAME or re.search(r"[。!?;]", before) or len(_CLAUSE.findall(before)) > 1:
        return False
    others = (NO_WEIGHT, NO_PLAN, COMPARED)
    if any(pattern.search(before) for pattern in others) or _PROFILE_NAME.match(before):
        return False
    return _TOTAL.search(BULLET.sub("", before)) is None


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
        if not below or abs(total - entry.holding.high) > TOLERANCE + 0.04 * (total > 1):
            leaves.append(entry)
    return leaves
