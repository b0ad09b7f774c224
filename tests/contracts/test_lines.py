import io
import tracemalloc
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memfin.contracts.reading import MAX_LINE_BYTES, Line, iter_lines
from tests.support import each_case


def lines(data: bytes, limit: int = MAX_LINE_BYTES) -> list[Line]:
    return list(iter_lines(io.BytesIO(data), limit))


def test_lines_are_numbered_from_one_and_lose_their_line_end() -> None:
    assert lines(b"a\nb\r\nc") == [Line(1, b"a"), Line(2, b"b"), Line(3, b"c")]


def test_blank_lines_are_left_out_but_counted() -> None:
    assert lines(b"\n \t\r\na\n\r\nb\n\n") == [Line(3, b"a"), Line(5, b"b")]


def test_no_line_in_an_empty_file() -> None:
    assert lines(b"") == []


@each_case("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_line_feed_ends_a_line(separator: str) -> None:
    data = f'"a{separator}b"'.encode()
    assert lines(data + b"\n") == [Line(1, data)]


def test_byte_order_mark_is_taken_off_the_first_line_only() -> None:
    bom = b"\xef\xbb\xbf"
    assert lines(bom + b"a\r\n" + bom + b"b\n") == [Line(1, b"a", had_bom=True), Line(2, bom + b"b")]


@each_case("end", [b"", b"\n", b"\r\n"])
@each_case("bom", [b"", b"\xef\xbb\xbf"])
def test_the_limit_counts_the_data_alone(end: bytes, bom: bytes) -> None:
    (fits,) = lines(bom + b"x" * 10 + end, limit=10)
    (over,) = lines(bom + b"x" * 11 + end, limit=10)
    assert (fits.data, fits.too_long) == (b"x" * 10, False)
    assert (over.data, over.too_long) == (b"", True)


def test_reading_goes_on_after_a_long_line() -> None:
    data = b"a\n" + b"x" * 5_000_000 + b"\nb\n"
    assert lines(data, limit=10) == [Line(1, b"a"), Line(2, b"", too_long=True), Line(3, b"b")]


def test_a_long_line_is_never_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.truncate(64_000_000)  # a sparse file: one line of NUL bytes
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            assert [line.too_long for line in iter_lines(file, limit=1_000_000)] == [True]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000


@given(st.lists(st.binary().map(lambda part: part.replace(b"\n", b"").replace(b"\xef", b""))))
def test_every_line_with_content_comes_back(parts: list[bytes]) -> None:
    file = io.BytesIO(b"".join(part + b"\n" for part in parts))
    expected = [
        (number, part.removesuffix(b"\r")) for number, part in enumerate(parts, 1) if part.strip(b" \t\r")
    ]
    assert [(line.number, line.data) for line in iter_lines(file)] == expected
