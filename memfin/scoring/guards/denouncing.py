"""Replies that expose: they speak of fraud, or of what is forbidden, and name what others offer."""

from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_DENOUNCES: Final = late(
    r"骗|诈|违[法规]|非法|内幕交易|不允许|不得|警惕|当心|报警|举报|[有是个]坑|坑人|大坑|陷阱|套路|危险信号|"
    r"红旗|可疑|拉黑|"
    r"无效|12386"
)
_OWN: Final = late(r"我|咱|这[只款支个]|[本该]产品|放心|跟着|你(?:现在|马上|赶紧|就)")


def denounced(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether a reply that exposes others names ``[start, end)`` without a word of itself or its product.

    The guard is for rules whose words are as often told of others as promised.
    """
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    return _OWN.search(norm, low, high) is None and _DENOUNCES.search(norm) is not None
