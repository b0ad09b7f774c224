"""Begin and end of a task (memory design §5.6, §8.4, §8.5)."""

from typing import Literal

from msgspec import structs

from memfin.contracts.memory import ContextFields, Route, UserContext
from memfin.memory import consent as rules
from memfin.memory import tasks
from memfin.memory.errors import ConsentRequired, NotFound
from memfin.memory.plans import Put
from memfin.memory.records import load
from memfin.memory.workspace import Workspace


class TaskOperations(Workspace):
    """What is known for the time of one task."""

    def begin_task(
        self,
        user_id: str,
        route: Route,
        *,
        fields: ContextFields | None = None,
        thread_id: str | None = None,
    ) -> UserContext:
        """Write the context of a task that begins, for 24 hours.

        It may hold what the person did not consent to keep. A person whose consent is revoked may ask
        for tasks, as one of whom nothing is known.

        Raises:
            ConsentRequired: the person never consented to tasks, or took that back.
            NotFound: the user has no such thread.
            InvalidId, InvalidInput, SensitiveInput: nothing was written.
        """
        with self.writing(user_id, {} if fields is None else structs.asdict(fields)):
            consent = rules.readable(self.consent_on_file(user_id))
            if not rules.may_create_task(consent):
                raise ConsentRequired("tasks need the person's consent; ask for it first", ["create_task"])
            if thread_id is not None:
                self.threads.header(user_id, thread_id)
            now = self.now()
            context = tasks.begun(
                user_id,
                self.id_for("ctx", user_id, self.paths.tasks(user_id), now),
                route,
                fields or ContextFields(),
                now,
                thread_id=thread_id,
                consent_version=consent.version if consent and consent.revoked_at is None else None,
            )
            self._write(context)
            return context

    def end_task(
        self, user_id: str, task_id: str, status: Literal["finished", "failed"] = "finished"
    ) -> UserContext:
        """Note the end of a task; its context expires 24 hours from now.

        Raises:
            NotFound: the user has no such task, or not any more.
        """
        with self.writing(user_id):
            context = tasks.ended(self.task_context(user_id, task_id), status, self.now())
            self._write(context)
            return context

    def task_context(self, user_id: str, task_id: str) -> UserContext:
        """Return the context of a task.

        Raises:
            NotFound: the user has no such task, or its 24 hours are over.
        """
        with self.faults():
            found = load(self.files, self.paths.task(user_id, tasks.context_of(task_id)), UserContext)
        if found is None or found.user_id != user_id or tasks.is_expired(found.expires_at, self.now()):
            raise NotFound("task: there is none of that id")
        return found

    def _write(self, context: UserContext) -> None:
        path = self.paths.task(context.user_id, context.context_id)
        checked = self.check([Put(path, context)])
        expires_at = context.expires_at or context.created_at
        if context.task_status == "running":
            self.index.expect(context.user_id, context.context_id, expires_at)
            self.do(context.user_id, checked)
        else:
            self.do(context.user_id, checked)
            self.index.expect(context.user_id, context.context_id, expires_at)
