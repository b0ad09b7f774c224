"""Advisors in an order that a preference sets; skills and suggestions that follow from threads."""

from typing import Any, Final, get_args

import pytest

from memfin.contracts.memory import ConsentScopes, RiskPromptPreference, Route
from memfin.memory.slices import LoadedMemory, Material, assemble, plan_reads
from memfin.memory.suggestions import (
    ANY_OBJECT,
    EXAMPLES,
    REFRESH_CONDITIONS,
    Skill,
    advisor_order,
    advisors_for,
    example_question,
    recommended,
    refresh_conditions,
    suggested_tasks,
)
from tests.memory.stored_contexts import ALL, PROFILE, thread
from tests.support import each_case

ROUTES: Final[tuple[Route, ...]] = get_args(Route)
PREFERENCES: Final[tuple[RiskPromptPreference, ...]] = get_args(RiskPromptPreference)


def memory(route: Route, scopes: ConsentScopes | None = ALL, **profile: Any) -> LoadedMemory:
    return assemble(plan_reads(route, scopes), Material(profile=PROFILE.replace(**profile)))


@pytest.mark.parametrize(
    ("preference", "order"),
    [
        (None, ["asset_research", "market_macro", "risk", "counter_thesis"]),
        ("balanced", ["asset_research", "market_macro", "risk", "counter_thesis"]),
        ("counter_first", ["counter_thesis", "asset_research", "market_macro", "risk"]),
        ("risk_first", ["risk", "asset_research", "counter_thesis", "market_macro"]),
        ("permission_or_credential", ["asset_research", "market_macro", "risk", "counter_thesis"]),
    ],
)
def test_advisors_speak_in_the_order_of_the_preference(preference: Any, order: list[str]) -> None:
    assert list(advisor_order("snapshot", preference)) == order


@pytest.mark.parametrize("preference", [None, *PREFERENCES])
def test_before_execution_its_advisor_is_first_only_where_permissions_come_first(preference: Any) -> None:
    order = advisor_order("pre_execution", preference)
    assert order.index("pre_execution") == (0 if preference == "permission_or_credential" else 4)


@each_case("route", ROUTES)
def test_no_preference_adds_an_advisor_or_leaves_one_out(route: Route) -> None:
    orders = [advisor_order(route, preference) for preference in (None, *PREFERENCES)]
    assert len({frozenset(order) for order in orders}) == 1
    assert all(len(set(order)) == len(order) for order in orders)
    assert ("pre_execution" in orders[0]) == (route == "pre_execution")


@each_case("route", ROUTES)
def test_the_order_is_that_of_the_preference_where_the_route_loads_it(route: Route) -> None:
    first = advisors_for(memory(route, risk_prompt_preference="counter_first"))[0]
    loads = route in {"snapshot", "thread_refresh", "risk_challenge", "pre_execution"}
    assert (first == "counter_thesis") == loads


def test_without_consent_the_order_is_everybodys() -> None:
    assert advisors_for(memory("snapshot", None)) == advisor_order("snapshot", None)


SKILLS: Final = [
    Skill(skill_id="rates", topics=("利率", "rates")),
    Skill(skill_id="crypto", topics=("SOL", "ETH")),
    Skill(skill_id="plain"),
    Skill(skill_id="funds", topics=("fund", "")),
]


def with_threads(*titles: str, scopes: ConsentScopes | None = ALL) -> LoadedMemory:
    threads = tuple(thread(number, title=title, cognition_object={}) for number, title in enumerate(titles))
    return assemble(plan_reads("narrative_mapper", scopes), Material(threads=threads))


def ids(skills: list[Skill]) -> list[str]:
    return [skill.skill_id for skill in skills]


def test_skills_that_recent_threads_are_about_come_first_the_newest_before_older_ones() -> None:
    assert ids(recommended(SKILLS, with_threads("Index Funds", "sol staking"))) == [
        "crypto",
        "funds",
        "rates",
        "plain",
    ]


def test_skills_stay_in_their_order_without_threads_or_consent() -> None:
    expected = ["rates", "crypto", "plain", "funds"]
    assert ids(recommended(SKILLS, with_threads())) == expected
    assert ids(recommended(SKILLS, with_threads("sol", scopes=None))) == expected
    assert ids(recommended(SKILLS, memory("snapshot"))) == expected


def test_the_tasks_used_last_are_suggested_and_the_usual_ones_fill_up() -> None:
    assert suggested_tasks([]) == ("snapshot", "thread_refresh", "risk_challenge")
    assert suggested_tasks(["risk_challenge"]) == ("risk_challenge", "snapshot", "thread_refresh")
    used: list[Route] = ["evidence_audit", "evidence_audit", "pre_execution", "snapshot", "risk_challenge"]
    assert suggested_tasks(used) == (
        "evidence_audit",
        "pre_execution",
        "snapshot",
    )


@pytest.mark.parametrize("kind", ["asset", "theme", "event"])
def test_what_to_refresh_a_thread_on_follows_from_its_kind(kind: str) -> None:
    assert refresh_conditions({"type": kind, "owner": "u1"}) == REFRESH_CONDITIONS[kind]
    assert len(set(REFRESH_CONDITIONS.values())) == 3


@pytest.mark.parametrize("about", [{}, {"type": "dream"}, {"type": ["asset"]}])
def test_an_unknown_kind_has_the_general_suggestion(about: dict[str, Any]) -> None:
    assert refresh_conditions(about) == ANY_OBJECT


def test_the_example_question_is_in_the_language_and_depth_that_were_set() -> None:
    assert example_question(memory("snapshot")) == EXAMPLES["zh"]["deep"]
    assert example_question(memory("snapshot", None)) == EXAMPLES["en"]["standard"]
    assert example_question(memory("evidence_audit")) == EXAMPLES["zh"]["standard"]
