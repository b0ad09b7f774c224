"""Every route with every slice under every state of consent, against a table that is read by people."""

import json
import os
from pathlib import Path
from typing import Any, Final, get_args

from memfin.contracts.memory import ConsentScopes, ContextFields, Route, SliceName
from memfin.memory.consent import NOTHING
from memfin.memory.slices import (
    MATRIX,
    SLICES,
    Material,
    assemble,
    plan_reads,
    refers_to_threads,
    wanted_slices,
)
from tests.memory.stored_contexts import ALL, PROFILE, TASK, THREAD, item, thread, thread_context
from tests.support import each_case

GOLDEN: Final = Path(__file__).parent / "golden" / "routes.json"
"""Written anew with TESTS_WRITE_GOLDEN=1; read the difference before it is committed."""

ROUTES: Final[tuple[Route, ...]] = get_args(Route)

PROMPT: Final = "对比一下我的 thread"

FULL: Final = Material(
    profile=PROFILE, thread=(THREAD,), threads=(thread(1), thread(2)), drift_signals=4, items=(item("item"),)
)

# Scopes in force, what is stored, and what the task says, by the name of the state.
STATES: Final[dict[str, tuple[ConsentScopes | None, Material, ContextFields | None]]] = {
    "consent not in force": (None, FULL, TASK),
    "consent not in force, nothing said": (None, FULL, None),
    "all scopes": (ALL, FULL, TASK),
    "all scopes, nothing said": (ALL, FULL, None),
    "all scopes, nothing stored": (ALL, Material(), None),
    "profile alone": (NOTHING.replace(save_to_profile=True), FULL.replace(thread=(), threads=()), TASK),
    "threads alone": (
        NOTHING.replace(save_to_thread=True),
        FULL.replace(profile=None, drift_signals=0, items=()),
        TASK,
    ),
    "tasks alone": (NOTHING.replace(create_task=True), FULL, TASK),
    "thread forgotten": (ALL, FULL.replace(thread_blocked=True), TASK),
    "contexts blocked": (
        ALL,
        FULL.replace(
            profile=PROFILE.replace(consent_blocked=True),
            thread=(THREAD.replace(consent_blocked=True),),
            threads=(thread(1, consent_blocked=True),),
        ),
        TASK,
    ),
}


def row(state: str, route: Route, thread_id: str | None = "t1") -> dict[str, Any]:
    scopes, material, task = STATES[state]
    found = assemble(plan_reads(route, scopes, prompt=PROMPT, thread_id=thread_id), material, task)
    told = found.attributes
    return {
        "loaded": {each.name: each.source for each in found.slices},
        "missing": told.slices_skipped_missing,
        "blocked": told.slices_blocked_by_consent,
        "never": [name for name in SLICES if not any(name in part for part in told_of(told))],
    }


def told_of(told: Any) -> tuple[list[SliceName], ...]:
    return told.slices_loaded, told.slices_skipped_missing, told.slices_blocked_by_consent


def test_all_routes_under_all_states_are_as_the_table_says() -> None:
    found = {state: {route: row(state, route) for route in ROUTES} for state in STATES}
    if os.environ.get("TESTS_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())


# The matrix once more, in the order S1 to S11: R required, o optional, . never.
MARKS: Final[dict[Route, str]] = {
    "snapshot": "RRR..o.....",
    "thread_refresh": "RRRRR...o..",
    "risk_challenge": "R.R.o......",
    "pre_execution": "RRR...oo.oo",
    "evidence_audit": "R..........",
    "narrative_mapper": "RR...o.....",
    "event_impact_reader": "RR...o.....",
}


@each_case("route", ROUTES)
def test_the_matrix_is_the_one_that_was_agreed(route: Route) -> None:
    plan = MATRIX[route]
    marks = dict.fromkeys(plan.required, "R") | dict.fromkeys(plan.optional, "o")
    assert "".join(marks.get(name, ".") for name in SLICES) == MARKS[route]


@each_case("route", ROUTES)
@each_case("state", STATES)
def test_a_route_has_nothing_of_a_slice_it_never_loads(state: str, route: Route) -> None:
    for thread_id in (None, "t1"):
        found = row(state, route, thread_id)
        for name, mark in zip(SLICES, MARKS[route], strict=True):
            assert (name in found["never"]) >= (mark == ".")


@each_case("route", ROUTES)
def test_whatever_is_stored_comes_out_as_nothing_where_no_consent_is_in_force(route: Route) -> None:
    for thread_id in (None, "t1"):
        plan = plan_reads(route, None, prompt=PROMPT, thread_id=thread_id)
        assert not plan.open
        for task in (None, TASK):
            assert assemble(plan, FULL, task) == assemble(plan, Material(), task)


@each_case("route", ROUTES)
def test_what_no_slice_needs_is_not_read(route: Route) -> None:
    needs = {
        "S4": {"thread", "profile"},
        "S5": {"thread"},
        "S6": {"threads"},
        "S9": {"drift"},
        "S11": {"items", "thread_items"},
    }
    plan = plan_reads(route, ALL, thread_id="t1")
    assert plan.open == {"thread", "profile"}.union(*(needs.get(name, set()) for name in plan.wanted))
    assert "thread" not in plan_reads(route, ALL).open


def test_titles_of_threads_come_to_a_snapshot_only_when_the_prompt_speaks_of_them() -> None:
    assert "S6" in wanted_slices("snapshot", prompt="Compare this with my threads")
    assert "S6" not in wanted_slices("snapshot", prompt="Is SOL overvalued?")
    assert "S6" in wanted_slices("narrative_mapper", prompt="Is SOL overvalued?")


def test_style_comes_to_a_risk_challenge_only_from_its_thread() -> None:
    def style(thread_id: str | None, material: Material, **said: Any) -> Any:
        plan = plan_reads("risk_challenge", ALL, thread_id=thread_id)
        return assemble(plan, material, ContextFields(**said)).value("S5")

    assert style("t1", FULL) == "thread style"
    assert style(None, FULL) is None
    assert style("t1", FULL.replace(thread=())) is None
    # The task's own style would win over the thread's, and is none of a thread.
    assert style("t1", FULL, research_style="task style") is None
    assert style(None, FULL, research_style="task style") is None


def test_the_task_wins_over_the_thread_and_the_thread_over_the_profile() -> None:
    def depth(material: Material, task: ContextFields | None = None) -> Any:
        found = assemble(plan_reads("thread_refresh", ALL, thread_id="t1"), material, task)
        return [(each.value, each.source) for each in found.slices if each.name == "S2"]

    threads = (thread_context(1, research_depth="quick"),)
    assert depth(FULL) == [("deep", "profile")]
    assert depth(FULL.replace(thread=threads)) == [("quick", "thread")]
    assert depth(FULL.replace(thread=threads), ContextFields(research_depth="standard")) == [
        ("standard", "task")
    ]
    assert depth(Material()) == [("standard", "default")]


def test_of_a_threads_contexts_the_newest_that_says_something_counts() -> None:
    contexts = (
        thread_context(1, research_style="first", user_focus_reason="focus"),
        thread_context(2, research_style="second"),
        thread_context(3, research_depth="quick"),
        thread_context(4, research_style="blocked", consent_blocked=True),
    )
    found = assemble(plan_reads("thread_refresh", ALL, thread_id="t1"), Material(thread=contexts))
    assert (found.value("S5"), found.value("S4"), found.value("S2")) == ("second", "focus", "quick")


def test_drift_is_a_number_and_none_is_no_lack() -> None:
    plan = plan_reads("thread_refresh", ALL, thread_id="t1")
    found = assemble(plan, FULL)
    assert [each.line for each in found.slices if each.name == "S9"] == ["drift_signals_last_30_days: 4"]
    none = assemble(plan, FULL.replace(drift_signals=0)).attributes
    assert "S9" not in none.slices_loaded + none.slices_skipped_missing + none.slices_blocked_by_consent


def test_three_threads_are_named_the_ones_touched_last_first() -> None:
    threads = (
        thread(1),
        thread(5),
        thread(3, title="Rates", cognition_object={"type": "theme", "name": "利率"}),
        thread(4, cognition_object={}),
        thread(7, status="closed"),
        thread(8, consent_blocked=True),
    )
    found = assemble(plan_reads("narrative_mapper", ALL), Material(threads=threads))
    assert found.value("S6") == ("Thread 5 (asset: A5)", "Thread 4", "Rates (theme: 利率)")


REFERRING: Final = [
    "对比一下我的 thread",
    "我的线程里有没有相关的？",
    "参考我之前保存的那几个主题",
    "看看我在跟踪的话题",
    "我那个研究主题怎么样了",
    "结合我最近的三条线程看",
    "我们讨论过的话题有变化吗",
    "Compare with my threads",
    "what changed in my SOL and ETH threads?",
    "use MY thread on rates",
    "the thread I saved last week",
    "the threads we've been... no, the threads I've opened",
    "a thread of mine covers that",
]
OTHER: Final = [
    "SOL 现在估值如何？",
    "我的主题基金亏了，怎么办",
    "我想买主题ETF",
    "这个话题很热",
    "我的持仓和别人的线程没有关系吗",
    "他的 thread 写得不错",
    "my threadbare portfolio",
    "my reading of the thread by the fund's manager",
    "Is there a common thread?",
    "他们的话题",
    "",
]


@each_case("prompt", REFERRING)
def test_a_prompt_speaks_of_the_users_threads(prompt: str) -> None:
    assert refers_to_threads(prompt)


@each_case("prompt", OTHER)
def test_a_prompt_does_not_speak_of_the_users_threads(prompt: str) -> None:
    assert not refers_to_threads(prompt)
