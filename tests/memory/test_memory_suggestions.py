"""What is suggested to a person: what they did last, under the consent in force, and nothing else."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memfin.contracts.memory import Preferences, Route
from memfin.memory import MemoryStore
from memfin.memory.errors import InvalidId
from memfin.memory.suggestions import EXAMPLES, FIRST_TASKS
from tests.memory.memory_world import EVERYTHING, NOTHING_KEPT, SECOND, Clock, open_store

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
    assert store.suggestions("u1").task_types == FIRST_TASKS
    do(store, "evidence_audit", "snapshot", "evidence_audit")
    assert store.suggestions("u1").task_types == ("evidence_audit", "snapshot", "thread_refresh")
    for _ in range(5):
        do(store, "narrative_mapper")
    do(store, "pre_execution")
    found = store.suggestions("u1")
    assert found.task_types == ("pre_execution", "narrative_mapper", "evidence_audit")
    assert found.example_question == EXAMPLES["zh"]["deep"]
    assert found.refresh_conditions["other"] == ("new_evidence",)


def test_tasks_are_known_for_24_hours(store: MemoryStore, clock: Clock) -> None:
    store.grant_consent("u1", EVERYTHING)
    do(store, "evidence_audit")
    begun = clock.now
    clock.now = begun + DAY - 2 * SECOND
    assert store.suggestions("u1").task_types[0] == "evidence_audit"
    clock.now = begun + DAY - SECOND
    assert store.suggestions("u1").task_types == FIRST_TASKS


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
    assert store.suggestions("u1").task_types == FIRST_TASKS
    with pytest.raises(InvalidId):
        store.suggestions("../u1")
