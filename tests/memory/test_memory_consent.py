"""Consent: versions without gaps, what each scope allows, and who may write a profile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts.memory import ConsentScopes, Preferences, ProfileConsent
from memfin.memory import MemoryStore
from memfin.memory.consent import SCOPES, may_create_task
from memfin.memory.errors import (
    ConsentRequired,
    ConsentUnreadable,
    InvalidInput,
    NotFound,
)
from memfin.memory.records import decode
from memfin.memory.workspace import allows
from tests.memory.memory_disks import tree
from tests.memory.memory_world import (
    EVERYTHING,
    NOTHING_KEPT,
    SECOND,
    START,
    Clock,
    open_store,
    preferences,
    settle_in,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with open_store(tmp_path, Clock(pace=SECOND)) as opened:
        yield opened


def versions(store: MemoryStore, user_id: str) -> list[ProfileConsent]:
    """Return every version of a consent, read from its file."""
    paths = [
        store.workspace.paths.version(user_id, number) for number in store.workspace.consent_versions(user_id)
    ]
    paths.append(store.workspace.paths.consent(user_id))
    return [decode(path.read_bytes(), path, ProfileConsent) for path in paths]


def test_a_grant_writes_the_consent_and_the_profile(store: MemoryStore) -> None:
    assert store.consent_state("u1") == "none"
    consent = store.grant_consent("u1", EVERYTHING, preferences("gold"))
    assert store.consent_state("u1") == "granted"
    assert (consent.version, consent.revoked_at, consent.scopes) == (1, None, EVERYTHING)
    profile = store.read_profile("u1")
    assert profile is not None
    assert (profile.scope, profile.language_preference, profile.user_focus_reason) == (
        "profile",
        "zh",
        "gold",
    )
    assert sorted(tree(store.root)) == [
        "consents/u1.yaml",
        f"user_contexts/u1/_profile/{profile.context_id}.json",
    ]


def test_without_leave_to_save_it_no_profile_is_written(store: MemoryStore) -> None:
    consent = store.grant_consent("u1", NOTHING_KEPT, preferences("gold"))
    assert consent.profile_context_id is None
    assert store.read_profile("u1") is None
    assert sorted(tree(store.root)) == ["consents/u1.yaml"]
    with pytest.raises(ConsentRequired) as refused:
        store.review_profile("u1", {"research_depth": "deep"})
    assert refused.value.details["required_scopes"] == ["save_to_profile"]


def test_versions_count_from_one_without_gaps_and_keep_every_byte(store: MemoryStore) -> None:
    kept = []
    for number in range(1, 12):
        if number % 3:
            scopes = EVERYTHING.replace(training_use_allowed=bool(number % 2))
            store.grant_consent("u1", scopes, preferences(str(number)))
        else:
            store.revoke_consent("u1")
        kept.append((store.root / "consents" / "u1.yaml").read_bytes())
    assert [each.version for each in versions(store, "u1")] == list(range(1, 12))
    history = [(store.workspace.paths.version("u1", number)).read_bytes() for number in range(1, 11)]
    assert history == kept[:-1]


def test_a_consent_keeps_its_id_until_it_is_revoked_also_when_time_stands_still(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock()) as store:
        ids, found = grants_and_revocations(store)
    assert [each.consent_id for each in found] == [each for each in ids for _ in range(3)]
    assert len(set(ids)) == 4
    assert [each.revoked_at for each in found] == [None, None, START] * 4


def grants_and_revocations(store: MemoryStore) -> tuple[list[str], list[ProfileConsent]]:
    """Grant, grant anew and revoke four times; return the ids of the consents, and all versions."""
    ids = []
    for _ in range(4):
        store.grant_consent("u1", EVERYTHING)
        ids.append(store.grant_consent("u1", NOTHING_KEPT).consent_id)
        store.revoke_consent("u1")
    return ids, versions(store, "u1")


def test_preferences_of_a_later_grant_replace_the_profile_and_none_leave_it(store: MemoryStore) -> None:
    store.grant_consent("u1", EVERYTHING, preferences("first"))
    first = store.read_profile("u1")
    store.grant_consent("u1", EVERYTHING.replace(training_use_allowed=False))
    assert store.read_profile("u1") == first
    store.grant_consent("u1", EVERYTHING, Preferences(research_depth="quick"))
    second = store.read_profile("u1")
    assert second is not None
    assert (second.research_depth, second.language_preference, second.user_focus_reason) == (
        "quick",
        None,
        None,
    )
    assert store.workspace.files.names(store.workspace.paths.profiles("u1")) == [second.context_id]
    assert not any(b"first" in data for data in tree(store.root).values())


def test_scopes_and_preferences_may_be_mappings(store: MemoryStore) -> None:
    scopes = dict.fromkeys(ConsentScopes.__struct_fields__, True)
    cases: list[tuple[Any, str]] = [
        (({"create_task": True},), "scopes: Object missing required field"),
        ((scopes | {"x": True},), "scopes.x: is not a known field; known fields: create_task, "),
        (("all",), "scopes: give a mapping of fields"),
        ((scopes, {"constraints": []}), "preferences.constraints: is not a known field"),
    ]
    for given, message in cases:
        with pytest.raises(InvalidInput) as refused:
            store.grant_consent("u1", *given)
        assert str(refused.value).startswith(message)
    assert store.consent_state("u1") == "none"
    store.grant_consent("u1", scopes, {"research_depth": "deep"})
    profile = store.read_profile("u1")
    assert profile is not None
    assert profile.research_depth == "deep"
    with pytest.raises(InvalidInput, match="changes: give a mapping of fields; known fields: language_pref"):
        store.review_profile("u1", ["no leverage"])  # type: ignore[arg-type]


def test_a_profile_saved_before_a_revocation_does_not_come_back(store: MemoryStore) -> None:
    store.grant_consent("u1", EVERYTHING, preferences("first"))
    store.revoke_consent("u1")
    store.grant_consent("u1", EVERYTHING)
    profile = store.read_profile("u1")
    assert profile is not None
    assert (profile.language_preference, profile.user_focus_reason) == (None, None)


def test_a_review_edits_and_deletes_single_fields(store: MemoryStore) -> None:
    store.grant_consent("u1", EVERYTHING, preferences("gold"))
    store.review_profile("u1", {"research_style": "slow", "constraints": ["no leverage"]})
    profile = store.review_profile(
        "u1", {"language_preference": None, "constraints": None, "risk_prompt_preference": "risk_first"}
    )
    assert store.read_profile("u1") == profile
    assert (profile.language_preference, profile.constraints) == (None, [])
    assert (profile.research_depth, profile.user_focus_reason) == ("deep", "gold")
    assert (profile.research_style, profile.risk_prompt_preference) == ("slow", "risk_first")
    assert profile.updated_at > profile.created_at
    assert len(store.workspace.files.names(store.workspace.paths.profiles("u1"))) == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"context_id": "x"}, "'context_id': is not a field of a profile"),
        ({"user_id": "u2"}, "'user_id': is not a field"),
        ({"scope": "task"}, "'scope': is not a field"),
        ({"consent_blocked": True}, "'consent_blocked': is not a field"),
        ({"x" * 100: 1}, "'x{40}': is not a field"),
        ({"language_preference": "fr"}, "language_preference: "),
        ({"research_depth": 3}, "research_depth: "),
        ({"constraints": ["ok", ""]}, "constraints"),
        ({"user_focus_reason": "x" * 4001}, "user_focus_reason: "),
    ],
    ids=["id", "user", "scope", "flag", "unknown", "value", "number", "item", "length"],
)
def test_a_review_that_does_not_fit_changes_nothing(
    store: MemoryStore, changes: dict[str, Any], told: str
) -> None:
    store.grant_consent("u1", EVERYTHING, preferences("gold"))
    before = tree(store.root, state=True)
    with pytest.raises(InvalidInput, match=told):
        store.review_profile("u1", changes)
    assert tree(store.root, state=True) == before


def test_only_grant_and_review_ever_touch_a_profile(store: MemoryStore) -> None:
    store.grant_consent("u1", EVERYTHING, preferences("gold"))
    directory = store.workspace.paths.profiles("u1")
    profile = tree(directory)
    consent = store.consent_on_file("u1").in_force
    assert consent is not None
    thread = store.save_thread("u1", "s1", "t", {}, save_user_context=True, consent_id=consent.consent_id)
    store.refresh_thread("u1", thread.thread_id, main_thesis="another thesis")
    store.patch_thread("u1", thread.thread_id, consent_blocked=True, status="closed")
    task = store.begin_task("u1", "snapshot")
    store.end_task("u1", str(task.task_id))
    store.add_candidate("u1", "snapshot:s1")
    store.expire()
    store.rebuild_index()
    assert tree(directory) == profile


@pytest.mark.parametrize("scope", SCOPES)
def test_one_scope_is_revoked_alone_until_it_is_the_last(store: MemoryStore, scope: Any) -> None:
    consent = store.grant_consent("u1", EVERYTHING, preferences("gold"))
    done = store.revoke_consent("u1", consent.consent_id, scope=scope)
    assert (done.version, done.whole, done.consent_id) == (2, False, consent.consent_id)
    found = store.consent_on_file("u1").in_force
    assert [allows(found, name) for name in SCOPES] == [name != scope for name in SCOPES]
    assert (store.read_profile("u1") is None) == (scope == "save_to_profile")
    again = store.revoke_consent("u1", scope=scope)
    assert again == done
    for name in SCOPES:
        done = store.revoke_consent("u1", scope=name)
    assert done.whole
    assert (store.consent_state("u1"), done.version) == ("revoked", 5)


def test_revoking_twice_says_the_same_and_writes_nothing(store: MemoryStore) -> None:
    consent = store.grant_consent("u1", EVERYTHING, preferences("gold"))
    done = store.revoke_consent("u1", consent.consent_id)
    before = tree(store.root, state=True)
    assert store.revoke_consent("u1", consent.consent_id) == done
    assert store.revoke_consent("u1", scope="create_task") == done
    store.on_consent_revoked("u1")
    assert tree(store.root, state=True) == before


def test_what_is_not_there_cannot_be_revoked(store: MemoryStore) -> None:
    with pytest.raises(NotFound):
        store.revoke_consent("u1")
    consent = store.grant_consent("u1", EVERYTHING)
    with pytest.raises(NotFound):
        store.revoke_consent("u1", "consent_of_another")
    with pytest.raises(NotFound):
        store.revoke_consent("u1", consent.consent_id, scope="everything")  # type: ignore[arg-type]
    with pytest.raises(ConsentRequired):
        store.on_consent_revoked("u1")
    assert store.workspace.consent_versions("u1") == []


@pytest.mark.parametrize(
    "data", [b"", b"}", b"consent_id: x\n", b"\xff\xfe"], ids=["empty", "no-yaml", "cut", "bytes"]
)
def test_a_consent_that_cannot_be_read_allows_nothing_and_can_be_revoked(
    store: MemoryStore, data: bytes
) -> None:
    settle_in(store, "u1", "mark")
    store.grant_consent("u1", EVERYTHING)
    (store.root / "consents" / "u1.yaml").write_bytes(data)
    assert store.consent_state("u1") == "unreadable"
    assert store.read_profile("u1") is None
    attempts = (
        lambda: store.grant_consent("u1", EVERYTHING),
        lambda: store.review_profile("u1", {}),
        lambda: store.begin_task("u1", "snapshot"),
        lambda: store.save_thread("u1", "s", "t", {}),
    )
    for attempt in attempts:
        with pytest.raises(ConsentUnreadable):
            attempt()
    store.rebuild_index()
    assert store.workspace.paths.profiles("u1").exists()  # the file may yet be restored
    done = store.revoke_consent("u1")
    assert (done.version, done.whole) == (3, True)
    assert store.workspace.paths.version("u1", 2).read_bytes() == data
    assert not store.workspace.paths.profiles("u1").exists()
    assert store.grant_consent("u1", EVERYTHING).version == 4


def test_a_damaged_consent_whose_bytes_are_kept_already_is_that_version(store: MemoryStore) -> None:
    store.grant_consent("u1", EVERYTHING)
    store.grant_consent("u1", EVERYTHING)
    path = store.root / "consents" / "u1.yaml"
    path.write_bytes(b"}")
    store.workspace.files.save(store.workspace.paths.version("u1", 2), b"}")
    assert store.workspace.version_on_file("u1") == 2
    assert store.revoke_consent("u1").version == 3
    assert store.workspace.version_on_file("u2") == 0


def test_a_damaged_profile_is_none_and_a_grant_replaces_it(store: MemoryStore) -> None:
    consent = store.grant_consent("u1", EVERYTHING, preferences("gold"))
    path = store.workspace.paths.profile("u1", str(consent.profile_context_id))
    path.write_bytes(b"{")
    assert store.read_profile("u1") is None
    with pytest.raises(ConsentUnreadable, match="grant consent again with the preferences"):
        store.review_profile("u1", {"research_depth": "quick"})
    store.grant_consent("u1", EVERYTHING, Preferences(research_depth="quick"))
    profile = store.read_profile("u1")
    assert profile is not None
    assert profile.research_depth == "quick"


def test_tasks_need_consent_once_and_go_on_without_memory_after_a_revocation() -> None:
    consent = ProfileConsent(
        consent_id="c", user_id="u1", version=1, scopes=EVERYTHING, granted_at=START, updated_at=START
    )
    refused = consent.replace(scopes=EVERYTHING.replace(create_task=False))
    assert [may_create_task(each) for each in (None, consent, refused)] == [False, True, False]
    assert may_create_task(consent.replace(revoked_at=START))
    assert not any(allows(consent.replace(revoked_at=START), scope) for scope in SCOPES)
    assert not any(allows(None, scope) for scope in SCOPES)


def test_scopes_are_said_one_by_one() -> None:
    with pytest.raises(TypeError, match="Missing required argument"):
        ConsentScopes(create_task=True)  # type: ignore[call-arg]


def test_a_wrong_argument_names_the_method_of_the_store(store: MemoryStore) -> None:
    with pytest.raises(
        TypeError, match=r"MemoryStore\.review_profile\(\) got an unexpected .* 'constraints'"
    ):
        store.review_profile("u1", {}, constraints=["no leverage"])  # type: ignore[call-arg]
