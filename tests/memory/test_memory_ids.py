"""Ids: what counts as one, how they are made, and that case tells nobody apart."""

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.memory.errors import InvalidId
from memfin.memory.paths import Paths, check_id, new_id, stamp, with_prefix
from tests.memory.memory_world import EVERYTHING, START, open_store
from tests.support import each_case

HOSTILE = {
    "empty": "",
    "dot": ".",
    "parent": "..",
    "climbing": "../u1",
    "slash": "u1/u2",
    "backslash": "u1\\u2",
    "absolute": "/etc/passwd",
    "nul": "u1\0",
    "newline": "u1\n",
    "space": "u 1",
    "too-long": "u" * 65,
    "chinese": "用户",
    "full-width": "ｕ１",
    "arabic-digit": "u١",
    "long-s": "uſ",
    "kelvin": "u\u212a",
    "percent": "u%2e",
    "yaml": "u1.yaml",
    "number": 1,
    "nothing": None,
    "bytes": b"u1",
}


@each_case("name", HOSTILE)
def test_what_is_no_id_is_refused_without_being_repeated(name: str) -> None:
    with pytest.raises(InvalidId, match=r"^user id: must be 1 to 64 ASCII") as refused:
        check_id(HOSTILE[name])
    text = HOSTILE[name]
    assert not isinstance(text, str) or len(text) < 4 or text not in str(refused.value)


@each_case("value", ["u", "U-1_x", "-", "_", "con", "0", "a" * 64])
def test_ids_are_what_they_are(value: str) -> None:
    assert check_id(value) == value


@given(st.text(max_size=70))
def test_no_path_leaves_the_directory_of_its_user(value: str) -> None:
    paths = Paths(Path("/data"))
    try:
        made = [
            *paths.trees(value),
            paths.consent(value),
            paths.version(value, 1),
            paths.stub(value),
            paths.marker(value),
            paths.task("u", value),
            paths.profile("u", value),
            paths.thread_context("u", value, value),
            paths.refresh("u", value, value),
        ]
    except InvalidId:
        assert not re.fullmatch("[A-Za-z0-9_-]{1,64}", value)
        return
    for path in made:
        assert ".." not in path.parts
        assert path.parts.count(value) + (path.stem == value) >= 1 or path.parent.parent.name == value


def test_new_ids_say_what_and_when_and_depend_on_nothing_else() -> None:
    moment = datetime(2026, 11, 22, 5, 11, tzinfo=UTC)
    first = new_id("drift", "u1", moment, lambda _: False)
    assert re.fullmatch(r"drift_20261122T051100Z_[0-9a-f]{6}", first)
    assert first == new_id("drift", "u1", moment, lambda _: False)
    others = {
        new_id("drift", "u2", moment, lambda _: False),
        new_id("drift", "u1", moment, {first}.__contains__),
        new_id("ctx", "u1", moment, lambda _: False),
    }
    assert len({first, *others}) == 4


def test_new_ids_are_never_those_that_are_taken() -> None:
    taken: set[str] = set()
    for _ in range(200):
        found = new_id("ctx", "u1", START, taken.__contains__)
        assert found not in taken
        taken.add(found)


def test_moments_in_ids_are_utc() -> None:
    east = timezone(timedelta(hours=8))
    assert stamp(datetime(2026, 11, 22, 13, 11, tzinfo=east)) == "20261122T051100Z"


def test_a_task_and_its_context_share_all_but_the_prefix() -> None:
    assert with_prefix("task", "ctx_20261122T051100Z_abcdef") == "task_20261122T051100Z_abcdef"
    assert with_prefix("ctx", "task") == "ctx_"


@pytest.mark.parametrize(("first", "second"), [("bob", "Bob"), ("BOB", "bob"), ("a-B_1", "A-b_1")])
def test_an_id_that_differs_only_in_case_is_refused(first: str, second: str, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent(first, EVERYTHING)
        with pytest.raises(InvalidId, match="only in case"):
            store.grant_consent(second, EVERYTHING)
        assert store.consent_state(second) == "none"
        assert store.grant_consent(first, EVERYTHING).version == 2


def test_it_is_refused_by_another_process_without_an_index_and_after_the_account_is_deleted(
    tmp_path: Path,
) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("Bob", EVERYTHING)
    (tmp_path / ".memfin" / "index.sqlite").unlink()
    with open_store(tmp_path) as store:
        with pytest.raises(InvalidId):
            store.grant_consent("bob", EVERYTHING)
        store.delete_user("Bob")
        with pytest.raises(InvalidId):
            store.grant_consent("bob", EVERYTHING)


def test_an_id_claimed_by_a_grant_that_never_came_to_be_is_free(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.workspace.index.claim("Bob")
        assert store.grant_consent("bob", EVERYTHING).user_id == "bob"
        with pytest.raises(InvalidId):
            store.grant_consent("Bob", EVERYTHING)


def test_a_consent_that_lies_in_the_place_of_anothers_is_not_theirs(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("u1", EVERYTHING)
        consents = tmp_path / "consents"
        (consents / "u2.yaml").write_bytes((consents / "u1.yaml").read_bytes())
        assert store.consent_state("u2") == "unreadable"
        assert store.read_profile("u2") is None
