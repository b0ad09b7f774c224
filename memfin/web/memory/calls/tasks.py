"""Calls for tasks: consent gate, memory, end, deletion (memory design §5.6, §6, §7.4, §8.4)."""

from msgspec import structs

from memfin.contracts.memory import ContextFields
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import EndedTask, NewTask, Suggested, Task, TaskEnd, Tasks
from memfin.web.memory.routes import Call, deletion, route


@route("POST", "/api/tasks", "beginTask", status=201, errors=(403, 404, 410, 422))
def begin(store: MemoryStore, call: Call, asked: NewTask) -> Task:
    """Begin a task: 403 without consent, otherwise the context for its system prompt."""
    started = store.start_task(
        call.user_id, asked.route, prompt=asked.prompt, thread_id=asked.thread_id, fields=_fields(asked)
    )
    return Task(
        task_id=str(started.context.task_id),
        user_context=started.memory.block.text,
        attributes=started.memory.attributes,
        advisor_order=list(started.advisor_order),
    )


@route("GET", "/api/tasks/suggestions", "suggestTasks")
def suggest(store: MemoryStore, call: Call) -> Suggested:
    """Suggest kinds of task, an example question, events to refresh a thread on, and skills."""
    return Suggested(**structs.asdict(store.suggestions(call.user_id, call.skills)))


@route("POST", "/api/tasks/{task_id}/end", "endTask", errors=(410,))
def end(store: MemoryStore, call: Call, asked: TaskEnd) -> EndedTask:
    """Record the end of a task; its context is kept for 24 more hours."""
    context = store.end_task(call.user_id, call.params["task_id"], asked.status)
    return EndedTask(
        task_id=call.params["task_id"],
        expires_at=context.expires_at or context.updated_at,
        hint=store.take_hint(call.user_id),
    )


@route("GET", "/api/tasks", "listTasks")
def every(store: MemoryStore, call: Call) -> Tasks:
    """Return the contexts of the tasks that have not expired, newest first."""
    return Tasks(tasks=store.list_tasks(call.user_id))


@deletion("/api/tasks/{task_id}", "deleteTask")
def delete(store: MemoryStore, call: Call) -> None:
    """Delete the context of a task."""
    store.delete_task(call.user_id, call.params["task_id"])


def _fields(asked: NewTask) -> ContextFields:
    """Return the task's own context: the body's position before that of the overrides, all constraints."""
    fields = asked.user_context_overrides or ContextFields()
    position = asked.user_stated_position_context or fields.user_stated_position_context
    constraints = list(dict.fromkeys([*asked.constraints, *fields.constraints]))
    return fields.replace(user_stated_position_context=position, constraints=constraints)
