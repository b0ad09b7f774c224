"""Facts in an answer that the document does not contain (RAG benchmark schema, hallucination_check)."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.rag.extraction.answers import is_negated, signs_of_not_knowing
from memfin.rag.extraction.dates import Fact, parse_date
from memfin.rag.extraction.facts import facts_in, find_facts, ordering_masked
from memfin.rag.extraction.normalize import fold, quote_parts
from memfin.rag.scoring.evidence import DocumentIndex, KnownFacts
from memfin.text.clauses import CLAUSE_MARKS, SENTENCE_MARKS, between_marks


class Check(NamedTuple):
    """The outcome of a check: the invented facts, and those that only repeat the question.

    ``checked`` is False if there was nothing to check against.
    """

    checked: bool = False
    invented: tuple[dict[str, str], ...] = ()
    echoed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """No fact is invented."""
        return not self.invented

    def details(self) -> dict[str, Any]:
        """Return the record of it."""
        echoed = {"echoed": list(self.echoed)} if self.echoed else {}
        return {"checked": self.checked, "invented": list(self.invented), **echoed}


def check_answer(question: RagQuestion, answer: RagAnswer, index: DocumentIndex | None) -> Check:
    """Look up every amount, date, count, share, number, phone, id and marked name of an answer.

    Facts come from the answer's text, its typed fields, and quotes and evidence that the document does not
    hold as they are. Values count, not spellings. Figures that order the text are left out, and so is a fact
    of the question in a clause that denies it or a sentence that says nothing is known. A sum that the answer
    has computed is not in the document.

    Without a document an abstention may repeat only the facts of the question and its required words; other
    answers cannot be checked.
    """
    if index is None:
        if not question.should_abstain:
            return Check()
        quotes = [question.required_quote or "", *question.additional_quotes]
        required = (item.must_include for item in question.required_evidence)
        known = _facts_of([question.question, *quotes, *required])
    else:
        known = index.facts
    invented: list[dict[str, str]] = []
    echoed: list[str] = []
    asked = cache(lambda: _facts_of([question.question]))
    for fact, words, where, sentence, clause in _facts(answer, index):
        if known.holds(fact, words):
            continue
        if (is_negated(clause) or signs_of_not_knowing(sentence)) and asked().holds(fact, words):
            echoed.append(words)
        elif (entry := {"kind": fact.kind, "text": words, "where": where}) not in invented:
            invented.append(entry)
    return Check(checked=True, invented=tuple(invented), echoed=tuple(dict.fromkeys(echoed)))


def _facts_of(texts: Iterable[str]) -> KnownFacts:
    whole = "\n".join(texts)
    return KnownFacts(find_facts(whole, names=False, indefinite=True), fold(whole))


def _facts(answer: RagAnswer, index: DocumentIndex | None) -> Iterator[tuple[Fact, str, str, str, str]]:
    """Yield the facts of an answer with their words, where they stand, their sentence and their clause."""
    texts = [("answer", answer.answer), ("text", answer.text or "")]
    if index is not None:
        quotes = [("citation", citation.quote) for citation in answer.citation]
        quotes.extend(("evidence", evidence.text) for evidence in answer.evidence)
        texts.extend((where, text) for where, text in quotes if not index.locate(quote_parts(text)))
    for where, text in texts:
        masked = ordering_masked(text)
        for fact in facts_in(masked):
            sentence, clause = (
                masked[slice(*between_marks(masked, fact.start, fact.end, marks))]
                for marks in (SENTENCE_MARKS, CLAUSE_MARKS)
            )
            yield fact, masked[fact.start : fact.end], where, sentence, clause
    for fact, words, where in _typed(answer):
        yield fact, words, where, "", ""


def _typed(answer: RagAnswer) -> Iterator[tuple[Fact, str, str]]:
    """Yield the facts of an answer's typed fields."""
    parts = answer.amount_breakdown or []
    for name, value in (("amount", answer.amount), *(("amount_breakdown", part) for part in parts)):
        if value is not None:
            yield Fact("amount", float(value), 0, 0), f"{value:g}", name
    if answer.count is not None:
        yield Fact("count", float(answer.count), 0, 0), str(answer.count), "count"
    ends = (answer.date_range.start, answer.date_range.end) if answer.date_range else ()
    for name, text in (("date", answer.date), *(("date_range", end) for end in ends)):
        if text and (date := parse_date(text)) is not None:
            yield Fact("date", date, 0, 0), text, name
    if answer.entity:
        yield Fact("name", answer.entity, 0, 0), answer.entity, "entity"
