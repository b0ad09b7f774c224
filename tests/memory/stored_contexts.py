"""Contexts, threads and consents as the layer stores them, for tests of what is read from them."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memfin.contracts.memory import ContextFields, ItemKind, MemoryItem, ThreadHeader, UserContext
from tests.memory.memory_world import EVERYTHING

NOW: Final = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
ALL: Final = EVERYTHING


def context(number: int, **fields: Any) -> UserContext:
    """Return a context of a number, written that many minutes after `NOW`."""
    at = NOW + timedelta(minutes=number)
    known: dict[str, Any] = {
        "context_id": f"ctx_{number}",
        "user_id": "u1",
        "scope": "profile",
        "created_at": at,
        "updated_at": at,
        "consent_version": 1,
    }
    return UserContext(**(known | fields))


def thread_context(number: int, **fields: Any) -> UserContext:
    return context(number, scope="thread", thread_id="t1", **fields)


def item(text: str, kind: ItemKind = "note", thread_id: str | None = None) -> MemoryItem:
    return MemoryItem(
        item_id="item_1",
        user_id="u1",
        kind=kind,
        text=text,
        thread_id=thread_id,
        created_at=NOW,
        updated_at=NOW,
        consent_version=1,
    )


def thread(number: int, **fields: Any) -> ThreadHeader:
    """Return a thread of a number, touched that many minutes after `NOW`."""
    at = NOW + timedelta(minutes=number)
    known: dict[str, Any] = {
        "thread_id": f"t{number}",
        "user_id": "u1",
        "snapshot_id": f"s{number}",
        "title": f"Thread {number}",
        "cognition_object": {"type": "asset", "symbol": f"A{number}"},
        "created_at": NOW,
        "updated_at": at,
    }
    return ThreadHeader(**(known | fields))


PROFILE: Final = context(
    0,
    language_preference="zh",
    research_depth="deep",
    risk_prompt_preference="counter_first",
    user_focus_reason="profile focus",
    research_style="profile style",
    user_stated_position_context="profile position",
    time_horizon="profile horizon",
    constraints=["profile constraint"],
)
THREAD: Final = thread_context(
    1,
    user_focus_reason="thread focus",
    research_style="thread style",
    user_stated_position_context="thread position",
    constraints=["thread constraint"],
)
TASK: Final = ContextFields(user_stated_position_context="task position", constraints=["task constraint"])
