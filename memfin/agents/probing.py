"""Probes: questions to copies of a conversation, which never touch the conversation itself."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import anyio
import msgspec

from memfin.agents.protocol import Session
from memfin.contracts import Dialog, TurnPair, TurnTrace
from memfin.contracts.ledger import ForkKind, Probe, ProbeTrace

CLOSE_LIMIT: Final = 1.0
"""Seconds that a copy's ``close`` may take."""

Factory = Callable[..., Any]


class Copy(Protocol):
    """A conversation of its own, with an agent and an observer that nothing else has."""

    dialog_error: str | None
    refused: str | None

    async def start(self, factory: Factory, session: Session, snapshot: bytes | None = None) -> None:
        """Create the agent, in the state of a snapshot."""

    async def turn(self, pair: TurnPair, *, commit: bool = True) -> TurnTrace:
        """Ask the agent."""
        ...

    async def carry(self) -> tuple[bytes | None, str | None]:
        """Return what the agent keeps for the client's next session, or why it gives nothing."""
        ...

    async def close(self, limit: float, *, short_grace: bool = False) -> None:
        """Let the agent go."""


class CopiedSession(msgspec.Struct, frozen=True):
    """A session whose words a replayed copy hears: its agents' factory and its turn pairs.

    Of the session that is probed the pairs are those so far.
    """

    session: Session
    factory: Factory
    pairs: Sequence[TurnPair]


class _CopyFailedError(Exception):
    """There is no copy that could be asked; ``turn`` is the one that failed in it, if one did."""

    def __init__(self, message: str, turn: TurnTrace | None = None) -> None:
        super().__init__(message)
        self.turn = turn


class Prober:
    """The probes of one session.

    ``copy`` makes a conversation without an agent and ``release`` gets it when it was closed. ``state``
    returns the snapshot of the conversation that is probed, or why there is none. ``earlier`` are the
    client's sessions before.
    """

    def __init__(
        self,
        dialog: Dialog,
        kind: ForkKind,
        session: CopiedSession,
        earlier: Sequence[CopiedSession],
        copy: Callable[[], Copy],
        release: Callable[[Any], None],
        state: Callable[[], Awaitable[tuple[bytes | None, str | None]]],
    ) -> None:
        self._probes = dialog.probes
        self._kind: ForkKind = kind
        self._session = session
        self._earlier = earlier
        self._copy = copy
        self._release = release
        self._state = state

    async def ask(self, turns: Sequence[TurnTrace]) -> list[ProbeTrace]:
        """Ask the probes that are due after the last of the turns, each to a copy of its own."""
        due = [(place, each) for place, each in enumerate(self._probes, 1) if each.after == len(turns)]
        return [await self._ask(place, probe, turns) for place, probe in due]

    def never_due(self, last: int) -> list[ProbeTrace]:
        """Return those that come after the last turn pair of the session, as failed."""
        error = f"not asked: the session ends with turn pair {last}"
        return [failed_probe(each, self._kind, error) for each in self._probes if each.after > last]

    async def _ask(self, place: int, probe: Probe, turns: Sequence[TurnTrace]) -> ProbeTrace:
        copies: list[Copy] = []
        asked = failed_probe(probe, self._kind, "")
        try:
            copy = await self._made(place, turns, copies)
            pair = _pair_of(turns[-1]).replace(user_text=probe.question)
            turn = await copy.turn(pair, commit=False)
            recall = msgspec.to_builtins(turn.recall) if turn.recall is not None else None
            return asked.replace(
                status=turn.turn_status,
                answer=turn.pred_assistant_text if turn.turn_status == "ok" else None,
                error=turn.error,
                latency_ms=turn.latency_ms,
                recall=recall,
            )
        except _CopyFailedError as problem:
            status = problem.turn.turn_status if problem.turn is not None else "error"
            return asked.replace(status=status, error=str(problem))
        finally:
            with anyio.CancelScope(shield=True):  # a host that cancels leaves a copy time to let go
                for each in copies:
                    await self._end(each)

    async def _end(self, copy: Copy) -> None:
        await copy.close(CLOSE_LIMIT, short_grace=True)
        self._release(copy)

    async def _made(self, place: int, turns: Sequence[TurnTrace], copies: list[Copy]) -> Copy:
        """Return a copy that can be asked; all that were made are in ``copies``."""
        own = self._session
        name = f"probe{place}_{own.session.session_id}"  # of no conversation, and of no other copy
        if self._kind == "snapshot":
            state, why = await self._state()
            if state is None:
                raise _CopyFailedError(f"no snapshot: {why}")
            return await self._started(own, own.session, copies, state)
        if self._kind == "session":
            return await self._started(own, own.session.replace(session_id=name), copies)
        carried: bytes | None = None
        for number, each in enumerate((*self._earlier, own)):
            copied = f"{name}_of_{each.session.session_id}"
            heard_by = each.session.replace(user_id=name, session_id=copied, carried=carried)
            copy = await self._started(each, heard_by, copies)
            last = number == len(self._earlier)
            for pair in map(_pair_of, turns) if last else each.pairs:
                heard = await copy.turn(pair)
                answered = not last or turns[heard.turn_pair_id - 1].turn_status == "ok"
                if heard.turn_status != "ok" and answered:  # else the conversation lacks that turn, too
                    where = f"turn {heard.turn_pair_id} of {each.session.dialog_id}"
                    raise _CopyFailedError(f"the copy failed in {where}: {heard.error}", heard)
            if not last:
                left, _ = await copy.carry()
                carried = carried if left is None else left
                await self._end(copies.pop())
        return copies[-1]

    async def _started(
        self, own: CopiedSession, session: Session, copies: list[Copy], state: bytes | None = None
    ) -> Copy:
        copy = self._copy()
        copies.append(copy)
        await copy.start(own.factory, session, state)
        if (problem := copy.dialog_error or copy.refused) is not None:
            raise _CopyFailedError(problem)
        return copy


def _pair_of(turn: TurnTrace) -> TurnPair:
    """Return the part of a turn that was known before its reply."""
    return TurnPair(**{name: turn[name] for name in TurnPair.__struct_fields__})


def failed_probe(probe: Probe, kind: ForkKind, error: str) -> ProbeTrace:
    """Return the trace of a probe that could not be asked."""
    return ProbeTrace(
        probe_id=probe.id,
        after=probe.after,
        question=probe.question,
        fork=kind,
        status="error",
        error=error,
    )
