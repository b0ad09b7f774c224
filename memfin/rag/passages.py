"""Passages of a document (questions with their answers, or paragraphs), and a word search over them."""

import hashlib
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from memfin.rag.document import FURNITURE, TURN, Document, Segment, segments
from memfin.rag.extraction.normalize import plain
from memfin.text.bm25 import terms
from memfin.text.clauses import sentences

MAX_PASSAGE_CHARS: Final = 600  # of prose; then the next sentence begins another passage
MAX_QUOTE_CHARS: Final = 300

_VOCABULARY: Final = Path(__file__).parents[1] / "data" / "rag" / "builtin.toml"
_BLANK_LINES: Final = re.compile(r"\n[ \t\u3000]*\n")
_HEADING: Final = re.compile(r"#{1,6}\s[^\n]*")
_WRAPPED: Final = re.compile(r"(?<=[\u2e80-\U0003ffff])[ \t]*\n[ \t]*(?=[\u2e80-\U0003ffff])")
_REPEATED: Final = 3  # pages on which a line of prose stands that is no content
_FIRST_HAN: Final = "\u2e80"
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_SUFFIX: Final = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ed|es|s|ly)\b")
# Weights of a name, a pair of characters and a single one against a known word.
_NAME_SHARE, _PAIR_SHARE, _SINGLE_SHARE = 0.5, 0.6, 0.4


class Sentence(NamedTuple):
    """A sentence on a page, without its line breaks."""

    page: int
    text: str


class Passage(NamedTuple):
    """A question with its answer (``is_pair``), or prose under a heading.

    ``asked`` is the question or the heading, ``body`` the rest.
    """

    asked: tuple[Sentence, ...]
    body: tuple[Sentence, ...]
    is_pair: bool

    @property
    def question(self) -> str:
        """The words of the question, or of the heading."""
        return joined(sentence.text for sentence in self.asked)

    @property
    def answer(self) -> str:
        """The words of the rest."""
        return joined(sentence.text for sentence in self.body)

    def quotes(self) -> list[Sentence]:
        """Return the body, or the rest if there is none, in quotes of bounded length, each from one page."""
        quotes: list[Sentence] = []
        for page, text in self.body or self.asked:
            if quotes and quotes[-1].page == page and len(quotes[-1].text) + len(text) <= MAX_QUOTE_CHARS:
                quotes[-1] = Sentence(page, joined((quotes[-1].text, text)))
            else:
                quotes.append(Sentence(page, text))
        return quotes


class Unit(NamedTuple):
    """A part of a question that a passage meets by any of its forms, and its share of the question."""

    forms: tuple[str, ...]
    share: float = 1.0


class Hit(NamedTuple):
    """A passage with its number; ``score`` is the share of the question that it meets, from 0 to 1."""

    number: int
    passage: Passage
    score: float


class Vocabulary(NamedTuple):
    """Vocabulary that ships with MemFin; ``patterns`` are tables of patterns in the order of matching."""

    synonyms: tuple[tuple[str, ...], ...]
    idle: re.Pattern[str]
    idle_english: frozenset[str]
    patterns: Mapping[str, Mapping[str, re.Pattern[str]]]
    templates: Mapping[str, Mapping[str, str]]
    sha256: str


@cache
def vocabulary() -> Vocabulary:
    """Load the vocabulary, once per process."""
    content = _VOCABULARY.read_bytes()
    data = tomllib.loads(content.decode())
    return Vocabulary(
        synonyms=tuple(tuple(map(stemmed, group)) for group in data["synonyms"]),
        idle=re.compile("|".join(data["idle"])),
        idle_english=frozenset(stemmed(data["idle_english"]).split()),
        patterns={
            table: {name: re.compile("|".join(patterns)) for name, patterns in data[table].items()}
            for table in ("kinds", "signs", "topics", "entities")
        },
        templates=data["templates"],
        sha256=hashlib.sha256(content).hexdigest(),
    )


def passages_of(document: Document) -> tuple[Passage, ...]:
    """Return the passages of a document in its order."""
    parts = segments(document)
    found = _record(document, parts) if parts else _prose(document)
    return tuple(passage for passage in found if passage.body or passage.asked)


def units_of(question: str, names: Iterable[str] = ()) -> list[Unit]:
    """Return the parts of a question, with the ``names`` in it, for a search of passages that meet them."""
    known, rest = vocabulary(), stemmed(question)
    units: list[Unit] = []
    for name in map(stemmed, names):
        if name in rest:
            units.append(Unit((name,), _NAME_SHARE))
            rest = rest.replace(name, " ")
    for group in known.synonyms:
        if present := [word for word in sorted(group, key=len, reverse=True) if _has(rest, word)]:
            units.append(Unit(group))
        for word in present:
            rest = rest.replace(word, " ")
    rest = known.idle.sub(" ", rest)
    for term in dict.fromkeys(terms(rest)):
        if term < _FIRST_HAN and term not in known.idle_english:
            units.append(Unit((term,)))
        elif term >= _FIRST_HAN and len(term) > 1:
            units.append(Unit((term,), _PAIR_SHARE))
    return units + [Unit((mark,), _SINGLE_SHARE) for mark in dict.fromkeys(_HAN.findall(rest))]


class PassageIndex:
    """Search index over passages by the share of a question they meet; rare words weigh more."""

    def __init__(self, passages: tuple[Passage, ...]) -> None:
        self.passages = passages
        self._stemmed = [stemmed(f"{passage.question}\n{passage.answer}") for passage in passages]

    def search(self, units: Sequence[Unit]) -> list[Hit]:
        """Rank all passages by the share of the `weighted` units of a question that they meet."""
        pairs = enumerate(zip(self.passages, self._stemmed, strict=True))
        hits = [Hit(number, passage, share(text, units)) for number, (passage, text) in pairs]
        return sorted(hits, key=lambda hit: -hit.score)

    def weighted(self, units: list[Unit]) -> list[Unit]:
        """Return the units with their shares weighted by their rarity among passages."""

        def weight(unit: Unit) -> float:
            counts = (sum(_has(text, form) for text in self._stemmed) for form in unit.forms)
            return math.log1p(len(self.passages) / (min(filter(None, counts), default=0) + 0.5))

        return [unit._replace(share=unit.share * weight(unit)) for unit in units]


def share(text: str, units: Sequence[Unit]) -> float:
    """Return the share of weighted units that a stemmed text meets."""
    met = sum(unit.share for unit in units if any(_has(text, form) for form in unit.forms))
    return met / (sum(unit.share for unit in units) or 1.0)


def stemmed(text: str) -> str:
    """Return a text in the form of the word search: plain, lower case, English words stemmed."""
    return _SUFFIX.sub("", plain(text).lower())


def joined(texts: Iterable[str]) -> str:
    """Return sentences in one piece, with a blank between those in Latin letters."""
    whole = ""
    for text in texts:
        apart = whole and text and max(whole[-1], text[0]) < _FIRST_HAN
        whole += f" {text}" if apart else text
    return whole


def _has(text: str, form: str) -> bool:
    if form >= _FIRST_HAN:
        return form in text
    return re.search(rf"(?<![a-z0-9.]){re.escape(form)}(?![a-z0-9])", text) is not None


def _record(document: Document, parts: tuple[Segment, ...]) -> Iterator[Passage]:
    """Yield the head of a transcript page by page, then each question with its answer."""
    text = {page.number: page.text for page in document.pages}
    head = takewhile(lambda part: not part.pair, parts)
    for page, near in groupby(head, key=lambda part: part.page):
        lines = "".join(text[page][part.start : part.end] for part in near).split("\n")
        body = (Sentence(page, words) for line in lines if (words := line.strip(" \t\u3000#>*")))
        yield Passage((), tuple(body), is_pair=False)
    for _, turns in groupby((part for part in parts if part.pair), key=lambda part: part.pair):
        sides: dict[str | None, list[Sentence]] = {"question": [], "answer": []}
        for part in turns:
            words = TURN.sub("", text[part.page][part.start : part.end]).lstrip("*_ \t\u3000")
            sides[part.speaker].extend(_sentences(part.page, words))
        yield Passage(tuple(sides["question"]), tuple(sides["answer"]), is_pair=True)


def _prose(document: Document) -> Iterator[Passage]:
    """Yield the paragraphs under their headings, long ones in several passages."""
    lines = Counter(line for page in document.pages for line in {*map(str.strip, page.text.split("\n"))})
    heading: tuple[Sentence, ...] = ()
    for page in document.pages:
        kept = FURNITURE.sub("", page.text).split("\n")
        kept = [line for line in kept if not line.strip() or lines[line.strip()] < _REPEATED]
        for block in map(str.strip, _BLANK_LINES.split("\n".join(kept))):
            if _HEADING.fullmatch(block):
                heading = (Sentence(page.number, block.lstrip("# ")),)
                continue
            held: list[Sentence] = []
            for sentence in _sentences(page.number, block):
                if held and sum(len(each.text) for each in (*held, sentence)) > MAX_PASSAGE_CHARS:
                    yield Passage(heading, tuple(held), is_pair=False)
                    held = []
                held.append(sentence)
            if held:
                yield Passage(heading, tuple(held), is_pair=False)


def _sentences(page: int, text: str) -> Iterator[Sentence]:
    for words in sentences(_WRAPPED.sub("", text)):
        if words.strip(" \t\u3000\n*_|-"):
            yield Sentence(page, words.strip())
