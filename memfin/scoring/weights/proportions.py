"""Ratios of any sum with their classes: 权益和债券按13比7, 股四债三金一现金二, 股票四份、债券五份, 4:5:1.

All offsets count in ``Analysis.norm``.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.numbers.english import english_number
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.roles import proposed
from memfin.scoring.weights.weight import Label, Weight

_ZH: Final = "一二两三四五六七八九十"
_N: Final = rf"(?:[1-9]\d?|[{_ZH}]{{1,3}})"
_SIGN: Final = compile_pattern(
    rf"(?<=[\d{_ZH}])[:∶比](?=[1-9{_ZH}])| to (?=\d)(?<=\d to )|\bparts?\b|(?<=[\d{_ZH}])份|"
    rf"[股债金票券益](?=[\d{_ZH}](?:[、,;]? ?[股债金现权固货活]))|[{_ZH}](?=[股债][、,]?[{_ZH}][股债])"
)
"""Where one of these ratios may stand."""
_RATIO: Final = late(
    rf"(?<![\d:/.{_ZH}-])(?P<first>{_N})(?:(?P<sign>[:∶比]){_N}(?:(?P=sign){_N}){{0,4}}"
    rf"(?![\d:/%年月日点倍{_ZH}.-]|[成万元]))|\b\d{{1,2}}(?: ?[:-] ?\d{{1,2}}| to \d{{1,2}}){{1,4}}(?![\d%])"
    r"(?= (?:ratio|mix|split|between|in favou?r|(?:of |for |across |on )|[,.;])|[,.;]|$)"
)
_NUMBER: Final = late(_N)
_BEFORE: Final = 28
_AHEAD: Final = 44
_FEWEST: Final = 2
_MOST: Final = 20
_LINK: Final = late(
    r"(?:类?(?:资产|部分|仓位|产品|基金)?|etf|指数|联接|的|\s|funds?|index|etfs?|trackers?|sleeve)*"
    r"(?:、|和|与|跟|对|同|及|/|,(?: ?and)?|:|and|to|&|versus|vs\.?)?(?:\s|the |其[他它])*"
)
"""Between two names that share a ratio."""
_INTO: Final = late(
    r"(?:类?(?:资产|部分|仓位|产品|基金)?|etf|指数)?(?:这?[两二三四五]?(?:块|类|者|样|部分|项)|之间|的|资产)*[,:]?"
    r"(?:我(?:会|建议|想)?|给你|帮你|就|可以|建议|大致|约|统一|全部|按照?|依照?|以|用|照着?|定在|定[为成]|设[为成在]|拉到|调[到成为]|保持在?|"
    r"控制在|维持在?|配成|做成|走|占|是|为|成|约|取|的|[资配]产|配比|比例|权重|之?比(?=[是为在维定调])|配置|分成|[:,\s])*"
    r"(?:funds?|index|etfs?|\s|,|at|in|an?|ratio|proportions?|of|split|mixed|weighted|held|with|the|roughly|about|into|go|by)*"
)
"""Between the names and the ratio behind them."""
_OUT: Final = late(
    r"[把将地]?(?:的)?(?:比例|配比|权重|结构|比重)?(?:来|去|进行)?(?:(?:分配?|配[置比]?|搭配?|摆放?|买入?|投入?|安排|拆分?|持有|布局)"
    r"(?:到|给|在|成)?)?(?:把|将|你的|这笔钱的?|资金到?|[:,\s])*"
    r"|(?:ratio|mix|split|between|in favou?r|of|for|across|on|the|a|into|\s|,)*"
)
"""Between the ratio and the names behind it."""
_NO_WEIGHTS: Final = late(
    r"收益|回报|波动|夏普|涨幅|跌幅|成交|规模|风险|市值|数量|赔率|胜率|杠杆|估值|贡献|return|risk|sharpe|volatil|vote"
)
_SHORT: Final = late(
    r"(?:(?<![\u4e00-\u9fffa-z])|(?<=[和与跟把将分配])|(?=股[、,和与]?债)|(?<=股债)|(?<=股债金))(?:股(?![票份基息权东价民市灾指])|金(?=[、,和与:现\d]|$)|现(?=[、,和与\d]|$))"
)
_SHORT_CLASSES: Final = {"股": "equity", "金": "gold", "现": "cash", "债": "bond"}


def may_stand(norm: str) -> bool:
    """Say whether one of these ratios may stand in the reply."""
    return _SIGN.search(norm) is not None


def proportions(
    analysis: Analysis, found: Sequence[Label], shares: Sequence[Weight], told: list[Weight], group: int
) -> list[Weight]:
    """Add the weights of these ratios to those that are ``told`` by others, from group ``group``.

    What is said of the rest divides what the ``shares`` before it leave: 留两成现金,其余股债按3比2.
    Of two readings of the same words the one with more parts counts: 股四债三金一现金二 is no 股四债三.
    """
    norm = analysis.norm
    if not may_stand(norm):
        return told
    result = told
    read = (*_glued(analysis), *_portions(analysis, found), *_between(analysis, found))
    for parts in few(analysis, read, lambda parts: parts[0][2]):
        start, end = _extent(parts)
        rivals = [weight for weight in result if weight.start < end and start < weight.end]
        if len(rivals) >= len(parts) or not proposed(analysis, start, end):
            continue
        total = sum(value for _, value, _, _ in parts)
        result = [weight for weight in result if weight not in rivals]
        before = _before(analysis, shares, start)
        whole = 1 - sum(weight.low * weight.holdings for weight in before)
        number = before[-1].group if before else group
        for label, value, first, last in parts:
            size = whole * value / total
            text = norm[label.start : label.end]
            result.append(
                Weight(label.asset_class, size, size, first, last, text, "target", number, each=False)
            )
        group += 1
    return result


_REST: Final = late(
    r"(?:其余|剩下|其[他它])[^,。;!?\n\d]{0,6}$|\b(?:rest|remainder|balance)\b[^,.;!?\n\d]{0,24}$"
)
_REST_REACH: Final = 32


def _before(analysis: Analysis, shares: Sequence[Weight], start: int) -> list[Weight]:
    """Return the weights whose rest a ratio divides, none where it divides all the money."""
    low, _ = analysis.sentence_span(start)
    if _REST.search(analysis.norm, max(low, start - _REST_REACH), start) is None:
        return []
    return [weight for weight in shares if low <= weight.start < start and weight.role == "target"]


_Part = tuple[Label, float, int, int]
"""A name, its parts of the whole, and where its number stands."""


def _extent(parts: Sequence[_Part]) -> tuple[int, int]:
    starts = [start for label, _, first, _ in parts for start in (label.start, first)]
    ends = [end for label, _, _, last in parts for end in (label.end, last)]
    return min(starts), max(ends)


_ITEM: Final = (
    rf"(?:(?P<name>股票?|权益|债券?|固收|现金?|活期|货币|存款|黄?金|商品)(?:[占配放是])?"
    rf"(?P<parts>[{_ZH}]|[1-9][05]?)(?:份|成)?)"
)
_PARTED: Final = (
    rf"(?:(?P<parts>[{_ZH}]|[1-9][05]?)(?:份|成|分)?(?P<name>股票?|权益|债券?|固收|现金?|活期|货币|黄?金))"
)
_END: Final = rf"(?![\d{_ZH}%成折倍年月天次只支个万元千百分份])"
_ITEMS: Final = tuple(
    (late(f"(?<![a-z\\d.])(?:{_unnamed}(?:[、,和 ]{{0,2}}(?={_unnamed})|{_END})){{2,6}}"), late(item))
    for item in (_ITEM, _PARTED)
    for _unnamed in (re.sub(r"\(\?P<\w+>", "(?:", item),)
)
_NAMED: Final = {
    **dict.fromkeys(("股", "股票", "权益"), "equity"),
    **dict.fromkeys(("债", "债券", "固收"), "bond"),
    **dict.fromkeys(("现", "现金", "活期", "货币", "存款"), "cash"),
    **dict.fromkeys(("金", "黄金"), "gold"),
    "商品": "other",
}
_SUMS: Final = frozenset({10.0, 20.0, 100.0})


def _glued(analysis: Analysis) -> list[list[_Part]]:
    """Read names with their parts behind or before, without a sign: 股四债五现金一, 四股五债一现金."""
    result: list[list[_Part]] = []
    norm = analysis.norm
    for run, item in _ITEMS:
        for match in run.finditer(norm):
            parts: list[_Part] = []
            for each in item.finditer(norm, *match.span()):
                value = chinese_number(each["parts"]) or 0.0
                label = Label(_NAMED[each["name"]], *each.span("name"))
                parts.append((label, value, *each.span("parts")))
            classes = {label.asset_class for label, _, _, _ in parts}
            if len(parts) == len(classes) >= _FEWEST and sum(value for _, value, _, _ in parts) in _SUMS:
                result.append(parts)
    return result


_PORTION: Final = late(
    rf"(?P<parts>[{_ZH}]|[1-9]\d?)份(?!额)|\b(?P<english>one|two|three|four|five|six|seven|"
    r"eight|nine|ten|\d{1,2}) parts?\b"
)
_CUT: Final = late(rf"[分拆][成为作](?:了)?(?P<parts>[{_ZH}]{{1,3}}|\d{{1,2}})(?:等)?份(?!额)")
_PORTION_REACH: Final = 14


def _portions(analysis: Analysis, found: Sequence[Label]) -> list[list[_Part]]:
    """Read counted parts: 股票放四份、债券五份、现金一份; four parts equity to one part cash."""
    norm = analysis.norm
    result: list[list[_Part]] = []
    if "份" not in norm and " part" not in norm:
        return result
    starts = [label.start for label in found]
    by_sentence: dict[int, list[re.Match[str]]] = {}
    for match in _PORTION.finditer(norm):
        by_sentence.setdefault(analysis.sentence_at(match.start()), []).append(match)
    for sentence, counted in by_sentence.items():
        low, high = analysis.bounds[sentence], analysis.bounds[sentence + 1]
        cut = _CUT.search(norm, low, high)
        own = [match for match in counted if cut is None or not cut.start() <= match.start() < cut.end()]
        edges = [cut.end() if cut else low, *(match.end() for match in own)]
        ahead = [
            found[
                bisect_left(starts, max(last, match.start() - _PORTION_REACH)) : bisect_left(
                    starts, match.start()
                )
            ]
            for last, match in zip(edges, own, strict=False)
        ]
        nexts = [*(match.start() for match in own[1:]), high]
        behind = [
            found[
                bisect_left(starts, match.end()) : bisect_left(
                    starts, min(following, match.end() + _PORTION_REACH)
                )
            ]
            for match, following in zip(own, nexts, strict=False)
        ]
        named = ahead if all(ahead) else behind
        if not len(own) >= _FEWEST or not all(named):
            continue
        parts = [
            (labels[-1 if named is ahead else 0], _counted(match), *match.span())
            for labels, match in zip(named, own, strict=True)
        ]
        whole = chinese_number(cut["parts"]) if cut else None
        if len({label.asset_class for label, _, _, _ in parts}) < _FEWEST:
            continue
        if whole is None or abs(whole - sum(value for _, value, _, _ in parts)) < 1:
            result.append(parts)
    return result


def _counted(match: re.Match[str]) -> float:
    english = match["english"]
    return (chinese_number(match["parts"]) if english is None else english_number(english)) or 0.0


def _between(analysis: Analysis, found: Sequence[Label]) -> list[list[_Part]]:
    """Read a ratio whose names stand right before it or right behind it."""
    norm = analysis.norm
    result: list[list[_Part]] = []
    last: tuple[int, Sequence[Label]] = (0, ())
    for match in _RATIO.finditer(norm):
        start, end = match.span()
        values = [chinese_number(each) or 0.0 for each in _NUMBER.findall(match.group())]
        low, high = analysis.sentence_span(start)
        if not all(values) or _NO_WEIGHTS.search(norm, max(low, start - 12), min(high, end + 8)):
            continue
        reach = 2 * _BEFORE if norm[max(0, start - 2) : start].isascii() else _BEFORE
        names = _chain(norm, _names(norm, found, max(low, start - reach), start), len(values), start)
        names = names or _chain(
            norm, _names(norm, found, end, min(high, end + _AHEAD)), len(values), end, behind=True
        )
        if not names and last[0] > low and _CHANGED.search(norm, low, start):
            names = [Label(label.asset_class, start, end) for label in last[1]]
            names = names if len(names) == len(values) else []
        if len({label.asset_class for label in names}) >= _FEWEST:
            last = end, names
            result.append([(label, value, start, end) for label, value in zip(names, values, strict=True)])
    return result


_CHANGED: Final = late(r"[调改换变][成为到](?:了)?$|\bto $")
"""A ratio is replaced by another one of the same names."""


def _names(norm: str, found: Sequence[Label], low: int, high: int) -> list[Label]:
    """Return the class words of a stretch, the single characters among them that stand for one."""
    own = [label for label in found if low <= label.start and label.end <= high]
    for match in _SHORT.finditer(norm, low, high):
        if not any(label.start <= match.start() < label.end for label in own):
            own.append(Label(_SHORT_CLASSES[match.group()], *match.span()))
    own.sort(key=lambda label: label.start)
    # 红利基金 and 沪深300指数基金 are one name, however many class words they are made of.
    return [
        label
        for label, following in zip(own, [*own[1:], None], strict=False)
        if following is None
        or norm[label.end : following.start].strip(" ")
        or label.asset_class != following.asset_class
    ]


def _chain(
    norm: str, names: Sequence[Label], count: int, edge: int, *, behind: bool = False
) -> Sequence[Label]:
    """Return as many names as the ratio has parts, where nothing but joints stands between them and it."""
    chain = names[:count] if behind else names[-count:]
    if len(chain) != count:
        return ()
    if not all(_LINK.fullmatch(norm, one.end, other.start) for one, other in pairwise(chain)):
        return ()
    if behind:
        return chain if norm[edge] != "," and _OUT.fullmatch(norm, edge, chain[0].start) else ()
    return chain if _INTO.fullmatch(norm, chain[-1].end, edge) else ()
