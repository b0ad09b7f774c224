"""One verdict from several votes on an answer, and how far the votes of a run agree."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median

from memfin.contracts import JudgeAgreement
from memfin.contracts.rag import RagJudgement, RagVerdict
from memfin.judges.agreement import Coincidences
from memfin.judges.tally import VoteTally
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


class RagPanel:
    """Sums how far the votes on the same answers agree, a mark at a time; their order does not matter."""

    def __init__(self) -> None:
        self._marks = {mark: Coincidences[float]("interval") for mark in MARKS}
        self._spreads: Counter[float] = Counter()

    def add(self, votes: Sequence[RagVerdict]) -> None:
        """Count the votes on one answer; a single vote pairs with nothing."""
        if len(votes) < 2:  # noqa: PLR2004 - a pair takes two
            return
        for mark, coincidences in self._marks.items():
            coincidences.add([vote[mark] for vote in votes])
        self._spreads[_spread(votes)] += 1

    def agreement(self) -> dict[str, JudgeAgreement]:
        """Return the agreement on each mark; empty without several votes."""
        found = {mark: coincidences.agreement() for mark, coincidences in self._marks.items()}
        return {mark: value for mark, value in found.items() if value is not None}

    def spread(self) -> tuple[float, float] | None:
        """Return the mean and the highest spread, None without several votes."""
        total = self._spreads.total()
        if not total:
            return None
        mean = sum(spread * count for spread, count in sorted(self._spreads.items())) / total
        return mean, max(self._spreads)


class RagTally(VoteTally):
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
