"""Calls for feedback and for the drift log that it fills (memory design §5.5, §9)."""

from typing import Final

from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import DriftList, FeedbackList, GivenFeedback, TakenFeedback
from memfin.web.memory.routes import Call, Route, deletion


def record(store: MemoryStore, call: Call) -> TakenFeedback:
    """Record feedback."""
    asked: GivenFeedback = call.body
    taken = store.record_feedback(
        call.user_id,
        related_object_ref=asked.related_object_ref,
        cognition_object=asked.cognition_object,
        rating=asked.rating,
        comment=asked.comment,
    )
    return TakenFeedback(feedback_id=taken.feedback_id)


def every(store: MemoryStore, call: Call) -> FeedbackList:
    """Return the feedback."""
    return FeedbackList(feedback=store.list_feedback(call.user_id))


def delete(store: MemoryStore, call: Call) -> None:
    """Delete feedback."""
    store.delete_feedback(call.user_id, call.params["feedback_id"])


def drift(store: MemoryStore, call: Call) -> DriftList:
    """Return the drift log."""
    return DriftList(drift=store.drift_log(call.user_id))


def delete_drift(store: MemoryStore, call: Call) -> None:
    """Delete one drift record, or all of them."""
    store.delete_drift(call.user_id, call.params.get("drift_id"))


ROUTES: Final = (
    Route(
        method="POST",
        path="/api/feedback",
        name="giveFeedback",
        summary="Record feedback on an object; it changes no profile.",
        work=record,
        body=GivenFeedback,
        status=201,
        answer=TakenFeedback,
        errors=(403, 410, 422),
    ),
    Route(
        method="GET",
        path="/api/feedback",
        name="listFeedback",
        summary="Return the feedback, newest first.",
        work=every,
        answer=FeedbackList,
    ),
    deletion(
        "/api/feedback/{feedback_id}",
        "deleteFeedback",
        "Delete feedback, and the drift records that quote it.",
        delete,
    ),
    Route(
        method="GET",
        path="/api/drift",
        name="listDrift",
        summary="Return the drift log, oldest first; it is empty without consent.",
        work=drift,
        answer=DriftList,
    ),
    deletion(
        "/api/drift",
        "deleteAllDrift",
        "Delete the drift log; its signals are not recorded again.",
        delete_drift,
    ),
    deletion(
        "/api/drift/{drift_id}",
        "deleteDrift",
        "Delete a drift record; its signal is not recorded again.",
        delete_drift,
    ),
)
