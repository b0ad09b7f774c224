"""Task contexts: written at the begin and the end of a task, gone 24 hours later (memory design §5.6)."""

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from memfin.contracts.memory import ContextFields, Route, UserContext
from memfin.memory.ids import with_prefix

KEPT: Final = timedelta(hours=24)
"""How long a task context is kept after the task's end, and after its begin when it never ends."""


def begun(
    user_id: str,
    context_id: str,
    route: Route,
    fields: ContextFields,
    now: datetime,
    *,
    thread_id: str | None = None,
    consent_version: int | None = None,
) -> UserContext:
    """Return the context of a task that begins; the task's id is the context's but for the prefix."""
    return UserContext(
        context_id=context_id,
        user_id=user_id,
        scope="task",
        created_at=now,
        updated_at=now,
        expires_at=now + KEPT,
        consent_version=consent_version,
        thread_id=thread_id,
        task_id=with_prefix("task", context_id),
        route=route,
        task_status="running",
        **msgspec.structs.asdict(fields),
    )


def ended(context: UserContext, status: Literal["finished", "failed"], now: datetime) -> UserContext:
    """Return the context of a task that ends; from now on the 24 hours count."""
    return context.replace(task_status=status, updated_at=now, expires_at=now + KEPT)


def is_expired(expires_at: datetime | None, now: datetime) -> bool:
    """Say whether a moment of expiry has come; nothing is read any more from that very moment on."""
    return expires_at is not None and now >= expires_at


def context_of(task_id: str) -> str:
    """Return the id of the context of a task."""
    return with_prefix("ctx", task_id)
