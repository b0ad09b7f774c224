"""The RAG protocol over HTTP, version 1: a question goes to the service's address, its answer comes back.

Messages are JSON objects; unknown fields are ignored by both sides::

    POST {"question": "..."} -> 200 QueryAnswer

Whatever goes wrong is answered with a `QueryError` and a status of 400 or more.
"""

from typing import Annotated, Any, Final

import msgspec

from memfin.agents.http.protocol import Problem
from memfin.contracts import ModelUsage, Record
from memfin.contracts.rag import RagAnswer

PROTOCOL: Final = 1

PATH: Final = "/query"
"""Where MemFin's own server answers; the root does so too."""

LONGEST_QUESTION: Final = 100_000
"""Characters."""


class QueryRequest(Record):
    """A question about the document that the service knows."""

    question: Annotated[str, msgspec.Meta(max_length=LONGEST_QUESTION)]


class QueryAnswer(RagAnswer, omit_defaults=True):
    """The answer; only ``answer`` must be there.

    A typed field that is left out is extracted from ``answer``, and so is whether the system declines to
    answer, ``abstained``. Pages count from 1. ``usage`` is what the answer took of a language model.
    """

    usage: ModelUsage | None = None


class QueryError(Record):
    """A question that was not answered."""

    error: Problem


class AnyAnswer(Record):
    """An answer as it came; it is held against the contract where all systems' are."""

    answer: Any = msgspec.UNSET
    amount: Any = None
    amount_breakdown: Any = None
    date: Any = None
    date_range: Any = None
    count: Any = None
    text: Any = None
    boolean: Any = None
    entity: Any = None
    evidence: Any = []
    citation: Any = []
    abstained: Any = None
    usage: Any = None


CODES: Final = {
    "invalid_json": "the body is not JSON",
    "invalid_request": "the body does not fit the schema, or the content type is not JSON",
    "unauthorized": "the bearer token is missing or wrong",
    "not_found": "no such path",
    "method_not_allowed": "the path has no such method",
    "too_large": "the body is too large",
    "too_slow": "the body did not come in time",
    "unknown_host": "the server is not known by this Host",
    "foreign_origin": "the request comes from a page of another Origin",
    "system_failed": "the system broke its contract or raised; the message is its error",
    "system_timed_out": "the system did not answer within the server's limit",
    "system_unreachable": "what the system depends on could not be reached; send again",
    "internal": "the server failed",
}
"""The codes of errors that MemFin's own server uses."""
