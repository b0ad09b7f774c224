"""Budgets in money and months: reserves for so many months of spending, premiums of an insurance.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.attribution.told import described
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.plain_amounts import amounts
from memfin.scoring.limits.reserves import CASH_AMOUNT
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

_PLAN_HEAD: Final = late(r"建议|方案|推荐|安排|可以这样|配置|plan|suggest|recommend|(?:i|we)(?:'d| would)")
_TOGETHER: Final = late(r"合计|一共|总共|总计|加起来|全年|total")
_LIMIT_WORD: Final = late(r"上限|预算|以内|不超过|限额|控制在|budget|limit|cap\b|under|within")
_CASH_AFTER: Final = late(
    r"(?:的)?(?:现金|活期|备用金|应急| in (?:cash|savings|the bank)| cash| (?:buffer|cushion|reserve|"
    r"set aside))"
)
_ENOUGH_CASH: Final = late(
    r"就可以|就能|便可|足矣|为宜|就好|就成|就够|足够|就行|即可|够了|够用|is (?:plenty|enough)|will do|is fine"
)
_MONTHLY: Final = late(
    r"(?:每?个?月(?:的)?(?:支出|开支|开销|花销|花费|生活费|要花|固定支出)|(?:支出|开支|开销)每?月|"
    r"monthly (?:spending|expenses|costs)|"
    r"(?:spend|expenses (?:of|run|are|at)))[^,。;!?\n]{0,10}$"
)
_BARE_SPENDING: Final = late(
    r"(?:每个?月|月均|一个月|月(?:支出|开支|开销|花销))[^,;。!?\n\d]{0,8}?(\d{1,2},\d{3}|"
    r"\d{3,6})(?![\d%万元块.])"
)
_A_MONTH: Final = late(
    r"\s*(?:元|块)?(?:的)?(?:月?(?:支出|开支|开销)|/月|一个?月|每月| ?(?:a|per|each|every) month)"
)
_FOR_LIVING: Final = late(
    r"[^,。;!?\n]{0,4}(?:生活费|开支|开销|支出|花销|应急|备用|现金|的量|expenses|spending|living costs|"
    r"in cash|reserve)"
)
_KEEPS: Final = late(
    r"[留剩存备够]|保留|账上|手头|现金|备用金|应急|\b(?:keep|leave|hold|reserve|cash|buffer|"
    r"set aside|put aside|save|park)\b"
)
_SETS_ASIDE: Final = late(
    r"[\s,]*(?:先|再|就|那就|建议|可以|另)?(?:留|备|预留|存|拿)(?!学)|\s*(?:set aside|put aside|keep|"
    r"leave|hold|park|save)\b"
)
_MORE_MONTHS: Final = late(
    r"不(?:够|足|到)|补[足到]|凑[足到]|只有|才|目前|现在|\b(?:short of|only|currently|until)\b"
)


def cash_months(reading: Reading, months: float) -> Span | None:
    """Return the advised reserve that covers fewer months of spending than the floor."""
    analysis = reading.analysis
    norm = analysis.norm
    found = [each for each in quantities(norm) if each.kind in ("money", "duration")]
    bare = _BARE_SPENDING.search(norm)
    spending = None if bare is None else float(bare.group(1).replace(",", ""))
    for quantity in found:
        low, high = analysis.sentence_span(quantity.start)
        head = norm[max(low, quantity.start - 24) : quantity.start]
        if quantity.kind == "money":
            if _MONTHLY.search(head) or _A_MONTH.match(norm, quantity.end):
                spending = quantity.high
                continue
            kept = CASH_AMOUNT.search(head) or _CASH_AFTER.match(norm, quantity.end, high)
            if not kept or spending is None or quantity.high >= spending * months - EPSILON:
                continue
        elif not (
            _FOR_LIVING.match(norm, quantity.end, high)
            and (
                _KEEPS.search(norm, max(low, quantity.start - 16), quantity.start)
                or _ENOUGH_CASH.search(norm, quantity.end, high)
            )
            and quantity.high * 12 < months - EPSILON
        ):
            continue
        if (
            _MORE_MONTHS.search(head)
            or disowned(analysis, quantity.start, quantity.end)
            or described(analysis, quantity.start)
        ):
            continue
        if _SETS_ASIDE.match(norm, analysis.clause_span(quantity.start, quantity.end)[0]):
            return quantity.start, quantity.end
        if advised(analysis, quantity.start, quantity.end, act=True) or _ENOUGH_CASH.search(
            norm, quantity.end, high
        ):
            return quantity.start, quantity.end
    return None


_PREMIUM: Final = late(
    r"(?:保费|年交|年缴|每年交|每年缴|趸交|(?:重疾|医疗|意外|寿|年金|护理|防癌)险?(?!保额)(?:一年|每年|"
    r"年)?约?(?=[^,]{0,2}$)|"
    r"premiums?)(?!豁免|[^,。;]{0,4}(?:缴|"
    r"交)[,、])[^,、。;!?\n\d]{0,10}$"
)
_COVER: Final = late(r"万?元?的?(?:保额|免赔|赔付|额度)")
_PREMIUM_AFTER: Final = late(
    r"\s*(?:的?(?:年)?保费|(?: in)? premiums?|(?: a year)? (?:for|of|in) (?:the )?premiums?)"
)
_FOR_TWO: Final = late(r"各(?:买|配|来|投保)|每人(?:买|配|一份)|两人都|both of you|each of you")
_FALL_DUE: Final = late(r"原来|目前|已交|现有|市面|同类|之前|currently")


def premium(analysis: Analysis, limit: float) -> Span | None:
    """Return the advised insurance premium, or the last of those that together exceed the limit."""
    norm = analysis.norm
    if "保" not in norm and "年交" not in norm and "年缴" not in norm and "premium" not in norm:
        return None
    total = 0.0
    money_found = [each for each in quantities(norm) if each.kind == "money"]
    # 重疾险一年8000,医疗险600: a premium is often named without its unit.
    money_found += [
        Quantity("money", each.value, each.value, each.start, each.end, "")
        for each in amounts(norm, 0, len(norm))
        if not any(money.start <= each.start < money.end for money in money_found)
        and not _COVER.match(norm, each.end)
    ]
    for money in sorted(money_found, key=lambda each: each.start):
        low, high = analysis.sentence_span(money.start)
        head = norm[max(low, money.start - 20) : money.start]
        if not (_PREMIUM.search(head) or _PREMIUM_AFTER.match(norm, money.end, high)) or _FALL_DUE.search(
            head
        ):
            continue
        if disowned(analysis, money.start, money.end) or rejected(analysis, money.start, money.end):
            continue
        if _LIMIT_WORD.search(norm, max(low, money.start - 14), min(high, money.end + 10)):
            continue
        if (
            money.high > limit + EPSILON
            and not advised(analysis, money.start, money.end, act=True)
            and not _planned(analysis, money.start)
        ):
            continue
        if _FOR_TWO.search(norm, low, money.start):
            total += money.high
        total += money.high if _TOGETHER.search(head) is None else max(0.0, money.high - total)
        if total > limit + EPSILON:
            return money.start, money.end
    return None


def _planned(analysis: Analysis, position: int) -> bool:
    """Say whether the list or table around the position is introduced as a plan."""
    return _PLAN_HEAD.search(analysis.lead_in(position)) is not None
