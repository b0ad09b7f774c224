"""Calls for tasks: consent gate, memory, end, deletion (memory design §5.6, §6, §8.4)."""

from typing import Final

from memfin.contracts.memory import ContextFields
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import EndedTask, NewTask, Suggested, Task, TaskEnd, Tasks
from memfin.web.memory.routes import Call, Route, deletion


def begin(store: MemoryStore, call: Call) -> Task:
    """Begin a task, if consent allows it, and assemble its context."""
    asked: NewTask = call.body
    started = store.start_task(
        call.user_id, asked.route, prompt=asked.prompt, thread_id=asked.thread_id, fields=_fields(asked)
    )
    return Task(
        task_id=str(started.context.task_id),
        user_context=started.memory.block.text,
        attributes=started.memory.attributes,
        advisor_order=list(started.advisor_order),
    )


def end(store: MemoryStore, call: Call) -> EndedTask:
    """Record the end of a task, and return the hint for its result, if any."""
    asked: TaskEnd = call.body
    context = store.end_task(call.user_id, call.params["task_id"], asked.status)
    return EndedTask(
        task_id=call.params["task_id"],
        expires_at=context.expires_at or context.updated_at,
        hint=store.take_hint(call.user_id),
    )


def suggest(store: MemoryStore, call: Call) -> Suggested:
    """Return the suggestions of a page before a task (memory design §7.4)."""
    found = store.suggestions(call.user_id, call.skills)
    return Suggested(
        task_types=list(found.task_types),
        example_question=found.example_question,
        refresh_conditions={kind: list(names) for kind, names in found.refresh_conditions.items()},
        skills=list(found.skills),
    )


def every(store: MemoryStore, call: Call) -> Tasks:
    """Return the contexts of the tasks."""
    return Tasks(tasks=store.list_tasks(call.user_id))


def delete(store: MemoryStore, call: Call) -> None:
    """Delete the context of a task."""
    store.delete_task(call.user_id, call.params["task_id"])


def _fields(asked: NewTask) -> ContextFields:
    """Return the task's own context: the body's position before that of the overrides, all constraints."""
    fields = asked.user_context_overrides or ContextFields()
    position = asked.user_stated_position_context or fields.user_stated_position_context
    constraints = list(dict.fromkeys([*asked.constraints, *fields.constraints]))
    return fields.replace(user_stated_position_context=position, constraints=constraints)


ROUTES: Final = (
    Route(
        method="POST",
        path="/api/tasks",
        name="beginTask",
        summary="Begin a task: 403 without consent, otherwise the context for its system prompt.",
        work=begin,
        body=NewTask,
        status=201,
        answer=Task,
        errors=(403, 404, 410, 422),
    ),
    Route(
        method="GET",
        path="/api/tasks/suggestions",
        name="suggestTasks",
        summary="Suggest kinds of task, an example question, events to refresh a thread on, and skills.",
        work=suggest,
        answer=Suggested,
    ),
    Route(
        method="POST",
        path="/api/tasks/{task_id}/end",
        name="endTask",
        summary="Record the end of a task; its context is kept for 24 more hours.",
        work=end,
        body=TaskEnd,
        answer=EndedTask,
        errors=(410,),
    ),
    Route(
        method="GET",
        path="/api/tasks",
        name="listTasks",
        summary="Return the contexts of the tasks that have not expired, newest first.",
        work=every,
        answer=Tasks,
    ),
    deletion("/api/tasks/{task_id}", "deleteTask", "Delete the context of a task.", delete),
)
