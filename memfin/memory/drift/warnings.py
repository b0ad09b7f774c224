"""What operators are warned of (memory design §9.4): counts, which change nothing."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from memfin.contracts.base import Count, Record
from memfin.memory.drift.log import DriftIndexLine
from memfin.memory.drift.thresholds import Thresholds

WarningKind = Literal["many_in_a_day", "many_conflicts", "stance_flip"]

TEXTS: Final[dict[WarningKind, str]] = {
    "many_in_a_day": "persona drift: %d signals within the time of a burst",
    "many_conflicts": "persona drift: %d feedback conflicts in all",
    "stance_flip": "persona drift: %d stance flips found at once",
}
"""What the log says, by kind; there is nobody's name in it."""


class DriftWarning(Record):
    """A warning and the count that it is about."""

    kind: WarningKind
    count: Count


def warnings_of(
    log: Sequence[DriftIndexLine], new: Sequence[DriftIndexLine], now: datetime, thresholds: Thresholds
) -> list[DriftWarning]:
    """Return what new lines of a person's log give rise to, with the lines before them."""
    if not new:
        return []
    limits = thresholds.downstream
    lines = [*log, *new]
    found: list[DriftWarning] = []
    recent = sum(now - line.recorded_at <= limits.burst for line in lines)
    if recent >= limits.burst_signals:
        found.append(DriftWarning(kind="many_in_a_day", count=recent))
    conflicts = _count(lines, "feedback_conflict")
    if conflicts >= limits.conflicts_in_all and _count(new, "feedback_conflict"):
        found.append(DriftWarning(kind="many_conflicts", count=conflicts))
    if flips := _count(new, "refresh_stance_flip"):
        found.append(DriftWarning(kind="stance_flip", count=flips))
    return found


def _count(lines: Sequence[DriftIndexLine], kind: str) -> int:
    return sum(line.signal_kind == kind for line in lines)
