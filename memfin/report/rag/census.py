"""What a report says of the questions one by one, gathered in one pass with memory for a few of them."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from memfin.contracts.rag import RagIndividual
from memfin.report.failures import FailureCounter
from memfin.report.rag.words import BY_NAME
from memfin.text.lines import one_line

_MOST_CASES: Final = 20
_MOST_ROWS: Final = 500


class Census:
    """What is counted over the individual results of a benchmark.

    Attributes:
        failures: what the system failed with.
        weakest: the questions that lost most of their score, of those that did not pass.
        rows: the first questions, each a row of the report's table.
        parts: sums of the parts of scores, by type and part.
        facts, declined_facts: fact questions, and those of them that were declined.
        gaps, declined_gaps: questions that ask for an abstention, and those that were declined.
    """

    def __init__(self, results: Iterable[RagIndividual]) -> None:
        """Go through the results once."""
        self.failures = FailureCounter()
        self.weakest: list[RagIndividual] = []
        self.rows: list[tuple[str, str, bool, float, float]] = []
        self.parts: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.facts = self.declined_facts = 0
        self.gaps = self.declined_gaps = 0
        for one in results:
            self._add(one)

    def _add(self, one: RagIndividual) -> None:
        if one.error is not None:
            self.failures.add("question", one.error, one.id)
        if not one.passed:
            insort(self.weakest, one, key=_rank)
            del self.weakest[_MOST_CASES:]
        if len(self.rows) < _MOST_ROWS:
            self.rows.append((one_line(one.id, 80), one.type, one.passed, one.score, one.max_score))
        for key, _, _ in BY_NAME[one.type].parts:
            self.parts[one.type, key] += number(one.details.get(key)) or 0.0
        if one.type == "fact_exact":
            self.facts += 1
            self.declined_facts += one.details.get("reason") == "abstained"
        if one.details.get("should_abstain"):
            self.gaps += 1
            self.declined_gaps += _abstained(one)


def number(value: object) -> float | None:
    """Return a part of a score as a number, None for what is none."""
    return float(value) if isinstance(value, bool | int | float) else None


def _rank(one: RagIndividual) -> tuple[float, float, str]:
    """Order by share of the score lost, then by what it weighs."""
    return (one.score / one.max_score if one.max_score else 0.0, -one.max_score, one.id)


def _abstained(one: RagIndividual) -> bool:
    found = one.details.get("abstention")
    return isinstance(found, dict) and bool(found.get("abstained"))
