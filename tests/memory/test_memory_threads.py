"""Threads: saved under consent, refreshed by adding, forgotten and closed for good; and candidates."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from memfin.contracts.memory import (
    ChangeSummary,
    ContextFields,
    TrainingAssetCandidate,
    WatchQuestionUpdate,
)
from memfin.memory import MemoryStore
from memfin.memory.errors import (
    ConsentNotInForce,
    ConsentRequired,
    InvalidId,
    InvalidInput,
    NotFound,
    ThreadClosed,
)
from memfin.memory.records import load_all
from tests.memory.memory_disks import tree
from tests.memory.memory_world import EVERYTHING, NOTHING_KEPT, SECOND, START, Clock, open_store

STYLE = ContextFields(research_style="slow")


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[MemoryStore]:
    with open_store(tmp_path, clock) as opened:
        yield opened


def saved(store: MemoryStore, title: str = "gold", context: ContextFields | None = STYLE) -> str:
    """Save a thread with a context for u1, who consents to everything; return its id."""
    consent = store.consent_on_file("u1").in_force or store.grant_consent("u1", EVERYTHING)
    return store.save_thread(
        "u1",
        "snap_1",
        title,
        {"asset": "XAU"},
        save_user_context=True,
        consent_id=consent.consent_id,
        context=context,
    ).thread_id


def candidates(store: MemoryStore) -> list[TrainingAssetCandidate]:
    return list(
        load_all(store.workspace.files, store.workspace.paths.candidates("u1"), TrainingAssetCandidate)
    )


def test_a_thread_is_saved_with_the_context_that_is_given(store: MemoryStore) -> None:
    thread_id = saved(store)
    (header,) = store.list_threads("u1")
    assert (header.thread_id, header.title, header.status) == (thread_id, "gold", "active")
    (context,) = store.thread_contexts("u1", thread_id)
    assert (context.scope, context.thread_id, context.research_style) == ("thread", thread_id, "slow")
    assert context.consent_version == 1


def test_without_leave_to_save_it_a_context_is_not_saved(store: MemoryStore) -> None:
    store.grant_consent("u1", NOTHING_KEPT)
    with pytest.raises(InvalidInput, match="save_user_context: set it to save the context, or to false"):
        store.save_thread("u1", "snap_1", "gold", {}, context=STYLE)
    assert store.list_threads("u1") == []
    header = store.save_thread("u1", "snap_1", "gold", {}, context=STYLE, save_user_context=False)
    assert store.thread_contexts("u1", header.thread_id) == []
    assert saved_without_message(store) == []
    consent = store.consent_on_file("u1").in_force
    assert consent is not None
    before = tree(store.root)
    with pytest.raises(ConsentRequired) as refused:
        store.save_thread("u1", "s", "t", {}, save_user_context=True, consent_id=consent.consent_id)
    assert refused.value.details["required_scopes"] == ["save_to_thread"]
    assert tree(store.root) == before


def saved_without_message(store: MemoryStore) -> list[Path]:
    return list(store.root.glob("user_contexts/*/_thread/*/*"))


def test_a_context_that_says_nothing_is_not_written(store: MemoryStore) -> None:
    saved(store, context=ContextFields())
    saved(store, context=None)
    assert saved_without_message(store) == []


@pytest.mark.parametrize("saving", [True, False], ids=["with-context", "without"])
def test_new_threads_need_consent_in_force(store: MemoryStore, saving: bool) -> None:
    for _ in range(2):
        with pytest.raises(ConsentRequired) as refused:
            store.save_thread("u1", "s", "t", {}, save_user_context=saving)
        assert refused.value.details["required_scopes"] == ["save_to_thread"]
        store.grant_consent("u1", EVERYTHING)
        store.revoke_consent("u1")
    assert store.list_threads("u1") == []


@pytest.mark.parametrize("acknowledged", [None, "consent_of_another", ""])
def test_a_context_needs_the_consent_in_force_acknowledged(
    store: MemoryStore, acknowledged: str | None
) -> None:
    store.grant_consent("u1", EVERYTHING)
    with pytest.raises(ConsentNotInForce):
        store.save_thread("u1", "s", "t", {}, save_user_context=True, consent_id=acknowledged)
    if acknowledged is not None:
        with pytest.raises(ConsentNotInForce):
            store.save_thread("u1", "s", "t", {}, consent_id=acknowledged)
    assert store.list_threads("u1") == []


def test_unknown_fields_and_other_types_write_nothing(store: MemoryStore) -> None:
    thread_id, bad = saved(store), cast("Any", None)
    before = tree(store.root)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: store.save_thread("u1", "s", "t", bad), "cognition_object: give a mapping"),
        (
            lambda: store.record_feedback("u1", "snapshot:s", bad, "useful"),
            "cognition_object: give a mapping",
        ),
        (
            lambda: store.refresh_thread("u1", thread_id, change_summary={"thesis": 1}),
            "change_summary.thesis: is not a known field; known fields: changed_inferences",
        ),
        (
            lambda: store.refresh_thread(
                "u1", thread_id, watch_question_updates=[{"question_id": "q", "status": "open", "x": 1}]
            ),
            "watch_question_updates[0].x: is not a known field",
        ),
        (lambda: store.start_task("u1", "snapshot", prompt=bad), "prompt: must be a str"),
        (lambda: store.suggestions("u1", ["a"]), "skills: give records of Skill"),  # type: ignore[list-item]
    ]
    for call, message in calls:
        with pytest.raises(InvalidInput) as refused:
            call()
        assert str(refused.value).startswith(message)
    assert tree(store.root) == before
    done = store.refresh_thread("u1", thread_id, change_summary={"changed_inferences": ["a"]})
    assert done.change_summary == ChangeSummary(changed_inferences=["a"])


def test_a_refresh_adds_a_context_and_changes_none(store: MemoryStore, clock: Clock) -> None:
    thread_id = saved(store)
    directory = store.workspace.paths.thread_contexts("u1", thread_id)
    before = tree(directory)
    clock.now += SECOND
    done = store.refresh_thread(
        "u1",
        thread_id,
        user_supplied_context=ContextFields(research_style="fast"),
        main_thesis="rates fall",
        change_summary=ChangeSummary(changed_inferences=["a", {"b": 1}]),
        watch_question_updates=[WatchQuestionUpdate(question_id="q1", status="resolved")],
    )
    assert before.items() < tree(directory).items()
    styles = [each.research_style for each in store.thread_contexts("u1", thread_id)]
    assert styles == ["slow", "fast"]
    assert store.threads.refreshes("u1", thread_id) == [done]
    assert done.context_id == store.thread_contexts("u1", thread_id)[-1].context_id
    assert store.threads.header("u1", thread_id).updated_at == START + SECOND


@pytest.mark.parametrize("pace", [0, -3600, 1], ids=["still", "set-back", "running"])
def test_contexts_are_in_the_order_in_which_they_were_added_whatever_the_clock_does(
    store: MemoryStore, clock: Clock, pace: int
) -> None:
    thread_id = saved(store)
    for number in range(12):
        clock.now += timedelta(seconds=pace)
        store.refresh_thread(
            "u1",
            thread_id,
            main_thesis=str(number),
            user_supplied_context=ContextFields(research_style=str(number)),
        )
    contexts = store.thread_contexts("u1", thread_id)
    assert [each.research_style for each in contexts] == ["slow", *map(str, range(12))]
    assert [each.main_thesis for each in store.threads.refreshes("u1", thread_id)] == list(
        map(str, range(12))
    )


def test_a_refresh_without_a_context_writes_none(store: MemoryStore) -> None:
    thread_id = saved(store, context=None)
    assert store.refresh_thread("u1", thread_id).context_id is None
    assert store.refresh_thread("u1", thread_id, user_supplied_context=ContextFields()).context_id is None
    assert saved_without_message(store) == []


def test_threads_are_read_only_without_consent(store: MemoryStore) -> None:
    thread_id = saved(store)
    store.revoke_consent("u1", scope="save_to_thread")
    before = tree(store.root / "threads") | tree(store.root / "user_contexts" / "u1" / "_thread")
    with pytest.raises(ConsentRequired):
        store.refresh_thread("u1", thread_id)
    store.revoke_consent("u1")
    with pytest.raises(ConsentRequired):
        store.refresh_thread("u1", thread_id)
    assert [each.thread_id for each in store.list_threads("u1")] == [thread_id]
    assert tree(store.root / "threads") | tree(store.root / "user_contexts" / "u1" / "_thread") == before


def test_a_forgotten_thread_keeps_its_contexts_blocked_and_takes_no_others(store: MemoryStore) -> None:
    thread_id, other = saved(store), saved(store, "oil")
    header = store.patch_thread("u1", thread_id, consent_blocked=True)
    assert header.consent_blocked
    assert [each.consent_blocked for each in store.thread_contexts("u1", thread_id)] == [True]
    assert [each.consent_blocked for each in store.thread_contexts("u1", other)] == [False]
    with pytest.raises(ConsentRequired, match="no longer used"):
        store.refresh_thread("u1", thread_id, user_supplied_context=STYLE)
    store.refresh_thread("u1", thread_id, main_thesis="goes on")
    store.patch_thread("u1", thread_id, consent_blocked=False)
    assert store.threads.header("u1", thread_id).consent_blocked
    before = tree(store.root)
    store.patch_thread("u1", thread_id, consent_blocked=True)
    assert tree(store.root) == before


def test_a_closed_thread_can_be_read_and_not_changed(store: MemoryStore) -> None:
    thread_id = saved(store)
    assert store.patch_thread("u1", thread_id, status="closed").status == "closed"
    with pytest.raises(ThreadClosed):
        store.refresh_thread("u1", thread_id)
    with pytest.raises(InvalidInput, match="stays closed"):
        store.patch_thread("u1", thread_id, status="active")
    assert store.thread_contexts("u1", thread_id)[0].research_style == "slow"
    assert store.patch_thread("u1", thread_id, consent_blocked=True).status == "closed"


def test_the_thread_touched_last_comes_first(store: MemoryStore, clock: Clock) -> None:
    threads = []
    for title in "abc":
        clock.now += SECOND
        threads.append(saved(store, title))
    clock.now += SECOND
    store.refresh_thread("u1", threads[0])
    assert [each.title for each in store.list_threads("u1")] == ["a", "c", "b"]


def test_threads_of_others_and_threads_that_are_not_look_the_same(store: MemoryStore) -> None:
    thread_id = saved(store)
    store.grant_consent("u2", EVERYTHING)
    told = set()
    for unknown in (thread_id, "thread_none"):
        for attempt in (
            lambda name=unknown: store.refresh_thread("u2", name),
            lambda name=unknown: store.patch_thread("u2", name, consent_blocked=True),
            lambda name=unknown: store.threads.header("u2", name),
            lambda name=unknown: store.begin_task("u2", "thread_refresh", thread_id=name),
        ):
            with pytest.raises(NotFound) as refused:
                attempt()
            told.add(str(refused.value))
    assert len(told) == 1
    assert store.thread_contexts("u2", thread_id) == []
    assert store.list_threads("u2") == []
    with pytest.raises(InvalidId):
        store.patch_thread("u2", f"../u1/{thread_id}", consent_blocked=True)


def test_candidates_are_noted_only_where_training_use_is_allowed(store: MemoryStore) -> None:
    thread_id = saved(store)
    store.refresh_thread("u1", thread_id)
    assert store.add_candidate("u1", "checkpoint:cp_1") is not None
    found = {each.source_object_ref: each for each in candidates(store)}
    assert set(found) == {"snapshot:snap_1", f"thread:{thread_id}", "checkpoint:cp_1"}
    assert {(each.status, each.withdrawal_status) for each in found.values()} == {("pending", "active")}
    store.revoke_consent("u1", scope="training_use_allowed")
    assert {each.withdrawal_status for each in candidates(store)} == {"revoked"}
    assert store.add_candidate("u1", "checkpoint:cp_2") is None
    store.refresh_thread("u1", thread_id)
    assert len(candidates(store)) == 3
    store.grant_consent("u1", EVERYTHING)
    assert {each.withdrawal_status for each in candidates(store)} == {"revoked"}
    assert store.add_candidate("u3", "checkpoint:cp_1") is None
    with pytest.raises(InvalidInput):
        store.add_candidate("u1", "not a reference")
