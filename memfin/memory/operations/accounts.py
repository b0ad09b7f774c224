"""Hard delete and the sweep (memory design §10.1, §10.5)."""

from memfin.contracts.memory import DeletionStub
from memfin.memory import deletion
from memfin.memory.errors import NotFound
from memfin.memory.expiry import Sweep, sweep_tasks
from memfin.memory.ids import check_id
from memfin.memory.plans import Put
from memfin.memory.records import load
from memfin.memory.workspace import Workspace


class AccountOperations(Workspace):
    """What happens to whole accounts, and by the mere passing of time."""

    def delete_user(self, user_id: str) -> DeletionStub:
        """Remove all of a user for good, but for the stub that says that there was one.

        Deleting a deleted account finishes what is left of it and returns its stub.

        Raises:
            NotFound: there is no such user.
        """
        check_id(user_id)
        return self.despite_full_disk(lambda: self._delete(user_id))

    def _delete(self, user_id: str) -> DeletionStub:
        with self.faults(), self.locks.of_user(user_id):
            path = self.paths.stub(user_id)
            stub = load(self.files, path, DeletionStub)
            if stub is None:
                if not deletion.exists(self.files, self.paths, user_id):
                    raise NotFound("user: there is none of that id")
                version = self.version_on_file(user_id)
                stub = DeletionStub(deleted_at=self.now(), consent_version_at_deletion=version)
                checked = self.check([Put(path, stub)])
                self.mark(user_id)
                self.do(user_id, checked)
            self.finish(user_id)
            return stub

    def expire(self) -> Sweep:
        """Remove task contexts of more than 24 hours ago, and finish what was interrupted."""
        now = self.now()
        with self.faults():
            done = self.finish_marked(now)
            removed = sweep_tasks(self.files, self.paths, self.locks, self.index, now)
            self.reserve.keep()
        if self.telemetry is not None:
            self.telemetry.expired(removed.contexts)
        return Sweep(
            task_contexts=removed.contexts,
            finished=done.finished,
            overdue=done.overdue,
            failed=done.failed,
            refused=len(removed.refused),
        )

    def rebuild_index(self) -> None:
        """Build the index from the files anew, and make every user's files what their consent allows."""
        with self.faults():
            self.build_index()
