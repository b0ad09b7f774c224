"""Cash that is there, what a plan takes out of it, and whether enough is left.

Of 18万 of cash 9万 are taken; 18万 of debt first, and of the rest a quarter stays.
Spans count in ``Analysis.norm``.
"""

from operator import attrgetter
from typing import Final, NamedTuple

from memfin.scoring.advice.advised import advised
from memfin.scoring.attribution.disowning import disowned, in_quotes
from memfin.scoring.attribution.told import described
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.amounts import is_whole

Span = tuple[int, int]

_EPSILON: Final = 1e-9
_UNITS: Final = ("万", "元", "$", "¥", "£", "€")
_CASH: Final = (
    r"(?:活期(?:存款)?|现金(?!管理)|活钱|货币基金|货币|余额宝|零钱通|备用金|应急金|"
    r"(?<!大额)(?<!定期)存款|零钱)"
)
_STOCK: Final = late(
    rf"(?:{_CASH}|账上|账面上|卡里|手头|手里)(?!占|比例|不|要|至少|底线|还?贷)(?:里|中|上|头)?"
    r"(?:目前|现在|手头|总共|一共|共|约|还|只|就|你)*"
    r"(?:有|是|为|躺着|放着|趴着|存着|:|余额)?(?:大?约|差不多)?$|"
    r"\b(?:cash|savings|checking(?: account)?|money market fund|emergency fund)(?: account)? "
    r"(?:stands at|is|totals|comes to|holds|has|of)(?: about| around)? [$¥£€]?$"
)
_STOCK_BEHIND: Final = late(
    rf"(?:元|块)?的?(?:{_CASH})(?!里?的?(?:投|买))|(?:元|块)?(?:躺|趴|放|存)在(?:{_CASH}|账上|卡里)|"
    r" (?:is )?(?:in|sitting in|held in) (?:your |the |a )?(?:savings|cash|checking|bank|current account|"
    r"money market)|"
    r" (?:of|in) cash\b"
)
_HAS: Final = late(
    r"有|是|共|只|账上|手头|手里|卡里|现在|目前|躺|趴|你|活期|现金|存款|货币|\b(?:have|has|hold|stands|is|"
    r"your|of the)\b"
)
_TAKE: Final = late(
    r"(?:用(?!途|作)|拿出?|拿[去来]|抽出?|抽|用(?!途|作)|挪出?|挪|划出?|转出?|转|腾出?|动用|取出?|拨出?|投入?|买入?|还掉?|还|补|"
    r"匀出?|分出?|拿走|用掉?|花掉?)"
    r"[^,。;!?\n\d一二两三四五六七八九十百后仍剩]{0,6}$|"
    r"\b(?:put|putting|move|moving|shift|shifting|take|taking|use|using|invest|investing|place|placing|"
    r"spend|transfer|switch)"
    r"(?: about| around| some)? [$¥£€]?$"
)
_TAKEN: Final = late(r"(?:元|块)?(?:换成|拿?去买|拿去|用来买|挪[到去]|转[去到成]|买|投)")
_KEEPS: Final = late(
    rf"(?:元|块)?[^,。;!?\n]{{0,6}}?(?:继续)?(?:放|留|存|转|进|到|在)[^,。;!?\n]{{0,4}}{_CASH}|(?:元|"
    rf"块)?(?:留着|不动|备用|做备用|应急)|"
    r"[^.,;!?\n]{0,10}\b(?:in|into) (?:cash|savings|checking|a money market)"
)
_FROM_OTHER: Final = late(
    r"从[^,。;!?\n]{0,14}(?:债|股|基金(?<!货币基金)|理财|存单|定期|保险)[^,。;!?\n]{0,6}$"
)
_KEEP_HEAD: Final = late(r"(?:留|剩|另外|其余|保留|至少|底线|不低于|只能|最多|上限|还能)[^,。;!?\n\d]{0,6}$")
_OTHERS: Final = late(
    r"有人|别人|朋友|同事|邻居|客户|(?<!其)他们?|她|网上|如果|要是|若|不建议|不合适|不要|不能|"
    r"(?<![分个特类])别(?!的|让|闲|浪费|处)|就破|破了|跌破|"
    r"低于你|越线|可惜|\b(?:if|friend|someone|he|she|they|would (?:not|break)|not|break\w*|below your)\b"
)
_ADVICE: Final = late(
    r"建议|我|不妨|可以|意见|方案|先|\b(?:(?:i|we) (?:would|suggest|recommend)|let's|you (?:could|can|"
    r"should))\b"
)
_INCOME: Final = late(
    r"(?:每月|月薪|工资|年薪|收入|奖金|利息|收益|房贷|月供|开支|支出|起投|门槛)[^,。;!?\n]{0,6}$"
)
_TOTAL: Final = late(
    r"(?:总资产|总资金|总盘子|全部资产|全部|家产|家底|资产)(?:是|为|有|共|一共|约|里|合计)*$|"
    r"(?:总共|一共|合计)(?:有|约)*$|\b(?:of|out of|from) (?:your|the) [$¥£€]?$"
)
_TOTAL_BEHIND: Final = late(r"(?:元|块)?的?(?:总资产|资产|家产|家底|总盘子|资金)")
_PART_OF: Final = late(r"占[^,。;!?\n\d]{0,8}$")
_TURNS: Final = late(
    r"(?:会|就|要)?(?:低于|不足|不到|少于|跌破|破)[^。;!?\n]{0,12}(?:底线|要求|所以)|所以(?:一分)?(?:不动|"
    r"别动)"
)
_REACH: Final = 24


class _Stock(NamedTuple):
    """The cash that a reply says is there, all the money, and what it takes of the cash."""

    cash: float
    whole: float | None
    taken: float
    span: Span


def cash_short(analysis: Analysis, amount: float) -> Span | None:
    """Return what is taken out of the cash there is, where less than the amount is left."""
    stock = _stock(analysis)
    if stock is not None and stock.cash - stock.taken < amount - _EPSILON:
        return stock.span
    return of_rests(analysis, amount)


def cash_share_short(analysis: Analysis, floor: float) -> Span | None:
    """Return what is taken out of the cash there is, where less than that share of all the money is left."""
    stock = _stock(analysis)
    if stock is None or stock.whole is None or stock.whole < stock.cash:
        return None
    return stock.span if stock.cash - stock.taken < floor * stock.whole - _EPSILON else None


def _stock(analysis: Analysis) -> _Stock | None:
    norm = analysis.norm
    if not any(map(norm.__contains__, _UNITS)):
        return None
    cash, taken, whole, first, last = 0.0, 0.0, None, 0, 0
    for each in few(analysis, quantities(norm), attrgetter("start")):
        if each.kind != "money" or each.low != each.high:
            continue
        low, high = analysis.sentence_span(each.start)
        head = max(low, each.start - _REACH)
        if _INCOME.search(norm, head, each.start) or _OTHERS.search(norm, low, high):
            continue
        take = _TAKE.search(norm, head, each.start) or _TAKEN.match(norm, each.end, high)
        if _PART_OF.search(norm, head, each.start) or (
            not take
            and not _STOCK_BEHIND.match(norm, each.end)
            and (_TOTAL.search(norm, head, each.start) or _TOTAL_BEHIND.match(norm, each.end))
        ):
            whole = max(whole or 0.0, each.low)
        elif not taken and not take and _is_stock(norm, each, head):
            cash += each.low
        elif (
            take
            and cash
            and not _FROM_OTHER.search(norm, head, each.start)
            and not _KEEP_HEAD.search(norm, head, min(take.start(), each.start))
            and not _KEEPS.match(norm, each.end, high)
            and _meant(analysis, each)
        ):
            first = first if taken else each.start
            taken, last = taken + each.low, each.end
    if not taken or taken > cash + _EPSILON:
        return None
    return _Stock(cash, whole, taken, (first, last))


def _is_stock(norm: str, each: Quantity, head: int) -> bool:
    if _KEEP_HEAD.search(norm, head, each.start):
        return False
    if _STOCK.search(norm, head, each.start):
        return True
    return _STOCK_BEHIND.match(norm, each.end) is not None and _HAS.search(norm, head, each.start) is not None


def _meant(analysis: Analysis, each: Quantity) -> bool:
    """Say whether the reply itself advises to take the sum."""
    norm = analysis.norm
    low, high = analysis.sentence_span(each.start)
    if disowned(analysis, each.start, each.end) or in_quotes(analysis, each.start, each.end):
        return False
    if described(analysis, each.start) or _TURNS.search(norm, each.end, high):
        return False
    return _ADVICE.search(norm, low, high) is not None or advised(analysis, each.start, each.end, act=True)


_SPENT_FIRST: Final = late(
    r"(?:先)?(?:还掉?|还清|付掉?|付|交|拿|扣掉?|除去|留给|用)[^,。;!?\n\d一二两三四五六七八九十百]{0,8}$|"
    r"\b(?:pay off|pay|repay|clear|use|set aside)\b[^.,;!?\n\d]{0,16}$"
)
_REST_PART: Final = late(
    r"(?:剩下|剩余|其余|余款|剩)的?(?:钱|资金|部分)?(?:里|"
    r"中)?的?(?:拿出?)?(?P<parts>[二三四五六七八九十])分之(?P<count>[一二两三四五六七八九])"
    r"(?!.{0,2}(?:留|放活|放货|存活|做备))"
)
_LAST_CASH: Final = late(
    rf"(?:其余|剩下|剩余|最后|另外?)?(?:的)?(?:那)?(?:(?P<parts>[二三四五六七八九十])分之(?P<count>[一"
    rf"二两三四五六七八九])|的)?"
    rf"(?:就|都|则|仍|继续|再|先)*(?:留|放|存|进|转|给|做|当|买)[^,。;!?\n]{{0,4}}(?:{_CASH}|应急|备用)"
)
_DIGITS: Final = "零一二三四五六七八九十"


def of_rests(analysis: Analysis, amount: float) -> Span | None:
    """Return the last part that stays as cash, debts paid and a part of the rest invested, if too small."""
    norm = analysis.norm
    part = _REST_PART.search(norm) if "分之" in norm else None
    if part is None:
        return None
    last = _LAST_CASH.search(norm, part.end(), part.end() + 60)
    money = [each for each in quantities(norm, 0, part.start()) if each.kind == "money"]
    low, high = analysis.sentence_span(part.start())
    if last is None or not money or not (is_whole(norm, money[0]) or _OWNED.search(norm, 0, money[0].start)):
        return None
    spent = sum(
        each.low for each in money[1:] if _SPENT_FIRST.search(norm, max(0, each.start - 14), each.start)
    )
    share = 1 - _fraction(part["parts"], part["count"])
    if last["parts"]:
        share = _fraction(last["parts"], last["count"])
    kept = (money[0].low - spent) * share
    if kept >= amount - _EPSILON or _OTHERS.search(norm, low, high):
        return None
    if disowned(analysis, *last.span()) or described(analysis, part.start()):
        return None
    return last.span()


_OWNED: Final = late(r"(?:手头|手里|手上|有|一共|总共|共|账上|卡里|总资金|总资产)(?:现在|目前|约|是)*$")


def _fraction(parts: str, count: str) -> float:
    return (2 if count == "两" else _DIGITS.index(count)) / _DIGITS.index(parts)


_REST_SIGNS: Final = compile_pattern(r"剩|其余|剩下|零头|多出来|rest|remain|the balance|left")


def may_leave_cash(norm: str) -> bool:
    """Say whether a rest may stay as cash, other than as a part of what is left after other sums."""
    return _REST_SIGNS.search(norm) is not None and not told_by_rests(norm)


def told_by_rests(norm: str) -> bool:
    """Say whether what stays as cash is told as a part of what is left after other sums."""
    part = _REST_PART.search(norm) if "分之" in norm else None
    return part is not None and _LAST_CASH.search(norm, part.end(), part.end() + 60) is not None
