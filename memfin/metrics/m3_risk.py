"""M3, risk coverage: disclosures in a reply that the reference requires."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from memfin.contracts import MetricResult, TurnEvalRow
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.state import BadRow, Cell, RowState, Share, is_read

_NO_TAG: Final = marked("no answered turn requires a risk disclosure")


class RiskCell(Cell, frozen=True, gc=False):
    """M3 sums of one dialogue over its eligible turns."""

    required: int = 0
    hits: int = 0
    strict: int = 0
    unmapped: int = 0
    judge_failed: int = 0

    @property
    def unread(self) -> int:
        """The number of turns outside the denominator because the judge failed on them."""
        return self.judge_failed


class M3State(RowState[RiskCell]):
    """Mergeable state of M3.

    A turn is in the denominator when its row is eligible and requires a tag, unless the judge was to
    find the disclosures and failed (``unjudged``). Required tags that are
    in no vocabulary cannot be met; they stay in the denominator and are counted in
    ``unmapped_tag_total``.
    """

    name: MetricName = "m3_risk_coverage"
    shares: tuple[Share[RiskCell], ...] = (
        Share("risk_coverage", lambda cell: cell.hits, lambda cell: cell.required, empty=_NO_TAG),
        Share("strict_risk_coverage_rate", lambda cell: cell.strict, lambda cell: cell.turns, empty=_NO_TAG),
    )

    def _contribution(self, row: TurnEvalRow) -> RiskCell:
        required = len(set(row.risk_required_tags))
        if not row.eligible_m3 or not required:
            return RiskCell()
        if not is_read(row, "risk"):
            return RiskCell(judge_failed=1)
        if row.risk_tag_hits > required:
            raise BadRow("risk_tag_hits", f"{row.risk_tag_hits}, but {required} tags are required")
        return RiskCell(
            turns=1,
            required=required,
            hits=row.risk_tag_hits,
            strict=int(row.risk_tag_hits == required),
            unmapped=len(row.risk_unmapped_tags),
        )

    def _counts(self, total: Callable[[Callable[[RiskCell], int]], int]) -> dict[str, int]:
        return {
            "eligible_turns": total(lambda cell: cell.turns),
            "risk_required_total": total(lambda cell: cell.required),
            "risk_hit_total": total(lambda cell: cell.hits),
            "unmapped_tag_total": total(lambda cell: cell.unmapped),
            "judge_failed_turns": total(lambda cell: cell.judge_failed),
        }


def compute_m3_risk_coverage(turn_rows: Iterable[TurnEvalRow | Mapping[str, Any]]) -> MetricResult:
    """Compute M3 from turn_eval rows, structs or plain data; never raises (metrics contract 6.3)."""
    return M3State.over(turn_rows)
