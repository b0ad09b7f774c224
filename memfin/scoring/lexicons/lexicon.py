"""Lexicons: pattern families kept as data.

A lexicon is a TOML file in ``memfin/data/lexicons``. Its ``[[rule]]`` entries each name the ``value``
they speak for, a ``pattern`` over normalized text (``expressions.expand`` explains its shorthands), the
context guards that silence it, and ``examples`` and ``counter_examples`` that are its tests.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from memfin.errors import UsageError
from memfin.scoring.attribution import negation, refutation, stances, voices
from memfin.scoring.guards import (
    agents,
    causes,
    claims,
    denouncing,
    pitches,
    retractions,
    subjects,
    terms,
    tickets,
    whispers,
)
from memfin.scoring.patterns.files import read_table
from memfin.scoring.text import language
from memfin.scoring.text.language import Analysis

Guard = Callable[[Analysis, int, int], bool]

GUARDS: Final[dict[str, Guard]] = {
    "negated": negation.negated,
    "quoted": voices.quoted,
    "attributed": language.attributed,
    "others_word": voices.attributed,
    "reported": language.reported,
    "hearsay": retractions.hearsay,
    "taken_back": retractions.taken_back,
    "questioned": voices.questioned,
    "conditional": language.conditional,
    "refuted": refutation.refuted,
    "refuted_around": refutation.refuted_around,
    "denounced": denouncing.denounced,
    "rate_driven": causes.rate_driven,
    "by_nature": claims.by_nature,
    "supposed": claims.supposed,
    "of_a_gift": claims.of_a_gift,
    "by_terms": terms.by_terms,
    "fixed_sum": terms.fixed_sum,
    "uncertain": terms.uncertain,
    "no_forecast": terms.no_forecast,
    "of_principal": subjects.of_principal,
    "of_the_record": subjects.of_the_record,
    "of_a_service": subjects.of_a_service,
    "of_a_rate": subjects.of_a_rate,
    "of_the_reckoning": subjects.of_the_reckoning,
    "of_no_price": subjects.of_no_price,
    "of_a_debtor": subjects.of_a_debtor,
    "of_the_market": subjects.of_the_market,
    "kept_below": subjects.kept_below,
    "of_a_tip": subjects.of_a_tip,
    "outdone": subjects.outdone,
    "of_everyone": subjects.of_everyone,
    "of_an_errand": subjects.of_an_errand,
    "belied": subjects.belied,
    "of_goods": terms.of_goods,
    "owed_by_you": terms.owed_by_you,
    "no_risk_asked": terms.no_risk_asked,
    "wished": stances.wished,
    "left_open": stances.left_open,
    "hedged": stances.hedged,
    "refused": stances.refused,
    "already_dealt": stances.already_dealt,
    "in_exercise": stances.in_exercise,
    "insured": stances.insured,
    "paid_out": stances.paid_out,
    "premised": stances.premised,
    "no_source": whispers.no_source,
    "warned_off": stances.warned_off,
    "offered": stances.offered,
    "done_by_others": stances.done_by_others,
    "no_agent": agents.no_agent,
    "no_product": stances.no_product,
    "no_pitch": pitches.no_pitch,
    "no_ticket": tickets.no_ticket,
}


class RuleEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[rule]]`` of a lexicon file, as written."""

    id: str
    value: str
    pattern: str
    examples: list[str]
    counter_examples: list[str]
    guards: list[str] | None = None


class LexiconFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lexicon file: what its rules speak about, their usual guards, and the rules."""

    field: str
    guards: list[str]
    rule: list[RuleEntry]


@cache
def load_lexicon(name: str) -> LexiconFile:
    """Read and check one lexicon of ``memfin/data/lexicons``, such as ``risk_tags``.

    Raises:
        UsageError: The file is missing, no TOML, not in the form above, or names an unknown guard.
    """
    lexicon = read_table(name, LexiconFile)
    used = set(lexicon.guards).union(*(rule.guards or () for rule in lexicon.rule))
    if unknown := sorted(used - GUARDS.keys()):
        raise UsageError(f"lexicon {name}.toml: unknown guard {unknown[0]}; known: {', '.join(GUARDS)}")
    return lexicon
