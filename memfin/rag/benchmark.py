"""Benchmark: loading, checking, and the comparison with its document (spec section 9)."""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from memfin.contracts import EvidenceLocation, RagBenchmark, RagQuestion, RagQuestionEntry, RequiredEvidence
from memfin.contracts.rag import RagSection, RagSpeaker, RagType
from memfin.contracts.reading import open_input, read_document, read_json, shown
from memfin.errors import UsageError
from memfin.rag.document import TEXT_SUFFIXES, Document, load_document
from memfin.rag.extraction.normalize import contains, find_quote, fold, quote_parts
from memfin.rag.transcript import segments
from memfin.validation import Finding, Violation, path_text, validate_benchmark
from memfin.validation.findings import Steps, file_text
from memfin.validation.rag import FOLDER, line_ranges
from memfin.validation.text import Locator

T = TypeVar("T")

_TOGETHER: Final = 64
"""Records that are compressed, and made anew, at a time."""

_FASTEST: Final = 1
"""The level of compression."""


class Packed(Collection[T], Generic[T]):
    """Immutable records of one type; every iteration makes them anew."""

    def __init__(self, kind: Any, records: Iterable[T] = ()) -> None:
        """Pack records; ``kind`` is their type, one that msgspec encodes and decodes."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode
        self._parcels: list[bytes] = []
        self._loose: list[T] = []
        for record in records:
            self.append(record)

    def append(self, record: T) -> None:
        """Add a record at the end."""
        self._loose.append(record)
        if len(self._loose) == _TOGETHER:
            self._parcels.append(zlib.compress(self._encode(self._loose), _FASTEST))
            self._loose = []

    def __len__(self) -> int:
        return _TOGETHER * len(self._parcels) + len(self._loose)

    def __iter__(self) -> Iterator[T]:
        for parcel in self._parcels:
            yield from self._decode(zlib.decompress(parcel))
        yield from self._loose

    def __contains__(self, record: object) -> bool:
        return any(one == record for one in self)


SAMPLE: Final = Path(__file__).parents[1] / "data" / "rag"
"""The benchmark that is shipped."""

_SUFFIXES: Final = (*sorted(TEXT_SUFFIXES), ".pdf", "")


class Benchmark(NamedTuple):
    """A benchmark as it is run.

    ``questions`` stand in the order of the files' names and of the questions in each. ``document`` is the
    place of the document that the files name, None when they name none or it is not there;
    ``document_name`` is what they call it. ``digest`` is the SHA-256 of the files' names and contents, in
    hexadecimal. ``descriptions`` are those of the files that have one.
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
        UsageError: when something cannot be read, or anything in the files is wrong: the first finding as
            ``file:line: path: message``, and how many more there are.
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
        findings.append(finding)  # noqa: PERF402 - one after another, since what is taken depends on them
    if findings:
        raise UsageError(_summary(findings, path))
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
    """Return where the document of question files is, and the name they give it; None for what is absent.

    ``files`` says what each of them calls the document.

    The name is a path within the benchmark's directory or of what stands in it, with or without its
    suffix; a name that leads out of the directory finds nothing.

    Raises:
        UsageError: when files name different documents.
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
    root = benchmark_root(path)
    return next(_candidates(root, name), None), name


def benchmark_root(path: Path) -> Path:
    """Return the directory of a benchmark that a file, the directory, or its ``questions`` stands for."""
    folder = path if path.is_dir() else path.parent
    return folder.resolve().parent if folder.resolve().name == FOLDER else folder


def _candidates(root: Path, name: str) -> Iterator[Path]:
    inside = root.resolve()
    for suffix in ("", *_SUFFIXES):
        candidate = root / f"{name}{suffix}"
        try:
            if candidate.exists() and candidate.resolve().is_relative_to(inside):
                yield candidate
        except (OSError, ValueError, RuntimeError):  # a NUL, a name too long, a loop of links
            continue


def _questions(content: RagBenchmark) -> Iterator[RagQuestion]:
    criteria = content.evaluation_criteria
    for entry in content.questions:
        kind = entry.type or content.benchmark_type
        assert kind is not None, "the check of the files has seen to it"  # noqa: S101
        yield RagQuestion(
            id=entry.id,
            type=kind,
            question=entry.question,
            weight=entry.weight * criteria.type_weights.get(kind, 1.0),
            pass_threshold=criteria.pass_threshold,
            expected=entry.expected,
            required_evidence=entry.required_evidence,
            scoring=entry.scoring,
            should_abstain=kind == "conflict_gap" and _asks_for_abstention(entry),
            hallucination_penalty=entry.hallucination_penalty,
            required_quote=entry.required_quote,
            additional_quotes=entry.additional_quotes,
            evidence_location=entry.evidence_location,
            expected_behavior=entry.expected_behavior,
            metadata=entry.metadata,
        )


def _asks_for_abstention(entry: RagQuestionEntry) -> bool:
    wanted = entry.should_abstain if entry.should_abstain is not None else entry.scoring.abstention_required
    return wanted is not False


def _summary(findings: list[Finding], path: str | Path) -> str:
    more = len(findings) - 1
    return str(findings[0]) + (f" (and {more} more: memfin validate {path})" if more else "")


def _digest(files: Iterable[Path]) -> str:
    sha256 = hashlib.sha256()
    for path in files:
        with open_input(path) as file:
            content = hashlib.sha256(read_document(file)).digest()
        sha256.update(path.name.encode(errors="surrogateescape") + b"\0" + content)
    return sha256.hexdigest()


_BOM = b"\xef\xbb\xbf"


def check_benchmark(path: str | Path, document: str | Path | None = None) -> Iterator[Finding]:
    """Yield every finding in a benchmark, and what its document does not bear out.

    Without ``document`` the one that the question files name is read, if it is there. Only files that
    are sound in themselves are held against it.

    Raises:
        UsageError: when question files or the document cannot be read.
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
    """Yield what sound question files rest on and the document does not bear out, file by file.

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
    """A document made ready to be searched for evidence and quotes."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._segments = segments(document)
        self._page = cache(self._folded_page)
        self._whole = cache(self._folded_document)

    def violations(self, content: RagBenchmark) -> Iterator[Violation]:
        """Yield what the questions of a file rest on and the document does not hold."""
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
        if self._document.page(number) is None:
            yield Violation((*steps, "page"), f"{self._document.name} has no page {number}")
        elif not self._holds(words, number):
            message = f"{shown(evidence.must_include)} does not stand on page {number}"
            yield Violation((*steps, "must_include"), message)
        elif self._segments and not self._holds(words, number, evidence.section, evidence.speaker):
            spoken = evidence.speaker is not None and self._holds(words, number, evidence.section)
            name, place = (
                ("speaker", f"the {evidence.speaker}") if spoken else ("section", f"{evidence.section}")
            )
            message = f"{shown(evidence.must_include)} does not stand in {place} on page {number}"
            yield Violation((*steps, name), message)

    def _quote(self, steps: Steps, quote: str, page: int | None) -> Iterator[Violation]:
        parts = quote_parts(quote)
        if page is None or self._document.page(page) is None:
            if next(find_quote(parts, self._whole()), None) is None:
                yield Violation(steps, f"{shown(quote)} does not stand in {self._document.name}")
        elif not self._stands(quote, page):
            yield Violation(steps, f"{shown(quote)} does not stand on page {page}")

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
            elif quote is not None and self._stands(quote, page.number):
                named = [
                    line for low, high in ranges for line in lines[low - page.first_line :][: high - low + 1]
                ]
                if next(find_quote(quote_parts(quote), fold("\n".join(named))), None) is None:
                    yield Violation((*steps, "lines"), "the required_quote does not stand on these lines")

    def _stands(self, quote: str, page: int) -> bool:
        return any(next(find_quote(quote_parts(quote), text), None) for text in self._page(page, None, None))

    def _holds(
        self, words: str, page: int, section: RagSection | None = None, speaker: RagSpeaker | None = None
    ) -> bool:
        return any(contains(words, text) for text in self._page(page, section, speaker))

    def _folded_page(
        self, number: int, section: RagSection | None, speaker: RagSpeaker | None
    ) -> tuple[str, ...]:
        """Return the folded text of a page, or the runs of it that are of a section and a speaker."""
        page = self._document.page(number)
        if page is None:
            return ()
        if section is None and speaker is None:
            return (fold(page.text),)
        kept = [
            part
            for part in self._segments
            if part.page == number and section in (None, part.section) and speaker in (None, part.speaker)
        ]
        runs: list[str] = []
        end = -1
        for part in kept:
            piece = page.text[part.start : part.end]
            if part.start == end:
                runs[-1] += piece
            else:
                runs.append(piece)
            end = part.end
        return tuple(map(fold, runs))

    def _folded_document(self) -> str:
        return fold(self._document.text)
