"""Scoring, judging and totals of dialogues."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup

from memfin.actors.aggregator import Totals
from memfin.actors.base import Stage
from memfin.actors.channels import send
from memfin.actors.dialogs import DialogResult, DialogWires
from memfin.actors.judge_pool import Judging
from memfin.actors.measuring import Measuring
from memfin.actors.messages import Commit
from memfin.actors.scoring_pool import ScoringPool, default_workers
from memfin.contracts import (
    HEURISTIC_JUDGE,
    Counters,
    Dialog,
    DialogTrace,
    JudgeControls,
    JudgeFailure,
    Judgement,
    JudgeRequest,
    JudgeScope,
    ProbeRequest,
    RunConfig,
    TurnEvalRow,
    Verdict,
    Vote,
)
from memfin.dataset import unscored_pairs
from memfin.errors import MemfinError
from memfin.judges.controls import Control, control_result, control_warnings
from memfin.judges.protocol import JudgeResult
from memfin.judges.reply_grading import heuristic_verdict
from memfin.judges.stats import ReplyVoteStats
from memfin.ledger.grading import probe_requests, with_grades
from memfin.ledger.scoring import has_memory, with_memory
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.custom import CustomMetric
from memfin.pressure.comparison import Comparison
from memfin.pressure.reading import pressure_rows
from memfin.sandbox.references import describe
from memfin.scoring.rows import complete_rows
from memfin.scoring.verdicts import is_judged, judge_request, unscored_row, with_verdict
from memfin.scoring.worker import ScoringJob

MAX_CONSTRAINT: Final = 80
MAX_UNREAD: Final = 20
"""Maximum characters of a constraint in a warning, and maximum number of such warnings per run."""

HEAD_START: Final = 256
"""Turns that a run scores before it starts a process, unless the number of processes is set."""


class Scorer(Stage[DialogResult]):
    """Actor that scores several dialogues at a time in a pool, building their ``turn_eval`` rows.

    Dialogues leave in the order in which they are scored.
    """

    def __init__(
        self,
        config: RunConfig,
        wires: DialogWires,
        *,
        contradictions_judged: bool = False,
        tag_map: Mapping[str, str] = MappingProxyType({}),
        metrics: Mapping[str, CustomMetric] = MappingProxyType({}),
        detectors: Mapping[str, str] = MappingProxyType({}),
        pressure: bool = False,
    ) -> None:
        """Prepare; with a judge for contradictions, the detectors need not understand the constraints.

        ``detectors`` are references of users' detectors by their names in rows. ``pressure`` adds the
        readings that originals and variants are compared by.
        """
        self._outbox = wires.scored.sender()
        super().__init__("scorer", wires.answered.receiver(), self._outbox)
        self._run_id = wires.run_id
        self._config = config
        self._warn = wires.board.warn
        foreign = bool(detectors or config.forbidden_patterns or config.risk_tag_mapper)
        head_start = HEAD_START if config.workers_score is None and not foreign else 0
        self._pool = ScoringPool(
            scoring_workers(config),
            config.score_timeout,
            self._warn,
            head_start=head_start,
            detectors=list(detectors.values()),
            user_code=foreign,
        )
        self._free = anyio.Semaphore(self._pool.size)
        self._unread: set[str] = set()
        self._cut = False
        self._scoring: TaskGroup
        self._contradictions_judged = contradictions_judged
        self._measuring = Measuring(metrics, config.score_timeout, self._warn) if metrics else None
        self._settings: dict[str, Any] = {
            "trace_version": config.trace_version,
            "history": config.history,
            "score_chars": config.score_chars,
            "tag_map": dict(tag_map),
            "tag_mapper": config.risk_tag_mapper,
            "forbidden_patterns": config.forbidden_patterns,
            "detectors": dict(detectors),
        }
        self._failed_detectors: set[str] = set()
        self._pressure = pressure

    async def run(self) -> None:
        """Score dialogues until the replayers end."""
        async with self._pool, anyio.create_task_group() as self._scoring:
            await super().run()

    async def handle(self, message: DialogResult) -> None:
        """Start scoring a dialogue, once the pool has room."""
        await self._free.acquire()
        self._done -= 1  # the loop counts the message; it is done when it is sent
        self._scoring.start_soon(self._score, message, name=f"score-{message.trace.dialog_id}")

    async def _score(self, replayed: DialogResult) -> None:
        try:
            rows = await self._rows_or_failures(replayed)
            if self._measuring is not None and replayed.dialog is not None:
                rows = await self._measuring.rows(replayed.dialog, replayed.trace, rows)
            await send(self._outbox, replayed.replace(rows=rows))
            self._count_sent()
        finally:
            self._free.release()

    async def _rows_or_failures(self, replayed: DialogResult) -> list[TurnEvalRow]:
        """Return the rows of a dialogue; after an unexpected exception they are unscored."""
        try:
            return await self._rows(replayed)
        except (MemfinError, anyio.BrokenResourceError):
            raise
        except Exception as problem:  # noqa: BLE001 - see above
            trace, reason = replayed.trace, describe(problem)
            self._warn(f"could not be scored, please report this: {reason}", trace.dialog_id)
            version = self._config.trace_version
            return [
                unscored_row(self._run_id, trace.dialog_id, turn, reason, version) for turn in trace.turns
            ]

    async def _rows(self, replayed: DialogResult) -> list[TurnEvalRow]:
        dialog, trace = replayed.dialog, replayed.trace
        if dialog is None or not trace.turns:
            return []
        job = ScoringJob(run_id=self._run_id, dialog=dialog, turns=trace.turns, **self._settings)
        rows = await self._pool.rows(job)
        for row in rows:
            self._warn_of(row)
        rows = complete_rows(dialog, trace, rows)
        if has_memory(dialog):
            rows = await to_thread.run_sync(with_memory, dialog, trace, rows)
        if self._pressure:
            chars = self._config.score_chars
            rows = await to_thread.run_sync(pressure_rows, dialog, trace.turns, rows, chars)
        return rows if replayed.keys_known else [row.replace(eligible_m1=False) for row in rows]

    def _warn_of(self, row: TurnEvalRow) -> None:
        """Emit the warnings of a row about its scoring."""
        if row.scoring_error is not None:
            problem = f"could not be scored, please report this: {row.scoring_error}"
            self._warn(f"turn {row.turn_pair_id} {problem}", row.dialog_id)
        for constraint in row.unread_constraints or ():
            self._warn_unread(row.dialog_id, constraint)
        for name, error in row.get("detector_errors", {}).items():
            if name not in self._failed_detectors:
                self._failed_detectors.add(name)
                problem = f"{name} failed: {error}; what it finds is missing there, and where it fails again"
                self._warn(f"turn {row.turn_pair_id}: {problem}", row.dialog_id)
        if row.scored_chars and not self._cut:
            self._cut = True
            self._warn(
                f"turn {row.turn_pair_id} has a long reply: of such replies the first {row.scored_chars} "
                "characters are scored (score_chars), as their rows say",
                row.dialog_id,
            )

    def _warn_unread(self, dialog_id: str, constraint: str) -> None:
        """Warn once per constraint that is not understood, as contradictions of it are not found."""
        if self._contradictions_judged or constraint in self._unread or len(self._unread) > MAX_UNREAD:
            return
        self._unread.add(constraint)
        if len(self._unread) > MAX_UNREAD:
            self._warn("more constraints are not understood; the report has their number", dialog_id)
            return
        shown = f"{constraint[:MAX_CONSTRAINT]}…" if len(constraint) > MAX_CONSTRAINT else constraint
        self._warn(
            f"the detectors do not understand the constraint {shown!r}, so no reply can contradict it: "
            "reword it, or have a judge read contradictions (--judge-scope all)",
            dialog_id,
        )


def scoring_workers(config: RunConfig) -> int:
    """Return the number of scoring processes of a run."""
    return default_workers() if config.workers_score is None else config.workers_score


class DialogJudging(Judging[DialogResult, JudgeRequest, Verdict]):
    """Judging of dialogues: turns with a rubric, or in the scope ``all`` every answered turn.

    With ``probes`` the answers to probes are graded, too.
    In the scope ``uncertain`` it judges the turns on which the detectors are not certain; the heuristic judge
    scores the others. Without a judge, whose name is None then, rows are marked as not judged.
    """

    def __init__(
        self,
        run_id: str,
        judge: str | None,
        scope: JudgeScope,
        controls: Sequence[Control] = (),
        *,
        probes: bool = False,
    ) -> None:
        self.controls = [control.request for control in controls]
        self._controls = controls
        self._run_id = run_id
        self._judge = judge
        self._scope: JudgeScope = scope
        self._probes = probes

    def requests(self, message: DialogResult) -> list[JudgeRequest]:
        """Return a request for each turn to be judged, then for each grade of an answer to a probe."""
        turns = (self._request(message, message.rows[place], self._scope) for place in self._places(message))
        return [*turns, *self._probe_requests(message)]

    def judged(
        self, message: DialogResult, requests: Sequence[JudgeRequest], results: Sequence[JudgeResult[Verdict]]
    ) -> Commit:
        """Return the dialogue with verdicts in its rows, and the votes."""
        rows, places = list(message.rows), self._places(message)
        if self._judge is None:
            rows = [with_verdict(row, None) for row in rows]
        elif message.trace.dialog_status != "failed" and self._scope == "uncertain":
            for place in {*range(len(rows))}.difference(places):
                if is_judged(rows[place], "m5"):
                    verdict = heuristic_verdict(self._request(message, rows[place], "m5"))
                    rows[place] = with_verdict(rows[place], verdict, judge=HEURISTIC_JUDGE)
        checked = {turn.turn_pair_id: turn.compliance for turn in message.trace.turns}
        judgements: list[Judgement] = []
        for place, (outcome, votes) in zip(places, results[: len(places)], strict=True):
            row = rows[place]
            rows[place] = with_verdict(
                row, outcome, judge=self._judge, scope=self._scope, checked=checked[row.turn_pair_id]
            )
            turn: Any = {"run_id": self._run_id, "dialog_id": row.dialog_id, "turn_pair_id": row.turn_pair_id}
            judgements += [Judgement(**dict(vote), **turn, judge=self._judge or "") for vote in votes]
        if self._probes:
            graded: list[tuple[ProbeRequest, Verdict | JudgeFailure]] = []
            for request, (outcome, votes) in zip(requests, results, strict=True):
                if isinstance(request, ProbeRequest):
                    graded.append((request, outcome))
                    judgements += [self._grade_vote(request, vote) for vote in votes]
            rows = with_grades(rows, graded)
        judgements.sort(key=lambda each: (each.turn_pair_id, each.vote))
        failures = sum(isinstance(result.outcome, JudgeFailure) for result in results)
        return message.replace(rows=rows, judge_failures=failures, judgements=judgements).commit_rows()

    def failed(self, message: DialogResult, reason: str) -> Commit:
        """Return the dialogue with a failed judgement in every row to judge."""
        failure, rows, places = JudgeFailure(reason=reason), list(message.rows), self._places(message)
        for place in places:
            rows[place] = with_verdict(rows[place], failure, judge=self._judge, scope=self._scope)
        probes = [(request, failure) for request in self._probe_requests(message)]
        if self._probes:
            rows = with_grades(rows, probes)
        return message.replace(rows=rows, judge_failures=len(places) + len(probes)).commit_rows()

    def name(self, message: DialogResult) -> str:
        """Return the id of the dialogue."""
        return message.trace.dialog_id

    def control_report(self, results: Sequence[tuple[int, JudgeResult[Verdict]]]) -> JudgeControls:
        """Return the report on controls, replies of known quality."""
        judged = [control_result(self._controls[place], result) for place, result in results]
        warnings = control_warnings(judged)
        return JudgeControls(run_id=self._run_id, judge=self._judge or "", controls=judged, warnings=warnings)

    def _places(self, message: DialogResult) -> list[int]:
        """Return the positions of the rows to judge; a failed dialogue has none."""
        if self._judge is None or message.dialog is None or message.trace.dialog_status == "failed":
            return []
        return [place for place, row in enumerate(message.rows) if is_judged(row, self._scope)]

    def _probe_requests(self, message: DialogResult) -> list[ProbeRequest]:
        """Return the requests for the grades of answers to probes."""
        if not self._probes or message.dialog is None:
            return []
        return [*probe_requests(message.dialog, message.trace)]

    def _grade_vote(self, request: ProbeRequest, vote: Vote[Verdict]) -> Judgement:
        return Judgement(
            **dict(vote),
            run_id=self._run_id,
            dialog_id=request.dialog_id,
            turn_pair_id=request.turn_pair_id,
            judge=self._judge or "",
            probe=request.probe,
            grade=request.grade,
        )

    def _request(self, message: DialogResult, row: TurnEvalRow, scope: JudgeScope) -> JudgeRequest:
        assert message.dialog is not None  # noqa: S101 - a skipped line has no rows
        return judge_request(message.dialog, message.trace.turns[row.turn_pair_id - 1], row, scope)


class DialogTotals(Totals[DialogResult]):
    """Metrics and statistics of a run's dialogues."""

    def __init__(
        self, scope: JudgeScope = "m5", metrics: Mapping[str, CustomMetric] = MappingProxyType({})
    ) -> None:
        self.metrics = MetricsState(metrics)
        self.pressure = Comparison()
        self._panels = ReplyVoteStats()
        self._not_created = 0
        self._unscored = 0
        super().__init__(self._panels, scope)

    def add(self, committed: DialogResult) -> None:
        """Add a dialogue with committed rows."""
        for row in committed.rows:
            self.metrics.add_row(row)
            self.pressure.add(row)
            self.judged.add(row)
        if committed.dialog is not None:
            self.metrics.add_dialog(committed.trace, committed.dialog)
        self.add_trace(committed.trace, committed.dialog)
        self.rows += len(committed.rows)
        self.retries += committed.retries
        self.abandoned += committed.abandoned
        self._add_usage(committed.usage, recorded=committed.recorded)
        self._add_votes(committed)

    def add_trace(self, trace: DialogTrace, dialog: Dialog | None = None) -> None:
        """Count one dialogue and its turns."""
        self._unscored += unscored_pairs(dialog) if dialog is not None else 0
        self.dialogs[trace.dialog_status] += 1
        if trace.skip_reason is not None:
            self.skips[trace.skip_reason] += 1
        if trace.dialog_status == "failed" and trace.dialog_error is not None:
            self._not_created += 1
            self.creation_error = self.creation_error or trace.dialog_error
        for turn in trace.turns:
            self.turns[turn.turn_status] += 1
            if turn.turn_status == "ok" and turn.latency_ms is not None:
                self.latencies.add(turn.latency_ms)

    def _add_votes(self, committed: DialogResult) -> None:
        dialog, judgements = committed.dialog, committed.judgements
        self.judge.add_votes(judgements)
        if dialog is None or not any(judgement.vote > 1 for judgement in judgements):
            return
        votes: dict[int, list[Judgement]] = {}
        for judgement in (each for each in judgements if each.probe is msgspec.UNSET):
            votes.setdefault(judgement.turn_pair_id, []).append(judgement)
        for row in committed.rows:
            if len(of_turn := votes.get(row.turn_pair_id, [])) > 1:
                self._panels.add_panel(row.rubric_required, dialog.profile_gt.constraints_gt, of_turn)

    @property
    def no_agent(self) -> str | None:
        """The error if no agent could be created, so that nothing was answered."""
        valid = self.dialogs.total() - self.dialogs["skipped"]
        return self.creation_error if 0 < self._not_created == valid else None

    def counters(self) -> Counters:
        """Return the counters of the run manifest."""
        total, skipped = self.dialogs.total(), self.dialogs["skipped"]
        return Counters(
            total_dialogs=total,
            valid_dialogs=total - skipped,
            skipped_dialogs=skipped,
            failed_dialogs=self.dialogs["failed"],
            total_turn_pairs=self.turns.total(),
            unscored_turn_pairs=self._unscored or msgspec.UNSET,
        )
