"""How the rules of the lexicons are scanned for: worked out in advance, kept as data.

To take a thousand patterns apart (``prefilter``) costs a second, each process anew. So the result stands
in ``memfin/data/scan_plan.json``, which ``make generated`` writes. It is used only where it was made of the
very lexicons at hand; where a lexicon has been changed since, its plan is worked out on the spot.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Final, NamedTuple, TypeVar

import msgspec

from memfin.scoring.lexicons.lexicon import RuleEntry, load_lexicon
from memfin.scoring.patterns.expressions import at_head, expand, to_search
from memfin.scoring.patterns.files import lexicon_hashes, word_classes
from memfin.scoring.patterns.prefilter import Branch, branches, forget

_PLAN: Final = files("memfin") / "data" / "scan_plan.json"
_WORDS: Final = "words.toml"


class Alternatives(NamedTuple):
    """Alternatives of a rule that are tried together, as one regular expression, at any of some literals.

    ``before`` bounds how far in front of the literal a match begins, in characters. With 0 it begins
    there, and the expression is for ``match``; else it is for ``search``. Group 1 is what matched.
    """

    regex: str
    before: int
    literals: tuple[str, ...]


LexiconPlan = dict[str, list[Alternatives]]
"""The alternatives of every rule of a lexicon, by the rule's id."""


class ScanPlan(msgspec.Struct, frozen=True):
    """The plans of lexicons by their names, and the hashes of the files they were made of."""

    made_of: dict[str, str]
    lexicons: dict[str, LexiconPlan]


Signs = dict[str, list[str]]
"""Literals by the name of a pattern; each of its matches contains one of them."""


class SignPlan(msgspec.Struct, frozen=True):
    """The part of the file that holds the signs of tables of patterns, by the table and the pattern."""

    made_of: dict[str, str]
    signs: dict[str, Signs]


Kept = TypeVar("Kept", ScanPlan, SignPlan)


def planned(names: Iterable[str]) -> dict[str, LexiconPlan]:
    """Return the plans of lexicons by their names.

    Raises:
        UsageError: A lexicon is malformed.
    """
    kept, now = _kept(ScanPlan({}, {})), lexicon_hashes()

    def holds(name: str) -> bool:
        made_of = (f"{name}.toml", _WORDS)
        return name in kept.lexicons and all(kept.made_of.get(file) == now.get(file) for file in made_of)

    return {name: kept.lexicons[name] if holds(name) else work_out(name) for name in names}


def planned_signs(table: str, patterns: Mapping[str, str]) -> Signs:
    """Return the signs of the expanded patterns of a table of the lexicon directory, by their names."""
    kept, file = _kept(SignPlan({}, {})), f"{table}.toml"
    if table in kept.signs and kept.made_of.get(file) == lexicon_hashes().get(file):
        return kept.signs[table]
    return work_out_signs(patterns)


def _kept(nothing: Kept) -> Kept:
    """Return what the file holds of a kind, or ``nothing`` where it cannot be read."""
    try:
        return msgspec.json.decode(_PLAN.read_bytes(), type=type(nothing))
    except (OSError, msgspec.DecodeError):
        return nothing


def work_out_signs(patterns: Mapping[str, str]) -> Signs:
    """Find the signs of patterns anew."""
    found = {}
    for name, pattern in patterns.items():
        found[name] = sorted(set[str]().union(*(branch.literals for branch in branches(pattern))))
        forget()
    return found


def work_out(name: str) -> LexiconPlan:
    """Make the plan of one lexicon anew."""
    found = {}
    for entry in load_lexicon(name).rule:
        found[entry.id] = list(alternatives(entry, word_classes()))
        forget()
    return found


def alternatives(entry: RuleEntry, classes: Mapping[str, list[str]]) -> Iterator[Alternatives]:
    """Yield what to try for a rule, and at which literals."""
    at_literal: dict[tuple[str, bool], list[Branch]] = {}
    for branch in branches(expand(entry.pattern, classes)):
        for literal in sorted(branch.literals):
            at_literal.setdefault((literal, branch.before > 0), []).append(branch)
    # Most literals announce the same alternatives as many others.
    together: dict[tuple[str, int], list[str]] = {}
    for (literal, _), sharing in at_literal.items():
        pattern, before = "|".join(each.pattern for each in sharing), max(each.before for each in sharing)
        together.setdefault((pattern, before), []).append(literal)
    for (pattern, before), literals in together.items():
        yield Alternatives(to_search(pattern) if before else at_head(pattern), before, tuple(literals))


def written(names: Iterable[str], tables: Mapping[str, Mapping[str, str]]) -> str:
    """Return the file of the plans of these lexicons and the signs of these tables, one rule a line."""
    plan = ScanPlan(lexicon_hashes(), {name: work_out(name) for name in names})
    lines = ['{"made_of":' + _json(plan.made_of) + ',"lexicons":{']
    for number, (name, rules) in enumerate(plan.lexicons.items()):
        lines.append(("," if number else "") + _json(name) + ":{")
        lines += [
            ("," if index else "") + _json(rule) + ":" + _json(found)
            for index, (rule, found) in enumerate(rules.items())
        ]
        lines.append("}")
    lines.append('},"signs":{')
    for number, (table, patterns) in enumerate(tables.items()):
        signs = work_out_signs(patterns)
        lines.append(("," if number else "") + _json(table) + ":" + _json(signs))
    return "\n".join([*lines, "}}", ""])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
