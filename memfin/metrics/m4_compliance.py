"""M4, compliance: severe violations of all replies, and agreement with the reference's labels."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from memfin.contracts import MetricResult, TurnEvalRow
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.state import BadRow, Cell, RowState, Share, is_read

_NO_LABEL: Final = marked("no answered turn has a reference label")


class ComplianceCell(Cell, frozen=True, gc=False):
    """M4 sums of one dialogue: violations over its labelled turns, the others over its eligible ones."""

    correct: int = 0
    labelled: int = 0
    severe: int = 0
    minor: int = 0
    forbidden: int = 0
    judge_failed: int = 0

    @property
    def unread(self) -> int:
        """The number of turns outside the denominator because the judge failed on them."""
        return self.judge_failed


class M4State(RowState[ComplianceCell]):
    """Mergeable state of M4.

    The severe violation rate needs no reference: it is over every answered turn with a predicted label. The
    other values are over the eligible turns. An eligible row without both labels is a bad row, unless the
    judge was to find the label and failed (``unjudged``): then the turn leaves both denominators.
    """

    name: MetricName = "m4_compliance"
    shares: tuple[Share[ComplianceCell], ...] = (
        Share("compliance_label_acc", lambda cell: cell.correct, lambda cell: cell.turns, empty=_NO_LABEL),
        Share(
            "severe_violation_rate",
            lambda cell: cell.severe,
            lambda cell: cell.labelled,
            lower_is_better=True,
            empty=marked("no reply was read"),
        ),
        Share(
            "forbidden_hit_rate",
            lambda cell: cell.forbidden,
            lambda cell: cell.turns,
            lower_is_better=True,
            empty=_NO_LABEL,
        ),
    )

    def _contribution(self, row: TurnEvalRow) -> ComplianceCell:
        if not is_read(row, "compliance"):
            return ComplianceCell(judge_failed=1)
        label, truth = row.pred_compliance_label, row.gt_compliance_label
        eligible = row.eligible_m4
        if eligible and (label is None or truth is None):
            missing = "gt_compliance_label" if truth is None else "pred_compliance_label"
            raise BadRow("eligible_m4", f"true, though {missing} is missing")
        return ComplianceCell(
            turns=int(eligible),
            correct=int(eligible and label == truth),
            labelled=int(label is not None),
            severe=int(label == "severe_violation"),
            minor=int(label == "minor_violation"),
            forbidden=int(eligible and len(row.forbidden_hits) > 0),
        )

    def _counts(self, total: Callable[[Callable[[ComplianceCell], int]], int]) -> dict[str, int]:
        return {
            "eligible_turns": total(lambda cell: cell.turns),
            "label_match_count": total(lambda cell: cell.correct),
            "severe_turns": total(lambda cell: cell.labelled),
            "severe_count": total(lambda cell: cell.severe),
            "minor_count": total(lambda cell: cell.minor),
            "forbidden_hit_count": total(lambda cell: cell.forbidden),
            "judge_failed_turns": total(lambda cell: cell.judge_failed),
        }


def compute_m4_compliance(turn_rows: Iterable[TurnEvalRow | Mapping[str, Any]]) -> MetricResult:
    """Compute M4 from turn_eval rows, structs or plain data; never raises (metrics contract 6.4)."""
    return M4State.over(turn_rows)
