"""Judging of dialogues: every turn with a rubric is a request, its verdict goes into the turn's row."""

from collections.abc import Sequence
from typing import Any

from memfin.actors.judge_pool import Judging
from memfin.actors.messages import Commit, DialogJudged, DialogScored
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
from memfin.judges.protocol import JudgeResult
from memfin.judges.reply_grading import heuristic_verdict
from memfin.scoring.verdicts import is_judged, judge_request, with_verdict


class DialogJudging(Judging[DialogScored, JudgeRequest, Verdict]):
    """Judges the turns that have a rubric; in the scope ``all`` every turn that was answered.

    In the scope ``uncertain`` it judges the turns on which the detectors are not certain; the heuristic judge
    scores the others. Without a judge, whose name is None then, rows say that nobody has judged them.
    """

    def __init__(
        self, run_id: str, judge: str | None, scope: JudgeScope, controls: Sequence[Control] = ()
    ) -> None:
        self.controls = [control.request for control in controls]
        self._controls = controls
        self._run_id = run_id
        self._judge = judge
        self._scope: JudgeScope = scope

    def requests(self, message: DialogScored) -> list[JudgeRequest]:
        """Return a request for each turn to be judged."""
        dialog, rows = message.replayed.dialog, message.rows
        if dialog is None:
            return []
        turns = {turn.turn_pair_id: turn for turn in message.replayed.trace.turns}
        return [
            judge_request(dialog, turns[rows[place].turn_pair_id], rows[place], self._scope)
            for place in self._places(message)
        ]

    def judged(
        self,
        message: DialogScored,
        requests: Sequence[JudgeRequest],
        results: Sequence[JudgeResult[Verdict]],
    ) -> Commit:
        """Return the dialogue with the verdicts in the rows of their turns, and the votes."""
        del requests
        replayed, rows = message.replayed, list(message.rows)
        dialog = replayed.dialog
        turns = {turn.turn_pair_id: turn for turn in replayed.trace.turns}
        places = self._places(message)
        if dialog is not None and self._judge is None:
            rows = [with_verdict(row, None) for row in rows]
        elif dialog is not None and self._scope == "uncertain" and replayed.trace.dialog_status != "failed":
            for place in {*range(len(rows))}.difference(places):
                if is_judged(rows[place], "m5"):
                    request = judge_request(dialog, turns[rows[place].turn_pair_id], rows[place])
                    rows[place] = with_verdict(rows[place], heuristic_verdict(request), judge=HEURISTIC_JUDGE)
        judgements: list[Judgement] = []
        for place, result in zip(places, results, strict=True):
            row = rows[place]
            checked = turns[row.turn_pair_id].compliance
            rows[place] = with_verdict(
                row, result.outcome, judge=self._judge, scope=self._scope, checked=checked
            )
            turn: Any = {"run_id": self._run_id, "dialog_id": row.dialog_id, "turn_pair_id": row.turn_pair_id}
            judgements += [Judgement(**dict(vote), **turn, judge=self._judge or "") for vote in result.votes]
        judgements.sort(key=lambda each: (each.turn_pair_id, each.vote))
        failures = sum(isinstance(result.outcome, JudgeFailure) for result in results)
        return DialogJudged(
            replayed=replayed, rows=rows, judge_failures=failures, judgements=judgements
        ).commit()

    def failed(self, message: DialogScored, reason: str) -> Commit:
        """Return the dialogue with a failed judgement in every row that the judge reads."""
        failure, rows = JudgeFailure(reason=reason), list(message.rows)
        places = self._places(message)
        for place in places:
            rows[place] = with_verdict(rows[place], failure, judge=self._judge, scope=self._scope)
        return DialogJudged(replayed=message.replayed, rows=rows, judge_failures=len(places)).commit()

    def name(self, message: DialogScored) -> str:
        """Return the id of the dialogue."""
        return message.replayed.trace.dialog_id

    def control_report(self, results: Sequence[tuple[int, JudgeResult[Verdict]]]) -> JudgeControls:
        """Return what the judge made of replies whose worth is known."""
        judged = [control_result(self._controls[place], result) for place, result in results]
        warnings = control_warnings(judged)
        return JudgeControls(run_id=self._run_id, judge=self._judge or "", controls=judged, warnings=warnings)

    def _places(self, message: DialogScored) -> list[int]:
        """Return the places of the rows that the judge decides; those of a failed dialogue count nowhere."""
        replayed = message.replayed
        if self._judge is None or replayed.dialog is None or replayed.trace.dialog_status == "failed":
            return []
        return [place for place, row in enumerate(message.rows) if is_judged(row, self._scope)]
