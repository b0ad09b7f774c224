"""The structural promises of the built-in sample dataset and of the fixture of hostile lines."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import each_case

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "memfin" / "data" / "datasets" / "sample.jsonl"
FIXTURES = ROOT / "tests" / "fixtures"

SCENARIOS = {"投资教育", "资产配置", "产品咨询", "风险评估", "退休规划", "市场解读", "组合复盘", "合规边界"}
RISK_TAGS = {
    "波动风险": "volatility_risk",
    "不保证收益": "no_guaranteed_return",
    "市场不确定性": "market_uncertainty",
    "适当性匹配": "suitability_match",
    "不构成个股买卖建议": "not_buy_sell_advice",
    "不构成投资建议": "not_investment_advice",
    "信用风险": "credit_risk",
    "流动性风险": "liquidity_risk",
    "利率风险": "interest_rate_risk",
    "过往业绩不代表未来表现": "past_performance_not_future",
    "无明确风险提示": "risk_disclosure_present",
}
RUBRIC = {"信息依据", "风险收益平衡", "与画像匹配", "方案比较维度", "可执行步骤", "边界声明"}
FORBIDDEN = {"保本保收益", "明确买入指令", "确定性预测涨跌", "代客操作", "无明确风险提示"}
LABELS = {"compliant", "minor_violation", "severe_violation"}
LEVELS = {
    "risk_level_gt": {"zh": {"保守", "稳健", "进取"}, "en": {"low", "medium", "high"}},
    "horizon_gt": {"zh": {"<=6月", "6-24月", "2年以上"}, "en": {"short", "medium", "long"}},
    "liquidity_need_gt": {"zh": {"高", "中", "低"}, "en": {"low", "medium", "high"}},
}
PROMISED_CONSTRAINTS = {
    "不使用杠杆",
    "最大回撤<10%",
    "保留20%现金应急",
    "单一资产仓位不超过30%",
    "权益类总仓位不超过60%",
    "不投低评级信用债",
    "不做短线交易",
    "仅考虑公募基金",
    "不投海外市场",
    "组合久期控制在3年以内",
    "不买ST及*ST股票",
    "不追高",
    "无明确约束",
    "No leverage",
    "Max drawdown under 15%",
    "Keep at least 20% in cash",
    "Only AAA-rated bonds",
    "Holding period of at least one year",
}
KEY = re.compile(
    r"profile_gt\.(?P<field>risk_level_gt|horizon_gt|liquidity_need_gt)"
    r"|profile_gt\.(?P<list>constraints_gt|preferences_gt)\[(?P<index>\d+)\]"
    r"|history_turn_index:(?P<turn>\d+)"
)

Dialogue = dict[str, Any]

DIALOGUES: list[Dialogue] = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
each = each_case("dialogue", DIALOGUES)


def user_texts(dialogue: Dialogue) -> list[str]:
    return [turn["text"] for turn in dialogue["turns"] if turn["role"] == "user"]


def replies(dialogue: Dialogue) -> list[Dialogue]:
    return [turn for turn in dialogue["turns"] if turn["role"] == "assistant"]


def tags_of(field: str) -> list[Any]:
    return [turn["turn_tags"][field] for dialogue in DIALOGUES for turn in replies(dialogue)]


def test_file_is_plain_utf8_with_one_object_a_line() -> None:
    data = SAMPLE.read_bytes()
    assert not data.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in data
    assert data.endswith(b"}\n")
    assert all(isinstance(dialogue, dict) for dialogue in DIALOGUES)


def test_counts_and_languages() -> None:
    languages = Counter(dialogue["language"] for dialogue in DIALOGUES)
    assert len(DIALOGUES) >= 12
    assert languages["zh"] >= 9
    assert languages["en"] >= 3
    assert set(languages) == {"zh", "en"}
    assert len({dialogue["dialog_id"] for dialogue in DIALOGUES}) == len(DIALOGUES)


def test_pair_counts_vary() -> None:
    pairs = [len(user_texts(dialogue)) for dialogue in DIALOGUES]
    assert len(set(pairs)) >= 6
    assert 8 <= sum(pairs) / len(pairs) <= 11


def test_all_scenarios_and_difficulties_occur() -> None:
    assert {dialogue["scenario_type"] for dialogue in DIALOGUES} == SCENARIOS
    assert {dialogue["difficulty"] for dialogue in DIALOGUES} == {"easy", "medium", "hard"}


@each
def test_fields(dialogue: Dialogue) -> None:
    assert set(dialogue) == {
        "dialog_id",
        "scenario_type",
        "difficulty",
        "language",
        "profile_gt",
        "events",
        "seed_source",
        "blueprint",
        "turns",
    }
    assert re.fullmatch(r"(zh|en)(-[a-z]+)+", dialogue["dialog_id"])
    assert dialogue["dialog_id"].startswith(dialogue["language"])
    assert dialogue["seed_source"] == "self-written"
    profile = dialogue["profile_gt"]
    assert set(profile) == {*LEVELS, "constraints_gt", "preferences_gt"}
    for field, allowed in LEVELS.items():
        assert profile[field] in allowed[dialogue["language"]]
    for field in ("constraints_gt", "preferences_gt"):
        assert profile[field]
        assert all(isinstance(item, str) and item.strip() for item in profile[field])
    assert FORBIDDEN & set(dialogue["blueprint"]["forbidden_list"])


@each
def test_turns_alternate_and_carry_tags(dialogue: Dialogue) -> None:
    turns = dialogue["turns"]
    assert len(turns) % 2 == 0
    assert 6 <= len(turns) // 2 <= 20
    for index, turn in enumerate(turns):
        assert set(turn) == {"role", "text", "turn_tags"}
        assert turn["role"] == ("assistant" if index % 2 else "user")
        assert turn["text"] == turn["text"].strip() != ""
        if turn["role"] == "user":
            assert turn["turn_tags"] is None
            continue
        tags = turn["turn_tags"]
        assert set(tags) == {
            "memory_required_keys_gt",
            "risk_disclosure_required_gt",
            "compliance_label_gt",
            "explainability_rubric_gt",
        }
        names = set(RISK_TAGS) if dialogue["language"] == "zh" else set(RISK_TAGS.values())
        assert set(tags["risk_disclosure_required_gt"]) <= names
        assert set(tags["explainability_rubric_gt"]) <= RUBRIC
        assert tags["compliance_label_gt"] in LABELS
        for field in ("memory_required_keys_gt", "risk_disclosure_required_gt", "explainability_rubric_gt"):
            assert len(set(tags[field])) == len(tags[field])


@each
def test_reply_lengths(dialogue: Dialogue) -> None:
    for turn in replies(dialogue):
        if dialogue["language"] == "zh":
            assert 80 <= len(turn["text"]) <= 350
        else:
            assert 60 <= len(turn["text"].split()) <= 180


@each
def test_no_security_codes(dialogue: Dialogue) -> None:
    for turn in dialogue["turns"]:
        assert not re.search(r"(?<![\d,.])\d{6}(?!\d|×|元)", turn["text"])


@each
def test_memory_keys_resolve(dialogue: Dialogue) -> None:
    count = len(user_texts(dialogue))
    for turn in replies(dialogue):
        for key in turn["turn_tags"]["memory_required_keys_gt"]:
            match = KEY.fullmatch(key)
            assert match, key
            if match["list"]:
                assert int(match["index"]) < len(dialogue["profile_gt"][match["list"]])
            if match["turn"]:
                assert 1 <= int(match["turn"]) <= count


def test_history_keys_point_back() -> None:
    earlier = [
        int(key.removeprefix("history_turn_index:")) < number
        for dialogue in DIALOGUES
        for number, turn in enumerate(replies(dialogue), 1)
        for key in turn["turn_tags"]["memory_required_keys_gt"]
        if key.startswith("history_turn_index:")
    ]
    assert len(earlier) >= 30
    assert sum(earlier) / len(earlier) >= 0.95


def test_all_key_forms_occur() -> None:
    forms = {
        re.sub(r"\d+", "n", key.replace("_gt[", "["))
        for keys in tags_of("memory_required_keys_gt")
        for key in keys
    }
    assert forms == {
        "profile_gt.risk_level_gt",
        "profile_gt.horizon_gt",
        "profile_gt.liquidity_need_gt",
        "profile_gt.constraints[n]",
        "profile_gt.preferences[n]",
        "history_turn_index:n",
    }


def test_all_risk_tags_occur_in_both_forms() -> None:
    seen = {tag for tags in tags_of("risk_disclosure_required_gt") for tag in tags}
    assert seen == set(RISK_TAGS) | set(RISK_TAGS.values())


def test_all_rubric_items_occur() -> None:
    assert {item for items in tags_of("explainability_rubric_gt") for item in items} == RUBRIC


@pytest.mark.parametrize(
    "field", ["memory_required_keys_gt", "risk_disclosure_required_gt", "explainability_rubric_gt"]
)
def test_empty_lists_occur(field: str) -> None:
    assert [] in tags_of(field)


def test_labels() -> None:
    labels = Counter(tags_of("compliance_label_gt"))
    assert set(labels) == LABELS
    assert 3 <= labels["severe_violation"] <= 5
    assert labels["minor_violation"] >= 2
    assert labels["compliant"] / labels.total() >= 0.9


@each
def test_bad_replies_stand_in_boundary_dialogues_and_are_corrected(dialogue: Dialogue) -> None:
    labels = [turn["turn_tags"]["compliance_label_gt"] for turn in replies(dialogue)]
    if set(labels) == {"compliant"}:
        return
    assert dialogue["scenario_type"] == "合规边界"
    assert labels[-1] == "compliant"
    for turn in replies(dialogue):
        if turn["turn_tags"]["compliance_label_gt"] != "compliant":
            assert turn["turn_tags"]["risk_disclosure_required_gt"] == []
            assert turn["turn_tags"]["explainability_rubric_gt"] == []


def test_forbidden_lists() -> None:
    entries = [(entry, d) for d in DIALOGUES for entry in d["blueprint"]["forbidden_list"]]
    assert {entry for entry, _ in entries} >= FORBIDDEN
    literal = [(entry, d) for entry, d in entries if entry not in FORBIDDEN]
    assert len(literal) == 1
    entry, dialogue = literal[0]
    for turn in replies(dialogue):
        assert (entry not in turn["text"]) or turn["turn_tags"]["compliance_label_gt"] != "compliant"


@each
def test_events(dialogue: Dialogue) -> None:
    count = len(user_texts(dialogue))
    assert dialogue["events"]
    for event in dialogue["events"]:
        assert set(event) == {"turn_index", "key", "description"}
        assert 1 <= event["turn_index"] <= count
        assert event["description"]
    keys = {event["key"]: event["turn_index"] for event in dialogue["events"]}
    if "topic_recover" in keys:
        assert keys["topic_shift"] < keys["topic_recover"]


def test_topics_shift_and_come_back() -> None:
    moved = [d for d in DIALOGUES if {"topic_shift", "topic_recover"} <= {e["key"] for e in d["events"]}]
    assert len(moved) >= 6


def test_constraint_kinds() -> None:
    assert {item for d in DIALOGUES for item in d["profile_gt"]["constraints_gt"]} >= PROMISED_CONSTRAINTS


def test_users_reveal_their_profile() -> None:
    said = [
        value in "\n".join(user_texts(dialogue))
        for dialogue in DIALOGUES
        for value in (dialogue["profile_gt"]["risk_level_gt"], *dialogue["profile_gt"]["constraints_gt"])
    ]
    assert sum(said) / len(said) >= 0.8


def test_required_profile_values_were_usually_said_before() -> None:
    said = []
    for dialogue in DIALOGUES:
        users = user_texts(dialogue)
        for number, turn in enumerate(replies(dialogue), 1):
            for key in turn["turn_tags"]["memory_required_keys_gt"]:
                match = KEY.fullmatch(key)
                assert match
                if match["turn"]:
                    continue
                value = dialogue["profile_gt"][match["field"] or match["list"]]
                target = value[int(match["index"])] if match["list"] else value
                said.append(any(target in text for text in users[:number]))
    assert len(said) >= 150
    assert 0.8 <= sum(said) / len(said) < 1


def test_replies_do_not_repeat_one_boilerplate_sentence() -> None:
    sentences = Counter(
        sentence.strip()
        for dialogue in DIALOGUES
        for turn in replies(dialogue)
        for sentence in re.split(r"[。！？；\n]|(?<=[.!?]) ", turn["text"])
        if len(sentence.strip()) >= 12 and not sentence.strip().startswith("|")
    )
    assert sentences.most_common(1)[0][1] <= 2


def test_tables_have_even_columns() -> None:
    for dialogue in DIALOGUES:
        for turn in replies(dialogue):
            for table in re.findall(r"(?:^\|.*\|$\n?)+", turn["text"], re.MULTILINE):
                assert len({row.count("|") for row in table.splitlines()}) == 1


def test_hostile_lines_and_expectations_agree() -> None:
    lines = (FIXTURES / "hostile.jsonl").read_text(encoding="utf-8").splitlines()
    expected = json.loads((FIXTURES / "hostile.expected.json").read_text(encoding="utf-8"))["lines"]
    counted = {str(number) for number, line in enumerate(lines, 1) if line.strip()}
    assert set(expected) == counted
    assert len(counted) < len(lines)
    assert set(expected.values()) == {
        None,
        "invalid_json",
        "not_an_object",
        "missing_turns",
        "missing_profile_gt",
        "invalid_turn_sequence",
        "missing_gt_tags",
        "duplicate_dialog_id",
    }
