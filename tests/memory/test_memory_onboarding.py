"""Where people stand with consent, and who may begin a task."""

from typing import Any

import pytest

from memfin.contracts.memory import ConsentScope, ProfileConsent
from memfin.memory.errors import ConsentRequired
from memfin.memory.onboarding import onboarding_state, require_scope
from tests.memory.stored_contexts import ALL, NOTHING, NOW


def consent(**fields: Any) -> ProfileConsent:
    known: dict[str, Any] = {
        "consent_id": "c1",
        "user_id": "u1",
        "version": 1,
        "scopes": ALL,
        "granted_at": NOW,
        "updated_at": NOW,
    }
    return ProfileConsent(**(known | fields))


@pytest.mark.parametrize(
    ("on_file", "known", "readable", "state"),
    [
        (None, False, True, "brand_new"),
        (None, True, True, "incomplete"),
        (None, False, False, "incomplete"),
        (consent(), True, False, "incomplete"),
        (consent(), True, True, "active"),
        (consent(revoked_at=NOW), True, True, "revoked"),
    ],
    ids=["nothing", "token alone", "unreadable", "unreadable once active", "active", "revoked"],
)
def test_a_person_stands_where_the_file_says(
    on_file: ProfileConsent | None, known: bool, readable: bool, state: str
) -> None:
    assert onboarding_state(on_file, known=known, readable=readable) == state


@pytest.mark.parametrize("state", ["brand_new", "incomplete"])
def test_without_consent_no_task_begins_and_the_scopes_that_are_wanting_are_named(state: Any) -> None:
    with pytest.raises(ConsentRequired, match="create_task") as raised:
        require_scope(state, None)
    assert raised.value.code == "profile_consent_required"
    assert raised.value.details["required_scopes"] == ["create_task"]


def test_a_consent_that_leaves_tasks_out_begins_none() -> None:
    with pytest.raises(ConsentRequired):
        require_scope("active", consent(scopes=ALL.replace(create_task=False)))
    with pytest.raises(ConsentRequired) as raised:
        require_scope("active", consent(scopes=NOTHING), "save_to_thread")
    assert raised.value.details["required_scopes"] == ["save_to_thread"]


def test_an_active_consent_begins_tasks() -> None:
    require_scope("active", consent())
    require_scope("active", consent(scopes=NOTHING.replace(create_task=True)))


def test_whoever_revoked_may_begin_tasks_and_save_nothing() -> None:
    revoked = consent(revoked_at=NOW)
    require_scope("revoked", revoked)
    scopes: tuple[ConsentScope, ...] = ("save_to_profile", "save_to_thread", "training_use_allowed")
    for scope in scopes:
        with pytest.raises(ConsentRequired):
            require_scope("revoked", revoked, scope)
