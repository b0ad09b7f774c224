"""Passages of a document (questions with their answers, or paragraphs), and a word search over them."""

import hashlib
import math
import operator
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from memfin.rag.document import FURNITURE, TURN, Document, Segment, segments
from memfin.rag.extraction.normalize import plain
from memfin.text.bm25 import K1, B, terms
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
_SUFFIX: Final = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ed|es|s|ly)$")
_STEM: Final = 6  # letters of an English word by which it is found
_NAME, _IDLE, _SINGLE, _SYNONYMS = 0.5, 0.4, 0.3, 0.7  # weights against a pair of characters or a word
_PAIR, _TITLE, _NEARBY = 0.5, -0.5, 0.1  # extra weights of occurrences: in questions, in headings, nearby


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
    """A part of a question: its forms, weight, counts in passages, and True if it is more than filler."""

    forms: tuple[str, ...]
    weight: float
    counts: list[float]
    is_content: bool


class Hit(NamedTuple):
    """A passage with its number and its BM25 score."""

    number: int
    passage: Passage
    score: float


class Vocabulary(NamedTuple):
    """Vocabulary that ships with MemFin; ``patterns`` are tables of patterns in the order of matching."""

    synonyms: tuple[tuple[str, ...], ...]
    idle: re.Pattern[str]
    patterns: Mapping[str, Mapping[str, re.Pattern[str]]]
    templates: Mapping[str, Mapping[str, str]]
    sha256: str


@cache
def vocabulary() -> Vocabulary:
    """Load the vocabulary, once per process."""
    content = _VOCABULARY.read_bytes()
    data = tomllib.loads(content.decode())
    return Vocabulary(
        synonyms=tuple(tuple(map(_stem, group)) for group in data["synonyms"]),
        idle=re.compile(rf"{'|'.join(data['idle'])}|\b(?:{'|'.join(data['idle_english'].split())})\b"),
        patterns={
            table: {name: re.compile("|".join(patterns)) for name, patterns in data[table].items()}
            for table in ("kinds", "signs", "entities")
        },
        templates=data["templates"],
        sha256=hashlib.sha256(content).hexdigest(),
    )


def passages_of(document: Document) -> tuple[Passage, ...]:
    """Return the passages of a document in its order."""
    parts = segments(document)
    found = _record(document, parts) if parts else _prose(document)
    return tuple(passage for passage in found if passage.body or passage.asked)


class PassageIndex:
    """BM25 index over passages: pairs of characters, single ones, first letters of words, and synonyms.

    Pairs that overlap and occur in the same passages are one word, which counts once.
    """

    def __init__(self, passages: tuple[Passage, ...]) -> None:
        self.passages = passages
        self._texts = [lowered(f"{each.question}\n{each.answer}") for each in passages]
        self._asked = [lowered(each.question) for each in passages]
        self._is_record = any(each.is_pair for each in passages)
        mean = sum(map(len, self._texts)) / max(1, len(self._texts)) or 1.0
        self._slopes = [K1 * (1.0 - B + B * len(text) / mean) for text in self._texts]

    def units(self, question: str, names: Iterable[str] = ()) -> list[Unit]:
        """Return the parts of a question by rarity; names weigh less in a record, whose speakers say he."""
        known, words = vocabulary(), lowered(question)
        content = {*terms(rest := known.idle.sub(" ", words)), *rest}
        groups = (each for each in known.synonyms if any(_count(form, words) for form in each))
        units = [self._unit(group, _SYNONYMS) for group in groups]
        for name in map(lowered, names if self._is_record else ()):
            units.append(self._unit((name,), _NAME)._replace(is_content=True))
            words = words.replace(name, " ")
        last = None
        for term in dict.fromkeys((*terms(words), *_HAN.findall(words))):
            scale = _SINGLE if len(term) == 1 and term >= _FIRST_HAN else 1.0
            unit = self._unit((_stem(term),), scale * (1.0 if term in content else _IDLE))
            if not (term >= _FIRST_HAN and last and _is_one_word(last, unit)):
                units.append(unit)
            last = unit
        return units

    def _unit(self, forms: tuple[str, ...], weight: float) -> Unit:
        counts, extra = [0.0] * len(self._texts), _PAIR if self._is_record else _TITLE
        for form in forms:
            for number, text in enumerate(self._texts):
                if form in text:
                    counts[number] += _count(form, text) + extra * _count(form, self._asked[number])
        holding = sum(map(bool, counts))
        rarity = math.log1p((len(counts) - holding + 0.5) / (holding + 0.5))
        return Unit(forms, weight * rarity, counts, weight >= _SYNONYMS)

    def search(self, units: Sequence[Unit]) -> list[Hit]:
        """Rank the passages that meet the units of a question."""
        scores = [0.0] * len(self.passages)
        for unit in units:
            near = map(operator.add, (0.0, *unit.counts), (*unit.counts[1:], 0.0))
            for number, (own, beside) in enumerate(zip(unit.counts, near, strict=False)):
                if count := own + _NEARBY * beside:
                    scores[number] += unit.weight * count * (K1 + 1.0) / (count + self._slopes[number])
        hits = [Hit(number, self.passages[number], score) for number, score in enumerate(scores) if score]
        return sorted(hits, key=lambda hit: -hit.score)


def share(text: str, units: Sequence[Unit]) -> float:
    """Return the share of the units of a question that a text meets, by weight."""
    words = lowered(text)
    met = sum(unit.weight for unit in units if any(_count(form, words) for form in unit.forms))
    return met / (sum(unit.weight for unit in units) or 1.0)


def lowered(text: str) -> str:
    """Return a text in the form of the word search: plain, in lower case."""
    return plain(text).lower()


def joined(texts: Iterable[str]) -> str:
    """Return sentences in one piece, with a blank between those in Latin letters."""
    whole = ""
    for text in texts:
        apart = whole and text and max(whole[-1], text[0]) < _FIRST_HAN
        whole += f" {text}" if apart else text
    return whole


def _is_one_word(first: Unit, second: Unit) -> bool:
    """Return True if two pairs of characters overlap, and occur in the same passages."""
    overlap = first.forms[0][-1] == second.forms[0][0] and first.is_content >= second.is_content
    return overlap and not any(bool(a) != bool(b) for a, b in zip(first.counts, second.counts, strict=True))


def _stem(word: str) -> str:
    return word if word >= _FIRST_HAN else _SUFFIX.sub("", word)[:_STEM]


@lru_cache(4096)
def _pattern(form: str) -> re.Pattern[str]:
    end = "" if len(form) == _STEM and form.isalpha() else "(?:ies|ing|ed|es|s|ly)?(?![a-z0-9])"
    return re.compile(rf"(?<![a-z0-9.]){re.escape(form)}{end}")


def _count(form: str, text: str) -> int:
    return text.count(form) if form >= _FIRST_HAN else len(_pattern(form).findall(text))


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
