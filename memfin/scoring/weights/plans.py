"""Which weights make one plan, and whether a reply offers several plans to choose from."""

from collections.abc import Sequence
from typing import Final

from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.roles import in_foreign_column, listed_as_held
from memfin.scoring.weights.weight import Weight

_ALTERNATIVE: Final = compile_pattern(
    r"(?:保守|稳健|平衡|均衡|进取|积极|激进|成长|防御|增强)(?:型|派|版|方案|模型|组合)|"
    r"方案[一二三四abc123]|[一二三四abc123]方案|情形[一二三abc]|模型\(|"
    r"(?:option|plan|scenario|model) [abc123]|\b(?:conservative|balanced|aggressive)\b"
)
_GAP: Final = 160
_COMPLETE: Final = 0.95


def plan_rows(analysis: Analysis, shares: Sequence[Quantity]) -> frozenset[int]:
    """Return the sentences that are table rows with several shares: each row is a plan of its own."""
    counts: dict[int, int] = {}
    for share in shares:
        if listed_as_held(analysis, share) or in_foreign_column(analysis, share):
            continue
        sentence = analysis.sentence_at(share.start)
        counts[sentence] = counts.get(sentence, 0) + 1
    return frozenset(
        sentence
        for sentence, count in counts.items()
        if count > 1 and analysis.line_kind(analysis.bounds[sentence]) == "row"
    )


_OTHER_ACCOUNT: Final = late(
    r"(?:教育金?|养老金?|个人|爱人|太太|先生|孩子|另一个?|第二个|其他|备用|长期|短期|b)账户"
)


def separate(analysis: Analysis, end: int, start: int) -> bool:
    """Say whether what lies between two weights parts one plan from another."""
    gap = analysis.norm[end:start]
    return (
        (
            len(gap) > _GAP
            and not (_in_one_table(analysis, end, start) or _both_headings(analysis, end, start))
        )
        or ("\n#" in gap and not _both_headings(analysis, end, start))
        or _ALTERNATIVE.search(gap) is not None
        or ("账户" in gap and _OTHER_ACCOUNT.search(gap) is not None)
    )


def _both_headings(analysis: Analysis, end: int, start: int) -> bool:
    """Say whether two weights stand in headings, each of a section of its own: ### 1. 沪深300(30%)."""
    return analysis.line_kind(end - 1) == "heading" and analysis.line_kind(start) == "heading"


def _in_one_table(analysis: Analysis, end: int, start: int) -> bool:
    """Say whether two weights stand in rows of the same table, however much the cells between them tell."""
    return (
        "\n\n" not in analysis.norm[end:start]
        and analysis.line_kind(end) == "row"
        and analysis.line_kind(start) == "row"
    )


def alternatives(analysis: Analysis, found: Sequence[Weight]) -> bool:
    """Say whether the groups of weights are plans to choose from instead of one plan."""
    first: dict[int, int] = {}
    for weight in found:
        first.setdefault(weight.group, weight.start)
    plans = (
        [weight for weight in found if weight.group == group and weight.role == "target"] for group in first
    )
    if sum(_is_complete(analysis, plan) for plan in plans) > 1:
        return _GOES_ON.search(analysis.norm, found[0].end, max(first.values())) is None
    marked, last = 0, 0
    for start in sorted(first.values()):
        marked += _ALTERNATIVE.search(analysis.norm, max(last, start - 200), start) is not None
        last = start
    return len(first) > 1 and marked > 1


def _is_complete(analysis: Analysis, plan: Sequence[Weight]) -> bool:
    """Say whether weights divide all of the money: bounds (债券≥80%) and parts of one class do not."""
    sizes = [
        weight
        for weight in plan
        if analysis.norm[weight.start - 2 : weight.start].rstrip()[-1:] not in _BOUNDS
    ]
    classes = {weight.asset_class for weight in sizes}
    return sum(weight.low for weight in sizes) >= _COMPLETE and classes != {"equity"}


_BOUNDS: Final = frozenset("≥≤<>")
_GOES_ON: Final = late(
    r"\b(?:then|later|tilt\w*|moving|shift\w*|rising|gliding|stepping)\b|逐步|随后|之后再|以后再|再(?:提|"
    r"升|加|降|调)[高低]?到|第二步|过渡到"
)
"""One plan follows the other in time; they are none to choose from."""
