"""Whether a weight is the one of a single product that the sentence speaks of."""

from typing import Final

from memfin.scoring.advice import advised
from memfin.scoring.language import Analysis
from memfin.scoring.patterns import late
from memfin.scoring.reading import Reading
from memfin.scoring.weight import Weight

PICKED: Final = late(r"[里中]面?[^,。;]{0,4}(?:挑|选|买|留)[^,。;]{0,10}(?:那|一)[只个款]")
_THIS_PRODUCT: Final = late(
    r"(?:[^。;!?\n]{0,20},(?:但|不过|可是?)?)?\s*(?:我看|建议|不妨看看)?(?:这|该|此)(?:一)?(?:只|款|个产品|支)(?!.{0,6}(?:规模|仓位|持仓|前十|重仓))"
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
