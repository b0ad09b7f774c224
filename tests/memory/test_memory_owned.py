"""A person's own records, listed and deleted one by one: no byte of a deleted one is left."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from memfin.contracts.memory import ChangeSummary, ContextFields, ThreadHeader
from memfin.memory import MemoryStore
from memfin.memory.errors import NotFound
from tests.memory.memory_disks import CountedFiles, DyingFiles, Killed, laid_out, tree
from tests.memory.memory_world import EVERYTHING, SECOND, Clock, everything_said, open_store, settle_in
from tests.memory.test_memory_deletion import residue

MARK = "Canary5c1d"


def saved(store: MemoryStore, user_id: str = "u1", mark: str = MARK) -> ThreadHeader:
    """Save a thread that holds a mark in all of its records, and drift about it."""
    consent = store.workspace.consent_on_file(user_id).consent
    thread = store.save_thread(
        user_id,
        "snap_1",
        f"{mark}-title",
        {"asset": f"{mark}-asset"},
        save_user_context=True,
        consent_id=consent.consent_id if consent else None,
        context=everything_said(mark),
    )
    for thesis in (f"{mark} rises", f"another {mark}view"):
        store.refresh_thread(
            user_id,
            thread.thread_id,
            user_supplied_context=ContextFields(research_style=mark),
            main_thesis=thesis,
            change_summary=ChangeSummary(changed_inferences=list(range(9))),
        )
    return thread


def reversed_feedback(store: MemoryStore, reference: str, mark: str = MARK) -> None:
    for rating in ("thumbs_up", "thumbs_down"):
        store.record_feedback("u1", reference, {"asset": mark}, rating, mark)


def test_no_byte_of_a_deleted_thread_is_left(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        settle_in(store, "u1", "kept")
        before = tree(tmp_path)
        thread = saved(store)
        assert {each.signal_kind for each in store.drift_log("u1")} == {"refresh_stance_flip"}
        view = store.show_thread("u1", thread.thread_id)
        assert (view.header.title, len(view.contexts), len(view.refreshes)) == (f"{MARK}-title", 3, 2)
        assert len(residue(tmp_path, MARK)) > 5
        store.delete_thread("u1", thread.thread_id)
        assert residue(tmp_path, MARK) == []
        with pytest.raises(NotFound):
            store.show_thread("u1", thread.thread_id)
        left = {name for name in tree(tmp_path).keys() - before.keys() if "candidates" not in name}
        assert left == set()
        candidates = (path.read_text() for path in (tmp_path / "training_candidates" / "u1").iterdir())
        withdrawn = [each for each in candidates if '"withdrawal_status":"revoked"' in each]
        assert len(withdrawn) == 3
        assert all(f"thread:{thread.thread_id}" in each or "snapshot:snap_1" in each for each in withdrawn)
    assert residue(tmp_path, MARK) == []


def test_drift_about_a_deleted_thread_goes_and_does_not_return(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        store.grant_consent("u1", EVERYTHING)
        thread = saved(store)
        reversed_feedback(store, f"thread:{thread.thread_id}", "word")
        reversed_feedback(store, "snapshot:snap_2", "word")
        store.delete_thread("u1", thread.thread_id)
        assert [each.object_ref for each in store.drift_log("u1")] == ["snapshot:snap_2"]
        store.record_feedback("u1", "snapshot:snap_3", {"asset": "other"}, "thumbs_up")
        assert [each.object_ref for each in store.drift_log("u1")] == ["snapshot:snap_2"]
        index = (tmp_path / "persona_drift" / "u1" / "_index.jsonl").read_text()
        assert (index.count("\n"), thread.thread_id in index) == (1, False)


def test_deleted_feedback_takes_along_the_drift_that_quotes_it(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        store.grant_consent("u1", EVERYTHING)
        reversed_feedback(store, "snapshot:snap_1")
        latest, first = store.list_feedback("u1")
        assert (latest.rating, first.rating, len(store.drift_log("u1"))) == ("thumbs_down", "thumbs_up", 1)
        store.delete_feedback("u1", latest.feedback_id)
        assert (store.drift_log("u1"), store.list_feedback("u1")) == ([], [first])
        store.delete_feedback("u1", first.feedback_id)
        assert residue(tmp_path, MARK, first.feedback_id, latest.feedback_id) == []


@pytest.mark.parametrize("everything", [False, True])
def test_deleted_drift_is_not_recorded_again(everything: bool, tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        store.grant_consent("u1", EVERYTHING)
        thread = saved(store)
        reversed_feedback(store, "snapshot:snap_1", "word")
        stance, grade = store.drift_log("u1")
        store.delete_drift("u1", None if everything else stance.drift_id)
        store.refresh_thread("u1", thread.thread_id)
        store.record_feedback("u1", "snapshot:snap_3", {"asset": "other"}, "thumbs_up")
        assert store.drift_log("u1") == ([] if everything else [grade])
        assert residue(tmp_path, f"the thesis was '{MARK} rises'") == []
        reversed_feedback(store, "snapshot:snap_1", "word")  # another change of mind is another signal
        assert len(store.drift_log("u1")) == (2 if everything else 3)


def test_a_context_and_a_task_are_deleted_alone(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        settle_in(store, "u1", "kept")
        thread = saved(store)
        first, *others = store.thread_contexts("u1", thread.thread_id)
        store.delete_context("u1", thread.thread_id, first.context_id)
        assert store.thread_contexts("u1", thread.thread_id) == others
        running, ended = store.list_tasks("u1")
        assert (running.task_status, ended.task_status) == ("running", "finished")
        store.delete_task("u1", str(running.task_id))
        assert store.list_tasks("u1") == [ended]
        assert residue(tmp_path, running.context_id, "kept-running") == []


def test_deletions_need_no_consent(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        settle_in(store, "u1", "kept")
        thread = saved(store)
        store.revoke_consent("u1")
        store.delete_thread("u1", thread.thread_id)
        assert residue(tmp_path, MARK) == []


DELETIONS: dict[str, Callable[[MemoryStore, str], object]] = {
    "thread": lambda store, record_id: store.delete_thread("u1", record_id),
    "context": lambda store, record_id: store.delete_context("u1", record_id, record_id),
    "task": lambda store, record_id: store.delete_task("u1", record_id),
    "feedback": lambda store, record_id: store.delete_feedback("u1", record_id),
    "drift": lambda store, record_id: store.delete_drift("u1", record_id),
}


@pytest.mark.parametrize("kind", DELETIONS)
def test_records_of_others_are_unknown_ones(kind: str, tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        for user_id in ("u1", "u2"):
            settle_in(store, user_id, "kept")
        saved(store, "u2")
        before = tree(tmp_path, state=True)
        told = set()
        for record_id in ("thread_none", *(Path(name).stem for name in before if "/u2/" in name)):
            if record_id.startswith("_"):
                continue
            with pytest.raises(NotFound) as refused:
                DELETIONS[kind](store, record_id)
            told.add(str(refused.value))
        assert len(told) == 1
        assert tree(tmp_path, state=True) == before


@pytest.mark.parametrize("step", range(1, 50, 4))
def test_a_deletion_that_was_killed_is_finished_or_never_was(step: int, tmp_path: Path) -> None:
    with open_store(tmp_path / "start", Clock(pace=SECOND)) as store:
        settle_in(store, "u1", "kept")
        thread = saved(store)
    root = laid_out(tmp_path / "root", tree(tmp_path / "start", state=True))
    counted = CountedFiles()
    open_store(root, files=counted).close()
    dying = open_store(root, files=DyingFiles(len(counted.steps) + step))
    with suppress(Killed), dying:
        dying.delete_thread("u1", thread.thread_id)
    with open_store(root) as store:
        if [each.thread_id for each in store.list_threads("u1")].count(thread.thread_id):
            store.delete_thread("u1", thread.thread_id)
        assert residue(root, MARK) == []
        assert len(store.list_threads("u1")) == 1
