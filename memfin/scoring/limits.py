"""Arithmetic of allocations: caps on single holdings and classes, cash floors, all-in orders.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from memfin.scoring.advice import advised
from memfin.scoring.allocations import alternatives, is_part
from memfin.scoring.language import Analysis
from memfin.scoring.predicates import AssetClassCap, CashFloor, SingleAssetCap
from memfin.scoring.quantities import quantities
from memfin.scoring.reading import Reading
from memfin.scoring.refusal import disowned
from memfin.scoring.sectors import sector_cap
from memfin.scoring.vocabulary import load_vocabulary
from memfin.scoring.weight import Weight

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

EPSILON: Final = 1e-9
"""Shares that differ by less are the same; sums of fractions are not exact."""
_FULL: Final = 0.985
_SAME: Final = 0.006
_CLAUSE: Final = r"[^,:;。!?\n]"

_PART_OF_ANYTHING: Final = frozenset(
    {
        "统统",
        "一股脑",
        "全部换",
        "全换",
        "都换成",
        "全拿去",
        "都拿去",
        "全部拿去",
        "全部转",
    }
)
"""All-in wordings that may speak of one holding only (消费基金全部换成国债): they need the word for money."""
_WHOLE: Final = frozenset({"整个账户", "全部仓位"})
_WHOLE_DEAL: Final = re.compile(
    rf"^{_CLAUSE}{{0,3}}(?:都|全|统统|一次性|直接|今天|马上)*(?:换|买|押|投|打|冲|转|配|梭|砸|"
    rf"上(?![的下述涨升]))"
)
_MONEY: Final = re.compile(r"(?:钱|资金|积蓄|存款|家底|身家|本金|手里|手头|账户)[^,。]{0,4}$")
_ALL_IN_DEAL: Final = re.compile(
    rf"^[成为到入就]|^{_CLAUSE}{{0,8}}?(?:基金|指数|etf|股票|黄金|债|买|押|上|进|杀|投|换|冲|干|拿|放|"
    rf"转入|配|持|加|"
    rf"into|on|in)|^$|^[,。!]"
)
_ALL_IN_DESCRIBED: Final = re.compile(
    rf"^{_CLAUSE}{{0,40}}? (?:is|are|was|would be) (?:gambl|a (?:gamble|bet|mistake|bad)|reckless|how|what|"
    rf"risky|not)|"
    rf"^{_CLAUSE}{{0,8}}(?:的风险|会|意味|等于|往往|容易|风险|不是|是一种|属于|操作方式|的人)"
)
_INSTRUMENT: Final = re.compile(
    r"etf(?!s)|lof|联接|基金[甲乙丙丁戊abcde一二三四五1-9]|甲基金|乙基金|丙基金|丁基金|a基金|b基金|"
    r"c基金|\b(?:the|an?|this|that|your) (?:[a-z-]+ ){0,3}?(?:tracker|etf)\b|"
    r"一只(?<![五三两几四六多]一只)|单只|单一|这只|同一只|某只|那只|第一只|任一|60\d{4}|00\d{4}|"
    r"30\d{4}|68[89]\d{3}|(?<!\d)0\d{4}(?!\d)|51\d{4}|15\d{4}|16\d{4}|one\b|a single\b|"
    r"沪深300|中证500|中证1000|创业板|科创50|上证50|a500|恒生科技|纳斯达克100?|标普500|s&p ?500|"
    r"csi ?300|nasdaq|黄金|比特币|bitcoin|gold\b|白银|"
    r"5[1268]\d{4}|它(?!们)|这家|那家|该公司|this (?:one|fund|stock|etf)|that (?:one|"
    r"fund|stock)|"
    r"每只|各|each\b"
)
_FUND_INSTRUMENT: Final = re.compile(r"基金|etf|债基|lof|联接|fund\b|tracker\b")
_ANY_INSTRUMENT: Final = re.compile(f"{_INSTRUMENT.pattern}|{_FUND_INSTRUMENT.pattern}")


@cache
def _company() -> re.Pattern[str]:
    """Return a pattern of the names of single companies."""
    names = sorted(map(re.escape, load_vocabulary().companies), key=len, reverse=True)
    return re.compile(rf"(?<![a-z])(?:{'|'.join(names)})(?![a-z])")


@cache
def _single(scope: str) -> re.Pattern[str]:
    """Return what may name a single holding to a cap of that scope."""
    named = _INSTRUMENT if scope == "asset" else _ANY_INSTRUMENT
    return re.compile(f"{named.pattern}|{_company().pattern}")


_NEARBY: Final = 40
_EACH: Final = re.compile(r"各|每只|each|apiece|[一每]只|[一每]个")
_PLURAL: Final = re.compile(
    r"(?:[两二三四五六七八九十几多\d]|若干|数)(?:只|个|支)|/|等(?:多|几|权)|类|、|\b(?:two|three|four|"
    r"five|six|several|some|many)\b|funds\b|etfs\b|stocks\b|bonds\b|组合|权益|一篮子|层|\(如|或|"
    r"[^中]和|与"
)
_MOST: Final = re.compile(r"大部分|绝大部分|大半|绝大多数|多数资金|most of (?:your|the)|the bulk of")
_CASH_WORD: Final = re.compile(
    r"现金|备用金|应急|活期|存款|货币基金|流动性|零钱|cash|emergency|liquid|money market|deposit"
)
_NO_CASH: Final = re.compile(
    r"(?:现金|余钱|活钱|钱)[^,。;]{0,3}(?:不用|不必|无需|没必要|别)[^,。;]{0,2}留|(?:不用|不必|无需|"
    r"没必要|别)(?:再)?留[^,。;]{0,4}(?:现金|余钱|"
    r"活钱)|"
    r"\b(?:no|zero|without any) cash\b|\bno need (?:for|to (?:keep|hold)) (?:any )?cash\b"
)
CASH_AMOUNT: Final = re.compile(
    r"(?:现金|活期|备用金|应急金?|账上|手头|手里|卡里|存款|cash)[^,。;!?\n]{0,8}$|(?:留|保留|剩的?|剩下|"
    r"留出|留下|keep|leave|hold)[^,。;!?\n]{0,6}$|\b(?:keep|leave|hold|park) (?:the |your |"
    r"a )?(?:other |last |"
    r"remaining |final )?$"
)
_INVESTED: Final = re.compile(r"(?:投入|投进|拿出|拿|买|投|买入|申购|认购|投资|invest|put)[^,。;!?\n]{0,6}$")
_KEPT: Final = re.compile(r"[留剩][下出着足]?[^,。;!?\n]{0,3}$|\b(?:keep|leave)\b[^,.;!?\n]{0,6}$")
_OWNED: Final = re.compile(
    r"(?:总共|一共|总盘子|总额|合计|盘子|共有|总资产|手里|手上|手头|积蓄|存款|您有|共|全部家当|"
    r"total of|you have|you've got|you own|out of|of (?:the|"
    r"your))[^,。;!?\n]{0,6}$"
)


def all_in(analysis: Analysis, found: Sequence[Span]) -> Span | None:
    """Return the first of the all-in wordings that is an order or advice to put everything into one thing."""
    norm = analysis.norm
    for start, end in found:
        low, high = analysis.clause_span(start, end)
        rest = norm[end:high]
        if norm[start:end] in _PART_OF_ANYTHING and _MONEY.search(norm, low, start) is None:
            continue
        if norm[start:end] in _WHOLE and _WHOLE_DEAL.match(rest) is None:
            continue
        if _ALL_IN_DESCRIBED.match(rest) or disowned(analysis, start, end):
            continue
        if advised(analysis, start, end, act=True) and (
            _ALL_IN_DEAL.match(rest) or _company().match(rest) or end == high or "into" in norm[start:high]
        ):
            return start, high
    return None


def _plans(found: Sequence[Weight]) -> list[list[Weight]]:
    groups: dict[int, list[Weight]] = {}
    for weight in found:
        groups.setdefault(weight.group, []).append(weight)
    return [group for _, group in sorted(groups.items())]


def _judged(
    analysis: Analysis, found: Sequence[Weight], breaches: Iterable[Span | None], plans: int
) -> Span | None:
    """Return the first breach; where the reply offers alternatives, only when every one of them breaks."""
    spans = list(breaches)
    broken = [span for span in spans if span is not None]
    if not broken:
        return None
    if alternatives(analysis, found) and len(broken) < plans:
        return None
    return broken[0]


def class_cap(  # noqa: C901 - a ladder of signs
    analysis: Analysis, reading: Reading, cap: AssetClassCap
) -> Span | None:
    """Return the weights of the class that exceed the cap, alone, together, or on top of what is held."""
    # Cheap and generous first: only when the shares beside the class can exceed the cap at all.
    sector = cap.asset_class == "sector"
    if (
        sum(share.high for share in (reading.candidates if sector else reading.beside(cap.asset_class)))
        <= cap.limit + EPSILON
        and _EACH.search(analysis.norm) is None
        and not reading.has_ratio
    ):
        return None
    found = reading.weights
    plans = _plans(found)
    if sector:
        return sector_cap(analysis, plans, cap.limit + EPSILON)
    held = [weight for weight in found if weight.role == "held" and weight.asset_class == cap.asset_class]

    def breach(group: Sequence[Weight]) -> Span | None:
        own = [weight for weight in group if weight.asset_class == cap.asset_class]
        if is_part(analysis, group):
            return None
        added = [weight for weight in own if weight.role == "added"]
        if added and not held:
            planned = sum(weight.low for weight in own if weight.role in ("target", "added"))
            if cap.limit + EPSILON < planned <= 1.0:
                return own[0].start, own[-1].end
        if added and held:
            # One list of what is held adds up; a later mention of it repeats the list.
            together = sum(weight.high for weight in held if weight.group == held[0].group)
            base = max(together, *(weight.high for weight in held))
            if base + sum(weight.high for weight in added) > cap.limit + EPSILON:
                return added[0].start, added[0].end
        for weight in own:
            if weight.role in ("target", "total") and weight.high > cap.limit + EPSILON:
                return weight.start, weight.end
        targets = _without_sum([weight for weight in own if weight.role == "target"])
        whole = sum(
            weight.low * weight.holdings
            for weight in group
            if weight.role == "target" and weight.asset_class is not None
        )
        together = sum(weight.low * weight.holdings for weight in targets)
        several = len(targets) > 1 or any(weight.holdings > 1 for weight in targets)
        if several and whole <= 1.0 + 0.02 and together > cap.limit + EPSILON:
            return targets[0].start, targets[-1].end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))


def _without_sum(targets: list[Weight]) -> list[Weight]:
    """Leave out a last weight that is the sum of those before it: 28%, 12%, 8%: 48% in shares."""
    before = sum(weight.low * weight.holdings for weight in targets[:-1])
    if len(targets) > 2 and abs(before - targets[-1].low) < _SAME:  # noqa: PLR2004 - a sum of two at least
        return targets[:-1]
    return targets


def single_cap(analysis: Analysis, reading: Reading, cap: SingleAssetCap) -> Span | None:
    """Return the weight of a single instrument that exceeds the cap; asset classes are no instruments."""
    named = _single(cap.scope)
    tabled = "\n|" in analysis.norm or analysis.norm.startswith("|")
    if not tabled and not any(
        share.high > cap.limit + EPSILON
        and named.search(analysis.norm, max(0, share.start - _NEARBY), share.end + _NEARBY)
        for share in reading.candidates
    ):
        return None
    found = reading.weights
    plans = _plans(found)

    def breach(group: Sequence[Weight]) -> Span | None:
        for weight in group:
            if weight.role not in ("target", "part") or weight.high <= cap.limit + EPSILON:
                continue
            if weight.role == "target" and is_part(analysis, [weight]):
                continue
            named = _INSTRUMENT.search(weight.label) is not None or (
                weight.asset_class not in ("cash", "bond") and _company().search(weight.label) is not None
            )
            if cap.scope == "fund":
                named = named or (
                    weight.asset_class != "cash" and _FUND_INSTRUMENT.search(weight.label) is not None
                )
            named = named or (cap.scope == "fund" and _is_one_of_counted(analysis, group, weight))
            named = named or (weight.asset_class not in ("cash", "bond") and _is_listed(analysis, weight))
            if named and (weight.each or not _PLURAL.search(weight.label)):
                return weight.start, weight.end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))


_NAME_COLUMN: Final = re.compile(
    r"\|\s*(?:基金|标的|个股|股票|证券|代码|产品名|名称|fund|ticker|holding|security|stock)"
)


def _is_listed(analysis: Analysis, weight: Weight) -> bool:
    """Say whether the weight stands in a table whose first column names single holdings."""
    return (
        analysis.line_kind(weight.start) == "row"
        and _NAME_COLUMN.match(analysis.lead_in(weight.start)) is not None
    )


_COUNTED: Final = re.compile(r"([一二两三四五六\d])只(?:指数)?(?:基金|etf)(?!各|每)[^。;!?\n]{0,12}?[:,]")
_COUNTS: Final = {word: value for value, word in enumerate("零一二三四五六")} | {"两": 2}


def _is_one_of_counted(analysis: Analysis, group: Sequence[Weight], weight: Weight) -> bool:
    """Say whether the sentence announces as many funds as it weighs: 两只基金:宽基六成,短债四成."""
    low, high = analysis.sentence_span(weight.start)
    match = _COUNTED.search(analysis.norm, low, weight.start)
    if match is None:
        return False
    count = _COUNTS.get(match.group(1)) or int(match.group(1))
    return count == sum(low <= other.start < high and other.role == "target" for other in group)


def cash_floor(analysis: Analysis, reading: Reading, floor: CashFloor) -> Span | None:
    """Return the advised cash that stays below the floor, or the full allocation that leaves none."""
    if floor.share is None:
        return None if floor.amount is None else _cash_amount(reading, floor.amount)
    share = floor.share
    if not reading.candidates and not reading.has_ratio:
        return None
    cash = reading.names("cash") and _NO_CASH.search(analysis.norm) is None
    rest = cash and any(
        word in analysis.norm for word in ("剩", "其余", "余下", "rest ", "remain", "balance")
    )
    if cash and not rest and not reading.sign_beside("cash"):
        return None
    low = any(weight.low < share - EPSILON for weight in reading.beside("cash")) or "down to" in analysis.norm
    spent = not cash and (sum(weight.low for weight in reading.candidates) >= _FULL or reading.has_ratio)
    if not (low or spent or rest):
        return None
    found = reading.weights
    plans = _plans(found)

    def breach(group: Sequence[Weight]) -> Span | None:
        if is_part(analysis, group):
            return None
        advised_weights = [weight for weight in group if weight.role in ("target", "reduced", "total")]
        cash = [weight for weight in advised_weights if weight.asset_class == "cash"]
        if cash:
            if sum(weight.low for weight in cash) < share - EPSILON and len({w.low for w in cash}) == len(
                cash
            ):
                return cash[0].start, cash[-1].end
            return None
        targets = [weight for weight in group if weight.role == "target"]
        total = sum(weight.low for weight in targets)
        known = all(weight.asset_class is not None for weight in targets)
        if (
            len(targets) > 1
            and known
            and _FULL <= total <= 1.0 + 0.015
            and not (cash or _CASH_WORD.search(_NO_CASH.sub("", analysis.norm)))
        ):
            return targets[0].start, targets[-1].end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))


def _cash_amount(reading: Reading, amount: float) -> Span | None:
    analysis = reading.analysis
    norm = analysis.norm
    parts = {part.start for part in reading.amounts}
    owned: float | None = None
    for money in quantities(norm):
        if money.kind != "money" or disowned(analysis, money.start, money.end):
            continue
        low, _ = analysis.sentence_span(money.start)
        head = norm[max(low, money.start - 16) : money.start]
        _, high = analysis.clause_span(money.start, money.end)
        if _OWNED.search(head) and not _KEPT.search(head):
            owned = money.low
        elif CASH_AMOUNT.search(head) or re.match(
            r"(?:的)?(?:现金|活期|备用金|应急|留着|留作|留下|做备用|备用| in cash| cash| (?:stays?|"
            r"remains?|kept|left)? ?in (?:the |your )?(?:savings|bank|cash|checking))",
            norm[money.end : high],
        ):
            short = money.low < amount - EPSILON
            if short and (money.start in parts or advised(analysis, money.start, money.end)):
                return money.start, money.end
        elif owned is not None and _INVESTED.search(head):
            short = owned - money.high < amount - EPSILON
            if short and advised(analysis, money.start, money.end):
                return money.start, money.end
    return None
