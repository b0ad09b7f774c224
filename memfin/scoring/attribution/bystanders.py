"""Advice that a reply only passes on: what others recommend or do, what the client wants and is refused."""

from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_REACH: Final = 140
_BEHIND: Final = 120

_ADVISED_BY_OTHERS: Final = late(
    r"\b(?:analysts?|advis[eo]rs|brokers?|experts?|pundits|commentators|strategists?|planners|textbooks?|"
    r"school|"
    r"rule(?: of thumb)?|\"?100 minus your age[^.;!?\n]{0,12})\b(?:(?!\b(?:i|we|our|you)\b)[^.;!?\n]){0,40}?"
    r"\b(?:recommends?|advises?|argues?|says?|suggests?|holds?|claims?|urges?|prefers?|advocates?|would put|"
    r"has a|have a)\b"
    r"(?:(?!\b(?:i|we|our)\b)[^.;!?\n]){0,90}$|"
    r"\binvestors who\b[^,.;!?\n]{0,40}$|\b(?:other|many|most) (?:investors|people|advis[eo]rs) (?:are|"
    r"have been)\b"
    r"[^,.;!?\n]{0,30}$|"
    r"\b(?:other|many|most|some) (?:investors|people|traders|savers|clients)\b"
    r"(?:(?!\b(?:i|we|you|your)\b)[^,.;!?\n]){0,30}$|"
    r"(?:(?:朋友|同行|同事|邻居|网友)(?!公司|家|的|业|那|推)|论坛[里上]?(?:有人)?|(?<!没)有人|"
    r"(?<!没)有(?:些|的|几家|不少)?(?:二级|同类|主动)?"
    r"(?:机构|债基|券商|投资者))(?![^,。;!?\n]{0,8}(?:建议|劝|推荐|让|叫|给)你)[^,。;!?\n]{0,24}"
    r"(?<!的[那这][只个款家支])$|"
    r"(?<!没)有(?:些|的|几家|不少)?(?:机构|券商|专家|分析师)[^。;!?\n]{0,8},(?:建议|主张|认为|"
    r"喊)[^,。;!?\n]{0,16}$"
)
_AND_SO_DO: Final = late(
    r"[^。.!?\n]{0,60}(?:(?:你|我们|咱们?)也|跟着|不妨也|照着|同样可以|我也(?:建议|这么|认为)|\b(?:so (?:do|"
    r"should|could|can) (?:i|we|you)|"
    r"i agree|we agree|and so i|you (?:can|could|should|might) (?:too|as well|do the same)|do the same|"
    r"so let|let us do|follow (?:them|suit))\b)"
)
"""The reply joins them."""
_YOUR_WISH: Final = late(
    r"(?<!if )(?<!since )(?<!because )(?<!as )(?<!when )\byou (?:want|wanted|would like|are (?:tempted|"
    r"thinking|keen)|asked|"
    r"found|saw|read)\b[^.;!?\n]{0,70}$|"
    r"(?<!如果)(?<!要是)(?<!若)你(?:说)?(?:想|要求|打算|问能不能)[^。;!?\n]{0,24}$"
)
_NOT_SO: Final = late(
    r"[^.。!?\n]{0,110}[.。!?？]\s*(?:but |however, )?(?:(?:i|we)(?:'d| would| will| can| could|"
    r" do)? ?(?:rather |still )?(?:pass|leave|"
    r"not|cannot|decline|stay|stick|keep|use an?|hold)\b|(?:这|这个|这件事|这样)?我(?:不能|没法|不会|无法|"
    r"不)(?:支持|照做|同意|答应|"
    r"赞成|这么做|建议)|这会[^。!?\n]{0,40}我(?:不能|没法|不会)(?:照做|支持|同意))"
)


def passed_on(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` is what others recommend or do, or what the client wants in vain."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    near = max(low, start - _REACH)
    if _ADVISED_BY_OTHERS.search(norm, near, start) and not _AND_SO_DO.match(
        norm, end, min(len(norm), end + _BEHIND)
    ):
        return True
    return _YOUR_WISH.search(norm, near, start) is not None and (
        _NOT_SO.match(norm, end, min(len(norm), high + _BEHIND)) is not None
    )
