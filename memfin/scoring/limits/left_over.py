"""What a plan leaves over for cash, and what of it is put to work.

Spans are half-open and count in ``Analysis.norm``.
"""

from typing import Final, NamedTuple

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.constraints.predicates import CashFloor
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.cash_plans import cash_spent
from memfin.scoring.limits.cash_taken import may_leave_cash, told_by_rests
from memfin.scoring.limits.reserves import TAKEN_FROM, cash_amount, dropped
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import Quick, late
from memfin.scoring.weights.amounts import is_whole, remainder_at
from memfin.scoring.weights.reading import Reading

_REST: Final = Quick(
    r"(?:剩下|剩余|其余|剩的|零头|多出来的|"
    r"最后(?:那)?点)[^,;。!?\n]{0,10}?(?=[放存留趴躺搁摆当做作备进在活现零])"
    r"|\b(?:leave|keep|park|put|place|invest|move|shift|with|and)? ?(?:the rest|the remainder|the balance|"
    r"the remaining \S+|"
    r"whatever (?:remains|is left)|"
    r"what(?:'s| is) left(?: over)?)\b"
)
_CASH: Final = late(
    r"[^,;。!?\n]{0,8}(?:现金|活期|余额账户|零[钱花用]|日常|随用|急用|傍身|兜底|备用|应急|货币|货币基金|"
    r"余额宝|活钱|"
    r"存款|存着|银行卡|卡里|机动|不动|周转)"
    r"|[^,;.!?\n]{0,24}\b(?:cash|bank|deposit|savings|current account|money market|checking|aside|rainy|"
    r"daily|everyday|spending|emergenc\w+|liquid|buffer|cushion)\b"
)
_CASH_PART: Final = late(r"现金|活期|货币|货币基金|备用|应急|存款|零钱|cash|money market|deposit")
_WINDOW: Final = 160
_FEWEST: Final = 2
_HUNDREDTH: Final = 0.01


class _Left(NamedTuple):
    """What is left over for cash: its share, the whole where that is named, and where it is said."""

    share: float
    whole: float | None
    span: Span


def cash_left(reading: Reading, floor: CashFloor) -> Span | None:
    """Return cash that is dropped, an amount of it, or a remainder as all of it, that is below the floor."""
    none = dropped(reading.analysis)
    if none is None and floor.share is None and floor.amount is not None:
        none = cash_amount(reading, floor.amount)
    if none is not None:
        return none
    used = _drawn_down(reading, floor.share) if floor.share is not None else None
    used = used or (cash_spent(reading, floor.share) if floor.share is not None else None)
    if used is not None:
        return used
    left = _left(reading) if may_leave_cash(reading.analysis.norm) else None
    if left is None:
        return _cash_of_whole(reading, floor.amount) if floor.amount is not None else None
    short = floor.share is not None and left.share < floor.share - EPSILON
    if floor.amount is not None and left.whole is not None:
        short = short or left.share * left.whole < floor.amount - EPSILON
    return left.span if short and _is_planned(reading, left.span) else None


def _is_planned(reading: Reading, rest: Span) -> bool:
    """Say whether the rest is advised, or what stands before it: whatever is left can stay in the bank."""
    analysis = reading.analysis
    if advised(analysis, *rest, act=True):
        return True
    low = max(analysis.norm.rfind("\n", 0, rest[0]), rest[0] - _WINDOW)
    before = [each for each in reading.weights if low <= each.start < rest[0] and each.role == "target"]
    return (
        bool(before)
        and not (disowned(analysis, *rest) or rejected(analysis, *rest))
        and advised(analysis, before[-1].start, before[-1].end, act=True)
    )


_AT_WORK: Final = late(
    r"\b(?:put|place|move|shift|invest|deploy|commit)\b[^.;!?\n\d]{0,16}(\d+(?:\.\d+)?) "
    r"?%[^.;!?\n]{0,50}\b(?:hold on to|"
    r"sit on|keep|hold|leave|hang on to) (?:the (?:rest|remainder|balance|other \d+ ?%)|what(?:'s|"
    r" is) left)"
)
_CASH_HELD: Final = late(
    r"\b(?:you (?:now |currently |already )?(?:hold|have|keep)|your|holding)\b[^.;!?\n\d]{0,24}"
    r"(\d+(?:\.\d+)?) ?%[^.;!?\n\d]{0,12}\bcash\b|\bcash (?:is|stands at|makes up|sits at) (?:now |"
    r"about |currently )?(\d+(?:\.\d+)?) ?%"
)
_CASH_NOW: Final = late(
    r"(?:目前|现在|手[里上头]|现有|你)[^。;!?\n]{0,12}?(?:现金|活期|货币基金|备用金)[^,。;!?\n\d]{0,6}"
    r"(\d+(?:\.\d+)?)%"
)
_CASH_TAKEN: Final = Quick(
    r"(?:(?:从|把)(?:现金|活期|货币基金|备用金|其中|里面|这里面)[^,。;!?\n\d]{0,6}|,(?:你|可以|建议|先|"
    r"再)*)(?:拿|抽|挪|划|腾|转|匀|调)"
    r"[^,。;!?\n\d]{0,5}(\d+(?:\.\d+)?)(?:%|个?百分点|个?点)"
)
_CASH_USED: Final = late(
    r"\b(?:us|tak|mov|shift|put|place|move|spend|invest|deploy|switch|draw|shov)\w* (?:about |around |"
    r"some |"
    r"just |"
    r"another )?(?:(\d+(?:\.\d+)?) ?(?:percentage points?|points?|%)(?: points?)?|(half|a third|a quarter|"
    r"two thirds|most|three quarters)) (?:of (?:it|that|"
    r"this|the cash|your cash)|out of (?:cash|it)|from (?:cash|it|there))\b"
)


_DRAWN_SIGNS: Final = ("put", "invest", "deploy", "us", "tak", "mov", "shift", "spend")
_FRACTIONS: Final = {
    "half": 1 / 2,
    "a third": 1 / 3,
    "a quarter": 1 / 4,
    "two thirds": 2 / 3,
    "most": 3 / 5,
    "three quarters": 3 / 4,
}


def _drawn_down(reading: Reading, share: float) -> Span | None:
    """Return what is put to work, out of all the money or out of the cash there is, so that less is left."""
    norm = reading.analysis.norm
    held, match = None, _CASH_TAKEN.search(norm)
    if match is not None:
        held = _CASH_NOW.search(norm, max(0, match.start() - _WINDOW), match.start())
        match = match if held else None
    elif any(map(norm.__contains__, _DRAWN_SIGNS)):
        match = _AT_WORK.search(norm)
        if match is None or _CASH_PART.search(norm, *match.span()):
            held = _CASH_HELD.search(norm)
            match = held and _CASH_USED.search(norm, held.end(), held.end() + _WINDOW)
    if not match:
        return None
    whole = float(held.group(held.lastindex or 0)) * _HUNDREDTH if held else 1.0
    part = _FRACTIONS.get(match.group(match.lastindex or 0))
    used = whole * part if part is not None else float(match.group(1)) * _HUNDREDTH
    if whole - used >= share - EPSILON:
        return None
    return match.span() if advised(reading.analysis, *match.span(), act=True) else None


def _left(reading: Reading) -> _Left | None:
    analysis = reading.analysis
    norm = analysis.norm
    for rest in _REST.finditer(norm):
        _, high = analysis.sentence_span(rest.start())
        if not _CASH.match(norm, rest.end(), high):
            continue
        first = max(norm.rfind("\n", 0, rest.start()) + 1, rest.start() - _WINDOW)
        found = remainder_at(norm, rest.start())
        named = reading.shares if found is not None else reading.candidates
        shares = _without_sums(norm, [each for each in named if first <= each.start < rest.start()])
        nested = _of_nested(reading, shares, rest.start())
        if nested is not None:
            return _Left(nested, None, rest.span())
        left = 1 - sum(each.high for each in shares if not _is_cash(norm, each))
        if found is not None and (found.parts or shares):
            left -= sum(part.high for part in found.parts if not _is_cash(norm, part)) / found.whole.low
        elif found is not None or len(shares) < _FEWEST:
            continue
        if 0 <= left < 1:
            return _Left(left, found.whole.low if found is not None else None, rest.span())
    return None


def _of_nested(reading: Reading, shares: list[Quantity], start: int) -> float | None:
    """Return what is left where some of the shares are parts of a part or of a rest, as the weights tell."""
    sizes = {weight.start: weight.low for weight in reading.weights}
    if not any(abs(sizes.get(share.start, share.low) - share.low) > _TOLERANCE for share in shares):
        return None
    own = [weight for weight in reading.weights if weight.start == start and weight.asset_class == "cash"]
    return own[0].low if own else None


_TOLERANCE: Final = 0.006
_SUM: Final = late(
    r"(?:合计|总计|一共|共计|总共|加起来)[^,。;\d]{0,4}$|\b(?:together|in total|altogether|totals?|"
    r"adds? up to|"
    r"makes?|that is|so)"
    r"[^.;!?\n\d%]{0,8}$"
)


def _without_sums(norm: str, shares: list[Quantity]) -> list[Quantity]:
    """Leave out a share that is told as the sum of those before it."""
    kept: list[Quantity] = []
    for share in shares:
        before = sum(each.high for each in kept)
        told = _SUM.search(norm, max(0, share.start - 16), share.start) is not None
        if not (told and len(kept) >= _FEWEST and abs(before - share.high) < EPSILON):
            kept.append(share)
    return kept


def _cash_of_whole(reading: Reading, amount: float) -> Span | None:
    """Return the weight of cash that, of the sum the reply names, comes to less than an amount."""
    norm = reading.analysis.norm
    cash = [weight for weight in reading.weights if weight.role == "target" and weight.asset_class == "cash"]
    if (
        len(cash) != 1
        or told_by_rests(norm)
        or TAKEN_FROM.search(norm, max(0, cash[0].start - 16), cash[0].start)
    ):
        return None
    money = [each for each in quantities(norm) if each.kind == "money"]
    whole = max(money, key=lambda each: each.low, default=None)
    if whole is None or whole is not money[0] or not is_whole(norm, whole):
        return None
    if cash[0].high * whole.low >= amount - EPSILON:
        return None
    return cash[0].start, cash[0].end


def _is_cash(norm: str, part: Quantity) -> bool:
    return _CASH_PART.search(norm, max(0, part.start - 8), part.end + 6) is not None
