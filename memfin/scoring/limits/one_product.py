"""Whether a weight is the one of a single product that the sentence speaks of."""

from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.constraints.instruments import INSTRUMENT
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.weight import Weight

PICKED: Final = late(r"[里中]面?[^,。;]{0,4}(?:挑|选|买|留)[^,。;]{0,10}(?:那|一)[只个款]")
_THIS_PRODUCT: Final = late(
    r"(?:[^。;!?\n]{0,20},(?:但|不过|可是?)?)?\s*(?:我看|建议|不妨看看)?(?:这|该|此)(?:一)?(?:只|款|"
    r"个产品|支)(?!.{0,6}(?:规模|"
    r"仓位|持仓|前十|重仓))"
)


def about_one(analysis: Analysis, reading: Reading, weight: Weight) -> bool:
    """Say whether the sentence speaks of one product and gives one share: 这款理财,建议买四成."""
    low, high = analysis.sentence_span(weight.start)
    return (
        weight.role == "target"
        and _THIS_PRODUCT.match(analysis.norm, low) is not None
        and sum(low <= share.start < high for share in reading.shares) == 1
        and advised(analysis, weight.start, weight.end)
    )


ONLY_THIS: Final = late(
    r"[^。;!?\n]{0,12}(?:这|就)一[只款个](?:产品|基金)?(?:就|便|足|即可)|[^.;!?\n]{0,24}\b(?:this|"
    r"that) (?:one|fund|product) alone\b"
)


ONE_AHEAD: Final = late(
    r"\b(?:two|three|four) (?:[a-z]+ )?(?:funds|etfs|stocks|trackers)\b|\binto (?:this|that|one) "
)
"""What only `told_as_one` can make a single holding of."""

_FUNDS_AHEAD: Final = late(
    r"\b(?:two|three|four|2|3|4) (?:(?!bond|stock|equity)[a-z]+ )?(?:funds|etfs|stocks|"
    r"trackers)\b[^.;!?\n%]{0,24}:"
)
_INTO_ONE: Final = late(
    r"[^.;!?\n]{0,30}?\b(?:in|into) (?:this|that|the same|one) (?:[a-z]+ )?(?:reit|fund|stock|etf|"
    r"note|trust|share)\b"
)
_THERE: Final = late(r"(?: of (?:the|your) [a-z]+)? there\b")


def told_as_one(analysis: Analysis, weight: Weight) -> bool:
    """Say whether the words around make it a weight of one holding: gold is safe, so put 40% there."""
    norm = analysis.norm
    low, high = analysis.sentence_span(weight.start)
    if _FUNDS_AHEAD.search(norm, low, weight.start) or _INTO_ONE.match(norm, weight.end, high):
        return True
    return (
        _THERE.match(norm, weight.end) is not None and INSTRUMENT.search(norm, low, weight.start) is not None
    )
