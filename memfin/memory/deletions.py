"""Deletion of threads, feedback and drift records with everything that belongs to them.

A thread or feedback is deleted at the moment when its record is renamed to ``ID.gone``, drift records when
their ids stand in a file beside the log. What is left is found by these names alone, so an interrupted
deletion is finished like every other operation.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.memory import DriftRecord, Identifier, ThreadHeader, TrainingAssetCandidate
from memfin.memory.files import Files
from memfin.memory.paths import Paths, is_id
from memfin.memory.records import (
    Append,
    Put,
    RecordDamaged,
    Remove,
    RemoveTree,
    Step,
    load,
    load_lines,
    load_sound,
)

GONE: Final = ".gone"


class DeletedDrift(Record):
    """Deleted drift record: its id, and the kind and sources of its signal, which is not recorded again."""

    drift_id: Identifier
    signal: Annotated[str, msgspec.Meta(extra={"given": True})] = ""


def signal_of(record: DriftRecord) -> str:
    """Return the kind and the sources of a signal, without its texts."""
    prior, current = record.prior_signal, record.current_signal
    return f"{record.signal_kind} {prior.captured_in_object_ref} {current.captured_in_object_ref}"


def remaining_steps(files: Files, paths: Paths, user_id: str, now: datetime) -> Iterator[Step]:
    """Yield the steps that remove everything of a user's deleted threads, feedback and drift records."""
    threads = list(filter(is_id, files.names(paths.threads(user_id), GONE)))
    feedback = list(filter(is_id, files.names(paths.feedback(user_id), GONE)))
    refreshes = (name for each in threads for name in files.names(paths.refreshes(user_id, each)))
    sources = {
        *(f"thread:{name}" for name in threads),
        *(f"feedback:{name}" for name in feedback),
        *(f"refresh:{name}" for name in refreshes),
    }
    # 1. Drift records. A signal whose feedback stays on file would be found again, so it is listed.
    deleted = {each.drift_id for each in load_lines(files, paths.deleted_drift(user_id), DeletedDrift)}
    for record in load_sound(files, paths.drift(user_id), DriftRecord):
        signal = signal_of(record)
        quoted = signal.split()[1:]
        if record.drift_id not in deleted and not sources.isdisjoint((record.object_ref, *quoted)):
            deleted.add(record.drift_id)
            if sources.isdisjoint(quoted) and quoted[0].startswith("feedback:"):
                listed = DeletedDrift(drift_id=record.drift_id, signal=signal)
                yield Append(paths.deleted_drift(user_id), listed)
    records = (paths.drift_record(user_id, drift_id) for drift_id in sorted(deleted))
    yield from (Remove(path) for path in records if files.exists(path))
    # 2. Training candidates of a thread, and of a snapshot that no other thread was saved from: withdrawn.
    snapshots = {f"snapshot:{each.snapshot_id}" for each in _deleted_headers(files, paths, user_id)}
    snapshots -= {
        f"snapshot:{each.snapshot_id}" for each in load_sound(files, paths.threads(user_id), ThreadHeader)
    }
    for found in load_sound(files, paths.candidates(user_id), TrainingAssetCandidate):
        if found.source_object_ref in sources | snapshots and found.withdrawal_status == "active":
            withdrawn = found.replace(withdrawal_status="revoked", withdrawn_at=now)
            yield Put(paths.candidate(user_id, found.candidate_id), withdrawn)
    # 3. Contexts and refreshes, and the renamed records last.
    for name in threads:
        yield RemoveTree(paths.thread_contexts(user_id, name))
        yield RemoveTree(paths.refreshes(user_id, name))
        yield Remove(gone(paths.thread(user_id, name)))
    yield from (Remove(gone(paths.feedback_item(user_id, name))) for name in feedback)


def _deleted_headers(files: Files, paths: Paths, user_id: str) -> Iterator[ThreadHeader]:
    for name in filter(is_id, files.names(paths.threads(user_id), GONE)):
        with suppress(RecordDamaged):
            if found := load(files, gone(paths.thread(user_id, name)), ThreadHeader):
                yield found


def gone(path: Path) -> Path:
    """Return the name of a deleted record."""
    return path.with_suffix(GONE)


def prune_drift_index(files: Files, paths: Paths, user_id: str) -> None:
    """Remove the lines of the drift index whose records are not on file."""
    path = paths.drift_index(user_id)
    there = set(files.names(paths.drift(user_id)))
    lines = (files.load(path) or b"").splitlines(keepends=True)
    kept = [line for line in lines if _drift_id(line) in there]
    if kept and kept != lines:
        files.save(path, b"".join(kept))
    elif lines and not kept:
        files.remove(path)


def _drift_id(line: bytes) -> str:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=DeletedDrift).drift_id
    return ""
