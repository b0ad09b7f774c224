"""Key resolver, hit attribution, guarded hits and recoverability (spec section 6, M1)."""

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from memfin.contracts import (
    Dialog,
    DialogTrace,
    HistoryMode,
    ProfileTruth,
    RecallItem,
    RecallTrace,
    Turn,
    TurnTags,
    TurnTrace,
)
from memfin.scoring.keys import (
    DialogKeys,
    MemorySources,
    detect_key_hits_from_memory_sources,
    guarded_hit,
    memory_sources,
    resolve_memory_required_key,
)
from tests.support import each_case

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded"
RUN = RECORDED / "20260219_101855"

PROFILE = ProfileTruth(
    risk_level_gt="稳健",
    horizon_gt="2年以上",
    liquidity_need_gt="高",
    constraints_gt=["不使用杠杆", "最大回撤<10%"],
    preferences_gt=["宽基指数基金", ""],
)
TEXTS = [
    ("user", "我比较稳健，想了解基金。"),
    ("assistant", "可以看看宽基指数基金。"),
    ("user", "流动性要高。"),
    ("assistant", "记住了，你不使用杠杆。"),
    ("user", "那债券呢？"),
    ("assistant", "债券也有风险。"),
]


def dialog(texts: list[tuple[Any, str]] = TEXTS, profile: ProfileTruth = PROFILE) -> Dialog:
    turns = [Turn(role=role, text=text) for role, text in texts]
    return Dialog(dialog_id="d", profile_gt=profile, turns=turns)


def turn(recall: RecallTrace | None, user_text: str = "") -> TurnTrace:
    return TurnTrace(
        turn_pair_id=1,
        user_turn_abs_idx=0,
        gt_assistant_abs_idx=1,
        user_text=user_text,
        gt_assistant_text="",
        gt_turn_tags=TurnTags(),
        turn_status="ok",
        recall=recall,
    )


@each_case(
    ("key", "target", "resolver"),
    [
        ("profile_gt.risk_level_gt", "稳健", "profile_field"),
        ("profile_gt.horizon_gt", "2年以上", "profile_field"),
        ("profile_gt.liquidity_need_gt", "高", "profile_field"),
        ("profile_gt.constraints_gt[0]", "不使用杠杆", "constraints_gt"),
        ("profile_gt.constraints_gt[1]", "最大回撤<10%", "constraints_gt"),
        ("profile_gt.preferences_gt[0]", "宽基指数基金", "preferences_gt"),
        ("history_turn_index:1", "我比较稳健，想了解基金。", "history_user_turn"),
        ("history_turn_index:3", "那债券呢？", "history_user_turn"),
        ("history_turn_index:4", "记住了，你不使用杠杆。", "history_abs_turn"),
        ("history_turn_index:6", "债券也有风险。", "history_abs_turn"),
    ],
)
def test_each_key_form_resolves_to_its_target(key: str, target: str, resolver: str) -> None:
    resolved = resolve_memory_required_key(key, dialog(), 1)
    assert (resolved.resolvable, resolved.target_text, resolved.resolver) == (True, target, resolver)
    assert resolved == resolve_memory_required_key(key, msgspec.to_builtins(dialog()), 1)
    assert resolved == DialogKeys(dialog()).resolve(key)


@each_case(
    "key",
    [
        "profile_gt.constraints_gt[2]",
        "profile_gt.constraints_gt[-1]",
        "profile_gt.constraints_gt",
        "profile_gt.constraints_gt[１]",
        "profile_gt.preferences_gt[1]",  # an empty target
        "profile_gt.income_gt",
        "profile_gt.risk_level_gt ",
        "risk_level_gt",
        "history_turn_index:0",
        "history_turn_index:-1",
        "history_turn_index:7",
        "history_turn_index:1.0",
        "history_turn_index:",
        "history_turn_index:" + "9" * 5000,
        "",
    ],
)
def test_anything_else_is_unresolved(key: str) -> None:
    resolved = resolve_memory_required_key(key, dialog(), 1)
    assert (resolved.resolvable, resolved.target_text, resolved.resolver) == (False, None, "unresolved")
    assert DialogKeys(dialog()).hit(key, MemorySources(key, [key], key), 4) is None


def test_a_missing_level_is_unresolved() -> None:
    incomplete = dialog(profile=ProfileTruth(risk_level_gt="稳健"))
    assert not resolve_memory_required_key("profile_gt.horizon_gt", incomplete, 1).resolvable


@pytest.mark.parametrize(
    "broken", [{}, {"turns": None, "profile_gt": []}, {"turns": [1, {}], "profile_gt": None}]
)
def test_a_malformed_dialogue_resolves_nothing_and_raises_nothing(broken: dict[str, Any]) -> None:
    for key in ("profile_gt.risk_level_gt", "profile_gt.constraints_gt[0]", "history_turn_index:1"):
        assert not resolve_memory_required_key(key, broken, 1).resolvable


def test_the_older_name_of_the_text_is_read() -> None:
    plain = {"profile_gt": {}, "turns": [{"role": "user", "content": "你好啊"}]}
    assert resolve_memory_required_key("history_turn_index:1", plain, 1).target_text == "你好啊"


def test_hits_name_every_source_in_order() -> None:
    recall = RecallTrace(
        short_term_context="user: 我比较稳健",
        items=[RecallItem(content="无关"), RecallItem(content="她偏稳健")],
        profile_context="风险: 稳健",
    )
    assert detect_key_hits_from_memory_sources("稳健", turn(recall)) == ["short_term", "long_term", "profile"]
    plain = {"recall": msgspec.to_builtins(recall)}
    assert detect_key_hits_from_memory_sources("稳健", plain) == ["short_term", "long_term", "profile"]


@pytest.mark.parametrize(
    ("recall", "source"),
    [
        (RecallTrace(short_term_context="稳健"), "short_term"),
        (RecallTrace(items=[RecallItem(content="稳健")]), "long_term"),
        (RecallTrace(profile_context="稳健"), "profile"),
    ],
)
def test_each_source_alone_is_a_hit(recall: RecallTrace, source: str) -> None:
    assert detect_key_hits_from_memory_sources("稳健", turn(recall)) == [source]


def test_other_parts_of_the_recall_are_no_source() -> None:
    recall = RecallTrace(query="稳健", packed_context="稳健")
    assert detect_key_hits_from_memory_sources("稳健", turn(recall)) == []


@pytest.mark.parametrize("plain", [{}, {"recall": None}, {"recall": {"items": None}}, {"recall": "稳健"}])
def test_a_turn_without_observations_has_no_hits(plain: dict[str, Any]) -> None:
    assert detect_key_hits_from_memory_sources("稳健", plain) == []
    assert detect_key_hits_from_memory_sources("稳健", turn(None)) == []


def test_an_empty_target_is_held_by_no_source() -> None:
    assert detect_key_hits_from_memory_sources("", turn(RecallTrace(short_term_context="稳健"))) == []


def test_a_hit_is_literal() -> None:
    recall = RecallTrace(short_term_context="最大回撤<１０%，最大回撤 <10%")
    assert detect_key_hits_from_memory_sources("最大回撤<10%", turn(recall)) == []


@pytest.mark.parametrize(
    ("question", "text", "counts"),
    [
        ("我不使用杠杆。", "我不使用杠杆。", False),
        (" 我不使用杠杆。\n", "user: 你好\nuser: 我不使用杠杆。", False),
        ("我不使用杠杆。", "约束：不使用杠杆；user: 我不使用杠杆。", True),
        ("我不使用杠杆，买什么？", "我不使用杠杆。", True),  # a fact taken from the message is memory
        ("杠杆", "我不使用杠杆。", True),  # the target is not in the message
        ("好的", "我不使用杠杆。好的", True),
    ],
)
def test_copies_of_the_message_being_answered_are_no_memory(question: str, text: str, counts: bool) -> None:
    sources = {
        "short_term": RecallTrace(short_term_context=text),
        "long_term": RecallTrace(items=[RecallItem(content=text)]),
        "profile": RecallTrace(profile_context=text),
    }
    for source, recall in sources.items():
        asked = turn(recall, question)
        expected = [source] if counts else []
        assert detect_key_hits_from_memory_sources("不使用杠杆", asked) == expected
        assert detect_key_hits_from_memory_sources("不使用杠杆", msgspec.to_builtins(asked)) == expected
        hit = DialogKeys(dialog()).hit("profile_gt.constraints_gt[0]", memory_sources(asked), 4)
        assert hit is not None
        assert (hit.sources, hit.guarded) == (expected, counts)


def test_a_copy_of_the_message_counts_for_what_was_reported_before() -> None:
    keys, key = DialogKeys(dialog()), "profile_gt.risk_level_gt"
    asked = turn(RecallTrace(profile_context="风险：稳健"), "稳健")
    before, other = turn(RecallTrace(items=[RecallItem(content="她偏稳健")])), turn(None)
    own = keys.hit(key, memory_sources(asked), 4, [other, asked])  # reported only as an answer is under way
    known = keys.hit(key, memory_sources(asked), 4, [before, other])
    gone = keys.hit(key, memory_sources(other), 4, [before])
    assert own is not None
    assert known is not None
    assert gone is not None
    assert (own.sources, own.guarded) == ([], False)
    assert (known.sources, known.guarded) == (["profile"], True)
    assert gone.sources == []


@each_case(
    ("target", "field", "text"),
    [
        ("高", "liquidity_need_gt", "你的流动性需求比较高"),
        ("高", "liquidity_need_gt", "我有较高的流动性要求"),
        ("高", "liquidity_need_gt", "流动性：高"),
        ("中", "liquidity_need_gt", '{"liquidity_need": "中", "risk_level": "稳健"}'),
        ("中", "liquidity_need_gt", "风险: 稳健, 流动性: 中"),
        ("稳健", "risk_level_gt", "作为稳健型投资者"),
        ("稳健", "risk_level_gt", "风险偏好稳健"),
        ("稳健", "risk_level_gt", "Risk level = 稳健"),
        ("股票", "preferences_gt", "偏好：基金、债券、股票"),
        ("债券", "preferences_gt", '"preferred_topics": ["基金", "债券"]'),
        ("好的", "history", "user: 好的\nassistant: 请讲"),
        ("不使用杠杆", "constraints_gt", "他说过不使用杠杆"),
    ],
)
def test_a_guarded_hit_stands_beside_its_field(target: str, field: str, text: str) -> None:
    for sources in (
        MemorySources(text, [], ""),
        MemorySources("", ["无关", text], ""),
        MemorySources("", [], text),
    ):
        assert guarded_hit(target, field, sources)


@each_case(
    ("target", "field", "text"),
    [
        ("高", "liquidity_need_gt", "收益很高"),
        ("高", "liquidity_need_gt", "流动性一般，收益很高"),
        ("低", "liquidity_need_gt", "高流动性、低风险的工具"),
        ("高", "liquidity_need_gt", "流动性管理类产品的长期年化收益率往往更高"),
        ("中", "liquidity_need_gt", "风险: 中, 流动性: 高"),
        ("稳健", "risk_level_gt", "稳健的现金流"),
        ("股票", "preferences_gt", "偏好：基金\n股票"),
        ("好的", "history", "user: 不是很好的"),
    ],
)
def test_a_chance_occurrence_of_a_short_target_is_no_guarded_hit(target: str, field: str, text: str) -> None:
    sources = MemorySources(text, [text], text)
    assert sources.hits(target)
    assert not guarded_hit(target, field, sources)


def test_a_guarded_hit_needs_the_target() -> None:
    assert not guarded_hit("高", "liquidity_need_gt", MemorySources("流动性：低", [], ""))
    assert not guarded_hit("不使用杠杆", "constraints_gt", MemorySources("约束：无", [], ""))


@each_case(
    ("key", "position", "expected"),
    [
        ("profile_gt.risk_level_gt", 0, "unrevealed"),  # shown at this very turn, not earlier
        ("profile_gt.risk_level_gt", 2, "recoverable"),
        ("profile_gt.liquidity_need_gt", 2, "unrevealed"),
        ("profile_gt.liquidity_need_gt", 4, "recoverable"),
        ("profile_gt.horizon_gt", 4, "unrevealed"),
        ("profile_gt.constraints_gt[0]", 4, "unrevealed"),  # only the reference reply says it
        ("history_turn_index:1", 0, "self_reference"),
        ("history_turn_index:1", 2, "recoverable"),
        ("history_turn_index:2", 2, "self_reference"),
        ("history_turn_index:3", 2, "unrevealed"),
        ("history_turn_index:4", 4, "unrevealed"),  # a reference reply the agent never saw
    ],
)
def test_recoverability_in_free_history(key: str, position: int, expected: str) -> None:
    assert DialogKeys(dialog()).recoverability(key, position) == expected


@each_case(
    ("key", "position", "expected"),
    [
        ("profile_gt.constraints_gt[0]", 2, "unrevealed"),
        ("profile_gt.constraints_gt[0]", 4, "recoverable"),
        ("profile_gt.preferences_gt[0]", 0, "unrevealed"),
        ("profile_gt.preferences_gt[0]", 2, "recoverable"),
        ("history_turn_index:4", 2, "unrevealed"),
        ("history_turn_index:4", 4, "recoverable"),
        ("history_turn_index:6", 4, "unrevealed"),
    ],
)
def test_forced_history_shows_the_reference_replies(key: str, position: int, expected: str) -> None:
    assert DialogKeys(dialog(), "forced").recoverability(key, position) == expected


@pytest.mark.parametrize("history_mode", ["free", "forced"])
def test_the_cost_of_a_turn_does_not_grow_with_the_dialogue(history_mode: HistoryMode) -> None:
    keys = [
        "profile_gt.risk_level_gt",
        "profile_gt.constraints_gt[1]",
        "profile_gt.preferences_gt[0]",
        "history_turn_index:1",
    ]
    sources = MemorySources("user: 稳健", [], "")

    def calls_a_turn(pairs: int) -> float:
        texts = [("user", "我再想想别的问题。" * 5), ("assistant", "好的，请继续说。" * 30)] * pairs
        given = dialog(texts)
        calls = 0

        def count(frame: FrameType, event: str, arg: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            prepared = DialogKeys(given, history_mode)
            for pair in range(pairs):
                for key in keys:
                    prepared.hit(key, sources, 2 * pair)
        finally:
            sys.setprofile(before)
        return calls / pairs

    assert calls_a_turn(400) < 1.3 * calls_a_turn(13)


def recorded_lines(path: Path) -> list[Any]:
    if not path.exists():
        pytest.skip(f"the recorded run is not here: {path.name}")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_the_recorded_keys_and_hits_are_reproduced() -> None:
    dialogs = {plain["dialog_id"]: plain for plain in recorded_lines(RECORDED / "MemFinConv.jsonl")}
    rows = {(row["dialog_id"], row["turn_pair_id"]): row for row in recorded_lines(RUN / "turn_eval.jsonl")}
    seen = 0
    for plain in recorded_lines(RUN / "dialog_trace.jsonl"):
        trace = msgspec.convert(plain, DialogTrace)
        prepared = DialogKeys(msgspec.convert(dialogs[trace.dialog_id], Dialog))
        for recorded_turn in trace.turns:
            row = rows[trace.dialog_id, recorded_turn.turn_pair_id]
            sources = memory_sources(recorded_turn)
            required = recorded_turn.gt_turn_tags.memory_required_keys_gt
            hits = [prepared.hit(key, sources, recorded_turn.user_turn_abs_idx) for key in required]
            assert [msgspec.to_builtins(prepared.resolve(key)) for key in required] == row["resolved_keys"]
            assert [hit and hit.sources for hit in hits] == row["key_hit_sources"]
            seen += len(required)
    assert seen == 78
