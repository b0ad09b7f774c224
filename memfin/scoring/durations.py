"""Durations that a reply leaves to be worked out: a table of bonds, equal parts, a step each quarter."""

from typing import Final

from memfin.scoring.disowning import disowned
from memfin.scoring.grids import grids
from memfin.scoring.language import Analysis
from memfin.scoring.patterns import late
from memfin.scoring.quantities import quantities
from memfin.scoring.reading import Reading
from memfin.scoring.refusal import rejected

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_EPSILON: Final = 1e-6
_COLUMN: Final = late(r"久期|duration")
_NUMBER: Final = late(r"(?:约|大约|about |around |~)?(\d{1,2}(?:\.\d+)?) ?(?:年|years?|yrs?|y)?(?:左右)?")
_EQUAL: Final = late(
    r"各占?(?:三|四|五|二)分之一|各占?一半|各半|等权|平均分|均分|等分|\b(?:an? |one )?(?:third|half|quarter|fifth) "
    r"(?:each|in each)|\bequal(?:ly)?\b"
)
_NAMED: Final = late(r"久期|duration")
_TOO_LONG: Final = late(
    r"太长|过长|偏长|超出|超过你|不合适|不符|缩短|目前|现有|现在的|原来|\b(?:too long|over your|above your|beyond|"
    r"shorten|currently|your (?:current|present|old)|would be)\b"
)
_REACH: Final = 60
_STEPS: Final = late(
    r"\b(?:lengthen|extend|raise|increase|stretch|push)\w*\b[^.;!?\n]{0,24}?\bby (?P<step>half a year|"
    r"\d(?:\.\d+)? years?|a year|one year|\d+ months|(?:three|six) months|a quarter of a year)\b[^.;!?\n]{0,12}?"
    r"\b(?:each|every|a|per) (?:quarter|month|half[- ]year|year|time)|"
    r"每(?:个)?(?:季度?|半年|月|年|次)(?:都|再)?(?:拉长|延长|加长|提高|增加|加)[^,。;!?\n\d半一]{0,4}"
    r"(?P<by_step>半年|\d(?:\.\d+)?年|一年|\d+个月|[三六]个月)"
)
_STEP_YEARS: Final = {
    "half a year": 0.5, "a year": 1.0, "one year": 1.0, "半年": 0.5, "一年": 1.0, "三个月": 0.25, "六个月": 0.5,
    "three months": 0.25, "six months": 0.5, "a quarter of a year": 0.25,
}  # fmt: skip
_ARRIVES: Final = late(
    r"\b(?:arrive at|reach|get to|end (?:up )?(?:at|with|on)|until (?:it is|it reaches|you are at|you reach)|up to|"
    r"to) (?:about |around )?(\d{1,2}(?:\.\d+)?)(?![\d%.]|\.\d)|"
    r"(?:直到|到|达到|升到|至)(?:约|大约)?(\d{1,2}(?:\.\d+)?)(?:年)?(?!\d|%|个|月|[一-龥]*底)"
)
_STARTS: Final = late(
    r"\bduration (?:of|at) (?:about |around )?(\d{1,2}(?:\.\d+)?)|久期(?:先|从|在|为|是|约|放在|定在)*(\d{1,2}(?:\.\d+)?)"
)
_TIMES: Final = late(
    r"\b(?:over|for|during) the next (two|three|four|five|six|eight|\d) (?:quarters|months|half[- ]years|years)|"
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
    return _tabled(analysis, reading, years) or _equal_parts(analysis, years) or _stepwise(analysis, years)


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
                (w.high for w in reading.weights if w.role == "target" and row[0].start <= w.start < row[-1].end),
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
    norm = analysis.norm
    for match in _EQUAL.finditer(norm):
        low, high = analysis.sentence_span(match.start())
        if _NAMED.search(norm, low, high) is None or _TOO_LONG.search(norm, low, high + _REACH):
            continue
        parts = [each for each in quantities(norm, low, high) if each.kind == "duration"]
        if len(parts) > 1 and sum((p.low + p.high) / 2 for p in parts) / len(parts) > years + _EPSILON:
            span = parts[-1].start, parts[-1].end
            if not (disowned(analysis, *span) or rejected(analysis, *span)):
                return span
    return None


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
            step = match["step"] or match["by_step"]
            one = _STEP_YEARS.get(step)
            if one is None:
                one = next((q.high for q in quantities(step, 0, len(step))), 0.0)
            count = times[1] or times[2]
            end = float(starts[1] or starts[2]) + one * (_COUNT.get(count) or int(count))
        if end > years + _EPSILON:
            return span
    return None
