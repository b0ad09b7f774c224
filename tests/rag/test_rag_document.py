"""Documents and their pages, from every form they come in, and one clear line for what is none."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pypdf
import pypdf.errors
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.errors import UsageError
from memfin.rag import document as document_module
from memfin.rag import pdf as pdf_module
from memfin.rag.document import Document, Page, load_document, segments, text_pages, without_latex
from tests.rag.rag_documents import a_pdf
from tests.support import each_case, length


def pages(path: Path) -> list[tuple[int, str]]:
    return [(page.number, page.text.strip()) for page in load_document(path).pages]


def text_file(directory: Path, text: str | bytes, name: str = "d.md") -> Path:
    path = directory / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("only", [(1, "only")]),
        ("<!-- page 1 -->\na\n<!-- page 2 -->\nb\n", [(1, "a"), (2, "b")]),
        ("title\n<!-- page 1 -->a<!-- page 2 -->b", [(1, "title\na"), (2, "b")]),
        ("a\n<!-- page 2 -->\nb", [(1, "a"), (2, "b")]),
        ("\n \n<!-- page 4 -->\nd\n<!--PAGE: 9-->\ni", [(4, "d"), (9, "i")]),
        ("<!-- page 1 -->\n<!-- page 2 -->\nb", [(1, ""), (2, "b")]),
        ("a\fb\fc", [(1, "a"), (2, "b"), (3, "c")]),
        ("a\f\fc\f\n", [(1, "a"), (2, ""), (3, "c")]),
        ("<!-- page 1 -->a\fb<!-- page 2 -->c", [(1, "a\fb"), (2, "c")]),
        ("<!-- page -->a<!-- page two -->b<!-- pager 3 -->", None),
        ("\ufeff<!-- page 1 -->\r\na\r\nb\rc", [(1, "a\nb\nc")]),
    ],
    ids=ascii,
)
def test_the_pages_of_a_text(tmp_path: Path, text: str, expected: list[tuple[int, str]] | None) -> None:
    assert pages(text_file(tmp_path, text)) == (expected or [(1, text)])


@each_case(
    ("text", "expected"),
    [
        (r"$ \underline{\text{答：给了42000元。}} $", "答：给了42000元。"),
        (r"$$\textbf{问：}\text{你是谁？}$$", "问：你是谁？"),
        (r"**\textbf{答：是}**", "**答：是**"),
        (r"\( \text{答：5\% 的}\ \text{利息} \)", "答：5% 的 利息"),
        (r"费用 $5 和 $6，$\frac{a}{b}$，\$7", r"费用 $5 和 $6，$\frac{a}{b}$，\$7"),
        (r"$ {\text{答：是}} $", "答：是"),
        (r"$ \underline{\quad\text{答：是}} $", "答：是"),
        (r"\textcolor{red}{\boxed{答：是}}", "答：是"),
        (r"$答：是，5\%$", "答：是，5%"),
        (r"$x^{\text{max}} \quad y$", r"$x^{max} \quad y$"),
    ],
)
def test_latex_around_words_is_not_part_of_them(text: str, expected: str) -> None:
    assert without_latex(text).strip() == expected


def test_turns_in_latex_are_turns(tmp_path: Path) -> None:
    turns = "问：给了多少？\n\n$ \\underline{\\text{答：给了\n42000元。}} $\n问：还有吗？\n"
    parts = segments(load_document(text_file(tmp_path, turns)))
    assert [(part.speaker, part.pair) for part in parts] == [
        ("question", 1),
        ("answer", 1),
        ("question", 2),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- page 1 -->\na\n<!-- page 1 -->\nb", "d.md:3: page 1 is marked twice"),
        ("<!-- page 2 -->\na\n\n<!-- page 1 -->", "d.md:4: page 1 comes after page 2"),
        ("x<!-- page 3 -->\n<!-- page 2 -->", "d.md:2: page 2 comes after page 3"),
        ("\n<!-- page 0 -->a", "d.md:2: page 0 is marked, but pages count from 1"),
        ("", "has no text"),
        (" \n\f\u3000\n", "has no text"),
        ("<!-- page 1 -->\n<!-- page 2 -->", "has no text"),
        (b"a\nb\0c", "d.md:2: contains a NUL, so it is not text"),
        (b"a\n\n\xcd\xd0", "d.md:3: not UTF-8; save it as UTF-8"),
        (b"\xed\xa0\x80", "d.md:1: not UTF-8"),
        (b"\xff\xfea\0", "d.md:1: not UTF-8"),
        (b"\x1f\x8b\x08", "compressed with gzip"),
    ],
    ids=ascii,
)
def test_a_text_without_sound_pages_is_one_line(tmp_path: Path, text: str | bytes, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_document(text_file(tmp_path, text))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\f<"), max_size=40)


@settings(max_examples=40)
@given(bodies=st.lists(TEXT, min_size=1, max_size=6), led=st.booleans())
def test_every_character_stands_on_its_page_and_line(bodies: list[str], *, led: bool) -> None:
    marked = "".join(f"<!-- page {number} -->{body}" for number, body in enumerate(bodies, 1))
    text = f"head\n{marked}" if led else marked
    lines = text.split("\n")
    found = list(text_pages(text))
    assert [page.number for page in found] == list(range(1, len(bodies) + 1))
    for page, body in zip(found, bodies, strict=True):
        assert page.text.endswith(body)
        for offset, character in enumerate(page.text):
            if character != "\n":
                assert character in lines[page.line(offset) - 1]


def test_lines_are_those_of_the_file_with_form_feeds_too(tmp_path: Path) -> None:
    document = load_document(text_file(tmp_path, "a\nb\n\fc\nd\fe"))
    assert [page.first_line for page in document.pages] == [1, 3, 4]
    second = document.page(2)
    assert second is not None
    assert second.line(second.text.index("d")) == 4


@pytest.mark.parametrize("name", ["d.txt", "d.text", "d.markdown", "README", "d.rst"])
def test_any_file_of_text_is_read(tmp_path: Path, name: str) -> None:
    document = load_document(text_file(tmp_path, "a\fb", name))
    assert (document.name, len(document.pages)) == (name, 2)


def test_a_document_answers_for_its_pages() -> None:
    document = Document("d", (Page(2, "b\n"), Page(5, "e")))
    assert document.page(5) == Page(5, "e")
    assert document.page(1) is None
    assert document.text == "b\ne\n"


def test_the_digest_is_of_pages_not_of_files(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    for number, text in ((1, "a"), (2, "b")):
        text_file(tmp_path / "pages", text, f"{number}.md")
    digests = {
        load_document(path).digest
        for path in (
            text_file(tmp_path, "a\fb"),
            text_file(tmp_path, "<!-- page 1 -->\r\na\r\n<!-- page 2 -->b", "m.md"),
            tmp_path / "pages",
        )
    }
    assert len(digests) == 1
    assert load_document(text_file(tmp_path, "ab")).digest not in digests


def test_the_files_of_a_directory_are_its_pages(tmp_path: Path) -> None:
    for name in ("page-10.md", "page-9.txt", "2.md", "p3b.md", "notes.md", ".4.md", "5.json"):
        text_file(tmp_path, name, name)
    text_file(tmp_path, b"\xef\xbb\xbfa\fb", "11.md")
    assert pages(tmp_path) == [(2, "2.md"), (9, "page-9.txt"), (10, "page-10.md"), (11, "a\nb")]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "no file in it is named as a page, such as page-01.md"),
        (["notes.md"], "no file in it is named as a page"),
        (["1.md", "p01.txt"], "1.md and p01.txt are both page 1"),
        (["0.md"], "0.md would be page 0; pages count from 1"),
    ],
)
def test_a_directory_without_sound_pages_is_one_line(tmp_path: Path, names: list[str], told: str) -> None:
    for name in names:
        text_file(tmp_path, "x", name)
    with pytest.raises(UsageError, match=told):
        load_document(tmp_path)


def loop(path: Path) -> None:
    path.symlink_to(path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def absent(path: Path) -> None:
    pass


@pytest.mark.parametrize("make", [loop, pipe, absent], ids=lambda make: make.__name__)
@pytest.mark.parametrize("inside", [False, True])
def test_what_is_no_file_is_one_line(tmp_path: Path, make: Callable[[Path], None], *, inside: bool) -> None:
    make(tmp_path / "1.md")
    with pytest.raises(UsageError, match=r"cannot read|not a regular file|no file in it"):
        load_document(tmp_path if inside else tmp_path / "1.md")


@each_case("name", ["a\0b", "x" * 5000])
def test_a_path_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot read|too long"):
        load_document(name)


def test_a_directory_that_may_not_be_listed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UsageError, match="Permission denied"):
        load_document(tmp_path)


def test_a_huge_text_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1.md"
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    for place in (path, tmp_path):
        with pytest.raises(UsageError, match="holds more than 64 MiB of text; divide it"):
            load_document(place)
    monkeypatch.setattr(document_module, "MAX_DOCUMENT_BYTES", 8)
    path.write_text("12345")
    assert load_document(tmp_path).pages
    text_file(tmp_path, "6789", "2.md")
    with pytest.raises(UsageError, match="holds more than"):
        load_document(tmp_path)


def test_the_pages_of_a_pdf_are_its_pages(tmp_path: Path) -> None:
    path = text_file(tmp_path, a_pdf("Paid 42000", None, "Second"), "d.pdf")
    assert pages(path) == [(1, "Paid 42000"), (2, ""), (3, "Second")]
    assert pages(path.rename(path.with_name("d.bin"))) == [(1, "Paid 42000"), (2, ""), (3, "Second")]


def test_a_pdf_that_only_restricts_what_may_be_done_is_read(tmp_path: Path) -> None:
    assert pages(text_file(tmp_path, a_pdf("Open", key=""), "d.pdf")) == [(1, "Open")]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (a_pdf("x", key="secret"), "the PDF is encrypted; save a copy without a password"),
        (a_pdf(None, None), "no page of this PDF has text; if it is scanned, run OCR over it"),
        (b"", "cannot be read as a PDF"),
        (b"%PDF-1.4", "cannot be read as a PDF"),
        (b"plain text", "cannot be read as a PDF"),
        (a_pdf("x")[:300], "d.pdf"),
        (a_pdf("x").replace(b"/Pages", b"/Pagez"), "d.pdf"),
        (a_pdf("x").replace(b"/Kids", b"/Kidz"), "d.pdf"),
    ],
    ids=["password", "scanned", "empty", "header", "text", "cut", "no-tree", "no-kids"],
)
def test_a_pdf_that_gives_no_text_is_one_line(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_document(text_file(tmp_path, data, "d.pdf"))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=length(40, 3000))
@given(place=st.integers(0, 10_000), noise=st.binary(min_size=1, max_size=8))
def test_damage_anywhere_in_a_pdf_is_one_line_or_no_harm(
    tmp_path_factory: pytest.TempPathFactory, place: int, noise: bytes
) -> None:
    data = bytearray(SOUND)
    place %= len(data)
    data[place : place + len(noise)] = noise
    path = text_file(tmp_path_factory.mktemp("pdf"), bytes(data), "d.pdf")
    message = ""
    try:
        assert load_document(path).text.strip()
    except UsageError as problem:
        message = str(problem)
    assert "\n" not in message


SOUND = a_pdf("One", "Two")


def test_a_page_that_cannot_be_extracted_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, **options: object) -> str:
        raise RecursionError

    monkeypatch.setattr(pypdf.PageObject, "extract_text", fail)
    with pytest.raises(UsageError, match="cannot be read as a PDF: RecursionError"):
        load_document(text_file(tmp_path, SOUND, "d.pdf"))


def test_a_cipher_that_nothing_here_knows_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, key: str) -> None:
        raise pypdf.errors.DependencyError("a library is missing")

    monkeypatch.setattr(pypdf.PdfReader, "decrypt", fail)
    with pytest.raises(UsageError, match="the PDF is encrypted"):
        load_document(text_file(tmp_path, a_pdf("x", key=""), "d.pdf"))


def test_text_of_a_pdf_is_made_of_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypdf.PageObject, "extract_text", lambda self, **options: "a\ud800b\0c\r\nd")
    assert pages(text_file(tmp_path, SOUND, "d.pdf"))[0] == (1, "a?bc\nd")


def test_a_huge_pdf_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text_file(tmp_path, SOUND, "d.pdf")
    monkeypatch.setattr(pdf_module, "MAX_PDF_CHARACTERS", 4)
    with pytest.raises(UsageError, match="more than 4 characters of text; divide it"):
        load_document(path)
    monkeypatch.setattr(pdf_module, "MAX_PDF_BYTES", 10)
    with pytest.raises(UsageError, match="a PDF of more than 0 MiB; divide it"):
        load_document(path)


def test_a_pdf_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_module, "MAX_PDF_SECONDS", 0.05)
    long = "x) Tj (" * 20_000
    for texts in ((long,), ("x",) * 1000):  # within a page, and over all of them
        with pytest.raises(UsageError, match="takes more than 0 s to read; divide it"):
            load_document(text_file(tmp_path, a_pdf(*texts), "d.pdf"))


def test_a_page_that_takes_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free, ended = threading.Event(), threading.Event()

    def hang(self: object, **options: object) -> str:
        free.wait()
        ended.set()
        return "late"

    monkeypatch.setattr(pdf_module, "MAX_PDF_SECONDS", 0.05)
    monkeypatch.setattr(pypdf.PageObject, "extract_text", hang)
    with pytest.raises(UsageError, match="takes more than 0 s to read; divide it"):
        load_document(text_file(tmp_path, SOUND, "d.pdf"))
    assert not ended.is_set()
    free.set()
    for thread in threading.enumerate():
        if thread.name == "memfin-pdf":
            thread.join(20.0)  # it goes no further than this page
    assert ended.is_set()
    assert "memfin-pdf" not in {thread.name for thread in threading.enumerate()}


def test_a_host_still_hears_what_pypdf_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_document(text_file(tmp_path, b"noise\n" + SOUND, "d.pdf"))
    assert caplog.records


def test_an_odd_pdf_prints_nothing(tmp_path: Path) -> None:
    path = text_file(tmp_path, b"noise\n" + SOUND, "d.pdf")
    code = "import sys; from memfin.rag.document import load_document; load_document(sys.argv[1])"
    result = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True)
    assert (result.stdout, result.stderr) == (b"", b"")


def test_nothing_but_a_pdf_loads_pypdf(tmp_path: Path) -> None:
    path = text_file(tmp_path, "x")
    code = "import sys; from memfin.rag.document import load_document; load_document(sys.argv[1]); "
    code += "sys.exit('pypdf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0
