"""One verdict from several votes, and what the votes tell about the judge."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from memfin.contracts import ComplianceLabel, JudgeAgreement, JudgeRequest, Verdict
from memfin.judges.agreement import Coincidences
from memfin.judges.answers import LABELS, RISK_TAGS


def combined(request: JudgeRequest, votes: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a panel on a reply; a single vote is the verdict as it is.

    The score is the median. A rubric item is satisfied and a risk disclosed when more than half of
    the votes say so; a constraint is contradicted when at least half do. The label is the most
    frequent one, the worst of several equally frequent. So every tie goes against the reply. The
    reason is that of the first vote whose score is nearest to the median.
    """
    first = votes[0]
    if len(votes) == 1:
        return first
    scores = [vote.score for vote in votes]
    score = float(median(scores))
    nearest = min(votes, key=lambda vote: abs(vote.score - score))
    half = len(votes) / 2
    items = Counter(item for vote in votes for item in set(vote.rubric_items))
    conflicts = Counter(text for vote in votes for text in set(vote.contradicted_constraints or ()))
    tags = Counter(tag for vote in votes for tag in set(vote.risk_tags or ()))
    return Verdict(
        score=score,
        rubric_items=[item for item in dict.fromkeys(request.rubric_required) if items[item] > half],
        reason=nearest.reason,
        compliance=_label([vote.compliance for vote in votes if vote.compliance is not None]),
        contradicted_constraints=[
            text for text in dict.fromkeys(request.constraints) if conflicts[text] >= half
        ],
        risk_tags=sorted(tag for tag, count in tags.items() if count > half),
        spread=max(scores) - min(scores),
    )


def _label(labels: Sequence[ComplianceLabel]) -> ComplianceLabel | None:
    counts = Counter(labels)
    return max(counts, key=lambda label: (counts[label], LABELS.index(label)), default=None)


KINDS: Final = ("score", "rubric", "contradiction", "risk", "compliance")


class PanelAgreement:
    """Sums the votes of a run's judgements; the order in which they come does not matter."""

    def __init__(self) -> None:
        self._scores = Coincidences[float]("interval")
        self._labels = {kind: Coincidences[str]("nominal") for kind in KINDS[1:]}
        self._spreads: Counter[float] = Counter()

    def add(self, rubric: Sequence[str], constraints: Sequence[str], votes: Sequence[Verdict]) -> None:
        """Count the votes on one reply; rubric items, constraints and risk tags are units of yes and no."""
        if len(votes) < 2:  # noqa: PLR2004 - nothing to compare
            return
        scores = [vote.score for vote in votes]
        self._scores.add(scores)
        self._spreads[max(scores) - min(scores)] += 1
        self._labels["compliance"].add([vote.compliance or "" for vote in votes])
        for item in dict.fromkeys(rubric):
            self._labels["rubric"].add(_said(item in vote.rubric_items for vote in votes))
        for text in dict.fromkeys(constraints):
            self._labels["contradiction"].add(
                _said(text in (vote.contradicted_constraints or ()) for vote in votes)
            )
        for tag in RISK_TAGS:
            self._labels["risk"].add(_said(tag in (vote.risk_tags or ()) for vote in votes))

    def agreement(self) -> dict[str, JudgeAgreement]:
        """Return the agreement on the scores and on each kind of label; empty without several votes."""
        found = {"score": self._scores.agreement()}
        found |= {kind: coincidences.agreement() for kind, coincidences in self._labels.items()}
        return {kind: value for kind, value in found.items() if value is not None}

    def spread(self) -> tuple[float, float] | None:
        """Return the mean and the highest spread of the scores, None without several votes."""
        total = self._spreads.total()
        if not total:
            return None
        return sum(spread * count for spread, count in sorted(self._spreads.items())) / total, max(
            self._spreads
        )


def _said(votes: Iterable[bool]) -> list[str]:
    return ["yes" if vote else "no" for vote in votes]
