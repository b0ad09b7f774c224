"""Where a person stands with consent, and whether a task may begin (memory design §8.1, §8.4, §8.5)."""

from typing import Literal

from memfin.contracts.memory import ConsentScope, ProfileConsent
from memfin.memory.errors import ConsentRequired

OnboardingState = Literal["brand_new", "incomplete", "revoked", "active"]
"""Nothing on file; known but without consent; consent taken back; consent in force."""


def onboarding_state(
    consent: ProfileConsent | None, *, known: bool, readable: bool = True
) -> OnboardingState:
    """Return where a person stands.

    Args:
        consent: the consent's last version, None where there is none.
        known: whether anything else names the person: an access token, a context.
        readable: whether the file of the consent, if there is one, could be read. Whoever has one
            that cannot be read is treated as somebody without.
    """
    if consent is None or not readable:
        return "incomplete" if known or not readable else "brand_new"
    return "active" if consent.revoked_at is None else "revoked"


def require_scope(
    state: OnboardingState, consent: ProfileConsent | None, scope: ConsentScope = "create_task"
) -> None:
    """Return if a task may begin; somebody who revoked may go on, as somebody who is not remembered.

    Raises:
        ConsentRequired: onboarding was not completed, or the consent in force leaves the scope out.
    """
    if state == "revoked" and scope == "create_task":
        return
    if state == "active" and consent is not None and consent.scopes[scope]:
        return
    raise ConsentRequired(
        f"{scope}: this needs a consent that is not there; ask for it in the consent dialogue", [scope]
    )
