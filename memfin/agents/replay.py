"""Replay of one dialogue: its user turns one after another, each answer recorded (spec section 5)."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import anyio

from memfin.agents.calls import AgentCalls, TransportError, asked_pause
from memfin.agents.observer import ObservationError, Observed, TurnObserver, check
from memfin.agents.protocol import AgentReply, Session
from memfin.contracts import (
    NO_JUDGE,
    TRACE_VERSION,
    TRACE_VERSION_EXTENDED,
    BegunDialog,
    Dialog,
    DialogStatus,
    DialogTrace,
    HistoryMode,
    ModelUsage,
    Record,
    TraceVersion,
    TurnPair,
    TurnStatus,
    TurnTrace,
)
from memfin.contracts.reading import convert
from memfin.dataset import align_turn_pairs, detect_language
from memfin.errors import UsageError
from memfin.foreign.calls import CallFailed, CallTimedOut
from memfin.foreign.references import describe, one_line

T = TypeVar("T")

FIRST_BACKOFF: Final = 0.25
LONGEST_BACKOFF: Final = 8.0
CLOSE_LIMIT: Final = 10.0
HASTY_CLOSE_LIMIT: Final = 1.0
"""Seconds: the first and the longest pause before a retry; what an agent's ``close`` may take, and
what it may take when the host ends the replay early."""

SNAPSHOT_LIMIT: Final = 5.0
"""Seconds that an agent's ``snapshot`` may take at most."""

OnTurn = Callable[[TurnTrace], Awaitable[None]]
OnBegun = Callable[[BegunDialog], Awaitable[None]]
OnResume = Callable[[Sequence[TurnTrace], str | None], Awaitable[None]]
"""Gets the turns that need not be asked again, and why there are none where the agent could not go on."""


class ReplayOptions(Record):
    """How dialogues are replayed; times in seconds."""

    run_id: str
    history: HistoryMode = "free"
    turn_timeout: float = 120.0
    turn_retries: int = 2
    trace_version: TraceVersion = TRACE_VERSION
    judge: str | None = None


class Replay(Record):
    """A dialogue's trace with what its making took: retries, calls left behind, late observations.

    ``snapshot_error`` is why the agent's state could not be kept from some turn on, if it could not.
    """

    trace: DialogTrace
    retries: int = 0
    abandoned: int = 0
    late_observations: int = 0
    snapshot_error: str | None = None


class HistoryUnsupportedError(UsageError):
    """History mode ``forced`` was asked of an agent without ``commit``."""


def open_session(dialog: Dialog, options: ReplayOptions) -> Session:
    """Return the session of a dialogue; no two dialogues or runs share a session or user id."""
    return Session(
        run_id=options.run_id,
        dialog_id=dialog.dialog_id,
        session_id=f"session_{options.run_id}_{dialog.dialog_id}",
        user_id=f"eval_user_{options.run_id}_{dialog.dialog_id}",
        language=dialog.language or detect_language(dialog.turns[0].text),
        history_mode=options.history,
    )


async def replay_dialog(
    dialog: Dialog,
    dataset_index: int,
    factory: Callable[..., Any],
    options: ReplayOptions,
    *,
    worker_id: int | None = None,
    on_turn: OnTurn | None = None,
    on_begun: OnBegun | None = None,
    begun: BegunDialog | None = None,
    on_resume: OnResume | None = None,
    observer_factory: Callable[[], TurnObserver] | None = None,
) -> Replay:
    """Send the user turns of a dialogue to a fresh agent and return what happened.

    Whatever the agent does ends in the trace: a failed turn is marked and the dialogue goes on; an
    agent that cannot be created fails every turn of its dialogue, with the reason in
    ``dialog_error``. ``observer_factory`` may make a subclass of `TurnObserver`, for hosts that
    want to see observations as they come.

    ``on_begun`` gets the turns so far with the agent's snapshot after each answered turn, where the
    agent gives one. Handed in again as ``begun`` it has the dialogue go on there: ``on_resume`` is
    told so before the first turn is asked. An agent that does not take its snapshot back is made
    anew, and the dialogue starts again.

    Raises:
        HistoryUnsupportedError: the history mode is ``forced`` and the agent has no ``commit``.
    """
    session = open_session(dialog, options)
    observer = TurnObserver() if observer_factory is None else observer_factory()
    replayer = _DialogReplayer(dialog.dialog_id, observer, options)
    pairs = align_turn_pairs(dialog)
    dialog_error: str | None = None
    turns: list[TurnTrace] = []
    refused: str | None = None
    try:
        try:
            if begun is None:
                await replayer.open(factory, session)
            else:
                turns += begun.turns  # they stand, even if no agent can be made to go on
                if len(turns) < len(pairs):
                    refused = await replayer.go_on(factory, session, begun)
        except (CallFailed, TransportError, ConnectionError) as problem:
            dialog_error = f"agent could not be created: {_text(problem)}"
        if refused is not None:
            turns.clear()
        if on_resume is not None:
            await on_resume(tuple(turns), refused)
        for pair in pairs[len(turns) :]:
            turn = (
                await replayer.turn(pair)
                if dialog_error is None
                else build_turn_trace(pair, None, Observed(), None, "error", dialog_error)
            )
            turns.append(turn)
            if on_turn is not None:
                await on_turn(turn)
            if on_begun is not None and turn.turn_status == "ok":
                state = await replayer.snapshot()
                if state is not None:
                    await on_begun(
                        BegunDialog(
                            dataset_index=dataset_index,
                            dialog_id=dialog.dialog_id,
                            turns=list(turns),
                            snapshot=state,
                            retries=replayer.retries,
                            abandoned=replayer.abandoned,
                            late_observations=observer.late,
                        )
                    )
    except BaseException:
        with anyio.CancelScope(shield=True):  # a host that cancels leaves the agent time to let go
            await replayer.close(HASTY_CLOSE_LIMIT)
        raise
    await replayer.close(CLOSE_LIMIT)
    extended = options.trace_version == TRACE_VERSION_EXTENDED
    trace = DialogTrace(
        trace_version=options.trace_version,
        run_id=options.run_id,
        dialog_id=dialog.dialog_id,
        dataset_index=dataset_index,
        scenario_type=dialog.scenario_type,
        difficulty=dialog.difficulty,
        dialog_status=dialog_status(turns),
        valid_dialog=True,
        worker_id=worker_id,
        session_id=session.session_id,
        user_id=session.user_id,
        turns=turns,
        dialog_error=dialog_error,
    )
    if extended:
        trace = trace.replace(
            profile_gt=dialog.profile_gt, history_mode=options.history, judge=options.judge or NO_JUDGE
        )
    return Replay(
        trace=trace,
        retries=replayer.retries,
        abandoned=replayer.abandoned,
        late_observations=replayer.observer.late,
        snapshot_error=replayer.snapshot_error,
    )


def dialog_status(turns: list[TurnTrace]) -> DialogStatus:
    """Return ``ok`` when all turns are, ``failed`` when none is, else ``partial`` (spec section 4)."""
    answered = sum(turn.turn_status == "ok" for turn in turns)
    if answered == len(turns):
        return "ok"
    return "partial" if answered else "failed"


def build_turn_trace(
    turn_pair: TurnPair | Mapping[str, Any],
    pred_text: str | None,
    observer_payload: Observed | Mapping[str, Any],
    latency_ms: float | None,
    turn_status: TurnStatus = "ok",
    error: str | None = None,
) -> TurnTrace:
    """Return the trace of one turn; latency in milliseconds (metrics contract section 4).

    Raises:
        InvalidRecord: a plain mapping does not fit the contract; the message begins with its path.
    """
    if isinstance(turn_pair, Mapping):
        turn_pair = convert(turn_pair, TurnPair)
    if isinstance(observer_payload, Mapping):
        observer_payload = convert(observer_payload, Observed)
    return TurnTrace(
        turn_pair_id=turn_pair.turn_pair_id,
        user_turn_abs_idx=turn_pair.user_turn_abs_idx,
        gt_assistant_abs_idx=turn_pair.gt_assistant_abs_idx,
        user_text=turn_pair.user_text,
        gt_assistant_text=turn_pair.gt_assistant_text,
        gt_turn_tags=turn_pair.gt_turn_tags,
        turn_status=turn_status,
        pred_assistant_text=pred_text,
        latency_ms=latency_ms,
        error=error,
        recall=observer_payload.recall,
        tools=observer_payload.tools,
        compliance=observer_payload.compliance,
        profile_snapshot=observer_payload.profile_snapshot,
    )


class _DialogReplayer:
    """The turn loop's state: one agent, one observer, the retry count."""

    def __init__(self, name: str, observer: TurnObserver, options: ReplayOptions) -> None:
        self.calls = AgentCalls(name)
        self.observer = observer
        self.retries = 0
        self.snapshot_error: str | None = None
        self._name = name
        self._options = options
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """Calls that were left behind, those to earlier agents of the dialogue included."""
        return self._abandoned + self.calls.abandoned

    async def open(self, factory: Callable[..., Any], session: Session) -> None:
        await self._with_retries(
            lambda limit: self.calls.open(factory, session, self.observer, limit), TransportError
        )
        if self._options.history == "forced" and not self.calls.has_commit:
            raise HistoryUnsupportedError(
                "history mode 'forced' needs an agent with a commit method; use --history free or add one"
            )

    async def go_on(self, factory: Callable[..., Any], session: Session, begun: BegunDialog) -> str | None:
        """Open the agent in the state it was in; return why that failed where it had to start anew."""
        await self.open(factory, session)
        try:
            if not self.calls.has_snapshots:
                raise CallFailed("the agent has no restore method any more")
            await self.calls.restore(begun.snapshot, self._options.turn_timeout)
        except (CallFailed, TransportError, ConnectionError) as problem:
            await self.close(HASTY_CLOSE_LIMIT)
            self._abandoned += self.calls.abandoned
            self.calls = AgentCalls(self._name)
            await self.open(factory, session)
            return _text(problem)
        self.retries += begun.retries
        self._abandoned += begun.abandoned
        self.observer.late += begun.late_observations
        return None

    async def snapshot(self) -> bytes | None:
        """Return the agent's state, if it gives one; the first failure is remembered and ends the asking."""
        if not self.calls.has_snapshots or self.snapshot_error is not None or self.calls.stuck:
            return None
        try:
            return await self.calls.snapshot(min(SNAPSHOT_LIMIT, self._options.turn_timeout))
        except (CallFailed, TransportError, ConnectionError) as problem:
            self.snapshot_error = _text(problem)
            return None

    async def close(self, limit: float) -> None:
        try:
            await self.calls.close(min(limit, self._options.turn_timeout))
        except (CallFailed, TransportError, ConnectionError):
            return  # the dialogue is over: its trace is complete without the agent's good-bye

    async def turn(self, pair: TurnPair) -> TurnTrace:
        token = self.observer.begin(pair.turn_pair_id)
        try:
            reply, latency_ms, status, error = await self._ask(pair.user_text)
            if commit_error := await self._commit(pair, reply if status == "ok" else None):
                status, error = ("error", commit_error) if status == "ok" else (status, error)
            observed = self.observer.collect(reply)
        finally:
            self.observer.end(token)
        usage, refused = _carried(reply)
        refused = observed.error or refused
        if refused is not None and status == "ok":
            status, error = "error", refused
        text = reply.text if reply is not None else None
        trace = build_turn_trace(pair, text, observed, latency_ms, status, error)
        extended = self._options.trace_version == TRACE_VERSION_EXTENDED
        return trace.replace(usage=usage) if extended and usage is not None else trace

    async def _ask(self, user_text: str) -> tuple[AgentReply | None, float, TurnStatus, str | None]:
        """Return the reply, its latency in milliseconds, the turn's status and error."""
        limit = self._options.turn_timeout
        start = time.perf_counter()
        reply: AgentReply | None = None
        status: TurnStatus = "ok"
        error: str | None = None
        try:
            reply = await self._with_retries(
                lambda left: self.calls.reply(user_text, left), TransportError, ConnectionError
            )
        except CallTimedOut:
            status, error = "timeout", f"no answer within {limit:g} s"
        except (CallFailed, TransportError, ConnectionError) as problem:
            status, error = "error", _text(problem)
        elapsed = time.perf_counter() - start
        if status == "ok" and self.calls.blocked > limit:
            status, error = "timeout", f"answered after {elapsed:.1f} s, over the limit of {limit:g} s"
        return reply, elapsed * 1000.0, status, error

    async def _with_retries(
        self, call: Callable[[float], Awaitable[T]], *retried: type[TransportError | ConnectionError]
    ) -> T:
        """Return what the call returns, which gets the seconds that are left of the turn's limit."""
        deadline = time.perf_counter() + self._options.turn_timeout
        attempt = 0
        while True:
            try:
                return await call(deadline - time.perf_counter())
            except retried as problem:
                pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2**attempt)
                pause *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
                pause = max(pause, asked_pause(problem))
                attempt += 1
                if attempt > self._options.turn_retries or time.perf_counter() + pause >= deadline:
                    raise
                self.retries += 1
                await anyio.sleep(pause)

    async def _commit(self, pair: TurnPair, reply: AgentReply | None) -> str | None:
        """Put the turn's reply into the agent's history; return what went wrong, if anything."""
        forced = self._options.history == "forced"
        text = pair.gt_assistant_text if forced else (reply.text if reply is not None else None)
        if text is None or not self.calls.has_commit or self.calls.stuck:
            return None
        try:
            await self._with_retries(lambda limit: self.calls.commit(text, limit), TransportError)
        except (CallFailed, TransportError, ConnectionError) as problem:
            return f"commit: {_text(problem)}"
        return None


def _carried(reply: AgentReply | None) -> tuple[ModelUsage | None, str | None]:
    """Return what the reply says of its model's usage, and what was wrong with an observation."""
    if reply is None:
        return None, None
    if reply.usage is None:
        return None, reply.observation_error
    try:
        return check("usage", ModelUsage, reply.usage), reply.observation_error
    except ObservationError as problem:
        return None, reply.observation_error or one_line(str(problem))


def _text(problem: BaseException) -> str:
    # A failure already says what happened; an agent may raise one too, with any text.
    return one_line(str(problem)) or "CallFailed" if isinstance(problem, CallFailed) else describe(problem)
