"""How often a reply wants the holdings changed.

Spans count in ``Analysis.norm``.
"""

import re
from operator import itemgetter
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.constraints.counted_limits import NUMERAL, changes_a_year
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.dates import rates
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

_PERIODS: Final = "天|日|周|星期|月|季|半年"
_CHANGE: Final = r"(?:轮换|轮动|换仓|调仓|换股|换一次|切换|买卖|倒腾|操作|交易|进出|调整仓位|动手)"
_OFTEN: Final = late(
    rf"每个?(?P<each>{_PERIODS})[^,;。!?\n]{{0,10}}{_CHANGE}|"
    rf"{_CHANGE}[^;。!?\n]{{0,14}}?每个?(?P<each2>{_PERIODS})|"
    rf"(?<!十)一个?(?P<period>{_PERIODS}|年)(?![、和与及份初末底])[^,;。!?\n]{{0,8}}?(?P<times>{NUMERAL})["
    rf"次轮回趟]"
)
_DAY: Final = r"day|week|month|quarter|monday|tuesday|wednesday|thursday|friday"
_OFTEN_ENGLISH: Final = late(
    rf"\b(?:shift|rotat|rebalanc|switch|trad|swap|adjust|chang)\w*\b[^.;!?\n]{{0,40}}\b(?:every|each|once a|"
    rf"per) "
    rf"(?P<each>{_DAY})|"
    rf"\b(?:every|each) (?P<each2>{_DAY})\b[^.;!?\n]{{0,30}}\b(?:shift|rotat|rebalanc|switch|trad|swap)\w*|"
    r"\b(?P<adverb>daily|weekly|monthly|quarterly) (?:rebalanc|rotat|switch|trad)\w*|"
    r"\b(?:rebalanc|rotat|switch|trad)\w*(?: \w+)? (?P<adverb2>daily|weekly|monthly|quarterly)\b"
)
_ADVERBS: Final = {"daily": "day", "weekly": "week", "monthly": "month", "quarterly": "quarter"}
_GRID: Final = late(r"网格|高抛低吸|\bgrid (?:trading|strategy)|做t(?![a-z0-9])")
_TRADES: Final = late(r"[换调动买卖转轮]|操作|交易|进出")


_START: Final = itemgetter(0)
_OTHERS: Final = late(
    r"去年|前年|上一?年|曾|以前|过去|指数(?!基金|增强)|样本|成分|经理|管理人|利率|养老金|基金公司|有人|"
    r"别人|朋友|同事|如果|要是|"
    r"\b(?:index|benchmark|managers?|provider|he|she|they|who|if|last year|used to|is|are|was|"
    r"were)\b[^.,;]{0,16}$"
)
_DONE: Final = late(r"[换调]了")


def _of_others(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether others change, or what was changed in the past."""
    low, _ = analysis.sentence_span(start)
    norm = analysis.norm
    return _OTHERS.search(norm, low, start) is not None or _DONE.search(norm, start, end) is not None


def turnover(analysis: Analysis, times: float) -> Span | None:
    """Return the advice to change holdings more often a year than the limit."""
    found = (*_OFTEN.finditer(analysis.norm), *_OFTEN_ENGLISH.finditer(analysis.norm))
    often = [match.span() for match in found if (_changes(analysis, match) or 0.0) > times + EPSILON]
    often += [match.span() for match in _GRID.finditer(analysis.norm)]
    often += [
        (rate.start, rate.end)
        for rate in rates(analysis.norm)
        if rate.times > times + EPSILON and not _of_others(analysis, rate.start, rate.end)
    ]
    often.sort(key=_START)
    return next((span for span in few(analysis, often, _START) if advised(analysis, *span, act=True)), None)


def _changes(analysis: Analysis, match: re.Match[str]) -> float | None:
    """Return how many changes a year the words amount to."""
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    if "times" in found:
        trades = _TRADES.search(analysis.norm, *analysis.sentence_span(match.start()))
        return changes_a_year(found["times"], found["period"]) if trades else None
    period = found.get("each") or found.get("each2") or _ADVERBS[found.get("adverb") or found["adverb2"]]
    return changes_a_year("once", "week" if period.endswith("day") and period != "day" else period)
