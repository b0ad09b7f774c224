"""Growth computed exactly: compound interest, regular payments, the way back from a loss.

Decimal numbers, so that the digits are the same on every machine.
"""

import re
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Final, NamedTuple

from memfin.text.forms import MONEY, SHARE, SHARE_SIGNS
from memfin.text.quantities import find, quantities

_MONEY: Final = re.compile(MONEY, re.IGNORECASE)
_RATE: Final = re.compile(
    rf"(?:年化|每年|年收益率?|年利率|利率|复利|收益率?|涨幅)[^，。,0-9%]{{0,6}}(?P<zh>{SHARE})"
    rf"|(?P<en>{SHARE})\s*(?:a year|per year|per annum|annual(?:ly|ized)?|yearly|interest|return)"
    r"|(?:return of|rate of|interest of|growth of|grows? (?:at|by)|earning|at)\s+"
    rf"(?P<en_after>{SHARE})",
    re.IGNORECASE,
)
_MONTHLY: Final = re.compile(
    rf"每个?月[^，。,0-9]{{0,6}}(?P<zh>{MONEY})"
    rf"|(?P<en>{MONEY})\s+(?:a month|per month|monthly|every month|each month)",
    re.IGNORECASE,
)
_MOVE: Final = re.compile(
    r"(?:(?P<up>上?涨|\b(?:up|rises?|gains?|goes up))"
    r"|(?P<down>下?跌|亏损?|\b(?:down|falls?|drops?|loses?|lost|losing|goes down)))"
    rf"(?:了|掉|去|\s|by|of|about){{0,4}}(?P<pct>{SHARE})",
    re.IGNORECASE,
)
_RECOVERY: Final = re.compile(
    r"回本|涨回|涨多少|\b(?:break even|get back|recover|back to where|back to even|make it back)\b",
    re.IGNORECASE,
)
_ASKED: Final = re.compile(r"[?？]|多少|几|算|\b(?:how much|what|calculate|compute)\b", re.IGNORECASE)
_MOST_YEARS: Final = 100
_MONTHS_A_YEAR: Final = 12
_CENT: Final = Decimal("0.01")
_HIGHEST_RATE: Final = 2
"""Annual rates above 200 % are a misreading rather than a question."""


class Growth(NamedTuple):
    """A computed answer: which of the growth phrases says it, and the numbers it needs."""

    phrase: str
    numbers: dict[str, str]
    moves: tuple[tuple[bool, str], ...] = ()


def _shown(value: Decimal) -> str:
    """Return a number with at most two decimals and without trailing zeros."""
    text = f"{value.quantize(_CENT, rounding=ROUND_HALF_UP):f}"
    return text.rstrip("0").rstrip(".")


def _fraction(words: str) -> Decimal:
    share = find(words, "share")
    return Decimal(str(round(share.high, 8))) if share else Decimal(0)


def _sum(words: str) -> Decimal:
    money = find(words, "money")
    return Decimal(str(money.high)) if money else Decimal(0)


def compute_growth(text: str) -> Growth | None:
    """Return the computation that a question states completely, or None."""
    lowered = text.lower()
    if not any(sign in lowered for sign in SHARE_SIGNS) or _ASKED.search(text) is None:
        return None
    with localcontext(Context(prec=120)):
        return _compute(text)


def _compute(text: str) -> Growth | None:
    moves = [(bool(found["up"]), _fraction(found["pct"])) for found in _MOVE.finditer(text)]
    if len(moves) == 1 and not moves[0][0] and _RECOVERY.search(text) and 0 < moves[0][1] < 1:
        loss = moves[0][1]
        gain = loss / (1 - loss)
        return Growth("growth_recovery", {"loss": _shown(100 * loss), "gain": _shown(100 * gain)})
    if len(moves) > 1:
        total = Decimal(1)
        for rises, share in moves:
            total *= 1 + share if rises else 1 - share
        return Growth(
            "growth_sequence",
            {"result": _shown(100 * (total - 1))},
            tuple((rises, _shown(100 * share)) for rises, share in moves),
        )
    return _over_years(text)


def _over_years(text: str) -> Growth | None:
    found = _RATE.search(text)
    spans = [each for each in quantities(text) if each.kind == "duration" and each.low == each.high]
    years = [each.high for each in spans if each.high == int(each.high) and 0 < each.high <= _MOST_YEARS]
    if found is None or not years:
        return None
    rate, count = _fraction(next(filter(None, found.groups()))), int(max(years))
    if rate > _HIGHEST_RATE:
        return None
    if monthly := _MONTHLY.search(text):
        payment = _sum(next(filter(None, monthly.groups())))
        periods = _MONTHS_A_YEAR * count
        each = rate / _MONTHS_A_YEAR
        factor = ((1 + each) ** periods - 1) / each if each else Decimal(periods)
        return Growth(
            "growth_regular",
            {
                "payment": _shown(payment),
                "rate": _shown(100 * rate),
                "years": str(count),
                "paid": _shown(payment * periods),
                "result": _shown(payment * factor),
            },
        )
    amount = _MONEY.search(text)
    principal = _sum(amount[0]) if amount else Decimal(0)
    if not principal:
        return None
    result = principal * (1 + rate) ** count
    return Growth(
        "growth_compound",
        {
            "principal": _shown(principal),
            "rate": _shown(100 * rate),
            "years": str(count),
            "result": _shown(result),
            "gain": _shown(result - principal),
        },
    )
