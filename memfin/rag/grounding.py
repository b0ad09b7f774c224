"""Holds a benchmark against its document: does what the questions rest on stand where they say?"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from memfin.contracts import EvidenceLocation, RagBenchmark, RequiredEvidence
from memfin.contracts.rag import RagSection, RagSpeaker
from memfin.contracts.reading import open_input, read_document, read_json, shown
from memfin.rag.benchmark import find_document
from memfin.rag.document import Document, load_document
from memfin.rag.extraction.normalize import contains, find_quote, fold, quote_parts
from memfin.rag.transcript import segments
from memfin.validation import Finding, Violation, path_text, validate_benchmark
from memfin.validation.findings import Steps, file_text
from memfin.validation.rag import line_ranges
from memfin.validation.text import Locator

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
            name, told = (
                ("speaker", f"the {evidence.speaker}") if spoken else ("section", f"{evidence.section}")
            )
            message = f"{shown(evidence.must_include)} does not stand in {told} on page {number}"
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
