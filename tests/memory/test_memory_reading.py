"""What a store gives tasks: under consent, after revocation, of threads, drift and other people."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from memfin.contracts.memory import ConsentScopes, ContextFields, Preferences, Route
from memfin.memory.errors import ConsentRequired, InvalidId, InvalidInput, NotFound
from memfin.memory.paths import new_id
from memfin.memory.reading import advisor_order
from memfin.memory.slices import LoadedMemory
from memfin.memory.store import MemoryStore
from tests.memory.memory_world import SECOND, START, Clock
from tests.memory.stored_contexts import ALL, TASK

ROUTES: Final[tuple[Route, ...]] = get_args(Route)
PREFERENCES: Final = Preferences(
    language_preference="zh",
    research_depth="deep",
    risk_prompt_preference="risk_first",
    user_focus_reason="为退休准备",
)
STYLE: Final = ContextFields(research_style="chart first", user_focus_reason="rates", research_depth="quick")
PROMPT: Final = "compare with my threads"


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Any:
    with MemoryStore(tmp_path / "data", clock=clock) as opened:
        yield opened


def settle_in(store: MemoryStore, user_id: str, scopes: ConsentScopes = ALL) -> str:
    """Let somebody consent, save what they prefer and a thread with its style; return the thread."""
    consent = store.grant_consent(user_id, scopes, PREFERENCES)
    if not scopes.save_to_thread:
        return "none"
    saved = store.save_thread(
        user_id,
        "snap_1",
        f"Thread of {user_id}",
        {"type": "theme", "name": "rates"},
        save_user_context=True,
        consent_id=consent.consent_id,
        context=STYLE,
    )
    return saved.thread_id


def drifted(store: MemoryStore, user_id: str, at: datetime) -> None:
    name = new_id("drift", user_id, at, lambda _: False)
    store.workspace.files.save(store.workspace.paths.drift_record(user_id, name), b"{}")


def all_of(store: MemoryStore, user_id: str, thread_id: str | None, task: Any = None) -> list[LoadedMemory]:
    return [store.load_memory_slices(user_id, route, thread_id, task, prompt=PROMPT) for route in ROUTES]


def test_a_store_gives_what_was_saved(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")
    drifted(store, "u1", START)
    found = store.load_memory_slices("u1", "thread_refresh", thread_id)
    assert found.block.text == (
        "<user_context>\nlanguage_preference: zh\nresearch_depth: quick\nrisk_prompt_preference: risk_first\n"
        'user_focus_reason: "rates"\nresearch_style: "chart first"\ndrift_signals_last_30_days: 1\n'
        "</user_context>"
    )
    assert found.attributes.slices_loaded == ["S1", "S2", "S3", "S4", "S5", "S9"]
    snapshot = store.load_memory_slices("u1", "snapshot", prompt=PROMPT)
    assert snapshot.value("S6") == ("Thread of u1 (theme: rates)",)


def test_a_profile_holds_for_tasks_outside_threads_and_the_focus_is_in_it(store: MemoryStore) -> None:
    settle_in(store, "u1")
    found = store.load_memory_slices("u1", "thread_refresh")
    assert (found.value("S2"), found.value("S4"), found.value("S5")) == ("deep", "为退休准备", None)
    assert found.attributes.slices_skipped_missing == ["S5"]


def test_what_is_saved_in_profile_and_thread_reaches_later_tasks(store: MemoryStore) -> None:
    consent = store.grant_consent("u1", ALL, PREFERENCES)
    saved = {"time_horizon": "三年", "constraints": ["不用杠杆"], "user_stated_position_context": "只有存款"}
    store.review_profile("u1", saved)
    thread = store.save_thread(
        "u1",
        "snap_1",
        "黄金",
        {},
        save_user_context=True,
        consent_id=consent.consent_id,
        context={"constraints": ["最大回撤<10%"], "user_stated_position_context": "三成黄金"},
    )
    store.refresh_thread("u1", thread.thread_id, user_supplied_context={"time_horizon": "一年"})
    alone = store.start_task("u1", "pre_execution").memory
    assert [alone.value(name) for name in ("S7", "S8", "S10")] == ["只有存款", ("不用杠杆",), "三年"]
    fields = {"constraints": ["不做空"]}
    task = store.start_task("u1", "pre_execution", thread_id=thread.thread_id, fields=fields).memory
    assert [task.value(name) for name in ("S7", "S8", "S10")] == [
        "三成黄金",
        ("不做空", "最大回撤<10%", "不用杠杆"),
        "一年",
    ]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"horizont": "三年"}, "horizont: is not a known field; known fields: language_preference, "),
        ({"constraints": "不用杠杆"}, "constraints: Expected `array`, got `str`"),
        ({"constraints": [3]}, "constraints[0]: Expected `str`, got `int`"),
        (ContextFields(research_depth="deepest"), "research_depth: Invalid enum value 'deepest'"),  # type: ignore[arg-type]
    ],
)
def test_an_unknown_field_and_a_wrong_type_are_refused_wherever_fields_are_given(
    store: MemoryStore, given: Any, path: str
) -> None:
    thread_id = settle_in(store, "u1")
    consent = store.grant_consent("u1", ALL)
    named: Any = {"save_user_context": True, "consent_id": consent.consent_id, "context": given}
    calls: dict[str, Callable[[], object]] = {
        "overrides.": lambda: store.load_memory_slices("u1", "pre_execution", None, given),
        "fields.": lambda: store.start_task("u1", "pre_execution", fields=given),
        "context.": lambda: store.save_thread("u1", "snap_2", "title", {}, **named),
        "user_supplied_context.": lambda: store.refresh_thread("u1", thread_id, user_supplied_context=given),
    }
    before = sorted(store.root.rglob("*.json"))
    for prefix, call in calls.items():
        with pytest.raises(InvalidInput) as refused:
            call()
        assert str(refused.value).startswith(prefix + path)
        assert "\n" not in str(refused.value)
    assert sorted(store.root.rglob("*.json")) == before


@pytest.mark.parametrize("task", [None, TASK], ids=["nothing said", "task speaks"])
def test_after_revocation_everything_is_as_for_somebody_who_was_never_known(
    store: MemoryStore, task: ContextFields | None
) -> None:
    thread_id = settle_in(store, "u1")
    drifted(store, "u1", START)
    before = all_of(store, "u1", thread_id, task)
    store.revoke_consent("u1")
    assert all_of(store, "u1", thread_id, task) == all_of(store, "nobody", thread_id, task)
    assert all_of(store, "u1", None, task) == all_of(store, "nobody", None, task)
    assert all(now != then for now, then in zip(all_of(store, "u1", thread_id, task), before, strict=True))


def test_a_consent_that_cannot_be_read_opens_nothing(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")
    store.workspace.paths.consent("u1").write_bytes(b"user_id: [")
    assert all_of(store, "u1", thread_id, TASK) == all_of(store, "nobody", thread_id, TASK)


def test_one_scope_taken_back_closes_its_slices_alone(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")
    store.revoke_consent("u1", scope="save_to_profile")
    found = store.load_memory_slices("u1", "thread_refresh", thread_id)
    assert {each.name: each.source for each in found.slices} == {
        "S1": "default",
        "S2": "thread",
        "S3": "default",
        "S4": "thread",
        "S5": "thread",
    }
    assert found.attributes.slices_blocked_by_consent == ["S9"]
    store.revoke_consent("u1", scope="save_to_thread")
    found = store.load_memory_slices("u1", "thread_refresh", thread_id)
    assert found.attributes.slices_loaded == ["S1", "S2", "S3"]


def test_consent_given_anew_does_not_bring_back_what_was_blocked(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")
    store.revoke_consent("u1")
    store.grant_consent("u1", ALL)
    found = store.load_memory_slices("u1", "thread_refresh", thread_id)
    assert {each.source for each in found.slices} == {"default"}
    assert found.attributes.slices_blocked_by_consent == ["S4", "S5"]


def test_a_thread_whose_preferences_were_forgotten_gives_none(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")
    store.patch_thread("u1", thread_id, consent_blocked=True)
    found = store.load_memory_slices("u1", "risk_challenge", thread_id)
    assert found.value("S5") is None
    assert found.attributes.slices_blocked_by_consent == ["S5"]
    assert store.load_memory_slices("u1", "snapshot", prompt=PROMPT).value("S6") is None


@pytest.mark.parametrize("route", ["thread_refresh", "snapshot"])
def test_a_thread_of_somebody_else_is_as_one_that_does_not_exist(store: MemoryStore, route: Route) -> None:
    settle_in(store, "u1")
    foreign = settle_in(store, "u2")
    told = []
    for thread_id in (foreign, "thread_unknown"):
        with pytest.raises(NotFound) as raised:
            store.load_memory_slices("u1", route, thread_id)
        told.append((str(raised.value), raised.value.code, dict(raised.value.details)))
    assert told[0] == told[1]
    mine = store.load_memory_slices("u1", "snapshot", prompt=PROMPT)
    assert mine.value("S6") == ("Thread of u1 (theme: rates)",)


def test_drift_counts_for_thirty_days_to_the_second(store: MemoryStore, clock: Clock) -> None:
    thread_id = settle_in(store, "u1")
    for age in (timedelta(days=30) - SECOND, timedelta(days=30), timedelta(days=30) + SECOND):
        drifted(store, "u1", START - age)
    assert store.load_memory_slices("u1", "thread_refresh", thread_id).value("S9") == 1
    clock.now += SECOND
    assert store.load_memory_slices("u1", "thread_refresh", thread_id).value("S9") is None


def test_files_that_cannot_be_read_cost_their_own_slices(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")
    (context,) = store.thread_contexts("u1", thread_id)
    store.workspace.paths.thread_context("u1", thread_id, context.context_id).write_bytes(b"{")
    found = store.load_memory_slices("u1", "thread_refresh", thread_id)
    assert (found.value("S2"), found.attributes.slices_skipped_missing) == ("deep", ["S5"])
    store.workspace.paths.thread("u1", thread_id).write_bytes(b"{")
    found = store.load_memory_slices("u1", "thread_refresh", thread_id)
    assert found.attributes.slices_blocked_by_consent == ["S5"]
    assert store.load_memory_slices("u1", "snapshot", prompt=PROMPT).value("S6") is None
    profile = store.read_profile("u1")
    assert profile is not None
    store.workspace.paths.profile("u1", profile.context_id).write_bytes(b"{")
    assert store.load_memory_slices("u1", "snapshot").value("S2") == "standard"


def test_a_thread_or_context_under_anothers_name_is_not_read(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")
    header = store.workspace.paths.thread("u1", thread_id)
    own = header.read_bytes()
    header.write_bytes(own.replace(b'"user_id":"u1"', b'"user_id":"u9"'))
    assert store.load_memory_slices("u1", "snapshot", prompt=PROMPT).value("S6") is None
    header.write_bytes(own)
    (context,) = store.thread_contexts("u1", thread_id)
    path = store.workspace.paths.thread_context("u1", thread_id, context.context_id)
    path.write_bytes(path.read_bytes().replace(b'"user_id":"u1"', b'"user_id":"u9"'))
    assert store.load_memory_slices("u1", "thread_refresh", thread_id).value("S5") is None


def test_overrides_may_be_plain_data_and_are_checked(store: MemoryStore) -> None:
    settle_in(store, "u1")
    found = store.load_memory_slices("u1", "snapshot", None, {"research_depth": "quick"})
    assert found.value("S2") == "quick"
    for wrong in ({"research_depth": "endless"}, {"constraints": "none"}):
        with pytest.raises(InvalidInput, match=r"overrides\.\w"):
            store.load_memory_slices("u1", "snapshot", None, wrong)


def test_what_is_no_route_or_id_is_refused(store: MemoryStore) -> None:
    route: Any = "chat"
    with pytest.raises(InvalidInput, match="route: unknown"):
        store.load_memory_slices("u1", route)
    with pytest.raises(InvalidInput, match="route: unknown"):
        store.start_task("u1", route)
    for user_id, thread_id in (("../u1", None), ("u1", "../t1"), ("", None)):
        with pytest.raises(InvalidId):
            store.load_memory_slices(user_id, "snapshot", thread_id)


def test_reading_writes_nothing(store: MemoryStore) -> None:
    thread_id = settle_in(store, "u1")

    def tree() -> dict[Path, tuple[int, bytes]]:
        found = (path for path in store.root.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

    before = tree()
    all_of(store, "u1", thread_id, TASK)
    all_of(store, "nobody", None)
    assert tree() == before


def test_a_task_starts_with_its_memory_and_its_advisors(store: MemoryStore) -> None:
    settle_in(store, "u1")
    started = store.start_task("u1", "pre_execution", fields=TASK)
    assert started.memory == store.load_memory_slices("u1", "pre_execution", None, TASK)
    assert started.memory.value("S8") == ("task constraint",)
    assert started.advisor_order == advisor_order("pre_execution", "risk_first")
    assert started.context.task_id is not None
    assert store.task_context("u1", started.context.task_id) == started.context


def test_a_task_needs_consent_and_after_revocation_knows_nobody(store: MemoryStore) -> None:
    with pytest.raises(ConsentRequired) as raised:
        store.start_task("u1", "snapshot")
    assert raised.value.code == "profile_consent_required"
    assert raised.value.details["required_scopes"] == ["create_task"]
    settle_in(store, "u1")
    store.revoke_consent("u1")
    started = store.start_task("u1", "snapshot", prompt=PROMPT)
    assert started.memory == store.load_memory_slices("nobody", "snapshot", prompt=PROMPT)
    assert started.advisor_order == advisor_order("snapshot", None)
    store.grant_consent("u2", ALL.replace(create_task=False))
    with pytest.raises(ConsentRequired):
        store.start_task("u2", "snapshot")


def test_people_are_told_apart_by_where_they_stand(store: MemoryStore) -> None:
    assert store.onboarding_state("u1", known=False) == "brand_new"
    assert store.onboarding_state("u1") == "incomplete"
    settle_in(store, "u1")
    assert store.onboarding_state("u1") == "active"
    store.revoke_consent("u1")
    assert store.onboarding_state("u1") == "revoked"


def test_a_hint_is_taken_once_in_24_hours(store: MemoryStore, clock: Clock) -> None:
    assert store.take_hint("u1") is None
    store.grant_consent("u1", ALL)
    assert store.take_hint("u1") == "set_preferences"
    clock.now = START + timedelta(hours=24) - SECOND
    assert store.take_hint("u1") is None
    clock.now = START + timedelta(hours=24)
    assert store.take_hint("u1") == "set_preferences"
    store.review_profile("u1", {"research_depth": "deep"})
    clock.now += timedelta(hours=24)
    assert store.take_hint("u1") is None
    store.revoke_consent("u1")
    assert store.take_hint("u1") == "renew_consent"
    assert store.take_hint("u1") is None


def test_a_note_of_a_hint_that_cannot_be_read_is_written_anew(store: MemoryStore) -> None:
    store.grant_consent("u1", ALL)
    store.take_hint("u1")
    (store.workspace.paths.tree("hints", "u1") / "last.json").write_bytes(b"{")
    assert store.take_hint("u1") == "set_preferences"
    assert store.take_hint("u1") is None
