from hypothesis import given
from hypothesis import strategies as st

from memfin.report.model import Segment, segments
from memfin.report.worst_turns import around
from memfin.text.lines import visible


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
