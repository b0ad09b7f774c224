from hypothesis import given
from hypothesis import strategies as st

from memfin.report.excerpt import Segment, around, one_line, segments, visible


def test_controls_become_pictures_and_line_breaks_line_ends() -> None:
    assert visible("a\x00b\x1bc\x7f") == "a␀b␛c␡"
    assert visible("a\r\nb\rc\u2028d\u2029e\x0bf\x85g") == "a\nb\nc\nd\ne\nf\ng"


def test_direction_overrides_are_named_instead_of_obeyed() -> None:
    assert visible("x\u202eevil\u202c\u2066y") == "x⟨U+202E⟩evil⟨U+202C⟩⟨U+2066⟩y"


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF)))
def test_visible_text_is_always_printable_and_encodable(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not any(ord(char) < 0x20 and char != "\n" for char in shown)
    assert not set(shown) & {"\u2028", "\u2029", "\u202e", "\u2066", "\x7f", "\U000e0041", "\ud800"}
    assert visible(shown) == shown


def test_one_line_cuts_at_the_limit_with_an_ellipsis() -> None:
    assert one_line(" a\n b ", 10) == "a b"
    assert one_line("x" * 11, 10) == "x" * 9 + "…"
    assert one_line("x" * 10, 10) == "x" * 10
    assert len(one_line("w " * 1_000_000, 50)) <= 50


def test_a_long_tail_of_white_space_still_shows_that_text_was_cut() -> None:
    assert one_line("a" + " " * 500 + "b", 10) == "a…"


def test_spans_are_marked_joined_and_clipped() -> None:
    pieces = segments("0123456789", [(2, 4), (3, 6), (8, 99), (7, 7), (-5, 1)], 100)
    assert pieces == (
        Segment("0", marked=True),
        Segment("1"),
        Segment("2345", marked=True),
        Segment("67"),
        Segment("89", marked=True),
    )


def test_a_cut_excerpt_ends_with_an_ellipsis_and_keeps_marks_before_the_cut() -> None:
    assert segments("abcdef", [(1, 5)], 3) == (Segment("a"), Segment("bc", marked=True), Segment("…"))


def test_offsets_count_characters_of_the_original_text() -> None:
    # the override takes many characters when shown; the mark must not move
    assert segments("\u202eab", [(1, 2)], 9) == (
        Segment("⟨U+202E⟩"),
        Segment("a", marked=True),
        Segment("b"),
    )


def test_words_around_a_span_keep_the_spaces_between_them() -> None:
    assert around("never lose money", 6, 10, context=3, limit=9) == ("…er ", "lose", " mo…")


def test_a_span_outside_the_text_shows_nothing() -> None:
    assert around("short", 50, 60, context=3, limit=9) == ("", "", "")


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70)), max_size=6))
def test_segments_lose_no_text(text: str, spans: list[tuple[int, int]]) -> None:
    joined = "".join(piece.text for piece in segments(text, spans, 100))
    if "\r\n" not in text:  # a mark between the two makes them two line ends
        assert joined == visible(text)
