"""Does a reply advise against one of the user's constraints?

`ConstraintChecker` is built once a dialogue: the constraints are parsed to predicates, and a table
says which words of the vocabulary matter to them. A reply is scanned by one Aho-Corasick automaton
over the whole vocabulary; only the sentences around relevant words and numbers are read further.
Spans of the result count in the reply as it was written (trace schema, ``constraint_contradiction``).
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Final, NamedTuple

from memfin.scoring.advice.advised import advised, owned_by_advice, said_of_it
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.constraints.outside import FUNDS_ONLY, OUTSIDE
from memfin.scoring.constraints.predicates import (
    AllowedUniverse,
    AssetClassCap,
    CashFloor,
    ForbiddenAsset,
    ForbiddenPractice,
    LowFee,
    MaxDrawdown,
    MaxDuration,
    MaxLockUp,
    MaxPremium,
    MaxVolatility,
    MinHolding,
    MinRating,
    Predicate,
    Preferred,
    SingleAssetCap,
)
from memfin.scoring.constraints.texts import parse_constraints
from memfin.scoring.constraints.topics import FUNDING
from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.constraints.words import RATINGS, Sign, role_table
from memfin.scoring.limits import budgets, caps, ceilings, durations, left_over, remainders, tenors, totals
from memfin.scoring.limits.all_in import all_in
from memfin.scoring.limits.drawdown import drawdown
from memfin.scoring.limits.main_share import is_main
from memfin.scoring.limits.volatility import volatility
from memfin.scoring.offers.figures import measured, orders
from memfin.scoring.offers.harmless import harmless
from memfin.scoring.offers.low_ratings import fallen, told_behind
from memfin.scoring.offers.respect import Respect, backed, respect
from memfin.scoring.offers.turns import turns_of_phrase
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis, analyze
from memfin.scoring.text.tries import few
from memfin.scoring.weights.reading import SIGN_WIDTH, Hit, Reading


class Contradiction(NamedTuple):
    """A constraint that the reply advises against, the rule that says so, and the words that do it.

    ``start`` and ``end`` are half-open character offsets into the reply as it was written.
    """

    constraint: str
    rule: str
    start: int
    end: int


_RATING_LIMIT: Final = {"AAA": 0, "AA+": 1, "AA": 3, "A": 4, "BBB": 5}
_DOMESTIC_LADDER: Final = 1
_LIMITS: Final = (
    SingleAssetCap,
    AssetClassCap,
    CashFloor,
    MaxDrawdown,
    MaxDuration,
    MaxLockUp,
    MaxPremium,
    MaxVolatility,
    *ceilings.CEILINGS,
    *totals.TOTALS,
)
_PRODUCT: Final = late(r"策略|cta|跟踪|etf|基金|产品|理财|\bfunds?\b|\bproducts?\b|\bnotes?\b")
"""What makes the wording of a practice a thing to own: a leveraged ETF."""
_CALM: Final = late(
    r"(?<!别等)(?<!不等)回调(?![只很仅才]|有限|结束|不深)|逢低|低位|回落后|等.{0,6}(?:跌|稳)|再平衡|"
    r"分[一二三四五六七八九十\d]+个?[批月]|按[^,。]{0,4}月|照旧|照常|定投|慢慢|same amount|"
    r"each month|whether or not|as ever|dip|pullback|rebalanc"
)
_NO_STOCK: Final = late(r"买卖|同步|绑定?|交给|替你|代你|国债|逆回购|基金|etf|债券|\bfunds?\b|\bbonds?\b")
_MAY_HOLD: Final = late(
    r"\b(?:may|might|can|could) (?:hold|invest|own|put|place|move|shift) (?:up to |as much as )?$|"
    r"\b(?:index|fund|tracker|etf) (?:itself )?(?:has|holds|keeps|carries|contains|includes) "
    r"(?:about |around |roughly |some |only )?$"
)
"""What a fund is allowed to hold is no weight of a plan."""
_APART: Final = late(r"[,、;。不没]|\b(?:paid|pays?|yield\w*|return\w*|gain\w*|lost|fell|rose|default\w*) ")
"""What stands between a thing and a figure that is no weight of it: what it paid."""
_SLICE: Final = late(r",? (?:in|of|into|for) (?:an? |the )?$")
"""A small slice, say 10%, in what is named behind."""
_DAYS_OF_SHORT_TERM: Final = 15 / 365


class ConstraintChecker:
    """The constraints of one dialogue, ready to be held against its replies."""

    def __init__(self, constraints: Sequence[str | tuple[str, Predicate | None]]) -> None:
        """Parse the constraints; those that are no predicate (or none at all) never contradict."""
        parsed: list[tuple[str, Predicate | None]] = []
        for entry in constraints:
            if isinstance(entry, str):
                parsed.extend((entry, predicate) for predicate in parse_constraints(entry))
            else:
                parsed.append(entry)
        self.predicates: Final[tuple[tuple[str, Predicate], ...]] = tuple(
            (text, predicate) for text, predicate in parsed if predicate is not None
        )
        self._watched: Final = self._watch()
        self._limits: Final = [
            (text, predicate) for text, predicate in self.predicates if isinstance(predicate, _LIMITS)
        ]
        watched = [name for _, _, names in self._watched for name in names]
        self._table: Final = role_table(
            frozenset(watched), frozenset(self._signs(watched)), classes=bool(self._limits)
        )

    def _signs(self, watched: Sequence[str]) -> list[Sign]:
        """Say which signs these constraints need; every further one costs time at every reply."""
        signs: list[Sign] = ["share"]
        if self._limits:
            signs.append("all_in")
        if "short_term_trading" in watched:
            signs.append("hold")
        return signs

    def _watch(self) -> list[tuple[str, Predicate, frozenset[str]]]:
        """Pair every constraint that forbids terms with all terms it forbids."""
        vocabulary = load_vocabulary()
        watched: list[tuple[str, Predicate, frozenset[str]]] = []
        for text, predicate in self.predicates:
            names: frozenset[str] = frozenset()
            if isinstance(predicate, ForbiddenPractice | ForbiddenAsset):
                names = vocabulary.closure(predicate.term)
            elif isinstance(predicate, AllowedUniverse):
                names = frozenset().union(*(vocabulary.closure(name) for name in OUTSIDE[predicate.universe]))
            elif isinstance(predicate, MinRating):
                lowest = _RATING_LIMIT[predicate.rating]
                names = frozenset(f"rating:{name}" for name, rank in RATINGS.items() if rank > lowest)
                names |= {"low_rated_credit" if lowest <= _DOMESTIC_LADDER else "speculative_grade"}
            elif isinstance(predicate, LowFee):
                names = frozenset({"high_fee"})
            elif isinstance(predicate, Preferred) and predicate.term == "quarterly_performance":
                names = frozenset({"opaque_performance"})
            elif isinstance(predicate, MinHolding):
                names = frozenset({"short_term_trading"})
            if names:
                watched.append((text, predicate, names))
        return watched

    def check(self, reply: Analysis | str) -> list[Contradiction]:
        """Return the contradictions of a reply, at most one a constraint, in the order of constraints."""
        analysis = analyze(reply) if isinstance(reply, str) else reply
        if not self.predicates:
            return []
        reading = Reading(analysis, self._table)
        found: dict[str, tuple[str, caps.Span]] = {}
        for text, predicate, names in self._watched:
            hit = _forbidden(reading, predicate, names)
            if hit is not None:
                found.setdefault(text, hit)
        for text, predicate in self._limits:
            breach = _limited(reading, predicate)
            if breach is not None:
                found.setdefault(text, breach)
        return [
            Contradiction(text, rule, *analysis.original_span(start, end))
            for text, (rule, (start, end)) in found.items()
        ]


def contradictions(reply: Analysis | str, predicates: Sequence[tuple[str, Predicate]]) -> list[Contradiction]:
    """Return where a reply advises against the predicates, given with their constraints' texts."""
    return ConstraintChecker(predicates).check(reply)


def _forbidden(reading: Reading, predicate: Predicate, names: frozenset[str]) -> tuple[str, caps.Span] | None:
    kept: Respect | None = None
    lesser: dict[int, float] = {}
    for rule, span in _proposals(reading, predicate, names):
        weighed = _owned(reading.analysis, rule, span) and _listed(reading, *span)
        if not (weighed or backed(reading.analysis, *span)):
            if kept is None:
                kept = respect(reading.analysis, (hit for hit in reading.hits if hit.term in names), names)
            if kept.holds(reading.analysis, span[0], rule.removeprefix("advises_")):
                continue
        if (
            isinstance(predicate, MinRating)
            and predicate.scope == "main"
            and not is_main(reading, span, lesser)
        ):
            continue
        return rule, span
    return None


def _owned(analysis: Analysis, rule: str, span: caps.Span) -> bool:
    """Say whether a rule speaks of a thing that can carry a weight; a practice does as a product only."""
    if rule.removeprefix("advises_") not in _practices():
        return True
    return rule != "advises_high_fee" and _PRODUCT.search(analysis.norm, span[0], span[1] + 6) is not None


def _proposals(  # noqa: C901 - one source a kind of predicate
    reading: Reading, predicate: Predicate, names: frozenset[str]
) -> Iterator[tuple[str, caps.Span]]:
    analysis = reading.analysis
    own = (hit for hit in reading.hits if hit.term in names)
    funds = isinstance(predicate, AllowedUniverse) and predicate.universe in FUNDS_ONLY
    for hit in few(analysis, own, attrgetter("start")):
        if not harmless(analysis, hit, funds_allowed=funds) and _proposed(reading, hit):
            yield f"advises_{hit.term.replace(':', '_')}", (hit.start, hit.end)
    for (term, number), parts in reading.frames.items():
        count = len(_frame(term, number)) if term in names else 0
        # Most sentences hold some word of a frame, few replies hold one of every group.
        if count and len({part for part, _, _ in parts}) == count:
            yield from ((f"advises_{term}", span) for span in _framed(analysis, parts, count, term))
    yield from measured(analysis, names, partial(_listed, reading))
    yield from turns_of_phrase(analysis, names, partial(_listed, reading))
    yield from fallen(analysis, names)
    yield from told_behind(analysis, names)
    if "individual_stocks" in names:
        yield from orders(analysis)
    if isinstance(predicate, ForbiddenAsset) and load_vocabulary().term(predicate.term) is None:
        yield from _literal(reading, predicate.term)
    if "lock_up_products" in names:
        span = tenors.lock_up(analysis, reading, 0.0)
        if span is not None:
            yield "advises_lock_up_products", span
    if "short_term_trading" in names:
        years = predicate.years if isinstance(predicate, MinHolding) else _DAYS_OF_SHORT_TERM
        span = tenors.holding(analysis, reading, years)
        if span is not None:
            yield "advises_short_holding", span


@cache
def _frame(term: str, number: int) -> list[list[str]]:
    found = load_vocabulary().term(term)
    return found.frames[number] if found is not None else []


@cache
def _practices() -> frozenset[str]:
    return frozenset(term.id for term in load_vocabulary().terms if term.kind == "practice")


def _proposed(reading: Reading, hit: Hit) -> bool:
    analysis = reading.analysis
    asset = hit.term not in _practices() or _PRODUCT.search(analysis.norm, hit.start, hit.end + 9) is not None
    if advised(analysis, hit.start, hit.end, act=hit.act, asset=asset, funding=hit.term in FUNDING):
        return True
    if said_of_it(analysis, hit.term, hit.start) and owned_by_advice(analysis, hit.start, hit.end):
        return True
    return _listed(reading, hit.start, hit.end)


def _listed(reading: Reading, start: int, end: int) -> bool:
    """Say whether a word carries a weight of a proposed allocation."""
    analysis = reading.analysis
    near = 24 if analysis.norm[start].isascii() else 10
    low, high = analysis.sentence_span(start)
    row = analysis.line_kind(start) == "row"
    reach = high - low if row else near
    if not reading.sign_near(max(low, start - reach - SIGN_WIDTH), min(high, end + reach + SIGN_WIDTH)):
        return False
    if not any(
        low <= share.start < high and max(share.start - end, start - share.end) <= reach
        for share in reading.candidates
    ):
        return False
    for weight in reading.weights:
        if weight.role not in ("target", "added") or not low <= weight.start < high:
            continue
        if _MAY_HOLD.search(analysis.norm[max(low, weight.start - 24) : weight.start]):
            continue
        gap = analysis.norm[end : weight.start] if weight.start >= end else analysis.norm[weight.end : start]
        joined = len(gap) <= near and (not _APART.search(gap) or _SLICE.match(gap))
        if (row or joined) and not (disowned(analysis, start, end) or rejected(analysis, start, end)):
            return True
    return False


_DONE: Final = late(r"完|过(?!去)|高了|作")
"""What others have done already: the story has been played out."""


def _framed(
    analysis: Analysis, parts: Sequence[tuple[int, int, int]], count: int, term: str
) -> Iterator[caps.Span]:
    """Yield the advised last words of complete frames, one a sentence."""
    by_sentence: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for part, start, end in parts:
        if analysis.line_kind(start) == "row":
            continue
        by_sentence.setdefault(analysis.sentence_at(start), {}).setdefault(part, []).append((start, end))
    for groups in by_sentence.values():
        if len(groups) < count:
            continue
        for start, end in groups[count - 1]:
            if _DONE.match(analysis.norm, end):
                continue
            patient = term == "chasing_rallies" and _CALM.search(
                analysis.norm, *analysis.sentence_span(start)
            )
            clause = analysis.clause_span(start, end)
            if end == clause[1] - 1:  # what is bought stands in front
                clause = analysis.sentence_span(start)
            if term == "individual_stocks" and _NO_STOCK.search(analysis.norm, *clause):
                continue
            if not patient and advised(analysis, start, end, act=True):
                yield start, end


def _literal(reading: Reading, term: str) -> Iterator[tuple[str, caps.Span]]:
    word = term.removesuffix("s") if term.isascii() else term  # one tobacco stock, several tobacco stocks
    start = reading.analysis.norm.find(word)
    while start >= 0:
        if _proposed(reading, Hit(term, start, start + len(word), act=False)):
            yield "advises_forbidden_asset", (start, start + len(word))
        start = reading.analysis.norm.find(word, start + len(word))


def _limited(  # noqa: C901, PLR0911 - one return a kind
    reading: Reading, predicate: Predicate
) -> tuple[str, caps.Span] | None:
    """Hold one limit against the reply; the cheap tests come first."""
    analysis = reading.analysis
    if isinstance(predicate, MaxDrawdown):
        return _named("drawdown_above_limit", drawdown(analysis, reading, predicate))
    if isinstance(predicate, MaxVolatility):
        return _named("volatility_above_limit", volatility(reading, predicate.limit))
    if isinstance(predicate, MaxDuration):
        span = tenors.duration(analysis, reading, predicate.years)
        span = span or durations.worked_out(analysis, reading, predicate.years)
        return _named("duration_above_limit", span)
    if isinstance(predicate, MaxLockUp):
        return _named("lock_up_above_limit", tenors.lock_up(analysis, reading, predicate.years))
    if isinstance(predicate, ceilings.CEILINGS):
        return ceilings.exceeded(reading, predicate)
    if isinstance(predicate, totals.TOTALS):
        return totals.missed(reading, predicate)
    if isinstance(predicate, MaxPremium):
        return _named("premium_above_limit", budgets.premium(analysis, predicate.amount))
    if reading.all_in:
        everything = all_in(analysis, reading.all_in)
        if everything is not None and not _is_allowed_all_in(analysis, everything, predicate):
            return "all_in", everything
    if isinstance(predicate, SingleAssetCap):
        single = caps.single_cap(analysis, reading, predicate)
        return _named("single_holding_above_cap", single or remainders.one_holding(reading, predicate.limit))
    if isinstance(predicate, AssetClassCap):
        return _named("asset_class_above_cap", remainders.of_class(reading, predicate))
    if isinstance(predicate, CashFloor):
        months = predicate.months
        short = None if months is None else budgets.cash_months(reading, months)
        short = short or caps.cash_floor(analysis, reading, predicate)
        return _named("cash_below_floor", short or left_over.cash_left(reading, predicate))
    return None


def _named(rule: str, span: caps.Span | None) -> tuple[str, caps.Span] | None:
    return None if span is None else (rule, span)


def _is_allowed_all_in(analysis: Analysis, span: caps.Span, predicate: Predicate) -> bool:
    """All money into cash breaks no cash floor; all money into bonds no cap on equity."""
    text = analysis.norm[span[0] : span[1]]
    if isinstance(predicate, AssetClassCap):
        if predicate.asset_class == "equity":
            return re.search(r"债|存款|货币|现金|黄金|bond|cash|deposit|gold|treasur", text) is not None
        return predicate.asset_class not in text
    return re.search(r"存款|货币|现金|活期|cash|deposit|money market", text) is not None
