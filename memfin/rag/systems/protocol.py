"""Interface of a system under test: a question in, an answer with its evidence out (spec section 9).

A factory is called with the loaded `memfin.rag.document.Document`, or None where the benchmark has none::

    class MyRag:
        def __init__(self, document):
            self.index = build(document)

        async def query(self, question):
            return {"answer": "...", "citation": [{"page": 2, "quote": "..."}]}

``memfin bench --rag mypackage.mymodule:MyRag`` then asks it.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from memfin.contracts import ModelUsage, ParameterChange, Record
from memfin.contracts.base import non_finite_path
from memfin.contracts.rag import RagAnswer
from memfin.sandbox.calls import CallFailed
from memfin.sandbox.references import kind_of, one_line
from memfin.secrets import Scrubber


class RagReply(Record):
    """An answer with the usage of a language model."""

    answer: RagAnswer
    usage: ModelUsage | None = None


@runtime_checkable
class RagSystem(Protocol):
    """A system under test.

    ``query`` returns a `RagAnswer`, a mapping of its fields, a string, or a `RagReply`. It may be a plain
    function: it then runs in a worker thread, and a system is made for each worker of the run. An
    asynchronous system is made once and asked several questions at a time. An optional ``close()`` is
    called when the run is over.
    """

    def query(self, question: str) -> Any:
        """Answer a question about the document."""


@runtime_checkable
class KnownSystem(Protocol):
    """A system with the data that a run records about it; the defaults are for one without a model.

    Attributes:
        reference, model, version: the names of the system, and its version if it has one.
    """

    reference: str
    model: str
    version: str | None = None

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Settings that the answers depend on; no secrets."""
        return {}

    @property
    def total_usage(self) -> ModelUsage | None:
        """Usage of a language model so far, failed questions included; None if unknown."""
        return None

    def parameter_changes(self) -> list[ParameterChange]:
        """Return the parameters that the model has refused so far."""
        return []


_INVALID: Final = (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError)
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024  # of an answer as JSON
_NAMES: Final = RagAnswer.__struct_fields__  # further fields may hold anything
_EXPECTED: Final = "expected RagAnswer, a mapping of its fields, or str"


def as_reply(value: object) -> RagReply:
    """Check the return value of a system and return it as a `RagReply`.

    A string is the text of an answer. A mapping or a data class has the fields of `RagAnswer` and, if it
    likes, ``usage``; unknown fields are ignored. ``evidence`` and ``citation`` may be null, a single record
    or texts, and numbers may be texts of digits.

    Raises:
        CallFailed: it is anything else, or a field violates the contract; the text has the path.
    """
    answer, usage = value, None
    if isinstance(value, RagReply):
        answer, usage = value.answer, value.usage
    elif isinstance(value, str):
        answer = {"answer": str.__str__(value)}
    elif isinstance(value, Mapping):
        answer, usage = dict(value), value.get("usage")
    elif isinstance(value, type) or not (isinstance(value, msgspec.Struct) or is_dataclass(value)):
        raise CallFailed(f"the system returned {kind_of(value)}; {_EXPECTED}")
    return RagReply(answer=_checked(answer), usage=_usage(usage))


def masked(reply: RagReply, scrubber: Scrubber) -> RagReply:
    """Return the reply with keys of the environment masked."""
    if not scrubber or not scrubber.finds(msgspec.json.encode(reply).decode()):
        return reply
    return msgspec.convert(scrubber.scrub_data(msgspec.to_builtins(reply)), RagReply)


def _checked(value: Any) -> RagAnswer:
    if isinstance(value, dict) and "answer" not in value:
        raise CallFailed(f"the system returned an object without answer; {_EXPECTED}")
    try:
        if not isinstance(value, dict):
            value = {name: getattr(value, name) for name in _NAMES if hasattr(value, name)}
        plain = _tolerant(msgspec.to_builtins({name: value[name] for name in _NAMES if name in value}))
        answer = msgspec.convert(plain, RagAnswer)
        size = len(msgspec.json.encode(answer))
    except UnicodeEncodeError as problem:
        raise CallFailed("the answer contains a lone surrogate and cannot be written") from problem
    except _INVALID as problem:
        raise CallFailed(f"the system returned an invalid answer: {one_line(str(problem))}") from problem
    if (path := non_finite_path(plain)) is not None:
        raise CallFailed(f"the system returned an invalid answer: not a finite number - at `{path}`")
    if size > MAX_ANSWER_BYTES:
        raise CallFailed(f"the system returned an answer of {size} bytes; the limit is {MAX_ANSWER_BYTES}")
    return answer


def _tolerant(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an answer in the forms that systems also give them.

    A list that is null is empty, one record stands for a list of it, and a text for a record of that text;
    numbers may be texts.
    """
    records = [(fields, "amount"), (fields, "count")]
    for name, text in (("evidence", "text"), ("citation", "quote")):
        given = fields.get(name, [])
        items = [] if given is None else given if isinstance(given, list) else [given]
        fields[name] = [{text: each} if isinstance(each, str) else each for each in items]
        records += ((each, "page") for each in fields[name] if isinstance(each, dict))
    for record, name in records:
        if isinstance(number := record.get(name), str):
            with suppress(msgspec.ValidationError):
                record[name] = msgspec.convert(number.replace(",", ""), int | float, strict=False)
    return fields


def _usage(value: Any) -> ModelUsage | None:
    if value is None:
        return None
    try:
        return msgspec.convert(msgspec.to_builtins(value), ModelUsage)
    except _INVALID as problem:
        raise CallFailed(f"the system returned an invalid usage: {one_line(str(problem))}") from problem
