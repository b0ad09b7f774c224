"""Replay of one dialogue: its user turns one after another, each answer recorded (spec section 5)."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import anyio
import msgspec

from memfin.agents.calls import (
    FIRST_BACKOFF,
    AgentCalls,
    TransportError,
    UsageTotal,
    with_retries,
)
from memfin.agents.observer import (
    Observed,
    TurnObserver,
    masked_observations,
    scrubber_of_replies,
)
from memfin.agents.probing import CopiedSession, Prober, failed_probe
from memfin.agents.protocol import AgentReply, Session
from memfin.client.limiter import StartLimiter
from memfin.contracts import (
    NO_JUDGE,
    TRACE_VERSION,
    TRACE_VERSION_EXTENDED,
    ClientOutcome,
    Dialog,
    DialogCheckpoint,
    DialogStatus,
    DialogTrace,
    ForkKind,
    HistoryMode,
    ModelUsage,
    ProbeFork,
    ProbeMode,
    Record,
    TraceVersion,
    TurnPair,
    TurnStatus,
    TurnTrace,
)
from memfin.contracts.reading import convert
from memfin.dataset import align_turn_pairs, detect_language
from memfin.errors import UsageError
from memfin.sandbox.calls import CallFailed, CallTimedOut
from memfin.sandbox.references import describe, one_line
from memfin.secrets import Scrubber

T = TypeVar("T")

# Seconds that an agent's ``close`` may take at the end of its dialogue, before it, and when cancelled.
CLOSE_LIMIT: Final = 10.0
EARLY_CLOSE_LIMIT: Final = 1.0
CANCELLED_CLOSE_LIMIT: Final = 0.2
SNAPSHOT_LIMIT: Final = 5.0
# A turn waits so long for a plain agent that hangs in an earlier turn: seconds, and share of its own time.
HUNG_LIMIT: Final = 1.0
HUNG_SHARE: Final = 0.1

OnTurn = Callable[[TurnTrace], Awaitable[None]]
OnBegun = Callable[[DialogCheckpoint], Awaitable[None]]
OnResume = Callable[[Sequence[TurnTrace], str | None], Awaitable[None]]
"""Gets the turns that need not be asked again, and why there are none where the agent could not go on."""


class Client(Protocol):
    """The client of one dialogue, who says the user's words.

    ``errors`` are reasons for which a turn's words are charged to the simulator, by turn pair.
    """

    errors: dict[int, list[str]]

    async def next_turn(self, turns: Sequence[TurnTrace]) -> TurnPair | None:
        """Return what the client says after these turns, None where the dialogue has ended."""

    def outcome(self, turns: Sequence[TurnTrace]) -> ClientOutcome | None:
        """Return how the dialogue of these turns has ended, None for a scripted one."""


class ScriptedClient:
    """Client that says the turns of the dataset, whatever the agent replies."""

    def __init__(self, dialog: Dialog) -> None:
        """Read the turns; raise `UsageError` where there are none, but a client's sheet alone."""
        self.errors: dict[int, list[str]] = {}
        self._pairs = align_turn_pairs(dialog)
        if not self._pairs:
            raise UsageError(f"dialogue {dialog.dialog_id!r}: has no turns for a scripted client")

    async def next_turn(self, turns: Sequence[TurnTrace]) -> TurnPair | None:
        """Return the turn pair after those that were held."""
        return self._pairs[len(turns)] if len(turns) < len(self._pairs) else None

    def outcome(self, turns: Sequence[TurnTrace]) -> ClientOutcome | None:
        """Return None."""


class ReplayOptions(Record):
    """Options of a replay; times in seconds."""

    run_id: str
    history: HistoryMode = "free"
    seed: int = 0
    turn_timeout: float = 120.0
    turn_retries: int = 2
    trace_version: TraceVersion = TRACE_VERSION
    judge: str | None = None
    probes: ProbeMode = "dataset"
    probe_fork: ProbeFork = "auto"


class Replay(Record):
    """A dialogue's trace with its retries, abandoned calls, late observations and reported usage.

    ``snapshot_error`` is why the agent's state could not be kept from some turn on, if it could not.
    ``carried`` is what the agent keeps for the client's next session, ``carry_error`` why there is none.
    """

    trace: DialogTrace
    retries: int = 0
    abandoned: int = 0
    late_observations: int = 0
    usage: ModelUsage | None = None
    snapshot_error: str | None = None
    carried: bytes | None = None
    carry_error: str | None = None


class DialogLeftError(Exception):
    """The dialogue was left between two turns, as was asked for."""


class HistoryUnsupportedError(UsageError):
    """History mode ``forced`` was asked of an agent without ``commit``."""


def open_session(
    dialog: Dialog, options: ReplayOptions, carried: bytes | None = None, attempt: str = ""
) -> Session:
    """Return the session of a dialogue; no two dialogues share a session id, nor two clients a user id.

    ``attempt`` is put after the ids where a client's sessions are held again.
    """
    return Session(
        run_id=options.run_id,
        dialog_id=dialog.dialog_id,
        session_id=f"session_{options.run_id}_{dialog.dialog_id}{attempt}",
        user_id=f"eval_user_{options.run_id}_{dialog.user_id or dialog.dialog_id}{attempt}",
        language=dialog.language or detect_language(dialog.turns[0].text),
        history_mode=options.history,
        seed=options.seed,
        session_index=dialog.session_index if dialog.user_id else None,
        now=dialog.session_time,
        carried=carried,
    )


async def replay_dialog(  # noqa: PLR0913, C901 - each of them stands alone
    dialog: Dialog,
    dataset_index: int,
    factory: Callable[..., Any],
    options: ReplayOptions,
    *,
    worker_id: int | None = None,
    on_turn: OnTurn | None = None,
    on_begun: OnBegun | None = None,
    begun: DialogCheckpoint | None = None,
    carried: bytes | None = None,
    attempt: str = "",
    hand_over: bool = False,
    on_resume: OnResume | None = None,
    leaving: Callable[[], bool] | None = None,
    observer_factory: Callable[[], TurnObserver] | None = None,
    starts: StartLimiter | None = None,
    earlier: Sequence[tuple[Dialog, Callable[..., Any]]] = (),
    client: Client | None = None,
) -> Replay:
    """Send the user turns of a dialogue to a fresh agent and return the trace.

    The ``client`` says them, by default those of the dataset.

    A failed turn is marked and the dialogue goes on; an agent that cannot be created fails every turn,
    with the reason in ``dialog_error``. ``observer_factory`` may make a subclass of `TurnObserver`.
    ``starts`` limits the attempts at turns; what they wait for it counts neither as latency nor as time out.

    ``on_begun`` gets the turns so far with the agent's snapshot after each answered turn. Handed in again
    as ``begun`` it has the dialogue go on there, after a call of ``on_resume``. An agent that does not
    take its snapshot back is made anew, and the dialogue starts again. ``leaving`` is asked before each turn.

    ``carried`` is what the client's session before has left, ``attempt`` as for `open_session`. With
    ``hand_over`` the agent is asked for what it keeps for the next session. ``earlier`` are the client's
    sessions before, with the factories of their agents, for the copies that probes are asked to.

    Raises:
        DialogLeftError: ``leaving`` returned True.
        EndpointDown: the endpoint of the run's agents is given up.
        HistoryUnsupportedError: the history mode is ``forced`` and the agent has no ``commit``.
    """
    session = open_session(dialog, options, carried, attempt)
    observer = (observer_factory or TurnObserver)()
    replayer = _DialogReplayer(dialog.dialog_id, observer, options, starts)
    client = client or ScriptedClient(dialog)
    turns = list(begun.turns) if begun is not None else []
    probes = list(begun.probes) if begun is not None else []
    try:
        if begun is None:
            await replayer.start(factory, session)
        elif hand_over or await client.next_turn(turns) is not None:
            await replayer.start(factory, session, begun.snapshot)
        if replayer.refused is not None:
            turns.clear()
            probes.clear()
        elif begun is not None:
            replayer.count(begun)
        if on_resume is not None:
            await on_resume(tuple(turns), replayer.refused)
        prober = _prober(dialog, replayer, (dialog, factory), session, earlier, attempt)
        while (pair := await _next_pair(client, turns, leaving)) is not None:
            turn = _charged(await replayer.turn(pair), client)
            turns.append(turn)
            if on_turn is not None:
                await on_turn(turn)
            if prober is not None:
                probes += await prober.ask(turns)
            if on_begun is not None and (now := await replayer.begun(dataset_index, turns)) is not None:
                await on_begun(now.replace(carried=carried, attempt=attempt, probes=probes[:]))
        outcome = client.outcome(turns)
        # A simulated dialogue is as long as its agent makes it: what does not come to be asked, is left out.
        probes += prober.never_due(len(turns)) if prober is not None and outcome is None else []
        left, why = await replayer.carry() if hand_over else (None, None)
    except BaseException as problem:
        limit = EARLY_CLOSE_LIMIT if isinstance(problem, DialogLeftError) else CANCELLED_CLOSE_LIMIT
        with anyio.CancelScope(shield=True):  # a host that cancels leaves the agent time to let go
            await replayer.close(limit, short_grace=True)
        raise
    await replayer.close(CLOSE_LIMIT)
    trace = _trace(dialog, dataset_index, options, turns, replayer.dialog_error, worker_id, attempt)
    if probes:
        trace = trace.replace(probes=probes)
    return Replay(
        trace=trace if outcome is None else trace.replace(client=outcome),
        snapshot_error=replayer.snapshot_error,
        carried=left,
        carry_error=why,
        **replayer.counts(),
    )


async def failed_trace(
    dialog: Dialog,
    dataset_index: int,
    options: ReplayOptions,
    error: str,
    *,
    worker_id: int | None = None,
    client: Client | None = None,
) -> DialogTrace:
    """Return the trace of a dialogue that failed in every turn with the same error."""
    client = client or ScriptedClient(dialog)
    turns: list[TurnTrace] = []
    while (pair := await client.next_turn(turns)) is not None:
        turns.append(build_turn_trace(pair, None, Observed(), None, "error", error))
    trace = _trace(dialog, dataset_index, options, turns, error, worker_id)
    if (outcome := client.outcome(turns)) is not None:
        return trace.replace(client=outcome)
    if not dialog.probes or options.probes == "none":
        return trace
    kind: ForkKind = "replay" if options.probe_fork == "auto" else options.probe_fork
    return trace.replace(probes=[failed_probe(each, kind, error) for each in dialog.probes])


def _prober(
    dialog: Dialog,
    replayer: "_DialogReplayer",
    own: tuple[Dialog, Callable[..., Any]],
    session: Session,
    earlier: Sequence[tuple[Dialog, Callable[..., Any]]],
    attempt: str,
) -> Prober | None:
    """Return what asks the probes of a session, None where there are none to ask."""
    options = replayer.options
    if not dialog.probes or options.probes == "none":
        return None
    kind = options.probe_fork
    if kind == "auto":
        kind = "snapshot" if replayer.calls.has_snapshots else "replay"
    before = [
        CopiedSession(open_session(each, options, attempt=attempt), factory, align_turn_pairs(each))
        for each, factory in earlier
    ]
    return Prober(
        dialog,
        kind,
        CopiedSession(session, own[1], []),
        before,
        replayer.copy,
        replayer.take_counts,
        replayer.state,
    )


def _trace(
    dialog: Dialog,
    dataset_index: int,
    options: ReplayOptions,
    turns: list[TurnTrace],
    error: str | None,
    worker_id: int | None,
    attempt: str = "",
) -> DialogTrace:
    session = open_session(dialog, options, attempt=attempt)
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
        dialog_error=error,
        perturbation=dialog.perturbation or msgspec.UNSET,
    )
    if dialog.user_id is not None:
        trace = trace.replace(
            client_id=dialog.user_id,
            session_index=session.session_index or msgspec.UNSET,
            session_time=dialog.session_time or msgspec.UNSET,
        )
    if options.trace_version != TRACE_VERSION_EXTENDED:
        return trace
    return trace.replace(
        profile_gt=dialog.profile_gt, history_mode=options.history, judge=options.judge or NO_JUDGE
    )


async def _next_pair(
    client: Client, turns: Sequence[TurnTrace], leaving: Callable[[], bool] | None
) -> TurnPair | None:
    """Return what the client says next; raise `DialogLeftError` where the dialogue is left before that."""
    pair = await client.next_turn(turns)
    if pair is not None and leaving is not None and leaving():
        raise DialogLeftError
    return pair


def _charged(turn: TurnTrace, client: Client) -> TurnTrace:
    """Return a turn with the errors of the simulator that said its words."""
    errors = client.errors.get(turn.turn_pair_id)
    return turn if errors is None else turn.replace(simulator_errors=errors)


class _DialogReplayer:
    """The state of the turn loop: one agent, one observer, the retry count."""

    def __init__(
        self, name: str, observer: TurnObserver, options: ReplayOptions, starts: StartLimiter | None
    ) -> None:
        self.calls = AgentCalls(name)
        self.observer = observer
        self.retries = 0
        self.dialog_error: str | None = None  # why there is no agent that could be asked
        self.refused: str | None = None  # why an agent could not go on from its snapshot
        self.snapshot_error: str | None = None  # why no snapshot is asked for any more
        self._name = name
        self.options = options
        self._starts = starts
        self._held = 0.0  # seconds that turns have waited for their rate
        self._abandoned = 0
        self._hung_since = 0
        self._usage = UsageTotal()
        self._scrubber: Scrubber | None = None
        self._state: tuple[bytes | None, str | None] | None = None  # after the last turn, if asked for

    def counts(self) -> dict[str, Any]:
        """Return the counts of the dialogue so far, those of earlier processes included."""
        return {
            "retries": self.retries,
            "abandoned": self._abandoned + self.calls.abandoned,
            "late_observations": self.observer.late,
            "usage": self._usage.of_run(),
        }

    def count(self, begun: DialogCheckpoint) -> None:
        """Add what the dialogue took in earlier processes."""
        self.retries += begun.retries
        self._abandoned += begun.abandoned
        self.observer.late += begun.late_observations
        if begun.usage is not None:
            self._usage.add(begun.usage)

    def copy(self) -> "_DialogReplayer":
        """Return a replayer under the same limits, without an agent and with an observer of its own."""
        return _DialogReplayer(self._name, TurnObserver(), self.options, self._starts)

    def take_counts(self, copy: "_DialogReplayer") -> None:
        """Add what a copy took."""
        self.retries += copy.retries
        self._abandoned += copy._abandoned + copy.calls.abandoned  # noqa: SLF001 - of the same class
        if (usage := copy._usage.of_run()) is not None:  # noqa: SLF001
            self._usage.add(usage)

    async def start(
        self, factory: Callable[..., Any], session: Session, snapshot: bytes | None = None
    ) -> None:
        """Create the agent, in the state of its snapshot where there is one that it takes."""
        try:
            await self._open(factory, session)
            if snapshot is not None and (refused := await self._restore(snapshot)) is not None:
                await self.close(EARLY_CLOSE_LIMIT)
                self._abandoned += self.calls.abandoned
                self.calls = AgentCalls(self._name)
                self.refused = refused
                await self._open(factory, session)
        except (CallFailed, TransportError, ConnectionError) as problem:
            self.dialog_error = f"agent could not be created: {_text(problem)}"

    async def _open(self, factory: Callable[..., Any], session: Session) -> None:
        await self._with_retries(
            lambda limit: self.calls.open(factory, session, self.observer, limit), TransportError
        )
        if self.options.history == "forced" and not self.calls.has_commit:
            raise HistoryUnsupportedError(
                "history mode 'forced' needs an agent with a commit method; use --history free or add one"
            )

    async def _restore(self, snapshot: bytes) -> str | None:
        """Put the agent into the state of a snapshot; return why it is not, if so."""
        if not self.calls.has_snapshots:
            return "it has no snapshot and restore methods any more"
        try:
            await self.calls.restore(snapshot, self.options.turn_timeout)
        except (CallFailed, TransportError, ConnectionError) as problem:
            return _text(problem)
        return None

    async def begun(self, dataset_index: int, turns: Sequence[TurnTrace]) -> DialogCheckpoint | None:
        """Return a checkpoint if the last turn was answered; none follow a snapshot that failed."""
        state, _ = await self.state() if turns[-1].turn_status == "ok" else (None, None)
        if state is None:
            return None
        return DialogCheckpoint(
            dataset_index=dataset_index,
            dialog_id=self._name,
            turns=list(turns),
            snapshot=state,
            **self.counts(),
        )

    async def state(self) -> tuple[bytes | None, str | None]:
        """Return the agent's snapshot after the last turn, taken once, or why there is none."""
        if self._state is None:
            self._state = await self._snapshot()
        return self._state

    async def _snapshot(self) -> tuple[bytes | None, str | None]:
        if self.dialog_error is not None or self.snapshot_error is not None:
            return None, self.dialog_error or self.snapshot_error
        if not self.calls.has_snapshots:
            return None, "the agent has no snapshot and restore methods"
        if self.calls.stuck:
            return None, f"the agent still hangs in turn {self._hung_since}"
        try:
            return await self.calls.snapshot(min(SNAPSHOT_LIMIT, self.options.turn_timeout)), None
        except (CallFailed, TransportError, ConnectionError) as problem:
            self.snapshot_error = _text(problem)
            return None, self.snapshot_error

    async def carry(self) -> tuple[bytes | None, str | None]:
        """Return what the agent keeps for the client's next session, or why it gives nothing."""
        if not self.calls.has_carry or self.dialog_error is not None:
            return None, self.dialog_error
        if self.calls.stuck:
            return None, f"the agent still hangs in turn {self._hung_since}"
        try:
            return await self.calls.carry(min(SNAPSHOT_LIMIT, self.options.turn_timeout)), None
        except (CallFailed, TransportError, ConnectionError) as problem:
            return None, _text(problem)

    async def close(self, limit: float, *, short_grace: bool = False) -> None:
        try:
            await self.calls.close(min(limit, self.options.turn_timeout), short_grace=short_grace)
        except (CallFailed, TransportError, ConnectionError):
            return  # the dialogue is over: its trace is complete without the agent's good-bye

    async def turn(self, pair: TurnPair, *, commit: bool = True) -> TurnTrace:
        self._state = None
        if self.dialog_error is not None:
            return build_turn_trace(pair, None, Observed(), None, "error", self.dialog_error)
        token = self.observer.begin(pair.turn_pair_id)
        try:
            reply, latency_ms, status, error = await self._ask(pair.user_text)
            if commit and (commit_error := await self._commit(pair, reply if status == "ok" else None)):
                status, error = ("error", commit_error) if status == "ok" else (status, error)
            observed = self.observer.collect(reply)
        finally:
            self.observer.end(token)
        self._hung_since = (self._hung_since or pair.turn_pair_id) if self.calls.stuck else 0
        if self._scrubber is None:  # agents may load keys when they are made or first asked
            self._scrubber = scrubber_of_replies()
        observed = masked_observations(observed, self._scrubber)
        if (usage := observed.usage) is not None:
            self._usage.add(usage)
        text = self._scrubber.scrub(reply.text) if reply is not None else None
        trace = build_turn_trace(pair, text, observed, latency_ms, status, error)
        extended = self.options.trace_version == TRACE_VERSION_EXTENDED
        return trace.replace(usage=usage) if extended and usage is not None else trace

    async def _ask(self, user_text: str) -> tuple[AgentReply | None, float, TurnStatus, str | None]:
        """Return the reply, its latency in milliseconds, the turn's status and error."""
        limit = self.options.turn_timeout
        start, held = time.perf_counter(), self._held
        ready = await self.calls.ready(min(HUNG_LIMIT, HUNG_SHARE * limit))
        waited = time.perf_counter() - start
        if not ready:
            return None, waited * 1000.0, "timeout", f"the agent still hangs in turn {self._hung_since}"
        reply: AgentReply | None = None
        status: TurnStatus = "ok"
        error: str | None = None
        try:
            reply = await self._with_retries(
                lambda left: self.calls.reply(user_text, left),
                TransportError,
                ConnectionError,
                waited=waited,
                admit=self._admit if self._starts is not None else None,
            )
        except CallTimedOut:
            status, error = "timeout", f"no answer within {limit:g} s"
        except (CallFailed, TransportError, ConnectionError) as problem:
            status, error = "error", _text(problem)
        elapsed = time.perf_counter() - start - (self._held - held)
        if status == "ok" and self.calls.blocked > limit:
            status, error = "timeout", f"answered after {elapsed:.1f} s, over the limit of {limit:g} s"
        return reply, elapsed * 1000.0, status, error

    async def _with_retries(
        self,
        call: Callable[[float], Awaitable[T]],
        *retried: type[TransportError | ConnectionError],
        waited: float = 0.0,
        admit: Callable[[], Awaitable[float]] | None = None,
    ) -> T:
        """Retry a call within the turn's limit, of which ``waited`` seconds are gone already."""

        def count() -> None:
            self.retries += 1

        return await with_retries(
            call,
            *retried,
            limit=self.options.turn_timeout - waited,
            retries=self.options.turn_retries,
            first_pause=FIRST_BACKOFF,
            on_retry=count,
            admit=admit,
        )

    async def _admit(self) -> float:
        """Wait until an attempt at a turn may start; return the seconds."""
        assert self._starts is not None  # noqa: S101 - see above
        held = await self._starts.admit()
        self._held += held
        return held

    async def _commit(self, pair: TurnPair, reply: AgentReply | None) -> str | None:
        """Put the turn's reply into the agent's history; return the error, if any."""
        forced = self.options.history == "forced"
        text = pair.gt_assistant_text if forced else (reply.text if reply is not None else None)
        if text is None or not self.calls.has_commit or self.calls.stuck:
            return None
        try:
            await self._with_retries(lambda limit: self.calls.commit(text, limit), TransportError)
        except (CallFailed, TransportError, ConnectionError) as problem:
            return f"commit: {_text(problem)}"
        return None


def _text(problem: BaseException) -> str:
    # A failure already says what happened; an agent may raise one too, with any text.
    return one_line(str(problem)) or "CallFailed" if isinstance(problem, CallFailed) else describe(problem)


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
        **dict(turn_pair),
        turn_status=turn_status,
        pred_assistant_text=pred_text,
        latency_ms=latency_ms,
        error=error,
        recall=observer_payload.recall,
        tools=observer_payload.tools,
        compliance=observer_payload.compliance,
        profile_snapshot=observer_payload.profile_snapshot,
        memory=observer_payload.memory or msgspec.UNSET,
        observation_error=observer_payload.error or msgspec.UNSET,
    )
