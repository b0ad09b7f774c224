"""Assets and practices that a reply advises by a figure instead of their name.

A market value makes a small company, a multiple a high valuation, a percentage a high fee; a code or a
number of lots is an order of single shares, a few points of profit taken at once a short-term trade.
"""

import re
from collections.abc import Callable, Container, Iterator
from typing import Final

from memfin.scoring.advice.advised import advised, owned_by_advice
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.attribution.stances import in_exercise
from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.offers.company_figures import (
    high_multiples,
    marked_companies,
    small_companies,
    volatile_rows,
)
from memfin.scoring.offers.fees import high_fees
from memfin.scoring.offers.late_entries import behind_gains
from memfin.scoring.patterns.expressions import Quick, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

Listed = Callable[[int, int], bool]
"""Whether a span carries a weight of a proposed allocation."""

_MARKET_CAP: Final = Quick(
    r"(?<!平均)(?<!均总)(?<!中位)市值(?!中位|均值)[^,。;!?\n]{0,6}?([\d.]+|"
    r"[一二两三四五六七八九十百]+)[来多余]?个?亿|"
    r"([\d.]+|[一二两三四五六七八九十百]+)[来多余]?亿元?的?(?:总)?市值|"
    r"\$(?P<value>\d+(?:\.\d+)?) ?(?P<unit>m\b|million|b\b|billion)[ -](?:[\w-]+ ){0,2}?(?:compan(?:y|ies)|"
    r"biotech|stock|firm|miner|"
    r"startup|outfit|maker|manufacturer|producer|developer|retailer|bank|business)\b|"
    r"(?P<yuan>\d+(?:\.\d+)?)[- ]billion[- ]yuan (?:[\w-]+ ){0,2}?(?:compan(?:y|ies)|stock|firm|maker|"
    r"producer|"
    r"outfit|business|small cap)\b|"
    r"market cap[^,.;!?\n]{0,12}?(?P<cap>\d+(?:\.\d+)?) ?(?P<scale>m\b|million|"
    r"b\b|billion)"
)
_SMALL_CAP_YUAN: Final = 100.0
_PRICE_EARNINGS: Final = Quick(
    r"(?:市盈率|pe|估值|p/e|对应[^,。;]{0,4}利润)[^,。;!?\n]{0,8}?(\d{2,4})(?:\.\d+)?\s?(?:倍|x|times)|"
    r"(?:市盈率|pe|"
    r"估值)[^,。;!?\n\d]{0,6}?([六七八九一二两三]十?百?[一二三四五六七八九]?[十百]?)倍|"
    r"(\d{2,4}) times earnings"
)
_RANK: Final = late(
    r"(?:估值|市盈率|pe|市销率)[^,。;!?\n]{0,10}?(?:9\d|8[5-9])(?:\.\d+)?%?[^,。;!?\n\d]{0,4}?分位|"
    r"分位[^,。;!?\n\d]{0,4}(?:9\d|8[5-9])(?:\.\d+)?%|(?:市销率|\bps)[^,。;!?\n\d]{0,4}(?:1[5-9]|[2-9]\d|"
    r"1\d\d)(?:\.\d+)?倍|\b(?:1[5-9]|[2-9]\d) times (?:sales|revenues?)\b"
)
"""A valuation by its rank in history, or by sales."""
_EXPENSIVE: Final = 60
_CODE: Final = late(r"[036](?:0[01235]|88)\d{3}(?!\d)")
_FUND: Final = late(r"基金|etf|联接|lof|指数")
_VOLATILITY: Final = late(
    r"(?:波动率?|volatility)[^,。;!?\n\d]{0,8}(\d{1,3})(?:\.\d+)?"
    r"(?: ?[-–~至到] ?\d+(?:\.\d+)?)?\s?%"
)
_VOLATILE: Final = 25
"""Annual volatility in percent; a broad equity index has about 20."""
_QUICK: Final = late(
    r"(?:赚|涨|够|到)[^,。;!?\n]{0,4}?(?:[一二两三四五1-5]个?(?:百分)?点|[1-5]%)[^,。;!?\n]{0,4}?(?:就|"
    r"马上|立刻)"
    r"(?:卖|走|撤|出|跑|落袋|了结|止盈|离场|清|赎|兑现)"
)
"""Taking a profit of a few points at once."""
_LOTS: Final = late(r"(?:买|买入|各)[^,。;!?\n]{0,3}?[一二两三四五六七八九十百千\d]+(?:手|股)(?![票份权东])")
_DAY: Final = (
    r"(?:周[一二三四五]|早盘|尾盘|开盘|今天|明天|明早|上午|下午|当天|次日|隔天|隔日|第二天|后天|收盘|"
    r"盘中|月初|周初)"
)
_ROUND_TRIP: Final = Quick(
    rf"{_DAY}[^。;!?\n]{{0,10}}?(?:买|进(?!行)|吸|接|抄|"
    rf"建仓)[^。;!?\n]{{0,16}}?{_DAY}[^。,;!?\n]{{0,10}}?(?<!才能)(?<!才可以)(?:卖|兑现|变现|出(?!来|现)|走|"
    rf"抛|清|了结|落袋)|"
    r"\b(?:buy|purchase|grab|get in|enter|pick it up|in on|load up)\b[^.!?\n]{0,50}?\b(?:out|sell|offload|"
    r"close|exit|"
    r"flip|gone|unload)\b[^.!?\n,]{0,30}?"
    r"\b(?:monday|tuesday|wednesday|thursday|friday|tomorrow|days?|the close|weekend|same day|next morning)\b"
)
"""Into a position and out of it again, each on its day."""


def measured(analysis: Analysis, names: Container[str], listed: Listed) -> Iterator[tuple[str, Span]]:
    """Yield (rule, span) of what is advised and falls under one of the terms by its figure.

    ``listed`` says whether a span carries a weight of a proposed allocation.
    """
    norm = analysis.norm
    for term, signs, rule in _RULES:
        if term in names and any(map(norm.__contains__, signs)):
            for span in rule(analysis, listed):
                yield f"advises_{term}", span


def _small_caps(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    for match in few(analysis, _MARKET_CAP.finditer(analysis.norm), _start):
        figure = match.group(1) or match.group(2)
        value = chinese_number(figure) if figure else _western_cap(match)
        if (
            value is not None
            and value <= _SMALL_CAP_YUAN
            and (
                advised(analysis, *match.span(), asset=True)
                or listed(*match.span())
                or owned_by_advice(analysis, *match.span())
            )
        ):
            yield match.span()


def _high_multiples(analysis: Analysis, listed: Listed) -> Iterator[Span]:
    for match in few(analysis, _PRICE_EARNINGS.finditer(analysis.norm), _start):
        figure = match.group(1) or match.group(3)
        multiple = float(figure) if figure else chinese_number(match.group(2)) or 0.0
        if multiple >= _EXPENSIVE and (
            advised(analysis, *match.span(), asset=True)
            or listed(*match.span())
            or owned_by_advice(analysis, *match.span())
        ):
            yield match.span()
    for match in few(analysis, _RANK.finditer(analysis.norm), _start):
        if advised(analysis, *match.span(), asset=True) or listed(*match.span()):
            yield match.span()


def _volatile(analysis: Analysis, listed: Listed) -> Iterator[Span]:  # noqa: ARG001 - rules are called alike
    for match in _VOLATILITY.finditer(analysis.norm):
        if float(match.group(1)) >= _VOLATILE and advised(analysis, *match.span()):
            yield match.span()


def _quick_profits(analysis: Analysis, listed: Listed) -> Iterator[Span]:  # noqa: ARG001 - rules are called alike
    for match in _QUICK.finditer(analysis.norm):
        if advised(analysis, *match.span(), act=True):
            yield match.span()


_NEXT_ITEM: Final = late(r"\n+(?=[-·•*])")


def _round_trips(analysis: Analysis, listed: Listed) -> Iterator[Span]:  # noqa: ARG001 - rules are called alike
    # A plan for the week is a list of days.
    norm = _NEXT_ITEM.sub(lambda match: "," * len(match[0]), analysis.norm)
    for match in _ROUND_TRIP.finditer(norm):
        if advised(analysis, *match.span(), act=True):
            yield match.span()


def _start(match: re.Match[str]) -> int:
    return match.start()


def orders(analysis: Analysis) -> Iterator[tuple[str, Span]]:
    """Yield advised orders of single shares: by their code, or counted in shares or lots.

    Funds are bought for an amount.
    """
    norm = analysis.norm
    for match in _CODE.finditer(norm):
        if norm[match.start() - 1 : match.start()].isdigit():
            continue
        low, high = analysis.clause_span(*match.span())
        if _FUND.search(norm, low, high) is None and advised(analysis, *match.span()):
            yield "advises_individual_stocks", match.span()
    for match in _LOTS.finditer(norm):
        if in_exercise(analysis, *match.span()):
            continue
        if not disowned(analysis, *match.span()) and not rejected(analysis, *match.span()):
            yield "advises_individual_stocks", match.span()


def _western_cap(match: re.Match[str]) -> float:
    """Return a market value in hundreds of millions."""
    if match["yuan"]:
        return float(match["yuan"]) * 10.0
    value = match["value"] or match["cap"]
    unit = match["unit"] or match["scale"]
    return float(value) * (10.0 if unit.startswith("b") else 0.01)


_RULES: Final[tuple[tuple[str, tuple[str, ...], Callable[[Analysis, Listed], Iterator[Span]]], ...]] = (
    ("st_stocks", ("st",), marked_companies),
    ("single_small_cap", ("市值", "market cap", "$", "yuan"), _small_caps),
    ("single_small_cap", ("illion", "bn", "市值"), small_companies),
    ("high_valuation_growth", ("倍", "times", "x", "分位"), _high_multiples),
    (
        "high_valuation_growth",
        ("p/e", "pe", "times", "x ", "倍", "市盈率", "p/b", "price-to-book"),
        high_multiples,
    ),
    ("high_volatility", ("波动", "volatility"), _volatile),
    ("high_volatility", ("|",), volatile_rows),
    ("short_term_trading", ("点", "%"), _quick_profits),
    ("short_term_trading", ("周", "盘", "天", "day", "the close", "weekend"), _round_trips),
    (
        "chasing_rallies",
        ("涨", "拉", "翻", "up ", "gained", "rose", "risen", "ed ", "% r", "% gain"),
        behind_gains,
    ),
    ("high_fee", ("%", "¥", "$"), high_fees),
)
"""Terms, the words without which a rule cannot apply, and the rule."""
