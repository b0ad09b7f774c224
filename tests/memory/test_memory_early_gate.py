"""Texts are looked through before their user's lock is taken, and are refused for the same reasons."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts.memory import ContextFields, WatchQuestionUpdate
from memfin.memory import MemoryStore
from memfin.memory.errors import (
    ConsentRequired,
    InvalidInput,
    MemoryRefusal,
    NotFound,
    SensitiveInput,
)
from memfin.memory.records import MAX_RECORD, EarlyGate
from memfin.memory.sensitive import refuse_sensitive
from tests.memory.memory_disks import UnsyncedFiles, tree
from tests.memory.memory_world import EVERYTHING, NOTHING_KEPT, Clock, everything_said, preferences

USER = "u1"
THREAD = "thread_20261122T093000Z_"

Operation = Callable[[MemoryStore, str, str], object]

OPERATIONS: dict[str, Operation] = {
    "grant": lambda store, _, text: store.grant_consent(USER, EVERYTHING, preferences(text)),
    "review": lambda store, _, text: store.review_profile(USER, {"constraints": [text]}),
    "save": lambda store, _, text: store.save_thread(USER, "s", text, {"asset": [text]}),
    "refresh": lambda store, thread_id, text: store.refresh_thread(
        USER,
        thread_id,
        user_supplied_context=everything_said(text),
        main_thesis=text,
        watch_question_updates=iter([WatchQuestionUpdate(question_id="q1", status="open")]),
    ),
    "feedback": lambda store, _, text: store.record_feedback(
        USER, "snapshot:s", {"asset": text}, "thumbs_up", text
    ),
    "task": lambda store, _, text: store.begin_task(USER, "snapshot", fields=everything_said(text)),
}


class Watched:
    """A gate that notes which texts it sees while the user's lock is held."""

    def __init__(self) -> None:
        self.store: MemoryStore | None = None
        self.texts: list[str] = []

    def __call__(self, value: Any, field: str) -> None:
        assert self.store is not None
        shard = next(
            (each for each in self.store.workspace.locks._shards if each.locked()),
            None,
        )
        if shard is not None:
            self.texts.append(repr(value))
        refuse_sensitive(value, field)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_a_person_says_is_not_read_under_the_lock(name: str, tmp_path: Path) -> None:
    gate = Watched()
    with MemoryStore(tmp_path, clock=Clock(), gate=gate, files=UnsyncedFiles()) as store:
        gate.store = store
        store.grant_consent(USER, EVERYTHING)
        thread = store.save_thread(USER, "snap", "t", {})
        gate.texts.clear()
        OPERATIONS[name](store, thread.thread_id, "words of mine")
        assert not [text for text in gate.texts if "words of mine" in text]
        if name == "refresh":
            (refreshed,) = store.threads.refreshes(USER, thread.thread_id)
            assert [each.question_id for each in refreshed.watch_question_updates] == ["q1"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_sensitive_is_refused_all_the_same(name: str, tmp_path: Path) -> None:
    with MemoryStore(tmp_path, clock=Clock(), files=UnsyncedFiles()) as store:
        store.grant_consent(USER, EVERYTHING)
        thread = store.save_thread(USER, "snap", "t", {})
        before = tree(tmp_path)
        with pytest.raises(SensitiveInput):
            OPERATIONS[name](store, thread.thread_id, "zhang.wei@example.com")
        assert tree(tmp_path) == before
        OPERATIONS[name](store, thread.thread_id, "words")


@pytest.mark.parametrize(
    ("name", "refusal"),
    [("review", ConsentRequired), ("save", None), ("refresh", ConsentRequired), ("feedback", SensitiveInput)],
)
def test_a_refusal_for_another_reason_comes_first_as_before(
    name: str, refusal: type[MemoryRefusal] | None, tmp_path: Path
) -> None:
    with MemoryStore(tmp_path, clock=Clock(), files=UnsyncedFiles()) as store:
        store.grant_consent(USER, EVERYTHING)
        thread = store.save_thread(USER, "snap", "t", {})
        store.grant_consent(USER, NOTHING_KEPT)
        with pytest.raises(refusal or SensitiveInput):
            OPERATIONS[name](store, thread.thread_id, "zhang.wei@example.com")
        with pytest.raises(NotFound):
            OPERATIONS["refresh"](store, "nobodys", "zhang.wei@example.com")


def test_what_changes_after_it_was_read_is_read_again() -> None:
    seen: list[Any] = []
    gate = EarlyGate(lambda value, field: seen.append((value, field)))
    said: dict[str, Any] = {"cognition_object": {"x": ["a"]}, "title": "t"}
    with gate.reading(said):
        assert seen == [({"cognition_object": {"x": ["a"]}}, ""), ({"title": "t"}, "")]
        seen.clear()
        gate({"cognition_object": {"x": ["a"]}, "title": "t"}, "")
        assert seen == []
        said["cognition_object"]["x"].append("b")
        gate(said, "")
        gate("t", "title")
        assert seen == [({"cognition_object": {"x": ["a", "b"]}}, ""), ("t", "title")]
        seen.clear()
        other = threading.Thread(target=gate, args=({"title": "t"}, ""))
        other.start()
        other.join()
        assert seen == [({"title": "t"}, "")]
    gate({"title": "t"}, "")
    assert len(seen) == 2


def test_what_cannot_be_a_record_is_not_read_early(tmp_path: Path) -> None:
    seen: list[Any] = []
    gate = EarlyGate(lambda value, field: seen.append(value))
    with gate.reading({"a": object(), "b": "x" * MAX_RECORD, "c": "\ud800"}):
        assert seen == []
    with MemoryStore(tmp_path, clock=Clock(), files=UnsyncedFiles()) as store:
        store.grant_consent(USER, EVERYTHING)
        with pytest.raises(InvalidInput, match="cannot represent"):
            store.save_thread(USER, "s", "t", {"x": object()})
        with pytest.raises(InvalidInput, match="larger than"):
            store.begin_task(USER, "snapshot", fields=ContextFields(constraints=["x" * 4000] * 50))
