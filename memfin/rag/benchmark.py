"""Benchmarks: loading, validation, and comparison with their document (spec section 9)."""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, get_args

import msgspec

from memfin.contracts import EvidenceLocation, RagBenchmark, RagQuestion, Record, RequiredEvidence
from memfin.contracts.reading import BOM, Line, decode_part, open_input, read_document, shown
from memfin.dataset import SpooledDataset, digest_dataset
from memfin.errors import UsageError
from memfin.rag.document import TEXT_SUFFIXES, load_document
from memfin.rag.extraction.normalize import find_quote, fold, quote_parts
from memfin.validation import Finding, Violation, path_text, validate_benchmark, validate_questions
from memfin.validation.findings import Steps, file_text
from memfin.validation.rag import FOLDER, JSON_LINES, QuestionRules, line_ranges, question_lines
from memfin.validation.text import Locator

if TYPE_CHECKING:
    from memfin.rag.scoring import DocumentIndex

T = TypeVar("T")

_CHUNK: Final = 64  # records that are compressed, and made anew, at a time


class Packed(Collection[T], Generic[T]):
    """Immutable records of one type, stored encoded; every iteration decodes them again."""

    def __init__(self, kind: Any, records: Iterable[T] = ()) -> None:
        """Pack records; ``kind`` is their type, one that msgspec encodes and decodes."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode
        self._chunks: list[bytes] = []
        self._loose: list[T] = []
        for record in records:
            self.append(record)

    def append(self, record: T) -> None:
        """Add a record at the end."""
        self._loose.append(record)
        if len(self._loose) == _CHUNK:
            self._chunks.append(zlib.compress(self._encode(self._loose), zlib.Z_BEST_SPEED))
            self._loose = []

    def __len__(self) -> int:
        return _CHUNK * len(self._chunks) + len(self._loose)

    def __iter__(self) -> Iterator[T]:
        for chunk in self._chunks:
            yield from self._decode(zlib.decompress(chunk))
        yield from self._loose

    def __contains__(self, record: object) -> bool:
        return any(one == record for one in self)


SAMPLE: Final = Path(__file__).parents[1] / "data" / "rag"  # the benchmark that is shipped
_SUFFIXES: Final = ("", *sorted(TEXT_SUFFIXES), ".pdf")


class Benchmark(NamedTuple):
    """A loaded benchmark.

    ``questions`` are in the order of files and of the questions in each. ``document`` is the path of the
    document that the files name, None if there is none; ``document_name`` is the name in the files.
    ``digest`` is the SHA-256 of the files' names and contents, in hexadecimal.
    """

    path: Path
    files: tuple[Path | SpooledDataset, ...]
    questions: Packed[RagQuestion]
    document: Path | None
    document_name: str | None
    digest: str


def load_benchmark(path: str | Path | SpooledDataset) -> Benchmark:
    """Read and check all questions of a file, a directory, or a source in memory.

    Raises:
        UsageError: a file cannot be read, or there are findings; the message is the first one and the number
            of the others.
    """
    spool = path if isinstance(path, SpooledDataset) else None
    place = path.path if isinstance(path, SpooledDataset) else Path(path)
    named: list[tuple[Path, str | None]] = []
    questions = Packed[RagQuestion](RagQuestion)
    findings: list[Finding] = []

    def take(file: Path, content: RagBenchmark) -> None:
        if findings:
            return
        named.append((file, content.document))
        for one in _questions(content):
            questions.append(one)

    with nullcontext() if spool is None else spool.open() as lines:
        found = (
            validate_benchmark(place, take)
            if lines is None
            else validate_questions(place, lines, QuestionRules(), take)
        )
        for finding in found:
            findings.append(finding)  # noqa: PERF402 - one after another, since `take` depends on them
    if findings:
        first, more = findings[0], len(findings) - 1
        if spool is not None:
            others = f" (and {more} more)" if more else ""
            raise UsageError(f"benchmark item {first.line}: {first.path}: {first.message}{others}")
        raise UsageError(f"{first}" + (f" (and {more} more: memfin validate {path})" if more else ""))
    document, name = find_document(place, named)
    files: tuple[Path | SpooledDataset, ...] = (*dict.fromkeys(file for file, _ in named),)
    if spool is not None:
        files = (spool,)
    return Benchmark(place, files, questions, document, name, _digest(files))


def _texts(file: Path | SpooledDataset, path: Path) -> Iterator[tuple[Line, Steps]]:
    """Yield the texts of a question file, those of JSONL as `question_lines`."""
    with file.open() if isinstance(file, SpooledDataset) else open_input(file) as opened:
        if path.suffix.lower() in JSON_LINES:
            yield from question_lines(opened)
        else:
            yield Line(1, read_document(opened).removeprefix(BOM)), ()


def _path_of(file: Path | SpooledDataset) -> Path:
    return file.path if isinstance(file, SpooledDataset) else file


def find_document(path: Path, files: Iterable[tuple[Path, str | None]]) -> tuple[Path | None, str | None]:
    """Return the path of the document of question files, and its name in them; None without one.

    ``files`` are pairs of a file and the document that it names: a path within the benchmark's directory,
    with or without its suffix. A name that leads out of the directory finds nothing.

    Raises:
        UsageError: files name different documents.
    """
    names: dict[str, Path] = {}
    for file, named in files:
        if named and named.strip():
            names.setdefault(named.strip(), file)
    if not names:
        return None, None
    if len(names) > 1:
        (one, first), (other, second), *_ = names.items()
        raise UsageError(
            f"{second}: the document is {other!r}, but {one!r} in {first}; "
            "keep the questions about each document in a benchmark of their own"
        )
    (name,) = names
    root = path if path.is_dir() else path.parent
    if root.resolve().name == FOLDER:
        root = root.resolve().parent
    for suffix in _SUFFIXES:
        candidate = root / f"{name}{suffix}"
        with suppress(OSError, ValueError, RuntimeError):  # a NUL, a name too long, a loop of links
            if candidate.exists() and candidate.resolve().is_relative_to(root.resolve()):
                return candidate, name
    return None, name


def _questions(content: RagBenchmark) -> Iterator[RagQuestion]:
    criteria, threshold = content.evaluation_criteria, content.evaluation_criteria.passing_threshold
    if threshold is None:
        threshold = criteria.pass_threshold
    for entry in content.questions:
        kind = entry.type or content.benchmark_type
        assert kind is not None, "the check of the files has seen to it"  # noqa: S101
        abstain = entry.scoring.abstention_required if entry.should_abstain is None else entry.should_abstain
        settled: dict[str, Any] = {
            "type": kind,
            "weight": (entry.scoring.weight or entry.weight) * criteria.type_weights.get(kind, 1.0),
            "pass_threshold": threshold,
            "should_abstain": kind == "conflict_gap" and abstain is not False,
        }
        yield RagQuestion(**dict(entry) | settled)


def _digest(files: Iterable[Path | SpooledDataset]) -> str:
    sha256 = hashlib.sha256()
    for file in files:
        content = bytes.fromhex(digest_dataset(file)[0])
        sha256.update(_path_of(file).name.encode(errors="surrogateescape") + b"\0" + content)
    return sha256.hexdigest()


def check_benchmark(path: str | Path, document: str | Path | None = None) -> Iterator[Finding]:
    """Yield every finding in a benchmark, including those of valid files against the document.

    Without ``document`` the one that the question files name is read, if it is there.

    Raises:
        UsageError: question files or the document cannot be read.
    """
    named: list[tuple[Path, str | None]] = []
    unsound = set[str]()
    for finding in validate_benchmark(path, lambda file, content: named.append((file, content.document))):
        unsound.add(finding.file)
        yield finding
    place = document if document is not None else find_document(Path(path), named)[0]
    sound = [file for file in dict(named) if file_text(file) not in unsound]
    if place is not None and sound:
        from memfin.rag.scoring import DocumentIndex  # noqa: PLC0415 - compiles its patterns slowly

        yield from unfounded(sound, DocumentIndex(load_document(place)))


def unknown_fields(files: Iterable[Path | SpooledDataset]) -> Iterator[str]:
    """Yield the paths of fields of question files that no contract has; each once per file."""
    for file in files:
        path = _path_of(file)
        names: dict[str, None] = {}
        for text, _ in _texts(file, path):
            names.update(dict.fromkeys(_unknown(msgspec.json.decode(text.data), RagBenchmark)))
        yield from (f"{file_text(path)}: {name}" for name in names)


def _unknown(value: Any, kind: type[Record], path: str = "") -> Iterator[str]:
    """Yield the paths of fields of a JSON value that the contract does not have, without places in lists."""
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for name, each in value.items() if isinstance(value, dict) else ():
        if name not in known:
            yield f"{path}{name}"
            continue
        inner = [one for one in _types(known[name]) if isinstance(one, type) and issubclass(one, Record)]
        for item in each if isinstance(each, list) else [each]:
            for one in inner[:1]:
                yield from _unknown(item, one, f"{path}{name}.")


def _types(hint: Any) -> Iterator[Any]:
    """Yield a type and those within it."""
    yield hint
    for inner in get_args(hint):
        yield from _types(inner)


def unfounded(files: Iterable[Path | SpooledDataset], index: "DocumentIndex") -> Iterator[Finding]:
    """Yield a finding for all evidence of valid question files that the document lacks, file by file.

    Raises:
        UsageError: a file cannot be read, or is not sound any more.
    """
    for file in files:
        path = _path_of(file)
        for text, alone in _texts(file, path):
            locator: Locator | None = None
            for steps, message in _violations(decode_part(text.data, RagBenchmark, path), index):
                locator = locator or Locator(text.data.decode())
                line, place = text.number + locator.line(steps) - 1, path_text(steps[len(alone) :])
                yield Finding(file=file_text(path), line=line, path=place, message=message)


def _violations(content: RagBenchmark, index: "DocumentIndex") -> Iterator[Violation]:
    """Yield a violation for all evidence of a file's questions that the document lacks."""
    for number, entry in enumerate(content.questions):
        steps: Steps = ("questions", number)
        for place, evidence in enumerate(entry.required_evidence):
            field, message = _evidence(evidence, index)
            if message:
                yield Violation((*steps, "required_evidence", place, field), message)
        location = entry.evidence_location
        required, page = entry.required_quote, None if location is None else location.page
        quotes: list[tuple[Steps, str | None, int | None]] = [(("required_quote",), required, page)]
        quotes += [(("additional_quotes", n), text, None) for n, text in enumerate(entry.additional_quotes)]
        for field_steps, quote, page in quotes:
            known = page is not None and index.page_span(page) is not None
            if quote is not None and not index.locate(quote_parts(quote), page if known else None):
                where = f"on page {page}" if known else f"in {index.document.name}"
                yield Violation((*steps, *field_steps), f"{shown(quote)} is not {where}")
        if location is not None:
            field, message = _location(location, entry.required_quote, index)
            if message:
                yield Violation((*steps, "evidence_location", field), message)


def _evidence(evidence: RequiredEvidence, index: "DocumentIndex") -> tuple[str, str]:
    """Return the field of an evidence that the document contradicts, and the message; empty for none."""
    page, section, speaker = evidence.page, evidence.section, evidence.speaker
    if index.page_span(page) is None:
        return "page", f"{index.document.name} has no page {page}"
    places = index.required_spans(evidence.replace(section=None, speaker=None))
    if not places:
        return "must_include", f"{shown(evidence.must_include)} is not on page {page}"
    if not index.is_record or any(index.meets(span, evidence) for span in places):
        return "", ""
    in_section = any(index.meets(span, evidence.replace(speaker=None)) for span in places)
    name, place = ("speaker", f"the {speaker}") if in_section and speaker else ("section", f"{section}")
    return name, f"{shown(evidence.must_include)} is not in {place} on page {page}"


def _location(location: EvidenceLocation, quote: str | None, index: "DocumentIndex") -> tuple[str, str]:
    """Return the field of a location that the document contradicts, and the message; empty for none."""
    page = index.document.page(location.page)
    if page is None:
        return "page", f"{index.document.name} has no page {location.page}"
    ranges = [] if location.lines is None else line_ranges(location.lines)
    lines = page.text.split("\n")
    last = page.first_line + len(lines) - 1
    if any(low < page.first_line or high > last for low, high in ranges):
        return "lines", f"page {page.number} is lines {page.first_line} to {last}"
    parts = quote_parts(quote or "")
    if ranges and index.locate(parts, page.number):
        named = [line for low, high in ranges for line in lines[low - page.first_line :][: high - low + 1]]
        if not any(find_quote(parts, fold("\n".join(named)))):
            return "lines", "the required_quote is not on these lines"
    return "", ""
