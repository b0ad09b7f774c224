"""Quantities in financial prose: shares, sums of money, durations, multiples, discounts.

Chinese and English, in digits (half-width or full-width), numerals and words: 30%, 三成半, 百分之十, a third,
4.2万元, $1.2 million, 两三年, eighteen months, 八折. Ranges (10-20%, 三到五年) and the bounds beside them
(至少, 以内, at most) are read. Offsets are those of the text as given.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from memfin.text import numbers

QuantityKind = Literal["share", "money", "duration", "multiple", "discount"]
Bound = Literal["at_most", "at_least", "exact"]


class Quantity(NamedTuple):
    """A number with its unit, or a range of them, at ``text[start:end]``.

    ``low`` and ``high`` are equal unless the text gives a range. Shares and discounts are fractions of one,
    money is in the currency's unit (yuan, dollars), durations are in years, multiples in times. ``unit`` is
    the unit as written (``%``, ``成``, ``分之``, ``万元`` ...).
    """

    kind: QuantityKind
    low: float
    high: float
    start: int
    end: int
    unit: str


# Numbers. Nothing backtracks into a number, so that every run of figures is read once.

_CN: Final = f"{numbers.CHINESE_DIGITS}十百千拾佰仟"
_D: Final = rf"[\d{numbers.CHINESE_DIGITS}]"
_LAST_DIGIT: Final = rf"(?:{_D}(?=[元块美港多的左，,。;；、！!？?）)\s]|人民|$))?"
_HUNDREDS: Final = rf"[百千](?!分[之点])(?:{_D}[百十])*+{_LAST_DIGIT}"
_ROWS: Final = rf"(?:(?:{_D}[千仟]|[零〇](?={_D}))(?:{_D}[百十佰拾]|[零〇](?={_D}))*+|\d{{4}}(?![\d年]))?"
_WAN: Final = rf"(?:万亿|[亿億](?:[\d{_CN}]{{1,9}}[万萬])?|[万萬](?!分之)){_ROWS}{_LAST_DIGIT}"
_ARABIC: Final = r"(?:\d{0,2}(?:,\d{3}(?!\d))++|\d*+)(?:[.．]\d++)?"
_NUMBER: Final = (
    rf"[0-9０-９百千万半{_CN}](?>(?<=\d){_ARABIC}(?: ?(?=[百千万亿萬億])(?:{_HUNDREDS})?(?:{_WAN})?)?"
    rf"|(?<=[{_CN}])[{_CN}]*+(?:点{_D}++)?(?: ?{_WAN})?|(?<=半)(?:[百千]?[万亿](?!分))?+"
    rf"|(?<![\d{_CN}]万)(?<=万)(?=分之[\d{_CN}]))"
)
_TO: Final = r" ?(?:[-–—~～－至到]|to(?![a-z])) ?"

# Units. Some of them also begin ordinary words (成立, 成分股, 年报), which the look-aheads leave alone.
_SIGNS: Final = "$¥￥£€"
_CURRENCY: Final = "元|块钱|块(?![儿地砖])|人民币|美元|美金|港元|港币|欧元|英镑|日元"
_ENGLISH_CURRENCY: Final = r"(?:yuan|rmb|cny|dollars?|usd|euros?|pounds?|hkd)(?![a-z])"
_ENGLISH_SCALE: Final = r"(?:[kmw]|thousand|million|billion)(?![a-z\d线])"
_CHENG: Final = (
    r"成(?![立员果功品熟绩变型套人语]|交(?!给)|不变|长(?![期线])|本(?![金钱])|(?<=一成)为|分[股券类指])"
    r"(?:半|[一二三四五六七八九](?![年个天%成只倍月周家档点]|、[一二三四五六七八九][成只]"
    rf"|[到至-](?!{_D}成)))?"
)
_MEASURES: Final = "股手人名家户只份吨台辆公点次笔个克米瓦"
_ENGLISH_MEASURES: Final = (
    "shares|points|units|people|funds|companies|stocks|times|miles|words|pages|employees|customers|holdings"
)
_AFTER_WAN: Final = ("", _D, f"{_D}[千仟]", f"{_D}[千仟]{_D}[百佰]", f"[零〇]{_D}[百佰]", r"\d{4}")
_BARE: Final = (
    rf"(?:{'|'.join(f'(?<=[万亿萬億]{rest})' for rest in _AFTER_WAN)}|(?<=\d千)|(?<=\d千{_D}))[多余]?+"
    rf"(?![{_MEASURES}])(?!(?<=千万)[别不要记勿莫])"
    rf"|(?<=,\d{{3}})(?![.．,]\d|[%％]|\s?(?:[{_MEASURES}]|{_ENGLISH_MEASURES}))"
)
"""The place of a missing unit, behind a number with 万 or 亿 or with its thousands grouped: money."""
_YEARS: Final = r"-?(?:years?|yrs?|months?|weeks?|days?|decades?)(?![a-z])(?: and a half\b)?"
_UNIT: Final = (
    rf"[%％]|个?百分点|个点|折(?![腾算叠])|倍|{_CHENG}|[多余来]?(?:{_CURRENCY})"
    r"|年(?![级报度初末底线份代])半?|个(?:半月|月半?|交易日|季度|星期)"
    rf"|交易日|星期|周(?![年末岁转])|天|日(?![均线内经])|{_YEARS}|{_ENGLISH_CURRENCY}"
    rf"|(?:per ?cent(?:age points?)?|points?|pct|x)(?![a-z])|{_ENGLISH_SCALE}(?: {_ENGLISH_CURRENCY})?"
)
_FACTORS: Final[dict[str, tuple[QuantityKind, float]]] = {
    **dict.fromkeys(("%", "％", "百分点", "点", "p"), ("share", 1 / 100)),
    "成": ("share", 1 / 10),
    "折": ("discount", 1 / 10),
    **dict.fromkeys(("倍", "x", "times"), ("multiple", 1.0)),
    **dict.fromkeys(("", "日元", "pound"), ("money", 1.0)),
    **dict.fromkeys(("k", "thousand"), ("money", 1e3)),
    "w": ("money", 1e4),
    **dict.fromkeys(("m", "million"), ("money", 1e6)),
    "billion": ("money", 1e9),
    **dict.fromkeys(("年", "year", "yr"), ("duration", 1.0)),
    **dict.fromkeys(("月", "month"), ("duration", 1 / 12)),
    **dict.fromkeys(("周", "星期", "week"), ("duration", 7 / 365)),
    **dict.fromkeys(("天", "日", "day"), ("duration", 1 / 365)),
    "季度": ("duration", 1 / 4),
    "交易日": ("duration", 1 / 250),
    "decade": ("duration", 10.0),
}
"""Kinds and factors by prefix of a unit. The empty prefix matches every unit: the rest are currencies."""

# Figures. They are matched by one pattern: number, division or fraction, unit, the rest of a range.
_MEASURED: Final = f" ?({_UNIT}|{_BARE})"
_PART: Final = rf"(\d++(?:[.．]\d++)?|[{_CN}]++(?:点{_D}++)?)"
_FRACTION: Final = rf"分之{_PART}(?:{_TO}(?:百分之)?{_PART}(?![分年个月天号日成只倍%]))?"
_DIVISION: Final = r"(?<=[1-9])/(10|[2-9])(?![\d/.年月日%百千万亿])"
_RANGE: Final = rf"(?:(?=[ \-–—~～－至到t])(?:{_TO}|(?(6)(?!)| or ))({_NUMBER}){_MEASURED})?"
_LONG: Final = rf"(?:(?<=[\d{_CN}.．,{_SIGNS}][\d{_CN}万亿萬億])|(?<=[{_SIGNS}] [\d{_CN}]))"


@cache
def _figure() -> re.Pattern[str]:
    """Return the pattern of a figure, cached as compiling it takes 20 ms.

    A number of several characters is matched without a unit too, so that no part of it is tried again.
    """
    return re.compile(
        rf"({_NUMBER})(?:(?=[分/半仓])(?:{_FRACTION}|{_DIVISION}|((?<=一)半|(?<=半)仓))"
        rf"|(?:{_MEASURED})?{_RANGE}(?(6)|(?(7)|{_LONG})))",
        re.IGNORECASE,
    )


_Reading = tuple[QuantityKind, float, float, str]
_LARGEST: Final = {"年": 1899.0, "成": 10.0, "折": 10.0}
_ROUND: Final = re.compile(",[05]00")
_BIG: Final = re.compile(r"[万亿萬億,]|(?<=\d)千")
_TRAILING_SCALE: Final = re.compile("(?:[百千佰仟]?[万亿萬億]+|[百千佰仟])$")
_CHANGE: Final = re.compile(
    r"(?is)(?:[提升加抬增降减压调砍]|\b(?:rais|lift|increas|cut|trim|tak|bring|push|drop|lower|reduc|mov"
    r"|shift|go(?:es|ing)?\b|grow|build|step|bump|shrink|dial)).*(?:from|从|由) ?$"
)
"""Words before a range of shares that make it a change, of which the second counts (提高，从20%到30%)."""
_PART_OF_DATE: Final = frozenset({("月", "日"), (".", "/"), ("/", "/"), ("年", "/")})
_CONTEXT: Final = frozenset(f"{_SIGNS}第月年上下./")


@lru_cache(maxsize=512)
def _unit(written: str) -> tuple[QuantityKind, float, float]:
    """Return the kind of a unit as written, its factor, and the addition of 半 or of 五 in 三成五."""
    unit = written.lower().lstrip("- 个半多余来")
    name = max((name for name in _FACTORS if unit.startswith(name)), key=len)
    kind, factor = _FACTORS[name]
    extra = 0.5 if written.startswith("个半") or unit.endswith(("半", "half")) else 0.0
    if name == "成":
        extra = extra or (numbers.chinese_number(unit[1:]) or 0.0) / 10
    return kind, factor, extra * factor


def _ends(number: str, kind: QuantityKind = "share") -> tuple[float, float] | None:
    """Return both ends of a numeral: 两三 is 2 to 3. 八五 is a number only in 八五折."""
    if number and number.isascii():
        value = float(number.replace(",", ""))
        return value, value
    values = numbers.number_values(number)
    if not values or (len(values) == 1 < len(number) and kind != "discount" and numbers.digit_string(number)):
        return None
    return min(values), max(values)


def _measured(number: str, own_unit: str | None, last: str, unit: str) -> _Reading | None:
    """Return the quantity of a number with its unit, or of a range whose first number may lack the unit."""
    kind, factor, addition = _unit(unit)
    own_kind, own_factor, own_addition = (kind, factor, addition) if own_unit is None else _unit(own_unit)
    scale = _TRAILING_SCALE.search(last)
    if own_unit is None and scale and not _TRAILING_SCALE.search(number):  # 5-10万
        own, mantissa = _ends(number), _ends(last[: scale.start()])
        if own and mantissa and own[1] <= mantissa[1]:
            number += scale[0]
    low, high = _ends(number, kind), _ends(last, kind)
    if low is None or high is None or own_kind != kind:
        return None
    if kind == "money":
        big = _BIG.search(last)
        if not (unit.strip("多余") or big):
            return None
        if scale and scale[0][-1] in "万亿萬億":
            unit = scale[0] + unit
        unit = unit or (big[0].strip(",") if big else "")
        if own_unit is None and low[0] > high[0]:  # 500-1k
            own_factor = 1.0
    elif high[1] > _LARGEST.get(unit[0], high[1]):
        if kind != "discount":
            return None
        own_factor = factor = factor / 10  # 八五折
    ends = round(low[0] * own_factor + own_addition, 12), round(high[1] * factor + addition, 12)
    return kind, min(ends), max(ends), unit


@lru_cache(maxsize=2048)
def _read(
    number: str, over: str | None, over_high: str | None, divisor: str | None, half: str | None,
    unit: str | None, last: str | None, last_unit: str | None,
) -> _Reading | None:  # fmt: skip
    """Return the quantity of the groups of a figure."""
    if half is not None:
        return "share", 0.5, 0.5, number + half
    if over is not None:
        parts, low, high = numbers.chinese_number(number), _ends(over), _ends(over_high or over)
        if not parts or low is None or high is None:
            return None
        ends = round(low[0] / parts, 12), round(high[1] / parts, 12)
        return "share", min(ends), max(ends), "分之"
    if divisor is not None:
        share = float(number) / float(divisor) if len(number) == 1 else 1.0
        return ("share", share, share, "/") if share < 1 else None
    if last is not None and last_unit is not None:
        return _measured(number, unit, last, last_unit)
    return None if unit is None else _measured(number, unit, number, unit)


def _in_context(match: re.Match[str], before: str, start: int, reading: _Reading | None) -> Quantity | None:
    """Adjust a figure to the sign before it: of a currency, an ordinal or a date."""
    first, last = match.span()
    if before in _SIGNS:
        first = max(start, match.string.rindex(before, 0, first))
        if reading is None or reading[0] != "money":
            amount = _ends(match[1])
            return Quantity("money", *amount, first, match.end(1), before) if amount else None
        reading = (*reading[:3], reading[3] or before)
    if reading is None or before == "第" or (before, reading[3]) in _PART_OF_DATE:
        return None
    kind, low, high, unit = reading
    return None if match[0] == "半年" and before in "上下" else Quantity(kind, low, high, first, last, unit)


def _figures(text: str, start: int, stop: int) -> Iterator[Quantity]:
    """Yield the quantities in digits and Chinese numerals."""
    for match in _figure().finditer(text, start, stop):
        first, last = match.span()
        if last - first > numbers.LONGEST:
            continue
        reading = _read(*match.groups())
        if match[7]:
            changed = reading and reading[0] == "share" and _CHANGE.search(text, max(0, first - 40), first)
            if reading is None:  # no range: 10万-20%
                yield from _figures(text, first, match.start(7))
            if changed or reading is None:
                yield from _figures(text, match.start(7), last)
                continue
        before = text[first - 1 : first]
        if before == " ":
            before = text[first - 2 : first - 1]
        if before in _CONTEXT:
            if quantity := _in_context(match, before, start, reading):
                yield quantity
        elif reading is not None:
            kind, low, high, unit = reading
            yield Quantity(kind, low, high, first, last, unit)


# English words.
_COUNT: Final = (
    rf"(?:(?:{numbers.BELOW_HUNDRED}|(?<![%\d] )an?)"
    rf"(?:[- ](?:{numbers.ENGLISH_SCALE})(?:(?: and)? {numbers.BELOW_HUNDRED})?){{0,3}}"
    r"(?: and a half)?|half(?: an?)?|a couple of)"
)
_ORDINALS: Final = "half|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
_PARTS: Final = {"quarter": 4, "twentieth": 20} | {
    part: number for number, part in enumerate(_ORDINALS.split("|"), 2)
}
_AFTER_PART: Final = (
    "of|in|into|to|your|the|on|for|off|should|go(?:es)?|would|could|can|stays?|sits?|gets?|and|or|by|at|with"
    "|from|each|apiece|invested|under|below|down|if|before|so|when|while|stocks|equities|shares|bonds|gilts"
    "|cash|gold|treasuries"
)
_WORDED: Final = (
    rf"({_COUNT})(?:[- ](?:to|or|and)[- ]({_COUNT}))?[- ]"
    rf"(per ?cent|years?|months?|weeks?|days?|decades?|times|{_ENGLISH_CURRENCY})\b( and a half\b)?"
)
_SHARE: Final = (
    rf"(?:({numbers.ONE_TO_NINE}|an?|other|another|remaining)[- ])?({'|'.join(_PARTS)})s?\b"
    rf"(?=[,.;]|$|\s(?:{_AFTER_PART})\b)"
)
_HEAD: Final = "an|a |rem|oth|qua|hal|zer|one|t(?:wo|we|hr|hi|en)|fo[ru]|fi[vf]|six|sev|eig|nin|ele"
# The engine skips ahead only to a set of characters, so that a match is one letter with the rest asserted.
_ENGLISH: Final = re.compile(
    rf"[aefhnoqrstzAEFHNOQRSTZ](?<![a-zA-Z].)(?i:(?<=(?={_HEAD})(?=({_WORDED}|{_SHARE})).))"
)


@lru_cache(maxsize=512)
def _count(words: str) -> float:
    """Return the value of a count in English words; an article alone is one."""
    value = numbers.english_number(words)
    return 1.0 if value is None else value


def _worded(text: str, start: int, stop: int) -> Iterator[Quantity]:
    """Yield the quantities in English words."""
    done = start
    for match in _ENGLISH.finditer(text, start, stop):
        first, last = match.span(1)
        if first < done:
            continue
        done = last
        _, low, high, unit, half, count, part = match.groups()
        if part is None:
            kind, factor, _ = _unit(unit)
            ends = [round((_count(each) + (0.5 if half else 0)) * factor, 12) for each in (low, high or low)]
            yield Quantity(kind, min(ends), max(ends), first, last, unit.lower())
        elif count or part.lower() == "half":
            share = _count(count or "a") / _PARTS[part.lower()]
            if share < 1:
                yield Quantity("share", share, share, first, last, part.lower())


def quantities(text: str, start: int = 0, end: int | None = None) -> list[Quantity]:
    """Return the quantities of ``text[start:end]`` in order.

    A number with its thousands grouped and without a unit (28,571) is money if the text has round ones.
    """
    stop = len(text) if end is None else end
    found = [*_figures(text, start, stop)]
    if not all(quantity.unit for quantity in found) and not _ROUND.search(text, start, stop):
        found = [quantity for quantity in found if quantity.unit]
    worded = [*_worded(text, start, stop)]
    return sorted(found + worded, key=lambda quantity: quantity.start) if worded else found


def find(text: str, kind: QuantityKind) -> Quantity | None:
    """Return the first quantity of a kind, or None."""
    return next((quantity for quantity in quantities(text) if quantity.kind == kind), None)


# Bounds.
_AT_MOST: Final = (
    "不(?:能|要|可|得|会)?(?:超过?|高于|突破)|最多|至多|最高|顶多|上限(?:为|是|定在|设在)?|别超过?|勿超|别高于"
    "|小于|低于|少于|控制在|限制在|压在|以内|<=?|≤|＜|at most|no more than|up to|under|below|less than|within"
    "|not? (?:exceed(?:ing)?|above|over)|max(?:imum)?(?: of)?|cap(?:ped)? at|limit(?:ed)? to|exceed"
)
_AT_LEAST: Final = (
    "不(?:能|要|可|得)?(?:少于|低于|小于|短于)|至少|最少|最低|起码|下限(?:为|是)?|超过|高于|保底|>=?|≥|＞"
    "|at least|no less than|not less than|minimum(?: of)?|min|over|above|more than"
)
_AT_MOST_BEFORE: Final = re.compile(rf"(?i)(?:{_AT_MOST})\s*[:：]?\s*$")
_AT_MOST_AFTER: Final = re.compile(
    r"(?i)\s*(?:以内|以下|内(?![部外容需])|封顶|为?上限|or less|at most|max\b)"
)
_AT_LEAST_BEFORE: Final = re.compile(rf"(?i)(?:{_AT_LEAST})\s*[:：]?\s*$")
_AT_LEAST_AFTER: Final = re.compile(r"(?i)\s*(?:及?以上|起(?![伏点])|打底|or more|at least|\+)")


def bound(text: str, quantity: Quantity) -> Bound:
    """Return the bound that adjacent words make of a quantity."""
    before = text[max(0, quantity.start - 18) : quantity.start]
    after = text[quantity.end : quantity.end + 10]
    if _AT_LEAST_AFTER.match(after):
        return "at_least"
    if _AT_MOST_AFTER.match(after):
        return "at_most"
    least, most = _AT_LEAST_BEFORE.search(before), _AT_MOST_BEFORE.search(before)
    if least and (most is None or least.start() < most.start()):  # 不低于 ends in 低于, 不超过 in 超过
        return "at_least"
    return "at_most" if most else "exact"
