"""Advisors, skills, hints, suggestions and onboarding: the parts of a task that preferences change."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from memfin.contracts.memory import ConsentScopes, Preferences, ProfileConsent, RiskPromptPreference, Route
from memfin.errors import UsageError
from memfin.memory import MemoryStore
from memfin.memory.consent import onboarding_state
from memfin.memory.errors import InvalidId
from memfin.memory.reading import (
    PAUSE,
    Skill,
    advisor_order,
    advisors_for,
    example_question,
    hint_for,
    load_skills,
    recommended,
    suggested_tasks,
)
from memfin.memory.slices import LoadedMemory, Material, assemble, plan_reads
from memfin.memory.workspace import ConsentOnFile
from tests.memory.memory_world import EVERYTHING, NOTHING_KEPT, SECOND, Clock, open_store
from tests.memory.stored_contexts import ALL, NOW, PROFILE, thread
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


@each_case(
    ("text", "reason"),
    [
        ("[[skills]", "line 1"),
        ("[[skills]]\ntopics = []", "skill_id"),
        ('[[skills]]\nskill_id = "a"\nwords = []', "words"),
        ('[[skills]]\nskill_id = "a"\n[[skills]]\nskill_id = "a"', "twice"),
        ("", "skills"),
    ],
)
def test_a_skills_file_with_a_mistake_is_refused_in_one_line(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "skills.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        load_skills(path)
    assert str(refused.value).startswith(f"skills {path}: ")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_tasks_used_last_are_suggested_and_the_usual_ones_fill_up() -> None:
    assert suggested_tasks([]) == ("snapshot", "thread_refresh", "risk_challenge")
    assert suggested_tasks(["risk_challenge"]) == ("risk_challenge", "snapshot", "thread_refresh")
    used: list[Route] = ["evidence_audit", "evidence_audit", "pre_execution", "snapshot", "risk_challenge"]
    assert suggested_tasks(used) == (
        "evidence_audit",
        "pre_execution",
        "snapshot",
    )


def test_the_example_question_is_in_the_language_and_depth_that_were_set() -> None:
    assert example_question(memory("snapshot")).startswith("请深入分析沪深300指数基金的费用")
    assert example_question(memory("snapshot", None)).startswith(
        "Does a broad index fund suit a long horizon?"
    )
    assert example_question(memory("evidence_audit")).startswith("沪深300指数基金适合做长期配置吗？")


@each_case(
    ("state", "preferred", "hint"),
    [
        ("active", False, "set_preferences"),
        ("active", True, None),
        ("revoked", False, "renew_consent"),
        ("revoked", True, "renew_consent"),
        ("brand_new", False, None),
        ("incomplete", False, None),
    ],
)
def test_hints_are_for_those_they_help(state: Any, preferred: bool, hint: str | None) -> None:
    assert hint_for(state, None, NOW, preferred=preferred) == hint


@each_case("state", ["active", "revoked"])
@each_case(
    ("later", "due"),
    [
        (timedelta(0), False),
        (timedelta(hours=24) - SECOND, False),
        (timedelta(hours=24), True),
        (timedelta(hours=24) + SECOND, True),
        (-SECOND, False),
    ],
    ids=["at once", "a second early", "on time", "a second late", "clock set back"],
)
def test_no_hint_comes_again_within_24_hours(state: Any, later: timedelta, due: bool) -> None:
    assert (hint_for(state, NOW, NOW + later, preferred=False) is not None) == due
    assert timedelta(hours=24) == PAUSE


def on_file(**fields: Any) -> ConsentOnFile:
    known: dict[str, Any] = {
        "consent_id": "c1",
        "user_id": "u1",
        "version": 1,
        "scopes": ALL,
        "granted_at": NOW,
        "updated_at": NOW,
    }
    return ConsentOnFile(b"...", ProfileConsent(**(known | fields)))


@each_case(
    ("consent", "known", "state"),
    [
        (ConsentOnFile(None, None), False, "brand_new"),
        (ConsentOnFile(None, None), True, "incomplete"),
        (ConsentOnFile(b"{", None), False, "incomplete"),
        (ConsentOnFile(b"{", None), True, "incomplete"),
        (on_file(), True, "active"),
        (on_file(revoked_at=NOW), True, "revoked"),
    ],
    ids=["nothing", "token alone", "unreadable", "unreadable and known", "active", "revoked"],
)
def test_a_person_stands_where_the_file_says(consent: ConsentOnFile, known: bool, state: str) -> None:
    assert onboarding_state(consent, known=known) == state


DAY = timedelta(hours=24)


@pytest.fixture
def clock() -> Clock:
    return Clock(pace=SECOND)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[MemoryStore]:
    with open_store(tmp_path, clock) as store:
        yield store


def do(store: MemoryStore, *routes: Route) -> None:
    for route in routes:
        store.begin_task("u1", route)


def test_the_kinds_of_task_done_last_come_first(store: MemoryStore) -> None:
    store.grant_consent("u1", EVERYTHING, Preferences(language_preference="zh", research_depth="deep"))
    assert store.suggestions("u1").task_types == suggested_tasks([])
    do(store, "evidence_audit", "snapshot", "evidence_audit")
    assert store.suggestions("u1").task_types == ("evidence_audit", "snapshot", "thread_refresh")
    for _ in range(5):
        do(store, "narrative_mapper")
    do(store, "pre_execution")
    found = store.suggestions("u1")
    assert found.task_types == ("pre_execution", "narrative_mapper", "evidence_audit")
    assert found.example_question.startswith("请深入分析")
    assert found.refresh_conditions["other"] == ("new_evidence",)


def test_tasks_are_known_for_24_hours(store: MemoryStore, clock: Clock) -> None:
    store.grant_consent("u1", EVERYTHING)
    do(store, "evidence_audit")
    begun = clock.now
    clock.now = begun + DAY - 2 * SECOND
    assert store.suggestions("u1").task_types[0] == "evidence_audit"
    clock.now = begun + DAY - SECOND
    assert store.suggestions("u1").task_types == suggested_tasks([])


def test_a_person_without_consent_is_suggested_what_everybody_is(store: MemoryStore) -> None:
    stranger = store.suggestions("stranger")
    store.grant_consent("u1", EVERYTHING, Preferences(language_preference="zh"))
    do(store, "evidence_audit")
    assert store.suggestions("u1") != stranger
    store.revoke_consent("u1")
    do(store, "pre_execution")
    assert store.suggestions("u1") == stranger
    store.grant_consent("u1", NOTHING_KEPT)
    assert store.suggestions("u1") == stranger  # nothing from before the consent


def test_what_cannot_be_read_and_is_another_users_is_passed_over(store: MemoryStore) -> None:
    store.grant_consent("u1", EVERYTHING)
    do(store, "evidence_audit", "pre_execution")
    first, second = sorted(store.workspace.paths.tasks("u1").iterdir())
    first.write_bytes(first.read_bytes().replace(b'"user_id":"u1"', b'"user_id":"u2"'))
    second.write_bytes(b"{")
    assert store.suggestions("u1").task_types == suggested_tasks([])
    with pytest.raises(InvalidId):
        store.suggestions("../u1")
