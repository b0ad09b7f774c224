"""Lexicons: pattern families kept as data, compiled into one scanner.

A lexicon is a TOML file in ``memfin/data/lexicons``. Its ``[[rule]]`` entries each name the ``value``
they speak for, a ``pattern`` over normalized text (``patterns.expand`` explains its shorthands), the
context guards that silence it, and ``examples`` and ``counter_examples`` that are its tests. One
Aho-Corasick pass finds the places where a pattern can match at all (``prefilter``).
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeVar

import msgspec
from ahocorasick_rs import AhoCorasick, Implementation

from memfin.contracts import Finding
from memfin.errors import UsageError
from memfin.scoring import language
from memfin.scoring.language import Analysis
from memfin.scoring.patterns import compile_at_head, compile_pattern, expand
from memfin.scoring.prefilter import Branch, branches, forget

T = TypeVar("T")
Guard = Callable[[Analysis, int, int], bool]
Search = Callable[[str, int, int], re.Match[str] | None]

GUARDS: Final[dict[str, Guard]] = {
    "negated": language.negated,
    "quoted": language.quoted,
    "attributed": language.attributed,
    "reported": language.reported,
    "questioned": language.questioned,
    "conditional": language.conditional,
    "refuted": language.refuted,
}

_LEXICONS: Final = files("memfin") / "data" / "lexicons"


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


class Rule(NamedTuple):
    """A compiled entry; ``slot`` numbers its (field, value) pair over all lexicons of a scanner."""

    id: str
    field: str
    value: str
    slot: int
    guards: tuple[Guard, ...]


Alternative = tuple[int, int, int]
"""The alternatives of a rule that share a literal: number, slot, and how far before the literal a match
can begin. Every reply reads hundreds of these, and a plain tuple is read four times as
fast as a named one."""


class Match(NamedTuple):
    """Where a rule fired: half-open offsets into ``Analysis.norm``."""

    rule: Rule
    start: int
    end: int


def read_table(name: str, form: type[T]) -> T:
    """Read ``name.toml`` of the lexicon directory into a struct or mapping type.

    Raises:
        UsageError: The file is missing, no TOML, or not of that form.
    """
    try:
        return msgspec.convert(tomllib.loads(_read(f"{name}.toml").decode()), form)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"lexicon {name}.toml: {error}") from error


@cache
def word_classes() -> dict[str, list[str]]:
    """Return the word classes of ``words.toml``: alternatives of regular expressions by name."""
    return read_table("words", dict[str, list[str]])


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


@cache
def _hashes() -> dict[str, str]:
    names = sorted(item.name for item in _LEXICONS.iterdir() if item.name.endswith(".toml"))
    return {name: hashlib.sha256(_read(name)).hexdigest() for name in names}


def lexicon_hashes() -> dict[str, str]:
    """Return the SHA-256 of every lexicon file by name: what the detectors of this run know.

    A process reads its lexicons once, and hashes them once.
    """
    return dict(_hashes())


def _read(name: str) -> bytes:
    try:
        return (_LEXICONS / name).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"lexicon {name}: not part of this installation") from None


class Scanner:
    """All rules of several lexicons behind one Aho-Corasick automaton."""

    def __init__(self, names: Iterable[str], rules: Collection[str] | None = None) -> None:
        """Compile the named lexicons, or of them the ``rules`` of these ids alone.

        Raises:
            UsageError: A lexicon is malformed.
        """
        self._rules: Final[list[Rule]] = []
        self._patterns: Final[list[str]] = []
        slots: dict[tuple[str, str], int] = {}
        by_literal: dict[str, list[Alternative]] = {}
        for name in names:
            lexicon = load_lexicon(name)
            for entry in lexicon.rule:
                if rules is not None and entry.id not in rules:
                    continue
                slot = slots.setdefault((lexicon.field, entry.value), len(slots))
                guards = lexicon.guards if entry.guards is None else entry.guards
                rule = Rule(
                    entry.id, lexicon.field, entry.value, slot, tuple(GUARDS[name] for name in guards)
                )
                numbers: dict[tuple[str, bool], Alternative] = {}
                for literal, pattern, before in _alternatives(entry):
                    key = pattern, not before
                    if key not in numbers:
                        numbers[key] = (len(self._rules), slot, before)
                        self._rules.append(rule)
                        self._patterns.append(pattern)
                    by_literal.setdefault(literal, []).append(numbers[key])
                forget()
        # Half of the patterns never come near a match; each is compiled when it is first tried.
        self._searches: Final[list[Search | None]] = [None] * len(self._rules)
        self._slots: Final = slots
        # Most literals announce the same alternatives as many others; they share one tuple.
        shared: dict[tuple[Alternative, ...], tuple[Alternative, ...]] = {}
        self._alternatives: Final = [
            shared.setdefault(group, group) for group in map(tuple, by_literal.values())
        ]
        self._automaton: Final = AhoCorasick(list(by_literal), implementation=Implementation.ContiguousNFA)

    def slots(self, field: str, values: Collection[str]) -> frozenset[int]:
        """Return the slots of a field's values, for ``scan`` to leave out; unknown values have none."""
        return frozenset(
            slot for (name, value), slot in self._slots.items() if name == field and value in values
        )

    def _search(self, number: int, before: int) -> Search:
        pattern = self._patterns[number]
        search = compile_pattern(pattern).search if before else compile_at_head(pattern).match
        self._searches[number] = search
        return search

    def scan(self, analysis: Analysis, without: AbstractSet[int] = frozenset()) -> list[Match]:
        """Return one unguarded match of every (field, value) pair that has any, in the order found.

        ``without`` are the ``slots`` of pairs that nobody asks for; they cost nothing.
        """
        norm, bounds, by_literal = analysis.norm, analysis.bounds, self._alternatives
        searches = self._searches
        idle = _idle_guards(analysis)
        found: list[Match] = []
        settled = [slot in without for slot in range(len(self._slots))]
        # An alternative reads on to the end of the sentence, so one try a sentence is enough.
        tried: set[int] = set()
        index, low, high = 1, 0, bounds[1]
        for literal, start, _ in self._automaton.find_matches_as_indexes(norm, overlapping=True):
            while start >= high:
                index += 1
                low, high = high, bounds[index]
                tried.clear()
            for number, slot, before in by_literal[literal]:
                if settled[slot]:
                    continue
                search = searches[number] or self._search(number, before)
                if before:
                    if number in tried:
                        continue
                    tried.add(number)
                    first = start - before
                    # A conditional costs a third of max(), dozens of times a reply.
                    match = search(norm, first if first > low else low, high)  # noqa: FURB136 - see above
                else:
                    match = search(norm, start, high)
                while match is not None:
                    start_found, end_found = match.span(1)
                    rule = self._rules[number]
                    for guard in rule.guards:
                        if guard not in idle and guard(analysis, start_found, end_found):
                            break
                    else:
                        settled[slot] = True
                        found.append(Match(rule, start_found, end_found))
                        break
                    match = search(norm, start_found + 1, high) if before else None
        return found


def _idle_guards(analysis: Analysis) -> set[Guard]:
    """Return the guards that can silence nothing in this reply, and need not be asked."""
    idle: set[Guard] = set()
    if not analysis.asks:
        idle.add(language.questioned)
    if not analysis.quotes:
        idle.add(language.quoted)
    return idle


def _alternatives(entry: RuleEntry) -> Iterator[tuple[str, str, int]]:
    """Yield the literals of a rule, each with the alternatives to try at it, as one pattern."""
    at_literal: dict[tuple[str, bool], list[Branch]] = {}
    for branch in branches(expand(entry.pattern, word_classes())):
        for literal in branch.literals:
            at_literal.setdefault((literal, branch.before > 0), []).append(branch)
    for (literal, _), sharing in at_literal.items():
        yield literal, "|".join(branch.pattern for branch in sharing), max(b.before for b in sharing)


def findings(analysis: Analysis, matches: Iterable[Match]) -> Iterator[Finding]:
    """Turn matches into findings with offsets into the reply as it was written."""
    for rule, start, end in matches:
        first, last = analysis.original_span(start, end)
        yield Finding(field=rule.field, value=rule.value, rule=rule.id, start=first, end=last)
