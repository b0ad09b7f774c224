"""Prompts: what they hold, how votes differ, and which answers are verdicts."""

import json
from typing import Any

import jsonschema
import pytest

from memfin.client.structured import InvalidAnswer, response_format
from memfin.contracts import JudgeRequest
from memfin.judges.prompts import MAX_CHARS, TooLong, fenced, margined, masked, new_nonce
from memfin.judges.reply_grading import (
    MAX_ANSWER,
    MAX_REASON,
    RISK_TAGS,
    SECTIONS,
    ReplyGrading,
    answer_schema,
    compose,
    read_answer,
    variant,
)
from memfin.scoring.rubric import RUBRIC_ITEMS
from tests.judges.scripted_judge import fences
from tests.support import each_case

REQUEST = JudgeRequest(
    dialog_id="d",
    turn_pair_id=1,
    language="zh",
    user_text="怎么配置？",
    reply="作为 GPT-4o，我建议分散。",
    rubric_required=["信息依据", "边界声明", "可执行步骤"],
    constraints=["不使用杠杆", "最大回撤<10%"],
)
PLAIN = variant(0, 3, 2)
NO_NONCE = "0" * 32
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@each_case(
    ("text", "shown"),
    [
        ("最大回撤<10%", "| 最大回撤＜10%"),
        ("a[1]>b", "| a［1］＞b"),
        ("\ufe0f\U000e0100", "| ⟨U+FE0F⟩⟨U+E0100⟩"),
        ("a\u200db\n", "| a⟨U+200D⟩b\n| "),
        ("", "| "),
        ("普通的话，没有变化。OK!", "| 普通的话，没有变化。OK!"),
    ],
)
def test_nothing_unseen_and_no_bracket_stands_in_a_fence(text: str, shown: str) -> None:
    assert margined(text) == shown


def test_every_end_of_a_line_begins_a_line_with_its_margin() -> None:
    ends = ["\r\n", *LINE_ENDS]
    body = fenced("reply", "a" + "b".join(ends) + "c", "n").split("\n")
    assert body[0] == "<untrusted reply n>"
    assert body[-1] == "</untrusted reply n>"
    assert len(body) == 2 + len(ends) + 1
    assert all(line.startswith("| ") for line in body[1:-1])


def test_nonces_are_random_and_long() -> None:
    assert len({new_nonce() for _ in range(100)}) == 100
    assert len(new_nonce()) == 32


@pytest.mark.parametrize("language", ["zh", "en"])
def test_prompts_explain_every_tag_item_and_label(language: str) -> None:
    system, user = compose(REQUEST.replace(language=language), PLAIN).messages(NO_NONCE)
    assert (system["role"], user["role"]) == ("system", "user")
    for word in (*RISK_TAGS, *RUBRIC_ITEMS, "compliant", "minor_violation", "severe_violation"):
        assert word in system["content"], word
    assert NO_NONCE in system["content"]
    assert set(fences([system, user])) == set(SECTIONS)


def test_the_language_of_the_dialogue_decides_that_of_the_prompt() -> None:
    for language in ("zh", "zh-CN"):
        system = compose(REQUEST.replace(language=language), PLAIN).messages(NO_NONCE)[0]["content"]
        assert "你是独立的评审" in system
    for language in ("en", "en-US", "fr"):
        system = compose(REQUEST.replace(language=language), PLAIN).messages(NO_NONCE)[0]["content"]
        assert system.startswith("You are an independent judge")


def test_every_file_that_prompts_are_made_of_is_hashed() -> None:
    assert set(ReplyGrading().prompt_hashes()) == {
        "identities.txt",
        *(f"judge-v1.{part}.{language}.j2" for part in ("system", "user") for language in ("zh", "en")),
    }
    assert all(len(digest) == 64 for digest in ReplyGrading().prompt_hashes().values())


def test_too_much_text_is_refused_instead_of_cut() -> None:
    compose(REQUEST.replace(reply="字" * (MAX_CHARS - 200)), PLAIN).messages(NO_NONCE)
    with pytest.raises(TooLong, match=f"a judge is shown {MAX_CHARS} at most"):
        compose(REQUEST.replace(reply="字" * MAX_CHARS), PLAIN).messages(NO_NONCE)


def test_the_first_vote_leaves_everything_as_it_is_and_the_others_turn_it() -> None:
    assert variant(0, 3, 2) == ((0, 1, 2), (0, 1), SECTIONS, False)
    assert variant(1, 3, 2) == ((2, 1, 0), (1, 0), SECTIONS[::-1], True)
    assert variant(2, 3, 2).rubric == (1, 2, 0)
    assert variant(3, 3, 2).rubric == (0, 2, 1)
    for vote in range(15):
        turned = variant(vote, 4, 0)
        assert sorted(turned.rubric) == [0, 1, 2, 3]
        assert turned.constraints == ()
        assert sorted(turned.sections) == sorted(SECTIONS)


def test_identities_are_masked_after_the_first_vote_only() -> None:
    assert masked("我是ChatGPT，由 OpenAI 开发；通义千问和gpt-4o-mini也行，gptx。") == (
        "我是▇▇，由 ▇▇ 开发；▇▇和▇▇也行，▇▇。"
    )
    assert masked("把脉络理清，投资组合。Egypt") == "把脉络理清，投资组合。Egypt"
    assert "GPT-4o" in fences(compose(REQUEST, PLAIN).messages(NO_NONCE))["reply"]
    assert "▇▇" in fences(compose(REQUEST, variant(1, 3, 2)).messages(NO_NONCE))["reply"]


GOOD: dict[str, Any] = {
    "reason": "r",
    "satisfied": ["R3", "R1", "R1"],
    "contradicted": ["C2"],
    "risk_tags": ["fx_risk", "credit_risk"],
    "compliance": "minor_violation",
    "score": 4,
}


def test_an_answer_speaks_of_the_texts_behind_its_numbers() -> None:
    verdict = read_answer(json.dumps(GOOD), REQUEST, PLAIN)
    assert verdict.score == 4.0
    assert verdict.rubric_items == ["信息依据", "可执行步骤"]
    assert verdict.contradicted_constraints == ["最大回撤<10%"]
    assert verdict.risk_tags == ["credit_risk", "fx_risk"]
    assert verdict.compliance == "minor_violation"
    turned = read_answer(json.dumps(GOOD | {"satisfied": ["R1"]}), REQUEST, variant(1, 3, 2))
    assert turned.rubric_items == ["可执行步骤"]
    assert turned.contradicted_constraints == ["不使用杠杆"]


def test_the_schema_takes_what_the_reader_takes() -> None:
    schema = answer_schema(3, 2)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(GOOD)
    assert not validator.is_valid(GOOD | {"satisfied": ["R4"]})
    assert not validator.is_valid(GOOD | {"score": 6})
    assert schema["additionalProperties"] is False
    assert sorted(schema["required"]) == sorted(schema["properties"])


def test_lists_to_which_nothing_can_belong_are_left_out() -> None:
    assert {"satisfied", "contradicted"}.isdisjoint(answer_schema(0, 0)["properties"])
    bare = {name: value for name, value in GOOD.items() if name not in {"satisfied", "contradicted"}}
    request = REQUEST.replace(rubric_required=[], constraints=[])
    assert read_answer(json.dumps(bare), request, variant(0, 0, 0)).rubric_items == []
    assert read_answer(json.dumps(bare | {"satisfied": []}), request, variant(0, 0, 0)).score == 4


@each_case(
    ("text", "why"),
    [
        ("", "no verdict"),
        ("5", "not a verdict"),
        ("null", "not a verdict"),
        ("[]", "not a verdict"),
        (json.dumps(GOOD) + "x", "not a verdict"),
        (json.dumps(GOOD) + json.dumps(GOOD), "not a verdict"),
        ("The verdict: " + json.dumps(GOOD), "not JSON"),
        (json.dumps(GOOD)[:-5], "not JSON"),
        (json.dumps(GOOD | {"score": 0}), "score 0 is not a whole number 1 to 5"),
        (json.dumps(GOOD | {"score": 6}), "score 6 is not a whole number 1 to 5"),
        (json.dumps(GOOD | {"score": 4.5}), "not a verdict"),
        (json.dumps(GOOD | {"score": "4"}), "not a verdict"),
        (json.dumps(GOOD | {"score": True}), "not a verdict"),
        (json.dumps(GOOD | {"score": None}), "not a verdict"),
        (json.dumps(GOOD | {"compliance": "fine"}), "not a verdict"),
        (json.dumps(GOOD | {"satisfied": ["R4"]}), "satisfied names 'R4', which was not given"),
        (json.dumps(GOOD | {"satisfied": ["信息依据"]}), "which was not given"),
        (json.dumps(GOOD | {"satisfied": "R1"}), "not a verdict"),
        (json.dumps(GOOD | {"contradicted": ["C3"]}), "contradicted names 'C3'"),
        (json.dumps(GOOD | {"risk_tags": ["risk_disclosure_present"]}), "which is not a tag"),
        (json.dumps(GOOD | {"extra": 1}), "not a verdict"),
        (json.dumps({name: value for name, value in GOOD.items() if name != "satisfied"}), "missing"),
        (json.dumps({name: value for name, value in GOOD.items() if name != "reason"}), "not a verdict"),
        ('{"score": 1, ' + json.dumps(GOOD)[1:], "a name occurs twice"),
        (json.dumps(GOOD).replace("4}", "NaN}"), "NaN is not a number in JSON"),
        (json.dumps(GOOD).replace("4}", "1e999}"), "not a verdict"),
        (json.dumps(GOOD).replace('"r"', '"\\ud800"'), "not a verdict"),
        ("[" * 100_000, "characters, over"),
        ("[" * 60_000, "not a verdict"),
        (json.dumps(GOOD | {"reason": "x" * MAX_ANSWER}), "characters, over"),
    ],
)
def test_what_is_no_verdict_is_refused_and_never_repaired(text: str, why: str) -> None:
    with pytest.raises(InvalidAnswer) as refused:
        read_answer(text, REQUEST, PLAIN)
    assert why in str(refused.value)


@each_case("name", list(GOOD))
@each_case("escaped", [False, True], ids=["plain", "escaped"])
def test_no_name_stands_twice_however_the_answer_is_read(name: str, escaped: bool) -> None:
    first = json.dumps({name: GOOD[name]})[:-1]
    if escaped:
        first = first.replace(name[0], f"\\u{ord(name[0]):04x}", 1)
    with pytest.raises(InvalidAnswer, match="a name occurs twice"):
        read_answer(f"{first}, {json.dumps(GOOD)[1:]}", REQUEST, PLAIN)


@each_case(
    "text",
    [
        json.dumps(GOOD, ensure_ascii=False),
        json.dumps(GOOD),
        json.dumps(GOOD, indent=1),
        json.dumps(dict(reversed(GOOD.items()))),
        json.dumps(GOOD).replace("4}", "4.0}"),
        f"\u3000{json.dumps(GOOD)}\n",
        f"```json\n{json.dumps(GOOD)}\n```",
        f"<think>4 or 5?</think>{json.dumps(GOOD)}",
        json.dumps(GOOD).replace('"r"', '"\\u0072"'),
    ],
    ids=["bare", "ascii", "indented", "reversed", "float", "padded", "block", "thoughts", "escape"],
)
def test_the_same_answer_is_the_same_verdict_however_it_is_written(text: str) -> None:
    assert read_answer(text, REQUEST, PLAIN) == read_answer(json.dumps(GOOD), REQUEST, PLAIN)


def test_a_text_that_ends_in_a_line_end_has_an_empty_last_line() -> None:
    assert fenced("reply", "", "n").split("\n")[1:-1] == ["| "]
    assert fenced("reply", "a\n", "n").split("\n")[1:-1] == ["| a", "| "]
    assert fenced("reply", "\r\n\r", "n").split("\n")[1:-1] == ["| ", "| ", "| "]


def test_a_code_block_around_the_answer_is_taken_off_and_a_long_reason_cut() -> None:
    block = f"```json\n{json.dumps(GOOD)}\n```"
    assert read_answer(block, REQUEST, PLAIN).score == 4
    long = read_answer(json.dumps(GOOD | {"reason": "x" * 5000}), REQUEST, PLAIN)
    assert len(long.reason) == MAX_REASON


def test_the_forms_in_which_an_answer_is_asked_for() -> None:
    strict = response_format("json_schema", {"type": "object"}, "verdict")
    assert strict is not None
    assert strict["json_schema"]["strict"] is True
    assert response_format("json_object", {}, "verdict") == {"type": "json_object"}
    assert response_format("text", {}, "verdict") is None
