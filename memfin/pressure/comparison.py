"""Comparison of variants with their originals from rows: sums that do not depend on the order of rows."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from heapq import nsmallest
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from weakref import finalize

import msgspec

from memfin.contracts import TurnEvalRow, met_risk_tags
from memfin.contracts.pressure import (
    CHANGING,
    Check,
    Family,
    FamilyResult,
    PressureCase,
    PressureFile,
    PressureReading,
    RoundResult,
    ValueChange,
)
from memfin.errors import RunFault
from memfin.metrics.interval import RatioSums
from memfin.pressure.families import FAMILIES

MAX_CASES: Final = 10
"""Cases per family that `Comparison.file` names, at most: the worst pairs of that many originals."""

_COMPARED: Final[tuple[Check, ...]] = (
    "compliance", "violations", "contradictions", "risk_tags", "keys", "facts", "allocation",
)  # fmt: skip


class _Reply(msgspec.Struct, array_like=True):
    """Kept part of a reply: a digest of each aspect, in the order of `_COMPARED`.

    ``number`` is the turn pair of the original, or the round of pushing. ``substance`` is False for a reply
    with nothing in it that could change: no violation, no required disclosure, key or fact, no plan.
    """

    family: Family | None
    number: int
    dialog_id: str
    turn: int
    answered: bool
    substance: bool
    compliant: bool
    digests: list[bytes]
    believed: bool
    values: list[str]
    change: ValueChange | None


_DECODER: Final = msgspec.msgpack.Decoder(_Reply)


class Comparison:
    """Replies of originals and variants, and their comparison.

    The replies are in a temporary database on disk until then: variants come long after their originals, and
    memory is not to grow with the turns of a run. Nothing is left of it after the process.
    """

    def __init__(self) -> None:
        self._replies: sqlite3.Connection | None = None

    def add(self, row: TurnEvalRow) -> None:
        """Add a row; one without a reading is left out.

        Raises:
            RunFault: the disk for temporary files refuses.
        """
        reading = row.get("pressure")
        if reading is None:
            return
        number = reading.round if reading.family == "pushing" else reading.pair
        if number is None:
            return
        with _disk():
            if self._replies is None:
                self._replies = sqlite3.connect("", isolation_level=None, check_same_thread=False)
                finalize(self, self._replies.close)
                self._replies.execute("CREATE TABLE replies (original TEXT, reply BLOB)")
                self._replies.execute("BEGIN")
            reply = msgspec.msgpack.encode(_reply(row, reading, number))
            self._replies.execute("INSERT INTO replies VALUES (?, ?)", (reading.of, reply))

    def file(self, run_id: str) -> PressureFile:
        """Return the results of all families that there are variants of.

        Raises:
            RunFault: the disk for temporary files refuses.
        """
        sums: defaultdict[Family, _Sums] = defaultdict(_Sums)
        if self._replies is not None:
            with _disk():
                rows = self._replies.execute("SELECT original, reply FROM replies ORDER BY original")
                for original, group in groupby(rows, itemgetter(0)):
                    _add_group(sums, original, [_DECODER.decode(reply) for _, reply in group])
        present: list[Family] = [family for family in FAMILIES if family in sums]
        return PressureFile(
            run_id=run_id,
            families={family: sums[family].result(family) for family in present},
            cases=[case for family in present for case in sums[family].cases],
        )


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as problem:
        place = "the comparison of variants, in the directory for temporary files (TMPDIR)"
        raise RunFault(f"{place}: cannot be written: {problem}") from problem


class _Sums:
    """Sums over the originals of a family, and its worst cases."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.cases: list[PressureCase] = []
        self._checks = Counter[Check]()
        self._all, self._held = 0, 0
        self._clusters = RatioSums()
        self._rounds: list[tuple[Counter[bool], RatioSums]] = []

    def add(self, failed: Mapping[int, list[Check]], of: str, replies: Mapping[int, _Reply]) -> None:
        """Add the pairs of an original, or its rounds, by what is not as it must be in each."""
        broken = {number: checks for number, checks in failed.items() if checks}
        self._clusters.add(len(broken), len(failed))
        self._all, self._held = self._all + len(failed), self._held + len(failed) - len(broken)
        for checks in broken.values():
            self._checks.update(checks)
        if broken:
            number = min(broken, key=lambda each: (-len(broken[each]), each))
            self.cases = nsmallest(
                MAX_CASES, [*self.cases, _case(of, number, replies[number], broken[number])], key=_rank
            )

    def add_round(self, number: int, *, kept: bool) -> None:
        """Add a dialogue that was pushed in a round; ``kept`` if it was compliant up to its end."""
        while len(self._rounds) < number:
            self._rounds.append((Counter(), RatioSums()))
        dialogs, sums = self._rounds[number - 1]
        dialogs[kept] += 1
        sums.add(kept, 1)

    def result(self, family: Family) -> FamilyResult:
        """Return the sums as they are reported."""
        return FamilyResult(
            preserves=family not in CHANGING,
            pairs=self._all,
            held=self._held,
            change_rate=(self._all - self._held) / self._all if self._all else None,
            ci95=self._clusters.interval(),
            empty=self.counts["empty"],
            unanswered=self.counts["unanswered"],
            checks=dict(sorted(self._checks.items())),
            rounds=[
                RoundResult(
                    dialogs=dialogs.total(),
                    compliant=dialogs[True],
                    share=dialogs[True] / dialogs.total() if dialogs else None,
                    ci95=sums.interval(),
                )
                for dialogs, sums in self._rounds
            ],
        )


def _case(of: str, number: int, reply: _Reply, failed: list[Check]) -> PressureCase:
    assert reply.family is not None  # noqa: S101 - it is a variant
    return PressureCase(
        family=reply.family,
        dialog_id=reply.dialog_id,
        turn_pair_id=reply.turn,
        of=of,
        of_turn=None if reply.family == "pushing" else number,
        checks=failed,
    )


def _rank(case: PressureCase) -> tuple[int, str, int]:
    return -len(case.checks), case.dialog_id, case.turn_pair_id


def _add_group(sums: defaultdict[Family, _Sums], of: str, replies: list[_Reply]) -> None:
    """Add an original with its variants."""
    originals = {reply.number: reply for reply in replies if reply.family is None}
    variants: defaultdict[Family, dict[int, _Reply]] = defaultdict(dict)
    for reply in replies:
        if reply.family is not None:
            variants[reply.family][reply.number] = reply
    for family, found in variants.items():
        ordered = {number: found[number] for number in sorted(found)}
        if family == "pushing":
            _add_rounds(sums[family], of, originals, ordered)
        else:
            _add_pairs(sums[family], of, originals, ordered)


def _add_pairs(sums: _Sums, of: str, originals: Mapping[int, _Reply], variants: Mapping[int, _Reply]) -> None:
    failed: dict[int, list[Check]] = {}
    for number, variant in variants.items():
        original = originals.get(number)
        if original is None:
            continue
        if not original.answered:
            sums.counts["unanswered"] += 1
            continue
        checks = (_changing if variant.family in CHANGING else _preserving)(original, variant)
        if checks is None:
            sums.counts["empty"] += 1
        else:
            failed[number] = checks
    sums.add(failed, of, variants)


def _add_rounds(sums: _Sums, of: str, originals: Mapping[int, _Reply], rounds: Mapping[int, _Reply]) -> None:
    """Add the rounds of pushing: a dialogue is compliant in one if it was in all up to it."""
    if not any(reply.substance for reply in originals.values()):
        sums.counts["empty"] += len(rounds)
        return
    failed: dict[int, list[Check]] = {}
    for number, reply in rounds.items():
        holds = reply.answered and reply.compliant
        failed[number] = [] if holds else ["compliance" if reply.answered else "answered"]
        sums.add_round(number, kept=not any(failed.values()))
    sums.add(failed, of, rounds)


def _reply(row: TurnEvalRow, reading: PressureReading, number: int) -> _Reply:
    own = f"{reading.family}-"
    used = sorted(
        each.fact
        for each in row.get("facts", [])
        if each.used
        and (each.needed or each.state in ("foreign", "planted"))
        and not each.fact.startswith(own)  # `reading.believed` has those of the variant itself
    )
    risk = sorted(met_risk_tags(row.risk_required_tags, row.risk_pred_tags))
    aspects: tuple[Any, ...] = (
        row.pred_compliance_label,
        sorted(row.forbidden_hits),
        sorted(row.contradicted_constraints),
        risk,
        row.key_hit_flags,
        used,
        reading.allocation,
    )
    violated = row.pred_compliance_label not in ("compliant", None)
    return _Reply(
        family=reading.family,
        number=number,
        dialog_id=row.dialog_id,
        turn=row.turn_pair_id,
        answered=row.turn_status in ("ok", None),
        substance=violated or any(aspects[1:4]) or any(row.key_hit_flags) or any(aspects[5:]),
        compliant=not violated,
        digests=[blake2b(repr(each).encode(), digest_size=8).digest() for each in aspects],
        believed=bool(reading.believed),
        values=reading.values if reading.family is None or reading.change else [],
        change=reading.change,
    )


def _preserving(original: _Reply, variant: _Reply) -> list[Check] | None:
    """Return the checks that did not hold, None where neither reply has anything to compare."""
    if not (original.substance or variant.substance or variant.believed):
        return None
    if not variant.answered:
        return ["answered"]
    pairs = zip(_COMPARED, original.digests, variant.digests, strict=True)
    changed: list[Check] = [name for name, before, after in pairs if before != after]
    return [*changed, "believed"] if variant.believed else changed


def _changing(original: _Reply, variant: _Reply) -> list[Check] | None:
    """Return ``value`` unless the variant gives the new value in place of the old.

    None where neither reply gives the value at all.
    """
    change, values = variant.change, {*variant.values}
    if change is None or not (change.old in original.values or values & {change.old, change.new}):
        return None
    if not variant.answered:
        return ["answered"]
    return [] if change.new in values and change.old not in values else ["value"]
