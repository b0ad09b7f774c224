"""Reading datasets: every line becomes an entry, whatever it holds."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.contracts import SkipReason
from memfin.contracts.reading import MAX_LINE_BYTES, Line
from memfin.dataset import (
    SAMPLE,
    DatasetEntry,
    classify_dialog_validity,
    load_dataset_jsonl,
    read_entries,
    read_entry,
)
from tests.support import each_case, length

FIXTURES = Path(__file__).parents[1] / "fixtures"
BOM = b"\xef\xbb\xbf"


def valid(**changes: Any) -> dict[str, Any]:
    dialog: dict[str, Any] = {
        "dialog_id": "d",
        "scenario_type": "投资教育",
        "difficulty": "easy",
        "language": "zh",
        "profile_gt": {
            "risk_level_gt": "稳健",
            "horizon_gt": "6-24月",
            "liquidity_need_gt": "中",
            "constraints_gt": ["不使用杠杆"],
            "preferences_gt": [],
        },
        "turns": [
            {"role": "user", "text": "我偏稳健。", "turn_tags": None},
            {
                "role": "assistant",
                "text": "好的。",
                "turn_tags": {
                    "memory_required_keys_gt": ["profile_gt.risk_level_gt"],
                    "risk_disclosure_required_gt": ["波动风险"],
                    "compliance_label_gt": "compliant",
                    "explainability_rubric_gt": ["信息依据"],
                },
            },
        ],
        "events": [],
        "seed_source": "self-written",
        "seed_data": None,
        "blueprint": {"forbidden_list": ["保本保收益"]},
    }
    return dialog | changes


def jsonl(*objects: object, end: bytes = b"\n") -> bytes:
    return b"".join(json.dumps(obj, ensure_ascii=False).encode() + end for obj in objects)


def entries(data: bytes, limit: int | None = None) -> list[DatasetEntry]:
    return list(read_entries(io.BytesIO(data), limit))


def entry(obj: object) -> DatasetEntry:
    return read_entry(Line(7, json.dumps(obj).encode()))


def test_the_sample_reads_without_a_skip() -> None:
    with SAMPLE.open("rb") as file:
        assert [found.skip_reason for found in read_entries(file)] == [None] * 14


def test_hostile_lines_are_skipped_for_the_reason_that_fits() -> None:
    expected = json.loads((FIXTURES / "hostile.expected.json").read_text("utf-8"))["lines"]
    with (FIXTURES / "hostile.jsonl").open("rb") as file:
        found = {str(item.dataset_index): item.skip_reason for item in read_entries(file)}
    assert found == expected


def test_every_line_with_content_gives_one_entry_under_its_number() -> None:
    data = b"\n" + jsonl(valid(dialog_id="a")) + b"  \t\r\n" + b"nonsense\n" + jsonl(valid(dialog_id="b"))
    assert [(item.dataset_index, item.dialog_id) for item in entries(data)] == [
        (2, "a"),
        (4, "line_4"),
        (5, "b"),
    ]


@pytest.mark.parametrize("line", [b"\x0b", b"\x0c", b"\x00", "\u2028".encode(), "\u3000".encode()])
def test_only_json_white_space_makes_a_line_blank(line: bytes) -> None:
    assert [item.skip_reason for item in entries(line + b"\n")] == ["invalid_json"]


@pytest.mark.parametrize("data", [b"", b"\n\n", BOM, BOM + b"\n"])
def test_a_file_without_content_has_no_entries(data: bytes) -> None:
    assert entries(data) == []


def test_byte_order_mark_and_carriage_returns_are_no_part_of_the_data() -> None:
    data = BOM + jsonl(valid(dialog_id="a"), valid(dialog_id="b"), end=b"\r\n")
    assert [(item.dialog_id, item.skip_reason) for item in entries(data)] == [("a", None), ("b", None)]


def test_a_file_may_end_without_a_line_end() -> None:
    assert [item.dialog_id for item in entries(jsonl(valid()).rstrip())] == ["d"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x7f"])
def test_unicode_line_separators_stay_inside_their_string(separator: str) -> None:
    dialog = valid()
    dialog["turns"][0]["text"] = f"一{separator}二"
    (found,) = entries(jsonl(dialog))
    assert found.dialog is not None
    assert found.dialog.turns[0].text == f"一{separator}二"


def test_reading_goes_on_after_invalid_json() -> None:
    data = jsonl(valid(dialog_id="a")) + b'{"dialog_id": "cut", \n' + jsonl(valid(dialog_id="b"))
    assert [item.skip_reason for item in entries(data)] == [None, "invalid_json", None]


@each_case(
    "text",
    [
        b"{",
        b"[1",
        b"NaN",
        b'{"dialog_id": NaN}',
        b'{"dialog_id": Infinity}',
        b'{"dialog_id": 1e999}',
        b'{"dialog_id": "\\ud800"}',
        b'{"dialog_id": "\xff"}',
        b'{"dialog_id": "\x00"}',
        b'{"dialog_id": "a"} {"dialog_id": "b"}',
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 200_000,
        b'{"n": ' + b"1" * 5_000 + b"}",
    ],
    ids=lambda text: text[:24].decode("ascii", "backslashreplace"),
)
def test_text_that_is_no_json_is_skipped_with_one_line_of_detail(text: bytes) -> None:
    found = read_entry(Line(3, text))
    assert (found.dialog_id, found.skip_reason) == ("line_3", "invalid_json")
    assert found.detail is not None
    assert "\n" not in found.detail


def test_a_line_over_16_mib_is_skipped_and_the_next_is_read() -> None:
    long = valid(dialog_id="long", seed_data={"filler": "x" * MAX_LINE_BYTES})
    found = entries(jsonl(long, valid(dialog_id="after")))
    assert [(item.dialog_id, item.skip_reason) for item in found] == [
        ("line_1", "line_too_long"),
        ("after", None),
    ]


def test_a_line_just_within_16_mib_is_read() -> None:
    room = MAX_LINE_BYTES - len(jsonl(valid(seed_data={"filler": ""}))) + 1
    (found,) = entries(jsonl(valid(seed_data={"filler": "x" * room})))
    assert found.skip_reason is None


@each_case("value", [None, True, 1, 1.5, "text", [], [valid()]])
def test_what_is_no_object_is_skipped(value: object) -> None:
    assert entry(value).skip_reason == "not_an_object"


def test_the_second_valid_dialogue_of_an_id_is_a_duplicate() -> None:
    found = entries(jsonl(valid(), valid(difficulty="hard"), valid()))
    assert [item.skip_reason for item in found] == [None, "duplicate_dialog_id", "duplicate_dialog_id"]
    assert (found[1].dialog_id, found[1].difficulty) == ("d", "hard")
    assert found[1].detail is not None
    assert "'d'" in found[1].detail


def test_an_invalid_dialogue_does_not_use_its_id_up() -> None:
    found = entries(jsonl(valid(turns=[]), valid()))
    assert [item.skip_reason for item in found] == ["missing_turns", None]


@each_case("value", [None, 5, "", "  ", [], {}, True])
def test_a_dialogue_without_a_usable_id_is_named_after_its_line(value: object) -> None:
    found = entry(valid(dialog_id=value))
    assert (found.dialog_id, found.skip_reason) == ("line_7", None)
    assert found.dialog is not None
    assert found.dialog.dialog_id == "line_7"


def test_limit_counts_skipped_lines_too() -> None:
    data = b"nonsense\n" + jsonl(valid(dialog_id="a"), valid(dialog_id="b"))
    assert [item.dialog_id for item in entries(data, limit=2)] == ["line_1", "a"]


def test_skipped_lines_keep_scenario_and_difficulty() -> None:
    found = entry(valid(turns=None, difficulty="med"))
    assert (found.dialog_id, found.scenario_type, found.difficulty) == ("d", "投资教育", "medium")


def turn(role: str, **changes: Any) -> dict[str, Any]:
    tags: object = {} if role == "assistant" else None
    return {"role": role, "text": "x", "turn_tags": tags} | changes


def answered(**changes: Any) -> dict[str, Any]:
    return {"turns": [turn("user"), turn("assistant", **changes)]}


def profile(**fields: Any) -> dict[str, Any]:
    return {"profile_gt": fields}


@each_case(
    ("changes", "reason", "path"),
    [
        ({"turns": None}, "missing_turns", "$.turns"),
        ({"turns": []}, "missing_turns", "$.turns"),
        ({"turns": {"0": turn("user")}}, "missing_turns", "$.turns"),
        ({"turns": [turn("user")]}, "invalid_turn_sequence", "$.turns[0]"),
        ({"turns": [turn("assistant")]}, "invalid_turn_sequence", "$.turns[0]"),
        ({"turns": [turn("user"), turn("user")]}, "invalid_turn_sequence", "$.turns[1]"),
        ({"turns": [turn("user"), turn("system")]}, "invalid_turn_sequence", "$.turns[1].role"),
        ({"turns": [turn("user"), "x"]}, "invalid_turn_sequence", "$.turns[1]"),
        ({"turns": [turn("user", text=None), turn("assistant")]}, "invalid_turn_sequence", "$.turns[0].text"),
        (
            {"turns": [turn("user", text=" \n"), turn("assistant")]},
            "invalid_turn_sequence",
            "$.turns[0].text",
        ),
        (answered(text=4), "invalid_turn_sequence", "$.turns[1].text"),
        (answered(turn_tags=None), "missing_gt_tags", "$.turns[1].turn_tags"),
        (answered(turn_tags=[]), "invalid_gt_tags", "$.turns[1].turn_tags"),
        (
            answered(turn_tags={"memory_required_keys_gt": ["a", 5]}),
            "invalid_gt_tags",
            "$.turns[1].turn_tags.memory_required_keys_gt[1]",
        ),
        (
            answered(turn_tags={"compliance_label_gt": "fine"}),
            "invalid_gt_tags",
            "$.turns[1].turn_tags.compliance_label_gt",
        ),
        ({"profile_gt": None}, "missing_profile_gt", "$.profile_gt"),
        ({"profile_gt": "稳健"}, "missing_profile_gt", "$.profile_gt"),
        (profile(risk_level_gt=3), "missing_profile_gt", "$.profile_gt.risk_level_gt"),
        (profile(constraints_gt="x"), "missing_profile_gt", "$.profile_gt.constraints_gt"),
        (profile(constraints_gt=["a", {}]), "missing_profile_gt", "$.profile_gt.constraints_gt[1]"),
    ],
)
def test_a_defect_is_told_with_reason_and_path(
    changes: dict[str, Any], reason: SkipReason, path: str
) -> None:
    found = entry(valid(**changes))
    assert (found.dialog, found.skip_reason) == (None, reason)
    assert found.detail is not None
    assert found.detail.startswith(f"{path}: ")
    assert classify_dialog_validity(valid(**changes)) == (False, reason)


def test_the_first_dialogue_level_defect_wins_whatever_the_later_ones() -> None:
    assert entry({"dialog_id": "d"}).skip_reason == "missing_turns"


@pytest.mark.parametrize("label", ["a\nb", "\u2028", "x" * 100_000])
def test_detail_is_one_short_line_whatever_the_value(label: str) -> None:
    tags = {"compliance_label_gt": label}
    for changes in (
        answered(turn_tags=tags),
        {"turns": [turn("user"), turn(label)]},
    ):
        detail = entry(valid(**changes)).detail
        assert detail is not None
        assert len(detail) < 500
        assert len(detail.splitlines()) == 1


@pytest.mark.parametrize("where", ["role", "text", "turn_tags"])
def test_no_depth_of_nesting_raises(where: str) -> None:
    # At some depth the decoder still succeeds and whoever walks the value afterwards would not.
    limit = sys.getrecursionlimit()
    for depth in range(limit - 400, limit + 20, 3):
        deep = b"[" * depth + b"]" * depth
        line = (
            b'{"profile_gt": {}, "turns": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b", '
        )
        found = read_entry(Line(1, line + f'"{where}": '.encode() + deep + b"}]}"))
        assert found.skip_reason is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path, *(found for key, item in items for found in paths(item, (*path, key)))]


@given(st.sampled_from(paths(valid())), json_values)
@settings(max_examples=length(40, 400))
def test_any_value_in_any_field_gives_an_entry(path: tuple[str | int, ...], value: object) -> None:
    whole = json.loads(json.dumps(valid()))
    if path:
        inner = whole
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
    else:
        whole = value
    found = read_entry(Line(9, msgspec.json.encode(whole)))
    assert (found.dialog is None) == (found.skip_reason is not None) == (found.detail is not None)
    assert classify_dialog_validity(whole) == (found.dialog is not None, found.skip_reason)
    msgspec.json.encode(found)


@given(st.binary(max_size=60))
@settings(max_examples=length(40, 300))
def test_any_bytes_give_entries(data: bytes) -> None:
    for found in entries(data):
        assert (found.dialog is None) == (found.skip_reason is not None)
        msgspec.json.encode(found)


@given(st.binary(max_size=3), st.integers(min_value=0))
@settings(max_examples=length(40, 200))
def test_damage_at_any_place_gives_an_entry(damage: bytes, place: int) -> None:
    data = jsonl(valid())
    place %= len(data)
    for found in entries(data[:place] + damage + data[place + 1 :]):
        msgspec.json.encode(found)


def test_load_dataset_jsonl_returns_the_objects_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    objects = [valid(extra=1), {"anything": [1]}]
    path.write_bytes(BOM + jsonl(*objects, end=b"\r\n\r\n"))
    assert load_dataset_jsonl(path) == objects
    assert load_dataset_jsonl(str(path)) == objects


@pytest.mark.parametrize(
    "bad",
    [b"{", b'"\xff"', b"[" * 100_000, b"NaN", b'"' + b"x" * MAX_LINE_BYTES + b'"'],
    ids=["cut", "not UTF-8", "deep", "NaN", "too long"],
)
def test_load_dataset_jsonl_names_the_line_that_is_no_json(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(jsonl(valid()) + b"\n" + bad + b"\n")
    with pytest.raises(json.JSONDecodeError, match="line 3"):
        load_dataset_jsonl(path)


def test_load_dataset_jsonl_says_what_is_wrong_with_a_line_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'"' + b"x" * MAX_LINE_BYTES + b'"')
    with pytest.raises(json.JSONDecodeError, match="line 1: longer than 16 MiB"):
        load_dataset_jsonl(path)


def test_load_dataset_jsonl_of_no_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_dataset_jsonl(tmp_path / "none.jsonl")
