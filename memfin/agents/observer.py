"""Observer of one dialogue: the observations of a turn, checked against the contract."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from memfin.agents.protocol import AgentReply
from memfin.contracts import (
    ComplianceTrace,
    MemoryTrace,
    ModelUsage,
    RecallTrace,
    Record,
    ToolTrace,
    non_finite_path,
)
from memfin.contracts.reading import reason_of
from memfin.sandbox.references import describe, one_line
from memfin.secrets import Scrubber, scrubber_of_environment

R = TypeVar("R", bound=Record)

MIN_KEY_LENGTH: Final = 8  # shorter keys are placeholders such as ``EMPTY``, and words of a reply
_NO_TURN: Final = 0
_TOO_DEEP: Final = "the value is nested too deeply"

_OTHER_THAN_TEXT: Final = (bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal, UUID)
"""Types that JSON writes as text, but that no field of the contract that asks for text takes."""

_turn: Final[ContextVar[int | None]] = ContextVar("memfin_turn", default=None)


class ObservationError(ValueError):
    """An observation that breaks the contract; the text names the field's path."""


class Observed(Record):
    """The valid observations of one turn, and the first thing that was wrong with the others."""

    recall: RecallTrace | None = None
    tools: list[ToolTrace] = []
    compliance: ComplianceTrace | None = None
    profile_snapshot: dict[str, Any] | None = None
    memory: MemoryTrace | None = None
    usage: ModelUsage | None = None
    error: str | None = None


class TurnObserver:
    """The `Observer` of one dialogue; `begin` opens a turn, `collect` closes it.

    Code of an earlier turn (an agent that was abandoned after its time-out and still runs) has another
    context; its calls are dropped, and `late` counts them.
    """

    def __init__(self) -> None:
        self.late = 0
        self._turn_id = _NO_TURN
        self._clear()

    def _clear(self) -> None:
        self._fields: dict[str, Any] = {}
        self._tools: list[ToolTrace] = []
        self._error: str | None = None

    def begin(self, turn_pair_id: int) -> Token[int | None]:
        """Open a turn; tasks and threads started from here on belong to it."""
        self._turn_id = turn_pair_id
        self._clear()
        return _turn.set(turn_pair_id)

    def end(self, token: Token[int | None]) -> None:
        """Close the turn: calls of its code from here on are late."""
        _turn.reset(token)
        self._turn_id = _NO_TURN

    def recall(self, /, **fields: Any) -> None:
        """Record what memory put before the model; the last call of a turn counts."""
        self._record("recall", fields)

    def tool(self, /, **fields: Any) -> None:
        """Record one tool call."""
        self._record("tool", fields)

    def compliance(self, /, **fields: Any) -> None:
        """Record the agent's own compliance check; the last call of a turn counts."""
        self._record("compliance", fields)

    def profile(self, /, **fields: Any) -> None:
        """Record the client profile as the agent sees it; the last call of a turn counts."""
        self._record("profile_snapshot", fields)

    def memory(self, /, **fields: Any) -> None:
        """Record all that the agent's store holds about the client; the last call of a turn counts."""
        self._record("memory", fields)

    def collect(self, reply: AgentReply | None = None) -> Observed:
        """Return the turn's observations; what the reply itself carries wins."""
        fields = {**self._fields, "tools": list(self._tools)}
        if reply is not None:
            for name in ("recall", "tools", "compliance", "profile_snapshot", "memory", "usage"):
                if (value := getattr(reply, name)) is not None:
                    fields |= self._checked(name, value)
            self._error = self._error or reply.observation_error
        return Observed(error=self._error, **fields)

    def _record(self, name: str, fields: dict[str, Any]) -> None:
        """Keep an observation of the current turn, if it fits its contract."""
        if _turn.get() not in (None, self._turn_id):  # code without a turn of its own is current
            self.late += 1
            return
        checked = self._checked(name, fields)
        if name == "tool":
            self._tools += checked.values()
        else:
            self._fields |= checked

    def _checked(self, name: str, value: Any) -> dict[str, Any]:
        """Return an observation by its name, nothing if it is malformed; keep the turn's first error."""
        try:
            checked = {name: _CHECKS[name](value)}
        except ObservationError as problem:
            self._error = self._error or one_line(str(problem))
            return {}
        self._error = self._error or _unknown_field(name, value)
        return checked


def check(name: str, contract: type[R], value: R | Mapping[str, Any]) -> R:
    """Return the observation as its contract; raise `ObservationError` with the offending path.

    What is returned is a copy: msgspec takes structs that an agent built as they are, unchecked,
    and an agent may go on changing what it handed over.
    """
    plain = _plain(name, value, _OTHER_THAN_TEXT)
    try:
        checked = msgspec.convert(plain, contract)
    except (ValueError, RecursionError) as problem:  # ValueError: a Decimal that is no number
        raise ObservationError(f"malformed observation {name}: {reason_of(problem)}") from problem
    if contract is not RecallTrace:  # whose numbers all have types that say so
        _check_finite(name, plain)
    return checked


def check_tools(calls: object) -> list[ToolTrace]:
    """Return a reply's tool calls as their contract; raise `ObservationError` where they are none."""
    if not isinstance(calls, list | tuple):
        raise ObservationError(f"malformed observation tools: Expected `array`, got `{type(calls).__name__}`")
    return [check(f"tools[{index}]", ToolTrace, call) for index, call in enumerate(calls)]


def check_profile(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the profile snapshot as plain JSON data; raise `ObservationError` where it is none."""
    if not isinstance(fields, Mapping):
        raise ObservationError(
            f"malformed observation profile: Expected `object`, got `{type(fields).__name__}`"
        )
    plain: dict[str, Any] = _plain("profile", fields)
    _check_finite("profile", plain)
    # Scoring sees what a reader of the trace will see: lists where the agent had tuples.
    profile: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    return profile


_CONTRACTS: Final[dict[str, type[Record]]] = {
    "recall": RecallTrace,
    "tool": ToolTrace,
    "compliance": ComplianceTrace,
    "memory": MemoryTrace,
    "usage": ModelUsage,
}
_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: partial(check, name, contract) for name, contract in _CONTRACTS.items()},
    "tools": check_tools,
    "profile_snapshot": check_profile,
}


def _unknown_field(name: str, value: Any) -> str | None:
    """Return an error that names the first field of an observation that its contract does not have."""
    if name == "tools":
        return next(filter(None, (_unknown_field("tool", call) for call in value)), None)
    known = _CONTRACTS[name].__struct_fields__ if name in _CONTRACTS else ()
    for field in value if known and type(value) is dict else ():
        if field not in known:
            return (
                f"unknown field of observation {name}: `{one_line(str(field))}`; known are {', '.join(known)}"
            )
    return None


def scrubber_of_replies() -> Scrubber:
    """Return the scrubber of the keys that the environment holds now; false if it holds none."""
    return scrubber_of_environment(shortest=MIN_KEY_LENGTH)


def masked_observations(observed: Observed, scrubber: Scrubber) -> Observed:
    """Return the observations without keys, names of fields included.

    Where a key stands in a field of an enumeration, no observation of the turn is left.
    """
    if not scrubber:
        return observed
    plain = msgspec.to_builtins(observed)
    if (scrubbed := scrubber.scrub_data(plain)) == plain:
        return observed
    try:
        return msgspec.convert(scrubbed, Observed)
    except msgspec.ValidationError:
        return Observed(error="an observation holds a key of the environment in a field of few values")


def _plain(name: str, value: Any, builtin_types: tuple[type, ...] = ()) -> Any:
    """Return a deep copy in plain data that can be written as JSON."""
    try:
        plain = msgspec.to_builtins(value, builtin_types=builtin_types, str_keys=True, enc_hook=_plain_form)
        msgspec.json.encode(plain)
    except RecursionError:
        raise ObservationError(f"malformed observation {name}: {_TOO_DEEP}") from None
    except Exception as problem:
        reason, path = describe(problem), _unwritable_path(value)
        raise ObservationError(f"malformed observation {name}: {reason} - at `{path}`") from problem
    return plain


def _check_finite(name: str, plain: object) -> None:
    try:
        path = non_finite_path(plain)
    except RecursionError:
        raise ObservationError(f"malformed observation {name}: {_TOO_DEEP}") from None
    if path is not None:
        raise ObservationError(f"malformed observation {name}: number is not finite - at `{path}`")


def _plain_form(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no JSON form for `{type(value).__name__}`")


def _unwritable_path(value: Any) -> str:
    """Return the path of the innermost part that cannot be written as JSON."""
    path = "$"
    while True:
        for where, part in _parts(path, value):
            try:
                msgspec.json.encode(part, enc_hook=_plain_form)
            except Exception:  # noqa: BLE001 - whatever it is, it is in this part
                path, value = where, part
                break
        else:
            return path


def _parts(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"{path}.{key}", part) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, msgspec.Struct):
        return [(f"{path}.{field}", getattr(value, field)) for field in value.__struct_fields__]
    return []
