"""Mergeable state of a metric: one cell of exact sums per dialogue, nothing else.

A row adds its *contribution* to the cell of its dialogue. Cells hold integers and fractions, which
add up exactly, and values are computed from the cells with correctly rounded sums. Hence shards may
be merged in any order, rows of one dialogue may lie in different shards, and the result is the same
to the last bit as if one state had seen everything.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from operator import add
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar, cast

import msgspec

from memfin.contracts import TRACE_VERSION, TRACE_VERSION_EXTENDED, MetricResult, Reading, TurnEvalRow
from memfin.contracts.reading import InvalidRecord, check_trace_version, convert, upgrade
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.interval import RatioSums, ratio_interval

NO_ANSWER: Final = marked("no turn was answered")

MAX_SHARED: Final = 10_000
"""Different cells of a metric up to which dialogues with equal sums share one."""

_KNOWN_VERSIONS: Final = frozenset({TRACE_VERSION, TRACE_VERSION_EXTENDED})


class BadRow(ValueError):  # noqa: N818 - names the row, as the count does
    """A row that contradicts itself in a field, so the metric cannot count it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Cell(msgspec.Struct, frozen=True, gc=False):
    """The sums of one dialogue; ``turns`` counts the rows (M2: the replays) in the denominator."""

    turns: int = 0

    @property
    def unread(self) -> int:
        """The number of turns outside the denominator because their judge failed."""
        return 0

    def __add__(self, other: Self) -> Self:
        """Return the sums of both; an addition that fails leaves both as they were."""
        return type(self)(*map(add, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))


CellT = TypeVar("CellT", bound=Cell)


class Share(NamedTuple, Generic[CellT]):
    """A value of a metric: the sum of ``hits`` divided by the sum of ``of``, over cells.

    ``broken_down`` values appear in ``macro`` and ``by_dialog`` as well as in ``micro``. ``low`` and
    ``high`` are the bounds of the value's range, which its interval may not leave; ``graded`` values are
    means of marks, not shares of hits; of a value with ``lower_is_better`` less is good. ``empty`` is the
    reason why a value without a denominator was not measured; one that is ``optional`` is left out instead.
    """

    name: str
    hits: Callable[[CellT], float | Fraction]
    of: Callable[[CellT], int]
    broken_down: bool = True
    low: float = 0.0
    high: float = 1.0
    graded: bool = False
    lower_is_better: bool = False
    empty: str = marked("no answered turn has it")
    optional: bool = False

    def sums(self) -> RatioSums:
        """Return empty sums for the interval of the value."""
        return RatioSums(self.low, self.high, graded=self.graded)


class MetricState(ABC, Generic[CellT]):
    """Base of the metrics' states: cells, counts of units without a cell, merging, the result."""

    name: MetricName
    shares: tuple[Share[Any], ...]

    def __init__(self) -> None:
        self._cells: dict[str, CellT] = {}
        self._shared: dict[CellT, CellT] = {}
        self._skipped = 0
        self._failed = 0
        self._bad = 0

    @abstractmethod
    def _counts(self, total: Callable[[Callable[[CellT], int]], int]) -> dict[str, int]:
        """Return the metric's own counts; ``total`` sums something over all cells."""

    def _unreported(self, total: Callable[[Callable[[CellT], int]], int]) -> dict[str, str]:
        """Return, by value, why a value with a denominator was not measured all the same."""
        del total
        return {}

    def _put(self, dialog_id: str, contribution: CellT) -> None:
        """Add a contribution to the cell of its dialogue."""
        # Adding to an empty cell, too, so that what does not add up never gets in.
        cell = self._cells.get(dialog_id)
        cell = (type(contribution)() if cell is None else cell) + contribution
        # Many dialogues have one of few sums: sharing cells takes a third of the memory. The sums on the way
        # there are among them, so that there may be no more than dialogues.
        room = len(self._shared) < min(MAX_SHARED, len(self._cells))
        share = self._shared.setdefault if room else self._shared.get
        self._cells[dialog_id] = share(cell, cell)

    @property
    def bad_rows(self) -> int:
        """The number of rows so far that could not be counted."""
        return self._bad

    def count_bad(self) -> None:
        """Count a unit that is not a record of the contract or contradicts itself."""
        self._bad += 1

    def merge(self, other: Self) -> None:
        """Add the counts of another state of the same metric; the other stays unchanged."""
        for dialog_id, cell in list(other._cells.items()):
            self._put(dialog_id, cell)
        self._skipped += other._skipped
        self._failed += other._failed
        self._bad += other._bad

    def result(self, clients: Mapping[str, str] = MappingProxyType({})) -> MetricResult:
        """Compute the values of everything counted so far.

        A value with denominator 0 is 0.0; a dialogue has an entry in ``by_dialog`` only for values
        whose denominator it carries, and ``macro`` is the mean over those dialogues. ``clients`` maps the
        dialogues that are sessions of clients to these, which are the sampling units of the intervals.
        """
        cells = sorted(self._cells.items())

        def total(number: Callable[[CellT], int]) -> int:
            return sum(number(cell) for _, cell in cells)

        shares = [share for share in self.shares if not share.optional or total(share.of)]
        micro: dict[str, float] = {}
        macro: dict[str, float] = {}
        ci95: dict[str, tuple[float, float]] = {}
        for share in shares:
            sums = {
                key: (float(share.hits(cell)), float(of)) for key, cell in cells if (of := share.of(cell))
            }
            carrying = [*sums.values()]
            denominator = math.fsum(of for _, of in carrying)
            micro[share.name] = math.fsum(hits for hits, _ in carrying) / denominator if carrying else 0.0
            units = by_client(sums, clients) if clients else carrying
            bounds = ratio_interval(units, share.low, share.high, graded=share.graded)
            if bounds is not None:
                ci95[share.name] = bounds
            if share.broken_down:
                values = [hits / of for hits, of in carrying]
                macro[share.name] = math.fsum(values) / len(values) if values else 0.0

        eligible = total(lambda cell: cell.turns)
        counts = {
            "eligible_count": eligible,
            "skipped_count": self._skipped,
            "failed_count": self._failed + self._bad,
            **self._counts(total),
            "bad_rows": self._bad,
        }
        answered = bool(eligible or self._skipped or not self._failed)
        not_measured = {
            share.name: share.empty if answered else NO_ANSWER for share in shares if not total(share.of)
        } | (self._unreported(total) if eligible else {})
        return MetricResult(
            metric_name=self.name,
            micro=micro,
            macro=macro,
            counts=counts,
            by_dialog=self._by_dialog(cells),
            ci95={name: bounds for name, bounds in ci95.items() if name not in not_measured},
            not_measured=not_measured,
        )

    def _by_dialog(self, cells: Iterable[tuple[str, CellT]]) -> dict[str, dict[str, float]]:
        """Return the values of each dialogue that carries one; equal dialogues share an entry."""
        shares = [share for share in self.shares if share.broken_down]
        entries: dict[CellT, dict[str, float]] = {}
        by_dialog: dict[str, dict[str, float]] = {}
        for dialog_id, cell in cells:
            entry = entries.get(cell)
            if entry is None:
                entry = entries[cell] = {
                    share.name: float(share.hits(cell)) / float(of)
                    for share in shares
                    if (of := share.of(cell))
                }
            if entry:
                by_dialog[dialog_id] = entry
        return by_dialog


class RowState(MetricState[CellT]):
    """The state of a metric over turn_eval rows.

    ``eligible_count`` counts the rows in the denominator; ``failed_count`` those whose turn failed
    (``turn_status`` timeout or error), those that could not be scored, those that would be in the
    denominator if their judge had not failed, and the bad ones; ``skipped_count`` the rest.
    """

    of_dialog: bool = False
    """True if the value in a row is that of the whole dialogue."""

    def is_failed(self, row: TurnEvalRow) -> bool:
        """Return True if there is nothing to count in a row; see `is_failed`."""
        return is_failed(row)

    @abstractmethod
    def _contribution(self, row: TurnEvalRow) -> CellT:
        """Return the contribution of an answered turn; ``turns`` is 0 outside the denominator.

        May raise anything for a row that cannot be counted.
        """

    def add(self, row: TurnEvalRow | Mapping[str, Any]) -> None:
        """Count one row, a struct or plain data; one that cannot be counted is bad and never raises."""
        record = read_row(row)
        if record is None:
            self.count_bad()
        else:
            self.add_record(record)

    def add_record(self, row: TurnEvalRow) -> None:
        """Count one row that `read_row` returned."""
        if self.is_failed(row):
            self._failed += 1
            return
        try:
            contribution = self._contribution(row)
            self._put(row.dialog_id, contribution)
        except Exception:  # noqa: BLE001 - a single row must not end the scoring of the others
            self.count_bad()
            return
        if not contribution.turns:
            self._failed += contribution.unread
            self._skipped += not contribution.unread

    def units(self, row: TurnEvalRow) -> Iterator[tuple[Share[CellT], float, float]]:
        """Yield the values of one turn with numerator and denominator; none where it cannot be counted."""
        try:
            cell = None if self.is_failed(row) else self._contribution(row)
        except BadRow:
            cell = None
        for share in self.shares if cell is not None else ():
            if of := share.of(cell):
                yield share, float(share.hits(cell)), float(of)

    def objection(self, row: TurnEvalRow) -> BadRow | None:
        """Return the reason for which a row would be counted bad, or None; the state stays unchanged."""
        try:
            if not self.is_failed(row):
                self._contribution(row)
        except BadRow as problem:
            return problem
        return None

    @classmethod
    def over(cls, turn_rows: Iterable[TurnEvalRow | Mapping[str, Any]]) -> MetricResult:
        """Return the result of counting the given rows, valid or not; see `each_of`."""
        state = cls()
        for row in each_of(turn_rows):
            state.add(row)
        return state.result()


def by_client(
    sums: Mapping[str, tuple[float, float]], clients: Mapping[str, str]
) -> list[tuple[float, float]]:
    """Return the sums of dialogues with those of a client's sessions added up."""
    found: dict[tuple[bool, str], tuple[float, float]] = {}
    for dialog_id, (hits, of) in sums.items():
        unit = dialog_id in clients, clients.get(dialog_id, dialog_id)  # a client may have a dialogue's name
        before = found.get(unit, (0.0, 0.0))
        found[unit] = before[0] + hits, before[1] + of
    return [*found.values()]


def each_of(units: object) -> Iterator[Any]:
    """Yield the units of an iterable; where that is impossible or breaks off, None, which is no unit.

    A metric counts it bad, so the failure is reported and not raised.
    """
    try:
        yield from cast("Iterable[Any]", units)
    except Exception:  # noqa: BLE001 - the metrics never raise, whatever they are given
        yield None


def is_failed(row: TurnEvalRow) -> bool:
    """Return True if there is nothing to count: the turn had no answer, or its scoring failed."""
    return row.turn_status not in (None, "ok") or row.scoring_error is not None


def is_read(row: TurnEvalRow, reading: Reading) -> bool:
    """Return True if a detector or a judge read this in the reply, False where the judge failed."""
    return row.unjudged is msgspec.UNSET or reading not in row.unjudged


def read_row(value: object) -> TurnEvalRow | None:
    """Return a turn_eval row as a struct, or None if it is invalid or of an unsupported version.

    Plain data is checked field by field; the names of the older draft are read. A struct was checked
    when it was decoded, or is the program's own.
    """
    try:
        if isinstance(value, TurnEvalRow):
            row = value
        elif isinstance(value, Mapping):
            plain = dict(value)
            try:
                row = convert(plain, TurnEvalRow)
            except InvalidRecord:
                row = convert(upgrade(plain, TurnEvalRow), TurnEvalRow)
        else:
            return None
        if row.trace_version not in _KNOWN_VERSIONS:
            check_trace_version(row.trace_version)
    except Exception:  # noqa: BLE001 - a mapping is foreign code, which may raise anything
        return None
    return row if isinstance(row.dialog_id, str) else None
