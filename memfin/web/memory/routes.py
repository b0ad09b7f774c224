"""Routes of the service: parameters, bodies, errors, and function of each call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memfin.contracts.base import Record
from memfin.memory.access_tokens import TokenFile
from memfin.memory.reading import Skill
from memfin.memory.store import MemoryStore

Method = Literal["GET", "POST", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an authorized caller.

    Attributes:
        user_id: the user of the caller's token; a user in the path is the same.
        params: the other parts of the path.
        query: the fields of the query that the route knows.
        tokens: the access tokens of all users.
        skills: the skills of the host.
        body: the decoded body, for a route that takes one.
    """

    user_id: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    tokens: TokenFile
    skills: tuple[Skill, ...] = ()
    body: Any = None


@dataclass(frozen=True, slots=True)
class Download:
    """A file as an answer."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Field:
    """A path parameter or query field: its description and schema."""

    name: str
    description: str
    schema: Mapping[str, Any]
    required: bool = False


Work = Callable[[MemoryStore, Call], Record | Download | None]
"""Function that does a call; it runs in a worker thread and may wait for files and locks."""


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the service.

    Attributes:
        method: HTTP method.
        path: template of the path; ``{user_id}`` is the caller.
        name: operation id, also the label of its metrics.
        summary: one sentence.
        work: the function that does it.
        answer: the struct of its answer, a media type, or None for an answer without a body.
        status: status of its answer.
        body: the struct of its body, or None.
        query: fields of the query.
        errors: statuses with which it refuses, beyond those of every route.
    """

    method: Method
    path: str
    name: str
    summary: str
    work: Work
    answer: type[Record] | str | None
    status: int = 200
    body: type[Record] | None = None
    query: tuple[Field, ...] = ()
    errors: tuple[int, ...] = ()


def deletion(path: str, name: str, summary: str, work: Work) -> Route:
    """Return the route of a deletion, which answers without a body."""
    return Route("DELETE", path, name, summary, work, answer=None, status=204, errors=(410,))
