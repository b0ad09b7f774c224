"""One verdict from several votes on an answer, and how far the votes of a run agree."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median

from memfin.contracts.rag import RagJudgement, RagVerdict
from memfin.judges.stats import VoteAgreement, VoteStats
from memfin.rag.judging.answers import MARKS


def combined(votes: Sequence[RagVerdict]) -> RagVerdict:
    """Return the verdict of a panel on an answer; a single vote is the verdict as it is.

    Each mark is the median, its reason that of the first vote whose mark is nearest to it.
    """
    first = votes[0]
    if len(votes) == 1:
        return first
    marks: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for mark in MARKS:
        middle = marks[mark] = float(median(vote[mark] for vote in votes))
        nearest = min(votes, key=lambda vote: abs(vote[mark] - middle))
        reasons[mark] = nearest[f"{mark}_reason"]
    return RagVerdict(
        faithfulness=marks["faithfulness"],
        answer_correctness=marks["answer_correctness"],
        faithfulness_reason=reasons["faithfulness"],
        answer_correctness_reason=reasons["answer_correctness"],
        spread=_spread(votes),
    )


def _spread(votes: Sequence[RagVerdict]) -> float:
    of_marks = ([vote[mark] for vote in votes] for mark in MARKS)
    return float(max(max(scores) - min(scores) for scores in of_marks))


class RagPanel(VoteAgreement):
    """Agreement of the votes on answers, by mark."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(MARKS, "interval"))

    def add(self, votes: Sequence[RagVerdict]) -> None:
        """Count the votes on one answer; a single vote leaves nothing to compare."""
        if len(votes) > 1:
            for mark in MARKS:
                self.add_unit(mark, [vote[mark] for vote in votes])
            self.add_spread(_spread(votes))


class RagTally(VoteStats):
    """Counts the votes on answers, and how far they agree."""

    def __init__(self) -> None:
        self._panel = RagPanel()
        super().__init__(self._panel)

    def add(self, judgements: Iterable[RagJudgement]) -> None:
        """Count votes, those on one answer in a row; one that failed leaves nothing to compare."""
        for _, group in groupby(judgements, key=lambda vote: vote.question_index):
            votes = list(group)
            self.add_votes(votes)
            verdicts = [vote.verdict for vote in votes if vote.verdict is not None]
            if len(verdicts) == len(votes):
                self._panel.add(verdicts)
