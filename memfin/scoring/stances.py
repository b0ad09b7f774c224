"""Guards for conduct: who names a wish, declines or leaves the decision open neither promises nor orders."""

import re
from typing import Final

from memfin.scoring.language import Analysis

_WISH: Final = re.compile(
    r"想要|要想|若想|如想|如果想|既想|又想|既要|只想|想找|想求|求个|追求|渴望|幻想|指望|妄想|"
    r"\b(?:if you (?:want|need|insist|wish)|(?:you|it) (?:want\w*|hop\w+|wish\w*)|"
    r"it would be (?:nice|great|lovely)|looking for|hop(?:e|ing) for|want(?:ing)? to)\b"
)
_YOURS_TO_DECIDE: Final = re.compile(
    r"是否|要不要|能不能|该不该|可不可以|还是再|由[您你]|[您你](?:自己)?(?:来)?(?:定(?!投)|决定|拿主意|权衡)|自行(?:决定|判断)"
)
_OTHER_TIMES: Final = re.compile(
    r"会不会|每月|每周|每季|定投|分批|例如|比如|举例|举个例子|假设|假定|按规则|历史上|回测|往往|曾经|当时|当年|"
    r"去年|前年|上周|上月|情景|情形|区间|概率上|预计|预期|料将|有望|大概率|多数"
)
_REFUSAL: Final = re.compile(
    r"不能|不会|不可|不敢|不替|不帮|不代|不碰|不得|不接受|不提供|绝不|从不|无法|没法|无权|没有权|"
    r"\b(?:cannot|can.t|won.t|will not|do not|don.t|never|not able|no one)\b"
)


def wished(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the clause only wishes for what stands at ``[start, end)`` (想要绝对不亏，只有…)."""
    low, _ = analysis.clause_span(start, end)
    return _WISH.search(analysis.norm, low, start) is not None


def left_open(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence leaves ``[start, end)`` to the user, or tells of plans and other times."""
    low, high = analysis.sentence_span(start)
    _, clause_end = analysis.clause_span(start, end)
    norm = analysis.norm
    return (
        _YOURS_TO_DECIDE.search(norm, low, high) is not None
        or _OTHER_TIMES.search(norm, low, clause_end) is not None
    )


def refused(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words at ``[start, end)`` themselves decline (我不能替您…)."""
    return _REFUSAL.search(analysis.norm, start, end) is not None
