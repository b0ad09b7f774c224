"""Why turns failed, for the line that tells it at the end of a run of which little came."""

import re
from typing import Final

from memfin.contracts import ProgressEvent, TurnDone
from memfin.sandbox.references import one_line

MOST_REASONS: Final = 1000
"""Reasons that are told apart; those of later turns count without their text."""

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class TurnFailures:
    """Counts the turns that this process asked, and the reasons of those that failed."""

    def __init__(self) -> None:
        self._turns = 0
        self._failed = 0
        self._reasons: dict[str, tuple[str, int]] = {}

    def count(self, event: ProgressEvent) -> None:
        """Take one event in."""
        if not isinstance(event, TurnDone):
            return
        self._turns += 1
        if event.turn_status == "ok":
            return
        self._failed += 1
        text = event.error or event.turn_status
        kind = _NUMBER.sub("0", text)  # times and sizes differ where the reason is the same
        if kind in self._reasons or len(self._reasons) < MOST_REASONS:
            first, times = self._reasons.get(kind, (text, 0))
            self._reasons[kind] = first, times + 1

    def line(self) -> str | None:
        """Return the most frequent reason with its count when more than half of the turns failed."""
        if 2 * self._failed <= self._turns:
            return None
        text, times = max(self._reasons.values(), key=lambda reason: reason[1])
        return one_line(
            f"{self._failed} of {self._turns} turns failed; the most frequent reason, {times} times: {text}"
        )
