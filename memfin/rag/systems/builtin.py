"""Built-in RAG system: passage search and answer templates, offline and deterministic."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from memfin.contracts import ModelUsage, ParameterChange
from memfin.contracts.rag import RagAnswer, RagAnswerRange, RagCitation, RagEvidence
from memfin.rag.document import Document
from memfin.rag.extraction import answers
from memfin.rag.extraction.answers import Chosen, ReadAnswer, leading_polarity, polarity, signs_of_not_knowing
from memfin.rag.extraction.dates import FoundRange, PartialDate, find_dates
from memfin.rag.extraction.facts import find_facts
from memfin.rag.extraction.normalize import language_of, plain
from memfin.rag.passages import (
    Hit,
    Passage,
    PassageIndex,
    Sentence,
    Unit,
    joined,
    passages_of,
    share,
    stemmed,
    units_of,
    vocabulary,
)
from memfin.text.clauses import clauses
from memfin.version import __version__

MIN_SUPPORT: Final = 0.5
MIN_VALUE_SUPPORT: Final = 0.35
"""Share of a question that a passage meets to support an answer, and one that is a typed value or a list."""

NEAR: Final = 0.6
"""Score, as a share of the best one, of passages that are read besides it."""

MAX_QUOTE_CHARS: Final = 300

_SAME_KIND: Final = 0.2
"""Bonus of a passage whose own question asks for the same kind of value."""

_CHOOSERS: Final[dict[str, Callable[[ReadAnswer], Chosen[Any]]]] = {
    "amount": answers.choose_amount,
    "breakdown": answers.choose_breakdown,
    "count": answers.choose_count,
    "date": answers.choose_date,
    "range": answers.choose_range,
}
_TYPED: Final = frozenset((*_CHOOSERS, "person", "place", "organization", "clock", "id"))


class _Question(NamedTuple):
    """A question, the kind of its answer, and the signs in its words."""

    text: str
    kind: str
    signs: frozenset[str]

    def kin(self, text: str, table: str) -> bool:
        """Say whether a text has a pattern of the question's kind."""
        pattern = vocabulary().patterns[table].get(self.kind)
        return pattern is not None and pattern.search(plain(text).lower()) is not None


def read_question(text: str) -> _Question:
    """Return the kind of answer that the words of a question ask for."""
    words, patterns = plain(text).lower(), vocabulary().patterns
    kind = next((kind for kind, pattern in patterns["kinds"].items() if pattern.search(words)), "text")
    return _Question(
        text, kind, frozenset(sign for sign, pattern in patterns["signs"].items() if pattern.search(words))
    )


class BuiltinRag:
    """A baseline that answers from one document; the same question always gets the same answer."""

    reference = "builtin"
    model = "builtin"
    version: str | None = __version__
    total_usage: ModelUsage | None = None

    def __init__(self, document: Document) -> None:
        text = plain(document.text)
        self._index = PassageIndex(passages_of(document))
        no_name = vocabulary().patterns["signs"]["no_name"]
        self._names = {name for name in _entities("person", text) if not no_name.search(name[1:])}

    @property
    def inputs(self) -> dict[str, Any]:
        """Settings that the answers depend on besides the document, for the fingerprint."""
        return {"words_sha256": vocabulary().sha256}

    async def query(self, question: str) -> RagAnswer:
        """Return the answer with its evidence, or an abstention with the nearest words."""
        asked = read_question(question)
        units = self._index.weighted(units_of(question, self._names_in(question)))
        hits = [
            hit._replace(score=hit.score + _SAME_KIND)
            if hit.passage.is_pair and asked.kin(hit.passage.question, "kinds")
            else hit
            for hit in self._index.search(units)
            if hit.score
        ]
        hits.sort(key=lambda hit: -hit.score)
        return self._answer(asked, hits, units) if hits else _reply(asked, [], "none")

    async def close(self) -> None:
        """Do nothing."""

    def parameter_changes(self) -> list[ParameterChange]:
        """Return nothing: there is no model."""
        return []

    def _answer(self, asked: _Question, hits: list[Hit], units: list[Unit]) -> RagAnswer:
        best, quotes = hits[0], _parts(hits[0].passage)
        near = [hit for hit in hits if hit.score >= NEAR * best.score]
        if asked.kind == "conflict":
            return _reply(asked, [part for hit in hits[:3] for part in _parts(hit.passage)[:1]], "unknown")
        if asked.kind == "list" and best.score >= MIN_VALUE_SUPPORT:
            listed = sorted(near[:6], key=lambda hit: hit.number)
            return _reply(asked, [part for hit in listed for part in _parts(hit.passage)])
        if asked.kind != "list" and (unknown := self._unknown(asked, near, units)) is not None:
            return _reply(asked, [unknown], "unknown")
        if asked.kind in _TYPED and best.score >= MIN_VALUE_SUPPORT:
            return self._value(asked, hits, units) or _reply(asked, quotes[:1], "none")
        if asked.kind in _TYPED or best.score < MIN_SUPPORT:
            return _reply(asked, quotes[:1], "none")
        return self._words(asked, best.passage, units)

    def _words(self, asked: _Question, passage: Passage, units: list[Unit]) -> RagAnswer:
        """Return yes or no, or the nearest sentence of a passage."""
        sentence = max(passage.body or passage.asked, key=lambda each: _share(each, units))
        if asked.kind == "text":
            return _reply(asked, [sentence], text=sentence.text)
        says = leading_polarity(plain(passage.answer)) if passage.is_pair else None
        says = polarity(sentence.text) if says is None else says
        if says is None:
            return _reply(asked, [sentence], "unknown")
        return _reply(asked, _parts(passage), boolean=says)

    def _unknown(self, asked: _Question, near: list[Hit], units: list[Unit]) -> Sentence | None:
        """Return the sentence by which the document leaves the question open, if there is one.

        It has a clause that speaks of what is asked for (哪一天想不起来了), unless a clause with a value
        is nearer to the question; or it stands in the best passage, which gives no value.
        """
        details = "details" in asked.signs
        for hit in near:
            body, best = hit.passage.body, hit is near[0]
            open_ones = sorted(filter(_is_unknown, body), key=lambda each: -_share(each, units))
            if open_ones and asked.kind not in _TYPED:
                return open_ones[0] if best and (details or body[0] in open_ones) else None
            for each in open_ones:
                parts = [Sentence(each.page, part) for part in clauses(each.text)]
                left = [part for part in parts if _is_unknown(part) and asked.kin(part.text, "topics")]
                given = [part for part in parts if self._values(asked, part.text)]
                if left and _nearest(left, units) >= _nearest(given, units):
                    return each
            if open_ones and best and (details or not any(self._values(asked, each.text) for each in body)):
                return open_ones[0]
        return None

    def _value(self, asked: _Question, hits: list[Hit], units: list[Unit]) -> RagAnswer | None:
        """Return the nearest value of the asked kind in the best passages, a record's questions last."""
        best: tuple[float, Any, Sentence, Hit] | None = None
        for hit in hits[:4]:
            passage = hit.passage
            for sentences, weight in ((passage.body, 1.0), (passage.asked if passage.is_pair else (), 0.45)):
                for sentence in sentences:
                    score = hit.score * (0.5 + 0.5 * _share(sentence, units)) * weight
                    values = self._values(asked, sentence.text)
                    if values and (best is None or score > best[0]):
                        best = score, values[0], sentence, hit
        return None if best is None else self._typed(asked, *best[1:])

    def _values(self, asked: _Question, text: str) -> list[Any]:
        """Return the values of the asked kind in a sentence, without those that the question names."""
        words = plain(text)
        if (choose := _CHOOSERS.get(asked.kind)) is not None:
            read = ReadAnswer(text.replace("是不是", "是"), asked.text)
            chosen = choose(read)
            values = list(chosen.candidates) if chosen.value is None else [chosen.value]
            if asked.kind == "amount" and "total" in asked.signs and chosen.value is None and values:
                return [sum(values)]
            known = {fact.value for fact in read.asked}
            return [value for value in values if value not in known]
        if asked.kind == "person":
            found = self._names_in(words)
        elif asked.kind in ("place", "organization"):
            found = _entities(asked.kind, words)
        elif asked.kind == "clock":
            found = [text for fact in find_facts(words, names=False) if fact.kind == "time"]
        else:
            found = [str(fact.value) for fact in find_facts(words, names=False) if fact.kind == "id"]
        return [value for value in found if value not in asked.text]

    def _names_in(self, text: str) -> list[str]:
        """Return the names of persons in the document that a text has, in its order."""
        found = [name for name in self._names if name in text]
        longest = [name for name in found if not any(name != other and name in other for other in found)]
        return sorted(longest, key=lambda name: (text.index(name), name))

    def _typed(self, asked: _Question, value: Any, sentence: Sentence, hit: Hit) -> RagAnswer:
        quotes = [sentence]
        if sentence in hit.passage.asked:  # the answer affirms what the question says
            quotes += _parts(hit.passage)
        typed: dict[str, Any] = {"text": sentence.text}
        if asked.kind == "amount":
            typed = {"amount": value}
        elif asked.kind == "breakdown":
            total = sum(value) if "total" in asked.signs else None
            typed = {"amount_breakdown": list(value), "amount": total}
        elif asked.kind == "count" and value.is_integer():
            typed = {"count": int(value)}
        elif isinstance(value, PartialDate):
            typed = {"date": self._dated(value, hit).iso()}
        elif isinstance(value, FoundRange):
            first, last = (self._dated(end, hit).iso() for end in (value.first, value.last))
            typed = {"date_range": RagAnswerRange(start=first, end=last)}
        elif asked.kind not in ("clock", "count"):
            typed = {"entity": value, "text": value}
        return _reply(asked, quotes, **typed)

    def _dated(self, date: PartialDate, hit: Hit) -> PartialDate:
        """Return a date with the year that the words before it speak of, where it has none itself."""
        for passage in reversed(self._index.passages[: hit.number + 1] if date.year is None else ()):
            years = [found.value.year for found in find_dates(plain(f"{passage.question}\n{passage.answer}"))]
            if passage.is_pair and any(years):
                return date._replace(year=[year for year in years if year][-1])
        return date


def _share(sentence: Sentence, units: list[Unit]) -> float:
    return share(stemmed(sentence.text), units)


def _nearest(parts: list[Sentence], units: list[Unit]) -> float:
    return max((_share(part, units) for part in parts), default=0.0)


def _entities(kind: str, words: str) -> list[str]:
    pattern = vocabulary().patterns["entities"][kind]
    return ["".join(match.groups("")) for match in pattern.finditer(words)]


def _is_unknown(sentence: Sentence) -> bool:
    words = plain(sentence.text)
    return bool(
        signs_of_not_knowing(words) or vocabulary().patterns["signs"]["unknown"].search(words.lower())
    )


def _parts(passage: Passage) -> list[Sentence]:
    """Return the words of a passage in pieces to quote: one per page, of bounded length."""
    parts: list[Sentence] = []
    for page, text in passage.body or passage.asked:
        if parts and parts[-1].page == page and len(parts[-1].text) + len(text) <= MAX_QUOTE_CHARS:
            parts[-1] = Sentence(page, joined((parts[-1].text, text)))
        else:
            parts.append(Sentence(page, text))
    return parts


def _reply(asked: _Question, quotes: list[Sentence], abstains: str = "", **typed: Any) -> RagAnswer:
    words = vocabulary().templates[language_of(asked.text)]
    lead = words.get(abstains or str(typed.get("boolean")), "")
    quoted = "；".join(words["found"].format(page=each.page, quote=each.text) for each in quotes)
    return RagAnswer(
        answer=f"{lead}{quoted}",
        evidence=[RagEvidence(page=each.page, text=each.text) for each in quotes],
        citation=[RagCitation(page=each.page, quote=each.text) for each in quotes],
        abstained=bool(abstains),
        **typed,
    )
