"""The content of a report before any format: sections of cards, tables, charts and cases.

Every suite fills the same model, and one HTML and one Markdown template render it. Strings that came out of a
run are already `visible` and cut; they are still untrusted markup.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from memfin.language import tr
from memfin.text.lines import one_line, visible

Pairs = tuple[tuple[str, str], ...]
Interval = tuple[float, float]


class Segment(Struct, frozen=True):
    """A piece of a text; ``marked`` when a finding covers it."""

    text: str
    marked: bool = False


class ReportWarning(Struct, frozen=True):
    """A limit on what the figures mean; a ``note`` is a harmless one."""

    title: str
    detail: str
    level: Literal["warning", "note"] = "warning"


class Counter(Struct, frozen=True):
    """A count at the head of a report."""

    label: str
    count: int
    level: Literal["", "odd", "bad"] = ""


class Card(Struct, frozen=True, kw_only=True):
    """The leading value of a metric; ``share`` (0 to 1) and its interval are drawn as a gauge."""

    title: str
    value: str
    label: str
    code: str = ""
    share: float | None = None
    interval: Interval | None = None
    beside: Pairs = ()
    meaning: str = ""
    bad: bool = False


class Cell(Struct, frozen=True):
    """A cell of a table; ``share`` (0 to 1) is drawn as a bar, ``small`` is an explanation below.

    ``quote`` takes the place of the text.
    """

    text: str
    small: str = ""
    share: float | None = None
    interval: Interval | None = None
    strong: bool = False
    quote: tuple[Segment, ...] = ()


Value = Cell | str | float | None
"""An entry of a table before `table` makes it a cell."""


class Histogram(Struct, frozen=True):
    """Counts in ten equal bins of 0 to 100 %."""

    title: str
    counts: tuple[int, ...]

    @property
    def alt(self) -> str:
        """Return the bins in words."""
        bins = enumerate(self.counts)
        return "; ".join(
            tr("{low} to {high} %: {count}", low=10 * at, high=10 * at + 10, count=count)
            for at, count in bins
            if count
        )


class Line(Struct, frozen=True, kw_only=True):
    """A line of a chart: strokes of points in the unit square, with the first and last value in words.

    ``drifts`` if its trend is material.
    """

    label: str
    strokes: tuple[tuple[tuple[float, float], ...], ...]
    first: str
    last: str
    drifts: bool = False


class LineChart(Struct, frozen=True, kw_only=True):
    """Values over epochs; ``top`` and ``bottom`` label the vertical axis."""

    title: str
    top: str
    bottom: str
    epochs: int
    lines: tuple[Line, ...]
    note: str = ""

    @property
    def alt(self) -> str:
        """Return the course of every line in words."""
        return self.note + "; ".join(
            tr("{name} from {first} to {last}", name=line.label, first=line.first, last=line.last)
            for line in self.lines
        )


class Item(Struct, frozen=True):
    """A piece of evidence; ``quote`` stands behind the text."""

    text: str
    status: Literal["", "hit", "miss", "unknown"] = ""
    quote: tuple[Segment, ...] = ()


class Evidence(Struct, frozen=True):
    """Evidence under a heading; ``chips`` are shown in a row."""

    label: str
    items: tuple[Item, ...]
    chips: bool = False


class Case(Struct, frozen=True, kw_only=True):
    """A question with its reply, or with replies ``beside`` each other under the names of their runs.

    ``repeated`` when an earlier list has shown the same case.
    """

    anchor: str
    why: str
    id: str
    where: str = ""
    context: str = ""
    question: str
    reply: tuple[Segment, ...] | None
    reply_length: int = 0
    beside: tuple[tuple[str, tuple[Segment, ...]], ...] = ()
    language: str = ""
    evidence: tuple[Evidence, ...] = ()
    repeated: bool = False


class Block(Struct, frozen=True):
    """A part of a section: items of one kind, or of the kind ``text`` a paragraph, the note alone.

    ``facts`` are names with short values, ``notes`` terms with explanations, ``columns`` tables side by
    side. Histograms and line charts are for HTML only.
    """

    kind: Literal["cards", "warnings", "text", "facts", "notes", "columns", "histograms", "linecharts"]
    items: tuple[Any, ...] = ()
    title: str = ""
    note: str = ""


class Table(Struct, frozen=True, kw_only=True):
    """A table; ``align`` has a letter per column: left, right, code or bar. `table` makes one."""

    kind: Literal["table"] = "table"
    title: str = ""
    note: str = ""
    headings: tuple[str, ...]
    align: str
    rows: tuple[tuple[Cell, ...], ...]


class Cases(Struct, frozen=True, kw_only=True):
    """The worst cases by one criterion; ``total`` says in words how many meet it."""

    kind: Literal["cases"] = "cases"
    title: str = ""
    note: str = ""
    cases: tuple[Case, ...]
    total: str = ""
    answered: str = "Reply"


AnyBlock = Block | Table | Cases


class Section(Struct, frozen=True):
    """A section of the page; ``id`` is its anchor in every language, ``nav`` its short name."""

    id: str
    title: str
    nav: str
    blocks: tuple[AnyBlock, ...]


class Report(Struct, frozen=True, kw_only=True):
    """Everything that a report shows."""

    title: str
    run_id: str
    facts: Pairs
    counters: tuple[Counter, ...]
    sections: tuple[Section, ...]

    @property
    def warnings(self) -> tuple[ReportWarning, ...]:
        """Return the warnings of all sections."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(each for block in blocks if block.kind == "warnings" for each in block.items)


def report(
    title: str,
    run_id: str,
    facts: Iterable[tuple[str, str | None]],
    counters: Iterable[Counter],
    sections: Iterable[Section | None],
) -> Report:
    """Make a report of the facts and sections that are not None."""
    return Report(
        title=title,
        run_id=one_line(run_id, 128),
        facts=tuple((name, one_line(value, 500)) for name, value in facts if value is not None),
        counters=tuple(counters),
        sections=tuple(each for each in sections if each is not None),
    )


def section(anchor: str, title: str, *blocks: AnyBlock | None, nav: str = "") -> Section | None:
    """Make a section of the blocks that are not None or without items; None without any."""
    kept = tuple(
        block
        for block in blocks
        if block is not None and (not isinstance(block, Block) or block.items or block.kind == "text")
    )
    return Section(anchor, title, nav or title, kept) if kept else None


def warnings_section(warnings: Iterable[ReportWarning]) -> Section | None:
    """Make the section of the warnings, notes last; None without any."""
    ordered = tuple(sorted(warnings, key=lambda each: each.level != "warning"))
    title = tr("Before you trust the numbers")
    return section("warnings", title, Block("warnings", ordered), nav=tr("Warnings"))


def table(
    title: str, headings: Sequence[str], align: str, rows: Iterable[Iterable[Value]], note: str = ""
) -> Table:
    """Make a table; an int is written with grouped digits, a float is a bar, None is a dash."""
    cells = tuple(tuple(_cell(value) for value in row) for row in rows)
    return Table(title=title, headings=tuple(headings), align=align, rows=cells, note=note)


def _cell(value: Value) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, float):
        return Cell("", share=value)
    return Cell("-" if value is None else value if isinstance(value, str) else grouped(value))


def segments(text: str, spans: Iterable[tuple[int, int]], limit: int) -> tuple[Segment, ...]:
    """Cut the first ``limit`` characters of a text into marked and unmarked pieces.

    ``spans`` are half-open character offsets into ``text``; overlapping ones are joined, those out
    of range are clipped. The last piece ends with an ellipsis when the text was cut.
    """
    shown = text[:limit]
    marked = bytearray(len(shown))
    for low, high in spans:
        for at in range(max(0, low), min(high, len(shown))):
            marked[at] = True
    pieces = [
        Segment(visible("".join(char for char, _ in piece)), bool(is_marked))
        for is_marked, piece in groupby(zip(shown, marked, strict=True), key=itemgetter(1))
    ]
    return (*pieces, Segment("…")) if len(text) > limit else tuple(pieces)


def grouped(count: int) -> str:
    """Write a count with grouped digits."""
    return f"{count:,}"


def percent(share: float) -> str:
    """Write a share of 0 to 1 as per cent."""
    return tr("{value:.1f} %", value=100 * share)


def points(difference: float) -> str:
    """Write a difference of percentages with its sign."""
    return f"{round(difference, 1) + 0.0:+.1f}"  # no -0.0


def moment(text: str | None) -> str | None:
    """Write a time of an artifact as ``2026-11-24 02:10 UTC``."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC" if text else None
    except (ValueError, OverflowError):
        return text


def duration(seconds: float) -> str:
    """Write a duration in the units that a reader would use."""
    if seconds < 60:  # noqa: PLR2004 - a minute
        return tr("{seconds:.1f} s", seconds=seconds)
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return tr("{hours} h {minutes:02d} min {rest:02d} s", hours=hours, minutes=minutes, rest=rest)
    return tr("{minutes} min {rest:02d} s", minutes=minutes, rest=rest)


def milliseconds(value: float) -> str:
    """Write a latency."""
    return duration(value / 1000) if value >= 1000 else tr("{value:.3g} ms", value=value)  # noqa: PLR2004 - a second
