"""Calls for threads: save, show, refresh, close, delete (memory design §5.3, §5.4, §11.2)."""

from msgspec import UNSET, structs

from memfin.contracts.memory import ContextFields, ThreadHeader
from memfin.memory.owned import ThreadView
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import Refresh, Refreshed, SaveAsThread, SavedThread, ThreadChange, Threads
from memfin.web.memory.problems import Problem
from memfin.web.memory.routes import Call, deletion, route


@route(
    "POST", "/api/snapshots/{snapshot_id}/save-as-thread", "saveAsThread", status=201, errors=(403, 410, 422)
)
def save(store: MemoryStore, call: Call, asked: SaveAsThread) -> SavedThread:
    """Save a snapshot as a thread, with the context that its person gives."""
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


@route("GET", "/api/threads", "listThreads")
def every(store: MemoryStore, call: Call) -> Threads:
    """Return the threads, the most recently used first."""
    return Threads(threads=store.list_threads(call.user_id))


@route("GET", "/api/threads/{thread_id}", "showThread")
def show(store: MemoryStore, call: Call) -> ThreadView:
    """Return a thread with its saved contexts and refreshes, oldest first."""
    return store.show_thread(call.user_id, call.params["thread_id"])


@deletion("/api/threads/{thread_id}", "deleteThread")
def delete(store: MemoryStore, call: Call) -> None:
    """Delete a thread with its contexts, refreshes and drift records; nothing of it is kept."""
    store.delete_thread(call.user_id, call.params["thread_id"])


@deletion("/api/threads/{thread_id}/contexts/{context_id}", "deleteThreadContext")
def delete_context(store: MemoryStore, call: Call) -> None:
    """Delete one saved context of a thread."""
    store.delete_context(call.user_id, call.params["thread_id"], call.params["context_id"])


@route("POST", "/api/threads/{thread_id}/refresh", "refreshThread", errors=(403, 409, 410, 422))
def refresh(store: MemoryStore, call: Call, asked: Refresh) -> Refreshed:
    """Record the findings of a refresh, and add the context that the person gave."""
    made = store.refresh_thread(call.user_id, call.params["thread_id"], **structs.asdict(asked))
    return Refreshed(thread_id=made.thread_id, refresh_id=made.refresh_id, context_id=made.context_id)


@route("PATCH", "/api/threads/{thread_id}", "changeThread", errors=(409, 410))
def change(store: MemoryStore, call: Call, asked: ThreadChange) -> ThreadHeader:
    """Stop using the contexts of a thread, or close it; neither can be undone."""
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
        raise Problem(409, "thread_blocked", "contexts that are no longer used stay so")
    if asked.status == "active" and header.status == "closed":
        raise Problem(409, "thread_closed", "a closed thread stays closed")
