"""Ratios as weights: 股六债四, 股债对半, 60/40, and 5:3:2 for stocks, bonds and cash.

All offsets count in ``Analysis.norm``.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from operator import methodcaller
from typing import Final

from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import Quick, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.proportions import may_stand
from memfin.scoring.weights.roles import proposed
from memfin.scoring.weights.weight import Label, Weight

_WHOLE: Final = 1.0
_TENTHS: Final = 10
_HUNDRED: Final = 100
_SCALED: Final = late(r"(?:投资部分|投资的部分|剩余|其余|剩下|可投资产|可投资金|投资资金)[^,。;\n]{0,6}$")
_RATIO: Final = Quick(
    r"股([1-9][05]|[\d一二三四五六七八九])债([1-9][05]|[\d一二三四五六七八九])|股债(?:比例?|"
    r"配比)?[:按为是约 ]*([1-9]\d?)\s?[:/比开-]\s?([1-9]\d?)|"
    r"债([\d一二三四五六七八九])股([\d一二三四五六七八九])|"
    r"(?<![\d/-])([1-9][05])[/-]([1-9][05])(?![\d/%-])(?= (?:stocks?|equit\w+|shares)(?: to |/| and |"
    r"-)(?:bonds?|fixed)| in favou?r of (?:stocks|equities|shares)| in (?:stocks|"
    r"equities|shares) and bonds|[ -](?:stock|equit|"
    r"portfolio|split|mix)|"
    r" between (?:stocks|equities) and bonds|的?股债)|"
    r"股债(?:按|约|大致)?([一二三四五六七八九])([一二三四五六七八九])(?=开|分|配|搭|来|的|比|组|,|。|$)|"
    r"([一二三四五六七八九])成股票?[、,和]?([一二三四五六七八九])成债|股债(?:均衡|平衡)?,?(?:按|就|各|"
    r"来个)?占?(?:一半一半|一半|五五|对半|平分|各半|各一半|对开)"
)
STOCK_BOND: Final = late(
    r"股[\d一二三四五六七八九]?[05]?债|债[\d一二三四五六七八九]股|成股票?[、,和]?[一二三四五六七八九]成债"
)
"""Where a stock-bond ratio may stand."""
TRIPLE_SIGN: Final = late(r"[:/比](?=\d{1,2}[:/比]\d)")
"""What every ratio of three parts has in it; looked for first, as it is found faster."""
TRIPLE: Final = late(r"(?<![\d:/.-])(\d{1,2})([:/比])\d{1,2}(?:\2\d{1,2}){1,4}(?![\d:/%年月.-])")
"""A ratio of three parts or more."""


_DASHED: Final = late(r"-(?<=[1-9][05]-)(?=[1-9][05](?![\d%]))")


def dashed(norm: str) -> bool:
    """Say whether a ratio may stand in the reply with a dash."""
    return _DASHED.search(norm) is not None


def ratios(
    analysis: Analysis,
    shares: Sequence[Quantity],
    found: Sequence[Label],
    starts: Sequence[int],
    group: int,
) -> list[Weight]:
    """Return the weights of the ratios that the reply proposes, their groups counted from ``group``."""
    norm = analysis.norm
    result = _triples(analysis, found, starts, group)
    result += _pairs(analysis, found, starts, group + len(result))
    if STOCK_BOND.search(norm) is None and "0/" not in norm and "5/" not in norm and not dashed(norm):
        return result
    group += len(result)
    told = {weight.start for weight in result}
    for match in few(analysis, _RATIO.finditer(norm), methodcaller("start")):
        if match.start() in told or not proposed(analysis, *match.span()):
            continue
        parts = [part for part in match.groups() if part is not None] or ["五", "五"]
        first, second = (_tenths(part) for part in parts)
        if match.group(5) is not None:
            first, second = second, first
        scale = _WHOLE
        for share in shares:
            near = 0 < match.start() - share.end < 30  # noqa: PLR2004 - characters within reach
            if near and _SCALED.search(norm[max(0, share.start - 16) : share.start]):
                scale = share.low
        total = first + second
        if max(first, second) > _TENTHS and total != _HUNDRED:
            continue
        if "成" in match.group() and total != _TENTHS:
            continue
        start, end = match.span()
        for name, part in (("equity", first), ("bond", second)):
            value = scale * part / total
            result.append(Weight(name, value, value, start, end, match.group(), "target", group, each=False))
        group += 1
    return result


_SLASHED: Final = Quick(r"(?<![\d/-])([1-9][05])[/-]([1-9][05])(?![\d/%-])(?=[ -])")
_NEAR_SLASHED: Final = 44
_OVER_FUNDS: Final = late(
    r"[^.;!?\n]{0,12}\b(?:across|among|between|over|in|to) (?:the |your |those |these )?(?:three|four|five|"
    r"3|4|5) (?:[a-z]+ )?(?:funds|etfs|stocks)\b|"
    r"[^。;!?\n]{0,8}(?:[三四五3-5])(?:只|支)(?:基金|etf|股票)"
)
_FUNDS_BEFORE: Final = late(r"[三四五3-5](?:只|支)(?:基金|etf|股票)?[^。;!?\n]{0,8}$")
_PAIR: Final = Quick(
    r"(?<![\d:/.-])([1-9]\d?)[:比]([1-9]\d?)(?![\d:/%年月.-])|"
    r"([一二三四五六七八九])[比:]?([一二三四五六七八九])(?:开|分(?!之|[批次]))"
)
_PAIR_SIGN: Final = late(
    r"[:比开分](?<=[0-9一二三四五六七八九].)(?=[1-9一二三四五六七八九]|(?<=[开分])(?!之|[批次]))"
)
"""What every pair has in it; looked for first, as it is found several times as fast."""
_NEAR_PAIR: Final = 20


def may_split(norm: str) -> bool:
    """Say whether a ratio may stand in the reply that `Reading.has_ratio` does not look for."""
    return (
        "5/" in norm
        or dashed(norm)
        or (_PAIR_SIGN.search(norm) is not None and _PAIR.search(norm) is not None)
        or may_stand(norm)
    )


def _pairs(analysis: Analysis, found: Sequence[Label], starts: Sequence[int], group: int) -> list[Weight]:
    """Read two-part ratios right behind their two labels: 股票和债券按6:4来配, 权益与固收七三开."""
    norm = analysis.norm
    result: list[Weight] = []
    if found and ("0/" in norm or "5/" in norm or dashed(norm)):
        result += _slashed(analysis, found, starts, group)
        group += len(result)
    if not found or _PAIR_SIGN.search(norm) is None:
        return result
    for match in few(analysis, _PAIR.finditer(norm), methodcaller("start")):
        parts = [_tenths(part) if part in _NUMERALS else float(part) for part in match.groups() if part]
        if sum(parts) not in (10.0, 100.0) or not proposed(analysis, *match.span()):
            continue
        low, _ = analysis.sentence_span(match.start())
        first = max(low, match.start() - _NEAR_PAIR)
        named = found[bisect_left(starts, first) : bisect_left(starts, match.start())][-2:]
        if len({label.asset_class for label in named}) != len(parts):
            continue
        result += _targets(named, parts, match, group)
        group += 1
    return result


def _slashed(analysis: Analysis, found: Sequence[Label], starts: Sequence[int], group: int) -> list[Weight]:
    """Read two-part ratios of other classes than stocks and bonds: a 90/10 split between bonds and cash."""
    norm = analysis.norm
    result: list[Weight] = []
    for match in _SLASHED.finditer(norm):
        parts = [float(part) for part in match.groups()]
        _, high = analysis.sentence_span(match.start())
        last = bisect_left(starts, min(high, match.end() + _NEAR_SLASHED))
        named = found[bisect_left(starts, match.end()) : last][:2]
        classes = [label.asset_class for label in named]
        if sum(parts) != _HUNDRED or len(set(classes)) != len(parts) or not proposed(analysis, *match.span()):
            continue
        result += _targets(named, parts, match, group)
        group += 1
    return result


_NUMERALS: Final = "一二三四五六七八九"


def _triples(analysis: Analysis, found: Sequence[Label], starts: Sequence[int], group: int) -> list[Weight]:
    """Read three-part ratios with their labels: 股票、债券、现金按5:3:2; 60/30/10 stocks, bonds and cash."""
    norm = analysis.norm
    result: list[Weight] = []
    if TRIPLE_SIGN.search(norm) is None:
        return result
    for match in few(analysis, TRIPLE.finditer(norm), methodcaller("start")):
        parts = [float(part) for part in match.group().split(match.group(2))]
        if sum(parts) not in (10.0, 100.0) or not proposed(analysis, *match.span()):
            continue
        low, high = analysis.sentence_span(match.start())
        before = found[bisect_left(starts, max(low, match.start() - 30)) : bisect_left(starts, match.start())]
        after = found[bisect_left(starts, match.end()) : bisect_left(starts, min(high, match.end() + 60))]
        count = len(parts)
        named = before[-count:] if len(before) >= count else after[:count]
        if len(named) < len(parts) and (
            _OVER_FUNDS.match(norm, match.end()) or _FUNDS_BEFORE.search(norm, low, match.start())
        ):
            # 40/30/30 across the three funds: each is one fund, whatever it holds.
            sizes = [part / sum(parts) for part in parts]
            result += [
                Weight(None, size, size, *match.span(), "one fund", "target", group, each=False)
                for size in sizes
            ]
            group += 1
        if len(named) < len(parts):
            continue
        result += _targets(named, parts, match, group)
        group += 1
    return result


def _targets(
    named: Sequence[Label], parts: Sequence[float], match: re.Match[str], group: int
) -> list[Weight]:
    """Return the weight of every label, its part of the whole."""
    return [
        Weight(
            label.asset_class,
            part / sum(parts),
            part / sum(parts),
            *match.span(),
            match.group(),
            "target",
            group,
            each=False,
        )
        for label, part in zip(named, parts, strict=True)
    ]


def _tenths(text: str) -> float:
    return float(text) if text.isdigit() else float("零一二三四五六七八九".index(text))
