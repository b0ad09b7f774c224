"""Routes of the service: parameters, bodies, errors, and function of each call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from memfin.contracts.base import Record
from memfin.memory.access_tokens import TokenFile
from memfin.memory.reading import Skill

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
    """

    user_id: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    tokens: TokenFile
    skills: tuple[Skill, ...] = ()


@dataclass(frozen=True, slots=True)
class Archive:
    """A zip archive as an answer."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Field:
    """A path parameter or query field: its description and schema."""

    name: str
    description: str
    schema: Mapping[str, Any]
    required: bool = False


Work = Callable[..., Record | Archive | None]
"""Function of a store, a call and its body, if any; it runs in a worker thread and may wait for locks."""


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the service.

    Attributes:
        method: HTTP method.
        path: template of the path; ``{user_id}`` is the caller.
        name: operation id, also the label of its metrics.
        work: the function that does it; its docstring is one sentence.
        body: the struct of its body, or None.
        answer: the struct of its answer, `Archive`, or None for an answer without a body.
        status: status of its answer.
        query: fields of the query.
        errors: statuses with which it refuses, beyond those of every route.
    """

    method: Method
    path: str
    name: str
    work: Work
    body: type[Record] | None
    answer: type[Record | Archive] | None
    status: int
    query: tuple[Field, ...]
    errors: tuple[int, ...]


def route(
    method: Method,
    path: str,
    name: str,
    *,
    status: int = 200,
    query: tuple[Field, ...] = (),
    errors: tuple[int, ...] = (),
) -> Callable[[Work], Route]:
    """Return the decorator that makes a route of a function, whose types name the body and the answer."""

    def decorated(work: Work) -> Route:
        _, _, *body, answer = get_type_hints(work).values()
        answered = None if answer is type(None) else answer
        return Route(method, path, name, work, body[0] if body else None, answered, status, query, errors)

    return decorated


def deletion(path: str, name: str) -> Callable[[Work], Route]:
    """Return the decorator for a deletion, which answers without a body."""
    return route("DELETE", path, name, status=204, errors=(410,))
