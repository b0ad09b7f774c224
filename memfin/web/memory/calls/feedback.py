"""Call for feedback (memory design §5.5)."""

from typing import Final

from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import GivenFeedback, TakenFeedback
from memfin.web.memory.routes import Call, Route


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
)
