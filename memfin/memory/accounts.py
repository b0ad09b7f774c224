"""Whole accounts: hard delete, expiry, and the index (memory design §10.1, §10.5)."""

from typing import TYPE_CHECKING

from memfin.contracts.memory import DeletionStub
from memfin.memory.consent import has_files
from memfin.memory.errors import NotFound
from memfin.memory.paths import check_id
from memfin.memory.plans import Put
from memfin.memory.records import load
from memfin.memory.tasks import sweep_tasks
from memfin.memory.workspace import Sweep, Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry


class Accounts:
    """Operations on whole accounts, and those that the passing of time asks for."""

    def __init__(self, workspace: Workspace, telemetry: "MemoryTelemetry | None" = None) -> None:
        self._workspace = workspace
        self._telemetry = telemetry

    def delete_user(self, user_id: str) -> DeletionStub:
        """Remove all of a user but the stub of a deleted account; finishes an interrupted deletion."""
        check_id(user_id)
        return self._workspace.despite_full_disk(lambda: self._delete(user_id))

    def _delete(self, user_id: str) -> DeletionStub:
        workspace = self._workspace
        with workspace.faults(), workspace.locks.of_user(user_id):
            path = workspace.paths.stub(user_id)
            stub = load(workspace.files, path, DeletionStub)
            if stub is None:
                if not has_files(workspace.files, workspace.paths, user_id):
                    raise NotFound("user: there is none of that id")
                version = workspace.version_on_file(user_id)
                stub = DeletionStub(deleted_at=workspace.now(), consent_version_at_deletion=version)
                checked = workspace.check([Put(path, stub)])
                workspace.mark(user_id)
                workspace.do(user_id, checked)
            workspace.finish(user_id)
            return stub

    def expire(self) -> Sweep:
        """Remove task contexts of more than 24 hours ago, and finish interrupted operations."""
        workspace = self._workspace
        now = workspace.now()
        with workspace.faults():
            done = workspace.finish_marked(now)
            removed = sweep_tasks(workspace, now)
            workspace.reserve.keep()
        if self._telemetry is not None:
            self._telemetry.expired(removed.contexts)
        return done.replace(task_contexts=removed.contexts, refused=len(removed.refused))

    def rebuild_index(self) -> None:
        """Build the index from the files anew, and make every user's files match their consent."""
        with self._workspace.faults():
            self._workspace.build_index()
