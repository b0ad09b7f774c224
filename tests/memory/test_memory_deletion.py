"""A hard delete leaves a stub and no byte more, wherever content had been."""

from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from memfin.memory import MemoryStore
from memfin.memory.errors import AccountDeleted, InvalidId, NotFound
from memfin.memory.paths import TREES
from tests.memory.memory_disks import CountedFiles, DyingFiles, Killed, laid_out, tree
from tests.memory.memory_world import EVERYTHING, SECOND, START, Clock, open_store, preferences, settle_in

CANARY = "Canary7f3e"


def live_fully(store: MemoryStore, user_id: str, mark: str) -> None:
    """Leave a mark in every field of every scope, in several versions, and in all that surrounds them."""
    settle_in(store, user_id, mark)
    store.revoke_consent(user_id)
    settle_in(store, user_id, f"{mark}-again")
    for name in TREES:  # also what other parts of the layer keep of a user
        directory = store.root / name / user_id / "deeper"
        directory.mkdir(parents=True)
        (directory / f"{mark}.json").write_text(mark)
        (directory / ".x.json.tmp").write_text(mark)
    for stray in (
        store.root / "consents" / f".{user_id}.yaml.tmp",
        store.root / "consents" / "_history" / user_id / ".9.yaml.tmp",
        store.root / "consents" / "_deleted" / f".{user_id}.yaml.tmp",
    ):
        stray.write_text(mark)


def residue(root: Path, *marks: str) -> list[str]:
    """Return where under a root a mark stands, in a name or a content, of the index and locks as well."""
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        for data in [path.read_bytes() if path.is_file() else b""]
        for mark in marks
        if mark in path.name or mark.encode() in data or mark.encode("utf-16-le") in data
    ]


def test_no_byte_of_a_deleted_person_is_left_but_the_stub(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        live_fully(store, "u1", CANARY)
        settle_in(store, "u2", "other")
        others = {name: data for name, data in tree(tmp_path).items() if "u2" in name}
        assert len(residue(tmp_path, CANARY)) > 20
        stub = store.delete_user("u1")
        assert residue(tmp_path, CANARY) == []
        assert {name: data for name, data in tree(tmp_path).items() if "u2" in name} == others
    assert residue(tmp_path, CANARY) == []
    left = tree(tmp_path).keys() - others.keys()
    assert left == {"consents/_deleted/u1.yaml"}
    written = yaml.safe_load((tmp_path / "consents" / "_deleted" / "u1.yaml").read_bytes())
    assert written.keys() == {"deleted_at", "consent_version_at_deletion"}
    assert (written["consent_version_at_deletion"], stub.consent_version_at_deletion) == (3, 3)


def test_the_id_stands_in_the_stub_and_the_claim_alone(tmp_path: Path) -> None:
    user_id = "Somebody-known-by-name"
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        settle_in(store, user_id, CANARY)
        store.delete_user(user_id)
    assert residue(tmp_path, user_id, user_id.lower()) == [
        ".memfin/index.sqlite",
        ".memfin/index.sqlite",
        f"consents/_deleted/{user_id}.yaml",
    ]


def test_the_index_keeps_no_id_of_anything_that_a_deleted_person_did(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        settle_in(store, "u1", CANARY)
        tasks = store.workspace.files.names(store.workspace.paths.tasks("u1"))
        index = tmp_path / ".memfin" / "index.sqlite"
        assert all(task.encode() in index.read_bytes() for task in tasks)
        store.delete_user("u1")
        assert not any(task.encode() in index.read_bytes() for task in tasks)


def test_lock_files_are_empty_and_named_for_nobody(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for number in range(30):
            store.grant_consent(f"user-{number}", EVERYTHING)
    locks = tree(tmp_path / ".memfin" / "locks")
    assert set(locks.values()) == {b""}
    assert all(len(name) == len("00.lock") for name in locks if name != "index.lock")


@pytest.mark.parametrize("step", range(1, 60, 6))
def test_no_byte_is_left_by_a_deletion_that_was_killed_and_finished_later(step: int, tmp_path: Path) -> None:
    with open_store(tmp_path / "start", Clock(pace=SECOND)) as store:
        live_fully(store, "u1", CANARY)
    root = laid_out(tmp_path / "root", tree(tmp_path / "start", state=True))
    counted = CountedFiles()
    open_store(root, files=counted).close()
    dying = open_store(root, files=DyingFiles(len(counted.steps) + step))
    with pytest.raises(Killed), dying:
        dying.delete_user("u1")
    with open_store(root) as store:
        store.delete_user("u1")
    assert residue(root, CANARY) == []
    assert tree(root).keys() == {"consents/_deleted/u1.yaml"}


def test_a_deleted_account_reads_as_that_of_a_stranger_and_takes_no_writes(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        consent = settle_in(store, "u1", CANARY)
        (thread,) = store.list_threads("u1")
        store.delete_user("u1")
        before = tree(tmp_path, state=True)
        for attempt in (
            lambda: store.grant_consent("u1", EVERYTHING, preferences("x")),
            lambda: store.revoke_consent("u1", consent.consent_id),
            lambda: store.review_profile("u1", {}),
            lambda: store.save_thread("u1", "s", "t", {}),
            lambda: store.refresh_thread("u1", thread.thread_id),
            lambda: store.patch_thread("u1", thread.thread_id, status="closed"),
            lambda: store.begin_task("u1", "snapshot"),
            lambda: store.on_consent_revoked("u1"),
            lambda: store.add_candidate("u1", "snapshot:s"),
        ):
            with pytest.raises(AccountDeleted):
                attempt()
        assert (store.read_profile("u1"), store.list_threads("u1")) == (None, [])
        assert store.consent_state("u1") == "none"
        assert store.load_memory_slices("u1", "snapshot") == store.load_memory_slices("nobody", "snapshot")
        assert tree(tmp_path, state=True) == before


def test_deleting_again_says_the_same_and_unknown_users_are_not_found(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        with pytest.raises(NotFound):
            store.delete_user("u1")
        with pytest.raises(InvalidId):
            store.delete_user("../consents")
        store.grant_consent("u1", EVERYTHING)
        stub = store.delete_user("u1")
        clock.now += SECOND
        assert store.delete_user("u1") == stub
        assert stub.deleted_at == START


def test_a_person_who_never_gave_consent_is_deleted_at_version_0(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        (tmp_path / "feedback" / "u1").mkdir()
        assert store.delete_user("u1").consent_version_at_deletion == 0
        assert not (tmp_path / "feedback" / "u1").exists()


def test_a_consent_that_cannot_be_read_is_deleted_too(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("u1", EVERYTHING)
        store.grant_consent("u1", EVERYTHING)
        (tmp_path / "consents" / "u1.yaml").write_bytes(b"}")
        assert store.delete_user("u1").consent_version_at_deletion == 2
        assert tree(tmp_path).keys() == {"consents/_deleted/u1.yaml"}


def test_a_link_in_the_root_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep.json").write_text("somebody else's")
    with open_store(tmp_path / "data") as store:
        settle_in(store, "ada", CANARY)
        for directory in (
            store.workspace.paths.profiles("ada"),
            store.workspace.paths.drift("ada"),
            store.workspace.paths.feedback("ada"),
        ):
            store.workspace.files.remove_tree(directory)
            directory.symlink_to(elsewhere, target_is_directory=True)
        store.revoke_consent("ada")
        store.delete_user("ada")
        assert (elsewhere / "keep.json").read_text() == "somebody else's"
        assert [path for path in store.root.rglob("*") if path.is_symlink()] == []
        assert residue(store.root, CANARY) == []


@pytest.mark.parametrize("step", range(1, 9))
def test_what_a_killed_writer_left_goes_with_the_record_that_was_written_again(
    step: int, tmp_path: Path
) -> None:
    def write(store: MemoryStore, kind: str) -> str:
        if kind == "item":
            return store.items.add("u1", CANARY).item_id
        return str(store.begin_task("u1", "snapshot", fields={"time_horizon": CANARY}).task_id)

    clock = Clock(pace=SECOND)
    for kind in ("item", "task"):
        root = tmp_path / kind
        with open_store(root, clock) as store:
            store.grant_consent("u1", EVERYTHING)
        counted = CountedFiles()
        open_store(root, clock, counted).close()
        dying = open_store(root, clock, DyingFiles(len(counted.steps) + step))
        with suppress(Killed), dying:
            write(dying, kind)
        with open_store(root, clock) as store:
            write(store, kind)
            for item in store.items.all("u1"):
                store.items.forget("u1", item.item_id)
            for task in store.list_tasks("u1"):
                store.delete_task("u1", str(task.task_id))
        assert residue(root, CANARY) == []
