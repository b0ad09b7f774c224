"""The built-in RAG system: finds passages, takes the value that is asked for, quotes it, or abstains."""

from typing import Any, Final

from memfin.contracts import ModelUsage, ParameterChange
from memfin.contracts.rag import RagAnswer, RagAnswerRange, RagCitation, RagEvidence
from memfin.rag.document import Document
from memfin.rag.extraction.abstention import signs_of_not_knowing
from memfin.rag.extraction.dates import PartialDate, find_dates
from memfin.rag.extraction.normalize import plain
from memfin.rag.extraction.polarity import leading_polarity, polarity
from memfin.rag.systems.builtin.passages import Passage, Sentence, passages_of
from memfin.rag.systems.builtin.people import Names
from memfin.rag.systems.builtin.question import Question, read_question, speaks_of
from memfin.rag.systems.builtin.search import Hit, PassageIndex
from memfin.rag.systems.builtin.values import Candidate, candidates, has_value, summed
from memfin.rag.systems.builtin.words import Unit, joined, shown, units_of, vocabulary
from memfin.text.clauses import clauses
from memfin.version import __version__

SUPPORT: Final = 0.5
SUPPORT_OF_VALUES: Final = 0.35
"""The share of a question that a passage must meet to support an answer, and one that is a value of the
kind that is asked for, or a list."""

LISTED: Final = 0.55
MOST_LISTED: Final = 6
"""Passages that a list is made of: how near the best one, and how many at most."""

UNKNOWN_NEAR: Final = 0.6
"""How near the best passage one must be whose not knowing is heeded."""

LONGEST_QUOTE: Final = 300
"""Characters of a quote."""


_TYPED: Final = frozenset(
    ("amount", "breakdown", "date", "range", "clock", "count", "id", "place", "organization", "person")
)
_WORDS: Final = {
    True: {
        "none": "原文没有说明，无法回答。",
        "unknown": "原文没有给出答案，无法确定。",
        "found": "第{page}页：“{quote}”",
        "yes": "是。",
        "no": "否。",
    },
    False: {
        "none": "The document does not say; the question cannot be answered.",
        "unknown": "The document gives no answer; it cannot be determined.",
        "found": "Page {page}: “{quote}”",
        "yes": "Yes.",
        "no": "No.",
    },
}


class BuiltinRag:
    """Answers from one document by BM25 and rules; the same question always gets the same answer.

    Nothing of the ground truth is known here: the document and the question are all there is.
    """

    reference = "builtin"
    model = "builtin"
    version: str | None = __version__
    total_usage: ModelUsage | None = None

    def __init__(self, document: Document) -> None:
        self._passages = passages_of(document)
        self._index = PassageIndex(self._passages)
        self._names = Names(document)

    @property
    def inputs(self) -> dict[str, Any]:
        """What the answers depend on besides the document, for the fingerprint."""
        return {"words_sha256": vocabulary().sha256}

    async def query(self, question: str) -> RagAnswer:
        """Return the answer with its evidence, or an abstention with the nearest words."""
        asked = read_question(question)
        named = self._names.asked_about(question)
        units = units_of(question, self._names.interviewee, named) or units_of(question)
        hits = self._index.search(units)
        return self._answer(asked, hits, units) if hits else _abstain(asked, "none", [])

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of."""

    def parameter_changes(self) -> list[ParameterChange]:
        """Return nothing: there is no model."""
        return []

    def _answer(self, asked: Question, hits: list[Hit], units: list[Unit]) -> RagAnswer:
        nearest = self._nearest(hits[0], units)
        if asked.kind == "conflict":
            said = [part for hit in hits[:3] for part in _parts(hit.passage)[:1]]
            return _abstain(asked, "unknown", said)
        if (unknown := self._unknown(asked, hits, units)) is not None:
            return _abstain(asked, "unknown", [unknown])
        if hits[0].coverage < (
            SUPPORT_OF_VALUES if asked.kind in _TYPED or asked.kind == "list" else SUPPORT
        ):
            return _abstain(asked, "none", _parts(hits[0].passage)[:1])
        if asked.kind in _TYPED:
            found = candidates(asked, hits, units, self._index, self._names)
            return (
                self._value(asked, found) if found else _abstain(asked, "none", _parts(hits[0].passage)[:1])
            )
        if asked.kind == "list":
            return self._list(asked, hits)
        return self._boolean(asked, hits[0], units) if asked.kind == "boolean" else _words(asked, nearest)

    def _nearest(self, hit: Hit, units: list[Unit]) -> Sentence:
        """Return the sentence of a passage that meets most of the question, the first of equals."""
        sentences = hit.passage.said or hit.passage.asked
        return max(sentences, key=lambda sentence: self._index.share(sentence.text, units))

    def _unknown(self, asked: Question, hits: list[Hit], units: list[Unit]) -> Sentence | None:
        """Return the words by which the document says that what is asked is not known, if it does.

        They speak of the kind of thing that is asked for, as in 哪一天想不起来了, or stand in the best
        passage without a value of that kind, or beside one when details are asked for.
        """
        if asked.kind == "list":
            return None
        for hit in hits:
            if hit.score < UNKNOWN_NEAR * hits[0].score or hit.coverage < SUPPORT_OF_VALUES:
                return None
            told = [each for each in hit.passage.said if _is_unknown(each.text)]
            told.sort(key=lambda each: -self._index.share(each.text, units))
            if told and (said := self._heeded(asked, hit, told, units, best=hit is hits[0])) is not None:
                return said
        return None

    def _heeded(
        self, asked: Question, hit: Hit, told: list[Sentence], units: list[Unit], *, best: bool
    ) -> Sentence | None:
        """Return which of the sentences that tell of not knowing means what is asked, nearest first."""
        said = hit.passage.said
        if asked.kind not in _TYPED:
            return told[0] if best and (asked.details or said[0] in told) else None
        left_open = next((each for each in told if self._leaves_open(asked, each.text, units)), None)
        if left_open is not None:
            return left_open
        near = told[0]
        if speaks_of(asked, near.text) and (asked.details or not has_value(asked, near.text, self._names)):
            return near
        known = any(has_value(asked, each.text, self._names) for each in said)
        return near if best and (asked.details or not known) else None

    def _leaves_open(self, asked: Question, text: str, units: list[Unit]) -> bool:
        """Say whether a clause says that the very thing is not known: 搬到哪里我不知道.

        A clause with a value that is nearer to the question answers it all the same.
        """
        is_open = vocabulary().signs["open"]
        parts = clauses(text)
        left = [
            self._index.share(each, units)
            for each in parts
            if _is_unknown(each) and speaks_of(asked, each) and is_open.search(shown(each)) is not None
        ]
        given = [self._index.share(each, units) for each in parts if has_value(asked, each, self._names)]
        return bool(left) and max(left) >= max(given, default=0.0)

    def _list(self, asked: Question, hits: list[Hit]) -> RagAnswer:
        near = [
            hit
            for hit in hits
            if hit.score >= LISTED * hits[0].score and hit.coverage >= LISTED * SUPPORT_OF_VALUES
        ]
        quotes = [
            part
            for hit in sorted(near[:MOST_LISTED], key=lambda hit: hit.number)
            for part in _parts(hit.passage)
        ]
        return _found(asked, quotes)

    def _boolean(self, asked: Question, hit: Hit, units: list[Unit]) -> RagAnswer:
        passage = hit.passage
        sentence = self._nearest(hit, units)
        lead = leading_polarity(plain(passage.said[0].text)) if passage.said else None
        says = lead if lead is not None and passage.is_pair else polarity(plain(sentence.text))
        if says is None:
            return _abstain(asked, "unknown", [sentence])
        return _found(asked, _parts(passage), boolean=says)

    def _value(self, asked: Question, found: list[Candidate]) -> RagAnswer:
        best = found[0]
        value = best.value
        quotes = [best.sentence]
        if best.sentence in best.hit.passage.asked:  # the value stands in the question, its answer affirms it
            quotes += _parts(best.hit.passage)
        typed: dict[str, Any] = {}
        if asked.kind == "amount":
            typed["amount"] = (summed(best.sentence.text) if asked.total else None) or value
        elif asked.kind == "breakdown" and isinstance(value, tuple):
            typed["amount_breakdown"] = list(value)
            if asked.total:
                typed["amount"] = sum(part for part in value if isinstance(part, float))
        elif asked.kind == "count" and isinstance(value, float) and value.is_integer():
            typed["count"] = int(value)
        elif isinstance(value, PartialDate):
            typed["date"] = self._completed(value, best.hit).iso()
        elif asked.kind == "range" and isinstance(value, tuple):
            ends = [self._completed(end, best.hit).iso() for end in value if isinstance(end, PartialDate)]
            typed["date_range"] = RagAnswerRange(start=ends[0], end=ends[-1])
        elif asked.kind in ("person", "place", "organization", "id"):
            typed["entity"] = typed["text"] = value
        else:
            typed["text"] = best.sentence.text
        return _found(asked, quotes, **typed)

    def _completed(self, date: PartialDate, hit: Hit) -> PartialDate:
        """Return a date with the year that the words before it speak of, where it has none itself."""
        if date.year is not None:
            return date
        for passage in reversed(self._passages[: hit.number + 1]):
            if not passage.is_pair:
                break
            dates = find_dates(plain(f"{passage.question}\n{passage.answer}"))
            years = [found.date.year for found in dates if found.date.year is not None]
            if years:
                return date._replace(year=years[-1])
        return date


def _is_unknown(text: str) -> bool:
    return bool(signs_of_not_knowing(plain(text)) or vocabulary().signs["unknown"].search(shown(text)))


def _parts(passage: Passage) -> list[Sentence]:
    """Return what a passage says in pieces that may be quoted: one a page, of bounded length."""
    parts: list[Sentence] = []
    for sentence in passage.said or passage.asked:
        if (
            parts
            and parts[-1].page == sentence.page
            and len(parts[-1].text) + len(sentence.text) <= LONGEST_QUOTE
        ):
            parts[-1] = Sentence(sentence.page, joined((parts[-1].text, sentence.text)))
        else:
            parts.append(sentence)
    return parts


def _words(asked: Question, sentence: Sentence) -> RagAnswer:
    return _found(asked, [sentence], text=sentence.text)


def _found(asked: Question, quotes: list[Sentence], **typed: Any) -> RagAnswer:
    words = _WORDS[asked.chinese]
    says = typed.get("boolean")
    lead = "" if says is None else words["yes" if says else "no"]
    told = "；".join(words["found"].format(page=each.page, quote=each.text) for each in quotes)
    return RagAnswer(
        answer=f"{lead}{told}",
        evidence=[RagEvidence(page=each.page, text=each.text) for each in quotes],
        citation=[RagCitation(page=each.page, quote=each.text) for each in quotes],
        abstained=False,
        **typed,
    )


def _abstain(asked: Question, why: str, quotes: list[Sentence]) -> RagAnswer:
    words = _WORDS[asked.chinese]
    told = "；".join(words["found"].format(page=each.page, quote=each.text) for each in quotes)
    return RagAnswer(
        answer=f"{words[why]}{told}",
        evidence=[RagEvidence(page=each.page, text=each.text) for each in quotes],
        citation=[RagCitation(page=each.page, quote=each.text) for each in quotes],
        abstained=True,
    )
