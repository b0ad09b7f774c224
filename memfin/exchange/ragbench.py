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
from memfin.rag.passages import vocabulary
from memfin.rag.scoring import DocumentIndex

Shape = Literal["financebench", "ragas"]
Remarks = defaultdict[str, list[str]]
"""Remarks on questions, with the places of these as ``file:line``."""

_SHORT: Final = 60  # characters of an answer that may be a value
_MAX_PHRASES: Final = 3  # that a set of evidence requires of one piece
_MAX_TOKENS: Final = 12  # of a phrase
_MIN_UNSURE: Final = 12  # bytes of a phrase of evidence that may not support the answer
_FINANCEBENCH: Final = frozenset({"financebench_id", "doc_name", "evidence"})
_CONTEXTS: Final = ("reference_contexts", "retrieved_contexts", "contexts")
_TRUTHS: Final = ("reference", "ground_truth", "ground_truths")
_RAGAS: Final = frozenset({"user_input", *_TRUTHS, *_CONTEXTS})
_YES: Final = frozenset({"yes", "true", "是", "是的", "有"})
_NO: Final = frozenset({"no", "false", "否", "不是", "没有"})
_LEAD: Final = re.compile(r"(?i)\s*(?:yes|no|是的?|否|不是)\s*[,.;:，。；：]")
_INEXACT: Final = re.compile(r"(?i)\b(?:about|approx(?:imately)?|around|roughly)\b\.?|[约~≈]|大约|左右")
_BESIDE: Final = re.compile(r"(?i)\b(?:from|us)\b|从")
_WORD: Final = re.compile(r"[^\W\d_]+")
_NEGATIVE: Final = re.compile(r"[-−–(]\s*[$¥€£]?\s*$")
_FIGURE: Final = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_RARE: Final = re.compile(r"[\u3400-\u9fff]|.{4,}")
_TOKEN: Final = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:['’.,&-][^\W_\u3400-\u9fff]+)*")


class _Evidence(msgspec.Struct):
    """Evidence of FinanceBench; its pages count from 0."""

    evidence_text: str | None = None
    doc_name: str | None = None
    evidence_page_num: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] | None = None
    evidence_text_full_page: str | None = None


class _Piece(NamedTuple):
    """A passage, its page from 1 (0 if unknown), and the page's text; ``sure`` if it supports the answer."""

    text: str
    page: int
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


def import_ragbench(
    paths: Iterable[Path], out: Path, shape: Shape | None = None
) -> tuple[dict[Path, str], Remarks]:
    """Write the questions of files as benchmarks, one per document, and the documents as far as known.

    ``out`` is a directory to create, or a file ``*.json`` if all questions are about one document. Returns
    the written files, each with its content in numbers, and the remarks.

    Raises:
        UsageError: a file cannot be read, a record is invalid, no question can be used, or ``out`` exists.
        RunFault: the file system refuses.
    """
    remarks: Remarks = defaultdict(list)
    groups: dict[str, list[_Sample]] = defaultdict(list)
    for sample in _samples(paths, shape, remarks):
        groups[sample.document].append(sample)
    files: dict[Path, tuple[bytes, str]] = {}
    for document, samples in groups.items():
        for file, content in _files(document, samples, out, remarks).items():
            if files.setdefault(file, content) is not content:
                cure = "give a directory as --out" if file == out else f"rename {document!r}"
                raise UsageError(f"{file}: for the questions of several documents; {cure}")
    if not files:
        reasons = "; ".join(f"{places[0]}: {remark}" for remark, places in remarks.items())
        raise UsageError(f"no question can be used; {reasons or 'there is none'}")
    if taken := next((path for path in (out, *files) if path.exists()), None):
        raise UsageError(f"{taken} exists; remove it or name another --out")
    try:
        for file, (data, _) in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            Disk().write_whole(file, data)
    except OSError as problem:
        raise RunFault(f"cannot write {out}: {problem.strerror or problem}") from problem
    return {file: counted for file, (_, counted) in files.items()}, remarks


def _files(
    document: str, samples: list[_Sample], out: Path, remarks: Remarks
) -> dict[Path, tuple[bytes, str]]:
    """Return the files of a document with their contents in numbers; none if no question can be used."""
    name, pages = re.sub(r"[^\w.-]+", "_", document).strip("._-")[:100] or "document", _pages(samples)
    if not (questions := list(_questions(samples, DocumentIndex(Document(name, pages)), remarks))):
        return {}
    content = {"description": f"Imported from {document}", "document": name, "questions": questions}
    data = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    types = Counter(question["type"] for question in questions)
    counted = ", ".join(f"{number} {kind}" for kind, number in sorted(types.items()))
    file = out if out.suffix == ".json" else out / f"{name}.json"
    if not any(piece.whole for sample in samples for piece in sample.pieces):
        return {file: (data, f"{counted}; put the document {name} beside it, of which no page is given")}
    text = "".join(f"<!-- page {page.number} -->\n{page.text}\n" for page in pages)
    numbers = ", ".join(str(page.number) for page in pages)
    return {file: (data, counted), file.with_name(f"{name}.md"): (text.encode(), f"pages {numbers}")}


def _samples(paths: Iterable[Path], shape: Shape | None, remarks: Remarks) -> Iterator[_Sample]:
    records = ((file, n, *each) for file in paths for n, each in enumerate(read_records(file), 1))
    for path, number, where, record in records:
        with errors_at(where):
            sample = _sample(f"{path.name.partition('.')[0]}-{number}", where, record, shape)
        if isinstance(sample, str):
            remarks[f"left out, {sample}"].append(where)
            continue
        if record.keys() & {"answer", "response"} and not record.keys() & _FINANCEBENCH:
            remarks["with a system's answer, which is not read"].append(where)
        yield sample


def _sample(unnamed: str, where: str, record: Mapping[str, Any], shape: Shape | None) -> _Sample | str:
    """Return the sample of a record, or the reason why it cannot be asked or scored.

    ``unnamed`` is the id of a record without one: the name of its file with its number there.
    """
    record = {name: value for name, value in record.items() if value is not None}
    for name in record.keys() & {"answer", *_TRUTHS}:
        if isinstance(value := record[name], int | float):
            record[name] = msgspec.json.encode(value).decode()
    if shape is None and not record.keys() & (_FINANCEBENCH | _RAGAS):
        known = ", ".join(sorted(_FINANCEBENCH | _RAGAS))
        raise ValueError(f"no question of FinanceBench or RAGAS, which have at least one of {known}")
    of_ragas = shape == "ragas" or (shape is None and not record.keys() & _FINANCEBENCH)
    if of_ragas and isinstance(record.get("user_input"), list):
        return "of several turns"
    name = str(record.get("financebench_id", record.get("id", ""))).strip()
    name = name if name and name.isprintable() else unnamed
    question = _text(record, "user_input") or _text(record, "question")
    if of_ragas:
        document, texts = (
            unnamed.rpartition("-")[0],
            {field: _texts(record, field) for field in (*_TRUTHS, *_CONTEXTS)},
        )
        answer = "\n".join(dict.fromkeys(each for field in _TRUTHS for each in texts[field]))
        contexts = dict.fromkeys(next((texts[field] for field in _CONTEXTS if texts[field]), []))
        pieces = [_Piece(text, 1, text, bool(texts["reference_contexts"])) for text in contexts]
        metadata: dict[str, Any] = {"category": _text(record, "synthesizer_name")}
    else:
        answer = _text(record, "answer")
        evidence = msgspec.convert(_list(record, "evidence"), list[_Evidence], strict=False)
        documents = {_text(record, "doc_name"), *((each.doc_name or "").strip() for each in evidence)} - {""}
        if len(documents) != 1:
            return "with evidence of several documents" if documents else "without doc_name"
        document, pieces = documents.pop(), []
        for each in evidence:
            page, whole = each.evidence_page_num, each.evidence_text_full_page or ""
            pieces.append(_Piece(each.evidence_text or whole, 0 if page is None else page + 1, whole))
        tags = [tag for tag in (_text(record, "question_reasoning"), _text(record, "company")) if tag]
        metadata = {"category": _text(record, "question_type"), "tags": tags}
        metadata["notes"] = _text(record, "justification")
    if not question or not answer:
        return f"without a {'reference answer' if question else 'question'}"
    metadata = {name: value for name, value in metadata.items() if value}
    sample = _Sample(where, name, question, answer, document, pieces, metadata)
    msgspec.json.encode(sample)  # refuses characters that are none, such as half a pair of surrogates
    return sample


def _list(record: Mapping[str, Any], name: str) -> Any:
    """Return the list in a field, in CSV of its JSON or Python text; other values as they are."""
    value = record.get(name, [])
    return list_of(value) or ([] if value == "[]" else value)


def _texts(record: Mapping[str, Any], name: str) -> list[str]:
    value = _list(record, name)
    texts = [value] if isinstance(value, str) else msgspec.convert(value, list[str])
    return [each.strip() for each in texts if each.strip()]


def _text(record: Mapping[str, Any], name: str) -> str:
    if not isinstance(value := record.get(name, ""), str):
        raise ValueError(f"{name}: expected a text")  # noqa: TRY004 - as other errors in a record
    return value.strip()


def _pages(samples: list[_Sample]) -> tuple[Page, ...]:
    """Return the known pages of a document, of which some are known by their evidence only."""
    texts: dict[int, dict[str, None]] = defaultdict(dict)
    for piece in (piece for sample in samples for piece in sample.pieces if piece.page):
        text = (piece.whole or piece.text).strip().replace("<!--", "<! --")  # no other markers of pages
        texts[piece.page][text] = None
    return tuple(Page(number, "\n\n".join(texts[number])) for number in sorted(texts))


def _questions(samples: list[_Sample], index: DocumentIndex, remarks: Remarks) -> Iterator[dict[str, Any]]:
    """Yield the questions of a document in the form of question files."""
    seen: set[str] = set()
    for sample in samples:
        where, name, asked, answer, _, pieces, metadata = sample
        declines = not _LEAD.match(answer) and recognize_abstention(answer, asked).abstains
        known = "" if declines else "\n".join(piece.text for piece in pieces)
        expected, scoring = typed_answer(answer, asked, known)
        question: dict[str, Any] = {"id": name, "question": asked, "metadata": metadata}
        if name in seen:
            remarks["left out, with the id of an earlier question"].append(where)
            continue
        seen.add(name)
        if declines and not expected:
            remarks["to which the answer is that there is none: the system is to decline"].append(where)
            yield question | {"type": "conflict_gap", "should_abstain": True, "expected_behavior": answer}
            continue
        required = _required(sample, index, 1 if expected else _MAX_PHRASES, remarks)
        if not expected and not required:
            remarks["left out, with an answer that is no value, and no evidence on a page"].append(where)
            continue
        if not expected and len(answer) <= _SHORT:
            remarks["with a short answer that is no value: evidence is scored"].append(where)
        question |= {"type": "evidence_set", "expected": expected | {"key_points": [answer]}}
        if expected:
            question |= {"type": "fact_exact", "scoring": scoring | {"citation_required": bool(required)}}
        yield question | {"required_evidence": required}


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
        stands = short and contains(folded, fold(evidence))
        return {"entity" if is_name(words) else "text_answer": words} if stands else {}, {}
    kind, value, start, end, _ = facts[0]
    ends = [each.iso() for each in (period[0] if period else (value,) if kind == "date" else ())]
    if ends and all(map(iso_span, ends)):
        found = {"date_range": {"start": ends[0], "end": ends[1]}} if period else {"date": ends[0]}
        return found, {"date_exact": True}
    whole = isinstance(value, float) and value.is_integer()
    is_text = kind not in ("amount", "number") and not (kind == "count" and whole)
    if is_text or _NEGATIVE.search(before) or _YEAR.fullmatch(text[start:end]):
        return {"text_answer": words}, {}
    counted = whole and (kind == "count" or (kind == "number" and unit_asked(question) is not None))
    exact = {"numeric_exact": not _INEXACT.search(text)}
    return {"count": int(value)} if counted else {"amount_total": value}, exact


def _required(sample: _Sample, index: DocumentIndex, limit: int, remarks: Remarks) -> list[dict[str, Any]]:
    """Return phrases on pages by which evidence is recognized, at most ``limit`` of each piece.

    1. Figures and words that the answer has too; only long ones, if the evidence is not sure.
    2. Without them words of the question, or the first line, of evidence that is sure.
    """
    known = {value for _, values in _figures(sample.answer) for value in values}
    required: dict[tuple[int, str], dict[str, Any]] = {}
    for text, page, _, sure in sample.pieces:
        if not page:
            remarks["with evidence without a page, which is not required"].append(sample.where)
            continue
        figures = [words for words, values in _figures(text) if values & known] if known else []
        words = [each for each in _shared(sample.answer, text) if sure or len(each.encode()) >= _MIN_UNSURE]
        phrases = _on_page([*figures, *words], page, index)
        if sure and not phrases:
            phrases = _on_page([*_shared(sample.question, text), text.split("\n")[0]], page, index)[:1]
            remark = "shares nothing with the answer: other words of it are required"
            remark = remark if phrases else "is not on its page, which is not required"
            remarks[f"with evidence that {remark}"].append(sample.where)
        for phrase in phrases[:limit]:
            required.setdefault((page, fold(phrase)), {"page": page, "must_include": phrase})
    return list(required.values())


def _figures(text: str) -> Iterator[tuple[str, set[Any]]]:
    """Yield the figures of a text with their values, the written one too: 1,577 of 1,577 million."""
    masked = ordering_masked(text)
    for fact in find_facts(text, names=False):
        words = masked[fact.start : fact.end].strip()
        written = _FIGURE.findall(words) if isinstance(fact.value, float) else []
        yield words, {fact.value, *(float(each.replace(",", "")) for each in written)}


def _on_page(phrases: Iterable[str], page: int, index: DocumentIndex) -> list[str]:
    """Return the phrases that are on a page, first those that are there once."""
    sought = {each: RequiredEvidence(page=page, must_include=each) for each in phrases}
    places = {each: len(index.required_spans(required)) for each, required in sought.items()}
    return sorted((each for each in places if places[each]), key=lambda each: places[each] > 1)


def _shared(other: str, text: str) -> list[str]:
    """Return the runs of words of a text that another text has, the longest first, without everyday words."""
    one, two = (
        [(each.group().casefold(), each.span()) for each in _TOKEN.finditer(t)] for t in (other, text)
    )
    matcher = SequenceMatcher(None, [word for word, _ in one], [word for word, _ in two], autojunk=False)
    found: set[str] = set()
    for block in matcher.get_matching_blocks():
        if run := [span for word, span in two[block.b : block.b + block.size] if _is_rare(word)]:
            found.add(text[run[0][0] : run[:_MAX_TOKENS][-1][1]])
    return sorted((phrase for phrase in found if len(phrase) > 1), key=lambda phrase: (-len(phrase), phrase))


def _is_rare(word: str) -> bool:
    return _RARE.fullmatch(word) is not None and not vocabulary().idle.fullmatch(word.lower())
