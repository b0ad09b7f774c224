"""The memory store: a facade of services over one data root (spec §10), on disk or in memory."""

import inspect
import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from memfin.memory.consent import Consents
from memfin.memory.contexts import Tasks, Threads
from memfin.memory.drift import DriftLog, Thresholds, shipped_thresholds
from memfin.memory.files import Files
from memfin.memory.items import Items
from memfin.memory.owned import Owned
from memfin.memory.package import Packages
from memfin.memory.reading import Reading
from memfin.memory.records import Gate
from memfin.memory.sensitive import refuse_sensitive
from memfin.memory.workspace import Clock, Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry

# A call with a wrong argument is reported under the name that callers use
for _service in (Consents, DriftLog, Threads, Tasks, Reading, Owned, Packages):
    for _name, _method in vars(_service).items():
        if inspect.isfunction(_method) and _name[0] != "_":
            _method.__qualname__ = f"MemoryStore.{_name}"


def utc_now() -> datetime:
    """Return the current UTC time."""
    return datetime.now(UTC)


class MemoryStore:
    """Memory store of a data root: consents, and the records that they allow.

    An operation that is refused has written nothing. Methods block; a host with an event loop calls them
    in worker threads. One store may be used by any number of threads, and a data root by any number of
    processes: writers of one user take turns, readers never wait.

    Args:
        root: the directory of the data; created if missing.
        clock: gives the time, with its zone.
        gate: checks all text before it is written.
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
        self.items = Items(workspace)
        self.reading = Reading(workspace, self.tasks, self.items, telemetry)
        self.owned = Owned(workspace)
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
        self.show_thread = self.owned.show_thread
        self.delete_thread = self.owned.delete_thread
        self.delete_context = self.owned.delete_context
        self.list_tasks = self.owned.list_tasks
        self.delete_task = self.owned.delete_task
        self.list_feedback = self.owned.list_feedback
        self.delete_feedback = self.owned.delete_feedback
        self.delete_drift = self.owned.delete_drift
        self.export_user = self.packages.export_user
        self.export_to = self.packages.export_to
        self.import_package = self.packages.import_package
        self.delete_user = self.consents.delete_user
        self.expire = self.tasks.expire
        self.rebuild_index = workspace.rebuild_index

    def close(self) -> None:
        """Close the index; the store cannot be used afterwards."""
        self.workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The first part of the names of an isolated store's files; there is no such directory
ROOT: Final = Path("isolated")
_NO_DESCRIPTOR: Final = -1


class _InMemoryFiles(Files):
    """Files that are dictionaries: a directory maps names to contents, None for directories in it."""

    reserves = (0,)

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._directories: dict[str, dict[str, bytes | None]] = {}
        for name, data in contents.items():
            self.save(Path(name), data)

    def contents(self) -> dict[str, bytes]:
        return {
            str(Path(directory, name)): data
            for directory, names in sorted(self._directories.items())
            for name, data in sorted(names.items())
            if data is not None
        }

    def exists(self, path: Path) -> bool:
        return path.name in self._directories.get(str(path.parent), ()) or str(path) in self._directories

    def open(self, path: Path, flags: int) -> int:
        """Create a file if the flags ask for it; the descriptor can only be closed."""
        if flags & os.O_CREAT and not self.exists(path):
            self.save(path, b"")
        return _NO_DESCRIPTOR

    def close(self, descriptor: int) -> None:
        pass

    def unlink(self, path: Path | str) -> None:
        path = Path(path)
        self._directories.get(str(path.parent), {}).pop(path.name, None)

    def exclusive(self, path: Path) -> AbstractContextManager[object]:  # noqa: ARG002 - no other process
        return nullcontext()

    def database(self, path: Path) -> str:  # noqa: ARG002 - there is none
        return ":memory:"

    def replace(self, source: Path, target: Path) -> None:
        self.save(target, self.load(source) or b"")
        self.unlink(source)

    def sync(self) -> None:
        pass

    def fsync_directory(self, path: Path) -> None:
        pass

    def load(self, path: Path) -> bytes | None:
        return self._directories.get(str(path.parent), {}).get(path.name)

    def entries(self, directory: Path) -> list[str]:
        return sorted(self._directories.get(str(directory), ()))

    def strays(self, directory: Path) -> Iterator[Path]:  # noqa: ARG002 - there are none anywhere
        return iter(())

    def save(self, path: Path, data: bytes) -> None:
        self.make(path.parent)
        self._directories[str(path.parent)][path.name] = data

    def make(self, directory: Path) -> None:
        if str(directory) in self._directories:
            return
        self._directories[str(directory)] = {}
        if directory.parent != directory:
            self.make(directory.parent)
            self._directories[str(directory.parent)][directory.name] = None

    def remove(self, path: Path) -> None:
        self.unlink(path)

    def remove_tree(self, directory: Path) -> None:
        for name in self._directories.pop(str(directory), {}):
            self.remove_tree(directory / name)
        self.unlink(directory)


class IsolatedStore(MemoryStore):
    """Isolated memory store that lives with the object; may start from the `contents` of another one."""

    def __init__(self, clock: Clock, contents: Mapping[str, bytes] | None = None) -> None:
        self._in_memory = _InMemoryFiles(contents or {})
        super().__init__(ROOT, clock=clock, gate=_refuse_values, files=self._in_memory)
        weakref.finalize(self, self.workspace.close)

    def contents(self) -> dict[str, bytes]:
        """Return every file by its name, sorted."""
        return self._in_memory.contents()


def _refuse_values(texts: Mapping[str, Any], _: str) -> None:
    """Refuse sensitive text in a record; its field names are not checked."""
    for name, value in texts.items():
        refuse_sensitive(value, name)
