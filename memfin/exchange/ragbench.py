"""Importer of question sets of FinanceBench and RAGAS as benchmarks: question files and their documents."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from memfin.contracts.rag import RequiredEvidence, iso_span
from memfin.errors import RunFault, UsageError
from memfin.exchange.messages import list_of
from memfin.exchange.records import errors_at, read_records
from memfin.journal.disk import Disk
from memfin.rag.document import Document, Page
from memfin.rag.extraction.answers import recognize_abstention
from memfin.rag.extraction.facts import find_facts, find_ranges, is_name, ordering_masked, unit_asked
from memfin.rag.extraction.normalize import contains, fold
from memfin.rag.passages import stemmed, vocabulary
from memfin.rag.scoring import DocumentIndex

Shape = Literal["financebench", "ragas"]

_SHORT: Final = 60  # characters of an answer that may be a value
_MAX_PHRASES: Final = 3  # that a set of evidence requires of one piece
_MAX_TOKENS: Final = 12  # of a phrase
_MIN_UNSURE: Final = 12  # bytes of a phrase of evidence that may not support the answer
_MIN_LETTERS: Final = 4  # of a word that marks a passage
_FINANCEBENCH: Final = frozenset({"financebench_id", "doc_name", "evidence"})
_CONTEXTS: Final = ("reference_contexts", "retrieved_contexts", "contexts")
_TRUTHS: Final = ("reference", "ground_truth", "ground_truths")
_RAGAS: Final = frozenset({"user_input", *_TRUTHS, *_CONTEXTS})
_YES: Final = frozenset({"yes", "true", "是", "是的", "有"})
_NO: Final = frozenset({"no", "false", "否", "不是", "没有"})
_LEAD: Final = re.compile(r"(?i)\s*(?:yes|no|是的?|否|不是)\s*[,.;:，。；：]")
_INEXACT: Final = re.compile(
    r"(?i)\b(?:about|approx(?:imately)?|around|roughly|nearly)\b\.?|[约~≈]|大约|左右"
)
_BESIDE: Final = re.compile(r"(?i)\b(?:from|us)\b|从")
_WORD: Final = re.compile(r"[^\W\d_]+")
_NEGATIVE: Final = re.compile(r"[-−–(]\s*[$¥€£]?\s*$")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_TOKEN: Final = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:['’.,&-][^\W_\u3400-\u9fff]+)*")


class _Evidence(msgspec.Struct):
    """Evidence of FinanceBench; its pages count from 0."""

    evidence_text: str | None = None
    doc_name: str | None = None
    evidence_page_num: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] | None = None
    evidence_text_full_page: str | None = None

    def piece(self) -> "_Piece":
        """Return the evidence with its page counted from 1."""
        page, whole = self.evidence_page_num, self.evidence_text_full_page or ""
        return _Piece(self.evidence_text or whole, None if page is None else page + 1, whole)


class _Piece(NamedTuple):
    """A passage, its page, and the text of that page; one that is not ``sure`` may support nothing."""

    text: str
    page: int | None
    whole: str = ""
    sure: bool = True


class _Sample(NamedTuple):
    """A question with its reference answer, in the terms of both shapes."""

    where: str
    id: str
    question: str
    answer: str
    document: str
    pieces: list[_Piece]
    metadata: dict[str, Any]


class BenchImport(NamedTuple):
    """Written files with their contents in numbers, and remarks on questions with the places of these."""

    written: dict[Path, str]
    remarks: defaultdict[str, list[str]]


def import_ragbench(paths: Iterable[Path], out: Path, shape: Shape | None = None) -> BenchImport:
    """Write the questions of files as benchmarks, one per document, and the documents as far as known.

    ``out`` is a directory to create, or a file ``*.json`` if all questions are about one document.

    Raises:
        UsageError: a file cannot be read, a record is invalid, no question can be used, or ``out`` exists.
        RunFault: the file system refuses.
    """
    found = BenchImport({}, defaultdict(list))
    groups: dict[str, list[_Sample]] = {}
    for path in paths:
        for where, record in read_records(path):
            with errors_at(where):
                sample = _sample(path, where, record, shape)
            if isinstance(sample, str):
                found.remarks[f"left out, {sample}"].append(where)
            else:
                groups.setdefault(sample.document, []).append(sample)
                if record.keys() & {"answer", "response"} and not record.keys() & _FINANCEBENCH:
                    found.remarks["with a system's answer, which is not read"].append(where)
    contents: dict[Path, bytes] = {}
    for document, samples in groups.items():
        _add(document, samples, out, contents, found)
    if not contents:
        reasons = "; ".join(f"{places[0]}: {remark}" for remark, places in found.remarks.items())
        raise UsageError(f"no question can be used; {reasons or 'there is none'}")
    if taken := next((path for path in (out, *contents) if path.exists()), None):
        raise UsageError(f"{taken} exists; remove it or name another --out")
    try:
        for path, data in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            Disk().write_whole(path, data)
    except OSError as problem:
        raise RunFault(f"cannot write {out}: {problem.strerror or problem}") from problem
    return found


def _add(
    document: str, samples: list[_Sample], out: Path, contents: dict[Path, bytes], found: BenchImport
) -> None:
    """Add the files of a document to the contents; none if no question of it can be used."""
    name, pages = re.sub(r"[^\w.-]+", "_", document).strip("._-")[:100] or "document", _pages(samples)
    questions = list(_questions(samples, DocumentIndex(Document(name, pages)), found.remarks))
    file = out if (single := out.suffix == ".json") else out / f"{name}.json"
    if file in contents and questions:
        cure = "give a directory as --out" if single else f"rename {document!r}"
        raise UsageError(f"{file}: for the questions of several documents; {cure}")
    if questions:
        content = {"description": f"Imported from {document}", "document": name, "questions": questions}
        contents[file] = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
        types = Counter(question["type"] for question in questions)
        found.written[file] = ", ".join(f"{number} {kind}" for kind, number in sorted(types.items()))
        if not any(piece.whole for sample in samples for piece in sample.pieces):
            found.written[file] += f"; put the document {name} beside it, of which no page is given"
            return
        file = file.with_name(f"{name}.md")
        contents[file] = "".join(f"<!-- page {page.number} -->\n{page.text}\n" for page in pages).encode()
        found.written[file] = f"pages {', '.join(str(page.number) for page in pages)}"


def _sample(path: Path, where: str, record: Mapping[str, Any], shape: Shape | None) -> _Sample | str:
    """Return the sample of a record, or the reason why it cannot be asked or scored."""
    record = {name: value for name, value in record.items() if value is not None}
    if shape is None and not record.keys() & (_FINANCEBENCH | _RAGAS):
        names = ", ".join(sorted(_FINANCEBENCH)), ", ".join(sorted(_RAGAS))
        raise ValueError(f"no question of FinanceBench ({names[0]}) or RAGAS ({names[1]})")
    of_ragas = shape == "ragas" or (shape is None and not record.keys() & _FINANCEBENCH)
    if of_ragas and isinstance(record.get("user_input"), list):
        return "of several turns"
    stem, number = path.name.partition(".")[0], where.rpartition(":")[2]
    name = str(record.get("financebench_id", record.get("id", ""))).strip()
    name = name if name and name.isprintable() else f"{stem}-{number}"
    question = _text(record, "user_input") or _text(record, "question")
    if of_ragas:
        document, texts = stem, {field: _texts(record, field) for field in (*_TRUTHS, *_CONTEXTS)}
        answer = "\n".join(dict.fromkeys(each for field in _TRUTHS for each in texts[field]))
        contexts = dict.fromkeys(next((texts[field] for field in _CONTEXTS if texts[field]), []))
        pieces = [_Piece(text, 1, text, bool(texts["reference_contexts"])) for text in contexts]
        metadata: dict[str, Any] = {"category": _text(record, "synthesizer_name")}
    else:
        given, answer = record.get("evidence", []), _text(record, "answer")
        evidence = msgspec.convert(list_of(given) if isinstance(given, str) else given, list[_Evidence])
        documents = {_text(record, "doc_name"), *((each.doc_name or "").strip() for each in evidence)} - {""}
        if len(documents) != 1:
            return "with evidence of several documents" if documents else "without doc_name"
        document, pieces = documents.pop(), [each.piece() for each in evidence]
        tags = [tag for tag in (_text(record, "question_reasoning"), _text(record, "company")) if tag]
        metadata = {"category": _text(record, "question_type"), "tags": tags}
        metadata["notes"] = _text(record, "justification")
    if not question or not answer:
        return f"without a {'reference answer' if question else 'question'}"
    metadata = {name: value for name, value in metadata.items() if value}
    return _Sample(where, name, question, answer, document, pieces, metadata)


def _texts(record: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a field that are not blank; in CSV a list is JSON or Python text."""
    value = record.get(name, [])
    if isinstance(value, str):
        value = list_of(value) or ([] if value.strip() == "[]" else [value])
    return [each.strip() for each in msgspec.convert(value, list[str]) if each.strip()]


def _text(record: Mapping[str, Any], name: str) -> str:
    if not isinstance(value := record.get(name, ""), str):
        raise ValueError(f"{name}: expected a text")  # noqa: TRY004 - as other errors in a record
    return value.strip()


def _pages(samples: list[_Sample]) -> tuple[Page, ...]:
    """Return the known pages of a document: the longest text of the whole page, or the pieces on it."""
    pages: dict[int, list[_Piece]] = {}
    for piece in (piece for sample in samples for piece in sample.pieces):
        if piece.page is not None:
            pages.setdefault(piece.page, []).append(piece)
    found = []
    for number, pieces in sorted(pages.items()):
        whole = max((piece.whole for piece in pieces if piece.whole != piece.text), key=len, default="")
        text = whole or "\n\n".join(dict.fromkeys(piece.text.strip() for piece in pieces))
        found.append(Page(number, text.replace("<!--", "<! --")))  # no other markers of pages
    return tuple(found)


def _questions(
    samples: list[_Sample], index: DocumentIndex, remarks: defaultdict[str, list[str]]
) -> Iterator[dict[str, Any]]:
    """Yield the questions of a document in the form of question files."""
    seen: set[str] = set()
    for sample in samples:
        answer, remark = sample.answer, ""
        question: dict[str, Any] = {"id": sample.id, "question": sample.question, "metadata": sample.metadata}
        expected, scoring = typed_answer(
            answer, sample.question, "\n".join(piece.text for piece in sample.pieces)
        )
        required = _required(sample, index, 1 if expected else _MAX_PHRASES, remarks)
        evidence: dict[str, Any] = {
            "expected": expected | {"key_points": [answer]},
            "required_evidence": required,
        }
        if sample.id in seen:
            remark = "left out, with the id of an earlier question"
        elif expected:
            scoring["citation_required"] = bool(required)
            question |= {"type": "fact_exact", "scoring": scoring, **evidence}
        elif not _LEAD.match(answer) and recognize_abstention(answer, sample.question).abstains:
            remark = "to which the answer is that there is none: the system is to decline"
            question |= {"type": "conflict_gap", "should_abstain": True, "expected_behavior": answer}
        elif not required:
            remark = "left out, with an answer that is no value, and no evidence on a page"
        else:
            remark = (
                "" if len(answer) > _SHORT else "with a short answer that is no value: evidence is scored"
            )
            question |= {"type": "evidence_set", **evidence}
        if remark:
            remarks[remark].append(sample.where)
        if "type" in question:
            seen.add(sample.id)
            yield question


def typed_answer(answer: str, question: str, evidence: str = "") -> tuple[dict[str, Any], dict[str, bool]]:
    """Return the expected value of an answer that is wholly a value, and its scoring; empty for others.

    Figures without a field of their own are text: percentages, ids, times, years, and those below zero. Other
    short answers are names or texts if they are in the evidence.
    """
    words, short = answer.rstrip(".。 "), len(answer) <= _SHORT
    if (folded := fold(answer)) in _YES | _NO:
        return {"boolean_answer": folded in _YES}, {}
    text, facts = ordering_masked(answer), find_facts(answer, names=False, indefinite=True)
    around = (text[: facts[0].start], text[facts[-1].end :]) if facts and short else ("", text)
    before, after = (_BESIDE.sub(" ", _INEXACT.sub(" ", part)) for part in around)
    kinds, beside = [fact.kind for fact in facts], len(_WORD.findall(after))
    period = find_ranges(text, facts) if kinds == ["date", "date"] else []
    if beside > 2 * (kinds == ["count"]) or _WORD.search(before) or len(facts) - len(period) != 1:
        found = short and contains(folded, fold(evidence))
        return {"entity" if is_name(words) else "text_answer": words} if found else {}, {}
    kind, value, start, end, _ = facts[0]
    ends = [each.iso() for each in (period[0] if period else (value,) if kind == "date" else ())]
    if ends and all(map(iso_span, ends)):
        return {"date_range": {"start": ends[0], "end": ends[1]}} if period else {"date": ends[0]}, {
            "date_exact": True
        }
    whole = isinstance(value, float) and value.is_integer()
    is_text = kind not in ("amount", "number") and not (kind == "count" and whole)
    if is_text or _NEGATIVE.search(before) or _YEAR.fullmatch(text[start:end]):
        return {"text_answer": words}, {}
    counted = whole and (kind == "count" or (kind == "number" and unit_asked(question) is not None))
    exact = {"numeric_exact": not _INEXACT.search(text)}
    return {"count": int(value)} if counted else {"amount_total": value}, exact


def _required(
    sample: _Sample, index: DocumentIndex, limit: int, remarks: defaultdict[str, list[str]]
) -> list[dict[str, Any]]:
    """Return phrases on pages by which evidence is recognized, at most ``limit`` of each piece.

    1. Figures and words that the answer has too; only long ones, if the evidence is not sure.
    2. Without them words of the question, or the first line, of evidence that is sure.
    """
    known = {fact.value for fact in find_facts(sample.answer, names=False)}
    required: dict[tuple[int, str], dict[str, Any]] = {}
    for text, page, _, sure in sample.pieces:
        masked, facts = ordering_masked(text), find_facts(text, names=False) if known and page else []
        figures = [masked[fact.start : fact.end].strip() for fact in facts if fact.value in known]
        words = [each for each in _shared(sample.answer, text) if sure or len(each.encode()) >= _MIN_UNSURE]
        phrases, remark = _on_page([*figures, *words], page, index), ""
        if page is None:
            remark = "with evidence without a page, which is not required"
        elif sure and not phrases:
            phrases = _on_page([*_shared(sample.question, text), text.split("\n")[0]], page, index)[:1]
            remark = "with evidence that shares nothing with the answer: other words of it are required"
            remark = remark if phrases else "with evidence that is not on its page, which is not required"
        if remark:
            remarks[remark].append(sample.where)
        for phrase in phrases[:limit]:
            required.setdefault((page or 0, fold(phrase)), {"page": page, "must_include": phrase})
    return list(required.values())


def _on_page(phrases: Iterable[str], page: int | None, index: DocumentIndex) -> list[str]:
    """Return the phrases that are on a page, first those that are there once."""
    if page is None:
        return []
    places = {
        phrase: len(index.required_spans(RequiredEvidence(page=page, must_include=phrase)))
        for phrase in phrases
    }
    return sorted((phrase for phrase in places if places[phrase]), key=lambda phrase: places[phrase] > 1)


def _shared(other: str, text: str) -> list[str]:
    """Return the runs of words of a text that another text has, the longest first, without everyday words."""
    tokens, words = (list(_TOKEN.finditer(each)) for each in (text, other))
    found: set[str] = set()
    one, two = ([token.group().casefold() for token in each] for each in (words, tokens))
    for block in SequenceMatcher(None, one, two, autojunk=False).get_matching_blocks():
        run = [token.span() for token in tokens[block.b : block.b + block.size] if _is_rare(token.group())]
        if run:
            found.add(text[run[0][0] : run[:_MAX_TOKENS][-1][1]])
    return sorted((phrase for phrase in found if len(phrase) > 1), key=lambda phrase: (-len(phrase), phrase))


def _is_rare(word: str) -> bool:
    """Return True for a Chinese character or a longer word, without those of any question."""
    if word[0] >= "\u3400":
        return vocabulary().idle.fullmatch(word) is None
    return len(word) >= _MIN_LETTERS and stemmed(word) not in vocabulary().idle_english
