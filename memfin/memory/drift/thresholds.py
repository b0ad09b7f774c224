"""The thresholds of the detectors, read from a file (memory design §9.1)."""

import tomllib
from datetime import timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from memfin.contracts.base import Count, Record
from memfin.contracts.memory import SignalKind
from memfin.contracts.reading import read_toml
from memfin.errors import UsageError

Positive = Annotated[float, msgspec.Meta(gt=0, le=36_500)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class GradeReversal(Record, forbid_unknown_fields=True):
    """How long after a rating its opposite counts as a reversal."""

    within_days: Positive

    @property
    def within(self) -> timedelta:
        """The same as a duration."""
        return timedelta(days=self.within_days)


class FeedbackConflict(Record, forbid_unknown_fields=True):
    """How many comments contradict earlier ones before it counts."""

    least_contrary: AtLeastOne


class StanceFlip(Record, forbid_unknown_fields=True):
    """How much a refresh must change, and how unlike the theses must be."""

    more_inferences_than: Count
    jaccard_below: Share
    compared_with_days: Positive

    @property
    def compared_with(self) -> timedelta:
        """How long ago the thesis was current that is compared."""
        return timedelta(days=self.compared_with_days)


class Reopened(Record, forbid_unknown_fields=True):
    """How long after its resolution a question may be reopened, and when that is looked at."""

    within_days: Positive
    scan_delay_hours: Positive

    @property
    def within(self) -> timedelta:
        """The first as a duration."""
        return timedelta(days=self.within_days)

    @property
    def delay(self) -> timedelta:
        """The second as a duration."""
        return timedelta(hours=self.scan_delay_hours)


class Downstream(Record, forbid_unknown_fields=True):
    """What operators are warned of, and which kinds of signal raise an alert."""

    burst_hours: Positive
    burst_signals: AtLeastOne
    conflicts_in_all: AtLeastOne
    alerting: list[SignalKind]

    @property
    def burst(self) -> timedelta:
        """The time that a burst takes at most."""
        return timedelta(hours=self.burst_hours)


class Keywords(Record, forbid_unknown_fields=True):
    """Words that no thesis is told by."""

    ignored: list[str]


class Thresholds(Record, forbid_unknown_fields=True):
    """The whole file."""

    grade_reversal: GradeReversal
    feedback_conflict: FeedbackConflict
    refresh_stance_flip: StanceFlip
    watch_question_resolved_then_reopened: Reopened
    downstream: Downstream
    keywords: Keywords


def load_thresholds(path: Path | None = None) -> Thresholds:
    """Read thresholds: those that ship with MemFin, or a file of the same form.

    Raises:
        UsageError: the file cannot be read, or is not of that form.
    """
    shipped = files("memfin").joinpath("data", "memory", "drift_thresholds.toml")
    try:
        content = tomllib.loads(shipped.read_text("utf-8")) if path is None else read_toml(path)
        return msgspec.convert(content, Thresholds)
    except (UsageError, msgspec.ValidationError) as problem:
        raise UsageError(f"drift thresholds {path}: {problem}") from problem


@cache
def shipped_thresholds() -> Thresholds:
    """Return the thresholds that ship with MemFin, read once a process."""
    return load_thresholds()
