"""Lexicons: word classes, and rules that are sequences of word classes within one sentence.

A lexicon is a TOML file in ``memfin/data/detectors``. ``[words]`` names classes of plain words in normal
form; a trailing ``*`` lets an English word go on (``fluctuat*``); those of ``words.toml`` are shared. A
``[[rule]]`` names its ``value`` and its ``patterns``: sequences of elements, each the name
of a class, alternatives (``PRICE|INDEX``) or words in single quotes. ``~8`` between two elements allows
up to 8 characters of the same clause, ``~~30`` up to 30 of the same sentence; without it up to `GAP`
characters of the same clause.

One Aho-Corasick pass finds all words of all classes, the longest at each place. A word inside a longer one of
another class is not found there: the class ``IGNORE`` holds words that only look like others (波动率, 不仅).
Matching takes time in proportion to the length of the text.
"""

import hashlib
import itertools
import re
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from importlib.resources import files
from operator import itemgetter, or_
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec
from ahocorasick_rs import AhoCorasick, MatchKind

from memfin.errors import UsageError
from memfin.text.document import Document

T = TypeVar("T")

GAP: Final = 6
"""Characters allowed between two elements of a pattern that names no gap."""

MAX_PATTERN: Final = 300
"""Characters of the longest pattern that a lexicon may hold."""

_DIRECTORY: Final = files("memfin") / "data" / "detectors"
_WORD: Final = r"(?:'(?:[^']|(?<=\w)'(?=\w))+'|[A-Z][A-Z_]*)"
_ELEMENT: Final = re.compile(rf"~~?\d+(?!\S)|(?<!\S){_WORD}(?:\|{_WORD})*(?!\S)")
_ALTERNATIVE: Final = re.compile(_WORD)
_LATIN_GOES_ON: Final = re.compile(r"[a-zA-Z]|'t\b")
_NEGATION: Final = "NOT"
_NEGATED_BEFORE: Final = 4
_LONGEST_LATIN: Final = 30
_MAX_TRIES: Final = 6
"""Words of one class that are tried for one element before the pattern is given up at that place."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of a lexicon.

    Attributes:
        id: The name of the rule, unique within its lexicon.
        value: The label that the rule speaks for.
        patterns: Alternatives, each a sequence of elements (see the module).
        examples: Sentences in which the rule must match.
        counter_examples: Sentences in which it must not.
        unless: Word classes that silence the rule wherever they stand in the sentence.
        negation: Where a word of negation silences a match: ``inside`` it or right before it, only right
            ``before`` it, or nowhere (``none``). A pattern that asks for a negation itself has ``none``.
    """

    id: str
    value: str
    patterns: list[str]
    examples: list[str]
    counter_examples: list[str] = []
    unless: list[str] = []
    negation: Literal["inside", "before", "none"] = "inside"


class LexiconFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lexicon as its TOML file holds it."""

    rule: list[Rule] = []
    words: dict[str, list[str]] = {}


Token = tuple[int, int, int]
"""A word of a lexicon: its number and half-open offsets. Plain tuples, as a reply holds hundreds."""


class Sentence(NamedTuple):
    """A sentence at half-open offsets with its tokens; ``classes`` is the bit mask of them all."""

    start: int
    end: int
    tokens: list[Token]
    classes: int

    def between(self, start: int, end: int) -> list[Token]:
        """Return the tokens that begin in ``[start, end)``."""
        first = bisect_left(self.tokens, start, key=itemgetter(1))
        return self.tokens[first : bisect_left(self.tokens, end, first, key=itemgetter(1))]


class Match(NamedTuple):
    """A place where a rule matches, at half-open offsets of the document's text."""

    rule: Rule
    start: int
    end: int


class _Step(NamedTuple):
    """One element of a compiled pattern: the bit of its words and the gap in front of it."""

    bit: int
    gap: int
    across: bool


class _Pattern(NamedTuple):
    """A compiled pattern: ``needed`` are the bits of all its elements, ``anchor`` is the rarest of them."""

    needed: int
    unless: int
    rule: Rule
    steps: tuple[_Step, ...]
    anchor: int
    negation: str


def read_table(name: str, form: type[T]) -> T:
    """Read ``name.toml`` of the lexicon directory into a struct or mapping type.

    Raises:
        UsageError: The file is missing, no TOML, or not of that form.
    """
    try:
        return msgspec.convert(tomllib.loads(read_bytes(f"{name}.toml").decode()), form)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"lexicon {name}.toml: {error}") from error


def read_bytes(name: str) -> bytes:
    """Return a file of the detectors' data directory.

    Raises:
        UsageError: There is no such file.
    """
    try:
        return (_DIRECTORY / name).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"lexicon {name}: not part of this installation") from None


@cache
def _hashes() -> dict[str, str]:
    names = sorted(item.name for item in _DIRECTORY.iterdir() if item.name.endswith((".toml", ".bin")))
    return {name: hashlib.sha256(read_bytes(name)).hexdigest() for name in names}


def lexicon_hashes() -> dict[str, str]:
    """Return the SHA-256 of every file of the detectors by name: lexicons and trained weights."""
    return dict(_hashes())


class Words:
    """All words of all lexicons in one automaton, and the classes they belong to."""

    def __init__(self, classes: Mapping[str, Sequence[str]]) -> None:
        self.bits: Final = {name: 1 << number for number, name in enumerate(classes)}
        masks: dict[str, int] = {}
        self._open: Final[set[str]] = set()
        for name, words in classes.items():
            for word in words:
                plain = word.removesuffix("*")
                if plain != word:
                    self._open.add(plain)
                masks[plain] = masks.get(plain, 0) | self.bits[name]
        self._words: Final = list(masks)
        numbers = {word: number for number, word in enumerate(masks)}
        self._members: Final = {
            self.bits[name]: sorted({numbers[word.removesuffix("*")] for word in words})
            for name, words in classes.items()
        }
        self.masks: Final = list(masks.values())
        # Latin words need an edge on both sides: 1 in front, 2 behind.
        self._edges: Final = [
            (word[0].isascii() and word[0].isalnum())
            + 2 * (word[-1].isascii() and word[-1].isalpha() and word not in self._open)
            for word in self._words
        ]
        self._automaton: Final = AhoCorasick(self._words, matchkind=MatchKind.LeftmostLongest)

    def __len__(self) -> int:
        return len(self.masks)

    def of(self, bit: int) -> list[int]:
        """Return the numbers of the words in the class of a bit."""
        return self._members[bit]

    def numbers(self, text: str) -> Iterator[int]:
        """Yield the numbers of the words in a text."""
        return (word for word, _, _ in self.tokens(text))

    def tokens(self, text: str) -> list[Token]:
        """Return the words in a text, in order and without overlaps."""
        edges = self._edges
        found: list[Token] = self._automaton.find_matches_as_indexes(text)
        tokens = [token for token in found if not edges[token[0]] or _is_whole(text, token, edges[token[0]])]
        if len(tokens) < len(found):
            # A word that is part of a longer one may have hidden another: "we can" hides "cannot".
            hidden = [
                token
                for token in found
                if " " in text[token[1] : token[2]] and not self._is_word(text, token)
            ]
            for token in hidden:
                tokens += self._inside(text, token)
            if hidden:
                tokens.sort(key=itemgetter(1, 2))
        return tokens

    def _is_word(self, text: str, token: Token) -> bool:
        edge = self._edges[token[0]]
        return not edge or _is_whole(text, token, edge)

    def _inside(self, text: str, token: Token) -> Iterator[Token]:
        """Yield the words that begin behind the first blank of a token that is part of a longer word."""
        _, start, end = token
        first = text.index(" ", start, end)
        for word, low, high in self._automaton.find_matches_as_indexes(text[first : end + _LONGEST_LATIN]):
            inner = (word, low + first, high + first)
            if inner[1] < end and self._is_word(text, inner):
                yield inner

    def classes(self, tokens: Iterable[Token]) -> int:
        """Return the bit mask of all classes of some tokens."""
        masks, present = self.masks, 0
        for word, _, _ in tokens:
            present |= masks[word]
        return present


def _is_whole(text: str, token: Token, edge: int) -> bool:
    """Return True if a Latin word is no part of a longer one."""
    _, start, end = token
    if (
        edge & 1
        and start
        and text[start].isalpha()
        and text[start - 1].isascii()
        and text[start - 1].isalnum()
    ):
        return False
    return not (edge & 2 and end < len(text) and _LATIN_GOES_ON.match(text, end))


class Lexicon:
    """The compiled rules of several lexicon files over shared word classes.

    Args:
        names: Files of the lexicon directory, without ``.toml``. The classes of ``words.toml`` are shared.
    """

    def __init__(self, names: Iterable[str]) -> None:
        files_read = {name: read_table(name, LexiconFile) for name in names}
        classes: dict[str, Sequence[str]] = dict(read_table("words", dict[str, list[str]]))
        for name, each in files_read.items():
            classes |= {f"{name}.{word_class}": words for word_class, words in each.words.items()}
        sources = [
            (name, rule, pattern, _elements(rule, pattern))
            for name, each in files_read.items()
            for rule in each.rule
            for pattern in rule.patterns
        ]
        # Every element becomes a class of its own, so that one bit tells whether a sentence holds it.
        for lexicon, rule, _, elements in sources:
            for element in elements:
                if not element.startswith("~"):
                    classes[f"{lexicon}:{element}"] = _words_of(lexicon, rule, element, classes)
        self.words: Final = Words(classes)
        self.negation: Final = self.words.bits[_NEGATION]
        samples = (
            text
            for each in files_read.values()
            for rule in each.rule
            for text in rule.examples + rule.counter_examples
        )
        counts = Counter(word for text in samples for word in self.words.numbers(Document(text).text))
        self._anchored: Final[list[tuple[_Pattern, ...]]] = [()] * len(self.words)
        for name, rule, _, elements in sources:
            self._add(name, rule, elements, counts)

    def mask(self, *names: str) -> int:
        """Return the bit mask of word classes."""
        return sum({self.words.bits[name] for name in names})

    def _add(self, lexicon: str, rule: Rule, elements: Sequence[str], counts: Mapping[int, int]) -> None:
        """Compile a pattern and hang it on the words of its rarest element, its anchor."""
        steps: list[_Step] = []
        gap, across = GAP, False
        for element in elements:
            if element.startswith("~"):
                gap, across = int(element.strip("~")), element.startswith("~~")
                continue
            steps.append(_Step(self.words.bits[f"{lexicon}:{element}"], gap, across))
            gap, across = GAP, False
        negates = any(_NEGATION in _ALTERNATIVE.findall(element) for element in elements)
        words = [self.words.of(step.bit) for step in steps]
        frequency = [sum(counts[word] for word in each) for each in words]
        anchor = frequency.index(min(frequency))
        pattern = _Pattern(
            reduce(or_, (step.bit for step in steps)),
            self.mask(*(_class_name(lexicon, rule, name, self.words.bits) for name in rule.unless)),
            rule,
            tuple(steps),
            anchor,
            "none" if negates else rule.negation,
        )
        for word in words[anchor]:
            self._anchored[word] += (pattern,)

    def sentences(self, document: Document) -> list[Sentence]:
        """Return the sentences of a document, each with its tokens."""
        tokens, masks = self.words.tokens(document.text), self.words.masks
        starts = [token[1] for token in tokens]
        found, first = [], 0
        for start, end in document.bounds:
            last = bisect_left(starts, end, first)
            here = tokens[first:last]
            classes = 0
            for token in here:
                classes |= masks[token[0]]
            found.append(Sentence(start, end, here, classes))
            first = last
        return found

    def matches(self, text: str, sentence: Sentence, settled: Collection[str] = ()) -> Iterator[Match]:
        """Yield the matches in one sentence, one per rule; rules that are ``settled`` are left out."""
        present, tokens, anchored = sentence.classes, sentence.tokens, self._anchored
        done: set[str] = set()
        for position, token in enumerate(tokens):
            for needed, unless, rule, steps, anchor, negation in anchored[token[0]]:
                if present & needed != needed or present & unless or rule.id in done or rule.id in settled:
                    continue
                last = self._last(text, tokens, steps, anchor + 1, position)
                first = None if last is None else self._first(text, tokens, steps, anchor, position)
                if first is None or last is None:
                    continue
                end = tokens[last][2]
                if negation != "none" and self._negated(negation, tokens, first, end):
                    continue
                done.add(rule.id)
                yield Match(rule, tokens[first][1], end)

    def _negated(self, where: str, tokens: Sequence[Token], position: int, end: int) -> bool:
        masks, negation = self.words.masks, self.negation
        if position:
            word, _, before = tokens[position - 1]
            if masks[word] & negation and tokens[position][1] - before < _NEGATED_BEFORE:
                return True
        if where == "before":
            return False
        inside = itertools.takewhile(lambda token: token[1] < end, itertools.islice(tokens, position, None))
        return any(masks[word] & negation for word, _, _ in inside)

    def _first(
        self, text: str, tokens: Sequence[Token], steps: Sequence[_Step], number: int, position: int
    ) -> int | None:
        """Return the first token of a match whose element ``number`` is the token at a position, or None."""
        if number == 0:
            return position
        _, gap, across = steps[number]
        bit, masks, start = steps[number - 1].bit, self.words.masks, tokens[position][1]
        tries = 0
        for before in range(position - 1, -1, -1):
            word, _, end = tokens[before]
            if start - end > gap or tries == _MAX_TRIES:
                return None
            if not masks[word] & bit:
                continue
            if not across and not _in_one_clause(text, end, start):
                return None
            first = self._first(text, tokens, steps, number - 1, before)
            if first is not None:
                return first
            tries += 1
        return None

    def _last(
        self, text: str, tokens: Sequence[Token], steps: Sequence[_Step], number: int, position: int
    ) -> int | None:
        """Return the last token of a match whose elements before ``number`` end at a position, or None."""
        if number == len(steps):
            return position
        bit, gap, across = steps[number]
        masks, end = self.words.masks, tokens[position][2]
        tries = 0
        for after in range(position + 1, len(tokens)):
            word, start, _ = tokens[after]
            if start - end > gap or tries == _MAX_TRIES:
                return None
            if not masks[word] & bit:
                continue
            if not across and not _in_one_clause(text, end, start):
                return None
            last = self._last(text, tokens, steps, number + 1, after)
            if last is not None:
                return last
            tries += 1
        return None


def _in_one_clause(text: str, start: int, end: int) -> bool:
    """Return True if no mark between clauses stands in a span."""
    return start == end or (text.find(",", start, end) < 0 and text.find(":", start, end) < 0)


def _words_of(lexicon: str, rule: Rule, element: str, classes: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return all words that an element of a pattern stands for."""
    words: list[str] = []
    for each in _ALTERNATIVE.findall(element):
        words += [each[1:-1]] if each[0] == "'" else classes[_class_name(lexicon, rule, each, classes)]
    return words


def _class_name(lexicon: str, rule: Rule, name: str, known: Collection[str]) -> str:
    """Return the full name of a class: the lexicon's own, else the shared one."""
    own = f"{lexicon}.{name}"
    if own in known:
        return own
    if name not in known:
        raise UsageError(f"lexicon rule {rule.id}: no word class {name}")
    return name


def _elements(rule: Rule, pattern: str) -> list[str]:
    elements = _ELEMENT.findall(pattern)
    if (
        len(pattern) > MAX_PATTERN
        or _ELEMENT.sub("", pattern).strip()
        or not elements
        or elements[0].startswith("~")
    ):
        raise UsageError(
            f"lexicon rule {rule.id}: the pattern {pattern[:60]!r} is not a sequence of word classes"
        )
    return elements
