import json

import pytest

from memfin.validation.findings import path_text
from memfin.validation.text import Locator, NotJsonError, parse
from tests.support import each_case


def reported(data: bytes) -> list[str]:
    return [f"{path_text(steps)}: {message}" for steps, message in parse(data)[1]]


def test_sound_text_gives_its_value() -> None:
    assert parse('{"a": [1, 2.5, "中", null]}'.encode()) == ({"a": [1, 2.5, "中", None]}, [])


def test_repeated_names_are_found_where_they_stand() -> None:
    assert reported(b'{"a": [{"b": 1, "c": 2, "b": 3}], "d": 1, "d": 1, "d": 2}') == [
        "$.d: the name is repeated in its object",
        "$.a[0].b: the name is repeated in its object",
    ]


@pytest.mark.parametrize(
    ("number", "shown"), [("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf"), ("1e999", "inf")]
)
def test_numbers_that_are_not_finite_are_found_in_free_form_parts(number: str, shown: str) -> None:
    assert reported(f'{{"a": [0, {number}]}}'.encode()) == [f"$.a[1]: {shown} is no finite number"]


def test_integers_that_no_double_can_stand_for_are_found() -> None:
    digits = "9" * 309
    assert reported(f'{{"a": [1, -{digits}], "b": "{digits}", "c": true}}'.encode()) == [
        "$.a[1]: the integer is beyond the range of numbers"
    ]
    assert reported(str(10**308).encode()) == []


def test_lone_surrogates_are_found_but_pairs_are_characters() -> None:
    assert reported(rb'{"a": "\ud83d\ude00", "b": ["x\udc00"], "\ud800": 1}') == [
        "$: a name holds a lone surrogate, which is no character",
        r"$.b[0]: 'x\udc00' holds a lone surrogate, which is no character",
    ]


@each_case(
    ("data", "line", "message"),
    [
        (b"", 1, "invalid JSON: Expecting value (column 1)"),
        (b'{\n"a": 1,\n}', 3, "invalid JSON"),
        (b'{"a": 1}\n{}', 2, "invalid JSON: Extra data"),
        (b'\n\n"\xff"', 3, "not UTF-8: byte 0xff at offset 3"),
        (b'"\x00"', 1, "invalid JSON: Invalid control character"),
        (b"\x00", 1, "invalid JSON"),
        (b"[" * 100_000, 1, "nested too deeply"),
        (b"9" * 5000, 1, "too many digits"),
    ],
)
def test_text_that_is_no_json_says_where(data: bytes, line: int, message: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        parse(data)
    assert caught.value.line == line
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_object_of_many_repeated_names_is_parsed_in_linear_time() -> None:
    pairs = ",".join(f'"k{n % 20_000}":1' for n in range(40_000))
    assert len(parse(f"{{{pairs}}}".encode())[1]) == 20_000


def test_values_are_located_in_a_document_of_many_lines() -> None:
    text = json.dumps({"a": {"b,}": [1, {"c": "}\n{"}, []]}, "d": {}, "e": "é"}, indent=1, ensure_ascii=False)
    lines = text.split("\n")
    locator = Locator("\n" + text)

    def at(*steps: str | int) -> str:
        return lines[locator.line(steps) - 2].strip()

    assert at() == "{"
    assert at("a", "b,}") == '"b,}": ['
    assert at("a", "b,}", 0) == "1,"
    assert at("a", "b,}", 1, "c").startswith('"c"')
    assert at("e") == '"e": "é"'


def test_space_is_allowed_around_every_sign() -> None:
    locator = Locator('\n { "a" : [ 1 ,\n2 ] ,\n"b"\t:\r\n{ } } ')
    assert [locator.line(steps) for steps in ((), ("a", 0), ("a", 1), ("b",))] == [2, 2, 3, 5]


def test_what_is_absent_is_located_at_what_should_hold_it() -> None:
    locator = Locator('{\n"a": {\n"b": 1}\n}')
    assert locator.line(("a", "c", 3)) == 2
    assert locator.line(("a", "b", "deeper")) == 3
    assert locator.line(("z",)) == 1


def test_of_repeated_names_the_last_is_located() -> None:
    assert Locator('{"a": 1,\n"a": 2}').line(("a",)) == 2
