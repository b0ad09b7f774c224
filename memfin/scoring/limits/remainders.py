"""What a plan leaves over, and what its equal parts and tranches come to.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

from operator import methodcaller
from typing import Final, NamedTuple

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.constraints.counted_limits import count_of
from memfin.scoring.constraints.instruments import PRODUCT
from memfin.scoring.constraints.predicates import AssetClassCap, CashFloor
from memfin.scoring.limits.caps import EPSILON, Span, class_cap
from memfin.scoring.limits.cash_plans import cash_spent
from memfin.scoring.limits.reserves import cash_amount, dropped
from memfin.scoring.limits.step_plans import class_step, planned, single_step, tranches
from memfin.scoring.limits.unchanged import kept_above
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import Quick, compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.amounts import is_whole, remainder_at
from memfin.scoring.weights.held_amounts import ADDED, HELD
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.sharing import times

_REST: Final = Quick(
    r"(?:剩下|剩余|其余|剩的|零头|多出来的|"
    r"最后(?:那)?点)[^,;。!?\n]{0,10}?(?=[放存留趴躺搁摆当做作备进在活现零])"
    r"|\b(?:leave|keep|park|put|place|invest|move|shift|with|and)? ?(?:the rest|the remainder|the balance|"
    r"the remaining \S+|"
    r"whatever (?:remains|is left)|"
    r"what(?:'s| is) left(?: over)?)\b"
)
_REST_SIGNS: Final = compile_pattern(r"剩|其余|剩下|零头|多出来|rest|remain|the balance|left")
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

_EQUAL: Final = Quick(
    r"(?P<count>[两二三四五六七八九])(?:只|个(?![月季百点])|支|家|份)[^;。!?\n]{0,8}?(?:对半|平分|均分|"
    r"等分|各半|平摊|"
    r"各占一半|五五|等额|等权|平均|均等|均匀|一样多)(?![减卖赎还降取退分])|"
    r"(?:平分|均分|等分|平摊|等额|等权|平均|"
    r"均匀)[^,;。!?\n]{0,8}?(?P<count2>(?<!十)[两二三四五六七八九])(?:只|"
    r"个(?!月)|支|家|份(?!(?:(?!每年|再平衡)[^。;!?\n]){0,14}(?:每[月周季个次]|分批|按月|逐月|个月|次)))|"
    r"\b(?P<english2>two|three|four|five|six|seven|eight) (?:[a-z-]+,? ){1,3}(?:in equal (?:parts|amounts|"
    r"weights|shares)|"
    r"equally[- ]weighted|split (?:equally|evenly)|(?:with |at )?equal weights?|of equal size)|"
    r"\b(?:equal (?:parts|amounts|weights?|shares)|equally)[^.,;!?\n]{0,24}\b(?P<english3>two|three|four|"
    r"five|six|seven|"
    r"eight)\b|"
    r"\b(?:split|divide|spread)\w*[^.;!?\n]{0,20}\b(?:evenly|equally)[^.;!?\n]{0,12}\b(?P<english>two|"
    r"three|four|"
    r"five|six|seven|eight)\b"
)
_REST_OF: Final = late(r"其余|剩下|剩余")
_EQUAL_SIGNS: Final = compile_pattern(
    r"对半|平分|均分|等分|各半|平摊|各占一半|五五|等额|"
    r"等权|平均分|平均买|平均配|平均投|平均持|均等|均匀|一样多|evenly|equal"
)
_HELD: Final = late(
    r"(?:已|现在|目前|手里)[^,;。!?\n]{0,6}(?:有|占|持有|"
    r"拿着)了?[^,;。!?\n\d一二三四五六七八九半两]{0,4}$|占了?$|你(?:现在|目前)(?:是|约)?$|"
    r"\b(?:hold|own|have|sits at|makes up|is already|is at|stands at)(?: already| now| about| some|"
    r" roughly)* $"
)
_ADDED: Final = late(
    r"(?:再|又|另外?|继续)[^,;。!?\n]{0,4}?(?:补|加|添|买|追|配|投)(?:仓|个|上|"
    r"进)?[^,;。!?\n\d一二三四五六七八九半两]{0,3}$|再(?:拿|用)(?:总资产|总资金|组合|账户|全部资金|"
    r"本金)的$|给(?:它|[这那]只|"
    r"该)[^,;。!?\n]{0,4}?(?:补|加|添)[仓个上]?$|"
    r"\b(?:another|a further|an extra|an additional) $"
)
_ADDS_MORE: Final = late(r"\b(?:add|top (?:it|this|that) up (?:by|with))(?: about| around| roughly)? $")
_MORE_BEHIND: Final = late(
    r"(?: percentage)?(?: points?)?(?: of (?:the|your) [a-z]+)?(?: more| to it| on top| extra|"
    r" further|[.,;!]|$| (?:while|"
    r"when|if|now|today|this|over|by)\b)"
)
_ELSEWHERE: Final = late(
    r"(?: points?)?\s*(?:到|进|给|买|into|in|to)\s*(?!它|[这该]|it\b|this|that|the same|(?:你|your) )"
)
"""What is added goes to another holding than the one before."""
_POINTS: Final = late(r"\b(one|two|three|four|five|six|seven|eight|nine|ten|\d+)(?: percentage)? points?\b")
_SHARE_UNITS: Final = frozenset("%成分个p")
_HUNDREDTH: Final = 0.01
_SAME_HOLDING: Final = 120


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
    left = _left(reading) if _REST_SIGNS.search(reading.analysis.norm) is not None else None
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
_CASH_TAKEN: Final = late(
    r"(?:从|把)(?:现金|活期|货币基金|备用金|其中|里面|这里面)[^,。;!?\n\d]{0,6}(?:拿|抽|挪|划|腾|转|匀|调)"
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
        left = 1 - sum(each.high for each in shares if not _is_cash(norm, each))
        if found is not None and (found.parts or shares):
            left -= sum(part.high for part in found.parts if not _is_cash(norm, part)) / found.whole.low
        elif found is not None or len(shares) < _FEWEST:
            continue
        if 0 <= left < 1:
            return _Left(left, found.whole.low if found is not None else None, rest.span())
    return None


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
    if len(cash) != 1:
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


def one_holding(reading: Reading, cap: float) -> Span | None:
    """Return equal parts, the tranches of one holding, or what is added to one, that exceed the cap."""
    analysis = reading.analysis
    if _EQUAL_SIGNS.search(analysis.norm) is not None and (span := _equal(analysis, cap)):
        return span
    return (
        tranches(analysis, cap)
        or _added(reading, cap)
        or _in_steps(reading, cap)
        or kept_above(reading, _HOLDING, cap)
        or single_step(reading, cap)
    )


def of_class(reading: Reading, cap: AssetClassCap) -> Span | None:
    """Return what exceeds the cap on a class: its weights, or what a plan in steps comes to."""
    return class_cap(reading.analysis, reading, cap) or class_step(reading, cap)


_HOLDING: Final = late(
    f"{PRODUCT.pattern}|单|个股|基金|(?:company|employer)(?:'s)? (?:stock|shares)|\\bstock in\\b|\\bfund\\b"
)


_STEP: Final = late(
    r"(?:先|再|又|追加|加仓|加到?|补|添|首[笔次期]|"
    r"第[一二三四五六]?[笔次批])[^,;。!?\n\d一二三四五六七八九半两]{0,6}$|"
    r"\b(?:first|start (?:with|at)|put|invest|move|shift|place|then|another|a further|add(?:ing)?|buy|"
    r"purchase|"
    r"top (?:it )?up (?:with|"
    r"by))\b[^,.;!?\n\d]{0,12}$"
)
_SAME_ONE: Final = Quick(
    r"同一?[只支款个]|[这那]一?[只支款](?!是)|(?:都|全)(?:买|投|给)(?:它|这)|(?:只|就)(?:买|拿|持有|"
    r"投)(?:它|这|一只)|补满|加满|"
    r"\b(?:same|that|this|one|single) (?:fund|etf|stock|tracker|holding|position)\b|\bit\b"
)
_STEP_WORDS: Final = compile_pattern(r"再|加|补|添|\b(?:another|further|add|top|then)")
_FURTHER: Final = late(r"再|追加|加仓|\b(?:another|a further|more|top)\b")


def _in_steps(reading: Reading, cap: float) -> Span | None:
    """Return the last of the purchases of one holding that together exceed the cap."""
    analysis = reading.analysis
    norm = analysis.norm
    if _STEP_WORDS.search(norm) is None:
        return None
    marked = any(mark in norm for mark in ("万", "元", "$"))
    money = [each for each in quantities(norm) if each.kind == "money"] if marked else []
    whole = next((each for each in money if is_whole(norm, each)), None)
    steps = [
        (share.low, share.start, share.end) for share in reading.candidates if share.unit[:1] in _SHARE_UNITS
    ]
    if whole is not None:
        steps += [(each.low / whole.low, each.start, each.end) for each in money if each is not whole]
    if not steps or (len(steps) < _FEWEST and "每" not in norm and " a " not in norm):
        return None
    same = _SAME_ONE.search(norm) is not None
    total, count, last, names = 0.0, 0, 0, set[str]()
    for value, start, end in sorted(steps, key=lambda step: step[1]):
        low, _ = analysis.sentence_span(start)
        if _STEP.search(norm, max(low, start - 16), start) is None:
            continue
        named = {match.group() for match in PRODUCT.finditer(norm, *analysis.clause_span(start, end))}
        # A further purchase that names nothing goes where the one before it went.
        other = bool(named and names and not named & names)
        more = _FURTHER.search(norm, max(low, start - 16), start)
        goes_on = same or (more and (named & names or (not named and len(names) == 1)))
        if count and (start - last > _SAME_HOLDING or other or not goes_on):
            total, count, names = 0.0, 0, set[str]()
        names |= named
        repeats = times(analysis, start, end)
        total, count, last = total + value * repeats, count + repeats, end
        if count > 1 and cap + EPSILON < total <= 1 and planned(analysis, start, end):
            return start, end
    return None


def _equal(analysis: Analysis, cap: float) -> Span | None:
    for match in few(analysis, _EQUAL.finditer(analysis.norm), methodcaller("start")):
        count = count_of(next(group for group in match.groups() if group is not None))
        low, high = analysis.sentence_span(match.start())
        before = [each for each in quantities(analysis.norm, low, match.start()) if each.kind == "share"]
        behind = [each for each in quantities(analysis.norm, match.start(), high) if each.kind == "share"]
        rest = _REST_OF.search(analysis.norm, before[0].end, match.start()) if len(before) == 1 else None
        whole = 1.0 if rest is None else 1 - before[0].high
        partial = bool(behind) or (bool(before) and whole == 1.0)
        if not count or partial or whole / count <= cap + EPSILON:
            continue
        if advised(analysis, *match.span(), act=True):
            return match.span()
    return None


def _added(reading: Reading, cap: float) -> Span | None:
    """Return what is to be added to a holding that is named, where both together are above the cap."""
    analysis = reading.analysis
    norm = analysis.norm
    amounts = [each for each in reading.amounts if each.unit in (HELD, ADDED)]
    told = {each.start: each.unit for each in amounts}
    found = [(each.low, each.start, each.end) for each in (*reading.shares, *amounts)]
    if "point" in norm:
        found += [((count_of(m[1]) or 0) * _HUNDREDTH, *m.span()) for m in _POINTS.finditer(norm)]
    if len(found) < _FEWEST:
        return None
    held: tuple[float, int] | None = None
    for value, start, end in sorted(found, key=lambda entry: entry[1]):
        low = max(analysis.sentence_span(start)[0], start - 24)
        if told.get(start) == HELD or _HELD.search(norm[low:start]):
            held = value, end
            continue
        if told.get(start) == ADDED and PRODUCT.search(norm, *analysis.clause_span(start, end)):
            continue
        added = (
            (_ADDS_MORE.search(norm, low, start) and _MORE_BEHIND.match(norm, end))
            or told.get(start) == ADDED
            or _ADDED.search(norm[low:start])
        )
        if held is None or start - held[1] >= _SAME_HOLDING or not added:
            continue
        _, high = analysis.clause_span(start, end)
        if _ELSEWHERE.match(norm, end, high) and PRODUCT.search(norm, end, high):
            continue
        if cap + EPSILON < held[0] + value <= 1 and advised(analysis, start, end, act=True):
            return start, end
    return None
