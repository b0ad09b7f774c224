"""Where people stand with consent before a task."""

from typing import Any

from memfin.contracts.memory import ProfileConsent
from memfin.memory.consent import ConsentOnFile, onboarding_state
from tests.memory.stored_contexts import ALL, NOW
from tests.support import each_case


def on_file(**fields: Any) -> ConsentOnFile:
    known: dict[str, Any] = {
        "consent_id": "c1",
        "user_id": "u1",
        "version": 1,
        "scopes": ALL,
        "granted_at": NOW,
        "updated_at": NOW,
    }
    return ConsentOnFile(b"...", ProfileConsent(**(known | fields)))


@each_case(
    ("consent", "known", "state"),
    [
        (ConsentOnFile(None, None), False, "brand_new"),
        (ConsentOnFile(None, None), True, "incomplete"),
        (ConsentOnFile(b"{", None), False, "incomplete"),
        (ConsentOnFile(b"{", None), True, "incomplete"),
        (on_file(), True, "active"),
        (on_file(revoked_at=NOW), True, "revoked"),
    ],
    ids=["nothing", "token alone", "unreadable", "unreadable and known", "active", "revoked"],
)
def test_a_person_stands_where_the_file_says(consent: ConsentOnFile, known: bool, state: str) -> None:
    assert onboarding_state(consent, known=known) == state
