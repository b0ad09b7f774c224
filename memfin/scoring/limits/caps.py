"""Arithmetic of allocations: caps on single holdings and classes, cash floors, all-in orders.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.constraints.instruments import (
    FUND_INSTRUMENT,
    INSTRUMENT,
    POLICY,
    PRODUCT,
    company,
    single,
)
from memfin.scoring.constraints.predicates import AssetClassCap, CashFloor, SingleAssetCap
from memfin.scoring.limits.one_product import (
    ONE_AHEAD,
    ONLY_THIS,
    PICKED,
    about_one,
    is_listed,
    sized_behind,
    sum_of_one,
    told_as_one,
)
from memfin.scoring.limits.unchanged import unchanged
from memfin.scoring.limits.unknown_names import may_be_named, unknown_product
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.allocations import BARE_LINES, EQUITY_TEXT
from memfin.scoring.weights.parts import is_part
from memfin.scoring.weights.plans import alternatives
from memfin.scoring.weights.ratios import may_split
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.rests import names_rest
from memfin.scoring.weights.sectors import sector_cap
from memfin.scoring.weights.sharing import times
from memfin.scoring.weights.weight import Weight, belongs, is_narrow

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

EPSILON: Final = 1e-9
"""Shares that differ by less are the same; sums of fractions are not exact."""
_FULL: Final = 0.985
_SAME: Final = 0.006
_NEARBY: Final = 64
_EACH: Final = compile_pattern(r"各|每(?:个?月|周|季度?|次)|每只|each|apiece|[一每]只|[一每]个")
_PLURAL: Final = late(
    r"(?:[两二三四五六七八九十几多\d]|若干|数)(?:只|个(?!点|百分|月)|支)|/|等(?:多|几|权)|类|、|\b(?:two|"
    r"three|four|"
    r"five|six|several|some|many)\b(?!-)|funds\b|etfs\b|stocks\b|bonds\b|组合(?!的?(?:\d|"
    r"[一二三四五六七八九]成))|"
    r"权益|一篮子|层|\(如|或|"
    r"[^中]和|与"
)
_GOES_ON: Final = late(
    r" and (?:split|divide|spread|put|place|invest|move|shift|keep|hold|leave|use|the rest|the remain)"
)
"""Behind this the same clause speaks of the rest of the money."""
_MOST: Final = late(r"大部分|绝大部分|大半|绝大多数|多数资金|most of (?:your|the)|the bulk of")
_CASH_WORD: Final = late(
    r"随用随取|随取随用|零花|日常|机动|现金|备用金|应急|活期|存款|货币基金|流动性|零钱|cash|emergency|"
    r"liquid|money market|deposit"
)
_RESERVE: Final = r"(?:现金|余钱|活钱|备用金?|应急金?|应急的?钱|流动资金|钱)"
NO_CASH: Final = late(
    rf"{_RESERVE}[^,。;]{{0,3}}(?:不用|不必|无需|没必要|别)[^,。;]{{0,2}}[留备]|"
    r"(?:备用金|应急金|应急的?钱|应急准备金?)(?:就)?(?:不需要|不必要|用不着|可有可无|免了|省了)|"
    rf"(?:不用|不必|无需|没必要|别|不需要|用不着)(?:再)?(?:预?留|备|准备)[^,。;]{{0,4}}{_RESERVE}(?!流|不够)|"
    r"(?:不需要|用不着|没必要有)(?:什么|专门的?)?(?:备用金|应急金|应急准备金?)|"
    r"\b(?:no|zero|without any) cash\b(?! flow)|\bno need (?:for|to (?:keep|hold)) (?:any )?(?:cash|"
    r"an emergency fund|a (?:cash )?(?:reserve|buffer|cushion))\b|\b(?:skip|forget|drop) the "
    r"(?:emergency fund|cash|cushion|buffer|reserve)\b"
)

_NO_CASH: Final = compile_pattern(NO_CASH.pattern)


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
    sector = cap.asset_class in ("sector", "sectors")
    told = sector or is_narrow(cap.asset_class)
    if (
        sum(share.high for share in (reading.candidates if told else reading.beside(cap.asset_class)))
        <= cap.limit + EPSILON
        and _EACH.search(analysis.norm) is None
        and not reading.has_ratio
        and not may_split(analysis.norm)
        and not names_rest(analysis.norm)
        and _POSITION.search(analysis.norm) is None
        and not (
            sum(share.high for share in reading.candidates) > cap.limit
            and (reading.names(cap.asset_class) or EQUITY_TEXT.search(analysis.norm))
        )
        and not (reading.candidates and not reading.labels)
    ):
        return None
    found = reading.weights
    plans = _plans(found)
    if sector:
        return sector_cap(analysis, plans, cap.limit + EPSILON, together=cap.asset_class == "sectors")
    held = [weight for weight in found if weight.role == "held" and belongs(weight, cap.asset_class)]

    def breach(  # noqa: C901, PLR0911 - one return a way to exceed
        group: Sequence[Weight],
    ) -> Span | None:
        own = [weight for weight in group if belongs(weight, cap.asset_class)]
        if not own and cap.asset_class == "equity":
            own = [weight for weight in group if _is_position(reading, weight)]
        added = [weight for weight in own if weight.role == "added"]
        if is_part(analysis, group) and not (added and held):
            return None
        if added and not held:
            planned = sum(weight.low for weight in own if weight.role in ("target", "added"))
            if cap.limit + EPSILON < planned <= 1.0:
                return own[0].start, own[-1].end
        if added and held:
            # One list of what is held adds up; a later mention of it repeats the list.
            together = sum(weight.high for weight in held if weight.group == held[0].group)
            base = max(together, *(weight.high for weight in held))
            more = sum(weight.high * times(analysis, weight.start, weight.end) for weight in added)
            if base + more > cap.limit + EPSILON:
                return added[0].start, added[0].end
        for weight in own:
            if weight.role in ("target", "total") and weight.high > cap.limit + EPSILON:
                return weight.start, weight.end
        if is_narrow(cap.asset_class):
            parts = [weight for weight in own if weight.role == "part"]
            if parts and sum(weight.low * weight.holdings for weight in parts) > cap.limit + EPSILON:
                return parts[0].start, parts[-1].end
        whole = sum(
            weight.low * weight.holdings
            for weight in group
            if weight.role == "target" and weight.asset_class is not None
        )
        targets = _without_total(analysis, [weight for weight in own if weight.role == "target"])
        if not _FULL <= whole <= 1.0 + 0.02:
            targets = _without_sum(targets)
        together = sum(weight.low * weight.holdings for weight in targets)
        several = len(targets) > 1 or any(weight.holdings > 1 for weight in targets)
        if several and whole <= 1.0 + 0.02 and together > cap.limit + EPSILON:
            return targets[0].start, targets[-1].end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans)) or unchanged(
        analysis, held, cap.limit + EPSILON
    )


_POSITION: Final = late(r"仓位|(?:加|提|抬|升|拉|放|打)[高大]?到|加仓|满")
_NO_POSITION: Final = late(r"现金|存款|货币|债|黄金|单|每|费|首[次笔]|第[一二三]")


def _is_position(reading: Reading, weight: Weight) -> bool:
    """Say whether a weight without a name is the position in stocks: 仓位可以加到七成."""
    analysis = reading.analysis
    low, high = analysis.sentence_span(weight.start)
    return (
        weight.asset_class is None
        and weight.role == "target"
        and not any(low <= label.start < high for label in reading.labels)
        and _POSITION.search(analysis.norm, low, weight.start) is not None
        and _NO_POSITION.search(analysis.norm, low, high) is None
        and PRODUCT.search(analysis.norm, low, high) is None
        and advised(analysis, weight.start, weight.end, act=True)
    )


_SUMMED_UP: Final = late(
    r"\b(?:so(?: that)?|i\.e\.,?|that is|which (?:is|makes)|making|for a total of|giving(?: you)?) $|"
    r"(?:即|也就是|所以|合起来|"
    r"加起来|共)[^,。;\d]{0,6}$"
)


def _without_total(analysis: Analysis, targets: list[Weight]) -> list[Weight]:
    """Leave out a last weight that is told as the sum: 30% here and 20% there, so half in equities."""
    if len(targets) < 3:  # noqa: PLR2004 - a sum of two at least
        return targets
    last = targets[-1]
    before = sum(weight.low * weight.holdings for weight in targets[:-1])
    low, _ = analysis.sentence_span(last.start)
    if abs(before - last.low) < _SAME and _SUMMED_UP.search(analysis.norm, low, last.start):
        return targets[:-1]
    return targets


def _without_sum(targets: list[Weight]) -> list[Weight]:
    """Leave out a last weight that is the sum of those before it: 28%, 12%, 8%: 48% in shares."""
    before = sum(weight.low * weight.holdings for weight in targets[:-1])
    if len(targets) > 2 and abs(before - targets[-1].low) < _SAME:  # noqa: PLR2004 - a sum of two at least
        return targets[:-1]
    return targets


def single_cap(analysis: Analysis, reading: Reading, cap: SingleAssetCap) -> Span | None:
    """Return the weight of a single instrument that exceeds the cap; asset classes are no instruments."""
    named = single(cap.scope)
    tabled = "\n|" in analysis.norm or analysis.norm.startswith("|")
    if (
        not tabled
        and not reading.has_ratio
        and ONE_AHEAD.search(analysis.norm) is None
        and not may_be_named(analysis)
        and not any(
            share.high > cap.limit + EPSILON
            and named.search(analysis.norm, max(0, share.start - _NEARBY), share.end + _NEARBY)
            for share in reading.candidates
        )
    ):
        return None
    found = reading.weights
    plans = _plans(found)

    def breach(group: Sequence[Weight]) -> Span | None:
        for weight in group:
            one = weight.role in ("target", "part", "added") or sum_of_one(analysis, weight)
            if not one or weight.high <= cap.limit + EPSILON:
                continue
            if weight.role == "target" and is_part(analysis, [weight]):
                continue
            if cap.scope == "equity" and weight.asset_class != "equity":
                continue
            named = INSTRUMENT.search(weight.label) is not None or (
                weight.asset_class not in ("cash", "bond") and company().search(weight.label) is not None
            )
            named = named or (cap.scope == "asset" and POLICY.search(weight.label) is not None)
            if cap.scope != "asset":
                named = named or (
                    weight.asset_class != "cash" and FUND_INSTRUMENT.search(weight.label) is not None
                )
            named = named or (cap.scope != "asset" and _is_one_of_counted(analysis, group, weight))
            unknown = unknown_product(analysis, group, weight)
            named = named or unknown or _is_among(analysis, weight)
            named = named or (
                (weight.asset_class not in ("cash", "bond") or cap.scope != "asset")
                and is_listed(analysis, weight)
            )
            named = named or told_as_one(analysis, weight) or bool(ONLY_THIS.match(analysis.norm, weight.end))
            # 集中到两只:a500etf 50% counts in front of the colon what the list behind it names.
            named = named or about_one(analysis, reading, weight) or sized_behind(analysis, reading, weight)
            label = _GOES_ON.split(weight.label, maxsplit=1)[0].rpartition(":")[2]
            several = _PLURAL.search(label) and not PICKED.search(weight.label)
            if named and (weight.each or unknown or not several):
                return weight.start, weight.end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))


_COUNTED: Final = late(r"([一二两三四五六\d])只(?:指数)?(?:基金|etf)(?!各|每)[^。;!?\n]{0,12}?[:,]")
_AMONG: Final = late(r"[两二三四五六七八九\d]只(?:指数)?(?:基金|etf)(?:里|中|当中|之中)")
_LIST_REACH: Final = 200
_COUNTS: Final = {word: value for value, word in enumerate("零一二三四五六")} | {"两": 2}


def _is_among(analysis: Analysis, weight: Weight) -> bool:
    """Say whether the weight is one of the funds that the sentence counts: 三只etf里,国债拿四成."""
    return _AMONG.search(analysis.norm, analysis.sentence_span(weight.start)[0], weight.start) is not None


def _is_one_of_counted(analysis: Analysis, group: Sequence[Weight], weight: Weight) -> bool:
    """Say whether as many funds are announced as are weighed: 两只基金:宽基六成,短债四成, or a list."""
    low, high = analysis.sentence_span(weight.start)
    match = _COUNTED.search(analysis.norm, low, weight.start)
    if match is None and analysis.line_kind(weight.start) == "item":
        low, high = weight.start - _LIST_REACH, weight.start + _LIST_REACH
        match = _COUNTED.search(analysis.lead_in(weight.start))
    if match is None:
        return False
    count = _COUNTS.get(match.group(1)) or int(match.group(1))
    return count == sum(low <= other.start < high and other.role == "target" for other in group)


def _told_once(analysis: Analysis, found: Sequence[Weight]) -> list[Weight]:
    """Leave out a weight that another sentence gives again; items of a list are holdings of their own."""
    first: dict[float, int] = {}
    kept = []
    for weight in found:
        start = first.setdefault(weight.low, weight.start)
        kind = analysis.line_kind(start)
        together = kind != "text" and kind == analysis.line_kind(weight.start)
        if together or analysis.sentence_at(start) == analysis.sentence_at(weight.start):
            kept.append(weight)
    return kept


_USE_REACH: Final = 16
_CASH_USE: Final = late(
    r"\b(?:handy|on hand|at hand|aside|in reserve|within reach|for emergencies|rainy[- ]day|untouched|"
    r"uninvested)\b|备用|应急|零花|机动|周转|傍身|活钱|日常|"
    r"急用|留[着下出个]?(?=[\d一二两三四五六七八九半])"
)


def _middle(share: Quantity | Weight) -> float:
    """Return the middle of a range: 13%-17%, 43%-47% and 38%-42% divide everything."""
    return (share.low + share.high) / 2


_NO_CASH_USE: Final = late(
    r"债|股|基|etf|指数|理财|黄金|红利|单|险|\b(?:bonds?|funds?|stocks?|shares|equit\w+|gilts?|gold|trackers?)\b"
)


def _is_cash(weight: Weight) -> bool:
    named = weight.asset_class is not None and _NO_CASH_USE.search(weight.label) is not None
    return weight.asset_class == "cash" or (not named and _CASH_USE.search(weight.label) is not None)


def cash_floor(analysis: Analysis, reading: Reading, floor: CashFloor) -> Span | None:
    """Return the advised cash that stays below the floor, or the full allocation that leaves none."""
    share = floor.share
    if share is None or not (reading.candidates or reading.has_ratio):
        return None
    used = any(
        _CASH_USE.search(analysis.norm, max(0, each.start - _USE_REACH), each.end + _USE_REACH)
        for each in reading.candidates
    )
    cash = (reading.names("cash") or used) and _NO_CASH.search(analysis.norm) is None
    rest = cash and names_rest(analysis.norm)
    apart = BARE_LINES.search(analysis.norm) is not None
    if not (rest or used or apart or reading.has_ratio) and cash and not reading.sign_beside("cash"):
        return None
    low = (
        apart
        or any(weight.low < share - EPSILON for weight in reading.beside("cash"))
        or "down to" in analysis.norm
        or reading.has_ratio
        or (used and any(each.low < share - EPSILON for each in reading.candidates))
    )
    spent = not cash and (
        sum(_middle(weight) for weight in reading.candidates) >= _FULL
        or reading.has_ratio
        or names_rest(analysis.norm)
    )
    if not (low or spent or rest):
        return None
    found = reading.weights
    plans = [group for group in _plans(found) if not is_part(analysis, group)]

    def breach(group: Sequence[Weight]) -> Span | None:
        advised_weights = [weight for weight in group if weight.role in ("target", "reduced", "total")]
        cash = [weight for weight in advised_weights if _is_cash(weight)]
        cut = next(
            (weight for weight in cash if weight.role == "reduced" and weight.low < share - EPSILON), None
        )
        if cut is not None:
            return cut.start, cut.end
        if cash:
            # Where the weights divide everything, none of them is told twice.
            divided = _FULL <= sum(_middle(each) for each in advised_weights) <= 1.0 + 0.015
            if sum(each.low for each in (cash if divided else _told_once(analysis, cash))) < share - EPSILON:
                return cash[0].start, cash[-1].end
            return None
        targets = [weight for weight in group if weight.role == "target"]
        total = sum(_middle(weight) for weight in targets)
        known = all(weight.asset_class is not None for weight in targets)
        if (
            len(targets) > 1
            and known
            and _FULL <= total <= 1.0 + 0.015
            and not (cash or _CASH_WORD.search(NO_CASH.sub("", analysis.norm)))
        ):
            return targets[0].start, targets[-1].end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))
