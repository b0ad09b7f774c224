from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.report.common import FailureCounter
from memfin.report.model import Segment, segments
from memfin.report.worst_turns import around
from memfin.text.lines import visible
from tests.support import length


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


@settings(max_examples=length(40, 300), deadline=None)
@given(st.text(max_size=60), st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70)), max_size=6))
def test_segments_lose_no_text(text: str, spans: list[tuple[int, int]]) -> None:
    joined = "".join(piece.text for piece in segments(text, spans, 100))
    if "\r\n" not in text:  # a mark between the two makes them two line ends
        assert joined == visible(text)


def test_messages_that_differ_in_numbers_are_one_group_with_the_first_as_example() -> None:
    counter = FailureCounter()
    counter.add("turn error", "timeout after 120.01 s", "d1 turn 1")
    counter.add("turn error", "timeout after 119.8 s", "d2 turn 4")
    counter.add("turn error", "refused", "d3 turn 2")
    counter.add("turn error", None, "d4 turn 1")
    groups = counter.groups(10)
    assert [(group.message, group.count, group.example) for group in groups] == [
        ("timeout after 120.01 s", 2, "d1 turn 1"),
        ("(no message)", 1, "d4 turn 1"),
        ("refused", 1, "d3 turn 2"),
    ]


def test_the_kind_keeps_groups_apart() -> None:
    counter = FailureCounter()
    counter.add("judge", "HTTP 503", "d1")
    counter.add("turn error", "HTTP 503", "d1")
    assert {group.kind for group in counter.groups(10)} == {"judge", "turn error"}


def test_any_number_of_messages_stays_bounded_and_no_failure_is_lost() -> None:
    counter = FailureCounter()
    for number in range(3000):
        word = "".join(chr(ord("g") + int(digit)) for digit in str(number))
        counter.add("turn error", f"message {word}", "somewhere")
    groups = counter.groups(20)
    assert len(groups) == 21
    assert sum(group.count for group in groups) == 3000
