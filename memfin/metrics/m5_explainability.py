"""M5, explainability: satisfied rubric items, and the judge's score."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from memfin.contracts import NO_JUDGE, MetricResult, TurnEvalRow
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.state import BadRow, Cell, RowState, Share

LOWEST_SCORE: Final = 1.0
HIGHEST_SCORE: Final = 5.0
SCORE_UNITS: Final = 2**52
"""Parts of a point in which scores are added up; every float from 1 to 5 is a whole number of them."""


class ExplainabilityCell(Cell, frozen=True, gc=False):
    """M5 sums of one dialogue; ``score`` is the sum of the ``scored`` judge scores in `SCORE_UNITS`.

    Of the ``judge_failed`` turns those that have no verdict at all ``left`` the denominator.
    """

    required: int = 0
    hits: int = 0
    scored: int = 0
    score: int = 0
    judge_failed: int = 0
    left: int = 0

    @property
    def unread(self) -> int:
        """The number of turns outside the denominator because the judge failed on them."""
        return self.left


class M5State(RowState[ExplainabilityCell]):
    """Mergeable state of M5.

    A turn is in the denominator of the rubric when its row is eligible, requires an item, and the
    judge did not fail on it (``judge_error``): without a verdict nobody knows which items the reply
    satisfies, and calling them missed would blame the agent for the judge. Rows of a run without a
    judge (``detectors["judge"] == "none"``) stay out for the same reason. The mean score is over the
    turns that have one. ``judge_failed_turns`` counts the eligible turns whose judge gave no score.
    """

    name: MetricName = "m5_explainability"
    shares: tuple[Share[ExplainabilityCell], ...] = (
        Share(
            "rubric_hit_rate",
            lambda cell: cell.hits,
            lambda cell: cell.required,
            empty=marked("no answered turn that requires a rubric item was judged"),
        ),
        Share(
            "judge_score_mean",
            lambda cell: cell.score / SCORE_UNITS,
            lambda cell: cell.scored,
            low=LOWEST_SCORE,
            high=HIGHEST_SCORE,
            graded=True,
            empty=marked("no turn has a judge's score"),
        ),
    )

    def _contribution(self, row: TurnEvalRow) -> ExplainabilityCell:
        required = set(row.rubric_required)
        if not row.eligible_m5 or not required or row.detectors.get("judge") == NO_JUDGE:
            return ExplainabilityCell()
        if row.judge_error is not None:
            return ExplainabilityCell(judge_failed=1, left=1)
        score = row.judge_score_1_5
        if score is not None and not LOWEST_SCORE <= score <= HIGHEST_SCORE:
            raise BadRow("judge_score_1_5", f"{score} is not between 1 and 5")
        return ExplainabilityCell(
            turns=1,
            required=len(required),
            hits=len(required.intersection(row.rubric_hit_items)),
            scored=int(score is not None),
            score=0 if score is None else int(score * SCORE_UNITS),
            judge_failed=int(score is None),
        )

    def _counts(self, total: Callable[[Callable[[ExplainabilityCell], int]], int]) -> dict[str, int]:
        return {
            "eligible_turns": total(lambda cell: cell.turns),
            "rubric_required_total": total(lambda cell: cell.required),
            "rubric_hit_total": total(lambda cell: cell.hits),
            "judge_scored_turns": total(lambda cell: cell.scored),
            "judge_failed_turns": total(lambda cell: cell.judge_failed),
        }


def compute_m5_explainability(turn_rows: Iterable[TurnEvalRow | Mapping[str, Any]]) -> MetricResult:
    """Compute M5 from turn_eval rows, structs or plain data; never raises (metrics contract 6.5)."""
    return M5State.over(turn_rows)
