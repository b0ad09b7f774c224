"""What brings about the loss that a reply speaks of."""

from typing import Final

from memfin.scoring.language import Analysis
from memfin.scoring.patterns import late

_RATES: Final = late(r"\b(?:rates|yields|rate (?:rise|hike|increase)s?|borrowing costs)\b")
_IF_RATES: Final = late(
    r"(?:^|[,:]) *(?:and |but |so )?(?:if|when|whenever|should|once|were|as|suppose)\b[^,]{0,24}"
    r"\b(?:rates|yields|borrowing costs)\b[^,]*, *$"
)


def rate_driven(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the loss at ``[start, end)`` is laid to interest rates: it is their risk, no other.

    The rates stand in the same clause, or in the condition right in front of it.
    """
    low, high = analysis.clause_span(start, end)
    if _RATES.search(analysis.norm, low, high):
        return True
    sentence, _ = analysis.sentence_span(start)
    return _IF_RATES.search(analysis.norm[sentence:low]) is not None
