"""Normalisation, pairing and language of dialogues."""

import json
from typing import Any

import pytest

from memfin.contracts import TurnTags
from memfin.contracts.reading import Line
from memfin.dataset import (
    InvalidDialogError,
    align_turn_pairs,
    classify_dialog_validity,
    detect_language,
    normalize_dialog,
    read_entry,
    unscored_pairs,
)
from tests.support import each_case


def dialog(pairs: int = 1, **changes: Any) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    for number in range(1, pairs + 1):
        turns += [
            {"role": "user", "text": f"question {number}"},
            {
                "role": "assistant",
                "text": f"answer {number}",
                "turn_tags": {"memory_required_keys_gt": [f"key {number}"]},
            },
        ]
    return {"dialog_id": "d", "profile_gt": {"risk_level_gt": "稳健"}, "turns": turns} | changes


def test_each_user_turn_pairs_with_the_next_assistant_turn() -> None:
    pairs = align_turn_pairs(dialog(3))
    assert [
        (
            pair.turn_pair_id,
            pair.user_turn_abs_idx,
            pair.gt_assistant_abs_idx,
            pair.user_text,
            pair.gt_assistant_text,
            pair.gt_turn_tags.memory_required_keys_gt,
        )
        for pair in pairs
    ] == [
        (1, 0, 1, "question 1", "answer 1", ["key 1"]),
        (2, 2, 3, "question 2", "answer 2", ["key 2"]),
        (3, 4, 5, "question 3", "answer 3", ["key 3"]),
    ]
    assert pairs[0]["turn_pair_id"] == 1


def test_pairs_of_a_normalized_dialogue_are_those_of_the_raw_one() -> None:
    assert align_turn_pairs(normalize_dialog(dialog(2))) == align_turn_pairs(dialog(2))


def test_an_invalid_dialogue_has_no_pairs() -> None:
    with pytest.raises(InvalidDialogError) as invalid:
        align_turn_pairs(dialog(turns=[]))
    assert invalid.value.problem.reason == "missing_turns"


def test_content_reads_as_text() -> None:
    raw = dialog()
    for turn in raw["turns"]:
        turn["content"] = turn.pop("text")
    assert normalize_dialog(raw) == normalize_dialog(dialog())


def test_text_wins_over_content() -> None:
    raw = dialog()
    raw["turns"][0]["content"] = "other words"
    assert normalize_dialog(raw).turns[0].text == "question 1"


@pytest.mark.parametrize(
    ("given", "read"), [("med", "medium"), ("medium", "medium"), ("easy", "easy"), ("hard", "hard")]
)
def test_med_reads_as_medium(given: str, read: str) -> None:
    assert normalize_dialog(dialog(difficulty=given)).difficulty == read


@each_case("given", ["extreme", "EASY", "", 3, ["easy"], None])
def test_what_is_no_difficulty_loses_no_dialogue(given: object) -> None:
    raw = dialog(difficulty=given)
    assert normalize_dialog(raw).difficulty is None
    entry = read_entry(Line(1, json.dumps(raw).encode()))
    assert (entry.skip_reason, entry.difficulty) == (None, None)
    broken = read_entry(Line(1, json.dumps({**raw, "turns": []}).encode()))
    assert (broken.skip_reason, broken.difficulty) == ("missing_turns", None)


@each_case(
    ("given", "read"),
    [
        ("minor", "minor_violation"),
        ("severe", "severe_violation"),
        ("minor_violation", "minor_violation"),
        ("severe_violation", "severe_violation"),
        ("compliant", "compliant"),
        (None, None),
    ],
)
def test_labels_of_the_older_draft_are_read(given: str | None, read: str | None) -> None:
    raw = dialog()
    raw["turns"][1]["turn_tags"]["compliance_label_gt"] = given
    tags = normalize_dialog(raw).turns[1].turn_tags
    assert tags is not None
    assert tags.compliance_label_gt == read


def test_normalizing_leaves_its_input_alone() -> None:
    raw = dialog(difficulty="med")
    raw["turns"][1]["turn_tags"]["compliance_label_gt"] = "minor"
    normalize_dialog(raw)
    assert raw["difficulty"] == "med"
    assert raw["turns"][1]["turn_tags"]["compliance_label_gt"] == "minor"


def test_unknown_fields_are_left_behind_everywhere() -> None:
    raw = dialog(unknown=1, blueprint={"forbidden_list": [], "plan": {}})
    raw["profile_gt"]["age"] = 50
    raw["turns"][0]["ts"] = 5
    raw["turns"][1]["turn_tags"]["other"] = []
    assert normalize_dialog(raw) == normalize_dialog(dialog())


def test_null_in_an_optional_field_is_as_good_as_absent() -> None:
    raw = dialog(scenario_type=None, events=None, seed_source=None, seed_data=None, blueprint=None)
    raw["profile_gt"] |= {"constraints_gt": None, "horizon_gt": None}
    raw["turns"][1]["turn_tags"]["risk_disclosure_required_gt"] = None
    assert normalize_dialog(raw) == normalize_dialog(dialog())


def test_tags_may_be_an_empty_object_but_not_absent() -> None:
    raw = dialog()
    raw["turns"][1]["turn_tags"] = {}
    assert align_turn_pairs(raw)[0].gt_turn_tags == TurnTags()
    del raw["turns"][1]["turn_tags"]
    assert classify_dialog_validity(raw) == (False, "missing_gt_tags")


def test_a_defect_of_a_pair_loses_its_ground_truth_and_not_the_dialogue() -> None:
    user, reply = dialog()["turns"]
    wrong = reply | {"turn_tags": {"compliance_label_gt": "fine", "explainability_rubric_gt": ["边界声明"]}}
    untagged = reply | {"turn_tags": None}
    turns = [untagged, user, user, wrong, user, untagged, user, reply, reply, user]
    found = normalize_dialog(dialog(turns=turns))
    pairs = align_turn_pairs(found)
    assert [(pair.turn_pair_id, pair.user_turn_abs_idx, pair.gt_assistant_abs_idx) for pair in pairs] == [
        (1, 2, 3),
        (2, 4, 5),
        (3, 6, 7),
    ]
    assert [pair.gt_turn_tags == TurnTags() for pair in pairs] == [True, True, False]
    assert unscored_pairs(found) == 4


def test_tags_of_user_turns_are_not_read() -> None:
    raw = dialog()
    raw["turns"][0]["turn_tags"] = {"compliance_label_gt": "nonsense"}
    assert normalize_dialog(raw).turns[0].turn_tags is None


def test_forbidden_entries_that_are_no_words_are_left_behind() -> None:
    raw = dialog(blueprint={"forbidden_list": ["保本保收益", "", " ", None, 5, ["x"]]})
    assert normalize_dialog(raw).blueprint.forbidden_list == ["保本保收益"]


def test_a_normalized_dialogue_is_returned_as_it_is() -> None:
    once = normalize_dialog(dialog())
    assert normalize_dialog(once) is once


def test_a_dialogue_without_id_takes_the_default() -> None:
    assert normalize_dialog(dialog(dialog_id=None), default_id="line_5").dialog_id == "line_5"


def test_classify_says_valid_without_a_reason() -> None:
    assert classify_dialog_validity(dialog()) == (True, None)


@pytest.mark.parametrize(
    ("text", "language"), [("我想买基金", "zh"), ("buy 基金", "zh"), ("buy funds", "en"), ("", "en")]
)
def test_language_is_chinese_where_there_are_chinese_characters(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_language_is_detected_only_where_the_dialogue_does_not_say() -> None:
    raw = dialog()
    raw["turns"][0]["text"] = "我想买基金"
    assert normalize_dialog(raw).language == "zh"
    assert normalize_dialog(raw | {"language": "en"}).language == "en"
    assert normalize_dialog(raw | {"language": 5}).language == "zh"
