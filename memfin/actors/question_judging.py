"""Judging answers: every question that was answered is a request, the verdict goes into its result."""

from collections.abc import Sequence

from memfin.actors.judging import Case, Judging
from memfin.actors.questions import QuestionJudged, QuestionScored, ToResults
from memfin.contracts.rag_judgement import RagJudgeControls, RagJudgement, RagJudgeRequest
from memfin.contracts.rag_verdict import RagJudged, RagVerdict
from memfin.judges.protocol import JudgeResult
from memfin.rag.judging import RagControl, judge_request, rag_control_result, rag_control_warnings
from memfin.rag.scoring import DocumentIndex


class QuestionCase(Case[RagJudgeRequest, RagVerdict, ToResults]):
    """A question under judgement."""

    def __init__(self, scored: QuestionScored, judge: str, request: RagJudgeRequest | None) -> None:
        self.name = scored.result.id
        self.requests = [request] if request is not None else []
        self._scored = scored
        self._judge = judge

    def enter(self, place: int, ruled: JudgeResult[RagVerdict]) -> None:
        """Put the verdict, or why there is none, into the result, and keep the votes."""
        request, outcome, result = self.requests[place], ruled.outcome, self._scored.result
        judged = RagJudged(
            judge=self._judge,
            pages=[page.number for page in request.pages],
            pages_left_out=request.pages_left_out,
        )
        if isinstance(outcome, RagVerdict):
            judged = judged.replace(**dict(outcome))
        else:
            judged = judged.replace(error=outcome.reason, declined=outcome.declined)
        self._scored = self._scored.replace(
            result=result.replace(judge=judged),
            judgements=[
                RagJudgement(
                    **dict(vote),
                    run_id=result.run_id,
                    id=result.id,
                    question_index=result.question_index,
                    judge=self._judge,
                )
                for vote in ruled.votes
            ],
        )

    def closed(self, failures: int) -> QuestionJudged:
        """Return the question with its final result."""
        return QuestionJudged(scored=self._scored, failures=failures)


class QuestionJudging(Judging[QuestionScored, RagJudgeRequest, RagVerdict, ToResults]):
    """Judges every answer; a question on which the system failed has none."""

    def __init__(
        self,
        run_id: str,
        judge: str,
        index: DocumentIndex,
        controls: Sequence[RagControl] = (),
    ) -> None:
        self.controls = [control.request for control in controls]
        self._controls = controls
        self._run_id = run_id
        self._judge = judge
        self._index = index

    def case(self, message: QuestionScored) -> QuestionCase:
        """Return the case of a question."""
        result, request = message.result, None
        if result.answer is not None:
            request = judge_request(message.question, result.answer, self._index)
        return QuestionCase(message, self._judge, request)

    def name(self, message: QuestionScored) -> str:
        """Return the id of the question."""
        return message.result.id

    def failed(self, message: QuestionScored, reason: str) -> QuestionJudged:
        """Return the question with a failed judgement."""
        result = message.result.replace(judge=RagJudged(judge=self._judge, error=reason))
        return QuestionJudged(scored=message.replace(result=result), failures=1)

    def control_report(self, results: Sequence[tuple[int, JudgeResult[RagVerdict]]]) -> RagJudgeControls:
        """Return what the judge made of answers whose worth is known."""
        judged = [rag_control_result(self._controls[place], ruled) for place, ruled in results]
        return RagJudgeControls(
            run_id=self._run_id,
            judge=self._judge,
            controls=judged,
            warnings=rag_control_warnings(judged),
        )
