"""Service of a person's own records: listed and deleted one by one, with or without consent (§11.2)."""

from pathlib import Path

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.memory import DriftRecord, Feedback, ThreadHeader, ThreadRefresh, UserContext
from memfin.memory.contexts import ThreadFiles, is_expired
from memfin.memory.deletions import DeletedDrift, gone, signal_of
from memfin.memory.errors import NotFound
from memfin.memory.paths import check_id, with_prefix
from memfin.memory.records import Remove, by_age, load_sound
from memfin.memory.workspace import Workspace


class ThreadView(Record):
    """A saved thread with its contexts and refreshes, oldest first; blocked contexts are in it."""

    header: ThreadHeader
    contexts: list[UserContext]
    refreshes: list[ThreadRefresh]


class Owned:
    """Service of a person's own records. A deletion is physical, and works on a full disk."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._threads = ThreadFiles(workspace)

    def show_thread(self, user_id: str, thread_id: str) -> ThreadView:
        """Return a thread with its contexts and refreshes; raise `NotFound` for an unknown one."""
        with self._workspace.faults():
            return ThreadView(
                header=self._threads.header(user_id, thread_id),
                contexts=self._threads.contexts(user_id, thread_id),
                refreshes=self._threads.refreshes(user_id, thread_id),
            )

    def list_tasks(self, user_id: str) -> list[UserContext]:
        """Return the task contexts that have not expired, newest first."""
        workspace, now = self._workspace, self._workspace.now()
        with workspace.faults():
            found = by_age(load_sound(workspace.files, workspace.paths.tasks(user_id), UserContext))
        own = [each for each in found if each.user_id == user_id and not is_expired(each.expires_at, now)]
        return own[::-1]

    def list_feedback(self, user_id: str) -> list[Feedback]:
        """Return the feedback of a person, newest first."""
        workspace = self._workspace
        with workspace.faults():
            return by_age(load_sound(workspace.files, workspace.paths.feedback(user_id), Feedback))[::-1]

    def delete_thread(self, user_id: str, thread_id: str) -> None:
        """Delete a thread with its contexts, its refreshes and the drift records about it.

        Training candidates of the thread are withdrawn.
        """
        self._delete_whole(user_id, self._workspace.paths.thread(user_id, thread_id), "thread")

    def delete_feedback(self, user_id: str, feedback_id: str) -> None:
        """Delete feedback, and the drift records that quote it."""
        path = self._workspace.paths.feedback_item(user_id, feedback_id)
        self._delete_whole(user_id, path, "feedback")

    def delete_context(self, user_id: str, thread_id: str, context_id: str) -> None:
        """Delete one context of a thread."""
        path = self._workspace.paths.thread_context(user_id, thread_id, context_id)
        self._workspace.remove(user_id, self._existing(path, "context"))

    def delete_task(self, user_id: str, task_id: str) -> None:
        """Delete the context of a task, and its entry of the index."""
        workspace, context_id = self._workspace, with_prefix("ctx", check_id(task_id, "task id"))
        path = self._existing(workspace.paths.task(user_id, context_id), "task")

        def work() -> None:
            # An attempt that was killed before may have left the same words in another file.
            workspace.do(user_id, workspace.check([Remove(path)]), settle=True)
            workspace.index.drop(user_id, context_id)

        workspace.erase(user_id, work)

    def delete_drift(self, user_id: str, drift_id: str | None = None) -> None:
        """Delete a drift record, or all of them; their signals are not recorded again."""
        workspace, paths, files = self._workspace, self._workspace.paths, self._workspace.files
        if drift_id is not None:
            self._existing(paths.drift_record(user_id, drift_id), "drift record")

        def work() -> None:
            log = load_sound(files, paths.drift(user_id), DriftRecord)
            signals = {record.drift_id: signal_of(record) for record in log}
            listed = [
                DeletedDrift(drift_id=name, signal=signals.get(name, ""))
                for name in files.names(paths.drift(user_id))
                if drift_id in {None, name}
            ]
            if listed:
                workspace.mark(user_id)
                path = paths.deleted_drift(user_id)
                files.save(path, (files.load(path) or b"") + msgspec.json.Encoder().encode_lines(listed))
                workspace.finish(user_id)

        workspace.erase(user_id, work)

    def _delete_whole(self, user_id: str, path: Path, what: str) -> None:
        """Delete a record with everything that belongs to it, in the moment of one rename."""
        workspace = self._workspace
        self._existing(path, what)

        def work() -> None:
            if workspace.files.exists(path):  # no earlier attempt got so far
                workspace.mark(user_id)
                workspace.files.replace(path, gone(path))
                workspace.files.fsync_directory(path.parent)
                workspace.finish(user_id)

        workspace.erase(user_id, work)

    def _existing(self, path: Path, what: str) -> Path:
        with self._workspace.faults():
            if self._workspace.files.exists(path):
                return path
        raise NotFound(f"{what}: there is none with that id")
