"""Holds what a system returned against the contract."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from memfin.contracts import ModelUsage
from memfin.contracts.base import non_finite_path
from memfin.contracts.rag import RagAnswer
from memfin.rag.systems.protocol import RagReply
from memfin.sandbox.calls import CallFailed
from memfin.sandbox.references import kind_of, one_line
from memfin.secrets import Scrubber

LARGEST: Final = 8 * 1024 * 1024
"""Bytes of an answer as JSON."""

_EXPECTED: Final = "expected RagAnswer, a mapping of its fields, or str"


def as_reply(value: object) -> RagReply:
    """Return what a system gave back as a checked `RagReply`.

    A string is the text of an answer. A mapping or a data class has the fields of `RagAnswer` and, if it
    likes, ``usage``; unknown fields are ignored.

    Raises:
        CallFailed: it is anything else, or a field is not what the contract says; the text has the path.
    """
    if isinstance(value, RagReply):
        reply = RagReply(answer=_checked(value.answer), usage=_usage(value.usage))
    elif isinstance(value, str):
        reply = RagReply(answer=_checked({"answer": str.__str__(value)}))
    elif isinstance(value, Mapping):
        reply = RagReply(answer=_checked(dict(value)), usage=_usage(value.get("usage")))
    elif isinstance(value, msgspec.Struct) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        reply = RagReply(answer=_checked(value))
    else:
        raise CallFailed(f"the system returned {kind_of(value)}; {_EXPECTED}")
    return reply


def masked(reply: RagReply, scrubber: Scrubber) -> RagReply:
    """Return the reply without keys of the environment."""
    if not scrubber or not scrubber.finds(msgspec.json.encode(reply).decode()):
        return reply
    return msgspec.convert(scrubber.scrub_data(msgspec.to_builtins(reply)), RagReply)


def _checked(value: Any) -> RagAnswer:
    if isinstance(value, dict) and "answer" not in value:
        raise CallFailed(f"the system returned an object without answer; {_EXPECTED}")
    try:
        plain = msgspec.to_builtins(_known(value))
        answer = msgspec.convert(plain, RagAnswer)
        size = len(msgspec.json.encode(answer))
    except UnicodeEncodeError as problem:
        raise CallFailed("the answer holds a lone surrogate and cannot be written") from problem
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise CallFailed(f"the system returned an answer that is none: {one_line(str(problem))}") from problem
    if (path := non_finite_path(plain)) is not None:
        raise CallFailed(f"the system returned an answer that is none: no finite number - at `{path}`")
    if size > LARGEST:
        raise CallFailed(f"the system returned an answer of {size} bytes; at most {LARGEST} are taken")
    return answer


def _known(value: Any) -> dict[str, Any]:
    """Return the fields of the contract: others may hold anything, and are nobody's business."""
    names = RagAnswer.__struct_fields__
    if isinstance(value, dict):
        return {name: value[name] for name in names if name in value}
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _usage(value: Any) -> ModelUsage | None:
    if value is None:
        return None
    try:
        return msgspec.convert(msgspec.to_builtins(value), ModelUsage)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise CallFailed(f"the system returned a usage that is none: {one_line(str(problem))}") from problem
