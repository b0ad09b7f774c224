"""Contradictions: proposals of a reply that break a constraint of the client.

Caps, floors, universes and drawdown bounds are checked on the allocations that the reply proposes
(`memfin.scoring.allocation`); assets and practices that the client rules out contradict when the reply
advises them. Mention, explanation, warning, quotation and hypotheticals break nothing. Where a
proposal bears on a constraint but deciding takes arithmetic over several sentences, the constraint is
listed as undecided.
"""

import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final, NamedTuple

from memfin.scoring import statements as kinds
from memfin.scoring.allocation import proposals
from memfin.scoring.classifier import SCALE
from memfin.scoring.constraint_texts import parse_constraints
from memfin.scoring.figures import exceeded
from memfin.scoring.lexicon import Sentence
from memfin.scoring.predicates import (
    AllowedUniverse,
    AssetClassCap,
    AssetClassFloor,
    CashFloor,
    ForbiddenAsset,
    ForbiddenPractice,
    LowFee,
    MaxBudget,
    MaxDrawdown,
    MaxHoldings,
    MaxLoss,
    MaxPremium,
    MaxRiskLevel,
    MaxTurnover,
    MinHolding,
    MinHoldings,
    MinRating,
    NoConstraint,
    Predicate,
    Preferred,
    SingleAssetCap,
)
from memfin.scoring.proposals import Holding, Proposal
from memfin.scoring.statements import Analysis, class_mask, content_lexicon
from memfin.scoring.vocabulary import class_finder, finder_of, load_vocabulary
from memfin.text.document import Document

FIELD: Final = "constraint_contradiction"
"""Field of findings about constraints."""

ADVISES: Final = "advises"
"""The classifier's label for sentences that advise what they name."""

PRACTICES: Final = (
    "leverage",
    "short_term_trading",
    "chasing_rallies",
    "theme_speculation",
    "high_fee",
    "high_valuation_growth",
    "individual_stocks",
    "overseas_market",
    "lock_up_products",
    "low_rated_credit",
)
"""Terms of the vocabulary that the classifier reads without their names, as labels behind `ADVISES`."""

_TOPIC: Final = -5 * SCALE // 2
"""Score above which a sentence that surely advises something is taken to advise a practice."""
_SLACK: Final = 0.001
_EQUITY_FALL: Final = 0.33
"""Fall of equities that a plan must bear: a bear market of the kind seen every few years."""
_CLEARLY: Final = 2.0
"""A plan whose equities alone lose this many times the client's bound breaks it; below, it is undecided."""
_REACH: Final = 24
_FEW: Final = 8
"""Parts of plans in front of a place that may hold it."""
_NEGATED: Final = 4
"""Characters in front of a word in which a word of negation turns it round."""
_SILENT: Final = kinds.QUESTION | kinds.OTHERS | kinds.WARNING | kinds.MENTION | kinds.SUPPOSING
_OUTSIDE: Final = {
    "public_funds": (
        "individual_stocks",
        "private_funds",
        "trusts",
        "crypto",
        "unlisted_equity",
        "p2p",
        "derivatives",
        "structured_products",
    ),
    "index_funds": ("individual_stocks", "active_funds", "private_funds", "trusts", "crypto"),
    "safe": (
        "stocks",
        "individual_stocks",
        "private_funds",
        "trusts",
        "crypto",
        "convertible_bond",
        "a_shares",
        "hk_us_stocks",
    ),
    "liquid": (
        "stocks",
        "individual_stocks",
        "private_funds",
        "trusts",
        "crypto",
        "convertible_bond",
        "lock_up_products",
    ),
}
_NOT_AT_ALL: Final = re.compile(r"(?:完全|根本|压根)没有?")
"""Words of the lexicon that deny a risk; here they deny a practice."""
_WHOLE_FALLS: Final = re.compile(
    r"(?=[组整账总净止回亏])"
    r"(?:(?:组合|整体|整个账户|账户|账面|总资产|净值)[^,。;\n]{0,10}(?:回落|回撤|跌去|跌|亏|少掉|少|缩水|下探)"
    r"|止损线|止损位|(?<![高低中])回撤容忍度|回撤(?:上限)?放宽|亏损放宽)"
)
_WHOLE_FALLS_ENGLISH: Final = re.compile(
    r"\b(?:(?:portfolio|account|whole|overall)[^.;\n]{0,24}(?:fall|drop|drawdown|lose|loss|slide|slump)"
    r"|(?:stretch|raise|widen|lift)[^.;\n]{0,16}(?:loss|drawdown) limit)"
)
_DIRECT_ADVICE: Final = re.compile(
    r"(?<![不没无别勿])(?:我?建议|推荐|可以|不妨|i'd|i would|i suggest|i recommend|you should|consider) ?"
    r"(?:你|you )?"
    r"(?:适当|适度|考虑|先|再|也|去|直接|小仓位|分批|some|a|an|the|using|use|buy|buying|adding|add| )*"
    r"(?:加|用|上|做|买|买入|配|配置|投|开|开通|使用|参与|布局|持有|申购|融资|借钱|贷款|一点|一些|点|些|"
    r"[0-9.]+ ?(?:%|万元?|成)的?)* ?$"
)
_BUYS: Final = re.compile(r"买|购|配|投(?!资者|诉)|加仓|布局|放|buy|purchas|invest|put|allocat")
_ALL_IN: Final = re.compile(
    r"(?:(?<!半)满仓|全仓|梭哈|(?:全部|所有)的?(?:资金|钱|身家)|(?:资金|钱|存款)(?:全部?|统统))"
    r"[^,。;!?\n]{0,12}"
    r"(?:买|吃进|换成|押|杀进|冲进|转进)|(?:买|换成|押)[^,。;!?\n]{0,8}(?:满仓|全仓)|"
    r"\b(?:the )?(?:entire|whole) (?:account|portfolio|pot|balance) (?:into|in)\b|\beverything into\b"
)
_STOCKS: Final = re.compile(
    r"(?:买|吃进|建仓|加仓|换成|持有|满仓|全仓|buy)[^,。;!?\n基减卖]{0,16}"
    r"(?<![\d.])(?:60[0135]|00[0-3]|30[01]|688)\d{3}(?! ?[\d.点万元])"
    r"|(?:直接持有|直接买)[^,。;]{0,10}股(?![份债息])|[两三四五六几]只[^,。;基债]{0,6}(?<!宽)股(?![票份债息])"
    r"|\b(?:two|three|four|five|a few|several) [a-z ]{0,16}(?:shares|stocks)\b"
)
_PAST: Final = re.compile(r"历史|过去|曾|当年|那年|20[0-2][0-9]|回测|in 20|history|past|was|fell|lost")
_RATINGS: Final = ("AAA", "AA+", "AA", "A", "BBB", "BB")
_RATING: Final = re.compile(r"(?<![a-z])(aaa|aa\+|aa-|aa|bbb|bb|a\+|a-)(?![a-z+])")
_RISK_LEVEL: Final = re.compile(r"(?<![a-z0-9])r([1-5])(?![0-9a-z])")
_FUND: Final = re.compile(r"基金|etf|指数|联接|fund|index")


class Contradiction(NamedTuple):
    """A constraint that a reply breaks, the rule that says so, and half-open offsets of the reply."""

    constraint: str
    rule: str
    start: int
    end: int


class Check(NamedTuple):
    """Constraints of a client that a reply breaks, and those that could not be decided."""

    broken: list[Contradiction]
    undecided: list[str]


class ConstraintChecker:
    """Checks replies against the constraints of one client, which are parsed once.

    Args:
        constraints: The client's constraints in their own words.
    """

    def __init__(self, constraints: Iterable[str]) -> None:
        self._parsed: Final = [
            (text, predicate)
            for text in dict.fromkeys(constraints)
            for predicate in parse_constraints(text)
            if not isinstance(predicate, NoConstraint | Preferred)
        ]
        self._terms: Final = frozenset().union(*(ruled_out_terms(predicate) for _, predicate in self._parsed))

    def check(self, reply: str | Document | Analysis) -> Check:
        """Return what a reply breaks, and what could not be decided; each constraint once."""
        if not self._parsed:
            return Check([], [])
        analysis = reply if isinstance(reply, Analysis) else Analysis(reply)
        reading = _ConstraintReading(analysis, self._terms)
        broken: dict[str, Contradiction] = {}
        undecided: dict[str, None] = {}
        for text, predicate in self._parsed:
            if text in broken:
                continue
            outcome = reading.broken(predicate)
            if isinstance(outcome, _Broken):
                start, end = analysis.document.source_span(outcome.start, outcome.end)
                broken[text] = Contradiction(text, outcome.rule, start, end)
            elif outcome is None and reading.is_open(predicate):
                undecided[text] = None
        return Check(list(broken.values()), [text for text in undecided if text not in broken])


def proposal_in(analysis: Analysis) -> tuple[int, int] | None:
    """Return the place of a proposal to buy or allocate, None where a reply has none."""
    return _ConstraintReading(analysis, frozenset()).proposal()


class _Broken(NamedTuple):
    rule: str
    start: int
    end: int


def ruled_out_terms(predicate: Predicate) -> frozenset[str]:
    """Return the ids of the vocabulary that a predicate rules out."""
    if isinstance(predicate, ForbiddenAsset | ForbiddenPractice):
        return load_vocabulary().closure(predicate.term)
    if isinstance(predicate, AllowedUniverse):
        return frozenset().union(*(load_vocabulary().closure(term) for term in _OUTSIDE[predicate.universe]))
    if isinstance(predicate, LowFee):
        return frozenset(("high_fee",))
    if isinstance(predicate, MinRating):
        return frozenset(("low_rated_credit", "speculative_grade"))
    if isinstance(predicate, MinHolding):
        return frozenset(("short_term_trading",))
    return frozenset()


class _ConstraintReading:
    """One reply, read once for all constraints."""

    def __init__(self, analysis: Analysis, terms: frozenset[str]) -> None:
        self._analysis: Final = analysis
        self._document: Final = analysis.document
        self._wanted: Final = terms

    @cached_property
    def _plans(self) -> list[Proposal]:
        """The proposals of the reply, whole ones first."""
        return sorted(proposals(self._document), key=lambda plan: not plan.whole)

    @cached_property
    def _mentions(self) -> list[tuple[frozenset[str], int, int]]:
        """The mentions of what the client rules out, where the reply advises it."""
        if not self._wanted:
            return []
        found = []
        for mention in finder_of(self._wanted).find(self._document.text):
            ids = self._wanted.intersection(mention.ids)
            if ids and self._advised(mention.start, mention.end):
                found.append((ids, mention.start, mention.end))
        return found

    def _advised(self, start: int, end: int) -> bool:
        """Return True if the reply advises the thing at a span: as part of a plan, or in words of advice."""
        statement = self._analysis.statement_at(start)
        if statement.kind & kinds.QUESTION or statement.is_quoted(start, end) or statement.not_offered:
            return False
        sentence = statement.sentence
        if _negated(self._analysis.text, sentence, start, end):
            return False
        if self._is_held(start, end):
            return not statement.kind & _SILENT
        if not sentence.classes & class_mask("ADVISING"):
            return False
        if self._analysis.margin(ADVISES, self._document.sentence_number(start)) > 0:
            return True
        advice = _DIRECT_ADVICE.search(self._analysis.text, max(sentence.start, start - _REACH), start)
        return advice is not None and not statement.kind & _SILENT

    @cached_property
    def _held_spans(self) -> list[tuple[int, int]]:
        """The places of the parts of whole plans, in order."""
        return sorted((h.start, h.end) for plan in self._plans if plan.whole for h in plan.holdings)

    def _is_held(self, start: int, end: int) -> bool:
        """Return True if a span lies in a part of a whole plan, or right behind it."""
        after = bisect_right(self._held_spans, (start, math.inf))
        near = self._held_spans[max(0, after - _FEW) : after]
        return any(end <= last + _REACH for _, last in near)

    def _topical(self, label: str) -> list[int]:
        """Return the sentences that advise a practice, or surely advise something and are close to it."""
        margin = self._analysis.margin
        advising = self._analysis.candidates(ADVISES)
        close = [n for n in advising if margin(ADVISES, n) > SCALE and margin(label, n) > _TOPIC]
        return [n for n in self._analysis.candidates(label) if margin(label, n) > 0] + close

    def _practice(self, ruled_out: frozenset[str]) -> _Broken | None:
        """Return where the classifier reads that the reply advises a practice, with or without its name."""
        for term in PRACTICES:
            label = f"{ADVISES}:{term}"
            for number in self._topical(label) if term in ruled_out else ():
                statement = self._analysis.statement(number)
                start, end = statement.sentence.start, statement.sentence.end
                if statement.kind & kinds.QUESTION or statement.not_offered or self._admits(start):
                    continue
                return _Broken(f"advises_{term}", start, end)
        return None

    def proposal(self) -> tuple[int, int] | None:
        """Return the place of a plan or an asset that the reply advises to buy, None without one."""
        text = self._document.text
        plans = [plan for plan in self._plans if self._is_proposed(plan, plan.holdings[0])]
        assets = frozenset(term.id for term in load_vocabulary().terms if term.kind == "asset")
        mentions = (*class_finder().find(text), *finder_of(assets).find(text))
        named = [(each.start, each.end) for each in mentions if self._advised(each.start, each.end)]
        for start, end in [*((plan.start, plan.end) for plan in plans), *named]:
            statement = self._analysis.statement_at(start)
            lines = (text[statement.sentence.start : statement.sentence.end], *self._document.leads(start))
            if not statement.kind & _SILENT and any(map(_BUYS.search, lines)):
                return start, end
        return None

    # ------------------------------------------------------------------ predicates

    def broken(self, predicate: Predicate) -> _Broken | None:
        """Return where a predicate is broken, or None."""
        checks: dict[type, Callable[..., _Broken | None]] = {
            CashFloor: self._cash,
            AssetClassCap: self._class_cap,
            AssetClassFloor: self._class_floor,
            SingleAssetCap: self._single,
            MaxDrawdown: self._drawdown,
            MaxHoldings: self._count,
            MinHoldings: self._count,
            MinRating: self._rating,
            MaxRiskLevel: self._risk_level,
        }
        check = checks.get(type(predicate), self._measure)
        found = self._taken_up(predicate) or check(predicate) or self._practice(ruled_out_terms(predicate))
        if found is None and isinstance(predicate, SingleAssetCap | CashFloor):
            return self._all_in()
        return found

    def _taken_up(self, predicate: Predicate) -> _Broken | None:
        """Return where the reply advises or holds what a predicate rules out."""
        ruled_out = ruled_out_terms(predicate)
        if not ruled_out:
            return None
        for ids, start, end in self._mentions:
            if ids & ruled_out:
                return _Broken(f"advises_{min(ids & ruled_out)}", start, end)
        if "individual_stocks" in ruled_out and (code := self._proposed_match(_STOCKS)):
            return _Broken("advises_individual_stocks", *code)
        for holding in (each for plan in self._plans if plan.whole for each in plan.holdings):
            held = holding.terms & ruled_out
            if held and not _is_fund_of_universe(holding, predicate) and not self._is_denied(held):
                return _Broken(f"holds_{min(held)}", holding.start, holding.end)
        return None

    def _is_denied(self, terms: frozenset[str]) -> bool:
        """Return True if the reply names the terms, and each time with a negation."""
        text = self._analysis.text
        named = [each for each in finder_of(terms).find(text) if terms.intersection(each.ids)]
        return bool(named) and all(
            _negated(text, self._analysis.statement_at(each.start).sentence, each.start, each.end)
            for each in named
        )

    def _cash(self, predicate: CashFloor) -> _Broken | None:
        for plan in self._plans:
            floor = predicate.share
            if floor is None and plan.total and predicate.amount:
                floor = predicate.amount / plan.total
            cash = [holding for holding in plan.holdings if "cash" in holding.classes]
            if floor is None or not cash or sum(holding.low for holding in cash) >= floor - _SLACK:
                continue
            if self._is_proposed(plan, cash[0]):
                return _Broken("cash_below_floor", cash[0].start, cash[0].end)
        return None

    def _is_proposed(self, plan: Proposal, holding: Holding) -> bool:
        if plan.laid_out:
            return True
        statement = self._analysis.statement_at(holding.start)
        if statement.kind & _SILENT or self._admits(holding.start):
            return False
        return plan.whole or bool(statement.sentence.classes & class_mask("ADVISING"))

    def _admits(self, offset: int) -> bool:
        """Return True if the sentence at an offset, or the next one, says itself that a limit is broken."""
        number = self._document.sentence_number(offset)
        unfit, negation = class_mask("UNFIT"), content_lexicon().negation
        masks = content_lexicon().words.masks
        for sentence in self._analysis.sentences[number : number + 2]:
            if sentence.classes & unfit:
                for word, start, _ in sentence.tokens:
                    before = sentence.between(start - _NEGATED, start)
                    if masks[word] & unfit and not any(masks[each] & negation for each, _, _ in before):
                        return True
        return False

    def _class_cap(self, predicate: AssetClassCap) -> _Broken | None:
        for plan in self._plans:
            held = [each for each in plan.holdings if predicate.asset_class in each.classes | each.terms]
            if not held or not self._is_proposed(plan, held[0]):
                continue
            if sum(holding.middle for holding in held) > predicate.limit + _SLACK:
                return _Broken("asset_class_above_cap", held[0].start, held[-1].end)
        return None

    def _class_floor(self, predicate: AssetClassFloor) -> _Broken | None:
        for plan in self._plans:
            held = [holding for holding in plan.holdings if predicate.asset_class in holding.classes]
            if held and plan.whole and sum(holding.high for holding in held) < predicate.share - _SLACK:
                return _Broken("asset_class_below_floor", held[0].start, held[-1].end)
        return None

    def _single(self, predicate: SingleAssetCap) -> _Broken | None:
        for plan in self._plans:
            for holding in plan.holdings:
                if (
                    holding.single
                    and self._is_proposed(plan, holding)
                    and holding.low > predicate.limit + _SLACK
                ):
                    return _Broken("single_holding_above_cap", holding.start, holding.end)
        return None

    def _drawdown(self, predicate: MaxDrawdown) -> _Broken | None:
        for plan in self._plans:
            equity = [holding for holding in plan.holdings if "equity" in holding.classes]
            fall = sum(holding.middle for holding in equity) * _EQUITY_FALL
            if equity and fall >= _CLEARLY * predicate.limit - _SLACK and self._is_proposed(plan, equity[0]):
                return _Broken("equity_against_drawdown", equity[0].start, equity[-1].end)
        return self._accepted_fall(predicate.limit)

    def _accepted_fall(self, limit: float) -> _Broken | None:
        """Return where the reply asks the client to bear a fall of the whole beyond the limit."""
        text = self._analysis.text
        for match in itertools.chain(_WHOLE_FALLS.finditer(text), _WHOLE_FALLS_ENGLISH.finditer(text)):
            statement = self._analysis.statement_at(match.start())
            end = min(statement.sentence.end, match.end() + _REACH)
            fall = next((q for q in self._document.quantities(match.start(), end) if q.kind == "share"), None)
            if (
                fall is None
                or fall.low <= limit + _SLACK
                or statement.kind & (kinds.QUESTION | kinds.OTHERS | kinds.WARNING)
            ):
                continue
            if self._admits(match.start()) or _negated(text, statement.sentence, match.start(), fall.end):
                continue
            number = self._document.sentence_number(match.start())
            around = self._analysis.sentences[max(0, number - 1) : number + 2]
            if any(each.classes & class_mask("ADVISING") for each in around) and not _PAST.search(
                text, statement.sentence.start, fall.end
            ):
                return _Broken("fall_beyond_drawdown", match.start(), fall.end)
        return None

    def _count(self, predicate: MaxHoldings | MinHoldings) -> _Broken | None:
        for plan in self._plans:
            count = len(plan.holdings)
            if not plan.whole:
                continue
            if (
                isinstance(predicate, MaxHoldings)
                and count > predicate.count
                and all(h.single for h in plan.holdings)
            ):
                return _Broken("too_many_holdings", plan.start, plan.end)
            if (
                isinstance(predicate, MinHoldings)
                and count < predicate.count
                and all(h.single for h in plan.holdings)
            ):
                return _Broken("too_few_holdings", plan.start, plan.end)
        return None

    def _measure(self, predicate: Predicate) -> _Broken | None:
        """Check durations, lock-ups, holding periods, fees and sums of what is advised."""
        for start, end in exceeded(predicate, self._document):
            if self._proposed(start, end):
                return _Broken(f"{predicate.__struct_config__.tag}_exceeded", start, end)
        return None

    def _all_in(self) -> _Broken | None:
        """Return where the reply puts everything into one thing."""
        everything = class_mask("EVERYTHING")
        for sentence in self._analysis.sentences:
            if sentence.classes & everything:
                found = _ALL_IN.search(self._document.text, sentence.start, sentence.end)
                if found and self._proposed(*found.span()):
                    return _Broken("everything_in_one", *found.span())
        return None

    def _proposed_match(self, pattern: re.Pattern[str]) -> tuple[int, int] | None:
        """Return the first span of a pattern that the reply proposes, or None."""
        matches = pattern.finditer(self._document.text)
        return next((match.span() for match in matches if self._proposed(*match.span())), None)

    def _proposed(self, start: int, end: int) -> bool:
        """Return True if the reply proposes what a figure is of, in words of advice here or beside."""
        statement = self._analysis.statement_at(start)
        if statement.kind & _SILENT or statement.is_quoted(start, end) or statement.not_offered:
            return False
        if self._admits(start) or _negated(self._analysis.text, statement.sentence, start, end):
            return False
        number = self._document.sentence_number(start)
        around = self._analysis.sentences[max(0, number - 1) : number + 2]
        return any(each.classes & class_mask("ADVISING") for each in around)

    def _rating(self, predicate: MinRating) -> _Broken | None:
        worst = _RATINGS.index(predicate.rating)
        for match in _RATING.finditer(self._document.text):
            name = (
                match[1].upper().replace("AA-", "A").replace("A+", "A").replace("A-", "A")
                if match[1] != "aa+"
                else "AA+"
            )
            if name in _RATINGS and _RATINGS.index(name) > worst and self._proposed(*match.span()):
                return _Broken("rating_below_limit", *match.span())
        return None

    def _risk_level(self, predicate: MaxRiskLevel) -> _Broken | None:
        for match in _RISK_LEVEL.finditer(self._document.text):
            if int(match[1]) > predicate.level and self._proposed(*match.span()):
                return _Broken("risk_level_above_limit", *match.span())
        return None

    # ------------------------------------------------------------------ undecided

    def is_open(self, predicate: Predicate) -> bool:
        """Return True if a plan bears on a predicate without deciding it."""
        whole = [plan for plan in self._plans if plan.whole]
        if isinstance(predicate, CashFloor):
            return any(not any("cash" in holding.classes for holding in plan.holdings) for plan in whole)
        if isinstance(predicate, SingleAssetCap):
            return any(
                not h.single and h.low > predicate.limit + _SLACK for plan in whole for h in plan.holdings
            )
        if isinstance(predicate, MaxDrawdown):
            return any(
                sum(h.middle for h in plan.holdings if "equity" in h.classes) * _EQUITY_FALL > predicate.limit
                for plan in whole
            )
        if isinstance(predicate, AssetClassCap):
            return any(
                sum(h.high for h in plan.holdings if predicate.asset_class in h.classes)
                > predicate.limit + _SLACK
                for plan in whole
            )
        if isinstance(predicate, MaxRiskLevel | MaxLoss | MaxTurnover | MaxPremium | MaxBudget):
            return bool(whole) or any(
                sentence.classes & class_mask("ADVISING") for sentence in self._analysis.sentences
            )
        return False


def _negated(text: str, sentence: Sentence, start: int, end: int) -> bool:
    """Return True if a word of negation stands in the clause of a span."""
    negation = content_lexicon().negation | class_mask("NOT_OFFERED")
    clause = max(text.rfind(mark, sentence.start, start) for mark in ",:") + 1 or sentence.start
    if _NOT_AT_ALL.search(text, clause, start):
        return True
    if not sentence.classes & negation:
        return False
    comma = text.find(",", end, sentence.end)
    behind = sentence.end if comma < 0 else comma
    masks = content_lexicon().words.masks
    return any(masks[word] & negation for word, _, _ in sentence.between(clause, behind))


def _is_fund_of_universe(holding: Holding, predicate: Predicate) -> bool:
    """Return True if a holding is a fund although its name holds a word for single securities."""
    return isinstance(predicate, AllowedUniverse) and _FUND.search(holding.name) is not None
