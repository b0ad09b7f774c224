"""Score of one question: the three formulas of the RAG benchmark schema and their parts."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from memfin.contracts.rag import RagAnswer, RagCitation, RagQuestion
from memfin.rag.document import Document
from memfin.rag.extraction.answers import ReadAnswer, is_negated, signs_of_not_knowing
from memfin.rag.extraction.facts import Fact, facts_in, find_facts, ordering_masked, parse_date
from memfin.rag.extraction.names import KnownWords, unknown_names
from memfin.rag.extraction.normalize import find_quote, fold, quote_parts
from memfin.rag.scoring import evidence
from memfin.rag.scoring.evidence import AnyIndex, DocumentIndex, KnownFacts, Scored
from memfin.rag.scoring.fields import Given, has_typed_answer, matches, stance
from memfin.text.clauses import CLAUSE_MARKS, SENTENCE_MARKS, between_marks

EXACT_MATCH, CITATION_CORRECTNESS = 0.7, 0.3
RECALL, PRECISION, CITATION_PROVIDED = 0.5, 0.3, 0.2
ABSTENTION, NO_HALLUCINATION, QUOTE = 0.4, 0.4, 0.2

_SLACK: Final = 1e-9  # binary error of a sum of the weights above


class QuestionScore(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one answer.

    ``score`` is between 0 and ``max_score``, the question's weight; ``passed`` compares their quotient with
    the question's threshold. ``details`` hold the value of every part of the formula with its reason.
    """

    score: float
    max_score: float
    passed: bool
    details: dict[str, Any]


def score_question(
    question: RagQuestion, answer: RagAnswer, document: Document | DocumentIndex | None
) -> QuestionScore:
    """Score an answer (spec section 9).

    Prepare the document once as a `DocumentIndex` to score many answers. Without a document pages and words
    of evidence are compared with the question alone, and quotes cannot be verified.
    """
    index = DocumentIndex(document) if isinstance(document, Document) else document
    formulas = {"fact_exact": _fact_exact, "evidence_set": _evidence_set, "conflict_gap": _conflict_gap}
    return _weighted(question, *formulas[question.type](question, answer, index))


def score_failure(question: RagQuestion, error: str) -> QuestionScore:
    """Return the score of a question on which the system failed: 0 of its weight."""
    return _weighted(question, 0.0, {"failed": error}, failed=True)


def _weighted(
    question: RagQuestion, share: float, details: dict[str, Any], *, failed: bool = False
) -> QuestionScore:
    share = round(share, 12)
    return QuestionScore(
        score=share * question.weight,
        max_score=question.weight,
        passed=not failed and share >= question.pass_threshold - _SLACK,
        details=details,
    )


def _fact_exact(question: RagQuestion, answer: RagAnswer, index: AnyIndex) -> Scored:
    found_stance = stance(answer, question.question)
    given = Given(question, answer, ReadAnswer(answer.answer, question.question), found_stance)
    found = matches(given)
    void = {}
    if not found:
        void = {"reason": "nothing_expected"}
    elif found_stance.abstains and found_stance.source == "declared":
        void = {"reason": "abstained"}
    elif index and any(match["source"] == "answer" for match in found) and index.is_recited(answer.answer):
        void = {"reason": "recites_a_page"}
    exact = float(not void and all(match["matched"] for match in found))
    cited, citation = evidence.citation_correctness(question, answer, index)
    details = {"exact_match": exact, "citation_correctness": cited, "fields": found, "citation": citation}
    return EXACT_MATCH * exact + CITATION_CORRECTNESS * cited, details | void


def _evidence_set(question: RagQuestion, answer: RagAnswer, index: AnyIndex) -> Scored:
    required = evidence.unique_required(question.required_evidence)
    passages = (evidence.passage(item.text, item.page, index) for item in answer.evidence)
    returned = {item.key: item for item in passages}
    found, entries = evidence.supported(returned.values(), required, index)
    relevant = [item for item, entry in zip(returned.values(), entries, strict=True) if entry["supports"]]
    good = len(evidence.distinct(relevant))
    total = good + len(returned) - len(relevant)
    key = [flag for flag, item in zip(found, required, strict=True) if item.is_critical] or found
    recall = sum(key) / len(key) if key else 0.0
    precision = good / total if total else 0.0
    cited_each, citation = evidence.cited_items(question, answer, required, index)
    cited = float(any(cited_each))
    scoring = question.scoring
    enough = recall >= scoring.evidence_recall_min - _SLACK
    precise = precision >= scoring.evidence_precision_min - _SLACK
    details = {
        "recall": recall,
        "recall_min": scoring.evidence_recall_min,
        "precision": precision,
        "precision_min": scoring.evidence_precision_min,
        "citation_provided": cited,
        "returned": len(answer.evidence),
        "distinct": total,
        "relevant": good,
        "evidence": [
            {"page": wanted.page, "must_include": wanted.must_include, "found": is_found}
            | ({} if wanted.is_critical else {"critical": False})
            for wanted, is_found in zip(required, found, strict=True)
        ],
        "passages": entries,
        "citation": citation,
    }
    expected = question.expected  # key points and the number of pieces of evidence do not score
    if expected.key_points:
        words = fold(answer.answer)
        details["key_points_in_answer"] = [fold(point) in words for point in expected.key_points]
    if expected.evidence_count_min is not None:
        details["evidence_count_met"] = len(answer.evidence) >= expected.evidence_count_min
    return RECALL * enough + PRECISION * precise + CITATION_PROVIDED * cited, details


def _conflict_gap(question: RagQuestion, answer: RagAnswer, index: AnyIndex) -> Scored:
    found_stance = stance(answer, question.question)
    answers = bool(answer.answer.strip() or (answer.text or "").strip() or has_typed_answer(answer))
    correct = found_stance.abstains if question.should_abstain else answers and not found_stance.abstains
    check = check_answer(question, answer, index)
    sound = not check["invented"]
    quoted, quote = _quote(question, answer, index)
    details: dict[str, Any] = {
        "correct_abstention": float(correct),
        "no_hallucination": float(sound),
        "quote_included": float(quoted),
        "should_abstain": question.should_abstain,
        "abstention": found_stance.details(),
        "hallucination": check,
        "quote": quote,
    }
    if question.hallucination_penalty is not None:
        check["penalty"] = question.hallucination_penalty
    return ABSTENTION * correct + NO_HALLUCINATION * sound + QUOTE * quoted, details


def _quote(question: RagQuestion, answer: RagAnswer, index: AnyIndex) -> tuple[bool, dict[str, Any]]:
    """Return True if the answer quotes the required words, in its text or in a citation of the right page.

    The additional quotes are other words that may be quoted.
    """
    wanted = [quote for quote in (question.required_quote, *question.additional_quotes) if quote]
    required = question.scoring.quote_required
    if required is None:
        required = question.required_quote is not None
    if not required or not any(quote_parts(quote) for quote in wanted):
        return True, {"required": False, "reason": "not_required"}
    wrong_page = False
    for quote in wanted:
        parts = quote_parts(quote)
        for where, text in (("answer", answer.answer), ("text", answer.text or "")):
            if any(find_quote(parts, fold(text))):
                return True, {"required": True, "found_in": where}
        for citation in answer.citation:
            if not any(find_quote(parts, fold(citation.quote))):
                continue
            if _right_page(question, citation, parts, index):
                return True, {"required": True, "found_in": "citation", "page": citation.page}
            wrong_page = True
    return False, {"required": True, "reason": "wrong_page" if wrong_page else "not_quoted"}


def _right_page(
    question: RagQuestion, citation: RagCitation, parts: tuple[str, ...], index: AnyIndex
) -> bool:
    location, page = question.evidence_location, citation.page
    if page is None or (location is not None and page == location.page):
        return True
    return location is None if index is None else not index.paged or bool(index.locate(parts, page))


def check_answer(question: RagQuestion, answer: RagAnswer, index: AnyIndex) -> dict[str, Any]:
    """Check every amount, date, count, share, number, id and name of an answer against the document.

    ``invented`` are the facts that were not found, ``echoed`` those that only repeat the question, and
    ``checked`` is False if there was nothing to check against.

    Facts come from the answer's text, its typed fields, and quotes and evidence that the document does not
    hold as they are. Values count, not spellings. Figures that order the text are left out, and so is a fact
    of the question in a clause that denies it or a sentence that says nothing is known. A sum that the answer
    has computed is not in the document.

    Without a document an abstention may repeat only the facts of the question and its required words; other
    answers cannot be checked.
    """
    if index is None:
        if not question.should_abstain:
            return {"checked": False, "invented": []}
        quotes = [question.required_quote or "", *question.additional_quotes]
        required = (item.must_include for item in question.required_evidence)
        known = _facts_of([question.question, *quotes, *required])
    else:
        known = index.facts
    invented: dict[tuple[str, str, str], dict[str, str]] = {}
    echoed: dict[str, None] = {}
    asked = cache(lambda: _facts_of([question.question]))
    denies = cache(lambda sentence, clause: is_negated(clause) or bool(signs_of_not_knowing(sentence)))
    held = KnownWords(fold(question.question), known.words)
    for fact, words, where, sentence, clause in _facts(answer, index, held):
        if known.holds(fact, words):
            continue
        if asked().holds(fact, words) and denies(sentence, clause):
            echoed[words] = None
        else:
            entry = {"kind": fact.kind, "text": words, "where": where}
            invented[fact.kind, words, where] = entry
    record = {"checked": True, "invented": list(invented.values())}
    return record | {"echoed": list(echoed)} if echoed else record


def _facts_of(texts: Iterable[str]) -> KnownFacts:
    whole = "\n".join(texts)
    return KnownFacts(find_facts(whole, names=False, indefinite=True), fold(whole))


def _facts(answer: RagAnswer, index: AnyIndex, held: KnownWords) -> Iterator[tuple[Fact, str, str, str, str]]:
    """Yield the facts of an answer, bare names if not ``held``, with words, position, sentence and clause."""
    texts = [("answer", answer.answer), ("text", answer.text or "")]
    if index is not None:
        quotes = [("citation", citation.quote) for citation in answer.citation]
        quotes.extend(("evidence", evidence.text) for evidence in answer.evidence)
        texts.extend((where, text) for where, text in quotes if not index.locate(quote_parts(text)))
    for where, text in texts:
        masked = ordering_masked(text)
        for fact in (*facts_in(masked), *unknown_names(masked, held)):
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
