"""Built-in RAG system: the baseline, offline and deterministic."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from memfin.contracts.rag import RagAnswer, RagAnswerRange, RagCitation, RagEvidence
from memfin.rag import passages
from memfin.rag.document import Document
from memfin.rag.extraction import answers
from memfin.rag.extraction.facts import PartialDate, find_dates, find_facts
from memfin.rag.extraction.normalize import language_of, plain
from memfin.rag.passages import Hit, Passage, Sentence, Unit, vocabulary
from memfin.rag.systems.protocol import KnownSystem
from memfin.version import __version__

NEAR: Final = 0.5  # score of passages that are cited beside the best one, as a share of its
MIN_SHARE: Final = 0.25  # of a question's content, by weight, that one word meets to support an answer
MAX_READ: Final = 4  # passages that are read for an answer
MAX_RANKED: Final = 50  # passages that are ranked by their values
_HAS_VALUE: Final = 1.7  # weight of a passage with a value of the asked kind, or one that leaves it open
_ASKED: Final = 0.45  # weight of the words of an interviewer
_BASE: Final = 0.5  # weight of a clause that meets nothing of the question
_CLAUSE: Final = re.compile(r"[。;；!！?？\n]+|(?<!\d)[,，]|[,，](?!\d)")
_SAME: Final = ("amount", "count", "date", "id", "share")  # kinds of answers that are kinds of facts
_FACTS: Final = {"breakdown": "amount", "range": "date", "clock": "time"} | {kind: kind for kind in _SAME}


class _Question(NamedTuple):
    """A question with the kind of its answer, its indicator words, its weighted units, and its content."""

    text: str
    kind: str
    signs: frozenset[str]
    units: Sequence[Unit] = ()
    content: Sequence[Unit] = ()


class _Found(NamedTuple):
    """A value in a sentence of a passage; None where the sentence leaves the question open."""

    score: float
    value: Any
    sentence: Sentence
    hit: Hit


def read_question(text: str) -> _Question:
    """Read the kind of answer that a question asks for."""
    words, patterns = passages.lowered(text), vocabulary().patterns
    kind = next((kind for kind, pattern in patterns["kinds"].items() if pattern.search(words)), "text")
    signs = (sign for sign, pattern in patterns["signs"].items() if pattern.search(words))
    return _Question(text, kind, frozenset(signs))


class BuiltinRag(KnownSystem):
    """A baseline that answers from one document; the same question always gets the same answer."""

    reference = model = "builtin"
    version = __version__

    def __init__(self, document: Document) -> None:
        self._index = passages.PassageIndex(passages.passages_of(document))
        sentences = (each for passage in self._index.passages for each in (*passage.asked, *passage.body))
        names = {re.escape(name) for each in sentences for name in _entities("person", plain(each.text))}
        self._names = re.compile("|".join(sorted(names, key=lambda name: (-len(name), name))) or "(?!)")

    @property
    def inputs(self) -> dict[str, Any]:
        """Settings that the answers depend on besides the document, for the fingerprint."""
        return {"words_sha256": vocabulary().sha256}

    def search(self, question: str) -> list[Hit]:
        """Rank the passages for a question; those with a value of the asked kind have a bonus."""
        return self._search(question)[1]

    def _search(self, question: str) -> tuple[_Question, list[Hit]]:
        units = self._index.units(question, self._names.findall(question))
        content = [unit for unit in units if unit.is_content] or units
        asked = read_question(question)._replace(units=units, content=content)
        hits = self._index.search(units)
        if asked.kind not in _FACTS:
            return asked, hits
        first = [hit._replace(score=hit.score * _bonus(asked.kind, hit.passage)) for hit in hits[:MAX_RANKED]]
        return asked, sorted(first, key=lambda hit: -hit.score) + hits[MAX_RANKED:]

    async def query(self, question: str) -> RagAnswer:
        """Return the answer with its evidence, or an abstention with the nearest words."""
        asked, hits = self._search(question)
        near = [hit for hit in hits[:MAX_READ] if hit.score >= NEAR * hits[0].score]
        if near and asked.kind in ("conflict", "list"):
            near.sort(key=lambda hit: hit.number)
            return _reply(asked, [quote for hit in near for quote in hit.passage.quotes()])
        cited = [quote for hit in near for quote in hit.passage.quotes()]
        supporting = islice((hit for hit in hits if _supports(hit, asked)), MAX_READ)
        values = list(self._found(asked, supporting))[:: -1 if "last" in asked.signs else 1]
        found = max(values, key=lambda each: each.score, default=None)
        if found is None:
            return _reply(asked, cited[:1], abstains="none")
        if found.value is None:
            return _reply(asked, [found.sentence], cited, abstains="unknown")
        quotes = [found.sentence]
        if found.sentence in found.hit.passage.asked or asked.kind == "boolean":
            quotes += found.hit.passage.quotes()  # they affirm the words of the question
        return _reply(asked, quotes, cited, **self._typed(asked.kind, found, "total" in asked.signs))

    def _found(self, asked: _Question, hits: Iterable[Hit]) -> Iterator[_Found]:
        """Yield the values of the asked kind in some passages, and the clauses that leave it open."""
        is_total = asked.kind == "amount" and "total" in asked.signs
        is_whole = is_total or asked.kind in ("breakdown", "range", "text")
        for hit in hits:
            asks = hit.passage.question if asked.kind == "boolean" else ""
            if hit.passage.is_pair:  # what its yes or no is about
                asks = "\n".join(
                    each for each in _CLAUSE.split(asks) if read_question(each).kind == "boolean"
                )
            sentences = [(each, 1.0) for each in hit.passage.body]
            if hit.passage.is_pair and asked.kind not in ("text", "boolean"):
                sentences += [(each, _ASKED) for each in hit.passage.asked]
            for sentence, weight in sentences:
                context = f"{asks}\n{sentence.text}"
                if asked.kind == "boolean" and not passages.share(context, asked.content):
                    continue
                base = _BASE + passages.share(context, asked.units)
                for part in [sentence.text] if is_whole else filter(None, _CLAUSE.split(sentence.text)):
                    score = weight * hit.score * (base + passages.share(part, asked.units))
                    values = self._values(asked, part, hit.passage)
                    values = values or [None] * (weight == 1.0 and _is_open(part))
                    yield from (_Found(score, value, sentence, hit) for value in values)

    def _values(self, asked: _Question, text: str, passage: Passage) -> list[Any]:
        """Return the values of the asked kind in some words, without those that the question names."""
        kind, words = asked.kind, plain(text)
        if kind not in ("boolean", *answers.CHOOSERS) and _is_open(text):
            return []
        if kind == "text":
            return [text]
        if kind == "boolean":
            says = answers.leading_polarity(plain(passage.answer)) if passage.is_pair else None
            if says is None and (says := answers.polarity(text)) is not None:
                says = says is not answers.is_negated(plain(asked.text))
            return [] if says is None else [says]
        if kind in answers.CHOOSERS:
            return _numbers(asked, text)
        if kind == "person":
            found = self._names.findall(words)
        elif kind in _FACTS:
            facts = [fact.value for fact in find_facts(words, names=False) if fact.kind == _FACTS[kind]]
            has_id = vocabulary().patterns["kinds"]["id"].search(words) and re.search(r"\d", words)
            found = facts or [text] * bool(has_id) if kind == "id" else [text] * len(facts)
        else:
            found = _entities(kind, words)
        return [value for value in found if value not in asked.text]

    def _typed(self, kind: str, found: _Found, is_total: bool) -> dict[str, Any]:
        """Return the typed fields of an answer."""
        value = found.value
        if kind == "breakdown":
            total = sum(value) if is_total or len(value) == 1 else None
            return {"amount_breakdown": list(value), "amount": total}
        if kind == "range":
            first, last = (self._dated(end, found.hit).iso() for end in value)
            return {"date_range": RagAnswerRange(start=first, end=last)}
        if kind == "date":
            value = self._dated(value, found.hit).iso()
        elif kind == "count":
            value = int(value) if value.is_integer() else None
        if kind in ("amount", "boolean", "count", "date"):
            return {kind: value}
        if kind in ("text", "share", "clock"):
            return {"text": found.sentence.text}
        return {"text": value} if kind == "id" else {"text": value, "entity": value}

    def _dated(self, date: PartialDate, hit: Hit) -> PartialDate:
        """Complete a date without a year by the year in the words before it."""
        for passage in reversed(self._index.passages[: hit.number + 1] if date.year is None else ()):
            years = [found.value.year for found in find_dates(plain(f"{passage.question}\n{passage.answer}"))]
            if passage.is_pair and any(years):
                return date._replace(year=[year for year in years if year][-1])
        return date


def _numbers(asked: _Question, text: str) -> list[Any]:
    """Return the sums, counts, dates or periods in some words, without those that the question names."""
    kind, read = asked.kind, answers.ReadAnswer(text.replace("是不是", "是"), asked.text)
    units = ("", read.unit) if kind == "count" and read.unit else None
    if not any(fact.kind == _FACTS[kind] and (not units or fact.unit in units) for fact in read.facts):
        return []
    chosen = answers.CHOOSERS[kind](read)
    is_one = kind == "breakdown" and len(chosen.value or ()) == 1
    if is_one and vocabulary().patterns["signs"]["total"].search(text):
        return []
    found = list(chosen.candidates) if chosen.value is None else [chosen.value]
    if kind == "amount" and "total" in asked.signs and len(found) > 1:
        return [sum(found)]
    if kind == "date":  # 前一日 is none
        found = [date for date in found if date.year or date.month]
    return [value for value in found if value not in {fact.value for fact in read.asked}]


@lru_cache(1024)
def _bonus(kind: str, passage: Passage) -> float:
    has_value = any(fact.kind == _FACTS[kind] for fact in find_facts(plain(passage.answer), names=False))
    return _HAS_VALUE if has_value or _is_open(passage.answer) else 1.0


def _supports(hit: Hit, asked: _Question) -> bool:
    """Return True if a passage meets two parts of a question's content, a quarter, or one for a value."""
    met = [unit.weight for unit in asked.content if unit.counts[hit.number]]
    least = 2 if asked.kind in ("text", "boolean") else 1
    return len(met) >= least or sum(met) >= MIN_SHARE * sum(unit.weight for unit in asked.content)


def _entities(kind: str, words: str) -> list[str]:
    return ["".join(each.groups("")) for each in vocabulary().patterns["entities"][kind].finditer(words)]


def _is_open(text: str) -> bool:
    unknown = vocabulary().patterns["signs"]["unknown"]
    return bool(answers.signs_of_not_knowing(plain(text)) or unknown.search(passages.lowered(text)))


def _reply(
    asked: _Question, quotes: list[Sentence], cited: Sequence[Sentence] = (), abstains: str = "", **typed: Any
) -> RagAnswer:
    """Return an answer in the words of its quotes, which cites further ones."""
    words = vocabulary().templates[language_of(asked.text)]
    lead = words.get(abstains or str(typed.get("boolean")), "")
    quotes = list(dict.fromkeys(quotes))
    cited = list(dict.fromkeys((*quotes, *cited)))
    return RagAnswer(
        answer=lead + "；".join(words["found"].format(page=page, quote=text) for page, text in quotes),
        evidence=[RagEvidence(page=page, text=text) for page, text in cited],
        citation=[RagCitation(page=page, quote=text) for page, text in cited],
        abstained=bool(abstains),
        **typed,
    )
