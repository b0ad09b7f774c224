"""The light hints behind a result, and how seldom they come (memory design §8.3, §8.5, open item O-6)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from memfin.contracts.base import Language, Record
from memfin.contracts.memory import Moment, SchemaVersion
from memfin.memory.onboarding import OnboardingState
from memfin.memory.slices import LoadedMemory

Hint = Literal["set_preferences", "renew_consent"]


class HintShown(Record):
    """The last hint that a user was shown, as it is on file."""

    hint: Hint
    shown_at: Moment
    schema_version: SchemaVersion = "1.0"


PAUSE: Final = timedelta(hours=24)
"""A user sees at most one hint in this time."""

TEXTS: Final[Mapping[Hint, Mapping[Language, str]]] = {
    "set_preferences": {
        "zh": "在设置里填写偏好，结果会更贴合您。",
        "en": "Results fit you better once you set your preferences.",
    },
    "renew_consent": {
        "zh": "您已撤回个人资料授权；如需个性化结果，请重新授权。",
        "en": "You revoked consent to your profile; give it again for results made for you.",
    },
}


def hint_for(
    state: OnboardingState, shown_at: datetime | None, now: datetime, *, preferred: bool
) -> Hint | None:
    """Return the hint that a result may carry, or None.

    Somebody who revoked is told how to be remembered again; somebody with consent who set none of the
    preferences, that there are some. Neither is told again before `PAUSE` is over.

    Args:
        state: where the user stands.
        shown_at: when this user was shown a hint last, None for never.
        now: the time of this result.
        preferred: whether the user's profile holds any preference.
    """
    if shown_at is not None and now - shown_at < PAUSE:
        return None
    if state == "revoked":
        return "renew_consent"
    return "set_preferences" if state == "active" and not preferred else None


def hint_text(hint: Hint, memory: LoadedMemory) -> str:
    """Return a hint's words in the language of the result."""
    return TEXTS[hint]["zh" if memory.value("S1") == "zh" else "en"]
