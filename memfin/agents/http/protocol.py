"""Messages of the agent protocol over HTTP, version 1.

A session is one dialogue. Its messages are JSON objects; unknown fields are ignored by both sides::

    POST   sessions                 OpenSession   -> 201 SessionOpened
    POST   sessions/{id}/turns      TurnRequest   -> 200 TurnAnswer
    POST   sessions/{id}/commit     CommitRequest -> 204
    DELETE sessions/{id}                          -> 204

Whatever goes wrong is answered with an `ErrorAnswer` and a status of 400 or more. Turns are numbered,
so that a request that is sent again after a broken connection gets the answer that the first one got.
"""

import importlib.resources
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from memfin.agents.protocol import Session
from memfin.contracts import ComplianceTrace, MemoryTrace, ModelUsage, RecallTrace, Record, ToolTrace

PROTOCOL: Final = 1

API_KEY: Final = "MEMFIN_AGENT_API_KEY"  # holds the bearer token, on both sides
TRANSPORT_STATUSES: Final = frozenset({429, 502, 503, 504})  # the request may be sent again

TurnNumber = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, description="Counts the turns from 1.")]

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class OpenSession(Record):
    """Asks for an agent of a new dialogue.

    ``turn_timeout`` is how many seconds the caller waits for a call. A session that is open under the
    same ``session.session_id`` is closed and replaced.
    """

    protocol: int
    session: Session
    turn_timeout: Seconds = 120.0


class SessionOpened(Record):
    """The agent is there: ``id`` goes into the paths of its calls.

    ``has_commit`` says whether the agent's history is kept through ``commit``; if not, the caller
    sends none and history mode ``forced`` is not possible.
    """

    protocol: int
    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._~-]{1,128}$")]
    has_commit: bool = False


class TurnRequest(Record):
    """The client's words; the same ``turn`` again asks for the same answer again."""

    turn: TurnNumber
    user_text: str


class CommitRequest(Record):
    """The effective reply of a turn: the agent's own, or the reference in forced history."""

    turn: TurnNumber
    assistant_text: str


class Observations(Record, omit_defaults=True):
    """The agent's recall, tool calls, checks and store during a turn, in the contract's form.

    ``observation_error`` reports an observation that was malformed and left out.
    """

    recall: RecallTrace | None = None
    tools: list[ToolTrace] = []
    compliance: ComplianceTrace | None = None
    profile_snapshot: dict[str, Any] | None = None
    memory: MemoryTrace | None = None
    observation_error: str | None = None


class TurnAnswer(Observations, kw_only=True, omit_defaults=True):
    """The agent's reply, its observations, and what it took of a language model."""

    text: str
    usage: ModelUsage | None = None


class Problem(Record):
    """Reason of a failure: a stable code and one line for people."""

    code: str
    message: str


class ErrorAnswer(Observations, kw_only=True, omit_defaults=True):
    """A call that failed, with what the agent had observed until then."""

    error: Problem


CODES: Final = {
    "invalid_json": "the body is not JSON",
    "invalid_request": "the body does not fit the schema, or the content type is not JSON",
    "unsupported_protocol": "the server does not speak this version of the protocol",
    "unauthorized": "the bearer token is missing or wrong",
    "not_found": "no such path",
    "unknown_session": "the session was closed, has expired, or never was",
    "method_not_allowed": "the path has no such method",
    "turn_conflict": "the turn is over or was asked with other words; or the session was opened again",
    "too_large": "the body is too large",
    "too_slow": "the body did not come in time",
    "unknown_host": "the server is not known by this Host",
    "foreign_origin": "the request comes from a page of another Origin",
    "agent_failed": "the agent broke its contract or raised; the message is its error",
    "agent_timed_out": "the agent did not answer within turn_timeout",
    "no_commit": "the agent keeps its history itself",
    "internal": "the server failed",
    "agent_unreachable": "what the agent depends on could not be reached; send again",
    "too_many_sessions": "the server holds as many sessions as it may; send again later",
}
"""The codes of errors that MemFin's own server uses."""


class Health(msgspec.Struct):
    """The server is up."""

    status: str
    protocol: int
    version: str
    sessions: int


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the agent protocol as plain data."""
    types = (OpenSession, SessionOpened, TurnRequest, TurnAnswer, CommitRequest, ErrorAnswer, Health)
    document = protocol_document("agent", CODES, types)
    document["components"]["schemas"]["OpenSession"]["properties"]["protocol"] = {"const": PROTOCOL}
    del document["components"]["schemas"]["Session"]["properties"]["carried"]  # of agents in the process
    return document


def protocol_document(name: str, codes: Mapping[str, str], types: Iterable[type]) -> dict[str, Any]:
    """Return an OpenAPI document: its file in ``memfin/data/openapi``, with error codes and schemas."""
    source = importlib.resources.files("memfin").joinpath("data", "openapi", f"{name}-protocol.json")
    document: dict[str, Any] = msgspec.json.decode(source.read_bytes())
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    document["components"]["schemas"] = schemas
    lines = "\n".join(f"- `{code}`: {meaning}" for code, meaning in codes.items())
    document["info"]["description"] = document["info"]["description"].replace("{codes}", lines)
    return document
