"""A metric that an installed package offers to MemFin."""

import memfin
from memfin.contracts import Dialog, TurnEvalRow, TurnTrace


class FeeMention(memfin.TurnMetric):
    """Replies that say something about fees."""

    name = "fee_mention"
    version = "1"

    def measure(self, dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> bool:  # noqa: ARG002
        """Return True for a reply with the character of fees."""
        return "费" in (turn.pred_assistant_text or "")
