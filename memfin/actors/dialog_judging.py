"""Judging dialogues: every turn with a rubric is a request, a verdict goes into the turn's row."""

from collections.abc import Sequence

import msgspec

from memfin.actors.judging import Case, Judging
from memfin.actors.messages import DialogJudged, DialogScored, ToWriter
from memfin.contracts import (
    HEURISTIC_JUDGE,
    JudgeControls,
    JudgeFailure,
    Judgement,
    JudgeRequest,
    JudgeScope,
    Verdict,
)
from memfin.judges.controls import Control, control_result, control_warnings
from memfin.judges.heuristic import heuristic_verdict
from memfin.judges.protocol import JudgeResult
from memfin.scoring.verdicts import is_judged, judge_request, with_verdict


class DialogCase(Case[JudgeRequest, Verdict, ToWriter]):
    """A dialogue under judgement."""

    def __init__(self, scored: DialogScored, run_id: str, judge: str | None, scope: JudgeScope) -> None:
        replayed = scored.replayed
        self.name = replayed.trace.dialog_id
        self._scored = scored
        self._run_id = run_id
        self._judge = judge
        self._scope: JudgeScope = scope
        self._rows = list(scored.rows)
        self._checked = {turn.turn_pair_id: turn.compliance for turn in replayed.trace.turns}
        self._judgements: list[Judgement] = []
        self._places: list[int] = []
        self.requests = self._asked()

    def _asked(self) -> list[JudgeRequest]:
        replayed = self._scored.replayed
        dialog = replayed.dialog
        if dialog is None:
            return []
        if self._judge is None:
            self._rows = [with_verdict(row, None) for row in self._rows]
            return []
        if replayed.trace.dialog_status == "failed":
            return []  # its rows are in no denominator
        turns = {turn.turn_pair_id: turn for turn in replayed.trace.turns}
        self._places = [index for index, row in enumerate(self._rows) if is_judged(row, self._scope)]
        rows = [self._rows[index] for index in self._places]
        if self._scope == "uncertain":
            for index in {*range(len(self._rows))}.difference(self._places):
                row = self._rows[index]
                if is_judged(row, "m5"):
                    verdict = heuristic_verdict(judge_request(dialog, turns[row.turn_pair_id], row))
                    self._rows[index] = with_verdict(row, verdict, judge=HEURISTIC_JUDGE)
        return [judge_request(dialog, turns[row.turn_pair_id], row, self._scope) for row in rows]

    def enter(self, place: int, ruled: JudgeResult[Verdict]) -> None:
        """Put a verdict into the row of its turn, and keep the votes."""
        index, request = self._places[place], self.requests[place]
        self._rows[index] = with_verdict(
            self._rows[index],
            ruled.outcome,
            judge=self._judge,
            scope=self._scope,
            checked=self._checked[request.turn_pair_id],
        )
        self._judgements += [
            Judgement(
                **msgspec.structs.asdict(vote),
                run_id=self._run_id,
                dialog_id=request.dialog_id,
                turn_pair_id=request.turn_pair_id,
                judge=self._judge or "",
            )
            for vote in ruled.votes
        ]

    def closed(self, failures: int) -> DialogJudged:
        """Return the dialogue with its final rows."""
        return DialogJudged(
            replayed=self._scored.replayed,
            rows=self._rows,
            judge_failures=failures,
            judgements=sorted(self._judgements, key=lambda each: (each.turn_pair_id, each.vote)),
        )


class DialogJudging(Judging[DialogScored, JudgeRequest, Verdict, ToWriter]):
    """Judges the turns that have a rubric; in the scope ``all`` every turn that was answered.

    In the scope ``uncertain`` it judges the turns on which the detectors are not certain; the heuristic judge
    scores the others.
    Without a judge, whose name is None then, rows say that nobody has judged them.
    """

    def __init__(
        self, run_id: str, judge: str | None, scope: JudgeScope, controls: Sequence[Control] = ()
    ) -> None:
        self.controls = [control.request for control in controls]
        self._controls = controls
        self._run_id = run_id
        self._judge = judge
        self._scope: JudgeScope = scope

    def case(self, message: DialogScored) -> DialogCase:
        """Return the case of a dialogue."""
        return DialogCase(message, self._run_id, self._judge, self._scope)

    def name(self, message: DialogScored) -> str:
        """Return the id of the dialogue."""
        return message.replayed.trace.dialog_id

    def failed(self, message: DialogScored, reason: str) -> DialogJudged:
        """Return the dialogue with a failed judgement in every row that the judge reads."""
        failure = JudgeFailure(reason=reason)
        rows = [
            with_verdict(row, failure, judge=self._judge, scope=self._scope)
            if is_judged(row, self._scope)
            else row
            for row in message.rows
        ]
        failures = sum(is_judged(row, self._scope) for row in message.rows)
        return DialogJudged(replayed=message.replayed, rows=rows, judge_failures=failures)

    def control_report(self, results: Sequence[tuple[int, JudgeResult[Verdict]]]) -> JudgeControls:
        """Return what the judge made of replies whose worth is known."""
        judged = [control_result(self._controls[place], ruled) for place, ruled in results]
        return JudgeControls(
            run_id=self._run_id,
            judge=self._judge or "",
            controls=judged,
            warnings=control_warnings(judged),
        )
