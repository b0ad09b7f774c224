"""Text extraction from PDF, page by page, with pypdf."""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import BinaryIO, Final

import pypdf

from memfin.contracts.reading import shown
from memfin.errors import UsageError

MAX_PDF_BYTES: Final = 256 * 1024 * 1024
MAX_PDF_CHARACTERS: Final = 64 * 1024 * 1024  # of text
MAX_PDF_SECONDS: Final = 120.0
logging.getLogger("pypdf").addHandler(logging.NullHandler())  # else what it logs goes to standard error
_LINE_END: Final = re.compile(r"\r\n?")


def pdf_pages(file: BinaryIO, path: Path) -> list[str]:
    """Return the text of every page, in order; a page that is only a picture has none.

    Raises:
        UsageError: when the file is no sound PDF, needs a password, takes too long, or no page has text.
    """
    if os.fstat(file.fileno()).st_size > MAX_PDF_BYTES:
        raise UsageError(f"document {path}: a PDF of more than {MAX_PDF_BYTES >> 20} MiB; divide it")
    done: Future[list[str]] = Future()
    over = threading.Event()

    def check(*operation: object) -> None:
        del operation
        if over.is_set():
            raise TimeoutError

    def read() -> None:
        try:
            pages = list(_pages(file, path, check))
        except Exception as problem:  # noqa: BLE001 - broken files make pypdf raise errors of any kind
            reason = shown(str(problem) or type(problem).__name__, 120).strip("'\"")
            unreadable = UsageError(f"document {path}: cannot be read as a PDF: {reason}")
            done.set_exception(problem if isinstance(problem, UsageError) else unreadable)
        else:
            done.set_result(pages)

    # A single page may take for ever: the thread is given up when its time is over.
    threading.Thread(target=read, name="memfin-pdf", daemon=True).start()
    try:
        pages = done.result(MAX_PDF_SECONDS)
    except TimeoutError:
        limit = f"{MAX_PDF_SECONDS:.0f} s"
        raise UsageError(f"document {path}: takes more than {limit} to read; divide it") from None
    finally:
        over.set()
    if not any(text.strip() for text in pages):
        raise UsageError(f"document {path}: no page of this PDF has text; if it is scanned, run OCR over it")
    return pages


def _pages(file: BinaryIO, path: Path, check: Callable[..., None]) -> Iterator[str]:
    """Yield the text of every page; ``check`` is called repeatedly and may stop the reading by raising."""
    reader = pypdf.PdfReader(file)
    if reader.is_encrypted and not _opened(reader):
        raise UsageError(f"document {path}: the PDF is encrypted; save a copy without a password")
    length = 0
    for page in reader.pages:
        check()
        text = page.extract_text(visitor_operand_before=check)
        length += len(text)
        if length > MAX_PDF_CHARACTERS:
            raise UsageError(f"document {path}: more than {MAX_PDF_CHARACTERS} characters of text; divide it")
        yield _LINE_END.sub("\n", text.encode(errors="replace").decode().replace("\0", ""))


def _opened(reader: pypdf.PdfReader) -> bool:
    """Try the empty password, which opens files with an owner's restrictions only."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # noqa: BLE001 - also where a cipher would need another library
        return False
