"""Holdings that a plan ends before a minimum time: a switch every quarter, out by the season's end.

Spans count in ``Analysis.norm``.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.numbers.months import MONTHS
from memfin.scoring.numbers.quantities import quantities
from memfin.scoring.offers.practice_signs import only_told
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

Span = tuple[int, int]

_YEARS: Final = {
    "day": 1 / 365,
    "天": 1 / 365,
    "日": 1 / 365,
    "week": 7 / 365,
    "周": 7 / 365,
    "星期": 7 / 365,
    "month": 1 / 12,
    "月": 1 / 12,
    "quarter": 0.25,
    "季": 0.25,
    "季度": 0.25,
    "six months": 0.5,
    "half year": 0.5,
    "半年": 0.5,
}
_TURNS: Final = late(
    r"\b(?:rotate|replace|swap|switch|turn over|change (?:all |the |your )*(?:holdings?|funds?|"
    r"stocks?|portfolio|positions?))"
    r"\b[^.;,!?\n\d]{0,60}?\b(?:every|each|once an?|once every) "
    r"(?P<one>day|week|month|quarter|six months|half year)\b|"
    r"\b(?:every|each) (?P<two>day|week|month|quarter|six months|half year)\b,? (?:[a-z]+ ){0,3}?"
    r"(?:rotate|replace|swap|switch)\b|"
    r"每个?(?P<four>季|月)度?末?[^,。;!?\n]{0,3}?(?:卖出|换掉|清掉)[^。;!?\n]{0,10}?(?:换成|买入|"
    r"换入)[^,。;!?\n]{0,4}?(?:领先|最强|强势|涨)|"
    r"每个?(?P<three>天|日|周|星期|月|季度|季|半年)[^,。;!?\n]{0,5}?(?:换|轮换)(?:一次|一遍|一[批只轮]|掉)"
    r"(?!手)[^,。;!?\n]{0,4}"
)
"""All that is held is changed for other things once a period."""
_CHECKS: Final = late(
    r"再平衡|检视|检查|复盘|回看|密码|目标比例|rebalanc|review|check|back to (?:target|the original)|"
    r"contribution"
)
_MONTH: Final = rf"(?:{'|'.join(MONTHS)})"
_CALENDAR: Final = late(
    rf"\b(?P<in>{_MONTH})\b[: -]*(?:buy|purchase|get "
    rf"into)\b[^!?]{{0,60}}?\b(?P<out>{_MONTH})\b[: -]*(?:sell|exit|"
    r"switch|redeem|swap)\b|"
    rf"\b(?:buy|purchase|get in)\b[^.!?\n]{{0,30}}? in (?P<in2>{_MONTH})\b[^.!?\n]{{0,24}}?\b(?:sell|"
    rf"exit|redeem|"
    rf"get out|cash out)\b[^.!?\n]{{0,20}}? in (?P<out2>{_MONTH})\b"
)
_DATED_TABLE: Final = late(
    r"\|[^\n]*\| ?(?:buy|entry|buy in) \| ?(?:sell|exit|sell in)[^\n]*\n[ |:-]+\n(?:\|[^\n]*\n?)+"
)
_DATE: Final = late(rf"\b(?P<month>{_MONTH}) (?P<year>20\d\d)\b")
_IN_A_YEAR: Final = 12
_EXIT: Final = r"(?:卖|止盈|清仓|清掉|赎回|兑现|了结|落袋|离场|撤|换成|换掉|减半|减掉)"
_AFTER: Final = late(
    rf"(?:[一二两三四五六七八九十几\d]+|半)个?(?:多)?(?:月|周|天|星期|交易日)(?:之?后|左右后|"
    rf"以后)(?![^。;!?\n]{{0,10}}(?:再看|免))"
    rf"(?:[^。;!?\n不没别]|不[管论]){{0,14}}?就?{_EXIT}|"
    r"(?:前后|全程|前后加起来|整个过程|总共|来回)(?:大概|约|也就|不超过|不到|就|只有?|最多)*"
    r"(?:[一二两三四五六七八九十几\d]+|半)个?(?:多)?(?:月|周|天|星期|交易日)(?!后)|"
    r"(?:[一二两三四五六七八九十几\d]+|半)个?(?:多)?(?:月|周|天|星期)(?:左右|"
    r"时间)?[^,。;!?\n]{0,2}?(?:换一[只批个]|"
    r"(?:赚|吃|搏|博|做)[^,。;!?\n]{0,2}(?:反弹|波段|一波|差价|行情))|"
    r"\b(?:take|hold|own|keep|run|ride|buy)\b(?! (?:the |a |an |your )*(?:deposit|cash|reserve|cd|"
    r"emergency))[^.,;!?\n]{0,40}?(?: for)? (?:just |only |about |around "
    r"|roughly |some )*"
    r"(?:[a-z]+ (?:or|to) )?(?:[a-z]+|\d+) (?:days|weeks|months)\b(?! of)(?=[^!?\n]{0,100}\b(?:close "
    r"(?:it|the position)|cash out|sell|take profits?|exit|get out|redeem|"
    r"then switch))|"
    r"\bholding period of (?:just |only |about |around )*(?:[a-z]+|\d+) (?:days|weeks|months) (?:is|"
    r"would be|should be) "
    r"(?:enough|fine|plenty|right|sufficient|about right)\b|"
    r"\b(?<!early )(?:redeem|sell|cash in|exit|cash out|(?<!cannot )(?<!not )get out(?! (?:with)?in\b))\b[^"
    r".,:;!?\n]{0,24}? (?:after|in|"
    r"within) "
    r"(?:just |only |about |around )*"
    r"(?:[a-z]+|\d+) (?:days?|weeks?|months?)\b(?![^.;!?\n]{0,40}\b(?:without|free|but|keep|penalty-free)\b)"
)
"""A time that is counted, and selling at its end."""
_BOUND: Final = late(r"不(?:超过|到)$")
_PAPERWORK: Final = late(
    r"一旦|万一|失业|被迫|不得不|就得|只能|办理|开户|审核|流程|到账|申请|预约|\b(?:processing|"
    r"paperwork|notice)\b"
)
_JUST_BOUGHT: Final = late(
    r"\bbought\b[^.!?\n]{0,40}?\b(?:[a-z]+|\d+) (?:days|weeks|months) ago\b[^!?\n]{0,60}?(?:\bso |"
    r"[.;,] |\bthen )"
    r"(?:just |now |i would |you (?:can|could|should) )*(?:sell|redeem|exit|cash (?:in|out))\b|"
    rf"(?:建议|可以|不妨|先|就|底|初|中旬)?{_EXIT}[^,。;!?\n不]{{0,3}}?(?:今年\d{{1,2}}月|上个?月|"
    rf"前[一两]个月|这个月|刚刚?|上周)"
    r"(?:初|底|中旬)?(?:刚|才)?买(?:入)?的|"
    rf"买的[^。;!?\n]{{0,10}}?(?:到现在|至今|到今天)(?:才|刚|不过|只|"
    rf"只有)*(?:[一二两三四五六七八九十\d]|十一)个月[^。;!?\n]{{0,16}}?"
    rf"(?:建议|可以|不妨)[^,。;!?\n不别]{{0,4}}?{_EXIT}|"
    rf"{_EXIT}[^,。;!?\n不]{{0,4}}?(?:刚|才)买(?:了|入)?(?:[一二两三四五六七八九十几\d]|"
    rf"十一)个?(?:月|周|天)的|"
    rf"(?:今年\d{{1,2}}月|上个?月|前[一两几]个?[天周月]|刚刚?|上周)(?:初|底)?(?:刚|"
    rf"才)?买(?:入)?的[^。;!?\n不别]{{0,20}}?"
    rf"(?:建议|可以|不妨)[^,。;!?\n不别]{{0,4}}?{_EXIT}"
)
_TIME_OF_YEAR: Final = rf"(?:{_MONTH}|summer|autumn|winter|spring|christmas|easter|year-end|(?:the )?year)\b"
_SEASON: Final = late(
    r"(?:本周|这周|今天|明天|本月|现在|月初|这个月|先)[^,。;!?\n不]{0,3}?(?:买|建仓|进场|上车|"
    r"埋伏)[^!?]{0,40}?"
    r"(?:下周|下个?月|[本这]?月|季|本季度?|年)(?:初|中旬?|下旬|上旬|底|末)(?:之?前)?[^,。!?;\n不]{0,4}?"
    rf"(?:全部|分批|陆续|就|再|都)*{_EXIT}|"
    r"\bsell (?:it|them|everything|all of it) (?:at|by|before) (?:the )?(?:end of (?:the|this|next) "
    r"(?:quarter|month)|"
    r"quarter-end|month-end)\b|"
    r"\b(?:rotate|replace|swap|switch) (?:all |the |your )*(?:funds?|holdings?|stocks?|portfolio|"
    r"positions?) (?:twice|three "
    r"times|four times) a year\b|"
    rf"\b(?:own|hold|buy|purchase|keep)\b[^.!?\n]{{0,60}}?\b(?:be (?:out|gone)|sell|get out|cash out|"
    rf"take (?:your |the )?"
    rf"profits?)\b[^.;,!?\n]{{0,16}}? (?:by|before|around|at|near|in) (?:the end of "
    rf")?{_TIME_OF_YEAR}(?![^.;,!?\n]{{0,12}}20\d\d)|"
    r"(?:新买|刚买|买)的?[^,。;!?\n]{0,10}?(?:拿|持有)到(?:年底|月底|季末|春节|国庆|"
    r"下个?月)[^,。;!?\n]{0,3}?"
    r"(?:就(?:可以|行|够|好|走|卖)|为止|再卖)"
)
"""In now and out by a season's end, within the year."""


_COUNT_SIGNS: Final = (
    *(
        "月后",
        "周后",
        "天后",
        "日后",
        "年后",
        "期后",
        "之后",
        "右后",
        "以后",
        "前后",
        "全程",
        "过程",
        "总共",
        "来回",
    ),
    *("换一", "反弹", "波段", "一波", "差价", "行情", " day", " week", " month"),
)
_TURN_SIGNS: Final = ("换", "清掉", "卖出", "rotate", "replace", "swap", "switch", "turn over", "change")
_BOUGHT_SIGNS: Final = (
    "刚买",
    "才买",
    "天买",
    "月买",
    "周买",
    "初买",
    "底买",
    "至今",
    "到现在",
    "到今天",
    "bought",
)
_SEASON_SIGNS: Final = (
    *(
        "下周",
        "月底",
        "月末",
        "月初",
        "月中",
        "下旬",
        "上旬",
        "季末",
        "季底",
        "季度末",
        "季度底",
        "年底",
        "年末",
        "年初",
    ),
    *("年中", "拿到", "持有到", "christmas", "easter", "summer", "autumn", "winter", "spring", "year"),
    *("quarter", "month", *MONTHS),
)
"""Words without which a pattern matches nothing; most replies hold none."""


def _any(norm: str, signs: Sequence[str]) -> bool:
    return any(map(norm.__contains__, signs))


def brief(analysis: Analysis, years: float) -> Iterator[Span]:
    """Yield advised holdings that end before the given time."""
    for start, end in _found(analysis, years):
        if not only_told(analysis, start, end) and advised(
            analysis, start, end, act=True, limit=_BOUND.search(analysis.norm, start - 4, start) is not None
        ):
            yield start, end


def _found(analysis: Analysis, years: float) -> Iterator[Span]:
    norm = analysis.norm
    for match in _TURNS.finditer(norm) if _any(norm, _TURN_SIGNS) else ():
        period = next(value for value in match.groupdict().values() if value is not None)
        if _YEARS[period] < years and not _CHECKS.search(norm, *analysis.sentence_span(match.start())):
            yield match.span()
    yield from _counted(analysis, years)
    if "平均" in norm or "averag" in norm:
        yield from _on_average(analysis, years)
    if "转手" in norm:
        yield from _handed_on(analysis, years)
    if years >= 1 - 1 / 365:
        yield from _within_the_year(norm, years)


_AVERAGE: Final = late(
    r"平均(?:下来)?(?:每[只笔个支]|单[只笔个支])?(?:基金|产品|标的|股票)?(?:只|的)?(?:拿|持有|持仓|放|"
    r"留)(?:的)?(?:时间|周期|期限|期)?"
    r"(?:大?约|大概|是|为|在|只有?|到|不到)*$|\b(?:average holding (?:period|time)|held on average|"
    r"hold(?:ing)? each (?:fund |one |stock )?(?:for )?(?:an average of|on average))(?: (?:of|is|for|about|"
    r"around|just|only))* $"
)
_OF_OTHERS: Final = late(
    r"散户|持有人|投资者|同类|经理|客户|网上|有人|别人|他们?|大家|机构|平均(?:每只)?股票|群里|"
    r"\b(?:investors?|managers?|clients?|people|they|peers?)\b"
)


def _on_average(analysis: Analysis, years: float) -> Iterator[Span]:
    """Yield how long a plan holds on average: 平均每只拿45天."""
    norm = analysis.norm
    for each in quantities(norm):
        if each.kind != "duration" or each.high >= years - _DAY:
            continue
        low, _ = analysis.sentence_span(each.start)
        if _AVERAGE.search(norm, max(low, each.start - 40), each.start) and not _OF_OTHERS.search(
            norm, low, each.start
        ):
            yield each.start, each.end


_DAY: Final = 1 / 365
_HANDED_ON: Final = late(r"(?:过|等|拿|放|持有)(?:个|了|上|够|满)?$")
_THEN_HANDED: Final = late(r"[^。;!?\n不没别]{0,12}?就?转手")


def _handed_on(analysis: Analysis, years: float) -> Iterator[Span]:
    """Yield the time after which what was bought is handed on: 过八到十周就转手."""
    norm = analysis.norm
    for each in quantities(norm):
        if each.kind == "duration" and each.high < years - _DAY:
            low, high = analysis.sentence_span(each.start)
            waited = _HANDED_ON.search(norm, max(low, each.start - 6), each.start)
            if waited and _THEN_HANDED.match(norm, each.end, high):
                yield each.start, each.end


def _counted(analysis: Analysis, years: float) -> Iterator[Span]:
    """Yield counted times at the end of which the holding is sold."""
    norm = analysis.norm
    for match in _AFTER.finditer(norm) if _any(norm, _COUNT_SIGNS) else ():
        if _PAPERWORK.search(norm, *analysis.sentence_span(match.start())):
            continue
        for each in quantities(norm, *match.span()):
            if each.kind == "duration" and each.high < years:
                yield each.start, each.end


def _within_the_year(norm: str, years: float) -> Iterator[Span]:
    """Yield purchases and sales told by month, season or date."""
    for match in _CALENDAR.finditer(norm) if _any(norm, MONTHS) else ():
        first, last = (MONTHS.index(name) for name in match.groupdict().values() if name is not None)
        if last > first:
            yield match.span()
    for pattern, signs in ((_JUST_BOUGHT, _BOUGHT_SIGNS), (_SEASON, _SEASON_SIGNS)):
        if not _any(norm, signs):
            continue
        yield from (match.span() for match in pattern.finditer(norm))
    if "|" in norm and "20" in norm:
        yield from _dated(norm, years)


def _dated(norm: str, years: float) -> Iterator[Span]:
    """Yield rows that give the months of buying and selling."""
    for table in _DATED_TABLE.finditer(norm):
        for row in re.finditer(r"\|[^\n]*", table.group()):
            dates = [
                int(date["year"]) * _IN_A_YEAR + MONTHS.index(date["month"])
                for date in _DATE.finditer(row.group())
            ]
            if len(dates) > 1 and 0 <= dates[1] - dates[0] < years * _IN_A_YEAR:
                yield table.start() + row.start(), table.start() + row.end()
