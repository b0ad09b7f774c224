"""Constraints on credit ratings: the lowest one allowed, off a rating itself or off words such as 高等级."""

from typing import Final, Literal

from memfin.scoring.constraints.predicates import MinRating, Rating
from memfin.scoring.patterns.expressions import late

_RATING: Final = late(
    r"(?<![a-z])(aaa|aa\+|aa-|aa|a\+|a-|bbb[+-]?|a(?=级|-rated| or (?:better|above|higher))|"
    r"(?<=below )a$)(?![a-z])"
)
_BETTER: Final = late(
    r"以上|不(?:得|能|要)?低于|至少|及更高|起步|或更高|or (?:better|above|higher)|at least|minimum|"
    r"and (?:above|up)"
)
_WORSE: Final = late(r"以下|低于|below|under|worse|lower than")
_GRADE: Final = late(r"investment[- ]grade|投资级")
_TOP_RATING: Final = late(r"(?<!a)aaa(?!a)")
_NEXT_RATING: Final = late(
    r"(?<!a)aa\+|高等级|高评级|高信用(?:等级|评级)|最高档|优质信用|(?:high(?:est|ly|er)?|top|best|excellent|"
    r"strong(?:est)?)[- ](?:grade|rated|quality|credit|ratings?)|high(?:est)? rating|upper-tier|"
    r"excellent credit|(?:评级|等级|信用|资质)(?:够|较|很)?[高好]|资质最好|信用最好|very strong compan|"
    r"strongest,"
)
_LOW_RATING: Final = late(r"低评级|低等级|垃圾|下沉|low[- ](?:rated|grade)|junk|high[- ]yield")
_MAIN: Final = late(
    r"为主|主力|主打|主仓|偏重|多数为|多买|主要|优先|大部分|主体|核心|底仓|重点|大头|\b(?:mainly|mostly|"
    r"primarily|predominantly|core|bulk|majority|most of|focus\w*|"
    r"largely|principally|dominated|chiefly|lean(?:s|ing)? on|priority|come first|make up most|"
    r"emphasi[sz]es?|cent(?:re|er)(?:d|ed) on|main|for the most part)\b"
)

_NO_OTHER: Final = late(
    r"\b(?:not|isn't|aren't|other than|except)\b[^.;]{0,6}(?:high|top)|(?:不是|非|够不上|"
    r"不够)[^,;]{0,2}(?:高|好)|不够高|"
    r"(?:只|仅|一律|必须|须|都是|都要|全是|100%)[^,;]{0,8}(?:高|评级高|资质最好|信用最好)|\b(?:restrict\w*|"
    r"limit\w*|confined|must|only|exclusively)\b"
)
"""Words beside a rating that confine to it."""
_ALL_OF_IT: Final = late(
    r"(?:high|top)[- ](?:grade|rated|quality)|信用债[^,;]{0,6}(?:要求:?|全(?:部)?(?:是|为)?)高|"
    r"(?:请)?确保[^;]{0,12}信用债[^;]{0,6}高"
)


def lowest_rating(norm: str, *, only: bool, negative: bool) -> MinRating | None:
    """Return the lowest rating that a plain constraint text allows; None where it speaks of none.

    ``only`` and ``negative``: whether the text confines to what it names, and whether it rules something out.
    """
    named = _RATING.search(norm)
    if named is not None and (_BETTER.search(norm) or (_WORSE.search(norm) and negative)):
        return MinRating(_grade(named.group()))
    if _GRADE.search(norm) and (negative or only):
        return MinRating("BBB")
    if _LOW_RATING.search(norm):
        return None
    scope: Literal["all", "main"] = "main" if _MAIN.search(norm) and not only else "all"
    below = (_WORSE.search(norm) is not None and negative) or _NO_OTHER.search(norm) is not None
    if not (only or scope == "main" or "以上" in norm or below or _ALL_OF_IT.match(norm)):
        return None
    if _NEXT_RATING.search(norm):
        return MinRating("AA+", scope)
    return MinRating("AAA", scope) if _TOP_RATING.search(norm) else None


def _grade(rating: str) -> Rating:
    """Return the step of the ladder that a rating is on; AA- and A- count as AA and A."""
    steps: dict[str, Rating] = {"aaa": "AAA", "aa+": "AA+", "aa": "AA", "a": "A", "bbb": "BBB"}
    return steps.get(rating) or steps[rating.rstrip("+-")]
