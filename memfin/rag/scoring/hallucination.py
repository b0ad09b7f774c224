"""Facts in an answer that the document does not contain (RAG benchmark schema, hallucination_check)."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.rag.extraction.answers import is_negated, signs_of_not_knowing
from memfin.rag.extraction.dates import PartialDate, parse_date
from memfin.rag.extraction.facts import Fact, FactKind, facts_in, find_facts, ordering_masked
from memfin.rag.extraction.normalize import fold, quote_parts
from memfin.rag.scoring.evidence import DocumentIndex, KnownFacts
from memfin.text.clauses import CLAUSE_MARKS, SENTENCE_MARKS, between_marks


class Invention(NamedTuple):
    """A fact that the document does not hold: its kind, its words, and the part of the answer it is in."""

    kind: FactKind
    words: str
    where: str

    def details(self) -> dict[str, str]:
        """Return what is recorded of it."""
        return {"kind": self.kind, "text": self.words, "where": self.where}


class Check(NamedTuple):
    """Whether there was anything to check against, what is invented, what only echoes the question."""

    checked: bool
    invented: tuple[Invention, ...]
    echoed: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is invented."""
        return not self.invented

    def details(self) -> dict[str, Any]:
        """Return what is recorded of it."""
        return {
            "checked": self.checked,
            "invented": [invention.details() for invention in self.invented],
            **({"echoed": list(self.echoed)} if self.echoed else {}),
        }


def check_answer(question: RagQuestion, answer: RagAnswer, index: DocumentIndex | None) -> Check:
    """Look up every amount, date, count, share, number, phone, id and marked name of an answer.

    All that the answer says is read: its text, its typed fields, and quotes and evidence that the document
    does not hold as they are. Values count, not spellings. Figures that order the text are left out, and so
    is a fact of the question in a clause that denies it or a sentence that says nothing is known. A sum that
    the answer has computed is not in the document.

    Without a document an abstention may repeat what the question and its required words say and no more;
    other answers cannot be checked.
    """
    if index is None:
        if not question.should_abstain:
            return Check(checked=False, invented=(), echoed=())
        known = _facts_of(_given(question))
    else:
        known = index.facts
    invented: list[Invention] = []
    echoed: list[str] = []
    asked: KnownFacts | None = None
    for fact, words, where, sentence, clause in _said(answer, index):
        if known.holds(fact, words):
            continue
        if asked is None:
            asked = _facts_of([question.question])
        if asked.holds(fact, words) and (is_negated(clause) or signs_of_not_knowing(sentence)):
            echoed.append(words)
        else:
            invented.append(Invention(fact.kind, words, where))
    return Check(checked=True, invented=tuple(dict.fromkeys(invented)), echoed=tuple(dict.fromkeys(echoed)))


def _given(question: RagQuestion) -> list[str]:
    """Return the texts of a question that an answer may repeat."""
    quotes = [question.required_quote or "", *question.additional_quotes]
    return [question.question, *quotes, *(item.must_include for item in question.required_evidence)]


def _facts_of(texts: Iterable[str]) -> KnownFacts:
    whole = "\n".join(texts)
    return KnownFacts(find_facts(whole, names=False, indefinite=True), fold(whole))


def _said(answer: RagAnswer, index: DocumentIndex | None) -> Iterator[tuple[Fact, str, str, str, str]]:
    """Yield the facts of an answer with their words, where they stand, their sentence and their clause."""
    texts = [("answer", answer.answer)]
    if answer.text:
        texts.append(("text", answer.text))
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
    for name, values in (("amount", [answer.amount]), ("amount_breakdown", answer.amount_breakdown or [])):
        for value in values:
            if value is not None:
                yield Fact("amount", float(value), 0, 0), f"{value:g}", name
    if answer.count is not None:
        yield Fact("count", float(answer.count), 0, 0), str(answer.count), "count"
    period = answer.date_range
    for name, text in (
        ("date", answer.date),
        *(("date_range", end) for end in (period and (period.start, period.end)) or ()),
    ):
        date = parse_date(text) if text else None
        if isinstance(date, PartialDate) and text:
            yield Fact("date", date, 0, 0), text, name
    if answer.entity:
        yield Fact("name", answer.entity, 0, 0), answer.entity, "entity"
