"""Whether the turns of phrase of loans and of crazes are advice, and loans in a table of funds."""

import re
from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_LENT: Final = r"(?:margin|broker|borrow|lender|loan|financing|leverage|overdraft|credit line|lend)"
_TABLE_LOAN: Final = late(
    rf"\|[^|\n]{{0,24}}?\b{_LENT}[^|\n]{{0,24}}\|\s*[$¥£€]?\d[\d,.]*k?\s*\|[^#?]{{0,80}}?\n\s*(?:then |now )?"
    r"(?:put|invest|buy|use|deploy)\b"
)
_OTHERS: Final = late(
    r"\b(?:investors?|institutions?|insiders|people|traders?|funds?|those|anyone|everyone|clients?|"
    r"gamblers?|crowd|sellers?|borrowers?|lenders?|"
    r"managers?|they|he|she|who|"
    r"that|which|friends?|colleagues?|buyers|speculators|schemes|it|not|lets|let)(?: (?:often|"
    r"usually|tend to|"
    r"love to|like to|will|would|also|just|then|may|can|have|only|always|who|that|to|all))*(?: [a-z]+ly)? $"
)
_EXPLAINS: Final = late(
    r"\b(?:means?|refers to|involves?)(?: that)? $|"
    r"\b(?:with|in|through|when|where|means|that is when)\b[^.,;]{0,24} you $"
)
_TO: Final = late(r"\bto $")
_MEANT_TO: Final = late(
    r"\b(?:sense|sensible|reasonable|fine|best|better|plan is|suggestion is|advice is|idea is|like|"
    r"want|free|"
    r"time|wise|smart|okay|worth|good|move is|prefer|approach is|step is|opportunity|room|going|you|us|"
    r"is|be|happy|and|clever|tempted|need|ought) to $"
)
_JUDGED: Final = late(
    r"[^.!?;\n]{0,70}?\b(?:is|are|was|would be|being|amounts? to) (?:exactly |simply |just |classic |pure )?"
    r"(?:what|how|where|chasing|speculat\w+|gambl\w+|risky|dangerous|reckless|leverage|a mistake|"
    r"a bad|short-term trading|"
    r"trading|the opposite|costly|illegal|a scam|banned)\b|[^.!?;\n]{0,50}?(?<!you )(?<!i "
    r")\b(?:means? (?:paying|chasing|"
    r"taking)|magnif\w+ (?:the )?loss|usually ends|rarely (?:works|pays)|seldom|ends badly)"
)


def only_told(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether an English turn of phrase has another subject than the client, or is judged at once."""
    norm = analysis.norm
    if not norm[start].isascii():
        return False
    low, high = analysis.sentence_span(start)
    before = norm[max(low, start - 48) : start]
    if (
        _OTHERS.search(before)
        or _EXPLAINS.search(before)
        or (_TO.search(before) and not _MEANT_TO.search(before))
    ):
        return True
    return _JUDGED.match(norm, end, max(high, end)) is not None


def table_loans(norm: str) -> list[re.Match[str]]:
    """Return the rows of borrowed money in a table of funds behind which everything is to be put to work."""
    return list(_TABLE_LOAN.finditer(norm)) if "|" in norm else []
