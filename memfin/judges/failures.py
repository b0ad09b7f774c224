"""The judgements of a run that failed: how many, for which reasons, and those declined for what was said."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from memfin.contracts import JudgeScope, TurnEvalRow, was_asked
from memfin.contracts.judgement import Declined

MOST_KINDS: Final = 200
"""Different reasons that are told apart; later ones count as `OTHERS`."""

SHOWN: Final = 10
"""Reasons that are told."""

OTHERS: Final = "(other reasons)"

_LEFT_TO: Final = {
    "m5": "M5 leaves them out",
    "uncertain": "the rules read them for M1, M3 and M4, nobody for M5",
    "all": "the rules read them for M1, M3 and M4, nobody for M5",
    "answers": "the formulas score them all the same",
}
"""Who reads a reply that the judge declines, by what was judged."""

_VARYING: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+", re.IGNORECASE)


class JudgedTurns:
    """Counts the turns, or answers, that were put to a judge; reasons that differ in numbers alone are one.

    Args:
        scope: what the verdicts decide; it tells which turns of a dialogue were put to the judge.

    Attributes:
        turns: turns that were put to the judge.
        failed: those of them that got no verdict.
        declined: those of the failed that were ``too_long`` for the judge, and those it ``refused``.
    """

    def __init__(self, scope: JudgeScope = "m5") -> None:
        self._scope: JudgeScope = scope
        self.turns = 0
        self.failed = 0
        self.declined: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, row: TurnEvalRow) -> None:
        """Count a row; one whose turn was put to no judge does not count."""
        if not was_asked(row, self._scope):
            return
        declined = row.judge_declined if isinstance(row.judge_declined, str) else None
        self.count(row.judge_error, declined)

    def count(self, error: str | None, declined: Declined | None) -> None:
        """Count what came of one judgement."""
        self.turns += 1
        if error is None:
            return
        self.failed += 1
        if declined is not None:
            self.declined[declined] += 1
        kind = _VARYING.sub("0", error)
        if kind not in self._first and len(self._first) >= MOST_KINDS:
            kind = OTHERS
        self._first.setdefault(kind, error if kind != OTHERS else OTHERS)
        self._kinds[kind] += 1

    def reasons(self) -> dict[str, int]:
        """Return the most frequent reasons, each in the words of its first time, with their counts."""
        ranked = sorted(self._kinds.items(), key=lambda item: (-item[1], self._first[item[0]]))
        return {self._first[kind]: count for kind, count in ranked[:SHOWN]}


def judge_warnings(
    turns: int,
    failed: int,
    declined: Mapping[str, int],
    reasons: Mapping[str, int],
    scope: JudgeScope | Literal["answers"],
) -> list[str]:
    """Return a line for what a reader of the results has to know of judgements that failed.

    ``scope`` is that of dialogues, or says that answers to questions were judged.
    """
    if not failed:
        return []
    most = max(reasons, key=lambda reason: reasons[reason], default="no reason given")
    lines = [f"{failed} of {turns} judgements failed ({failed / turns:.1%}), most often: {most}"]
    escaped = [
        f"{declined[why]} {words}"
        for why, words in (
            ("too_long", "too long to be judged"),
            ("refused", "refused by the judge or its provider"),
        )
        if declined.get(why)
    ]
    if escaped:
        lines.append(f"replies that escaped the judge: {', '.join(escaped)}; {_LEFT_TO[scope]}")
    return lines
