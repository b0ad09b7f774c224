"""Calls for threads: save, show, refresh, close, delete (memory design §5.3, §5.4, §11.2)."""

from typing import Final

from msgspec import UNSET

from memfin.contracts.memory import ContextFields, ThreadHeader
from memfin.memory.owned import ThreadView
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import (
    Refresh,
    Refreshed,
    SaveAsThread,
    SavedThread,
    ThreadChange,
    Threads,
)
from memfin.web.memory.problems import Problem
from memfin.web.memory.routes import Call, Route, deletion


def save(store: MemoryStore, call: Call) -> SavedThread:
    """Save a snapshot as a thread."""
    asked: SaveAsThread = call.body
    header = store.save_thread(
        call.user_id,
        call.params["snapshot_id"],
        asked.title,
        asked.cognition_object,
        save_user_context=asked.save_user_context,
        consent_id=asked.consent_ack.consent_id if asked.consent_ack else None,
        context=ContextFields(
            user_focus_reason=asked.user_focus_reason,
            research_style=asked.research_style,
            user_stated_position_context=asked.user_stated_position_context,
            time_horizon=asked.time_horizon,
            constraints=asked.constraints,
        ),
    )
    return SavedThread(thread_id=header.thread_id)


def every(store: MemoryStore, call: Call) -> Threads:
    """Return the threads, the most recently used first."""
    return Threads(threads=store.list_threads(call.user_id))


def show(store: MemoryStore, call: Call) -> ThreadView:
    """Return a thread with its contexts and refreshes."""
    return store.show_thread(call.user_id, call.params["thread_id"])


def delete(store: MemoryStore, call: Call) -> None:
    """Delete a thread."""
    store.delete_thread(call.user_id, call.params["thread_id"])


def delete_context(store: MemoryStore, call: Call) -> None:
    """Delete one context of a thread."""
    store.delete_context(call.user_id, call.params["thread_id"], call.params["context_id"])


def refresh(store: MemoryStore, call: Call) -> Refreshed:
    """Record the findings of a refresh."""
    asked: Refresh = call.body
    refreshed = store.refresh_thread(
        call.user_id,
        call.params["thread_id"],
        user_supplied_context=asked.user_supplied_context,
        main_thesis=asked.main_thesis,
        change_summary=asked.change_summary,
        watch_question_updates=asked.watch_question_updates,
    )
    return Refreshed(
        thread_id=refreshed.thread_id, refresh_id=refreshed.refresh_id, context_id=refreshed.context_id
    )


def change(store: MemoryStore, call: Call) -> ThreadHeader:
    """End the use of a thread's contexts, or close it."""
    asked: ThreadChange = call.body
    user_id, thread_id = call.user_id, call.params["thread_id"]
    if asked.consent_blocked is False or asked.status == "active":
        _not_undone(store.patch_thread(user_id, thread_id), asked)
    return store.patch_thread(
        user_id,
        thread_id,
        consent_blocked=asked.consent_blocked is True,
        status=None if asked.status is UNSET else asked.status,
    )


def _not_undone(header: ThreadHeader, asked: ThreadChange) -> None:
    if asked.consent_blocked is False and header.consent_blocked:
        raise Problem(409, "thread_forgotten", "contexts that are no longer used stay so")
    if asked.status == "active" and header.status == "closed":
        raise Problem(409, "thread_closed", "a closed thread stays closed")


ROUTES: Final = (
    Route(
        method="POST",
        path="/api/snapshots/{snapshot_id}/save-as-thread",
        name="saveAsThread",
        summary="Save a snapshot as a thread, with the context that its person gives.",
        work=save,
        body=SaveAsThread,
        status=201,
        answer=SavedThread,
        errors=(403, 410, 422),
    ),
    Route(
        method="GET",
        path="/api/threads",
        name="listThreads",
        summary="Return the threads, the most recently used first.",
        work=every,
        answer=Threads,
    ),
    Route(
        method="GET",
        path="/api/threads/{thread_id}",
        name="showThread",
        summary="Return a thread with its saved contexts and refreshes, oldest first.",
        work=show,
        answer=ThreadView,
    ),
    deletion(
        "/api/threads/{thread_id}",
        "deleteThread",
        "Delete a thread with its contexts, refreshes and drift records; nothing of it is kept.",
        delete,
    ),
    deletion(
        "/api/threads/{thread_id}/contexts/{context_id}",
        "deleteThreadContext",
        "Delete one saved context of a thread.",
        delete_context,
    ),
    Route(
        method="POST",
        path="/api/threads/{thread_id}/refresh",
        name="refreshThread",
        summary="Record the findings of a refresh, and add the context that the person gave.",
        work=refresh,
        body=Refresh,
        answer=Refreshed,
        errors=(403, 409, 410, 422),
    ),
    Route(
        method="PATCH",
        path="/api/threads/{thread_id}",
        name="changeThread",
        summary="Stop using the contexts of a thread, or close it; neither can be undone.",
        work=change,
        body=ThreadChange,
        answer=ThreadHeader,
        errors=(409, 410),
    ),
)
