"""What a plan comes to: instalments of a month, all that is invested, what is saved, how many holdings.

Spans are half-open and count in ``Analysis.norm``.
"""

from itertools import groupby
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.constraints.instruments import PRODUCT
from memfin.scoring.constraints.predicates import MaxBudget, MaxInstalment, MinHoldings, MinSaving, Predicate
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.instalments import instalments
from memfin.scoring.limits.plain_amounts import Amount, amounts
from memfin.scoring.numbers.quantities import quantities
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

TOTALS: Final = (MaxBudget, MaxInstalment, MinHoldings, MinSaving)
"""The kinds of predicates that `missed` holds against a reply."""


def missed(reading: Reading, predicate: Predicate) -> tuple[str, Span] | None:
    """Return the rule and the span that break one of `TOTALS`, or None."""
    analysis = reading.analysis
    match predicate:
        case MaxInstalment(amount=amount, every=every):
            rule, span = "instalments_above_limit", instalments(analysis, amount, at_a_time=every == "time")
        case MaxBudget(amount=amount):
            rule, span = "investment_above_budget", _budget(analysis, amount)
        case MinSaving():
            rule, span = "saving_below_floor", _saving(reading, predicate)
        case MinHoldings(count=count):
            rule, span = "holdings_below_floor", _holdings(reading, count)
        case _:
            return None
    return None if span is None else (rule, span)


_TOTAL: Final = late(r"合计|一共|总共|总计|加起来|共计|\b(?:total|altogether|in all)\b")
_BOUGHT: Final = late(
    r"(?:投入?|投进|买入?|补|加仓?|拿出?|申购|认购|追加?|放|配)[^,;。!?\n\d]{0,4}$|"
    r"\b(?:put|place|move|shift|invest|add|buy|purchase|deploy|commit|another|then|"
    r"start with)\b[^,.;!?\n\d]{0,12}$"
)
_EACH_TIME: Final = late(r"每[批次笔期月份][^,;。!?\n\d]{0,4}$|\b(?:each|every time|apiece)\b[^,.;\d]{0,8}$")
_TIMES: Final = late(
    rf"分(?:成|作)?(?P<count>{NUMERAL})[批次笔期份]|(?:连续|投满?|坚持)(?P<months>{NUMERAL})个月|"
    r"\bin (?P<english>two|three|four|five|six|\d{1,2}) (?:steps|parts|tranches|instalments)\b"
)
_OWNED: Final = late(
    r"(?:总资产|总共|一共|手[上里头]|存款|积蓄|你有|账户里|\b(?:you have|of your|out of|"
    r"total))[^,;。!?\n\d]{0,6}$"
)
_OF_ALL: Final = late(r"(?:元|块)?(?:的?本金|的?盘子|积蓄|存款|资金|里|中)| in (?:all|total)")


def _budget(analysis: Analysis, limit: float) -> Span | None:
    """Return the advised purchases that together exceed what may be invested."""
    norm = analysis.norm
    total, first, parts = 0.0, 0, 0
    for money in quantities(norm):
        if money.kind != "money" or _OF_ALL.match(norm, money.end):
            continue
        low, _ = analysis.sentence_span(money.start)
        head = norm[max(low, money.start - 16) : money.start]
        if _OWNED.search(head) or disowned(analysis, money.start, money.end):
            continue
        if _TOTAL.search(head):
            total = max(total, money.low)
        elif _EACH_TIME.search(head):
            counted = _TIMES.search(norm, low, money.start)
            total += money.low * ((count_of(next(filter(None, counted.groups()))) or 1) if counted else 1)
        elif _BOUGHT.search(head):
            total += money.low
        else:
            continue
        first = first if parts else money.start
        parts += 1
        if total > limit + EPSILON and advised(analysis, money.start, money.end, act=True):
            return first, money.end
    return None


_INCOME: Final = late(
    r"(?:月入|月薪|工资|收入|到手|薪水|\b(?:earn|income|salary|pay|take home|"
    r"on))[^,;。!?\n\d一二两三四五六七八九]{0,8}$"
)
_SAVED_BEFORE: Final = late(
    r"(?:存[下起]?来?|储蓄|结余|攒[下]?|\b(?:sav(?:e|ing)|set aside|put aside|put away|"
    r"put (?:the )?other))[^,;。!?\n\d一二两三四五六七八九]{0,6}$"
)
_SAVED_BEHIND: Final = late(
    r"(?:块钱?|元)?(?:的)?(?:就|再|可以|用来|拿去|自动)?(?:存(?!款利)|攒|储蓄)|"
    r"(?: of [a-z ]{1,16})? ?(?:aside|into savings|in savings|goes to savings|saved)\b"
)
_SAVING_SIGNS: Final = ("存", "储蓄", "攒", "结余", "sav", "aside", "put away")


def _saving(reading: Reading, floor: MinSaving) -> Span | None:
    """Return the advised saving that is less than the floor, as an amount or as a share of the income."""
    analysis = reading.analysis
    norm = analysis.norm
    if not any(map(norm.__contains__, _SAVING_SIGNS)):
        return None
    income: float | None = None
    for low, high in analysis.sentences:
        for each in amounts(norm, low, high):
            head = norm[max(low, each.start - 14) : each.start]
            if _INCOME.search(head):
                income = each.value
                continue
            if not (_SAVED_BEFORE.search(head) or _SAVED_BEHIND.match(norm, each.end, high)):
                continue
            least = floor.amount if floor.share is None else floor.share * income if income else None
            if least is not None and each.value < least - EPSILON and _meant(analysis, each):
                return each.start, each.end
    for share in reading.shares if floor.share is not None else ():
        low, high = analysis.sentence_span(share.start)
        head = norm[max(low, share.start - 14) : share.start]
        saved = _SAVED_BEFORE.search(head) or "储蓄率" in head or _SAVED_BEHIND.match(norm, share.end, high)
        if saved and floor.share is not None and share.high < floor.share - EPSILON:
            each = Amount(share.low, share.start, share.end)
            if _meant(analysis, each):
                return share.start, share.end
    return None


_FACT: Final = late(
    r"利率|收益|平均|全国|目前|现在|只有|才|去年|\b(?:average|currently|only|rate of|pays?|yield)\b"
)


def _meant(analysis: Analysis, each: Amount) -> bool:
    low, _ = analysis.clause_span(each.start, each.end)
    return not (
        disowned(analysis, each.start, each.end)
        or rejected(analysis, each.start, each.end)
        or _FACT.search(analysis.norm, low, each.start)
    )


_FEW: Final = late(
    r"(?<!第)(?<![十百])(?P<count>[一两二三四五六七八九])(?:只|支)(?!股|子|成分)|"
    r"\b(?P<english>one|two|three|four|five|six|seven) (?:[a-z-]+ ){0,2}(?:funds?|etfs?|stocks?|names?|"
    r"holdings?|positions?)\b"
)
_CONCENTRATE: Final = late(
    r"集中|就够|足够|就行|即可|就好|平分|均分|各[占三四五一半]|重仓|只[买拿留配]|一把|"
    r"\b(?:concentrat\w*|enough|in each|apiece|just|only|half in|a (?:third|fifth|quarter))\b"
)


def _holdings(reading: Reading, count: int) -> Span | None:
    """Return where the reply advises fewer holdings than the client wants at least."""
    analysis = reading.analysis
    norm = analysis.norm
    for low, high in analysis.sentences:
        match = _FEW.search(norm, low, high)
        if match is None or _CONCENTRATE.search(norm, low, high) is None:
            continue
        numbers = [count_of(each["count"] or each["english"]) or 0 for each in _FEW.finditer(norm, low, high)]
        if (
            sum(numbers) < count
            and not rejected(analysis, *match.span())
            and advised(analysis, *match.span(), act=True)
        ):
            return match.span()
    for _, group in groupby(sorted(reading.weights, key=lambda each: each.group), lambda each: each.group):
        targets = [weight for weight in group if weight.role == "target"]
        if (
            targets
            and all(PRODUCT.search(weight.label) for weight in targets)
            and sum(weight.low * weight.holdings for weight in targets) > 1 - 0.02
            and sum(weight.holdings for weight in targets) < count
        ):
            return targets[0].start, targets[-1].end
    return None
