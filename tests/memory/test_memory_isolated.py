"""The store in memory is the store on disk: the same answers, and the same bytes under the same names."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.contracts.memory import ContextFields, Preferences
from memfin.memory.consent import NOTHING
from memfin.memory.errors import AccountDeleted, InvalidId, MemoryRefusal, SensitiveInput
from memfin.memory.store import ROOT, IsolatedStore, MemoryStore, _InMemoryFiles
from tests.memory.stored_contexts import ALL, NOW, TASK


class Ticking:
    """Moves on one second with every look."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


Step = Callable[[MemoryStore, str], Any]


def first_thread(store: MemoryStore, user_id: str) -> str:
    return min((thread.thread_id for thread in store.list_threads(user_id)), default="none")


def save(store: MemoryStore, user_id: str) -> Any:
    consent = store.consent_on_file(user_id).consent
    return store.save_thread(
        user_id,
        "snap",
        "Rates",
        {"type": "theme"},
        save_user_context=True,
        consent_id=None if consent is None else consent.consent_id,
        context=ContextFields(research_style="chart first"),
    )


def delete_records(store: MemoryStore, user_id: str) -> Any:
    for rating in ("thumbs_up", "thumbs_down", "thumbs_up"):
        given = store.record_feedback(user_id, "snapshot:snap", {"type": "theme"}, rating)
    store.delete_drift(user_id, store.drift_log(user_id)[0].drift_id)
    store.delete_feedback(user_id, given.feedback_id)
    store.delete_thread(user_id, first_thread(store, user_id))
    return store.list_threads(user_id), store.list_feedback(user_id), store.drift_log(user_id)


def finish_task(store: MemoryStore, user_id: str) -> Any:
    context = store.begin_task(user_id, "pre_execution", fields=TASK)
    return store.end_task(user_id, str(context.task_id))


def items(store: MemoryStore, user_id: str) -> Any:
    """Add an item of no thread and one of a thread; change, find and forget one."""
    added = store.items.add(user_id, "no gold", kind="constraint")
    inside = store.items.add(user_id, "no debt", thread_id=first_thread(store, user_id))
    store.items.update(user_id, added.item_id, "no gold at all")
    store.items.forget(user_id, inside.item_id)
    return store.items.search(user_id, "gold"), store.items.everything(user_id)


STEPS: Final[dict[str, Step]] = {
    "grant": lambda store, user: store.grant_consent(user, ALL, Preferences(language_preference="zh")),
    "grant nothing": lambda store, user: store.grant_consent(user, NOTHING.replace(create_task=True)),
    "review": lambda store, user: store.review_profile(user, {"research_depth": "deep"}),
    "save": save,
    "refresh": lambda store, user: store.refresh_thread(
        user, first_thread(store, user), user_supplied_context=ContextFields(research_depth="quick")
    ),
    "items": items,
    "forget": lambda store, user: store.patch_thread(user, first_thread(store, user), consent_blocked=True),
    "begin": lambda store, user: store.begin_task(user, "snapshot", fields=TASK),
    "begin and end": finish_task,
    "sensitive": lambda store, user: store.review_profile(user, {"user_focus_reason": "a@example.com"}),
    "hint": lambda store, user: store.take_hint(user),
    "expire": lambda store, user: store.expire(),
    "rebuild": lambda store, user: store.rebuild_index(),
    "revoke": lambda store, user: store.revoke_consent(user),
    "revoke a scope": lambda store, user: store.revoke_consent(user, scope="save_to_thread"),
    "records": delete_records,
    "delete": lambda store, user: store.delete_user(user),
    "read": lambda store, user: store.load_memory_slices(user, "thread_refresh", first_thread(store, user)),
    "state": lambda store, user: store.onboarding_state(user),
}


def result(store: MemoryStore, step: Step, user_id: str) -> Any:
    try:
        return step(store, user_id)
    except MemoryRefusal as refusal:
        return refusal.code, str(refusal), dict(refusal.details)


def on_disk(root: Path) -> dict[str, bytes]:
    return {
        str(ROOT / path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".memfin" not in path.parts
    }


def play(root: Path, played: list[tuple[str, str, int]]) -> IsolatedStore:
    """Do the same steps, of users and after hours, to both stores; compare after each."""
    clocks = Ticking(), Ticking()
    isolated = IsolatedStore(clocks[1])
    with MemoryStore(root, clock=clocks[0]) as real:
        for name, user_id, hours in played:
            for clock in clocks:
                clock.now += timedelta(hours=hours)
            assert result(isolated, STEPS[name], user_id) == result(real, STEPS[name], user_id)
    assert isolated.contents() == on_disk(root)
    return isolated


LIFE: Final = (
    "state grant read save items refresh read begin sensitive hint expire forget read review records "
    "revoke state read hint begin grant save delete state grant"
)


def test_a_life_leaves_the_same_in_memory_as_on_disk(tmp_path: Path) -> None:
    isolated = play(tmp_path / "data", [(name, "u1", 0) for name in LIFE.split()])
    assert list(isolated.contents()) == ["isolated/consents/_deleted/u1.yaml"]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(STEPS)), st.sampled_from(["u1", "U1", "u2"]), st.sampled_from([0, 25])
        ),
        max_size=12,
    )
)
def test_any_steps_leave_the_same_in_memory_as_on_disk(
    tmp_path_factory: pytest.TempPathFactory, played: list[tuple[str, str, int]]
) -> None:
    begun = [("grant", "u1", 0), ("save", "u1", 0)]
    play(tmp_path_factory.mktemp("played") / "data", begun + played)


def test_tasks_go_after_a_day(tmp_path: Path) -> None:
    clock = Ticking()
    store = IsolatedStore(clock)
    store.grant_consent("u1", ALL)
    store.begin_task("u1", "snapshot", fields=TASK)
    assert store.expire().task_contexts == 0
    clock.now += timedelta(hours=24)
    assert store.expire().task_contexts == 1
    assert store.expire().task_contexts == 0
    assert not [name for name in store.contents() if "_task" in name]


def test_a_store_goes_on_with_the_contents_of_another() -> None:
    clock = Ticking()
    first = IsolatedStore(clock)
    first.grant_consent("u1", ALL, Preferences(research_depth="deep"))
    copies = [IsolatedStore(clock, first.contents()) for _ in range(2)]
    copies[0].revoke_consent("u1")
    assert copies[1].load_memory_slices("u1", "snapshot").value("S2") == "deep"
    assert copies[0].load_memory_slices("u1", "snapshot").value("S2") == "standard"
    assert first.load_memory_slices("u1", "snapshot").value("S2") == "deep"
    with pytest.raises(InvalidId):
        copies[1].grant_consent("U1", ALL)


def test_the_store_in_memory_keeps_the_layers_rules() -> None:
    store = IsolatedStore(Ticking())
    store.grant_consent("u1", ALL)
    with pytest.raises(SensitiveInput) as raised:
        store.review_profile("u1", {"user_focus_reason": "write to a@example.com"})
    assert raised.value.details["field"] == "user_focus_reason"
    store.delete_user("u1")
    with pytest.raises(AccountDeleted):
        store.grant_consent("u1", ALL)
    store.close()


def test_files_in_memory_answer_as_files_do() -> None:
    files = _InMemoryFiles({"a/b/c.json": b"1", "a/d.json": b"2"})
    assert files.entries(Path("a")) == ["b", "d.json"]
    assert files.names(Path("a")) == ["d"]
    assert files.entries(Path("x")) == []
    assert (files.load(Path("a/b/c.json")), files.load(Path("a/b")), files.load(Path("a/x"))) == (
        b"1",
        None,
        None,
    )
    assert files.exists(Path("a/b"))
    assert files.exists(Path("a"))
    assert not files.exists(Path("a/b/x"))
    files.unlink(Path("a/d.json"))
    files.remove_tree(Path("a/b"))
    files.remove_tree(Path("nothing"))
    assert files.entries(Path("a")) == []
    assert list(files.strays(Path("a"))) == []
    assert files.contents() == {}
