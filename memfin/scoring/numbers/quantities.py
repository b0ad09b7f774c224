"""Numbers as financial prose writes them: shares, money, durations, multiples.

Reads ASCII and full-width digits, Chinese numerals (三成半, 百分之十, 三分之二, 两三成), English words
(a third, twenty percent), ranges (10-20%, 三到五年) and the bounds around them (至少, 以内, at most).
The functions are pure and keep character offsets into the text they were given.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from memfin.scoring.numbers.chinese import DIGITS, chinese_number
from memfin.scoring.numbers.english import BELOW_HUNDRED, english_number
from memfin.scoring.patterns.expressions import apart, compile_pattern, late

QuantityKind = Literal["share", "money", "duration", "multiple", "discount"]
Bound = Literal["at_most", "at_least", "exact"]


class Quantity(NamedTuple):
    """A number with its unit, or a range of them.

    ``low`` and ``high`` are equal unless the text gives a range. Units: ``share`` and ``discount`` are
    fractions of one, ``money`` is in the currency's unit (yuan, dollars), ``duration`` in years,
    ``multiple`` in times. ``unit`` is the text's own unit (``%``, ``成``, ``分之``, ``年`` ...).
    """

    kind: QuantityKind
    low: float
    high: float
    start: int
    end: int
    unit: str


_WORD: Final = rf"{BELOW_HUNDRED}|an?"
_PARTS: Final = {
    "half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
    "ninth": 9, "tenth": 10, "twelfth": 12, "twentieth": 20,
}  # fmt: skip

_N: Final = r"\d零〇一二两三四五六七八九十百千半"
_NUM: Final = rf"[{_N}](?:[{_N}点]|\.(?=\d)|,(?=\d{{3}}(?!\d)))*"
_SEP: Final = r" ?(?:-|–|—|~|～|－|至|到|to) ?"
# 成 and 年 also begin ordinary words (成立, 成分股, 年报); the look-aheads leave those alone.
_CHENG: Final = (
    r"成(?![立员果功品熟绩变型套人语]|交(?!给)|不变|长(?![期线])|本(?![金钱])|(?<=一成)为)(?!分[股券类指])"
    r"(?:半|[一二三四五六七八九](?![年个天%成只倍月周家档点]|、[一二三四五六七八九][成只]|"
    r"[到至-](?![一二两三四五六七八九十\d]成)))?"
)
_YEAR: Final = r"年(?![级报度初末底线份代前后内来])半?|年(?=[内前后]|来)"
_UNIT: Final = (
    rf"%|％|个?百分点|个点|points\b|per\s?cent(?:age points?)?\b|pct\b|{_CHENG}|折|倍|[xX](?![a-zA-Z])"
    rf"|(?:万亿|亿|千万|百万|万)(?:多|余)?(?:元|块钱|块|美元|美金|港元|人民币)?(?![股手人家户只份吨台辆公])"
    rf"|元|块钱|块|美元|港元|yuan\b|dollars?\b|RMB\b|CNY\b|USD\b|[kKmM]\b|million\b|thousand\b"
    rf"|{_YEAR}|个(?:交易日|月)半?|个半月|-?\s?(?:years?|yrs?|months?|weeks?|days?)\b|周|个?星期|"
    rf"(?:个)?交易日|天|日(?![均线内经])"
)
# Most numerals are part of a word (一般, 千万别) or of a longer number; one look at the next character
# leaves them alone, instead of a try of every unit behind every digit.
_UNIT_HEAD: Final = r"%％个百pc成折倍xX万亿千元块美港ydRCUkKmMt年\-\sw周星交天日"
_AHEAD_OF_NUMBER: Final = rf"(?=[{_UNIT_HEAD}–—~～－至到分])"
_LIKELY_UNIT: Final = rf"(?=[{_UNIT_HEAD}])(?:{_UNIT})"
_NUMERIC: Final = late(
    rf"({_NUM}){_AHEAD_OF_NUMBER}(?: ?(?:分之) ?({_NUM})(?:{_SEP}(?:百分之)?({_NUM}))?"
    rf"|(?: ?({_LIKELY_UNIT})?{_SEP}({_NUM}))? ?({_LIKELY_UNIT}))"
)
_PRICED: Final = late(r"[$¥￥£€]\s?(\d(?:,?\d)*+(?:\.\d++)?+)(?!\s?(?:[万亿千百]|[kKmM]\b|million|thousand))")
_THOUSANDS: Final = late(
    r"(?<![\d.,$¥￥£€])\d{1,3}(?:,\d{3})+(?!\d|[,.]\d|%|\s?(?:[万亿元点股手只家人名个户份吨]|shares|points|"
    r"units|people|"
    r"funds|companies|stocks|times|[kKmM]\b|million|yuan|dollars?|miles|words|pages|employees|customers))"
)
_SLASHED: Final = late(r"(?<![\d./年])([1-9])/([2-9]|10)(?![\d/年月])")
_HALF: Final = compile_pattern(r"(?<![减第])一半|一半|半仓")
_ENGLISH: Final = late(
    rf"\b({_WORD})(?:[- ](to|or|and)[- ]({_WORD}))?[- ]"
    rf"(per\s?cent|percent|years?|months?|weeks?|days?|times)\b|"
    rf"\b(?:(one|two|three|four|a|an)[- ])?({'|'.join(_PARTS)})(s?)\b(?=\s(?:of|in|into|to|your|the|on|"
    rf"for|off|"
    rf"should|goes|go|would|could|can|stays?|sits?|gets?|and|or|by|at|with|from|each|apiece|invested|under|"
    rf"below|down|off|if|before|so|when|while|stocks|equities|shares|bonds|gilts|cash|gold|"
    rf"treasuries)\b|"
    rf"[,.;]|$)",
    re.IGNORECASE,
)
# Written out, as the engine skips to the next member of a leading set without a count only.
_LATIN: Final = late(r"[a-zA-Z][a-zA-Z][a-zA-Z]")
_MONEY_SCALE: Final = (
    ("万亿", 1e12), ("亿", 1e8), ("千万", 1e7), ("百万", 1e6), ("万", 1e4),
    ("million", 1e6), ("thousand", 1e3),
)  # fmt: skip
_YEARS: Final = (
    ("个月", 1 / 12), ("个半月", 1 / 12),
    ("交易日", 1 / 250), ("星期", 7 / 365), ("年", 1.0), ("周", 7 / 365), ("天", 1 / 365),
    ("日", 1 / 365), ("year", 1.0), ("yr", 1.0), ("month", 1 / 12), ("week", 7 / 365), ("day", 1 / 365),
)  # fmt: skip
_NAMED_NUMBER: Final = late(r"\d+(?=[一二两三四五六七八九]$)")
"""The number of an index right before a share: 沪深300三成."""
_CALENDAR_YEAR: Final = 1900
_FROM: Final = late(r"(?:from|从|由) ?$")
_CHANGES: Final = late(
    r"[提升加抬增降减压调砍]|\b(?:rais|lift|increas|cut|trim|tak|bring|push|drop|lower|reduc|go|mov|shift|"
    r"grow|build|step|bump|shrink|dial)\w*"
)
_CHANGE_REACH: Final = 40


@lru_cache(maxsize=1024)
def _span(text: str) -> tuple[float, float] | None:
    """Return low and high of a numeral; 两三 and 七八 name a range of two neighbours."""
    pair = 2
    if len(text) == pair and text[0] in DIGITS and text[1] in DIGITS:
        low, high = float(DIGITS[text[0]]), float(DIGITS[text[1]])
        return (low, high) if 0 < low < high else None
    value = chinese_number(text)
    return None if value is None else (value, value)


@lru_cache(maxsize=256)
def _scale(unit: str) -> tuple[QuantityKind, float, float] | None:  # noqa: PLR0911 - one return a unit
    """Return kind, factor and the addition that a trailing 半 makes, for a unit as written."""
    lowered = unit.lower().lstrip("- ")
    half = 0.5 if lowered.endswith(("半", "个半月")) else DIGITS.get(lowered[-1], 0) / 10
    if lowered[0] in "%％p" or lowered.endswith(("百分点", "个点")):
        return "share", 0.01, 0.0
    if lowered[0] == "成":
        return "share", 0.1, half * 0.1
    if lowered == "折":
        return "discount", 0.1, 0.0
    if lowered in ("倍", "x", "times"):
        return "multiple", 1.0, 0.0
    for name, factor in _MONEY_SCALE:
        if lowered.startswith(name):
            return "money", factor, 0.0
    if lowered in ("k", "m"):
        return "money", 1e3 if lowered == "k" else 1e6, 0.0
    for name, factor in _YEARS:
        if name in lowered:
            return "duration", factor, half * factor
    return "money", 1.0, 0.0


def _fraction(match: re.Match[str]) -> Quantity | None:
    base, low, high = match.group(1), match.group(2), match.group(3)
    bottom = 100.0 if base == "百" else 1000.0 if base == "千" else chinese_number(base)
    first = chinese_number(low)
    last = chinese_number(high) if high else first
    if not bottom or first is None or last is None:
        return None
    return Quantity("share", first / bottom, last / bottom, match.start(), match.end(), "分之")


def _numeric(  # noqa: PLR0911 - one return a misreading
    match: re.Match[str], text: str
) -> Quantity | None:
    if match.group(2) is not None:
        return _fraction(match)
    first, left_unit, last, unit = match.group(1, 4, 5, 6)
    start = match.start()
    named = _NAMED_NUMBER.match(first)
    if named is not None and unit[0] in "成%":
        first, start = first[named.end() :], start + named.end()
    low_span = _span(first)
    high_span = _span(last) if last else low_span
    scaled = _scale(unit)
    if low_span is None or high_span is None or scaled is None:
        return None
    kind, factor, addition = scaled
    low_factor, low_addition = factor, addition
    if left_unit is not None:
        left = _scale(left_unit)
        if left is None or left[0] != kind:
            return None
        _, low_factor, low_addition = left
    if kind == "duration" and "年" in unit and high_span[1] >= _CALENDAR_YEAR:
        return None  # 2024年 is a date
    if kind == "share" and unit[0] == "成" and high_span[1] > 10:  # noqa: PLR2004 - ten tenths are all
        return None
    low, high = low_span[0] * low_factor + low_addition, high_span[1] * factor + addition
    if kind == "share" and last and _is_taken_on(text, start):
        # Taken from one share to another: what counts is where it ends, not what lies between.
        return Quantity(kind, high, high, match.start(5), match.end(), unit)
    if start and text[start - 1] in "$¥￥£€" and kind != "money":
        return None
    return Quantity(kind, min(low, high), max(low, high), start, match.end(), unit)


def _is_taken_on(text: str, start: int) -> bool:
    return (
        _FROM.search(text, max(0, start - 6), start) is not None
        and _CHANGES.search(text, max(0, start - _CHANGE_REACH), start) is not None
    )


def _english_value(words: str) -> float:
    """Return the value of what `_WORD` found; an article stands for one."""
    value = english_number(words)
    return 1.0 if value is None else value


def _english(match: re.Match[str]) -> Quantity | None:
    low, _, high, unit, count, part, _ = match.groups()
    if part is not None:
        share = _english_value(count or "a") / _PARTS[part.lower()]
        return (
            Quantity("share", share, share, match.start(), match.end(), part.lower()) if share < 1 else None
        )
    scaled = _scale(unit)
    if scaled is None:
        return None
    kind, factor, _ = scaled
    first = _english_value(low) * factor
    last = _english_value(high) * factor if high else first
    return Quantity(kind, first, last, match.start(), match.end(), unit.lower())


def quantities(text: str, start: int = 0, end: int | None = None) -> list[Quantity]:
    """Return the quantities of ``text[start:end]`` in order; offsets count from the text's beginning."""
    stop = len(text) if end is None else end
    return sorted(_find(text, start, stop), key=lambda found: found.start)


_HALF_WORD: Final = 2


def _find(text: str, start: int, stop: int) -> Iterator[Quantity]:  # noqa: C901, PLR0912 - one loop a notation
    for match in _NUMERIC.finditer(text, start, stop):
        own = match
        if match[1].startswith("一半") and len(match[1]) > _HALF_WORD:  # 一半五年国债 is half, and five years
            own = _NUMERIC.match(text, match.start() + _HALF_WORD, stop) or match
        found = _numeric(own, text)
        if found is not None:
            yield found
    part = text[start:stop]
    if any(map(part.__contains__, "$¥￥£€")):
        for match in _PRICED.finditer(text, start, stop):
            amount = float(match.group(1).replace(",", ""))
            yield Quantity("money", amount, amount, match.start(), match.end(), match.group()[0])
    if ",000" in part or ",500" in part:
        for match in _THOUSANDS.finditer(text, start, stop):
            amount = float(match.group().replace(",", ""))
            yield Quantity("money", amount, amount, match.start(), match.end(), "")
    if "半" in part:
        for match in apart(_HALF, text, start, stop):
            yield Quantity("share", 0.5, 0.5, *match.span(1), match.group(1))
    if "/" in part:
        for match in _SLASHED.finditer(text, start, stop):
            share = int(match.group(1)) / int(match.group(2))
            if share < 1:
                yield Quantity("share", share, share, match.start(), match.end(), "/")
    if _LATIN.search(part) is None:
        return
    for match in _ENGLISH.finditer(text, start, stop):
        found = _english(match)
        if found is not None:
            yield found


_PLAIN_SIGNS: Final = "%一二两三四五六七八九十123456789分百"
_SPLIT_SIGNS: Final = ("半", "/")
"""A sign that goes on so (一半, 1/3) is no plain number."""
_SHARE_UNITS: Final = "%％个百成p"
_BEHIND: Final = 18
_AHEAD: Final = 10


def shares_at(text: str, signs: Sequence[int]) -> list[Quantity]:
    """Return the shares around the given positions of share signs (%, 成, 分之, percent ...), in order.

    Reading a reply's numbers only where a sign stands is several times faster than reading all of them.
    """
    found: list[Quantity] = []
    last = len(signs) - 1
    low, plain = -1, True
    for index, sign in enumerate(signs):
        if low < 0:
            low, plain = max(sign - _BEHIND, 0), True
        plain = plain and text[sign] in _PLAIN_SIGNS and text[sign + 1 : sign + 2] not in _SPLIT_SIGNS
        if index < last and signs[index + 1] - _BEHIND <= sign + _AHEAD:
            continue
        high = min(sign + (_AHEAD if plain else 2 * _AHEAD), len(text))
        if plain:
            for match in _NUMERIC.finditer(text, low, high):
                unit = match.group(6)
                if unit is not None and unit[0] not in _SHARE_UNITS:
                    continue
                quantity = _numeric(match, text)
                if quantity is not None and quantity.kind == "share":
                    found.append(quantity)
        else:
            found.extend(quantity for quantity in quantities(text, low, high) if quantity.kind == "share")
        low = -1
    return found


_AT_MOST_BEFORE: Final = late(
    r"(?:不(?:能|要|可|得|会)?(?:超过?|高于|突破)|最多|至多|最高|顶多|上限(?:为|是|定在|"
    r"设在)?|别超过?|勿超|别高于"
    r"|小于|低于|少于|控制在|限制在|压在|以内|<=?|≤|＜|at most|no more than|not? (?:exceed(?:ing)?|"
    r"above|over)"
    r"|up to|under|below|less than|within|max(?:imum)?(?: of)?|cap(?:ped)? at|limit(?:ed)? to|"
    r"exceed)\s*[:：]?\s*$",
    re.IGNORECASE,
)
_AT_MOST_AFTER: Final = late(
    r"\s*(?:以内|以下|内(?![部外容需])|封顶|为?上限|or less|at most|max\b)", re.IGNORECASE
)
_AT_LEAST_BEFORE: Final = late(
    r"(?:不(?:能|要|可|得)?(?:少于|低于|小于|短于)|至少|最少|最低|起码|下限(?:为|是)?|超过|高于|"
    r"保底|>=?|≥|＞"
    r"|at least|no less than|not less than|minimum(?: of)?|min|over|above|more than)\s*[:：]?\s*$",
    re.IGNORECASE,
)
_AT_LEAST_AFTER: Final = late(r"\s*(?:以上|及以上|起(?![伏点])|打底|or more|at least|\+)", re.IGNORECASE)
_LOOK_BEHIND: Final = 18
_LOOK_AHEAD: Final = 10


def bound(text: str, quantity: Quantity) -> Bound:
    """Say whether the words beside a quantity make it an upper bound, a lower bound or the figure itself.

    不低于 is a lower bound although it contains 低于: the negated comparisons are tried first.
    """
    before = text[max(0, quantity.start - _LOOK_BEHIND) : quantity.start]
    after = text[quantity.end : quantity.end + _LOOK_AHEAD]
    if _AT_LEAST_AFTER.match(after):
        return "at_least"
    if _AT_MOST_AFTER.match(after):
        return "at_most"
    least, most = _AT_LEAST_BEFORE.search(before), _AT_MOST_BEFORE.search(before)
    if least and most:
        # 不超过 ends in 超过, 不低于 in 低于: the longer reading is the one with the negation.
        return "at_least" if least.start() < most.start() else "at_most"
    if least:
        return "at_least"
    return "at_most" if most else "exact"
