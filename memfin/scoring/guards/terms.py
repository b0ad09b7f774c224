"""What holds by contract, by law or by arithmetic: said of it in absolute words, a thing is simply true."""

import re
from functools import cache
from typing import Final

from memfin.scoring.attribution import refutation, voices
from memfin.scoring.attribution.negation import negated
from memfin.scoring.patterns.expressions import compile_pattern, expand, late
from memfin.scoring.patterns.files import word_classes
from memfin.scoring.text import language
from memfin.scoring.text.language import Analysis

_BOUND: Final = late(
    r"\b(?:mortgages?|loans?|rent|tariffs?|tax(?:es)?|bills?|wages?|salar(?:y|ies)|pensions?|premiums?|"
    r"(?:savings|current|checking|easy-access|instant-access|deposit|notice|cash) accounts?|deposits?|"
    r"savers?|money[- ]market|insured|deposit insurance|warranty|fees?|charges?|"
    r"(?:fixed|agreed|contract(?:ual)?) (?:rates?|terms?|payments?)|exercise|homework|textbooks?|formula|"
    r"spreadsheet|columns?|cells?)\b"
)
_INVESTED: Final = late(
    r"\b(?:funds?|bonds?|notes?|trusts?|portfolios?|etfs?|reits?|strateg(?:y|ies)|products?|gilts?|shares|"
    r"stocks?|equit(?:y|ies)|annuit(?:y|ies))\b"
)


def by_terms(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words are of a loan, an account, a bill or a sum, and of no investment.

    Read are their own sentences and the one before (an easy-access saver: you can always get the money).
    """
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    _, high = analysis.sentence_span(max(start, end - 1))
    if low > 0:
        low, _ = analysis.sentence_span(low - 1)
    return _BOUND.search(norm, low, high) is not None and _INVESTED.search(norm, low, high) is None


_SETTLED: Final = late(
    r"\b(?:tax(?:es)?|rent|tariffs?|bills?|fees?|charges?|premiums?|wages?|salar(?:y|ies)|pensions?|benefits?|"
    r"allowance|fares?|tuition|mortgages?|loans?|repayments?|instal?ments?|deposits?|accounts?|balances?|"
    r"minimum wage|subscriptions?|contributions?|price cap|contract|letter|law|you(?:r)? (?:owe|debt))\b"
)
_SUPPOSED: Final = late(
    r"\b(?:if|unless|assuming|suppose|supposing|scenario|case|example|exercise|could|might|may|expects?|"
    r"forecasts?|estimates?|analysts?|perhaps|maybe|probably|likely|nobody|no one|cannot know|last year|"
    r"nothing is)\b"
)


def fixed_sum(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence tells what a contract or the law has settled: the tax will be 5% higher."""
    low, _ = analysis.sentence_span(start)
    return _SETTLED.search(analysis.norm, low, end) is not None


def uncertain(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether a forecast is hedged, another's or only supposed, in its sentences up to ``end``."""
    low, _ = analysis.sentence_span(start)
    _, high = analysis.sentence_span(start)
    return _SUPPOSED.search(analysis.norm, low, max(high, end)) is not None


_CERTAIN_BEFORE: Final = (
    r"(?:will|shall|is going to|are going to) (?:have )?[a-z]+[^.;!?]{0,40}?"
    r"(?:<MOVE_SIZE_EN>[^.;!?]{0,30}?\b<DATE_EN>|\b<DATE_EN>[^.;!?]{0,24}?<MOVE_SIZE_EN>)|"
    r"\b<MOVES_FLAT_EN>\b[^.;!?]{0,30}?(?:<MOVE_SIZE_EN>[^.;!?]{0,30}?\b<DATE_EN>|"
    r"\b<DATE_EN>[^.;!?]{0,24}?<MOVE_SIZE_EN>)"
)


@cache
def _forecast() -> re.Pattern[str]:
    return compile_pattern(expand(_CERTAIN_BEFORE, word_classes()))


def no_forecast(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether no flat forecast of a size by a date stands before: then nothing is called certain."""
    norm = analysis.norm
    here, _ = analysis.sentence_span(start)
    if here == 0:
        return True
    low, high = analysis.sentence_span(here - 1)
    found = _forecast().search(norm, low, high)
    if found is None or _SUPPOSED.search(norm, low, high) or _SETTLED.search(norm, low, high):
        return True
    first, last = found.span(1)
    return (
        negated(analysis, first, last)
        or voices.attributed(analysis, first, last)
        or language.quoted(analysis, first, last)
        or language.questioned(analysis, first, last)
        or refutation.refuted(analysis, first, last)
    )


_GOODS: Final = late(
    r"\b(?:warrant(?:y|ies)|shops?|stores?|retailers?|landlords?|tenan(?:t|ts|cy)|airlines?|tickets?|hotels?|"
    r"employers?|phone|broadband|repairs?|courses?|deliver(?:y|ies)|refund polic(?:y|ies)|returns desk|"
    r"purchase price|manufacturers?|couriers?|letting agents?|tribunals?|fares?|mortgages?|"
    r"overtime|shifts?|hours)\b"
)


def of_goods(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether a guarantee is of goods, work or a tenancy (the warranty guarantees your money back)."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    high = max(high, end)
    return _GOODS.search(norm, low, high) is not None and _INVESTED.search(norm, low, high) is None


_OWED: Final = late(
    r"\b(?:owe[sd]?|owing|mortgages?|rent|bills?|instal?ments?|fees?|subscriptions?|pensions?|premiums?|loans?|"
    r"repayments?|costs?|spend(?:ing)?|tax(?:es)?|insured|deposit insurance)\b"
)


def owed_by_you(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sum is one that the client pays, or the law secures: 900 a month, come what may."""
    low, high = analysis.sentence_span(start)
    return _OWED.search(analysis.norm, low, max(high, end)) is not None


_ASKED: Final = late(
    r"\b(?:volatility|(?:price )?swings?|fluctuations?|ups and downs|drawdowns?|dips?|loss(?:es)?|defaults?|"
    r"bankruptcy|insolvency|going bust|downgrades?|duration|risks?|danger|illiquidity|downsides?|"
    r"crash(?:es)?|suspensions?|queues?|uncertainty|rate (?:rises|hikes)|rising rates|rates|falls|setbacks?|"
    r"wobbles?|bad years|lock-ups?|getting stuck|missed coupons?|bear markets?|corrections?|inflation|"
    r"recessions?|risk (?:profile|tolerance|level)|suitability|questionnaire)\? $"
)
_QUESTION_REACH: Final = 24


def no_risk_asked(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - called alike
    """Say whether no question that ends with a risk stands in front, to be answered away."""
    return _ASKED.search(analysis.norm, max(0, start - _QUESTION_REACH), start) is None
