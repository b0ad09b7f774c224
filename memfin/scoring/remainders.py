"""What a plan leaves over, and what its equal parts and tranches come to.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

import re
from typing import Final, NamedTuple

from memfin.scoring.advice import advised
from memfin.scoring.counted_limits import NUMERAL, count_of
from memfin.scoring.language import Analysis
from memfin.scoring.limits import EPSILON, Span
from memfin.scoring.predicates import CashFloor
from memfin.scoring.quantities import Quantity, quantities
from memfin.scoring.reading import Reading

_REST: Final = re.compile(
    r"(?:剩下|剩余|其余|余下|剩的|多出来的|"
    r"最后(?:那)?点)[^,;。!?\n]{0,10}?(?=[放存留趴躺搁摆当做作备进在活现零])"
    r"|\b(?:leave|keep|park|put|with|and)? ?(?:the rest|the remainder|the balance|the remaining \S+|"
    r"whatever (?:remains|is left)|"
    r"what(?:'s| is) left(?: over)?)\b"
)
_REST_SIGNS: Final = ("剩", "其余", "余下", "多出来", "rest", "remain", "the balance", "left")
_CASH: Final = re.compile(
    r"[^,;。!?\n]{0,8}(?:现金|活期|零钱|备用|应急|货币|货基|余额宝|活钱|存款|存着|银行卡|卡里|机动|不动|周转)"
    r"|[^,;.!?\n]{0,24}\b(?:cash|bank|deposit|savings|current account|money market|checking|aside|rainy)\b"
)
_CASH_PART: Final = re.compile(r"现金|活期|货币|货基|备用|应急|存款|零钱|cash|money market|deposit")
_TOTAL_IN_FRONT: Final = re.compile(
    r"(?:总共|一共|共有?|总盘子|总额|总资产|本金|手里|手上|手头|积蓄|您有|你有|这|全部|盘子|\byou have|"
    r"\btotal of|\byour|\bof) ?"
    r"[^,;。!?\n]{0,4}$"
)
_TOTAL_BEHIND: Final = re.compile(
    r"(?:元|块)?(?:本金|的?盘子|积蓄|存款|资金|里|中|,| in (?:all|total)| (?:total|altogether))"
)
_NO_PART: Final = re.compile(
    r"(?:收益|利息|赚|亏|每月|每年|年薪|月薪|工资|起投|门槛|earn|yield|salary)[^,;。!?\n]{0,6}$"
)
_WINDOW: Final = 160
_FEWEST: Final = 2

_EQUAL: Final = re.compile(
    r"(?P<count>[两二三四五六])(?:只|个|支|家|份)[^,;。!?\n]{0,8}?(?:对半|平分|均分|等分|各半|平摊|"
    r"各占一半|五五)|"
    r"\b(?:split|divide)\w*[^.;!?\n]{0,20}\b(?:evenly|equally)[^.;!?\n]{0,12}\b(?P<english>two|three|four|"
    r"five)\b"
)
_EQUAL_SIGNS: Final = (
    "对半",
    "平分",
    "均分",
    "等分",
    "各半",
    "平摊",
    "各占一半",
    "五五",
    "evenly",
    "equally",
)
_TRANCHES: Final = re.compile(
    rf"分(?P<count>{NUMERAL})[笔批次份](?P<between>[^。!?\n]{{0,10}}?)每[笔批次份][^,;。!?\n\d一二三四五六七八九半]{{0,4}}"
)
_HELD: Final = re.compile(
    r"(?:已经?|现在|目前|手里)[^,;。!?\n]{0,6}(?:有|占|持有|"
    r"拿着)了?[^,;。!?\n\d一二三四五六七八九半两]{0,4}$|占了?$|"
    r"\b(?:hold|own|have|sits at|makes up|is already)(?: already| about| some| roughly)* $"
)
_ADDED: Final = re.compile(
    r"(?:再|又|另外?|继续)[^,;。!?\n]{0,4}?(?:补|加|添|买|追|配|投)(?:仓|个|上|"
    r"进)?[^,;。!?\n\d一二三四五六七八九半两]{0,3}$|"
    r"\b(?:another|a further|an extra|an additional) $"
)
_POINTS: Final = re.compile(
    r"\b(one|two|three|four|five|six|seven|eight|nine|ten|\d+)(?: percentage)? points?\b"
)
_HUNDREDTH: Final = 0.01
_SAME_HOLDING: Final = 120
_ONE_FUND: Final = re.compile(r"这只|它|该(?:基金|股|产品)|这个|此")


class _Left(NamedTuple):
    """What is left over for cash: its share, the whole where that is named, and where it is said."""

    share: float
    whole: float | None
    span: Span


def cash_left(reading: Reading, floor: CashFloor) -> Span | None:
    """Return the remainder that is to be all of the cash and stays below the floor."""
    left = _left(reading) if any(sign in reading.analysis.norm for sign in _REST_SIGNS) else None
    if left is None:
        return _cash_of_whole(reading, floor.amount) if floor.amount is not None else None
    short = floor.share is not None and left.share < floor.share - EPSILON
    if floor.amount is not None and left.whole is not None:
        short = short or left.share * left.whole < floor.amount - EPSILON
    return left.span if short and advised(reading.analysis, *left.span, act=True) else None


def _left(reading: Reading) -> _Left | None:
    analysis = reading.analysis
    norm = analysis.norm
    for rest in _REST.finditer(norm):
        _, high = analysis.sentence_span(rest.start())
        if not _CASH.match(norm, rest.end(), high):
            continue
        first = max(norm.rfind("\n", 0, rest.start()) + 1, rest.start() - _WINDOW)
        found = [
            each
            for each in quantities(norm, first, rest.start())
            if not _NO_PART.search(norm, first, each.start)
        ]
        money = [each for each in found if each.kind == "money"]
        whole = _whole(norm, money)
        named = reading.shares if whole is not None else reading.candidates
        shares = [each for each in named if first <= each.start < rest.start()]
        parts = [each for each in money if each is not whole]
        if whole is not None and (parts or shares):
            spent = sum(each.high for each in parts if not _is_cash(norm, each)) / whole.low
            spent += sum(each.high for each in shares if not _is_cash(norm, each))
            left = 1 - spent
        elif not money and len(shares) >= _FEWEST:
            left = 1 - sum(each.high for each in shares if not _is_cash(norm, each))
        else:
            continue
        if 0 <= left < 1:
            return _Left(left, whole.low if whole is not None else None, rest.span())
    return None


def _cash_of_whole(reading: Reading, amount: float) -> Span | None:
    """Return the weight of cash that, of the sum the reply names, comes to less than an amount."""
    norm = reading.analysis.norm
    cash = [weight for weight in reading.weights if weight.role == "target" and weight.asset_class == "cash"]
    if len(cash) != 1:
        return None
    whole = _whole(norm, [each for each in quantities(norm) if each.kind == "money"])
    if whole is None or cash[0].high * whole.low >= amount - EPSILON:
        return None
    return cash[0].start, cash[0].end


def _whole(norm: str, money: list[Quantity]) -> Quantity | None:
    """Return the amount that the others are parts of: the first one, where it is named as such or largest."""
    if not money:
        return None
    first = money[0]
    if any(each.high > first.low for each in money[1:]):
        return None
    named = _TOTAL_IN_FRONT.search(norm[max(0, first.start - 14) : first.start]) or _TOTAL_BEHIND.match(
        norm, first.end
    )
    return first if named else None


def _is_cash(norm: str, part: Quantity) -> bool:
    return _CASH_PART.search(norm, max(0, part.start - 8), part.end + 6) is not None


def one_holding(reading: Reading, cap: float) -> Span | None:
    """Return equal parts, the tranches of one holding, or what is added to one, that exceed the cap."""
    analysis = reading.analysis
    if any(sign in analysis.norm for sign in _EQUAL_SIGNS) and (span := _equal(analysis, cap)):
        return span
    return _tranches(analysis, cap) or _added(reading, cap)


def _equal(analysis: Analysis, cap: float) -> Span | None:
    for match in _EQUAL.finditer(analysis.norm):
        count = count_of(match["count"] or match["english"])
        low, high = analysis.sentence_span(match.start())
        partial = any(each.kind == "share" for each in quantities(analysis.norm, low, high))
        if not count or partial or 1 / count <= cap + EPSILON:
            continue
        if advised(analysis, *match.span(), act=True):
            return match.span()
    return None


def _tranches(analysis: Analysis, cap: float) -> Span | None:
    if not any(sign in analysis.norm for sign in ("每笔", "每批", "每次", "每份")):
        return None
    for match in _TRANCHES.finditer(analysis.norm):
        each = next(
            (q for q in quantities(analysis.norm, match.start(), match.end() + 10) if q.kind == "share"), None
        )
        count = count_of(match["count"])
        low, _ = analysis.sentence_span(match.start())
        if each is None or not count or _ONE_FUND.search(analysis.norm, low, match.start()) is None:
            continue
        if each.low * count > cap + EPSILON and advised(analysis, match.start(), each.end, act=True):
            return match.start(), each.end
    return None


def _added(reading: Reading, cap: float) -> Span | None:
    """Return what is to be added to a holding that is named, where both together are above the cap."""
    analysis = reading.analysis
    norm = analysis.norm
    found = [(each.low, each.start, each.end) for each in reading.shares]
    if "point" in norm:
        found += [((count_of(m[1]) or 0) * _HUNDREDTH, *m.span()) for m in _POINTS.finditer(norm)]
    if len(found) < _FEWEST:
        return None
    held: tuple[float, int] | None = None
    for value, start, end in sorted(found, key=lambda entry: entry[1]):
        low = max(analysis.sentence_span(start)[0], start - 24)
        if _HELD.search(norm[low:start]):
            held = value, end
            continue
        if held is None or start - held[1] >= _SAME_HOLDING or not _ADDED.search(norm[low:start]):
            continue
        if cap + EPSILON < held[0] + value <= 1 and advised(analysis, start, end, act=True):
            return start, end
    return None
