"""Constraints that count: changes a year, products, sums of money, the domestic levels of risk."""

import re
from typing import Final, Literal

from memfin.scoring.constraints.bans import NEGATIVE
from memfin.scoring.constraints.predicates import (
    MaxBudget,
    MaxHoldings,
    MaxInstalment,
    MaxLoss,
    MaxPosition,
    MaxRiskLevel,
    MaxTurnover,
    MinHoldings,
    MinSaving,
    Predicate,
)
from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.numbers.quantities import Quantity, bound, quantities
from memfin.scoring.patterns.expressions import late

NUMERAL: Final = r"[一二两三四五六七八九十\d]{1,3}"
_ENGLISH_COUNTS: Final = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "once": 1,
    "twice": 2,
    "a": 1,
}
_A_YEAR: Final = {
    "天": 250.0,
    "日": 250.0,
    "周": 52.0,
    "星期": 52.0,
    "月": 12.0,
    "季": 4.0,
    "半年": 2.0,
    "年": 1.0,
    "day": 250.0,
    "week": 52.0,
    "month": 12.0,
    "quarter": 4.0,
    "year": 1.0,
}
_TURNOVER: Final = late(
    rf"(?:每|一|1)?个?(?P<period>天|日|周|星期|月|季|半年|年)度?[^,;]{{0,4}}?(?:最多|至多|顶多|不超过|别超过|"
    rf"不高于|只|限)[^,;]{{0,4}}?"
    rf"(?:[换调动操买卖交][^,;]{{0,4}}?(?P<times>{NUMERAL})[次回]|(?P<times2>{NUMERAL})[次回])"
)
_TURNOVER_ENGLISH: Final = late(
    r"\b(?:rebalanc|trad|switch|chang|adjust)\w*\b[^,;.]{0,24}?\b(?P<times>once|twice|"
    r"\w+(?= times))(?: times)? "
    r"(?:a|an|per|each|every) (?P<period>day|week|month|quarter|year)"
)
_CHANGES: Final = late(r"[换调动]|操作|交易|买卖|进出")
_KINDS: Final = r"(?:产品|基金|标的|品种|持仓|股票|个股|etf|东西)"
_AT_MOST: Final = (
    r"(?:最多|至多|顶多|(?:不|别|勿|不要|不能|不想|不得)超过?|不高于|(?<!不)少于|控制在|"
    r"限制在|≤|<=|上限:?为?)"
)
_HOLDINGS: Final = late(
    rf"{_AT_MOST}(?:只|同时)?(?:能|可)?(?:持有|配|买|拿|留)?(?P<count>{NUMERAL})(?:只|个|支|款|种|"
    rf"样){_KINDS}|"
    rf"(?:{_KINDS}|持有|总数|数量|只数|一共|总共)[^,;%成万元]{{0,6}}{_AT_MOST}(?P<count2>{NUMERAL})"
    rf"(?:[只支款种样]|个(?!月|交易|点|百))|"
    rf"^(?:只|就)(?:想|能|愿意?)?(?:买|配|拿|持有|要)(?P<count3>{NUMERAL})[只支款种]{_KINDS}|"
    rf"^[^,;]{{0,4}}{_AT_MOST}(?P<count4>{NUMERAL})[只支款](?:以内)?$|"
    rf"^(?:{_KINDS}|持仓|控制在|总共)*(?P<count5>{NUMERAL})[只支款](?:{_KINDS})?(?:以内|封顶|为限)$"
)
_THINGS: Final = (
    r"(?:different |separate )?(?:funds?|products?|holdings?|positions?|etfs?|securities|stocks)\b"
)
_HOLDINGS_ENGLISH: Final = late(
    rf"\b(?:no more than|at most|max(?:imum)?(?: of)?|up to|not more than|(?:stick|keep (?:it|me)) to|"
    rf"(?P<below>fewer than|less than)) (?P<count>\w+) {_THINGS}|"
    rf"^(?:only )?(?P<count2>\w+) {_THINGS},? (?:max(?:imum)?|at most|only|or (?:fewer|less)|tops)\b"
)
_INSTALMENT: Final = late(
    r"每个?月[^,;]{0,10}(?:定投|投|存|买)|月(?:定投|投入)|定投[^,;]{0,6}(?:每|一)个?月|\bmonthly (?:budget|"
    r"limit)\b|"
    r"\b(?:invest|put|spend|contribut)\w*\b[^;]{0,24}\b(?:a|per|each|every) month|\bmonthly (?:contribution|"
    r"investment|plan|"
    r"saving)|"
    r"\binvest\w*\b[^,;]{0,16}\b(?:a|per|each|every) month|\bmonthly (?:regular )?investing\b|"
    r"\b(?:a|per|each|every) month (?:in|into|of|for|on) (?:the |my |regular |monthly |automatic )*"
    r"(?:invest\w*|plans?|funds|orders)\b"
)
_AT_LEAST: Final = late(
    r"至少|起码|最少|不(?:得|能|要|可)?(?:少|低)于|\bat least\b|\bminimum\b|\bno (?:less|fewer) than\b|"
    r"\bmore than\b(?<!no more than)"
)
_LEVEL: Final = late(r"(?<![a-z])r([1-5])(?!\d)")
_LEVEL_HIGHEST: Final = late(
    r"^(?:只|仅)|\bonly\b|最高|以内|及以下|以下|不超过|不高于|上限|at most|up to|or (?:below|lower)|maximum"
)


def counted_limit(norm: str) -> Predicate | None:
    """Return the predicate of a normalized text that limits a count or instalments, or None."""
    return (
        _saving(norm)
        or _fewest(norm)
        or _turnover(norm)
        or _holdings(norm)
        or _instalment(norm)
        or _risk_level(norm)
        or _budget(norm)
        or _money_limit(norm)
    )


_FEWEST: Final = late(
    rf"(?:至少|起码|最少|不少于|不低于)[^,;]{{0,8}}?(?P<count>{NUMERAL})(?:只|支|款|种|个(?=产品|基金|标的|"
    rf"品种)){_KINDS}?(?:以上)?$|"
    rf"(?:分散|持有|配|买)[^,;]{{0,4}}?(?P<count2>{NUMERAL})[只支款种]{_KINDS}?以上$"
)
_FEWEST_ENGLISH: Final = late(
    rf"\b(?:at least|no fewer than|minimum(?: of)?|not fewer than) (?P<count>\w+) {_THINGS}"
)


def _fewest(norm: str) -> MinHoldings | None:
    match = _FEWEST.search(norm) or _FEWEST_ENGLISH.search(norm)
    if match is None:
        return None
    count = count_of(next(value for value in match.groups() if value is not None))
    return None if count is None else MinHoldings(count)


_SAVING: Final = late(
    r"储蓄率|结余率|存[下钱起]|(?:每个?月|月收入|收入|工资)[^,;]{0,8}存(?!款|单)|\bsav(?:e|ings? rate)\b"
)


def _saving(norm: str) -> MinSaving | None:
    """Read the least that is to be saved of an income: a share of it, or an amount a month."""
    if _SAVING.search(norm) is None or not (_AT_LEAST.search(norm) or "储蓄率" in norm or "rate" in norm):
        return None
    found = quantities(norm)
    for each in found:
        if each.kind == "share":
            return MinSaving(share=round(each.low, 6))
    money = next((each for each in found if each.kind == "money"), None)
    return None if money is None else MinSaving(amount=round(money.low, 6))


_BUDGET: Final = late(
    r"(?:总|一共|合计|全部|累计|最多)[^,;]{0,6}(?:投入|投资|预算|资金)|(?:投入|投资)(?:的?本金|总额|总量|"
    r"资金)|预算|"
    r"\b(?:total|overall) (?:budget|investment|outlay)\b|\bbudget (?:of|is|at)\b|\binvest (?:no more than|"
    r"at most|up to)\b"
)


def _budget(norm: str) -> MaxBudget | None:
    """Read the most that is to be invested altogether."""
    if (
        _BUDGET.search(norm) is None
        or _AT_LEAST.search(norm) is not None
        or "保费" in norm
        or "premium" in norm
    ):
        return None
    money = next((each for each in quantities(norm) if each.kind == "money"), None)
    return None if money is None or _ONE.search(norm) or _LOSS.search(norm) else MaxBudget(_whole(money))


def count_of(word: str) -> int | None:
    """Return the value of a count in digits, Chinese numerals or English."""
    if word in _ENGLISH_COUNTS:
        return _ENGLISH_COUNTS[word]
    value = None if word.isascii() and not word.isdecimal() else chinese_number(word)
    return None if value is None else int(value)


def changes_a_year(times: str, period: str) -> float | None:
    """Return how often a year so many times a period is."""
    count = count_of(times)
    return None if count is None else count * _A_YEAR[period]


def _turnover(norm: str) -> MaxTurnover | None:
    match = _TURNOVER.search(norm) if _CHANGES.search(norm) else _TURNOVER_ENGLISH.search(norm)
    if match is None:
        return None
    found = match.groupdict()
    times = changes_a_year(found["times"] or found.get("times2") or "", found["period"])
    return None if times is None else MaxTurnover(times)


def _holdings(norm: str) -> MaxHoldings | None:
    match = _HOLDINGS.search(norm) or _HOLDINGS_ENGLISH.search(norm)
    if match is None:
        return None
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    count = count_of(next(value for name, value in found.items() if name != "below"))
    return None if count is None else MaxHoldings(count - ("below" in found))


_LOSS: Final = late(r"亏|赔(?!率|付)|损失|回撤|回落|跌|缩水|\blos(?:s|ses|e|ing)\b|\bdown\b|drawdown")
_ONE: Final = late(
    r"单[笔只个支一]|每[笔只个]|一[只笔个](?:基金|产品|股票)?|同一[家只个]|任[一何]|single|\bany one\b|"
    r"\bper (?:fund|holding|position|product|purchase|trade)|\beach\b|at a time"
)
_LOSS_BOUND: Final = late(
    r"最[多大高]|至多|顶多|不|别|勿|上限|以内|受不了|can't|cannot|no more|more than|most|max|limit|under|"
    r"\bnever\b"
)


_CAPPED: Final = late(
    r"最[多高]|至多|顶多|(?:不|别|勿)[^,;]{0,3}超|上限|以内|no more|at most|max|limit|under|up to"
)


def _money_limit(norm: str) -> MaxLoss | MaxPosition | None:
    """Read an amount that losses, or one holding or purchase, must not exceed."""
    one, loss = _ONE.search(norm), _LOSS.search(norm)
    if one is None and loss is None:
        return None
    found = quantities(norm)
    money = next((each for each in found if each.kind == "money"), None)
    if money is None or any(each.kind == "share" for each in found):
        return None
    if loss is not None and _LOSS_BOUND.search(norm):
        return MaxLoss(_whole(money))
    capped = one is not None and (_CAPPED.search(norm) or bound(norm, money) == "at_most")
    return MaxPosition(_whole(money)) if capped else None


def _whole(money: Quantity) -> float:
    return round(money.high, 6)


_A_TIME: Final = late(
    r"(?:每一?[期次笔]|单[期次]|一[期次])[^,;]{0,4}(?:定投|扣款?)|(?:定投|扣款)[^,;]{0,4}(?:每一?[期次笔]|"
    r"单[期次]|一[期次])|"
    r"\b(?:each|per|every) (?:instalment|installment|contribution|payment)"
)


def _instalment(norm: str) -> MaxInstalment | None:
    at_a_time = _A_TIME.search(norm) is not None
    if not (at_a_time or _INSTALMENT.search(norm)) or _AT_LEAST.search(norm) is not None:
        return None
    every: Literal["month", "time"] = "time" if at_a_time else "month"
    money = next((each for each in quantities(norm) if each.kind == "money"), None)
    if money is not None:
        return MaxInstalment(round(money.high, 6), every)
    bare = re.search(r"\d[\d,]{2,}", norm)
    return None if bare is None else MaxInstalment(float(bare.group().replace(",", "")), every)


def _risk_level(norm: str) -> MaxRiskLevel | None:
    for clause in re.split(r"[,;。]", norm):
        levels = [int(level) for level in _LEVEL.findall(clause)]
        if not levels:
            continue
        if _LEVEL_HIGHEST.search(clause):
            return MaxRiskLevel(max(levels))
        if NEGATIVE.search(clause):
            return MaxRiskLevel(min(levels) - 1)
    return None
