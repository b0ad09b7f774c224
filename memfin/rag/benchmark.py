"""Benchmark: loading, checking, and the comparison with its document (spec section 9)."""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from memfin.contracts import EvidenceLocation, RagBenchmark, RagQuestion, RequiredEvidence
from memfin.contracts.rag import RagSection, RagSpeaker, RagType
from memfin.contracts.reading import open_input, read_document, read_json, shown
from memfin.errors import UsageError
from memfin.rag.document import TEXT_SUFFIXES, Document, Page, load_document, segments
from memfin.rag.extraction.normalize import contains, find_quote, fold, quote_parts
from memfin.validation import Finding, Violation, path_text, validate_benchmark
from memfin.validation.findings import Steps, file_text
from memfin.validation.rag import FOLDER, line_ranges
from memfin.validation.text import Locator

T = TypeVar("T")

_CHUNK: Final = 64
"""Records that are compressed, and made anew, at a time."""


class Packed(Collection[T], Generic[T]):
    """Immutable records of one type; every iteration makes them anew."""

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


SAMPLE: Final = Path(__file__).parents[1] / "data" / "rag"
"""The benchmark that is shipped."""

_SUFFIXES: Final = ("", *sorted(TEXT_SUFFIXES), ".pdf")


class Benchmark(NamedTuple):
    """A benchmark as it is run.

    ``questions`` are in the order of files and of the questions in each. ``document`` is the path of the
    document that the files name, None if there is none; ``document_name`` is the name in the files.
    ``digest`` is the SHA-256 of the files' names and contents, in hexadecimal.
    """

    path: Path
    files: tuple[Path, ...]
    questions: Packed[RagQuestion]
    document: Path | None
    document_name: str | None
    digest: str
    descriptions: tuple[str, ...] = ()

    def of_type(self, question_type: RagType | None) -> tuple[RagQuestion, ...]:
        """Return the questions of a type, all of them for None."""
        return tuple(one for one in self.questions if question_type in (None, one.type))


def load_benchmark(path: str | Path) -> Benchmark:
    """Read and check all questions of a file or directory.

    Raises:
        UsageError: a file cannot be read, or there are findings; the message is the first one and the number
            of the others.
    """
    place = Path(path)
    documents: dict[Path, str | None] = {}
    questions = Packed[RagQuestion](RagQuestion)
    descriptions: list[str] = []
    findings: list[Finding] = []

    def take(file: Path, content: RagBenchmark) -> None:
        if findings:
            return
        documents[file] = content.document
        descriptions.extend([content.description] if content.description else [])
        for one in _questions(content):
            questions.append(one)

    for finding in validate_benchmark(place, take):
        findings.append(finding)  # noqa: PERF402 - one after another, since `take` depends on them
    if findings:
        more = len(findings) - 1
        raise UsageError(f"{findings[0]}" + (f" (and {more} more: memfin validate {path})" if more else ""))
    document, name = find_document(place, documents)
    return Benchmark(
        path=place,
        files=tuple(documents),
        questions=questions,
        document=document,
        document_name=name,
        digest=_digest(documents),
        descriptions=tuple(descriptions),
    )


def find_document(path: Path, files: Mapping[Path, str | None]) -> tuple[Path | None, str | None]:
    """Return the path of the document of question files, and its name in them; None where there is none.

    ``files`` are the files with the document that each names: a path within the benchmark's directory, with
    or without its suffix. A name that leads out of the directory finds nothing.

    Raises:
        UsageError: files name different documents.
    """
    names: dict[str, Path] = {}
    for file, named in files.items():
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
    criteria = content.evaluation_criteria
    for entry in content.questions:
        kind = entry.type or content.benchmark_type
        assert kind is not None, "the check of the files has seen to it"  # noqa: S101
        abstain = entry.scoring.abstention_required if entry.should_abstain is None else entry.should_abstain
        settled: dict[str, Any] = {
            "type": kind,
            "weight": entry.weight * criteria.type_weights.get(kind, 1.0),
            "pass_threshold": criteria.pass_threshold,
            "should_abstain": kind == "conflict_gap" and abstain is not False,
        }
        yield RagQuestion(**dict(entry) | settled)


def _digest(files: Iterable[Path]) -> str:
    sha256 = hashlib.sha256()
    for path in files:
        with open_input(path) as file:
            content = hashlib.sha256(read_document(file)).digest()
        sha256.update(path.name.encode(errors="surrogateescape") + b"\0" + content)
    return sha256.hexdigest()


_BOM = b"\xef\xbb\xbf"


def check_benchmark(path: str | Path, document: str | Path | None = None) -> Iterator[Finding]:
    """Yield every finding in a benchmark, and those of its sound files against the document.

    Without ``document`` the one that the question files name is read, if it is there.

    Raises:
        UsageError: question files or the document cannot be read.
    """
    documents: dict[Path, str | None] = {}
    unsound = set[str]()
    for finding in validate_benchmark(path, lambda file, content: documents.update({file: content.document})):
        unsound.add(finding.file)
        yield finding
    place = document if document is not None else find_document(Path(path), documents)[0]
    sound = [file for file in documents if file_text(file) not in unsound]
    if place is not None and sound:
        yield from unfounded(sound, load_document(place))


def unfounded(files: Iterable[Path], document: Document) -> Iterator[Finding]:
    """Yield a finding for all evidence of sound question files that the document lacks, file by file.

    Raises:
        UsageError: a file cannot be read, or is not sound any more.
    """
    grounds = Grounds(document)
    for file in files:
        content = read_json(file, RagBenchmark)
        locator: Locator | None = None
        for steps, message in grounds.violations(content):
            if locator is None:
                with open_input(file) as opened:
                    locator = Locator(read_document(opened).removeprefix(_BOM).decode())
            line = locator.line(steps)
            yield Finding(file=file_text(file), line=line, path=path_text(steps), message=message)


class Grounds:
    """Search of a document for evidence and quotes."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._segments = segments(document)
        self._runs = cache(self._folded_runs)

    def violations(self, content: RagBenchmark) -> Iterator[Violation]:
        """Yield a violation for all evidence of a file's questions that the document lacks."""
        for index, entry in enumerate(content.questions):
            steps: Steps = ("questions", index)
            for number, evidence in enumerate(entry.required_evidence):
                yield from self._evidence((*steps, "required_evidence", number), evidence)
            location = entry.evidence_location
            if entry.required_quote is not None:
                page = None if location is None else location.page
                yield from self._quote((*steps, "required_quote"), entry.required_quote, page)
            for number, quote in enumerate(entry.additional_quotes):
                yield from self._quote((*steps, "additional_quotes", number), quote, None)
            if location is not None:
                yield from self._location((*steps, "evidence_location"), location, entry.required_quote)

    def _evidence(self, steps: Steps, evidence: RequiredEvidence) -> Iterator[Violation]:
        number, words = evidence.page, fold(evidence.must_include)
        page, section, speaker = self._document.page(number), evidence.section, evidence.speaker
        if page is None:
            yield Violation((*steps, "page"), f"{self._document.name} has no page {number}")
        elif not self._holds(words, page):
            message = f"{shown(evidence.must_include)} does not stand on page {number}"
            yield Violation((*steps, "must_include"), message)
        elif self._segments and not self._holds(words, page, section, speaker):
            spoken = speaker is not None and self._holds(words, page, section)
            name, place = ("speaker", f"the {speaker}") if spoken else ("section", f"{section}")
            message = f"{shown(evidence.must_include)} does not stand in {place} on page {number}"
            yield Violation((*steps, name), message)

    def _quote(self, steps: Steps, quote: str, number: int | None) -> Iterator[Violation]:
        page = None if number is None else self._document.page(number)
        if not _stands(quote, self._whole if page is None else fold(page.text)):
            place = f"in {self._document.name}" if page is None else f"on page {number}"
            yield Violation(steps, f"{shown(quote)} does not stand {place}")

    def _location(self, steps: Steps, location: EvidenceLocation, quote: str | None) -> Iterator[Violation]:
        page = self._document.page(location.page)
        if page is None:
            yield Violation((*steps, "page"), f"{self._document.name} has no page {location.page}")
        elif location.lines is not None:
            ranges = line_ranges(location.lines)
            lines = page.text.split("\n")
            last = page.first_line + len(lines) - 1
            if any(low < page.first_line or high > last for low, high in ranges):
                message = f"page {page.number} is lines {page.first_line} to {last}"
                yield Violation((*steps, "lines"), message)
            elif quote is not None and _stands(quote, fold(page.text)):
                named = [
                    line for low, high in ranges for line in lines[low - page.first_line :][: high - low + 1]
                ]
                if not _stands(quote, fold("\n".join(named))):
                    yield Violation((*steps, "lines"), "the required_quote does not stand on these lines")

    def _holds(
        self, words: str, page: Page, section: RagSection | None = None, speaker: RagSpeaker | None = None
    ) -> bool:
        return any(contains(words, text) for text in self._runs(page, section, speaker))

    def _folded_runs(
        self, page: Page, section: RagSection | None, speaker: RagSpeaker | None
    ) -> tuple[str, ...]:
        """Return the folded text of a page, or the runs of it that are of a section and a speaker."""
        if section is None and speaker is None:
            return (fold(page.text),)
        runs: list[str] = []
        end = -1
        for part in self._segments:
            if part.page != page.number or section not in (None, part.section):
                continue
            if speaker not in (None, part.speaker):
                continue
            piece = page.text[part.start : part.end]
            if part.start == end:
                runs[-1] += piece
            else:
                runs.append(piece)
            end = part.end
        return tuple(map(fold, runs))

    @cached_property
    def _whole(self) -> str:
        return fold(self._document.text)


def _stands(quote: str, folded: str) -> bool:
    return next(find_quote(quote_parts(quote), folded), None) is not None
