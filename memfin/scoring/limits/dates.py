"""Changes of the holdings told by dates or by a rhythm: 春节后、五一后各调一次, every other month.

Spans count in ``Analysis.norm``.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.numbers.months import MONTHS
from memfin.scoring.patterns.expressions import late

_N: Final = r"(?:[一二两三四五六七八九十]{1,3}|\d{1,2})"
_FEAST: Final = (
    r"(?:春节|元旦|元宵|清明|五一|劳动节|端午|中秋|国庆|十一(?!月)|双十一|圣诞|年[初中底末]|立[春夏秋冬]|"
    r"[春秋]分|[夏冬]至|[一三]?季报|年报|中报|"
    r"财报季)"
    r"(?:假期|长假|节)?(?:之?[前后]|期间|过后|披露后)?"
)
_JOIN: Final = r"(?:、|,|和|与|及|还有)"
_GAP: Final = r"[^。;!?\n不别没偏必若]"
_CHANGE_ZH: Final = (
    r"(?:[换调][^,。;!?\n核报告检查看用休]{0,3}?(?:[一1][次回遍批轮]|仓|股|成|掉)|轮[换动]|切换|"
    r"(?<!不)操作一[次回]|"
    r"进出一[次回]|买卖一[次回]|倒[腾手]一[次回])"
)
_DATES: Final = late(
    rf"(?P<feasts>{_FEAST}(?:{_JOIN}{_FEAST})+)(?:这?[一二两三四五六]个?(?:节点|时点|日子|时候))?,?(?:各|"
    rf"都|分别|就|统一|我)"
    rf"{_GAP}{{0,12}}?{_CHANGE_ZH}|"
    rf"(?P<months>{_N}月?[初中底末份]?(?:{_JOIN}{_N}月?[初中底末份]?)*{_JOIN}{_N}月[初中底末份]?)"
    rf"{_GAP}{{0,32}}?{_CHANGE_ZH}"
)
_RHYTHM: Final = late(
    rf"(?:(?P<parity>(?:逢|每个?)[单双奇偶](?:数|号)?月|[奇偶]数月|[单双]数?月份?(?:的?[初末底]|逢|统一|各|"
    rf"都))|"
    rf"每(?P<gap>隔)?(?P<number>{_N})个?(?P<unit>月|周|星期|季度?|天|交易日)|"
    rf"(?P<twice>每?双周|隔周)|(?P<gapped>隔)个?(?P<unit2>月|季度?)|每个?(?P<unit3>半年|财报季|季度?末?|"
    rf"月底?末?|"
    rf"周|星期)|"
    rf"每年(?P<yearly>{_N})次)"
    rf"(?:的|末|初|底|第|最后|首个|一个|交易日|里|,|我|就|都|统一|固定|定期|自动|可以|把|替你|给你|为你){{0,8}}{_CHANGE_ZH}"
)
_HALVES: Final = late(
    rf"上半年[^。;!?\n不别]{{0,8}}?[换调动轮操买][^。;!?\n]{{0,4}}?(?P<first>{NUMERAL})[次回轮][^。;!?\n不"
    rf"别]{{0,6}}?下半年"
    rf"[^。;!?\n不别]{{0,8}}?(?P<second>{NUMERAL})[次回轮]"
)
_TIMES: Final = late(
    rf"(?:全年|每年|年均|一年(?:下来|里|到头|内)?)[^。,;!?\n不别没]{{0,8}}?(?:[换调轮]仓?[股换动手]?|"
    rf"操作|交易|买卖|进出)"
    rf"[^。,;!?\n不别没]{{0,6}}?(?P<times>{NUMERAL})[次回轮趟]"
)
_DAYS: Final = r"(?:day|week|month|quarter)"
_SHIFTS: Final = r"(?:rotat|switch|swap|rebalanc|trad|shift|chang|turn over|replac)\w*"
_WORDS: Final = r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|\d{1,2})"
_ENGLISH: Final = late(
    rf"\b{_SHIFTS}\b[^.;!?\n]{{0,50}}?\b(?:(?P<other>every other|every second) (?P<one>{_DAYS})|"
    rf"every (?P<number>{_WORDS}) (?P<two>{_DAYS})s|(?:roughly |about |around )?(?P<times>once|twice|"
    rf"{_WORDS}(?= times))"
    rf"(?: times)? (?:a|per|each|every) year|(?:each|every) (?P<three>{_DAYS}))\b"
)
_MONTH: Final = rf"\b(?:{'|'.join(MONTHS)}|spring|summer|autumn|winter)\b"
_IN_MONTHS: Final = late(
    rf"\b{_SHIFTS}\b[^.;!?\n]{{0,60}}?(?P<months>{_MONTH}(?:(?:,| and|, and) {_MONTH})+)"
)
_CHECKED: Final = late(
    r"只?(?:汇报|检视|核对|提醒|报告|披露|回看)[^。;!?\n]{0,8}$|(?:需要时|有必要|偏离|才)[^。;!?\n]{0,8}$|"
    r"\b(?:review|check|look at|back to target)\b[^.;!?\n]{0,30}$"
)
_A_YEAR: Final = {
    "月": 12.0,
    "周": 52.0,
    "星期": 52.0,
    "季": 4.0,
    "天": 250.0,
    "交易日": 250.0,
    "半年": 2.0,
    "财": 4.0,
}
_ENGLISH_YEAR: Final = {"day": 250.0, "week": 52.0, "month": 12.0, "quarter": 4.0}
_SIGNS: Final = ("换", "调", "轮", "切", "操作", "进出", "买卖", "倒")
_ENGLISH_SIGNS: Final = ("rotat", "switch", "swap", "rebalanc", "trad", "shift", "chang", "replac")


class Rate(NamedTuple):
    """How often a year something is changed, and where the reply says so."""

    times: float
    start: int
    end: int


def rates(norm: str) -> Iterator[Rate]:
    """Yield how often a year dates and rhythms amount to."""
    if any(map(norm.__contains__, _SIGNS)):
        for match in _DATES.finditer(norm):
            told = match["feasts"] or match["months"]
            times = len(re.split(_JOIN, told))
            if not _CHECKED.search(norm, match.start(), match.end()):
                yield Rate(times, *match.span())
        for match in _RHYTHM.finditer(norm):
            yield Rate(_rhythm(match), *match.span())
        for match in _HALVES.finditer(norm):
            yield Rate((count_of(match["first"]) or 0) + (count_of(match["second"]) or 0), *match.span())
        for match in _TIMES.finditer(norm):
            yield Rate(count_of(match["times"]) or 0, *match.span())
    if any(map(norm.__contains__, _ENGLISH_SIGNS)):
        for match in _ENGLISH.finditer(norm):
            yield Rate(_english(match), *match.span())
        for match in _IN_MONTHS.finditer(norm):
            yield Rate(len(re.findall(_MONTH, match["months"])), *match.span())


def _rhythm(match: re.Match[str]) -> float:
    if match["parity"]:
        return 6.0
    if match["twice"]:
        return 26.0
    if match["gapped"]:
        return _A_YEAR[match["unit2"][0]] / 2
    if match["unit3"]:
        unit = match["unit3"]
        return _A_YEAR.get(unit) or _A_YEAR[unit[0]]
    if match["yearly"]:
        return float(count_of(match["yearly"]) or 0)
    unit = match["unit"]
    every = (count_of(match["number"]) or 1) + (1 if match["gap"] and count_of(match["number"]) == 1 else 0)
    return (_A_YEAR.get(unit) or _A_YEAR[unit[0]]) / every


def _english(match: re.Match[str]) -> float:
    if match["times"]:
        return float(count_of(match["times"]) or 0)
    if match["other"]:
        return _ENGLISH_YEAR[match["one"]] / 2
    if match["three"]:
        return _ENGLISH_YEAR[match["three"]]
    return _ENGLISH_YEAR[match["two"]] / (count_of(match["number"]) or 1)
