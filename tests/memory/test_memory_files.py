"""The file layer, the records in it, the plans that write them, and the index beside them."""

import math
import sqlite3
import stat
from collections.abc import Hashable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from memfin.contracts.memory import (
    ConsentScopes,
    ContextFields,
    DriftRecord,
    Feedback,
    ProfileConsent,
    ThreadHeader,
    ThreadRefresh,
    TrainingAssetCandidate,
    UserContext,
)
from memfin.errors import RunFault
from memfin.memory import MemoryStore
from memfin.memory.errors import InvalidInput, ProfileWriteRefused, SensitiveInput
from memfin.memory.files import Files
from memfin.memory.index import Index
from memfin.memory.paths import Paths
from memfin.memory.records import (
    MAX_DEPTH,
    MAX_RECORD,
    Append,
    Keep,
    ProfileWriteToken,
    Put,
    RecordDamaged,
    RemoveTree,
    Writer,
    encode,
    load,
    load_sound,
    text_fields,
)
from memfin.memory.store import _InMemoryFiles
from tests.memory.memory_disks import CountedFiles, tree
from tests.memory.memory_world import EVERYTHING, START, Clock, open_store, preferences, settle_in
from tests.support import each_case

HEADER = ThreadHeader(
    thread_id="thread_1",
    user_id="u1",
    snapshot_id="snap_1",
    title="黄金",
    cognition_object={"asset": "XAU"},
    created_at=START,
    updated_at=START,
)
CONTEXT = UserContext(context_id="c", user_id="u1", scope="profile", created_at=START, updated_at=START)


def passes(value: Any, field: str) -> None:
    """Find nothing sensitive."""


def refuses_secret(value: Any, field: str) -> None:
    if "secret" in str(value):
        raise SensitiveInput("title", ["api_key"])


def writer(root: Path) -> Writer:
    return Writer(Files(), Paths(root), refuses_secret)


def test_a_file_is_written_beside_its_place_synchronised_renamed_and_its_directory_synchronised(
    tmp_path: Path,
) -> None:
    files = CountedFiles()
    files.save(tmp_path / "a" / "x.json", b"{}")
    assert [kind for kind, _ in files.steps] == [
        "mkdir",
        "fsync",
        "open",
        "write",
        "fsync",
        "replace",
        "fsync",
    ]
    assert tree(tmp_path) == {"a/x.json": b"{}"}


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "data") as store:
        settle_in(store, "u1", "mark")
        store.revoke_consent("u1")
    for path in (tmp_path / "data").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_directories_are_listed_without_what_is_not_finished(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", ".c.json.tmp", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    files = Files()
    assert files.names(tmp_path) == ["a", "b"]
    assert files.entries(tmp_path) == [".c.json.tmp", "a.json", "b.json", "notes.txt"]
    assert list(files.strays(tmp_path)) == [tmp_path / ".c.json.tmp"]
    assert files.names(tmp_path / "none") == files.entries(tmp_path / "a.json") == []
    assert files.load(tmp_path / "none") is files.load(tmp_path / "a.json" / "x") is None


@pytest.mark.parametrize("kind", [Files, _InMemoryFiles], ids=["disk", "in-memory"])
def test_files_of_a_directory_are_read_by_name_without_those_that_vanish(
    kind: type[Files], tmp_path: Path
) -> None:
    files = kind() if kind is Files else _InMemoryFiles({})
    for name in ("b.json", "a.json", "c.json", ".d.json.tmp", ".e.json", "notes.txt", "sub/x.json"):
        files.save(tmp_path / name, name.encode())
    assert list(files.loaded(tmp_path)) == [(name, name.encode()) for name in ("a.json", "b.json", "c.json")]
    assert list(files.loaded(tmp_path / "none")) == list(files.loaded(tmp_path / "a.json")) == []


def test_a_file_that_vanishes_before_it_is_opened_is_left_out(tmp_path: Path) -> None:
    for name in ("a.json", "c.json"):
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / "b.json").symlink_to(tmp_path / "vanished")
    assert list(Files().loaded(tmp_path)) == [("a.json", b"{}"), ("c.json", b"{}")]


def test_a_tree_is_removed_whole_and_a_link_in_it_is_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "x").write_bytes(b"x")
    (tmp_path / "gone" / "deep").mkdir(parents=True)
    (tmp_path / "gone" / "deep" / "y").write_bytes(b"y")
    (tmp_path / "gone" / "link").symlink_to(kept)
    files = Files()
    files.remove_tree(tmp_path / "gone")
    files.remove_tree(tmp_path / "gone")
    assert tree(tmp_path) == {"kept/x": b"x"}


@each_case(
    ("kind", "fields"),
    [
        (ThreadHeader, ("snapshot_id", "title", "cognition_object")),
        (
            UserContext,
            (
                "user_focus_reason",
                "research_style",
                "user_stated_position_context",
                "time_horizon",
                "constraints",
            ),
        ),
        (ThreadRefresh, ("main_thesis", "change_summary", "watch_question_updates")),
        (Feedback, ("related_object_ref", "cognition_object", "rating", "comment")),
        (
            DriftRecord,
            ("object_ref", "cognition_object", "prior_signal", "current_signal", "delta_summary"),
        ),
        (TrainingAssetCandidate, ("source_object_ref",)),
        (ProfileConsent, ()),
        (ConsentScopes, ()),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "fields",
)
def test_every_field_that_can_hold_what_a_person_wrote_passes_the_gate(
    kind: type[Any], fields: tuple[str, ...]
) -> None:
    assert text_fields(cast("Hashable", kind)) == fields


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


@each_case(
    ("changes", "told"),
    [
        ({"title": ""}, "title: "),
        ({"title": "x" * 201}, "title: "),
        ({"title": 3}, "title: "),
        ({"title": "\ud800"}, "not Unicode"),
        ({"cognition_object": {"x": math.nan}}, "cognition_object.x: is not a finite number"),
        ({"cognition_object": {"x": [math.inf]}}, r"cognition_object.x\[0\]: is not a finite number"),
        ({"cognition_object": {"x": object()}}, "cannot represent"),
        ({"cognition_object": {"x": nested(MAX_DEPTH)}}, "levels deep"),
        ({"cognition_object": {"x": nested(100_000)}}, "cannot represent"),
        ({"cognition_object": {"x": "y" * MAX_RECORD}}, "larger than"),
        ({"snapshot_id": "../x"}, "snapshot_id: "),
        ({"user_id": "u" * 65}, "user_id: "),
        ({"status": "open"}, "status: "),
        ({"created_at": START.replace(tzinfo=None)}, "created_at: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_record_that_does_not_fit_is_refused_in_one_line(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        encode(HEADER.replace(**changes), Path("x.json"), passes)
    assert "\n" not in str(refused.value)


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    deep = HEADER.replace(cognition_object={"x": nested(MAX_DEPTH - 2), "名": [1, 2.5, None, True]})
    Files().save(tmp_path / "x.json", encode(deep, Path("x.json"), passes))
    assert load(Files(), tmp_path / "x.json", ThreadHeader) == deep


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b'{"user_id": 1}', b"[" * 100_000, b"- " * 100_000, b"!!python/object:x {}"],
    ids=["empty", "cut", "list", "no-text", "misfit", "deep", "deep-block", "object"],
)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_damaged_file_is_told_by_name_and_without_content(suffix: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    with pytest.raises(RecordDamaged, match=r"^.*/x\.(json|yaml): is not a readable ProfileConsent"):
        load(Files(), path, ProfileConsent)


def test_damaged_records_can_be_left_out(tmp_path: Path) -> None:
    Files().save(tmp_path / "b.json", encode(HEADER, Path("x.json"), passes))
    (tmp_path / "a.json").write_bytes(b"{")
    assert list(load_sound(Files(), tmp_path, ThreadHeader)) == [HEADER]


def test_a_plan_is_refused_as_a_whole_before_anything_is_written(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    good = Put(paths.thread("u1", "t1"), HEADER)
    bad = Put(paths.thread("u1", "t2"), HEADER.replace(title="secret"))
    with pytest.raises(SensitiveInput):
        writer(tmp_path).check([good, bad])
    assert tree(tmp_path) == {}


def test_what_is_on_file_may_be_marked_under_a_gate_that_became_stricter(tmp_path: Path) -> None:
    path = Paths(tmp_path).thread("u1", "t1")
    Files().save(path, encode(HEADER.replace(title="secret"), path, passes))
    strict = writer(tmp_path)
    marked = HEADER.replace(title="secret", consent_blocked=True)
    strict.do(strict.check([Put(path, marked)]))
    assert load(Files(), path, ThreadHeader) == marked
    with pytest.raises(SensitiveInput):
        strict.check([Put(path, HEADER.replace(title="secret too"))])
    path.write_bytes(b"{")
    with pytest.raises(SensitiveInput):
        strict.check([Put(path, marked)])


@pytest.mark.parametrize(
    "write_token",
    [None, ProfileWriteToken()],
    ids=["none", "own"],
)
def test_nothing_writes_a_profile_without_the_token_of_onboarding_or_review(
    write_token: ProfileWriteToken | None, tmp_path: Path
) -> None:
    path = Paths(tmp_path).profile("u1", "c")
    with pytest.raises(ProfileWriteRefused):
        writer(tmp_path).check([Put(path, CONTEXT, write_token)])
    with pytest.raises(ProfileWriteRefused):
        writer(tmp_path).check([Append(path, CONTEXT)])
    with pytest.raises(ProfileWriteRefused):
        writer(tmp_path).check([Keep(path, b"{}")])


def test_lines_are_added_at_the_end(tmp_path: Path) -> None:
    path = Paths(tmp_path).drift_index("u1")
    lines = writer(tmp_path)
    for number in range(3):
        lines.do(lines.check([Append(path, HEADER.replace(title=f"t{number}"))]))
    assert [line.count(b"title") for line in path.read_bytes().splitlines()] == [1, 1, 1]
    lines.do(lines.check([RemoveTree(path.parent)]))
    assert not path.parent.exists()


def test_the_index_is_rebuilt_from_the_files(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        settle_in(store, "u1", "mark")
        settle_in(store, "u2", "mark")
        store.delete_user("u2")
        rows = dump(tmp_path)
        store.rebuild_index()
    assert dump(tmp_path) == rows
    index = tmp_path / ".memfin" / "index.sqlite"
    of_another_layout = tmp_path / "another.sqlite"
    connection = sqlite3.connect(of_another_layout)
    connection.executescript("CREATE TABLE users (x); PRAGMA user_version = 99")
    connection.close()
    damages = (b"", b"no database, whatever it may look like" * 200, of_another_layout.read_bytes())
    for damage in damages:
        index.write_bytes(damage)
        with open_store(tmp_path, clock) as store:
            assert dump(tmp_path) == rows
            assert store.workspace.index.users() == ["u1", "u2"]


def dump(root: Path) -> list[str]:
    connection = sqlite3.connect(root / ".memfin" / "index.sqlite")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_damaged_task_context_is_swept_with_the_next_sweep_after_a_rebuild(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        settle_in(store, "u1", "mark")
        tasks = sorted((tmp_path / "user_contexts" / "u1" / "_task").iterdir())
        tasks[0].write_bytes(b"{")
        assert store.expire().task_contexts == 0
        store.rebuild_index()
        assert store.expire().task_contexts == 1
        assert not tasks[0].exists()
        assert tasks[1].exists()


def test_opening_again_finds_nothing_to_do(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        settle_in(store, "u1", "mark")
    before = tree(tmp_path, state=True)
    files = CountedFiles()
    open_store(tmp_path, files=files).close()
    assert tree(tmp_path, state=True) == before
    assert [kind for kind, _ in files.steps] == ["open"]


def test_names_that_are_no_ids_are_left_alone(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("u1", EVERYTHING)
        for name in ("consents/read me.yaml", ".memfin/pending/no id", "threads/.keep", "feedback/x.txt"):
            (tmp_path / name).write_bytes(b"")
        store.rebuild_index()
        assert store.workspace.index.users() == ["u1"]


def test_a_root_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunFault, match=r"^memory .*/file/data: .*Not a directory$"):
        MemoryStore(tmp_path / "file" / "data")


def test_an_index_that_fails_is_told_in_one_line(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.workspace.index.close()
        with pytest.raises(RunFault, match=r"index\.sqlite: Cannot operate on a closed database"):
            store.grant_consent("u1", EVERYTHING)
        assert tree(tmp_path) == {}


def test_a_change_of_the_index_that_fails_is_undone(tmp_path: Path) -> None:
    index = Index(tmp_path / "index.sqlite", Files())
    index.build(["u1"], [])
    with pytest.raises(AttributeError):
        index.build(["u2", None], [])  # type: ignore[list-item]
    assert index.users() == ["u1"]
    index.expect("u1", "c1", START)
    assert index.still_expired("u1", ["c1", "c2"], START) == ["c1"]
    assert index.still_expired("u1", ["c1"], START - timedelta(microseconds=1)) == []
    index.close()


def test_a_clock_without_a_zone_is_refused(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path, clock=lambda: START.replace(tzinfo=None))
    with pytest.raises(InvalidInput, match="zone"), store:
        store.grant_consent("u1", EVERYTHING)


def test_the_gate_of_a_store_is_the_real_one_by_default(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        with pytest.raises(SensitiveInput):
            store.grant_consent("u1", EVERYTHING, preferences("我的邮箱是zhang.wei@example.com，请记住"))
        assert tree(tmp_path) == {}
        consent = store.grant_consent("u1", EVERYTHING)
        before = tree(tmp_path)
        for attempt in (
            lambda: store.review_profile("u1", {"constraints": ["电话13812345678"]}),
            lambda: store.save_thread("u1", "s", "t", {"x": {"y": ["zhang.wei@example.com"]}}),
            lambda: store.save_thread(
                "u1",
                "s",
                "t",
                {},
                save_user_context=True,
                consent_id=consent.consent_id,
                context=ContextFields(research_style="zhang.wei@example.com"),
            ),
            lambda: store.begin_task(
                "u1", "snapshot", fields=ContextFields(time_horizon="a zhang.wei@example.com")
            ),
        ):
            with pytest.raises(SensitiveInput):
                attempt()
        assert tree(tmp_path) == before
