"""The memory store: a facade of services over one data root (spec §10)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memfin.memory.consent import Consents
from memfin.memory.drift import DriftLog, Thresholds, shipped_thresholds
from memfin.memory.files import Files
from memfin.memory.reading import Reading
from memfin.memory.records import Gate
from memfin.memory.sensitive import refuse_sensitive
from memfin.memory.tasks import Tasks
from memfin.memory.threads import Threads
from memfin.memory.transfer import Packages
from memfin.memory.workspace import Clock, Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


class MemoryStore:
    """The memory of a data root: consents, and the records that they allow to keep.

    An operation that is refused has written nothing. Methods block; a host with an event loop calls them
    in worker threads. One store may be used by any number of threads, and a data root by any number of
    processes: writers of one user take turns, readers never wait.

    Args:
        root: the directory of the data; created when it is missing.
        clock: gives the time, with its zone.
        gate: looks through all text before it is written.
        files: the file system; a test gives one that fails.
        telemetry: counts and traces writes and deletions; none by default.
        thresholds: of the drift detectors; those that ship with MemFin by default.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        clock: Clock = utc_now,
        gate: Gate = refuse_sensitive,
        files: Files | None = None,
        telemetry: "MemoryTelemetry | None" = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.root = Path(root)
        observer = None if telemetry is None else telemetry.observer(self.root)
        self.workspace = workspace = Workspace(self.root, clock, gate, files or Files(), observer)
        self.consents = Consents(workspace, telemetry)
        self.drift = DriftLog(workspace, thresholds or shipped_thresholds())
        self.threads = Threads(workspace, self.drift)
        self.tasks = Tasks(workspace, telemetry)
        self.reading = Reading(workspace, self.tasks, telemetry)
        self.packages = Packages(workspace)

        # The operations of the services under their flat names.
        self.consent_on_file = workspace.consent_on_file
        self.despite_full_disk = workspace.despite_full_disk
        self.consent_state = self.consents.consent_state
        self.onboarding_state = self.consents.onboarding_state
        self.grant_consent = self.consents.grant_consent
        self.revoke_consent = self.consents.revoke_consent
        self.on_consent_revoked = self.consents.on_consent_revoked
        self.read_profile = self.consents.read_profile
        self.review_profile = self.consents.review_profile
        self.save_thread = self.threads.save_thread
        self.refresh_thread = self.threads.refresh_thread
        self.patch_thread = self.threads.patch_thread
        self.list_threads = self.threads.list_threads
        self.thread_contexts = self.threads.thread_contexts
        self.add_candidate = self.threads.add_candidate
        self.record_feedback = self.drift.record_feedback
        self.drift_log = self.drift.drift_log
        self.scan_drift = self.drift.scan_drift
        self.begin_task = self.tasks.begin_task
        self.end_task = self.tasks.end_task
        self.task_context = self.tasks.task_context
        self.load_memory_slices = self.reading.load_memory_slices
        self.start_task = self.reading.start_task
        self.take_hint = self.reading.take_hint
        self.suggestions = self.reading.suggestions
        self.export_user = self.packages.export_user
        self.export_to = self.packages.export_to
        self.import_package = self.packages.import_package
        self.delete_user = self.consents.delete_user
        self.expire = self.tasks.expire
        self.rebuild_index = workspace.rebuild_index

    def close(self) -> None:
        """Close the index; the store is of no use afterwards."""
        self.workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
