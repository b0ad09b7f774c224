"""The scan of a reply for all rules of several lexicons at once.

One Aho-Corasick pass finds the places where a pattern can match at all (``scan_plan``); only there are
patterns tried.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from ahocorasick_rs import AhoCorasick, Implementation

from memfin.contracts import Finding
from memfin.scoring.attribution import voices
from memfin.scoring.lexicons.lexicon import GUARDS, Guard, load_lexicon
from memfin.scoring.lexicons.scan_plan import planned
from memfin.scoring.text.glossary import glossed, unglossed
from memfin.scoring.text.language import Analysis

Search = Callable[[str, int, int], re.Match[str] | None]


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


class Scanner:
    """All rules of several lexicons behind one Aho-Corasick automaton."""

    def __init__(self, names: Iterable[str], rules: Collection[str] | None = None) -> None:
        """Compile the named lexicons, or of them the ``rules`` of these ids alone.

        Raises:
            UsageError: A lexicon is malformed.
        """
        self._rules: Final[list[Rule]] = []
        self._sources: Final[list[str]] = []
        slots: dict[tuple[str, str], int] = {}
        by_literal: dict[str, list[Alternative]] = {}
        for name, plan in planned(names).items():
            lexicon = load_lexicon(name)
            for entry in lexicon.rule:
                if rules is not None and entry.id not in rules:
                    continue
                slot = slots.setdefault((lexicon.field, entry.value), len(slots))
                guards = lexicon.guards if entry.guards is None else entry.guards
                rule = Rule(
                    entry.id, lexicon.field, entry.value, slot, tuple(GUARDS[name] for name in guards)
                )
                for source, before, literals in plan[entry.id]:
                    alternative = (len(self._rules), slot, before)
                    self._rules.append(rule)
                    self._sources.append(source)
                    for literal in literals:
                        by_literal.setdefault(literal, []).append(alternative)
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
        pattern = re.compile(self._sources[number])
        search = pattern.search if before else pattern.match
        self._searches[number] = search
        return search

    def scan(self, analysis: Analysis, without: AbstractSet[int] = frozenset()) -> list[Match]:
        """Return one unguarded match of every (field, value) pair that has any, in the order found.

        ``without`` are the ``slots`` of pairs that nobody asks for; they cost nothing. A reply with English
        terms in Chinese sentences is read with the terms as they were written as well.
        """
        found = self._scan(analysis, without)
        if analysis.mixed:
            known = without | {match.rule.slot for match in found}
            written = Analysis(analysis.text, as_written=True)
            for rule, start, end in self._scan(written, known):
                span = unglossed(written.glosses, start, end)
                found.append(Match(rule, *glossed(analysis.glosses, *span)))
        return found

    def _scan(self, analysis: Analysis, without: AbstractSet[int]) -> list[Match]:
        """Scan one reading of a reply."""
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
        idle.add(voices.questioned)
    if not analysis.quotes:
        idle.add(voices.quoted)
    return idle


def findings(analysis: Analysis, matches: Iterable[Match]) -> Iterator[Finding]:
    """Turn matches into findings with offsets into the reply as it was written."""
    for rule, start, end in matches:
        first, last = analysis.original_span(start, end)
        yield Finding(field=rule.field, value=rule.value, rule=rule.id, start=first, end=last)
