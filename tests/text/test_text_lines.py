from hypothesis import given
from hypothesis import strategies as st

from memfin.text.lines import EMOJI_MARKS, flat, one_line, printable, visible
from tests.support import each_case, length

LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@each_case(
    ("text", "shown"),
    [
        ("tab\there", "tab here"),
        ("全角\u3000空格", "全角 空格"),
        ("\x00\x1b\x7f\x9b", "⟨U+0000⟩⟨U+001B⟩⟨U+007F⟩⟨U+009B⟩"),
        ("\u202eabc\u2066", "⟨U+202E⟩abc⟨U+2066⟩"),
        ("a\u200bb\ufeff\u2800", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+2800⟩"),
        ("\U000e0041\U000e0100", "⟨U+E0041⟩⟨U+E0100⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("⚠\ufe0f 👨\u200d👩", "⚠\ufe0f 👨\u200d👩"),
        ("普通的话，没有变化。<OK>!", "普通的话，没有变化。<OK>!"),
    ],
)
def test_what_cannot_be_seen_is_spelt_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_ends_of_every_kind_become_line_feeds() -> None:
    assert visible("a\r\nb" + "c".join(LINE_ENDS)) == "a\nb" + "c".join("\n" for _ in LINE_ENDS)
    assert visible("a\r\n\r\nb\n\r") == "a\n\nb\n\n"


def test_every_character_there_is_gets_the_closer_look_it_needs() -> None:
    lowest = 0x30000  # above it, characters stand in a few blocks: the borders of each, and some
    common = length(0x10000, lowest)
    codes = [*range(common), *range(common, lowest, length(7, 1)), *range(0xE0000, 0xE1000)]
    codes += [*range(lowest, 0x110000, length(97, 1)), 0x10FFFF]
    for code in codes:
        character = chr(code)
        shown = visible(character, kept=frozenset())
        if character in LINE_ENDS:
            assert shown == "\n"
        elif shown == character:
            assert character.isprintable(), hex(code)
        else:
            assert shown in {" ", f"⟨U+{code:04X}⟩"}, hex(code)
            assert (visible(character) == character) is (character in EMOJI_MARKS)


def test_the_caller_may_leave_out_what_cannot_be_seen() -> None:
    assert visible("a\x00\u200b\tb\ufe0f", spell=lambda _: "") == "a b\ufe0f"


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF)))
def test_visible_text_is_encodable_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert visible(shown) == shown
    assert len(shown.splitlines()) == len(shown.split("\n")) - (not shown or shown.endswith("\n"))


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF)), st.integers(1, 80))
def test_a_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    assert line == line.strip()


def test_one_line_cuts_at_the_limit_with_an_ellipsis() -> None:
    assert one_line(" a\n b ", 10) == "a b"
    assert one_line("x" * 11, 10) == "x" * 9 + "…"
    assert one_line("x" * 10, 10) == "x" * 10
    assert len(one_line("w " * 1_000_000, 50)) <= 50


def test_a_long_tail_of_white_space_still_shows_that_text_was_cut() -> None:
    assert one_line("a" + " " * 500 + "b", 10) == "a…"


def test_flat_text_keeps_a_blank_at_its_ends() -> None:
    assert flat("\n a\u3000\r\n\tb \x00\n") == " a b ⟨U+0000⟩ "


def test_names_keep_their_blanks_and_show_their_line_ends() -> None:
    assert printable("a  b\nc\x1b\u3000⚠\ufe0f") == "a  b⟨U+000A⟩c⟨U+001B⟩⟨U+3000⟩⚠\ufe0f"
