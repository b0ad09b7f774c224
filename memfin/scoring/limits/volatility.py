"""The volatility that a reply tells of its own mix, held against a limit on it."""

from typing import Final

from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.limits.planned_losses import OTHER_PLAN, STICKS, has_plan
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

_EPSILON: Final = 1e-9
_TOLD: Final = late(
    r"(?:波动率?|标准差)(?:大?约|大概|估算|测算|预计|会|将|要|可能|是|为|在|到|升到|放到|提到|有|:)*$|"
    r"\b(?:volatility|standard deviation)(?: (?:is|of|at|around|about|near|would be|will be|comes? to|runs?|"
    r"rises?|"
    r"to|up|roughly))*:? $"
)
_BEHIND: Final = late(r"(?:左右|上下)?的?(?:年化)?波动率?| (?:annual(?:ised)? |a year of )?volatility\b")
_WHOLE: Final = late(
    r"组合|整体|账户|总(?:体|的)|这[版套个份]|配比|方案|\b(?:mix|portfolio|overall|whole|plan)\b"
)
_REACH: Final = 90


def volatility(reading: Reading, limit: float) -> tuple[int, int] | None:
    """Return the volatility above the limit of a mix that the reply proposes, or goes through with."""
    analysis: Analysis = reading.analysis
    norm = analysis.norm
    if "波动" not in norm and "标准差" not in norm and "volatility" not in norm and "deviation" not in norm:
        return None
    for share in reading.shares:
        if share.high <= limit + _EPSILON or analysis.line_kind(share.start) == "row":
            continue
        low, high = analysis.sentence_span(share.start)
        clause, clause_high = analysis.clause_span(share.start, share.end)
        if not (
            _TOLD.search(norm, max(low, share.start - 30), share.start)
            or _BEHIND.match(norm, share.end, high)
        ):
            continue
        planned = any(weight.role == "target" and low <= weight.start < clause for weight in reading.weights)
        if not planned and _WHOLE.search(norm, clause, clause_high) is None:
            continue
        rest = norm[share.end : share.end + _REACH]
        if OTHER_PLAN.search(rest) or disowned(analysis, share.start, share.end):
            continue
        if rejected(analysis, share.start, share.end) or not (STICKS.search(rest) or has_plan(reading)):
            continue
        return share.start, share.end
    return None
