"""The saved profile: its two ways in, onboarding and explicit review (memory design §5.1, §5.2)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from memfin.contracts.memory import ContextFields, Preferences, UserContext
from memfin.memory.errors import InvalidInput

Entrance = Literal["onboarding", "review"]

PREFERENCES: Final = Preferences.__struct_fields__
"""The fields of a profile that onboarding asks for."""

REVIEWABLE: Final = (
    *PREFERENCES,
    "research_style",
    "user_stated_position_context",
    "time_horizon",
    "constraints",
)
"""The fields that a review may set; positions, horizon and constraints only when named as such (§10.2)."""

_UNSAID: Final = ContextFields()
_SEAL: Final = object()


class ProfileWriteToken:
    """Leave to write a profile; only `onboarded` and `reviewed` give one."""

    __slots__ = ("_seal", "entrance")

    def __init__(self, entrance: Entrance, seal: object = None) -> None:
        self.entrance = entrance
        self._seal = seal


def is_valid(write_token: ProfileWriteToken | None) -> bool:
    """Say whether a write_token is one that this module gave."""
    return write_token is not None and write_token._seal is _SEAL  # noqa: SLF001 - the seal is this module's


def onboarded(
    user_id: str, context_id: str, preferences: Preferences, version: int, now: datetime
) -> tuple[UserContext, ProfileWriteToken]:
    """Return the profile that a grant saves, and the leave to write it (memory design §5.2)."""
    profile = UserContext(
        context_id=context_id,
        user_id=user_id,
        scope="profile",
        created_at=now,
        updated_at=now,
        consent_version=version,
        **{name: getattr(preferences, name) for name in PREFERENCES},
    )
    return profile, ProfileWriteToken("onboarding", _SEAL)


def reviewed(
    profile: UserContext, changes: Mapping[str, Any], version: int, now: datetime
) -> tuple[UserContext, ProfileWriteToken]:
    """Return the profile after its owner's edit, and the leave to write it (memory design §5.1).

    ``changes`` maps fields to new values; None deletes a field.

    Raises:
        InvalidInput: for a field that is not the owner's to set, or a value that does not fit.
    """
    for name in changes:
        if name not in REVIEWABLE:
            raise InvalidInput(f"{name[:40]!r}: is no field of a profile; there are {', '.join(REVIEWABLE)}")
    said = {name: _UNSAID[name] if value is None else value for name, value in changes.items()}
    fields = msgspec.structs.asdict(profile) | said | {"updated_at": now, "consent_version": version}
    try:
        edited = msgspec.convert(fields, UserContext)
    except msgspec.ValidationError as problem:
        reason, _, where = str(problem).partition(" - at `$.")
        raise InvalidInput(f"{where.removesuffix('`')}: {reason}") from None
    return edited, ProfileWriteToken("review", _SEAL)


def preferences_of(profile: UserContext | None) -> Preferences:
    """Return the preferences of a profile, those of nobody where there is none."""
    if profile is None:
        return Preferences()
    return Preferences(**{name: getattr(profile, name) for name in PREFERENCES})
