"""What a plan leaves over, and what its equal parts and tranches come to.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

from operator import methodcaller
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.constraints.counted_limits import count_of
from memfin.scoring.constraints.instruments import PRODUCT
from memfin.scoring.constraints.predicates import AssetClassCap
from memfin.scoring.limits.caps import EPSILON, Span, class_cap
from memfin.scoring.limits.step_plans import class_step, planned, single_step, tranches
from memfin.scoring.limits.step_sums import stepwise
from memfin.scoring.limits.unchanged import kept_above
from memfin.scoring.numbers.quantities import quantities
from memfin.scoring.patterns.expressions import Quick, compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.amounts import is_whole
from memfin.scoring.weights.held_amounts import ADDED, HELD
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.sharing import times

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
        or stepwise(reading, cap, None)
    )


def of_class(reading: Reading, cap: AssetClassCap) -> Span | None:
    """Return what exceeds the cap on a class: its weights, or what a plan in steps comes to."""
    span = class_cap(reading.analysis, reading, cap) or class_step(reading, cap)
    if span is None and cap.asset_class in ("equity", "gold", "bond", "cash"):
        span = stepwise(reading, cap.limit, cap.asset_class)
    return span


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


_KINDS: Final = frozenset({"基金", "etf", "债基", "lof", "联接", "fund", "tracker", "各"})
"""What is no name where a name stands beside it."""


def _names(norm: str, low: int, high: int) -> set[str]:
    found = {match.group() for match in PRODUCT.finditer(norm, low, high)}
    return found - _KINDS or found


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
        named = _names(norm, *analysis.clause_span(start, end))
        if not named and not count:
            named = _names(norm, low, start) - _KINDS
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
