"""Picks the worst turns while rows stream by, keeping only those that will be shown."""

import bisect
from dataclasses import dataclass, field
from typing import Final

from memfin.contracts import TurnEvalRow, met_risk_tags
from memfin.report.glossary import format_value
from memfin.report.labels import by_own_check

_LOW_SCORE: Final = 4.0

Rank = tuple[float, float, str, int]
"""How bad (smaller is worse), then a tie-breaker, then the turn, so that file order plays no part."""


@dataclass(slots=True)
class Ranking:
    """The worst turns by one criterion, at most ``size`` of them, worst first."""

    title: str
    size: int
    total: int = 0
    entries: list[tuple[Rank, str, TurnEvalRow]] = field(default_factory=list)

    def offer(self, badness: float, tie: float, words: str, row: TurnEvalRow) -> None:
        """Count a turn that meets the criterion and keep it if it is among the worst so far."""
        self.total += 1
        rank = (badness, tie, row.dialog_id, row.turn_pair_id)
        if len(self.entries) == self.size and rank >= self.entries[-1][0]:
            return
        bisect.insort(self.entries, (rank, words, row), key=lambda entry: entry[0])
        del self.entries[self.size :]


class WorstTurns:
    """One ranking a criterion, fed row by row."""

    def __init__(self, size: int = 5) -> None:
        self._severe = Ranking("Severe violations", size)
        self._contradicted = Ranking("Advice against the client's constraints", size)
        self._keys = Ranking("Lowest key coverage", size)
        self._risks = Ranking("Missed risk disclosures", size)
        self._scores = Ranking(f"Judge scores below {_LOW_SCORE:g}", size)

    def rankings(self) -> tuple[Ranking, ...]:
        """Return the rankings that have any turn, the gravest kind first."""
        every = (self._severe, self._contradicted, self._keys, self._risks, self._scores)
        return tuple(ranking for ranking in every if ranking.total)

    def add(self, row: TurnEvalRow) -> None:
        """Offer a row to every criterion it is eligible for; a severe violation needs no reference label."""
        if row.pred_compliance_label == "severe_violation" and row.turn_status in (None, "ok"):
            reference = row.gt_compliance_label
            agreed = reference == row.pred_compliance_label
            words = "severe violation" + (" by the agent's own check" if by_own_check(row) else "")
            words += f", reference: {reference}" if reference is not None and not agreed else ""
            self._severe.offer(-len(row.forbidden_hits), agreed, words, row)
        if row.eligible_m1:
            if row.constraint_contradiction:
                self._contradicted.offer(
                    -len(row.contradicted_constraints), 0, "contradicts a constraint", row
                )
            asked, hit = len(row.key_hit_flags), sum(row.key_hit_flags)
            if hit < asked:
                words = f"{hit} of {asked} required keys recalled"
                self._keys.offer(hit / asked, -(asked - hit), words, row)
        if row.eligible_m3:
            asked = len(set(row.risk_required_tags))
            missed = len(missed_tags(row))
            if missed:
                self._risks.offer(
                    -missed, -missed / asked, f"{missed} of {asked} risk disclosures missing", row
                )
        score = row.judge_score_1_5
        if row.eligible_m5 and score is not None and score < _LOW_SCORE:
            words = f"judge score {format_value('judge_score_mean', score)}"
            self._scores.offer(score, 0, words, row)


def missed_tags(row: TurnEvalRow) -> tuple[str, ...]:
    """Return the required risk tags that the reply does not disclose, in the reference's order."""
    met = met_risk_tags(row.risk_required_tags, row.risk_pred_tags)
    return tuple(tag for tag in dict.fromkeys(row.risk_required_tags) if tag not in met)
