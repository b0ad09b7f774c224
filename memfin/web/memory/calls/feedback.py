"""Calls for feedback and for the drift log that it fills (memory design §5.5, §9)."""

from msgspec import structs

from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import DriftList, FeedbackList, GivenFeedback, TakenFeedback
from memfin.web.memory.routes import Call, deletion, route


@route("POST", "/api/feedback", "giveFeedback", status=201, errors=(403, 410, 422))
def record(store: MemoryStore, call: Call, asked: GivenFeedback) -> TakenFeedback:
    """Record feedback on an object; it changes no profile."""
    taken = store.record_feedback(call.user_id, **structs.asdict(asked))
    return TakenFeedback(feedback_id=taken.feedback_id)


@route("GET", "/api/feedback", "listFeedback")
def every(store: MemoryStore, call: Call) -> FeedbackList:
    """Return the feedback, newest first."""
    return FeedbackList(feedback=store.list_feedback(call.user_id))


@deletion("/api/feedback/{feedback_id}", "deleteFeedback")
def delete(store: MemoryStore, call: Call) -> None:
    """Delete feedback, and the drift records that quote it."""
    store.delete_feedback(call.user_id, call.params["feedback_id"])


@route("GET", "/api/drift", "listDrift")
def drift(store: MemoryStore, call: Call) -> DriftList:
    """Return the drift log, oldest first; it is empty without consent."""
    return DriftList(drift=store.drift_log(call.user_id))


@deletion("/api/drift", "deleteAllDrift")
def delete_all_drift(store: MemoryStore, call: Call) -> None:
    """Delete the drift log; its signals are not recorded again."""
    store.delete_drift(call.user_id)


@deletion("/api/drift/{drift_id}", "deleteDrift")
def delete_drift(store: MemoryStore, call: Call) -> None:
    """Delete a drift record; its signal is not recorded again."""
    store.delete_drift(call.user_id, call.params["drift_id"])
