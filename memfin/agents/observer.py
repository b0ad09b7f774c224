"""Observer of one dialogue: the observations of a turn, checked against the contract."""

from collections.abc import Mapping
from contextvars import ContextVar, Token
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from memfin.agents.protocol import AgentReply
from memfin.contracts import (
    ComplianceTrace,
    RecallTrace,
    Record,
    ToolTrace,
    non_finite_path,
)
from memfin.contracts.reading import reason_of
from memfin.sandbox.references import describe, one_line

R = TypeVar("R", bound=Record)

_NO_TURN: Final = 0
_TOO_DEEP: Final = "the value is nested too deeply"

_OTHER_THAN_TEXT: Final = (bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal, UUID)
"""Types that JSON writes as text, but that no field of the contract that asks for text takes."""

_turn: Final[ContextVar[int | None]] = ContextVar("memfin_turn", default=None)


class ObservationError(ValueError):
    """An observation that breaks the contract; the text names the field's path."""


class Observed(Record):
    """The observations of one turn, all of them valid, or the first thing that was wrong."""

    recall: RecallTrace | None = None
    tools: list[ToolTrace] = []
    compliance: ComplianceTrace | None = None
    profile_snapshot: dict[str, Any] | None = None
    error: str | None = None


class TurnObserver:
    """The `Observer` of one dialogue; `begin` opens a turn, `collect` closes it.

    A call from code of an earlier turn (an agent that was abandoned after its time-out and still
    runs) is told apart by its context and dropped; `late` counts those.
    """

    def __init__(self) -> None:
        self.late = 0
        self._turn_id = _NO_TURN
        self._clear()

    def _clear(self) -> None:
        self._recall: RecallTrace | None = None
        self._tools: list[ToolTrace] = []
        self._compliance: ComplianceTrace | None = None
        self._profile: dict[str, Any] | None = None
        self._error: str | None = None

    def begin(self, turn_pair_id: int) -> Token[int | None]:
        """Open a turn; tasks and threads started from here on belong to it."""
        self._turn_id = turn_pair_id
        self._clear()
        return _turn.set(turn_pair_id)

    def end(self, token: Token[int | None]) -> None:
        """Close the turn: what its code tells from here on is late."""
        _turn.reset(token)
        self._turn_id = _NO_TURN

    def recall(self, /, **fields: Any) -> None:
        """Record what memory put before the model; the last call of a turn counts."""
        if (value := self._check("recall", RecallTrace, fields)) is not None:
            self._recall = value

    def tool(self, /, **fields: Any) -> None:
        """Record one tool call."""
        if (value := self._check("tool", ToolTrace, fields)) is not None:
            self._tools.append(value)

    def compliance(self, /, **fields: Any) -> None:
        """Record the agent's own compliance check; the last call of a turn counts."""
        if (value := self._check("compliance", ComplianceTrace, fields)) is not None:
            self._compliance = value

    def profile(self, /, **fields: Any) -> None:
        """Record the client profile as the agent sees it; the last call of a turn counts."""
        if self._is_late():
            return
        try:
            self._profile = check_profile(fields)
        except ObservationError as problem:
            self._fail(str(problem))

    def collect(self, reply: AgentReply | None = None) -> Observed:
        """Return the turn's observations; what the reply itself carries wins."""
        recall, tools, compliance, profile = self._recall, self._tools, self._compliance, self._profile
        try:
            if reply is not None:
                if reply.recall is not None:
                    recall = check("recall", RecallTrace, reply.recall)
                if reply.tools is not None:
                    tools = check_tools(reply.tools)
                if reply.compliance is not None:
                    compliance = check("compliance", ComplianceTrace, reply.compliance)
                if reply.profile_snapshot is not None:
                    profile = check_profile(reply.profile_snapshot)
        except ObservationError as problem:
            self._fail(str(problem))
        return Observed(
            recall=recall,
            tools=list(tools),
            compliance=compliance,
            profile_snapshot=profile,
            error=self._error,
        )

    def _is_late(self) -> bool:
        """Return whether the call comes from an earlier turn; code without a turn of its own is current."""
        if _turn.get() in (None, self._turn_id):
            return False
        self.late += 1
        return True

    def _check(self, name: str, contract: type[R], fields: dict[str, Any]) -> R | None:
        if self._is_late():
            return None
        try:
            return check(name, contract, fields)
        except ObservationError as problem:
            self._fail(str(problem))
            return None

    def _fail(self, problem: str) -> None:
        self._error = self._error or one_line(problem)


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
