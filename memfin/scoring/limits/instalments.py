"""Regular investments of a month, all together: several funds, several dates, the items of a list.

Spans are half-open and count in ``Analysis.norm``.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.attribution.told import described
from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.plain_amounts import Amount, amounts
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_MONTHLY: Final = late(
    r"每(?P<slow>两个月|俩月|个?季度?|半年)|定投(?!额|经验)|每个?月|一个月|/月|每月|按月|每(?P<week>周|星期)|"
    r"每?(?P<weeks>双周)|每(?P<weeks2>两周|2周)|每个?(?P<tens>旬)|每个?(?P<day>交易日|天|日)|"
    r"\bmonthly\b|(?:a|per|each|every) month\b|"
    r"(?P<english>\bweekly\b|\b(?:a|each|every|per) week\b|\bevery (?:mon|tues|wednes|thurs|fri)day\b)"
)
_A_TIME: Final = late(r"[每单一][期次笔]|扣款|\b(?:each|every|per) (?:time|instalment|payment)\b")
_A_MONTH: Final = {"week": 4.0, "weeks": 2.0, "weeks2": 2.0, "tens": 3.0, "day": 20.0, "english": 4.0}
_SLOW: Final = {"两个月": 1 / 2, "俩月": 1 / 2, "半年": 1 / 6}
_A_QUARTER: Final = 1 / 3
_TOTAL: Final = late(r"合计|一共|总共|总计|加起来|共计|\b(?:total|altogether|in all)\b")
_BOUNDED: Final = late(r"上限|不超过|以内|封顶|预算(?:是|为|内)|\b(?:limit|within|under your|cap)\b")
_NO_PART: Final = late(
    r"(?:收入|月入|工资|月薪|到手|结余|开销|支出|房贷|月供|房租|你?(?:上个?月|原来|之前|目前|现在)|"
    r"剩下?的?|剩下|其余|收益|利息|分红|起投|门槛|手续费|申购费|一次性|余额|备用|攒下?|积累|另存|"
    r"一个?月(?:下来|就是|合计|共)|"
    r"(?:账户|卡)[里上内]?[^,;。!?\n\d]{0,4}[留存放]|至少留|"
    r"\b(?:earn\w*|income|salary|rent|mortgage|spend\w*|of your))[^,;。!?\n]{0,10}$|"
    r"(?:累计|总投入|(?:一|两|三|四|五|十|\d+)年(?:下来|后|就|共|总共|一共|能|可以|约|累计|攒)|"
    r"全年|一年(?:是|为)|本金)[^,;。!?\n]{0,8}$|"
    r"\b(?:a total of|adds? up to|over (?:a|the|one|two|three|five|ten|\d+) years?)[^,.;!?\n]{0,12}$"
)
"""What an amount is that is no instalment: earned, spent, or come to over the years."""
_BEFORE: Final = late(
    r"原来|原本|之前|此前|以前|上个月|目前(?!可以|就)|现在(?=是|每|扣|投)|如果|要是|"
    r"\b(?:currently|now pay|used to|until now|if)\b"
)
_RAISED_FROM: Final = late(
    r"\s*(?:元|块)?(?:逐步|慢慢|直接|再)?(?:加|提|升|涨|减|降|调|砍|增)[高低少整大]?[到至成为]|"
    r" (?:up |down )?to "
)
_FROM: Final = late(r"(?:从|由)[^,;。!?\n\d]{0,8}$|\bfrom (?:about )?[$£€]?$")
_ONE_BY_ONE: Final = late(
    r"第[一二三四]个?[年月季阶]|[前后头]半?[一二三四六两\d]*个?[年月季]|方案[一二三甲乙abc]|选项|或者?|"
    r"任选|[二三]选一|\b(?:years? (?:one|two|three|1|2|3)|(?:first|second|third) (?:year|quarter|month)|"
    r"after that|option|plan [abc]|either|or)\b"
)
"""One instalment follows the other, or is told in place of it."""
_UNTIL_NOW: Final = late(r"\s*(?:元|块)?(?:钱)?(?:是|为)?你?(?:自己)?(?:原来|原先|之前|此前|以前|目前)的?")
_EACH: Final = late(
    r"(?:每(?:只|支|款|笔|次|份|家|样|条|期每只|个(?![月季交]))|各|分别)[^,;。!?\n\d各每]{0,5}(?:每个?月)?"
    r"[^,;。!?\n\d各每]{0,4}$|\b(?:each|every one|apiece)\b[^,.;!?\n\d]{0,12}$"
)
_EACH_BEHIND: Final = late(
    r"\s*(?:元|块)?(?:钱)?一[只支款份次笔](?!基金)|(?: (?:a|per) month)?(?: (?:in|into|for|to))? "
    r"(?:each|apiece|per (?:fund|etf|order))\b"
)
_COUNT: Final = late(
    rf"(?<!第)(?P<count>{NUMERAL})(?:只|支|款|笔|次|份|家|样|条|个(?![月季交百点年]))|"
    r"\b(?P<english>two|three|four|five|six|seven|eight) (?:[a-z-]+ ){0,2}?(?:funds?|etfs?|trackers?|orders?|"
    r"stocks?|plans?|portfolios?|indexe?s?|times|instalments?)\b"
)
_ITEM: Final = late(r"、|和|与|及| and ")
_MORE: Final = late(
    r"(?:再|另外?|又|也|、|和|加上)[^,;。!?\n\d]{0,8}$|\b(?:and|plus|another|then)\b[^,.;\d]{0,12}$"
)
_GOES_INTO: Final = late(r"\s*(?:元|块)?钱?(?:买|投|进|给|到|放|定投)| (?:in|into|to|for) ")
_GOES_ON: Final = late(r"\s*(?:另外|此外|同时|再|其次|还|also\b|on top\b|another\b|plus\b)")
_LISTED: Final = ("item", "row")
_MOST: Final = 24
"""Amounts of one plan that are added up."""


class _Part(NamedTuple):
    """What one amount comes to, and how often a month its clause says, if it does."""

    value: float
    times: int
    factor: float | None
    start: int
    end: int


def instalments(analysis: Analysis, limit: float, *, at_a_time: bool = False) -> Span | None:
    """Return the advised instalments of a month, or of one date, that together exceed the limit."""
    norm = analysis.norm
    for low, high in _plans(analysis):
        monthly = (at_a_time and _A_TIME.search(norm, low, high)) or _MONTHLY.search(norm, low, high)
        lead = analysis.lead_in(low) if monthly is None or analysis.line_kind(low) in _LISTED else ""
        if monthly is None and _MONTHLY.search(lead) is None:
            continue
        if _BOUNDED.search(norm, low, high):
            continue
        parts = [
            part
            for each in amounts(norm, low, high)[:_MOST]
            if (part := _part(analysis, each, low)) is not None
        ]
        if not parts or _together(analysis, parts, (low, high), lead, at_a_time) <= limit + EPSILON:
            continue
        said = [part[-2:] for part in parts] if analysis.line_kind(low) in _LISTED else []
        if monthly is not None:
            said.insert(0, monthly.span())
        if any(advised(analysis, *place, act=True) for place in said):
            return parts[0].start, parts[-1].end
    return None


def _plans(analysis: Analysis) -> Iterator[Span]:
    """Yield where instalments are told together: the items of a list, a sentence with what it goes on to."""
    first, last = 0, 0
    for low, high in analysis.sentences:
        item = analysis.line_kind(low) in _LISTED
        goes_on = _GOES_ON.match(analysis.norm, low) is not None
        if last and ((item and analysis.line_kind(first) in _LISTED) or (goes_on and not item)):
            last = high
            continue
        if last:
            yield first, last
        first, last = low, high
    if last:
        yield first, last


def _part(analysis: Analysis, each: Amount, low: int) -> _Part | None:
    norm = analysis.norm
    sentence, high = analysis.sentence_span(each.start)
    clause, _ = analysis.clause_span(each.start, each.end)
    if _NO_PART.search(norm, max(sentence, each.start - 18), each.start) or _BEFORE.search(
        norm, clause, each.start
    ):
        return None
    if _FROM.search(norm, max(sentence, each.start - 12), each.start) and _RAISED_FROM.match(norm, each.end):
        return None
    if _told(analysis, each):
        return None
    if _UNTIL_NOW.match(norm, each.end, high):
        return None
    times = 1
    if _EACH_BEHIND.match(norm, each.end, high) or _EACH.search(norm, max(low, each.start - 20), each.start):
        times = _holders(norm, low, each.start) or _holders(norm, each.end, high) or 1
    periods = [*_MONTHLY.finditer(norm, *analysis.clause_span(each.start, each.end))]
    return _Part(each.value * times, times, _often(periods) if periods else None, each.start, each.end)


def _told(analysis: Analysis, each: Amount) -> bool:
    return (
        disowned(analysis, each.start, each.end)
        or rejected(analysis, each.start, each.end)
        or described(analysis, each.start)
    )


def _holders(norm: str, low: int, high: int) -> int:
    """Return how many funds, or dates, are told that each have an amount of their own; 0 where none are."""
    found = 0
    for match in _COUNT.finditer(norm, low, high):
        found = count_of(match["count"] or match["english"]) or 0
    if found > 1:
        return found
    clause = max(norm.rfind(mark, low, high) for mark in ",:;。.\n")
    each = norm.rfind("各", max(clause, low), high)
    return len(_ITEM.findall(norm, max(clause + 1, low), each)) + 1 if each >= 0 else 0


def _together(analysis: Analysis, parts: list[_Part], span: Span, lead: str, at_a_time: bool) -> float:
    """Return what the parts come to in a month, a sum that is told beside them not counted again."""
    norm = analysis.norm
    periods = [*_MONTHLY.finditer(norm, *span)] or [*_MONTHLY.finditer(lead)]
    often = 1.0 if at_a_time else _often(periods)
    own = not at_a_time and None not in (factors := {part.factor for part in parts}) and len(factors) > 1
    values = [part.value * ((part.factor or 1.0) if own else often) for part in parts]
    together, largest = sum(values), max(values)
    doubled = together == 2 * largest
    if doubled and len(parts) == 2 and parts[0].times == parts[1].times == 1:  # noqa: PLR2004 - a pair
        doubled = not (
            _MORE.search(norm, max(span[0], parts[1].start - 16), parts[1].start)
            or all(_GOES_INTO.match(norm, part.end) for part in parts)
        )
    if doubled or _TOTAL.search(norm, *span) or _ONE_BY_ONE.search(norm, *span):
        together = largest
    return together


def _often(periods: list[re.Match[str]]) -> float:
    """Return how often a month the periods of a plan come round: the seldom one tells, else the frequent."""
    slow = [_factor(every) for every in periods if every.lastgroup == "slow"]
    return slow[0] if slow else max(map(_factor, periods), default=1.0)


def _factor(every: re.Match[str]) -> float:
    """Return how often a month what the match names comes round."""
    if every.lastgroup == "slow":
        return _SLOW.get(every["slow"], _A_QUARTER)
    return _A_MONTH.get(every.lastgroup or "", 1.0)
