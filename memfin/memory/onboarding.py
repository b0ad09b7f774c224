"""Where a person stands with consent before a task (memory design §8.1)."""

from typing import Literal

from memfin.memory.consent import ConsentOnFile

OnboardingState = Literal["brand_new", "incomplete", "revoked", "active"]
"""Nothing on file; known but without consent; consent taken back; consent in force."""


def onboarding_state(on_file: ConsentOnFile, *, known: bool = True) -> OnboardingState:
    """Return where a person stands.

    A consent that cannot be read is none: its person has to be asked again.

    Args:
        on_file: the person's consent as it is on file.
        known: whether anything else names the person: an access token, a context.
    """
    if on_file.data is None:
        return "incomplete" if known else "brand_new"
    if on_file.consent is None:
        return "incomplete"
    return "active" if on_file.in_force is not None else "revoked"
