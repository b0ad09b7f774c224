"""Money that is divided: the amounts of a reply as shares of the sum they are taken from.

二十万这样分: 基金八万, 短债七万, 活期五万 gives 40 %, 35 % and 25 %. An amount counts as the whole only when
the amounts that follow it add up to it, or when another is said to be taken out of it, so prices, fees and
incomes are never taken for a plan.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import Quick, compile_pattern, late

_SIGN: Final = late(
    r",(?=\d00(?!\d))|[万元$£€](?:(?<=[\d一二两三四五六七八九十百千半][万元])(?!亿)|(?<=[$£€])(?=\d))"
)
# To look for a plain character costs a fraction of what the pattern costs; most replies name no sum.
_MARKS: Final = late(r"[元万$£€,](?:(?<!,)|(?=[05]00))")
_BEHIND: Final = 18
_AHEAD: Final = 16
_REACH: Final = 240
_FEWEST: Final = 3
_TOLERANCE: Final = 0.005
_EACH: Final = compile_pattern(r"各|每只|\beach\b")
_COUNTED_EACH: Final = late(r"([两二三四五六七八九2-9])(?:只|个|支|家|份)[^;。!?\n]{0,10}(?:各|每)")
_COUNTS: Final = {sign: value for value, sign in enumerate("二三四五六七八九", 2)} | {
    "两": 2,
    **{str(value): value for value in range(2, 10)},
}
_JOINED: Final = late(r"、|和|与|及|\band\b")


_CHANGE_SIGNS: Final = frozenset("+-")
"""Before an amount that only tells how much comes or goes."""
_BARE: Final = late(r"(?:占|配|放|给)到?(\d{1,2})(?=[、,。;\n和]|$)")
_NAMED_BARE: Final = late(
    r"[0-9](?:(?<=[a-z] .)(?<!q .)[0-9]?(?=,(?![0-9])|[;:\n/)]|\.(?![0-9])|$)|"
    r"(?<=[券债票金基数物存币国类].)[0-9]?(?=[、,;。\n]|$))"
)
_HUNDRED: Final = 100
_ROUNDING: Final = 3


def bare_shares(text: str) -> list[Quantity]:
    """Return shares written without a sign (宽基占35、短债占45、货币占20), when they add up to a hundred."""
    found = [(int(match.group(1)), match) for match in _BARE.finditer(text)] if "占" in text else []
    if len(found) < _FEWEST or abs(sum(value for value, _ in found) % _HUNDRED) > _ROUNDING:
        if "%" in text:
            return []
        found = [(int(match.group()), match) for match in _NAMED_BARE.finditer(text)]
        if len(found) < _FEWEST or sum(value for value, _ in found) != _HUNDRED:
            return []
    return [
        Quantity("share", value / _HUNDRED, value / _HUNDRED, *match.span(match.lastindex or 0), "%")
        for value, match in found
    ]


def divided(text: str) -> list[Quantity]:
    """Return the parts of every divided sum in a normalized reply as shares (fractions), in order."""
    if _MARKS.search(text) is None:
        return []
    signs = [match.start() for match in _SIGN.finditer(text)]
    fewest = _FEWEST if _COUNTED_EACH.search(text) is None else _FEWEST - 1
    if not any(last - first <= _REACH for first, last in zip(signs, signs[fewest - 1 :], strict=False)):
        return []
    low, high = max(0, signs[0] - _BEHIND), signs[-1] + _AHEAD
    amounts = [
        amount
        for amount in quantities(text, low, min(high, len(text)))
        if amount.kind == "money"
        and amount.low == amount.high
        and text[max(amount.start - 1, 0)] not in _CHANGE_SIGNS
    ]
    found: list[Quantity] = []
    first = 0
    while first < len(amounts):
        parts = _parts(text, amounts, first)
        found.extend(parts)
        first += len(parts) + 1 if parts else 1
    return found or _before_whole(amounts, text) or _bought(text, amounts)


def _before_whole(amounts: Sequence[Quantity], text: str) -> list[Quantity]:
    """Return the amounts in front of the sum that they make: 基金甲30万,基金乙20万,总盘子50万."""
    for index in range(2, len(amounts)):
        whole = amounts[index]
        if _ANNOUNCED.search(text[: whole.start][-_REST_REACH:]) is None:
            continue
        total, first = 0.0, index
        while first and total < whole.low * (1 - _TOLERANCE):
            first -= 1
            total += amounts[first].low
        if abs(total - whole.low) <= _TOLERANCE * whole.low and index - first > 1:
            return [
                each._replace(kind="share", low=each.low / whole.low, high=each.low / whole.low)
                for each in amounts[first:index]
            ]
    return []


_PURCHASE: Final = late(
    r"(?:元|块钱?)?(?:去|来|拿去|用来|用于)?[买放配投存给做进]| (?:in|into|to|on) (?!total|all)"
)


def _bought(text: str, amounts: Sequence[Quantity]) -> list[Quantity]:
    """Return amounts that are each put somewhere, where no sum is named, as shares of what they add up to."""
    if len(amounts) < _FEWEST or any(
        _ANNOUNCED.search(text[: amount.start][-_REST_REACH:]) for amount in amounts
    ):
        return []
    if amounts[-1].end - amounts[0].start > _REACH or _REST_WORD.search(text, amounts[0].start):
        return []
    if not all(_PURCHASE.match(text, amount.end) for amount in amounts):
        return []
    total = sum(amount.low for amount in amounts)
    return [
        amount._replace(kind="share", low=amount.low / total, high=amount.low / total) for amount in amounts
    ]


_SUM: Final = (
    r"(?:总(?:盘子|共|额|资产)|盘子|一?共有?|手[上里头]|账户里|本金|资金|积蓄|存款|你有|\b(?:you have|"
    r"you've got|"
    r"you own|of the|of your|out of|pot of|total of|sum of))[^\d\n]{0,8}|"
    r"(?:[这你]|全部|\b(?:total|your|of))[^\d\n,;。!?]{0,4}"
)
_ANNOUNCED: Final = late(rf"(?:{_SUM})$")
_ANNOUNCED_BEHIND: Final = late(
    r"(?:元|块)?(?:的?本金|的?盘子|积蓄|存款|资金|里|中|,| in (?:all|total)| (?:total|altogether|account|"
    r"portfolio|pot|nest egg)\b)"
)
_NO_PART: Final = late(
    r"(?:收益|利息|赚|亏|每月|每年|年薪|月薪|工资|起投|门槛|earn|yield|salary)[^,;。!?\n]{0,6}$"
)
_REST_WORD: Final = Quick(
    r"剩|其余|剩下|余款|多出来的|最后那?点|\b(?:rest|remainder|balance|remaining|remains|left)\b"
)
_REST_REACH: Final = 48


class Remainder(NamedTuple):
    """A sum and the amounts taken out of it, of which the reply says what becomes of the rest."""

    whole: Quantity
    parts: tuple[Quantity, ...]


def is_whole(text: str, amount: Quantity) -> bool:
    """Say whether the words beside an amount make it all of the money."""
    head = text[max(0, amount.start - _REST_REACH) : amount.start]
    return (
        _ANNOUNCED.search(head) is not None or _ANNOUNCED_BEHIND.match(text, amount.end) is not None
    ) and _NO_PART.search(head) is None


def remainder_at(text: str, rest: int) -> Remainder | None:
    """Return the sum that the word of a rest at that offset speaks of; its parts may be shares alone."""
    amounts = [
        amount
        for amount in quantities(text, max(0, rest - _REACH), rest)
        if amount.kind == "money"
        and amount.low == amount.high
        and not _NO_PART.search(text, max(0, amount.start - _BEHIND), amount.start)
    ]
    for first, whole in enumerate(amounts):
        parts = tuple(each for part in amounts[first + 1 :] for each in _repeated(text, whole.end, part))
        if (
            is_whole(text, whole)
            and all(part.low < whole.low for part in parts)
            and sum(part.low for part in parts) <= whole.low
        ):
            return Remainder(whole, parts)
    return None


_EACH_OF: Final = late(r"(?:每[份只笔支家样个款]|各)[^,。;!?\n\d]{0,4}$|\beach (?:of|with|at) $")
_SEVERAL: Final = late(r"([两二三四五六七八九十2-9])[份只笔支家样款个](?![月百点])")
_EACH_BEHIND: Final = late(r"\s*(?:元|块)?(?:一份|一只)| (?:each|apiece)\b")


def _repeated(text: str, low: int, part: Quantity) -> tuple[Quantity, ...]:
    """Return an amount as often as it is put somewhere: 分成四份,每份9.5万元."""
    if not (
        _EACH_OF.search(text, max(low, part.start - _BEHIND), part.start)
        or _EACH_BEHIND.match(text, part.end)
    ):
        return (part,)
    counted = [_NUMBERS.get(match[1]) or int(match[1]) for match in _SEVERAL.finditer(text, low, part.start)]
    return (part,) * (counted[-1] if counted else 1)


def remainder(text: str) -> Remainder | None:
    """Return a sum that is spent up to a rest: 总盘子80万: 30万中短债、32万宽基, 剩下的留作现金."""
    if _MARKS.search(text) is None:
        return None
    for rest in _REST_WORD.finditer(text):
        found = remainder_at(text, rest.start())
        if found is not None and found.parts and rest.start() - found.parts[-1].end <= _REST_REACH:
            return found
    return None


def spent(text: str) -> list[Quantity]:
    """Return the amounts that leave a rest of a sum, as shares of it."""
    found = remainder(text)
    if found is None:
        return []
    whole = found.whole.low
    return [
        part._replace(kind="share", low=part.low / whole, high=part.low / whole)
        for part in dict.fromkeys(found.parts)
    ]


_CELL: Final = late(r"\|\s*(?:约)?(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s*(万元?|元|k)?\s*(?=\|)")
_AMOUNT_HEAD: Final = late(
    r"(?:^|\|) *(?:人民币|元) *(?:$|\|)|金额|万元|资金|投入|amount|\(万|\$|euros?|dollars?"
)
_SUM_ROW: Final = late(r"\|\s*(?:合计|总计|小计|total|sum)")


_PORTIONS: Final = late(r"[分拆][成为作](?:了)?([两二三四五六七八九十])(?:等)?份(?!额)")
_PORTION: Final = late(
    r"(?:其中)?(?:的)?([一两二三四五六七八九])份(?!额)(?=[^,。;!?\n]{0,3}(?:买|投|放|配|给|留|做|存|进|用))"
)
_NUMBERS: Final = {word: value for value, word in enumerate("零一二三四五六七八九十")} | {"两": 2}


def portions(text: str) -> list[Quantity]:
    """Return the parts of money that is cut into equal ones: 分成三份,两份买股票基金,一份买债券."""
    whole = _PORTIONS.search(text) if "份" in text else None
    if whole is None:
        return []
    count = _NUMBERS[whole.group(1)]
    found = [
        (_NUMBERS[match.group(1)] / count, match.span(1))
        for match in _PORTION.finditer(text, whole.end(), min(len(text), whole.end() + _REACH))
    ]
    if not found or abs(sum(value for value, _ in found) - 1) > _TOLERANCE:
        return []
    return [Quantity("share", value, value, start, end + 1, "成") for value, (start, end) in found]


_OUT_OF: Final = late(
    r"\b(?:out )?of (?:your |the |a )?[$¥£€]?(\d{1,3}(?:,\d{3})+)(?: yuan| dollars)?,? (?:(?:you|i|"
    r"we) (?:could|can|should|might|would) )?"
    r"(?:use|put|place|invest|move|keep|leave|set aside) [$¥£€]?(\d{1,3}(?:,\d{3})+)(?![\d%])"
)


def out_of(text: str) -> list[Quantity]:
    """Return the bare sum that is put somewhere: out of 1,000,000, use 500,000 for the bond."""
    found: list[Quantity] = []
    for match in _OUT_OF.finditer(text) if ",000" in text else ():
        whole, part = (float(value.replace(",", "")) for value in match.groups())
        if part < whole:
            found.append(Quantity("share", part / whole, part / whole, *match.span(2), ""))
    return found


def tabled(text: str) -> list[Quantity]:
    """Return the amounts of a table's column of money as shares of their sum."""
    if "|" not in text or _AMOUNT_HEAD.search(text) is None:
        return []
    found: list[Quantity] = []
    column, cells = -1, list[tuple[float, int, int]]()
    position = 0
    for line in [*text.split("\n"), ""]:
        if not line.lstrip().startswith("|"):
            found.extend(_shares_of(cells))
            column, cells = -1, []
        elif column < 0:
            heads = line.split("|")
            column = next(
                (index for index, head in enumerate(heads) if _AMOUNT_HEAD.search(head)), len(heads)
            )
        elif _SUM_ROW.match(line.lstrip()) is None:
            for match in _CELL.finditer(line):
                if line.count("|", 0, match.start() + 1) == column:
                    value = float(match.group(1).replace(",", ""))
                    cells.append((value, position + match.start(1), position + match.end()))
        position += len(line) + 1
    return found


def _shares_of(cells: Sequence[tuple[float, int, int]]) -> list[Quantity]:
    total = sum(value for value, _, _ in cells)
    if len(cells) < _FEWEST or not total:
        return []
    return [Quantity("share", value / total, value / total, start, end, "") for value, start, end in cells]


_WHOLE_BEHIND: Final = late(
    r"\s*(?:out )?of (?:(?:your|the|that|those|my|this|a|an|about|roughly|total|whole|full)\s+)*"
)
_WHOLE_BEFORE: Final = late(
    r"元?(?:的)?(?:本金|资金|积蓄|存款|闲钱|余钱|现金|钱)?(?:里面?|当中|之中|中)[,]?(?:你|可以|建议|"
    r"先|再|我会)*"
    r"(?:[拿取抽划分挪拨匀腾]出?|动用|投入?|放|用|买入?|配)(?:个)?|元?(?:的)?(?:本金|资金|积蓄|"
    r"存款|现金)?(?:里面?|中)的"
)
_TAKEN_OUT: Final = late(
    r"元?(?:的)?(?:本金|资金|积蓄|存款|闲钱|余钱|现金|钱)?,?(?:你|可以|建议|不妨|我会|先|再|就)*"
    r"(?:[拿取抽划分挪拨匀腾]出?|动用|投入?|用|买入?)(?:个|其中)?"
)
_INSIDE: Final = frozenset({"里", "里面", "中", "当中", "元里", "元中"})
_TAKEN_SIGN: Final = late(r" of |[里中]|[拿取抽划分挪拨匀腾投用买][出入]?个?[\d一二两三四五六七八九十]")


def taken(text: str) -> list[Quantity]:
    """Return amounts taken out of a sum (100万里拿60万, $60,000 of your $100,000) as shares of it."""
    if _MARKS.search(text) is None:
        return []
    found: dict[int, Quantity] = {}
    for first, last in pairwise(match.start() for match in _SIGN.finditer(text)):
        if last - first > _BEHIND + _AHEAD or _TAKEN_SIGN.search(text, first, last) is None:
            continue
        amounts = [
            amount
            for amount in quantities(text, max(0, first - _BEHIND), min(last + _AHEAD, len(text)))
            if amount.kind == "money" and amount.low == amount.high
        ]
        for one, other in pairwise(amounts):
            between = text[one.end : other.start].rstrip("$£€")
            if one.low < other.low and _WHOLE_BEHIND.fullmatch(between):
                share, start, end = one.low / other.low, one.start, other.end
            elif other.low < one.low and (
                _WHOLE_BEFORE.fullmatch(between)
                or (between in _INSIDE and _PURCHASE.match(text, other.end))
                or (_TAKEN_OUT.fullmatch(between) and is_whole(text, one))
            ):
                share, start, end = other.low / one.low, other.start, other.end
            else:
                continue
            found[start] = Quantity("share", share, share, start, end, one.unit)
            found |= _others(text, max(one, other, key=_AMOUNT), min(one, other, key=_AMOUNT), end)
    return list(found.values())


_AMOUNT: Final = attrgetter("low")


def _others(text: str, whole: Quantity, part: Quantity, end: int) -> dict[int, Quantity]:
    """Return the one amount that, with the part taken out, makes the whole: ... and keep $10,000 in cash."""
    for amount in quantities(text, end, min(len(text), end + _REST_REACH)):
        if amount.kind == "money" and abs(amount.low + part.low - whole.low) <= _TOLERANCE * whole.low:
            share = amount.low / whole.low
            return {amount.start: amount._replace(kind="share", low=share, high=share)}
    return {}


def _holders(label: str) -> int:
    """Return how many holdings get an amount that is labelled so: 四只债基各, 甲和乙各."""
    if _EACH.search(label) is None:
        return 1
    counted = _COUNTED_EACH.search(label)
    return _COUNTS[counted.group(1)] if counted else len(_JOINED.findall(label)) + 1


def _parts(text: str, amounts: Sequence[Quantity], first: int) -> list[Quantity]:
    """Return the amounts behind the first one that add up to it, as shares; none if they do not."""
    whole = amounts[first]
    total, parts = 0.0, []
    for index in range(first + 1, len(amounts)):
        amount = amounts[index]
        if amount.low >= whole.low or amount.start - whole.end > _REACH:
            return []
        label = text[amounts[index - 1].end : amount.start]
        total += amount.low * _holders(label)
        parts.append(
            Quantity(
                "share", amount.low / whole.low, amount.low / whole.low, amount.start, amount.end, amount.unit
            )
        )
        if abs(total - whole.low) <= _TOLERANCE * whole.low:
            return parts if len(parts) > 1 or _holders(label) > 1 else []
        if total > whole.low:
            return []
    return []
