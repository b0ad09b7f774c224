"""A benchmark's document and its pages: Markdown, plain text, PDF, or a directory of one file per page."""

import hashlib
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from memfin.contracts.rag import RagSection, RagSpeaker
from memfin.contracts.reading import open_input
from memfin.errors import UsageError

MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024  # of all pages of a directory together
TEXT_SUFFIXES: Final = frozenset({".md", ".markdown", ".txt", ".text"})
_PDF_MAGIC: Final = b"%PDF-"
_TOO_LARGE: Final = f"holds more than {MAX_DOCUMENT_BYTES >> 20} MiB of text; divide it"
_BOM: Final = "\ufeff"
_LINE_END: Final = re.compile(r"\r\n?")
_MARKER: Final = re.compile(r"<!--[ \t]*page[ \t]*+:?[ \t]*([0-9]{1,9})[ \t]*-->", re.IGNORECASE)
_PAGE_FILE: Final = re.compile(
    r"(?!\.)(?:.*[^0-9])?([0-9]{1,9})\.(?:md|markdown|txt|text)", re.DOTALL | re.IGNORECASE
)


class Page(NamedTuple):
    """A page: its number, its text with line feeds as line ends, and its first line in the file."""

    number: int
    text: str
    first_line: int = 1

    def line(self, offset: int) -> int:
        """Return the line of the file, from 1, of the character at an offset into the text."""
        return self.first_line + self.text.count("\n", 0, offset)


class Document:
    """Pages of a document in ascending order; numbers may be missing.

    ``name`` is the name of its file or directory.
    """

    def __init__(self, name: str, pages: tuple[Page, ...]) -> None:
        self.name = name
        self.pages = pages
        self._by_number = {page.number: page for page in pages}

    def page(self, number: int) -> Page | None:
        """Return the page with that number, or None."""
        return self._by_number.get(number)

    @cached_property
    def text(self) -> str:
        """The whole text, pages one after another, each ended by a line feed."""
        return "".join(page.text if page.text.endswith("\n") else f"{page.text}\n" for page in self.pages)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of page numbers and texts, in hexadecimal; it does not depend on the file's format."""
        sha256 = hashlib.sha256()
        for page in self.pages:
            sha256.update(f"{page.number}\f{page.text.strip()}\f".encode())
        return sha256.hexdigest()


def load_document(path: str | Path) -> Document:
    """Read a document and its pages.

    Markdown and plain text (UTF-8) are divided at markers ``<!-- page N -->``, whose numbers ascend; a
    text without markers at form feeds; a text with neither is one page. What stands before the first
    marker belongs to page 1. The pages of a PDF are its pages, from 1. In a directory each ``.md`` or
    ``.txt`` file whose name ends in a number, such as ``page-07.md``, is the page of that number.

    Raises:
        UsageError: there is no such file, or it is not text or empty; one line with the place.
    """
    place = Path(path)
    try:
        is_directory = place.is_dir()
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        raise UsageError(f"document {str(path)!r}: {problem}") from None
    pages = tuple(_directory_pages(place) if is_directory else _file_pages(place))
    if not any(page.text.strip() for page in pages):
        raise UsageError(f"document {path}: has no text")
    return Document(place.name, pages)


def text_pages(text: str, name: str = "document") -> Iterator[Page]:
    """Yield the pages of a text whose lines end in line feeds.

    Raises:
        UsageError: when the numbers of markers do not ascend from 1 on; the message has the line.
    """
    lead, *rest = _MARKER.split(text)
    if not rest:
        yield from _fed_pages(text)
        return
    line, last, before = 1 + lead.count("\n"), 0, lead if lead.strip() else ""
    if before and int(rest[0]) != 1:
        yield Page(1, before)
        last, before = 1, ""
    for number, body in zip(map(int, rest[::2]), rest[1::2], strict=True):
        if number <= last:
            raise UsageError(f"{name}:{line}: {_disorder(number, last)}; the numbers of pages ascend")
        yield Page(number, before + body) if before else Page(number, body, line)
        line += body.count("\n")
        last, before = number, ""


def _disorder(number: int, last: int) -> str:
    if number == 0:
        return "page 0 is marked, but pages count from 1"
    return f"page {number} is marked twice" if number == last else f"page {number} comes after page {last}"


def _fed_pages(text: str) -> Iterator[Page]:
    parts = text.split("\f")
    while len(parts) > 1 and not parts[-1].strip():
        parts.pop()  # a form feed ends the last page too
    line = 1
    for number, part in enumerate(parts, 1):
        yield Page(number, part, line)
        line += part.count("\n")


def _file_pages(path: Path) -> Iterator[Page]:
    with open_input(path) as file:
        magic = file.read(len(_PDF_MAGIC))
        file.seek(0)
        if magic == _PDF_MAGIC or path.suffix.lower() == ".pdf":
            from memfin.rag.pdf import pdf_pages  # noqa: PLC0415 - half the time that the command line starts in

            yield from (Page(number, text) for number, text in enumerate(pdf_pages(file, path), 1))
            return
        yield from text_pages(_text(file, path), str(path))


def _directory_pages(directory: Path) -> Iterator[Page]:
    try:
        names = sorted(item.name for item in directory.iterdir())
    except OSError as problem:
        raise UsageError(f"document {directory}: {problem.strerror or problem}") from None
    numbered: dict[int, str] = {}
    for name in names:
        if (match := _PAGE_FILE.fullmatch(name)) is None:
            continue
        number = int(match[1])
        if number == 0:
            raise UsageError(f"document {directory}: {name} would be page 0; pages count from 1")
        if number in numbered:
            raise UsageError(f"document {directory}: {numbered[number]} and {name} are both page {number}")
        numbered[number] = name
    if not numbered:
        raise UsageError(
            f"document {directory}: a directory, but no file in it is named as a page, such as page-01.md"
        )
    left = MAX_DOCUMENT_BYTES
    for number, name in sorted(numbered.items()):
        with open_input(directory / name) as file:
            left -= os.fstat(file.fileno()).st_size
            if left < 0:
                raise UsageError(f"document {directory}: {_TOO_LARGE}")
            yield Page(number, _text(file, directory / name).replace("\f", "\n"))


def _text(file: BinaryIO, path: Path) -> str:
    if os.fstat(file.fileno()).st_size > MAX_DOCUMENT_BYTES:
        raise UsageError(f"document {path}: {_TOO_LARGE}")
    data = file.read(MAX_DOCUMENT_BYTES + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise UsageError(f"document {path}:{line}: not UTF-8; save it as UTF-8 and try again") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(
            f"document {path}:{line}: contains a NUL, so it is not text; use Markdown, text or PDF"
        )
    return without_latex(_LINE_END.sub("\n", text.removeprefix(_BOM)))


_LATEX_WRAPPER: Final = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|sc|up|normal)?|(?:math|operatorname)(?:rm|bf|it|sf|tt)?|[mhf]box|boxed|emph"
    r"|(?:under|over|u)line|boldsymbol|bm|(?:textcolor|color(?:box)?)[ \t]*\{[^{}]*\})[ \t]*\{([^{}]*)\}"
    r"|(?<![\w}^])\{([^{}\0]*\0[^{}]*)\}"  # braces around words that were found
)
_LATEX_TEXT: Final = re.compile(
    r"(?:\$\$?|\\[(\[])(?:\s|\\q?quad(?![a-zA-Z]))*(?=\0|[问答][:：])"
    r"((?:[^$^{}\\]|\\[^a-zA-Z)\]]|\\q?quad(?![a-zA-Z]))*)(?:\$\$?|\\[)\]])"
)
_LATEX_ESCAPE: Final = re.compile(r"\\([%$&#_{}])|\\(?:[,;:! ]|q?quad)")


def without_latex(text: str) -> str:
    r"""Return a text without LaTeX around words: ``$ \underline{\text{答：是}} $`` is 答：是."""
    for _ in range(8 if "\\" in text else 0):  # one within another
        text, count = _LATEX_WRAPPER.subn("\0\\1\\2\0", text)
        if not count:
            break
    text = _LATEX_TEXT.sub(lambda words: _LATEX_ESCAPE.sub(lambda mark: mark[1] or " ", words[1]), text)
    return text.replace("\0", "")


_ANSWERERS: Final = frozenset(("答", "a", "answer"))
_DECORATION: Final = r"[ \t\u3000>*_#\-]*"
TURN: Final = re.compile(
    rf"^{_DECORATION}(?P<name>问|答|question|answer|q|a)[ \t\u3000]*+[0-9]{{0,4}}[.、]?[*_]*[ \t\u3000]*[:：]"
    r"|(?<=[。？！；?!])[ \t\u3000]*(?P<inner>[问答])[ \t\u3000]*[:：]",
    re.MULTILINE | re.IGNORECASE,
)
FURNITURE: Final = re.compile(
    rf"^{_DECORATION}(?:"
    r"第[ \t]*[0-9一二三四五六七八九十百]+[ \t]*页.{0,20}"
    r"|page[ \t]+[0-9]+.{0,20}"
    r"|[-—–][ \t]*[0-9]{1,4}[ \t]*[-—–]"
    r"|[^。，？！；:：\n]{0,16}(?:签名|签字|捺印)[ \t）)]*+(?:[:：（(_].*)?"
    r"|以上(?:笔录|记录).*"
    rf"){_DECORATION}$",
    re.MULTILINE | re.IGNORECASE,
)
"""Page furniture, lines outside of turns: page numbers, signature lines, the words above them."""


class Segment(NamedTuple):
    """A part of a page: half-open character offsets into its text, and its speaker.

    ``speaker`` is None in the head; ``pair`` numbers each question with its answer from 1, and is 0 there.
    The name of the speaker is part of the first segment of a turn.
    """

    page: int
    start: int
    end: int
    section: RagSection
    speaker: RagSpeaker | None
    pair: int


def segments(document: Document) -> tuple[Segment, ...]:
    """Return the parts of a transcript in order; none for other documents, without speakers."""
    found: list[Segment] = []
    speaker: RagSpeaker | None = None
    pair = 0
    for page in document.pages:
        matches = TURN.finditer(page.text)
        turns: list[tuple[int, RagSpeaker]] = [
            (one.start(), "answer" if (one["name"] or one["inner"]).lower() in _ANSWERERS else "question")
            for one in matches
        ]
        ends = [*(start for start, _ in turns), len(page.text)]
        starts: list[tuple[int, RagSpeaker | None]] = [(0, None), *turns]
        for (start, begins), end in zip(starts, ends, strict=True):
            if begins is not None:
                pair += begins == "question" or pair == 0
                speaker = begins
            found.extend(_parts(page, start, end, speaker, pair))
    return tuple(found) if pair else ()


def _parts(page: Page, start: int, end: int, speaker: RagSpeaker | None, pair: int) -> Iterator[Segment]:
    """Yield the parts between the beginnings of two turns, with page furniture in separate parts."""
    section: RagSection = "qa_pair" if pair else "header"
    position = start
    for line in FURNITURE.finditer(page.text, start, end):
        if position < line.start():
            yield Segment(page.number, position, line.start(), section, speaker, pair)
        yield Segment(page.number, line.start(), line.end(), "header", None, 0)
        position = line.end()
    if position < end:
        yield Segment(page.number, position, end, section, speaker, pair)
