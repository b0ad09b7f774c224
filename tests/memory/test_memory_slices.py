"""Slices within their budgets, cut where nothing is broken, and counted as they are."""

from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memfin.contracts.memory import ContextFields, SliceName
from memfin.memory.slices import CONSENT, SLICES, Material, assemble, plan_reads
from memfin.memory.tokens import (
    OMITTED,
    boundary_before,
    estimate_tokens,
    fitted_items,
    fitted_text,
    safe_cut,
)
from tests.memory.stored_contexts import ALL, PROFILE, TASK, THREAD, thread, thread_context
from tests.support import each_case

FAMILY: Final = "👨‍👩‍👧‍👦"
FLAG: Final = "🇨🇳"
CLUSTERS: Final = [
    FAMILY,
    FLAG,
    "e\u0301",
    "a\u0323\u0308",
    "\u1100\u1161\u11a8",
    "\uac00\u11a8",
    "\u1100\uac00",
    "\u0928\u093f",
    "\u0915\u094d\u0937",
    "\U0001f44d\U0001f3fd",
    "\u2764\ufe0f",
    "1\ufe0f\u20e3",
    "\u0e01\u0e33",
    "\r\n",
    "\uff76\uff9e",
    "\u0600\u0661",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f",
]


def codes(text: str) -> str:
    return "-".join(f"{ord(character):x}" for character in text)


def itself(text: str) -> str:
    return text


@each_case("cluster", CLUSTERS, ids=codes)
def test_no_boundary_lies_inside_a_character_as_readers_see_it(cluster: str) -> None:
    text = f"中{cluster}文"
    for at in range(1, len(cluster) + 1):
        assert boundary_before(text, at) == 1
    assert boundary_before(text, 1 + len(cluster)) == 1 + len(cluster)
    assert boundary_before(text, 0) == 0
    assert boundary_before(text, len(text) + 3) == len(text)


def test_flags_are_told_apart_in_pairs() -> None:
    text = 3 * FLAG
    assert [boundary_before(text, at) for at in range(7)] == [0, 0, 2, 2, 4, 4, 6]


pieces = st.lists(
    st.sampled_from([*CLUSTERS, "股", "a", " ", "，", "。", "12万", "3.5%", "word ", ". "]), max_size=60
)


@given(pieces, st.integers(1, 60))
@example([FAMILY] * 20, 9)
@example(["股"] * 20, 5)
def test_what_is_cut_fits_and_breaks_no_character_and_no_number(parts: list[str], budget: int) -> None:
    text = "".join(parts)
    kept = fitted_text(text, budget, itself)
    if estimate_tokens(text) < budget:
        assert kept == text
        return
    assert not kept or estimate_tokens(kept) < budget
    assert not kept or kept.endswith(OMITTED)
    head = kept.removesuffix(OMITTED)
    assert text.startswith(head)
    at = len(head)
    assert boundary_before(text, at) == at
    assert not head or not (head[-1].isdigit() and text[at].isdigit())
    assert not head or not (head[-1].isdigit() and text[at] in "万.")


@each_case(
    ("text", "most", "kept"),
    [
        ("不追高。单一仓位不超过30%，保留现金", 12, "不追高。单一仓位不超过"),
        ("不追高，不加杠杆，保留现金", 11, "不追高，不加杠杆，"),
        ("亏损不超过12万元", 7, "亏损不超过"),
        ("亏损不超过12万元", 8, "亏损不超过"),
        ("at most 12,500 in total", 11, "at most "),
        ("at most 12,500 in total", 15, "at most "),
        ("no leverage, no shorting at all", 20, "no leverage,"),
        ("权益不超过四成五", 6, "权益不超过"),
        ("abcdefgh", 5, "abcde"),
        ("2026", 2, ""),
        ("短", 9, "短"),
        ("at a PE > 30 only", 10, "at a PE "),
        ("回撤<10%就卖", 4, "回撤"),
        ("回撤 <= ¥5,000", 6, "回撤 "),
    ],
)
def test_a_cut_comes_behind_a_clause_or_word_and_not_in_a_number(text: str, most: int, kept: str) -> None:
    assert text[: safe_cut(text, most)] == kept


def test_a_number_that_fills_the_budget_is_left_out() -> None:
    assert fitted_text("9" * 4000, 20, itself) == ""


def test_items_are_kept_whole_and_what_is_left_out_shows() -> None:
    items = ["不使用杠杆", "最大回撤<10%", "保留20%现金"]
    assert fitted_items(items, 100, "".join) == items
    assert fitted_items(items, 13, "".join) == ["不使用杠杆", "最大回撤<10%", OMITTED]
    assert fitted_items(items, 9, "".join) == ["不使用杠杆", OMITTED]
    assert fitted_items(["不使用杠杆，也不做短线交易"], 9, "".join) == ["不使用杠杆，…"]
    assert fitted_items([], 9, "".join) == []
    assert fitted_items(["9" * 100, "a"], 9, "".join) == []


def test_the_estimate_is_one_a_chinese_character_and_one_per_four_others() -> None:
    texts = ("", "稳健", "abcdefgh", "abcde", "稳健 abcd", "\ud800")
    assert [estimate_tokens(text) for text in texts] == [0, 2, 2, 2, 4, 1]


def everything(text: str) -> Any:
    plan = plan_reads("thread_refresh", ALL, thread_id="t1").replace(
        wanted=tuple(SLICES), open=frozenset(CONSENT)
    )
    material = Material(
        profile=PROFILE.replace(risk_prompt_preference="permission_or_credential"),
        thread=(thread_context(1, user_focus_reason=text, research_style=text),),
        threads=tuple(
            thread(number, title=text[:200], cognition_object={"type": text, "name": text})
            for number in range(3)
        ),
        drift_signals=10**6,
        items=(text, text),
    )
    constraints = [f"{number}{text[:300]}" for number in range(50)]
    said = ContextFields(user_stated_position_context=text, constraints=constraints, time_horizon=text)
    return assemble(plan, material, said)


@pytest.mark.parametrize("text", ["长" * 4000, "word " * 800, FAMILY * 500, '"' * 4000, "\\<" * 2000])
def test_no_slice_is_as_large_as_its_budget(text: str) -> None:
    found = everything(text)
    assert [each.name for each in found.slices] == list(SLICES)
    for each in found.slices:
        assert each.tokens == estimate_tokens(each.line) < SLICES[each.name].budget


def test_long_titles_leave_room_for_all_three_threads() -> None:
    named = everything("题" * 200).value("S6")
    assert isinstance(named, tuple)
    assert len(named) == 3
    assert all(title.endswith(OMITTED) for title in named)


def test_the_estimate_of_a_context_is_the_sum_over_its_slices() -> None:
    found = assemble(
        plan_reads("thread_refresh", ALL, thread_id="t1"),
        Material(profile=PROFILE, thread=(THREAD,), drift_signals=2),
        TASK,
    )
    lines = found.block.text.split("\n")[1:-1]
    assert found.attributes.total_memory_tokens_estimated == sum(map(estimate_tokens, lines)) == 46


@each_case("name", SLICES)
def test_each_slice_has_a_budget_a_label_and_sources_in_the_order_they_win(name: SliceName) -> None:
    order = ("task", "thread", "profile", "threads", "drift", "items", "default")
    assert sorted(SLICES[name].sources, key=order.index) == list(SLICES[name].sources)
    assert estimate_tokens(SLICES[name].label) < SLICES[name].budget


def test_position_and_horizon_come_from_the_first_source_and_constraints_from_all() -> None:
    plan = plan_reads("pre_execution", ALL, thread_id="t1")
    stored = Material(profile=PROFILE, thread=(THREAD,))
    everything = assemble(plan, stored, TASK)
    assert everything.value("S7") == "task position"
    assert everything.value("S8") == ("task constraint", "thread constraint", "profile constraint")
    assert everything.value("S10") == "profile horizon"
    kept = assemble(plan, stored)
    assert kept.value("S7") == "thread position"
    assert kept.value("S8") == ("thread constraint", "profile constraint")
    alone = assemble(plan_reads("pre_execution", ALL), stored)
    assert [alone.value(name) for name in ("S7", "S8", "S10")] == [
        "profile position",
        ("profile constraint",),
        "profile horizon",
    ]


def test_a_constraint_of_several_sources_is_named_once_and_closed_sources_add_none() -> None:
    twice = Material(
        profile=PROFILE.replace(constraints=["no leverage", "no shorting"]),
        thread=(THREAD.replace(constraints=["no shorting"]),),
    )
    task = ContextFields(constraints=["no leverage"])
    plan = plan_reads("pre_execution", ALL, thread_id="t1")
    assert assemble(plan, twice, task).value("S8") == ("no leverage", "no shorting")
    closed = plan_reads("pre_execution", ALL.replace(save_to_thread=False, save_to_profile=False))
    assert assemble(closed, twice, task).value("S8") == ("no leverage",)
    assert assemble(closed, twice).attributes.slices_blocked_by_consent == ["S7", "S8", "S10", "S11"]


def test_what_is_partly_set_is_filled_up_with_defaults() -> None:
    profile = PROFILE.replace(research_depth=None, risk_prompt_preference=None)
    found = assemble(plan_reads("snapshot", ALL), Material(profile=profile))
    assert [(each.value, each.source) for each in found.slices] == [
        ("zh", "profile"),
        ("standard", "default"),
        ("balanced", "default"),
    ]


def test_cold_start_says_english_standard_balanced_and_nothing_else() -> None:
    found = assemble(plan_reads("snapshot", None), Material())
    assert found.block.text == (
        "<user_context>\nlanguage_preference: en\nresearch_depth: standard\n"
        "risk_prompt_preference: balanced\n</user_context>"
    )
    told = found.attributes
    assert told.slices_loaded == ["S1", "S2", "S3"]
    assert told.slices_skipped_missing == told.slices_blocked_by_consent == []
    assert told.total_memory_tokens_estimated == 6 + 6 + 8


def test_the_clusters_have_parts() -> None:
    assert all(len(cluster) > 1 for cluster in CLUSTERS)
