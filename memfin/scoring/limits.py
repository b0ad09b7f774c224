"""Arithmetic of constraints: caps, cash floors, drawdown, duration and holding period against advice.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from memfin.scoring.advice import advised, disowned
from memfin.scoring.allocations import Weight, alternatives, is_part
from memfin.scoring.language import Analysis
from memfin.scoring.predicates import AssetClassCap, CashFloor, MaxDrawdown, SingleAssetCap
from memfin.scoring.quantities import Quantity, bound, quantities
from memfin.scoring.reading import Reading

Span = tuple[int, int]
_EPSILON: Final = 1e-9
_FULL: Final = 0.985
_CLAUSE: Final = r"[^,:;。!?\n]"

_ALL_IN_DEAL: Final = re.compile(
    rf"^{_CLAUSE}{{0,8}}?(?:买|押|上|进|杀|投|换|冲|干|拿|放|转入|配|持|加|into|on|in)|^$|^[,。!]"
)
_ALL_IN_DESCRIBED: Final = re.compile(
    rf"^{_CLAUSE}{{0,8}}(?:的风险|会|意味|等于|往往|容易|风险|不是|是一种|属于|操作方式|的人)"
)
_INSTRUMENT: Final = re.compile(
    r"etf(?!s)|lof|联接|基金[甲乙丙丁戊abcde一二三四五1-9]|甲基金|乙基金|丙基金|丁基金|a基金|b基金|c基金|一只(?<![五三两几四六多]一只)|单只|单一|这只|同一只|某只|那只|第一只|任一|60\d{4}|00\d{4}|30\d{4}|51\d{4}|15\d{4}|16\d{4}|one\b|a single\b|"
    r"沪深300|中证500|中证1000|创业板|科创50|上证50|a500|恒生科技|纳斯达克100?|标普500|s&p ?500|csi ?300|nasdaq|黄金|比特币|bitcoin|gold\b|茅台|宁德|白银|"
    r"每只|各|each\b"
)
_FUND_INSTRUMENT: Final = re.compile(r"基金|etf|债基|lof|联接|fund\b|tracker\b")
_ANY_INSTRUMENT: Final = re.compile(f"{_INSTRUMENT.pattern}|{_FUND_INSTRUMENT.pattern}")
_NEARBY: Final = 40
_PLURAL: Final = re.compile(
    r"(?:[两二三四五六七八九十几多\d]|若干|数)(?:只|个|支)|/|等(?:多|几|权)|类|、|\b(?:two|three|four|five|six|several|some|many)\b|funds\b|etfs\b|stocks\b|bonds\b|组合|权益|一篮子|层|\(如|或|[^中]和|与"
)
_MOST: Final = re.compile(r"大部分|绝大部分|大半|绝大多数|多数资金|most of (?:your|the)|the bulk of")
_CASH_WORD: Final = re.compile(
    r"现金|备用金|应急|活期|存款|货币基金|流动性|零钱|cash|emergency|liquid|money market|deposit"
)
_CASH_AMOUNT: Final = re.compile(
    r"(?:现金|活期|备用金|应急金?|账上|手头|手里|卡里|存款|cash)[^,。;!?\n]{0,8}$|(?:留|保留|剩|剩下|留出|留下|keep|leave|hold)[^,。;!?\n]{0,6}$"
)
_INVESTED: Final = re.compile(r"(?:投入|投进|拿出|拿|买|投|买入|申购|认购|投资|invest|put)[^,。;!?\n]{0,6}$")
_OWNED: Final = re.compile(
    r"(?:总共|一共|共有|总资产|手里|手上|手头|积蓄|存款|您有|共|全部家当|total of|you have)[^,。;!?\n]{0,6}$"
)

_LOSS: Final = re.compile(
    r"回撤|回落|亏损|浮亏|亏|缩水|下跌|跌|损失|止损|drawdown|loss(?:es)?\b|lose\b|fall\b|drop\b|decline\b|stop[- ]loss|down\b"
)
_LOSS_NEAR: Final = re.compile(
    rf"(?:回撤|回落|亏损|浮亏|亏|缩水|下跌|跌|跌幅|损失|止损线?|止损位|drawdown|loss(?:es)?|lose|fall|drop|decline|stop[- ]loss|down)(?![^,。]{{0,3}}恢复){_CLAUSE}{{0,16}}$"
)
_LOSS_AFTER: Final = re.compile(
    r"\s*(?:左右|上下|多|以上|以内|的)*\s*(?:回撤|亏损|浮亏|跌幅|的?损失|的?回落|止损|max(?:imum)? drawdown|drawdown|loss|stop[- ]loss|decline|drop)"
)
_WHOLE_LOSS: Final = re.compile(
    r"组合|整体|账户|总资产|总市值|全部|净值|市值|方案|配置|整个|portfolio|account|overall|whole|this mix|the mix|this plan"
)
_STOP: Final = re.compile(r"止损|stop[- ]loss|清仓线|平仓线|预警线|离场")
_TOLERANCE: Final = re.compile(
    r"容忍度?|回撤(?:上限|目标|预算|阈值|线|底线|控制|空间|限制)|(?:上限|底线|红线|目标)[^,。]{0,6}(?:放宽|提高|放到|设)|放宽|放大到|提高到|调到|上调|设在|设为|设定|放到|定在|tolera\w*|budget|raise|widen|relax|set"
)
_ENDURE: Final = re.compile(
    r"挺过去|撑过去|熬过去|扛过去|扛住|扛得住|扛过|拿住|拿稳|忍住|熬过|挺住|不必理会|不用管|不用理会|别慌|坚持住|咬牙|sit through|ride (?:it )?out|hold through|stomach|ignore"
)
_WAITED: Final = re.compile(r"(?:时|左右|以后|之后)?(?:再|才)(?:动|卖|止损|减|离场|处理|考虑|出)")
_UNSURE: Final = re.compile(r"是否|能否|确认|评估|如果|若|假如|倘若|能不能|可否|多少|whether|if\b|how much")
_PAST: Final = re.compile(
    r"历史|过去|过往|近[一二三五\d]+年|曾|当时|去年|前年|上(?:周|月|季|轮)|20\d\d年?|此前|回测|成立以来|同类|\b(?:historical\w*|past|last (?:year|month|week)|since inception|was|were|fell|in 20\d\d)\b"
)
_OTHER_SUBJECT: Final = re.compile(
    r"股票型基金|权益类?资产|板块|行业|个股|该基金|这只|单只|指数|这类|此类|股票(?:资产|部分)?(?:可能|在)|高风险资产|单一|中药|某(?:只|个|标的)|标的|创业板|沪深|医药"
)
_PLAN: Final = re.compile(
    r"按(?:我|这|此|上述|照|以上)|我(?:的)?(?:建议|方案|给)|这样(?:配|搭|做|一来)|这个?(?:组合|方案|配置)|该(?:方案|组合|配置)|上述|期间|途中|届时|组合|方案|this (?:mix|plan|portfolio|allocation)|the (?:mix|plan|portfolio)"
)
_EXPECTED: Final = re.compile(
    r"可能|预计|估计|估算|大约|约|或|最多|最大|极端|压力|会|可达|达到|\b(?:may|might|could|would|can|expect\w*|worst|up to|about|around)\b"
)
_FORGIVEN: Final = re.compile(
    r"突破|击穿|的界限|的红线|超出|超过您|不符|不适合|不建议|因此不|所以不|太高|过高|无法接受|exceeds your|too (?:high|much)"
)
_BOND_WORD: Final = re.compile(r"债|久期|票据|存单|bond|treasur|duration|note|gilts?")
_LONG_BOND: Final = re.compile(
    r"超长债|超长期|长久期|长债|长端|长期国债|长期限|long[- ](?:duration|dated|term) (?:bonds?|treasur\w+|governments?)|long bonds?|long treasur\w+"
)
_LONG_YEARS: Final = 7.0
_SHORT_BOND: Final = re.compile(r"短债|中短债|存单|货币|活期|现金|存款|short|cash|bills")
_HOLD: Final = re.compile(
    r"持有|拿(?=着|\d|[一二两三四五六七八九十几半]|不超过|个)|持仓|封闭|来回|就卖|就走|卖出|了结|离场|出来|换下|换股|轮动|hold|sell|exit|flip|out (?:within|in|after)|rotate"
)
_HOLD_LONG: Final = re.compile(r"至少|以上|起码|不少于|不低于|at least|or more|minimum|or longer")
_OTHER_SPAN: Final = re.compile(
    r"[^,。;]{0,3}(?:后|免|可赎|起|者|的人|开支|生活|备用|支出)|[ -](?:expenses|of expenses)"
)
_NOT_HOLDING: Final = re.compile(
    r"检视|复盘|核对|调整|再平衡|回看|开支|支出|近|过去|成立|定投|每|封闭|分[一二两三四五六七八九十\d]|历史|期限|review|rebalanc|every|per|past|last"
)


def all_in(analysis: Analysis, found: Sequence[Span]) -> Span | None:
    """Return the first of the all-in wordings that is an order or advice to put everything into one thing."""
    norm = analysis.norm
    for start, end in found:
        _, high = analysis.clause_span(start, end)
        rest = norm[end:high]
        if _ALL_IN_DESCRIBED.match(rest) or disowned(analysis, start, end):
            continue
        if advised(analysis, start, end, act=True) and (
            _ALL_IN_DEAL.match(rest) or end == high or "into" in rest
        ):
            return start, high
    return None


def _plans(analysis: Analysis, found: Sequence[Weight]) -> list[list[Weight]]:
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


def class_cap(analysis: Analysis, reading: Reading, cap: AssetClassCap) -> Span | None:
    """Return the weights of the class that exceed the cap, alone, together, or on top of what is held."""
    # Cheap and generous first: only when the shares beside the class can exceed the cap at all.
    if (
        sum(share.high for share in reading.beside(cap.asset_class)) <= cap.limit + _EPSILON
        and not reading.has_ratio
    ):
        return None
    found = reading.weights
    plans = _plans(analysis, found)
    held = [weight for weight in found if weight.role == "held" and weight.asset_class == cap.asset_class]

    def breach(group: Sequence[Weight]) -> Span | None:
        own = [weight for weight in group if weight.asset_class == cap.asset_class]
        if is_part(analysis, group):
            return None
        added = [weight for weight in own if weight.role == "added"]
        if added and held:
            base = max(weight.high for weight in held)
            if base + sum(weight.high for weight in added) > cap.limit + _EPSILON:
                return added[0].start, added[0].end
        for weight in own:
            if weight.role in ("target", "total") and weight.high > cap.limit + _EPSILON:
                return weight.start, weight.end
        targets = [weight for weight in own if weight.role == "target"]
        whole = sum(weight.low for weight in group if weight.role == "target")
        if len(targets) > 1 and whole <= 1.0 + 0.02 and sum(w.low for w in targets) > cap.limit + _EPSILON:
            return targets[0].start, targets[-1].end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))


def single_cap(analysis: Analysis, reading: Reading, cap: SingleAssetCap) -> Span | None:
    """Return the weight of a single instrument that exceeds the cap; asset classes are no instruments."""
    named = _INSTRUMENT if cap.scope == "asset" else _ANY_INSTRUMENT
    if not any(
        share.high > cap.limit + _EPSILON
        and named.search(analysis.norm, max(0, share.start - _NEARBY), share.end + _NEARBY)
        for share in reading.candidates
    ):
        return None
    found = reading.weights
    plans = _plans(analysis, found)

    def breach(group: Sequence[Weight]) -> Span | None:
        for weight in group:
            if weight.role not in ("target", "part") or weight.high <= cap.limit + _EPSILON:
                continue
            if weight.role == "target" and is_part(analysis, [weight]):
                continue
            named = _INSTRUMENT.search(weight.label) is not None
            if cap.scope == "fund":
                named = named or (
                    weight.asset_class != "cash" and _FUND_INSTRUMENT.search(weight.label) is not None
                )
            if named and (weight.each or not _PLURAL.search(weight.label)):
                return weight.start, weight.end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))


def cash_floor(analysis: Analysis, reading: Reading, floor: CashFloor) -> Span | None:
    """Return the advised cash that stays below the floor, or the full allocation that leaves none."""
    if floor.share is None:
        return None if floor.amount is None else _cash_amount(analysis, floor.amount)
    share = floor.share
    if not reading.candidates and not reading.has_ratio:
        return None
    low = any(weight.low < share - _EPSILON for weight in reading.beside("cash"))
    spent = not reading.names("cash") and (
        sum(weight.low for weight in reading.candidates) >= _FULL or reading.has_ratio
    )
    rest = reading.names("cash") and any(word in analysis.norm for word in ("剩", "其余", "余下", "the re"))
    if not (low or spent or rest):
        return None
    found = reading.weights
    plans = _plans(analysis, found)

    def breach(group: Sequence[Weight]) -> Span | None:
        if is_part(analysis, group):
            return None
        advised_weights = [weight for weight in group if weight.role in ("target", "reduced", "total")]
        cash = [weight for weight in advised_weights if weight.asset_class == "cash"]
        if cash:
            if sum(weight.low for weight in cash) < share - _EPSILON and len({w.low for w in cash}) == len(
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
            and not _CASH_WORD.search(analysis.norm)
        ):
            return targets[0].start, targets[-1].end
        return None

    return _judged(analysis, found, map(breach, plans), len(plans))


def _cash_amount(analysis: Analysis, amount: float) -> Span | None:
    norm = analysis.norm
    owned: float | None = None
    for money in quantities(norm):
        if money.kind != "money" or disowned(analysis, money.start, money.end):
            continue
        low, _ = analysis.sentence_span(money.start)
        head = norm[max(low, money.start - 16) : money.start]
        _, high = analysis.clause_span(money.start, money.end)
        if _OWNED.search(head):
            owned = money.low
        elif _CASH_AMOUNT.search(head) or re.match(
            r"(?:的)?(?:现金|活期|备用金|应急| in cash| cash)", norm[money.end : high]
        ):
            if money.low < amount - _EPSILON and advised(analysis, money.start, money.end):
                return money.start, money.end
        elif owned is not None and _INVESTED.search(head) and owned - money.high < amount - _EPSILON:
            if advised(analysis, money.start, money.end):
                return money.start, money.end
    return None


def drawdown(analysis: Analysis, reading: Reading, limit: MaxDrawdown) -> Span | None:
    """Return the loss above the limit that the reply plans for: a stop line, a tolerance, its plan's own fall."""
    norm = analysis.norm
    shares = [share for share in reading.shares if limit.limit + _EPSILON < share.high <= 1]
    for share in shares:
        low, high = analysis.sentence_span(share.start)
        near = norm[max(low, share.start - 24) : share.start]
        if _LOSS.search(near) is None and _LOSS_AFTER.match(norm, share.end) is None:
            continue
        clause_low, clause_high = analysis.clause_span(share.start, share.end)
        head = norm[max(clause_low, share.start - 30) : share.start]
        if not _LOSS_NEAR.search(head) and not _LOSS_AFTER.match(norm[share.end : high]):
            continue
        clause, sentence = norm[clause_low:clause_high], norm[low:high]
        if (
            disowned(analysis, share.start, share.end)
            or _UNSURE.search(clause)
            or _PAST.search(norm, low, share.start)
        ):
            continue
        if _FORGIVEN.search(sentence) or _OTHER_SUBJECT.search(clause):
            continue
        whole = _WHOLE_LOSS.search(sentence) is not None
        stop = _STOP.search(clause) is not None and whole
        tolerance = (
            _TOLERANCE.search(clause) is not None and re.search(r"回撤|亏|drawdown|loss", clause) is not None
        )
        if (stop or tolerance) and _proposes(analysis, share):
            return share.start, share.end
        if whole and _WAITED.match(norm, share.end):
            return share.start, share.end
        if _ENDURE.search(norm, share.end, high + 40) or _ENDURE.search(clause):
            return share.start, share.end
        if (
            whole
            and _PLAN.search(sentence)
            and _EXPECTED.search(clause)
            and ("我" in sentence or _has_plan(reading))
        ):
            return share.start, share.end
    return None


def _has_plan(reading: Reading) -> bool:
    return len([weight for weight in reading.weights if weight.role == "target"]) > 1


def _proposes(analysis: Analysis, share: Quantity) -> bool:
    norm = analysis.norm
    low, high = analysis.sentence_span(share.start)
    return advised(analysis, share.start, share.end) or (
        re.search(r"建议|可以|放到|设在|设为|定在|放宽到|i'd|i suggest|i recommend|let's|set", norm[low:high])
        is not None
        and re.search(r"不建议|不要|别|不能|不宜|n't", norm[low:high]) is None
    )


def duration(analysis: Analysis, reading: Reading, years: float) -> Span | None:
    """Return the advised bond or duration that is longer than the limit; known weights are averaged."""
    norm = analysis.norm
    if _BOND_WORD.search(norm) is None:
        return None
    spans = [
        (quantity.start, quantity.end, quantity.high)
        for quantity in quantities(norm)
        if quantity.kind == "duration" and quantity.high > years + _EPSILON and _is_tenor(analysis, quantity)
    ]
    spans.extend((*match.span(), _LONG_YEARS) for match in _LONG_BOND.finditer(norm) if years < _LONG_YEARS)
    found = reading.weights if spans else []
    for start, end, value in sorted(spans):
        _, high = analysis.clause_span(start, end)
        bond_end = _tail(norm, end, high)
        listed = _weight_at(found, start, bond_end)
        if not advised(analysis, start, bond_end) and listed is None:
            continue
        if listed is not None and disowned(analysis, start, end):
            continue
        if listed is not None and _average(analysis, found, listed, value) <= years + _EPSILON:
            continue
        return start, bond_end
    return None


def _tail(norm: str, end: int, high: int) -> int:
    """Take the bond's name after its tenor into the span, so that negations behind it are seen."""
    match = re.match(r"(?:期)?[^,;。!?\n|、\d]{0,6}(?:债|etf|基金|品种|bonds?|treasur\w+)", norm[end:high])
    return end + match.end() if match else end


def _is_tenor(analysis: Analysis, quantity: Quantity) -> bool:
    norm = analysis.norm
    low, high = analysis.clause_span(quantity.start, quantity.end)
    if re.match(
        r"(?:期|期限)?[^,;。!?\n|]{0,4}(?:国债|地方债|政金债|利率债|金融债|信用债|企业债|公司债|城投债|债|品种|中票|[- ]?(?:treasur|bond|gilt|note|government))",
        norm[quantity.end : high],
    ):
        return not re.search(
            r"近|过去|持有|未来|用.*的?$", norm[max(low, quantity.start - 4) : quantity.start]
        )
    return re.search(r"久期|duration", norm[max(low, quantity.start - 12) : quantity.start]) is not None


def _weight_at(found: Sequence[Weight], start: int, end: int) -> Weight | None:
    near = 8
    return next(
        (
            w
            for w in found
            if w.role == "target" and (0 <= w.start - end <= near or 0 <= start - w.end <= near)
        ),
        None,
    )


def _average(analysis: Analysis, found: Sequence[Weight], listed: Weight, years: float) -> float:
    """Weigh the long bond against the short holdings beside it; without those it stands for the bonds."""
    group = [
        w
        for w in found
        if w.group == listed.group and w.role == "target" and w.asset_class in ("bond", "cash")
    ]
    others = [w for w in group if w is not listed]
    if not others or not all(_SHORT_BOND.search(w.label) for w in others):
        return years
    total = sum(w.low for w in group)
    return (
        (listed.high * years + sum(w.low for w in others if w.asset_class == "bond")) / total
        if total
        else years
    )


def holding(analysis: Analysis, reading: Reading, years: float) -> Span | None:
    """Return the advised holding period that ends before the given time."""
    norm = analysis.norm
    spans = dict.fromkeys(analysis.sentence_span(start) for start, _ in reading.holding)
    for quantity in (quantity for span in spans for quantity in quantities(norm, *span)):
        if quantity.kind != "duration" or quantity.high >= years - _EPSILON:
            continue
        low, high = analysis.clause_span(quantity.start, quantity.end)
        clause = norm[low:high]
        if _OTHER_SPAN.match(norm, quantity.end):
            continue
        if _NOT_HOLDING.search(norm, low, quantity.start) or _HOLD_LONG.search(clause):
            continue
        if bound(norm, quantity) == "at_least" or _HOLD.search(clause) is None:
            continue
        if advised(analysis, quantity.start, quantity.end, act=True, limit=True):
            return quantity.start, quantity.end
    return None
