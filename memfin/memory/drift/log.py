"""The drift log's records and the lines of its index (memory design §3.3, §9.3)."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from memfin.contracts.base import Record
from memfin.contracts.memory import DriftRecord, DriftSignal, Identifier, Moment, ObjectRef, SignalKind
from memfin.memory.drift.detectors import Signal
from memfin.memory.drift.thresholds import Thresholds

_STAMP: Final = "drift_%Y%m%dT%H%M%SZ"


class DriftIndexLine(Record):
    """A line of the index: what there is in the log, without what was said."""

    drift_id: Identifier
    signal_kind: SignalKind
    object_ref: ObjectRef
    triggers_alert: bool
    recorded_at: Moment


def drift_record(signal: Signal, drift_id: str, thresholds: Thresholds) -> DriftRecord:
    """Return the record of a signal."""
    return DriftRecord(
        drift_id=drift_id,
        object_ref=signal.object_ref,
        cognition_object=signal.cognition_object,
        signal_kind=signal.kind,
        prior_signal=signal.prior,
        current_signal=signal.current,
        delta_summary=signal.summary,
        triggers_alert=signal.kind in thresholds.downstream.alerting,
    )


def index_line(record: DriftRecord) -> DriftIndexLine:
    """Return the index's line for a record; when it was recorded stands in its id, if MemFin made that."""
    try:
        moment = datetime.strptime(record.drift_id[:-7], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        moment = record.current_signal.captured_at
    return DriftIndexLine(
        drift_id=record.drift_id,
        signal_kind=record.signal_kind,
        object_ref=record.object_ref,
        triggers_alert=record.triggers_alert,
        recorded_at=moment,
    )


def unrecorded(signals: Iterable[Signal], log: Iterable[DriftRecord]) -> Iterator[Signal]:
    """Yield the signals that the log does not hold: the same two things said in the same two places."""
    held = {_identity(each.signal_kind, each.prior_signal, each.current_signal) for each in log}
    for signal in signals:
        identity = _identity(signal.kind, signal.prior, signal.current)
        if identity not in held:
            held.add(identity)
            yield signal


def _identity(kind: SignalKind, prior: DriftSignal, current: DriftSignal) -> tuple[str, ...]:
    return (
        kind,
        prior.captured_in_object_ref,
        prior.value,
        current.captured_in_object_ref,
        current.value,
    )
