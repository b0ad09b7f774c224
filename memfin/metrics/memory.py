"""Memory: facts that the replies needed or must not have used, and probes, of rows that have any."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Self, get_args

import msgspec

from memfin.contracts import FactReading, MetricResult, ProbeReading, Stage, TurnEvalRow
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.state import Cell, RowState, Share, is_failed

_NO_REPORT: Final = marked("the agent reported nothing of its store or its recall")
_NO_FACT: Final = marked("no answered turn needs a fact that holds")
_NO_PROBE: Final = marked("no probe was asked")

NAMES: Final = (
    "stored", "retrieved", "used", "abstained", "stale_use", "foreign_use", "revoked_use", "planted_use",
    "probed", "probe_abstained", "evidence_any", "evidence_all", "probe_lenient", "probe_strict",
)  # fmt: skip
_GRADES: Final = {"probe_lenient": "lenient", "probe_strict": "strict"}
"""Grades of a judge by the values that they count in; without such grades a result lacks them."""

LOWER_IS_BETTER: Final = frozenset({"stale_use", "foreign_use", "revoked_use", "planted_use"})
_MISUSES: Final = {
    "stale_use": ("updated",),
    "foreign_use": ("foreign",),
    "revoked_use": ("withdrawn", "expired"),
    "planted_use": ("planted",),
}
_EMPTY: Final = {
    "stored": _NO_REPORT,
    "retrieved": _NO_REPORT,
    "used": _NO_FACT,
    "abstained": marked("no answered turn needs a fact that does not hold"),
    "probed": _NO_PROBE,
    "probe_abstained": marked("no probe asks for what is not to be known"),
    "evidence_any": marked("no probe with evidence has a reported recall"),
    "evidence_all": marked("no probe with evidence has a reported recall"),
}
_STAGES: Final[tuple[str, ...]] = get_args(Stage)
_MANY_SESSIONS: Final = 3
_DAYS: Final = ((7, "0-7"), (30, "8-30"), (90, "31-90"))

_Sums = tuple[int, ...]


class MemoryCell(Cell, frozen=True, gc=False):
    """Sums of one dialogue: hits and denominators by value, then blames by stage."""

    hits: Any = ()
    of: Any = ()
    blamed: Any = ()

    def __add__(self, other: Self) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the sums of both."""
        return type(self)(
            self.turns + other.turns,
            _added(self.hits, other.hits),
            _added(self.of, other.of),
            _added(self.blamed, other.blamed),
        )


def _added(first: _Sums, second: _Sums) -> _Sums:
    return tuple(a + b for a, b in zip(first, second, strict=True)) if first and second else first or second


def _at(place: int) -> Callable[[_Sums], int]:
    return lambda sums: sums[place] if sums else 0


def _share(place: int, name: str) -> Share[MemoryCell]:
    value = _at(place)
    return Share(
        name,
        lambda cell: value(cell.hits),
        lambda cell: value(cell.of),
        lower_is_better=name in LOWER_IS_BETTER,
        optional=name in _GRADES,
        empty=_EMPTY.get(name, marked("no answered turn has it")),
    )


def has_memory(row: TurnEvalRow) -> bool:
    """Return True if a row belongs to a dialogue with facts or probes."""
    return row.facts is not msgspec.UNSET or row.probes is not msgspec.UNSET


class MemoryState(RowState[MemoryCell]):
    """Mergeable state of the metric ``memory``.

    ``stored``, ``retrieved`` and ``used`` are over needed facts that hold, the first two where the agent
    reports it; ``abstained`` over needed ones that do not. The uses of what must not be used are over the
    answered turns with facts, ``probed`` and ``evidence_*`` over the probes, ``probe_lenient`` and
    ``probe_strict`` over those that a judge has graded.
    """

    name: MetricName = "memory"
    shares: tuple[Share[MemoryCell], ...] = tuple(_share(place, name) for place, name in enumerate(NAMES))

    def __init__(self) -> None:
        super().__init__()
        self._groups: Counter[tuple[str, str, int]] = Counter()

    @property
    def is_there(self) -> bool:
        """True if a row with facts or probes was counted."""
        return bool(self._cells or self._skipped or self._failed or self._bad)

    def is_failed(self, row: TurnEvalRow) -> bool:
        """Return True if there is nothing to count; probes count after a turn without an answer too."""
        return is_failed(row) and not row.probes

    def add_record(self, row: TurnEvalRow) -> None:
        """Count one row, its values by group too."""
        bad, failed = self._bad, self._failed
        super().add_record(row)
        if (bad, failed) == (self._bad, self._failed):
            session = "" if row.session_index is msgspec.UNSET else str(row.session_index)
            for group, name, hit in _grouped(row, session):
                self._groups[group, name, 0] += hit
                self._groups[group, name, 1] += 1

    def merge(self, other: Self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Add the counts of another state; the other stays unchanged."""
        super().merge(other)
        for key, count in other._groups.items():
            self._groups[key] += count

    def result(self, clients: Mapping[str, str] = MappingProxyType({})) -> MetricResult:
        """Return the result with its groups."""
        groups: dict[str, dict[str, tuple[int, int]]] = {}
        for group, name, part in sorted(self._groups):
            if part:
                hits = self._groups[group, name, 0]
                groups.setdefault(group, {})[name] = (hits, self._groups[group, name, 1])
        return super().result(clients).replace(groups=groups)

    def _contribution(self, row: TurnEvalRow) -> MemoryCell:
        units = [*_units(row)]
        hits, of = Counter[str](), Counter[str]()
        for name, hit in units:
            hits[name] += hit
            of[name] += 1
        blamed = Counter(fact.stage for fact in row.facts or () if fact.stage is not None)
        return MemoryCell(
            turns=int(bool(units)),
            hits=tuple(hits[name] for name in NAMES),
            of=tuple(of[name] for name in NAMES),
            blamed=tuple(blamed[stage] for stage in get_args(Stage)),
        )

    def _counts(self, total: Callable[[Callable[[MemoryCell], int]], int]) -> dict[str, int]:
        totals = {share.name: total(share.of) for share in self.shares}
        counts = {f"{name}_total": of for name, of in totals.items() if of or name not in _GRADES}
        for place, stage in enumerate(_STAGES):
            value = _at(place)
            counts[f"blamed_{stage}"] = total(lambda cell, value=value: value(cell.blamed))  # type: ignore[misc]
        return counts


def _units(row: TurnEvalRow) -> Iterator[tuple[str, bool]]:
    """Yield the values of one row: a name, and whether it is a hit."""
    facts = row.facts or ()
    for fact in facts:
        yield from _of_fact(fact)
    if row.facts is not msgspec.UNSET and not is_failed(row):
        for name, states in _MISUSES.items():
            yield name, any(fact.used and fact.state in states and fact.stage is not None for fact in facts)
    for probe in row.probes or ():
        yield from _of_probe(probe)


def _of_fact(fact: FactReading) -> Iterator[tuple[str, bool]]:
    if not fact.needed:
        return
    told_of_others = fact.state == "foreign" and fact.sessions is not None
    if fact.state != "active" and not told_of_others:
        yield "abstained", fact.abstained
        return
    yield "used", fact.used
    if fact.stored is not None:
        yield "stored", fact.stored
    if fact.retrieved is not None:
        yield "retrieved", fact.retrieved


def _of_probe(probe: ProbeReading) -> Iterator[tuple[str, bool]]:
    yield "probed", probe.correct
    if not probe.known:
        yield "probe_abstained", probe.correct
    if probe.evidence_any is not None:
        yield "evidence_any", probe.evidence_any
    if probe.evidence_all is not None:
        yield "evidence_all", probe.evidence_all
    for name, grade in _GRADES.items():
        if isinstance(given := probe[grade], bool):
            yield name, given


def _grouped(row: TurnEvalRow, session: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the values of facts and probes by session and by distance to where they were told."""
    readings: list[tuple[FactReading | ProbeReading, Iterable[tuple[str, bool]]]] = []
    readings += ((fact, _of_fact(fact)) for fact in row.facts or ())
    readings += ((probe, _of_probe(probe)) for probe in row.probes or ())
    for reading, units in readings:
        groups = [f"session:{session}"] if session else []
        if reading.sessions is not None:
            more = "+" if reading.sessions >= _MANY_SESSIONS else ""
            groups.append(f"sessions:{min(reading.sessions, _MANY_SESSIONS)}{more}")
        if reading.days is not None:
            days = reading.days
            groups.append(f"days:{next((name for most, name in _DAYS if days <= most), '91+')}")
        for name, hit in units:
            for group in groups:
                yield group, name, hit


def compute_memory(turn_rows: Iterable[TurnEvalRow | Mapping[str, Any]]) -> MetricResult:
    """Compute the metric ``memory`` from turn_eval rows, structs or plain data; never raises."""
    return MemoryState.over(turn_rows)
