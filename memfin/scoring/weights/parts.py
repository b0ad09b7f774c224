"""Weights that divide a part of the money: of the bonds a quarter, 权益四成,其中一半港股.

All offsets count in ``Analysis.norm``.
"""

from collections.abc import Sequence
from typing import Final

from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.roles import follows_share
from memfin.scoring.weights.weight import Weight

_PART: Final = compile_pattern(
    r"(?:剩余|其余|剩下)的?(?:钱|资金)(?![^,。;]{0,4}[放买配投进留存])|(?:债券|债|权益|股票|固收|"
    r"投资|基金|剩余|其余|剩下|这|那|核心|卫星|进攻|防守|这一|这块|"
    r"该)(?:的)?(?:部分|仓|块|桶)(?:这样|里|中|内|的|再|按|分|拿|:|,)|其中|(?<![万元块千])里面|"
    r"(?:在权益|权益|股票|债券|固收)(?:仓位|持仓|份额)?[中里内](?=[^,。;]{0,12}$)"
    r"|(?:另外|其余|剩下)的?(?:[0-9]+%|[一二三四五六七八九]成)的?(?:资金|钱)?(?:按|照|再)(?=[^,。;]{0,8}$)"
    r"|\bwithin the\b|\bof the (?:bond|equity|stock) (?:part|sleeve|portion)\b"
)
_OPENS: Final = late(r"\||\(|其中|:|——")
_SAME: Final = 0.006


def breakdowns(analysis: Analysis, shares: Sequence[Quantity]) -> frozenset[Quantity]:
    """Return the shares that only divide the one before them: 权益 | 22% | 沪深300 12%、红利低波 10%."""
    by_sentence: dict[int, list[Quantity]] = {}
    for share in shares:
        by_sentence.setdefault(analysis.sentence_at(share.start), []).append(share)
    return frozenset(
        part
        for first, *rest in by_sentence.values()
        if len(rest) > 1
        and abs(sum(part.low for part in rest) - first.low) < _SAME
        and _opened(analysis.norm, first.end, rest)
        for part in rest
    )


def _opened(norm: str, end: int, rest: Sequence[Quantity]) -> bool:
    """Say whether what follows a share opens its parts; what stands before each part only sets it out."""
    match = _OPENS.search(norm, end, rest[0].start)
    return match is not None and norm.find(match.group(), rest[0].end, rest[-1].start) < 0


def is_part(analysis: Analysis, group: Sequence[Weight]) -> bool:
    """Say whether the weights divide a part of the money (债券部分这样配) and not the whole."""
    low, _ = analysis.sentence_span(group[0].start)
    match = _PART.search(analysis.norm, low, group[0].start)
    if match is not None and match[1].endswith("块,") and _is_topic(analysis, group):
        return False
    return match is not None and (match[1] != "其中" or follows_share(analysis, match.start(1)))


_SMALL: Final = 0.5
_ELSE: Final = late(r"其余|其[他它]|剩下")


def _is_topic(analysis: Analysis, group: Sequence[Weight]) -> bool:
    """Say whether a class is but the topic of small weights and a rest: 海外这一块,纳指5%,其他都在境内."""
    _, high = analysis.sentence_span(group[0].start)
    total = sum(weight.low * weight.holdings for weight in group if weight.start < high)
    rest = _ELSE.search(analysis.norm, group[0].end, high) is not None
    return rest and (total < _SMALL or len({weight.asset_class for weight in group}) > 1)


_FRACTION: Final = late(
    r"一半|(?!百)\S{1,2}分之|\d/\d|\b(?:half|thirds?|quarters?|fifths?|tenths?|(?:a|one|two) (?:third|"
    r"quarter|fifth|tenth))\b"
)
_SLACK: Final = 0.006


def of_parents(analysis: Analysis, found: Sequence[Weight]) -> list[Weight]:
    """Turn the parts that are told as fractions of the weight before them into shares of all the money."""
    if not any(weight.role == "part" for weight in found):
        return list(found)
    result: list[Weight] = []
    parent: Weight | None = None
    for index, weight in enumerate(found):
        if weight.role != "part":
            parent = weight if weight.role in ("target", "total") else None
            result.append(weight)
            continue
        together = 0.0
        for other in found[index:]:
            if other.role != "part":
                break
            together += other.low * other.holdings
        before = [each for each in found[:index] if parent is not None and each.start > parent.start]
        together += sum(each.low * each.holdings for each in before)
        relative = parent is not None and (
            _FRACTION.match(analysis.norm, weight.start, weight.end) or together > parent.high + _SLACK
        )
        scaled = weight
        if parent is not None and relative:
            scaled = weight._replace(low=weight.low * parent.low, high=weight.high * parent.high)
        result.append(scaled)
    return result
