"""A person's memory leaves as a package, whole or not at all, and comes back as it was."""

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from memfin.contracts.memory import (
    ChangeSummary,
    ContextFields,
    DriftRecord,
    DriftSignal,
    Feedback,
    Preferences,
)
from memfin.errors import RunFault, UsageError
from memfin.memory import MemoryStore
from memfin.memory.drift import index_line
from memfin.memory.errors import AccountDeleted, NotFound
from memfin.memory.files import Files
from memfin.memory.package import MANIFEST, encode_manifest, manifest_of, verify_package, zipped
from memfin.memory.records import Append, Put, Step
from tests.memory.memory_world import EVERYTHING, SECOND, START, Clock, open_store
from tests.support import length

THESIS = ContextFields(user_focus_reason="半导体周期", research_style="先看数据")

STRIDE = length(12, 1)
"""An import dies at one of so many steps of its staging, and at every third one of the last forty.

A long run tries them all.
"""


def fill(store: MemoryStore, user: str) -> str:
    """Put something in every place where a user can have something; return a task's id."""
    preferences = Preferences(language_preference="zh", research_depth="deep", user_focus_reason="红利")
    store.grant_consent(user, EVERYTHING, preferences)
    consent = store.grant_consent(user, EVERYTHING)
    thread = store.save_thread(
        user,
        "snap_1",
        "光伏产业链",
        {"type": "theme", "name": "光伏"},
        save_user_context=True,
        consent_id=consent.consent_id,
        context=THESIS,
    ).thread_id
    store.refresh_thread(
        user,
        thread,
        user_supplied_context=ContextFields(research_style="再看估值"),
        main_thesis="需求见底",
        change_summary=ChangeSummary(changed_inferences=["价格"]),
    )
    object_ref, about = f"thread:{thread}", {"type": "theme", "name": "光伏"}
    signals = [
        DriftSignal(value=value, captured_at=store.workspace.now(), captured_in_object_ref=object_ref)
        for value in ("thumbs_up", "not_helpful")
    ]
    feedback = Feedback(
        feedback_id="feedback_1",
        related_object_ref=object_ref,
        cognition_object=about,
        rating="not_helpful",
        created_at=store.workspace.now(),
    )
    drift = DriftRecord(
        drift_id="drift_1",
        object_ref=object_ref,
        cognition_object=about,
        signal_kind="grade_reversal",
        prior_signal=signals[0],
        current_signal=signals[1],
        delta_summary="先赞后否",
        triggers_alert=True,
    )
    with store.workspace.writing(user):
        plan: list[Step] = [
            Put(store.workspace.paths.feedback_item(user, "feedback_1"), feedback),
            Put(store.workspace.paths.drift_record(user, "drift_1"), drift),
            Append(store.workspace.paths.drift_index(user), index_line(drift)),
        ]
        store.workspace.do(user, store.workspace.check(plan))
    task = store.begin_task(user, "snapshot", fields=ContextFields(time_horizon="三年"), thread_id=thread)
    return str(task.task_id)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path / "data", clock=Clock(pace=SECOND)) as opened:
        fill(opened, "alice")
        fill(opened, "bob")
        yield opened


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".memfin" not in path.parts
    }


def kinds(package: dict[str, bytes]) -> set[str]:
    return {path.rpartition("/")[0] for path in package}


def test_an_export_has_all_of_a_user_and_nothing_of_another(store: MemoryStore) -> None:
    package = store.export_user("alice")
    thread = store.list_threads("alice")[0].thread_id
    assert kinds(package) == {
        "",
        "consents",
        "consents/_history",
        "user_contexts/_profile",
        f"user_contexts/_thread/{thread}",
        "user_contexts/_task",
        "persona_drift",
        "training_candidates",
        "threads",
        f"threads/{thread}",
        "feedback",
    }
    assert b"bob" not in b"".join(package.values())
    own = {name: digest for name, digest in tree(store.root).items() if "alice" in name}
    hashes = {hashlib.sha256(data).hexdigest() for path, data in package.items() if path != MANIFEST}
    assert hashes == set(own.values())


def test_an_export_says_of_each_file_what_it_is(store: MemoryStore, tmp_path: Path) -> None:
    where = store.export_to("alice", tmp_path / "out")
    manifest = yaml.safe_load((where / MANIFEST).read_bytes())
    assert (where, manifest["user_id"], manifest["schema_version"]) == (
        tmp_path / "out" / "alice",
        "alice",
        "1.0",
    )
    for entry in manifest["files"]:
        data = (where / entry["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["size"], entry["sha256"])
    assert not verify_package(where).discrepancies


def test_the_same_memory_at_the_same_time_makes_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        with MemoryStore(tmp_path / name, clock=Clock(pace=SECOND)) as store:
            fill(store, "alice")
            made.append(zipped("alice", store.export_user("alice")))
    assert made[0] == made[1]


def test_task_contexts_are_exported_for_seven_days(store: MemoryStore) -> None:
    clock = store.workspace._clock
    assert isinstance(clock, Clock)
    begun = next(iter(store.workspace.files.names(store.workspace.paths.tasks("alice"))))
    moment = datetime.strptime(begun.split("_")[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    path = f"user_contexts/_task/{begun}.json"
    clock.now = moment + timedelta(days=7) - timedelta(seconds=1)
    assert path in store.export_user("alice")
    assert path not in store.export_user("alice")  # the clock went on by a second
    store.workspace.paths.task("alice", begun).write_bytes(b"damaged")
    assert store.export_user("alice")[path] == b"damaged"


def test_what_consent_forbids_is_not_exported_even_where_it_still_lies(store: MemoryStore) -> None:
    files = {
        path: path.read_bytes()
        for directory in (store.workspace.paths.profiles("alice"), store.workspace.paths.drift("alice"))
        for path in directory.iterdir()
    }
    assert len(files) >= 3
    store.revoke_consent("alice")
    for path, data in files.items():  # as after a crash in the middle of the purge
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    assert not kinds(store.export_user("alice")) & {"user_contexts/_profile", "persona_drift"}


def test_who_is_not_there_is_not_exported(store: MemoryStore, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        store.export_user("carol")
    store.delete_user("bob")
    with pytest.raises(AccountDeleted):
        store.export_to("bob", tmp_path)
    assert list(tmp_path.iterdir()) == [store.root]


@pytest.mark.parametrize("as_zip", [False, True], ids=["directory", "zip"])
def test_an_export_replaces_nothing(store: MemoryStore, tmp_path: Path, as_zip: bool) -> None:
    store.export_to("alice", tmp_path / "out", as_zip=as_zip)
    before = tree(tmp_path / "out")
    with pytest.raises(UsageError, match="exists already"):
        store.export_to("alice", tmp_path / "out", as_zip=as_zip)
    assert tree(tmp_path / "out") == before


class Dying(Files):
    """Fails at one step that changes the file system, and at all that follow, as a killed process would."""

    def __init__(self, steps: float = float("inf")) -> None:
        self.left = steps

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "killed")

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_CREAT:
            self._step()
        return super().open(path, flags)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._step()
        return super().write(descriptor, data)

    def replace(self, source: Path, target: Path) -> None:
        self._step()
        super().replace(source, target)

    def mkdir(self, path: Path) -> None:
        self._step()
        super().mkdir(path)

    def unlink(self, path: Path | str) -> None:
        self._step()
        super().unlink(path)

    def rmdir(self, path: Path) -> None:
        self._step()
        super().rmdir(path)


@pytest.mark.parametrize("as_zip", [False, True], ids=["directory", "zip"])
def test_an_import_brings_back_every_byte(store: MemoryStore, tmp_path: Path, as_zip: bool) -> None:
    where = store.export_to("alice", tmp_path / "out", as_zip=as_zip)
    with MemoryStore(tmp_path / "other", clock=store.workspace._clock) as other:
        imported = other.import_package(where)
        assert (imported.user_id, imported.files) == ("alice", len(store.export_user("alice")) - 1)
        assert tree(other.root) == {
            name: digest for name, digest in tree(store.root).items() if "alice" in name
        }
        assert other.read_profile("alice") == store.read_profile("alice")
        assert other.list_threads("alice") == store.list_threads("alice")
        for loaded in (other, store):
            assert (
                "红利"
                in loaded.load_memory_slices(
                    "alice", "thread_refresh", loaded.list_threads("alice")[0].thread_id
                ).block.text
                or "半导体周期"
                in loaded.load_memory_slices(
                    "alice", "thread_refresh", loaded.list_threads("alice")[0].thread_id
                ).block.text
            )


def test_imported_task_contexts_expire(store: MemoryStore, tmp_path: Path) -> None:
    where = store.export_to("alice", tmp_path / "out")
    clock = Clock(pace=SECOND)
    with MemoryStore(tmp_path / "other", clock=clock) as other:
        other.import_package(where)
        clock.now = START + timedelta(days=2)
        assert other.expire().task_contexts == 1


def test_an_import_is_for_users_who_are_not_known(store: MemoryStore, tmp_path: Path) -> None:
    where = store.export_to("alice", tmp_path / "out")
    before = tree(store.root)
    with pytest.raises(UsageError, match="exists already; only a user without any data can be imported"):
        store.import_package(where)
    assert tree(store.root) == before
    store.delete_user("alice")
    with pytest.raises(AccountDeleted):
        store.import_package(where)


def import_with(files: Files, where: Path, root: Path) -> bool:
    """Import with a file system that may die; return whether it lived."""
    with MemoryStore(root, clock=Clock(pace=SECOND)) as other:
        other.workspace.files = other.workspace._writer._files = files
        try:
            other.import_package(where)
        except RunFault:
            return False
    return True


def test_an_import_that_dies_at_any_step_is_not_there_or_is_finished_by_whoever_comes_next(
    store: MemoryStore, tmp_path: Path
) -> None:
    where = store.export_to("alice", tmp_path / "out")
    whole = {name: digest for name, digest in tree(store.root).items() if "alice" in name}
    counting = Dying()
    counting.left = 1_000_000
    assert import_with(counting, where, tmp_path / "counted")
    total = 1_000_000 - int(counting.left)
    outcomes = []
    for died in range(total):
        if died % (STRIDE if died < total - 40 else length(3, 1)) and died < total - 1:
            continue
        root = tmp_path / f"other{died}"
        assert not import_with(Dying(died), where, root)
        with MemoryStore(root, clock=Clock(pace=SECOND)) as later:
            outcomes.append(tree(root))
            assert outcomes[-1] in ({}, whole), died
            if not outcomes[-1]:
                assert later.consent_state("alice") == "none"
    assert {} in outcomes
    assert whole in outcomes


Package = dict[str, bytes]


def rewritten(package: Package, user: str = "alice") -> Package:
    """Return a package with a right manifest, whatever its files are."""
    files = {path: data for path, data in package.items() if path != MANIFEST}
    return files | {MANIFEST: encode_manifest(manifest_of(user, "2026-05-16T00:00:00Z", files))}


def edit(part: str, old: bytes, new: bytes) -> Callable[[Package], Package]:
    def change(package: Package) -> Package:
        path = next(path for path in sorted(package) if part in path)
        assert old in package[path]
        return package | {path: package[path].replace(old, new, 1)}

    return change


def move(part: str, to: str) -> Callable[[Package], Package]:
    def change(package: Package) -> Package:
        path = next(path for path in sorted(package) if part in path)
        data = package[path]
        return {name: content for name, content in package.items() if name != path} | {to: data}

    return change


CRAFTED: dict[str, tuple[Callable[[Package], Package], str]] = {
    "unknown-file": (lambda package: package | {"evil.json": b"{}"}, "not a file of an export"),
    "state": (lambda package: package | {"_memfin/index": b"x"}, "not a file of an export"),
    "other-user": (edit("_profile/", b'"user_id":"alice"', b'"user_id":"bob"'), "another user"),
    "other-consent": (edit("consents/alice", b"user_id: alice", b"user_id: bob"), "another user"),
    "no-record": (edit("feedback/", b'"rating":"', b'"rating":"UP'), "is not a readable Feedback"),
    "spelling": (edit("feedback/", b'{"', b'{ "'), "not in the form"),
    "unknown-field": (edit("feedback/", b'{"', b'{"x":1,"'), "not in the form"),
    "other-id": (
        move("user_contexts/_task", "user_contexts/_task/ctx_1.json"),
        "its id differs from its file name",
    ),
    "other-thread": (
        move("user_contexts/_thread", "user_contexts/_thread/thread_1/ctx_1.json"),
        "its id differs from its file name",
    ),
    "other-scope": (
        edit("_task/", b'"scope":"task"', b'"scope":"profile"'),
        "its scope differs from its file name",
    ),
    "gap": (move("_history/1", "consents/_history/3.yaml"), "its id differs from its file name"),
    "lost-version": (
        lambda package: {path: data for path, data in package.items() if "_history" not in path},
        "without a gap",
    ),
    "profile-not-in-force": (
        edit("consents/alice", b"save_to_profile: true", b"save_to_profile: false"),
        "profile",
    ),
    "revoked": (
        edit("consents/alice", b"revoked_at: null", b"revoked_at: '2026-05-17T00:00:00Z'"),
        "profile",
    ),
    "thread-open": (edit("consents/alice", b"save_to_thread: true", b"save_to_thread: false"), "threads"),
    "no-consent": (
        lambda package: {path: data for path, data in package.items() if "consents" not in path},
        "profile",
    ),
    "drift-without-consent": (
        lambda package: {path: data for path, data in package.items() if "drift" in path},
        "drift",
    ),
    "index-of-nothing": (
        edit("_index", b'"drift_id":"drift_1"', b'"drift_id":"drift_2"'),
        "without a record",
    ),
    "no-index": (edit("_index", b"{", b"["), "is not an index"),
    "index-spelling": (edit("_index", b"{", b"{ "), "not in the form"),
    "deep-yaml": (
        lambda package: package | {"consents/alice.yaml": b"- " * 30_000},
        "is not a readable ProfileConsent",
    ),
    "bracket-yaml": (
        lambda package: package | {"consents/alice.yaml": b"[" * 30_000},
        "is not a readable ProfileConsent",
    ),
    "alias-yaml": (
        lambda package: package | {"consents/alice.yaml": b"a: &a 1\nb: *a\n"},
        "is not a readable ProfileConsent",
    ),
    "no-yaml": (
        lambda package: package | {"consents/alice.yaml": b"a: b: c"},
        "is not a readable ProfileConsent",
    ),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_package_with_a_right_manifest_writes_nothing(
    store: MemoryStore, tmp_path: Path, case: str
) -> None:
    change, message = CRAFTED[case]
    (tmp_path / "x.zip").write_bytes(zipped("alice", rewritten(change(store.export_user("alice")))))
    with MemoryStore(tmp_path / "other") as other:
        before = tree(other.root)
        with pytest.raises(UsageError, match=message) as raised:
            other.import_package(tmp_path / "x.zip")
        assert tree(other.root) == before
        assert "\n" not in str(raised.value)


def test_a_package_of_another_name_is_refused(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped("eve", rewritten(store.export_user("alice"), "eve")))
    with (
        MemoryStore(tmp_path / "other") as other,
        pytest.raises(UsageError, match="belongs to another user"),
    ):
        other.import_package(tmp_path / "x.zip")


def test_sensitive_text_does_not_come_in_with_a_package(store: MemoryStore, tmp_path: Path) -> None:
    package = edit("_profile/", "红利".encode(), "我的邮箱是 someone@example.com".encode())(
        store.export_user("alice")
    )
    (tmp_path / "x.zip").write_bytes(zipped("alice", rewritten(package)))
    with MemoryStore(tmp_path / "other") as other:
        with pytest.raises(UsageError, match="sensitive"):
            other.import_package(tmp_path / "x.zip")
        assert not tree(other.root)


def test_a_package_that_was_changed_is_refused_by_the_name_of_the_file(
    store: MemoryStore, tmp_path: Path
) -> None:
    where = store.export_to("alice", tmp_path / "out")
    for path in sorted(where.rglob("*.json"))[:2]:
        path.write_bytes(path.read_bytes() + b" ")
    with (
        MemoryStore(tmp_path / "other") as other,
        pytest.raises(UsageError, match=r"changed: .* and 1 more; memfin"),
    ):
        other.import_package(where)


def test_a_hostile_archive_writes_nothing_anywhere(store: MemoryStore, tmp_path: Path) -> None:
    package = store.export_user("alice")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path, data in package.items():
            archive.writestr(f"alice/{path}", data)
        archive.writestr("alice/../../../escaped", b"x")
    before = tree(tmp_path)
    with MemoryStore(tmp_path / "other") as other, pytest.raises(UsageError, match="added"):
        other.import_package(tmp_path / "x.zip")
    assert tree(tmp_path) == before


def test_an_imported_account_can_be_deleted_without_a_trace(store: MemoryStore, tmp_path: Path) -> None:
    where = store.export_to("alice", tmp_path / "out")
    with MemoryStore(tmp_path / "other", clock=Clock(pace=SECOND)) as other:
        other.import_package(where)
        other.delete_user("alice")
        left = [path for path in other.root.rglob("*") if path.is_file()]
        assert not [path for path in left if "光伏".encode() in path.read_bytes()]
        assert [path.name for path in left if "alice" in str(path.relative_to(other.root))] == ["alice.yaml"]


def test_a_package_has_every_file_of_a_person_but_the_hint(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        consent = store.grant_consent("u1", EVERYTHING, Preferences())
        thread = store.save_thread(
            "u1",
            "snap_1",
            "gold",
            {},
            save_user_context=True,
            consent_id=consent.consent_id,
            context={"constraints": ["no leverage"]},
        )
        store.items.add("u1", "likes tea")
        store.items.add("u1", "likes gold", thread_id=thread.thread_id)
        store.refresh_thread("u1", thread.thread_id, main_thesis="gold rises")
        store.record_feedback("u1", "snapshot:snap_1", {}, "useful")
        store.start_task("u1", "snapshot")
        assert store.take_hint("u1") is not None
        names = {Path(path).name for path in store.export_user("u1")}
    there = {each.name for each in tmp_path.rglob("*") if each.is_file() and ".memfin" not in each.parts}
    assert there - names == {"last.json"}
