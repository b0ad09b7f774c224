"""Universes that a constraint allows by naming what is in them: only government bonds and deposits."""

from typing import Final

from memfin.scoring.constraints.predicates import AllowedUniverse
from memfin.scoring.patterns.expressions import late

_DEPOSITS: Final = late(
    r"(?:银行|定期|活期|大额)?存款|定存|(?<!同业)存单|定期(?!开)|储蓄(?!国债)|"
    r"\b(?:(?:bank |term |fixed |time |cash |insured )*deposits?(?: accounts?)?|"
    r"savings(?: accounts?| deposits?)?(?! bonds?)|certificates? of deposit|cds?)\b"
)
_GOVERNMENT: Final = late(
    r"(?:储蓄|记账式|凭证式|电子式)?国债|政府债券?|\b(?:us |u\.s\. )?(?:treasur(?:y|ies)(?: bills?| bonds?|"
    r" notes?)?|gilts?|government (?:bonds?|securities|debt)|t-bills?|savings bonds?)\b"
)
_MONEY: Final = late(r"货币(?:市场)?基金|余额宝|货基|\bmoney[- ]market(?: funds?)?\b")
_OTHER: Final = late(
    r"债|基金|股|etf|理财|黄金|保险|信托|指数|存单|\b(?:bonds?|credit|corporates?|funds?|stocks?|shares|equit\w+|"
    r"gold|index|trackers?|annuit\w+|aaa?)\b"
)
"""What else the universe may hold."""


def safe_universe(norm: str) -> AllowedUniverse | None:
    """Return the universe of a constraint that allows deposits, government bonds, money funds and no more."""
    if _DEPOSITS.search(norm) is None:
        return None
    rest = _GOVERNMENT.sub("", norm)
    money = _MONEY.search(rest) is not None
    rest = _DEPOSITS.sub("", _MONEY.sub("", rest))
    if _OTHER.search(rest) is not None:
        return None
    return AllowedUniverse("liquid" if money else "safe")
