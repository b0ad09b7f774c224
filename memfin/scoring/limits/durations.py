"""Durations that a reply leaves to be worked out: a table of bonds, equal parts, a step each quarter."""

from collections.abc import Iterator
from typing import Final

from memfin.scoring.advice.dealing import STRONG
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.numbers.quantities import quantities
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.grids import grids
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_EPSILON: Final = 1e-6
_COLUMN: Final = late(r"久期|duration")
_NUMBER: Final = late(r"(?:约|about |around |~)?(\d{1,2}(?:\.\d+)?) ?(?:年|years?|yrs?|y)?(?:左右)?")
_EQUAL: Final = late(
    r"各占?(?:三|四|五|二)分之一|各占?一半|各半|等权|平均分|均分|等分|\b(?:an? |one )?(?:third|half|"
    r"quarter|fifth) "
    r"(?:each|in each)|\bequal(?:ly)?\b"
)
_NAMED: Final = late(r"久期|duration")
_TOO_LONG: Final = late(
    r"太长|过长|偏长|超出|超过你|不合适|不符|缩短|目前|现有|现在的|原来|\b(?:too long|over your|"
    r"above your|beyond|"
    r"shorten|currently|your (?:current|present|old)|would be)\b"
)
_REACH: Final = 60
_STEPS: Final = late(
    r"\b(?:lengthen|extend|raise|increase|stretch|push)\w*\b[^.;!?\n]{0,24}?\bby (?P<step>half a year|"
    r"\d(?:\.\d+)? years?|a year|one year|\d+ months|(?:three|six) months|"
    r"a quarter of a year)\b[^.;!?\n]{0,12}?"
    r"\b(?:each|every|a|per) (?:quarter|month|half[- ]year|year|time)|"
    r"\badd (?P<added>half a year|\d(?:\.\d+)? years?|a year|one year|(?:three|six) months) of duration "
    r"(?:each|every|a|per) (?:quarter|half[- ]year|year)|"
    r"每(?:个)?(?:季度?|半年|月|年|次)(?:都|再)?(?:拉长|延长|加长|提高|增加|加)[^,。;!?\n\d半一]{0,4}"
    r"(?P<by_step>半年|\d(?:\.\d+)?年|一年|\d+个月|[三六]个月)"
)
_STEP_YEARS: Final = {
    "half a year": 0.5, "a year": 1.0, "one year": 1.0, "three months": 0.25, "six months": 0.5,
    "a quarter of a year": 0.25, "半年": 0.5, "一年": 1.0, "三个月": 0.25, "六个月": 0.5,
}  # fmt: skip
_ARRIVES: Final = late(
    r"\b(?:arrive at|reach|get to|end (?:up )?(?:at|with|on)|until (?:it is|it reaches|you are at|"
    r"you reach)|up to|"
    r"to) (?:about |around )?(\d{1,2}(?:\.\d+)?)(?![\d%]|\.\d)|"
    r"(?:直到|到|达到|升到|至)约?(\d{1,2}(?:\.\d+)?)(?:年)?(?!\d|%|个|月|[一-龥]*底)"
)
_STARTS: Final = late(
    r"\bduration (?:of|at) (?:about |around )?(\d{1,2}(?:\.\d+)?)|久期(?:先|从|在|为|是|约|放在|"
    r"定在)*(\d{1,2}(?:\.\d+)?)"
)
_TIMES: Final = late(
    r"\b(?:over|for|during) the next (two|three|four|five|six|eight|\d) (?:quarters|months|"
    r"half[- ]years|years)|"
    r"(?:未来|接下来|连续|之后)的?([两二三四五六八\d])个?(?:季度?|半年|月|年)"
)
_COUNT: Final = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "两": 2, "二": 2, "三": 3, "四": 4,
    "五": 5, "六": 6, "八": 8,
}  # fmt: skip


def worked_out(analysis: Analysis, reading: Reading, years: float) -> Span | None:
    """Return what comes to a duration above the limit once it is averaged or added up."""
    norm = analysis.norm
    if _NAMED.search(norm) is None:
        return None
    return (
        _tabled(analysis, reading, years)
        or _equal_parts(analysis, years)
        or _stepwise(analysis, years)
        or _weighed(analysis, years)
        or _bare(analysis, years)
    )


def short_in_equal_parts(analysis: Analysis, years: float) -> bool:
    """Say whether the reply puts equal parts into bonds that are short enough together."""
    return any(average <= years + _EPSILON for average, _ in _averages(analysis))


def _tabled(analysis: Analysis, reading: Reading, years: float) -> Span | None:
    norm = analysis.norm
    for grid in grids(norm):
        column = grid.column(_COLUMN)
        if column is None or _TOO_LONG.search(norm, grid.end, grid.end + _REACH):
            continue
        total = weighed = 0.0
        longest = (0.0, grid.start, grid.end)
        for row in grid.rows:
            figure = _NUMBER.fullmatch(row[column].text) if column < len(row) else None
            if figure is None:
                continue
            share = next(
                (
                    w.high
                    for w in reading.weights
                    if w.role == "target" and row[0].start <= w.start < row[-1].end
                ),
                0.0,
            )
            total += share
            weighed += share * float(figure[1])
            if share:
                longest = max(longest, (float(figure[1]), row[column].start, row[column].end))
        if total and weighed / total > years + _EPSILON:
            return longest[1:]
    return None


def _equal_parts(analysis: Analysis, years: float) -> Span | None:
    for average, span in _averages(analysis):
        if average > years + _EPSILON and not (disowned(analysis, *span) or rejected(analysis, *span)):
            return span
    return None


def _averages(analysis: Analysis) -> Iterator[tuple[float, Span]]:
    """Yield the mean durations of what is bought in equal parts, and where the last of them stands."""
    norm = analysis.norm
    for match in _EQUAL.finditer(norm):
        low, high = analysis.sentence_span(match.start())
        if _NAMED.search(norm, low, high) is None or _TOO_LONG.search(norm, low, high + _REACH):
            continue
        parts = [each for each in quantities(norm, low, high) if each.kind == "duration"]
        if len(parts) > 1:
            mean = sum((p.low + p.high) / 2 for p in parts) / len(parts)
            yield mean, (parts[-1].start, parts[-1].end)


_BARE: Final = late(
    r"\b(?:average|portfolio|overall|target|combined) duration (?:of |at |to |is |would be |around |"
    r"about |roughly )*"
    r"(\d{1,2}(?:\.\d+)?)(?![\d%]|\.\d| ?-| ?years?| months?)|"
    r"(?:组合|平均|整体|目标)久期(?:(?:定|放|提|拉|升|做|会)?(?:在|到|为|至)?)约?"
    r"(\d{1,2}(?:\.\d+)?)(?![\d%年个月]|\.\d)"
)
_HELD_NOW: Final = late(r"目前|现在|现有|原来|你的|\b(?:your|current\w*|now|index|benchmark)\b")


def _bare(analysis: Analysis, years: float) -> Span | None:
    """Return the duration of the reply's own mix, given as a mere number."""
    norm = analysis.norm
    for match in _BARE.finditer(norm):
        low, high = analysis.sentence_span(match.start())
        if float(match[1] or match[2]) <= years + _EPSILON or STRONG.search(norm, low, high) is None:
            continue
        if _TOO_LONG.search(norm, low, high + _REACH) or _HELD_NOW.search(norm, low, match.start()):
            continue
        if not (disowned(analysis, *match.span()) or rejected(analysis, *match.span())):
            return match.span()
    return None


_SHARE_OF: Final = late(
    r"(\d{1,3})%[^.;!?\n%]{0,60}?\bduration of (?:about |around )?(\d{1,2}(?:\.\d+)?)|"
    r"(\d{1,3})%[^。;!?\n%]{0,16}?久期(?:大?约|为|是)*(\d{1,2}(?:\.\d+)?)"
)
_WHOLE: Final = (99.0, 101.0)


def _weighed(analysis: Analysis, years: float) -> Span | None:
    """Return the longest part of a mix whose parts, with their shares, are too long on average."""
    parts = [
        (float(match[1] or match[3]), float(match[2] or match[4]), match.span())
        for match in _SHARE_OF.finditer(analysis.norm)
    ]
    total = sum(share for share, _, _ in parts)
    if len(parts) < 2 or not _WHOLE[0] <= total <= _WHOLE[1]:  # noqa: PLR2004 - a mix of two at least
        return None
    if sum(share * length for share, length, _ in parts) / total <= years + _EPSILON:
        return None
    span = max(parts, key=lambda part: part[1])[2]
    kept = disowned(analysis, *span) or rejected(analysis, *span)
    return None if kept or _TOO_LONG.search(analysis.norm, span[1], span[1] + _REACH) else span


def _stepwise(analysis: Analysis, years: float) -> Span | None:
    norm = analysis.norm
    for match in _STEPS.finditer(norm):
        span = match.span()
        if disowned(analysis, *span) or rejected(analysis, *span):
            continue
        low, high = analysis.sentence_span(match.start())
        before = max(0, low - _REACH)
        if _NAMED.search(norm, before, high) is None:
            continue
        arrives = _ARRIVES.search(norm, match.end(), high)
        end = float(arrives[1] or arrives[2]) if arrives else 0.0
        starts, times = _STARTS.search(norm, before, high), _TIMES.search(norm, before, high)
        if not arrives and starts and times:
            step = match["step"] or match["added"] or match["by_step"]
            one = _STEP_YEARS.get(step)
            if one is None:
                one = next((q.high for q in quantities(step, 0, len(step))), 0.0)
            count = times[1] or times[2]
            end = float(starts[1] or starts[2]) + one * (_COUNT.get(count) or int(count))
        if end > years + _EPSILON:
            return span
    return None
