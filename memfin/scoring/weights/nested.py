"""Parts of a part and parts of the rest, as shares of all the money.

三成买国债,其余的一半买宽基 puts 35 % into stocks; 七成做投资,投资里四成买一只ETF puts 28 % into the fund.
All offsets count in ``Analysis.norm``.
"""

from collections.abc import Sequence
from typing import Final

from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.weight import Label, Weight

_SIGN: Final = compile_pattern(
    r"(?:剩|其余|剩下|留下)|[资益票券收金攻守健心星成半分]里|"
    r"\bof (?:the (?:rest|remain|balance|other)|what)|\bwithin\b|\bof (?:that|which)\b"
)
"""Where a part of a part may be told; looked for first."""
_TAKES: Final = (
    r"(?:再|先|就|可以|我会|建议|拿出?|用|取出?|抽出?|划出?|分出?|"
    r"分[成为作]?[两二三四五](?:半|份|块|笔|部分)|挑|有|把|将|配|的|[:,\s])*"
)
_OF_REST: Final = late(
    r"(?:其余|剩下|剩余|剩的|留下)(?:的|来的)*(?:那?(?:一?部分|一?块|些)|资金|钱|仓位|现金)?的?"
    rf"(?P<named>(?:[\d.]+%|[一两二三四五六七八九]成半?|一半|[二三四五六七八九十]分之[一二三四五六七八九])的?(?:钱|资金|部分)?)?"
    rf"(?P<inside>里面?|中|当中|之中)?{_TAKES}$"
)
"""Before a share that is one of the rest."""
_REST_BEHIND: Final = late(
    r" of (?:the (?:rest|remainder|balance|remaining (?:money|sum|amount|cash))|what(?: is|ever(?: is)?)?"
    r"(?: then)? (?:left|remains|remaining|over)(?: over)?)\b"
)
_AGAIN: Final = late(r"剩|其余|留下|其[他它]的?(?:都|全)|\b(?:rest|remain\w*|balance|left)\b")
"""Something is still left behind the share."""
_INSIDE: Final = late(
    r"(?P<name>投资|权益|股票|债券|固收|基金|进攻|防守|稳健|进取|核心|卫星)(?:的?(?:部分|仓位?|资金|资产|盘子|账户|端|"
    rf"那[部块]分?))?(?:里面?|当中|之中|中|内)(?:头|的)?{_TAKES}$|"
    rf"(?P<this>[这那](?:部分|(?:[\d.]+%|[一两二三四五六七八九]成半?|一半)(?:资金|钱)?)(?:里面?|当中|之中|中|内)(?:的)?{_TAKES}$)"
    rf"|(?<=[成半%一二两三四五六七八九])(?P<share>(?:的?(?:钱|资金|部分))?(?:里面?|当中|之中|中){_TAKES}$)"
    r"|\bof (?:that|which|it),? (?:about )?$"
)
"""Before a share of what an earlier share was put into."""
_INSIDE_BEHIND: Final = late(r" of (?:that|which|this)(?: part| sum| slice)?\b")
_FRACTION: Final = late(
    r"一半|(?!百)\S{1,3}分之|\d/\d|\b(?:(?:one|two|three|four|an?)[ -])?(?:half|thirds?|quarters?|fifths?|"
    r"sixths?|eighths?|tenths?)\b"
)
_NEXT_REST: Final = late(
    r"[^。!?\n]{0,24}?[,;](?P<rest>其余|剩下(?:的)?|其[他它])(?!的?[一二三四五六七八九\d])"
)
_SAME: Final = 0.006
_WHOLE: Final = 0.995
_REACH: Final = 28
_FEWEST: Final = 2
_TOLD: Final = frozenset({"target", "part"})


def nested(analysis: Analysis, found: Sequence[Weight], labels: Sequence[Label]) -> list[Weight]:
    """Turn the weights that are parts of a rest, or of another weight, into shares of all the money."""
    result = list(found)
    if len(result) < _FEWEST or _SIGN.search(analysis.norm) is None:
        return result
    index = 1
    while index < len(result):
        index = _of_rest(analysis, result, index) or _of_weight(analysis, result, index, labels) or index + 1
    return result


def _of_rest(analysis: Analysis, result: list[Weight], index: int) -> int | None:
    """Scale the weight at ``index``, and those that share the rest with it; return where to go on."""
    weight, norm = result[index], analysis.norm
    low, high = analysis.sentence_span(weight.start)
    match = _OF_REST.search(norm, max(low, weight.start - _REACH), weight.start)
    behind = None if match else _REST_BEHIND.match(norm, weight.end)
    if weight.role != "target" or not (match or behind):
        return None
    if _completes(result, index):
        return index + 1
    before = [
        each
        for each in result[:index]
        if not (match and match["named"] and each.start >= match.start())
        and each.role == "target"
        and (each.group == weight.group or each.start >= low)
    ]
    base = 1 - sum(each.low * each.holdings for each in before)
    if not before or not _SAME < base < _WHOLE:
        return None
    last = _together(analysis, result, index, high)
    if last == index + 1 and match is not None:
        fraction = _FRACTION.match(norm, weight.start) is not None
        itself = abs(weight.low - base) < _SAME and _AGAIN.search(norm, weight.end, high) is None
        inside = match["inside"] is not None or match["named"] is not None
        if (itself and not inside) or not (fraction or inside or weight.low > base + _SAME):
            return None
    _scale(result, index, last, base, before[-1].group)
    inner = [each for each in result[:index] if match and match["named"] and each.start >= match.start()]
    for each in inner:
        result.remove(each)
    return last - len(inner)


def _completes(result: list[Weight], index: int) -> bool:
    """Scale a weight that is the rest of a weight told in parts: 四成,其中一半给a,剩下一半给b."""
    first = index
    while first and result[first - 1].role == "part":
        first -= 1
    if not 0 < first < index or result[first - 1].role != "target":
        return False
    parent, weight = result[first - 1], result[index]
    parts = sum(each.low * each.holdings for each in result[first:index])
    if abs(parts + weight.low * parent.low - parent.low) >= _SAME:
        return False
    _scale(result, index, index + 1, parent.low, parent.group)
    result[index] = result[index]._replace(role="part")
    return True


def _together(analysis: Analysis, result: Sequence[Weight], index: int, high: int) -> int:
    """Return the end of the weights that share one part with the weight at ``index``: all of it or alone."""
    norm, total = analysis.norm, 0.0
    for last in range(index, len(result)):
        weight = result[last]
        if weight.start >= high or weight.role not in _TOLD or ";" in norm[result[index].end : weight.start]:
            break
        total += weight.low * weight.holdings
        own = last > index and _OF_REST.search(norm, max(0, weight.start - _REACH), weight.start)
        if own and _AGAIN.search(norm, weight.end, high):
            break
        if abs(total - 1) < _SAME:
            return last + 1
    return index + 1


def _scale(result: list[Weight], first: int, last: int, base: float, group: int) -> None:
    for each in range(first, last):
        weight = result[each]
        result[each] = weight._replace(
            low=weight.low * base, high=weight.high * base, group=group, role="target"
        )


def _of_weight(analysis: Analysis, result: list[Weight], index: int, labels: Sequence[Label]) -> int | None:
    """Scale the weights that divide an earlier one; what has no class of its own gives way to its parts."""
    weight, norm = result[index], analysis.norm
    low, high = analysis.sentence_span(weight.start)
    match = _INSIDE.search(norm, max(low, weight.start - _REACH), weight.start)
    behind = None if match else _INSIDE_BEHIND.match(norm, weight.end)
    if weight.role not in _TOLD or not (match or behind):
        return None
    name = match["name"] if match else None
    parents = [
        position
        for position, each in enumerate(result[:index])
        if each.role == "target"
        and each.start >= max(0, low - 2 * _REACH)
        and not each.each
        and (name is None or name in each.label)
        and not (match and match["share"] and each.end != match.start())
    ]
    if not parents:
        return None
    parent = result[parents[-1]]
    last = _together(analysis, result, index, high)
    _scale(result, index, last, parent.low, parent.group)
    if match is not None:
        result[index] = result[index]._replace(label=weight.label.replace(match.group(), ""))
    return _settle(analysis, result, parents[-1], (index, last), labels)


def _settle(
    analysis: Analysis, result: list[Weight], above: int, parts: tuple[int, int], labels: Sequence[Label]
) -> int:
    """Put the parts of the weight at ``above`` beside it, or in its place; return where to go on."""
    parent, (index, last) = result[above], parts
    _, high = analysis.sentence_span(result[last - 1].start)
    left = parent.low - sum(each.low * each.holdings for each in result[index:last])
    share = _left_inside(analysis, result[last - 1], parent, left, labels)
    if parent.asset_class is not None:
        for each in range(index, last):
            result[each] = result[each]._replace(role="part")
        if share is not None and share.asset_class == parent.asset_class:
            result.insert(last, share._replace(role="part"))
            return last + 1
        return last
    if left < _SAME or (share is not None and _AGAIN.search(analysis.norm, share.end, high + _REACH) is None):
        # What is left of it and what lies outside of it is one rest.
        del result[above]
        return last - 1
    if share is None:
        result[above] = parent._replace(low=left, high=left)
        return last
    result.insert(last, share)
    del result[above]
    return last


def _left_inside(
    analysis: Analysis, last: Weight, parent: Weight, left: float, labels: Sequence[Label]
) -> Weight | None:
    """Return the rest of a part that is told right behind its other parts, as one weight."""
    norm = analysis.norm
    _, high = analysis.sentence_span(last.start)
    rest = _NEXT_REST.match(norm, last.end, high)
    if rest is None or left < _SAME:
        return None
    start = rest.start("rest")
    _, clause = analysis.clause_span(rest.end(), rest.end())
    inside = {label.asset_class for label in labels if rest.end() <= label.start < clause}
    return parent._replace(
        asset_class=inside.pop() if len(inside) == 1 else None,
        low=left,
        high=left,
        start=start,
        end=clause,
        label=norm[start:clause],
    )
