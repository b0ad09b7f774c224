"""Collects what an agent tells about a turn and holds it against the contract."""

from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any, Final, TypeVar

import msgspec

from memfin.agents.protocol import AgentReply
from memfin.contracts import (
    ComplianceTrace,
    RecallTrace,
    Record,
    ToolTrace,
    non_finite_path,
)

R = TypeVar("R", bound=Record)

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
        self._turn_id = 0
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
        """Close the turn for the calling context."""
        _turn.reset(token)

    def recall(self, **fields: Any) -> None:
        """Record what memory put before the model; the last call of a turn counts."""
        if (value := self._check("recall", RecallTrace, fields)) is not None:
            self._recall = value

    def tool(self, **fields: Any) -> None:
        """Record one tool call."""
        if (value := self._check("tool", ToolTrace, fields)) is not None:
            self._tools.append(value)

    def compliance(self, **fields: Any) -> None:
        """Record the agent's own compliance check; the last call of a turn counts."""
        if (value := self._check("compliance", ComplianceTrace, fields)) is not None:
            self._compliance = value

    def profile(self, **fields: Any) -> None:
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
            tools=tools,
            compliance=compliance,
            profile_snapshot=profile,
            error=self._error,
        )

    def _is_late(self) -> bool:
        """Whether the call comes from an earlier turn; code without a turn of its own is current."""
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
        self._error = self._error or problem


def check(name: str, contract: type[R], value: R | Mapping[str, Any]) -> R:
    """Return the observation as its contract; raise `ObservationError` with the offending path."""
    try:
        checked = msgspec.convert(value, contract)
        if contract is not RecallTrace and (path := non_finite_path(msgspec.to_builtins(checked))):
            raise ObservationError(f"malformed observation {name}: number is not finite - at `{path}`")
        msgspec.json.encode(checked)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as problem:
        if isinstance(problem, ObservationError):
            raise
        raise ObservationError(f"malformed observation {name}: {problem}") from problem
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
    try:
        plain: dict[str, Any] = msgspec.to_builtins(dict(fields), str_keys=True)
        msgspec.json.encode(plain)
    except (TypeError, ValueError, RecursionError) as problem:
        raise ObservationError(f"malformed observation profile: {problem}") from problem
    if path := non_finite_path(plain):
        raise ObservationError(f"malformed observation profile: number is not finite - at `{path}`")
    return plain
