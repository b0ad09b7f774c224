"""Write plans, checked and encoded as a whole before the first byte is written.

A profile needs the token that only `onboarded` and `reviewed` give (memory design §5.1).
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.memory import ContextFields, Preferences, UserContext
from memfin.memory.errors import InvalidInput, ProfileWriteRefused, invalid_value
from memfin.memory.files import Files
from memfin.memory.paths import Paths
from memfin.memory.records import Gate, encode

PREFERENCES: Final = Preferences.__struct_fields__  # the fields of a profile that onboarding asks for
REVIEWABLE: Final = (
    *PREFERENCES,
    "research_style",
    "user_stated_position_context",
    "time_horizon",
    "constraints",
)
"""The fields that a review may set; positions, horizon and constraints only when named as such (§10.2)."""

_NO_FIELDS: Final = ContextFields()


class ProfileWriteToken:
    """Permission to write a profile; only `onboarded` and `reviewed` give the one that counts."""

    __slots__ = ()


_TOKEN: Final = ProfileWriteToken()


def onboarded(
    user_id: str, context_id: str, preferences: Preferences, version: int, now: datetime
) -> tuple[UserContext, ProfileWriteToken]:
    """Return the profile that a grant saves, and the token to write it (memory design §5.2)."""
    profile = UserContext(
        context_id=context_id,
        user_id=user_id,
        scope="profile",
        created_at=now,
        updated_at=now,
        consent_version=version,
        **{name: getattr(preferences, name) for name in PREFERENCES},
    )
    return profile, _TOKEN


def reviewed(
    profile: UserContext, changes: Mapping[str, Any], version: int, now: datetime
) -> tuple[UserContext, ProfileWriteToken]:
    """Return the profile with its owner's changes, None to delete a field, and the token to write it."""
    for name in changes:
        if name not in REVIEWABLE:
            raise InvalidInput(f"{name[:40]!r}: is no field of a profile; there are {', '.join(REVIEWABLE)}")
    given = {name: _NO_FIELDS[name] if value is None else value for name, value in changes.items()}
    fields = msgspec.structs.asdict(profile) | given | {"updated_at": now, "consent_version": version}
    try:
        edited = msgspec.convert(fields, UserContext)
    except msgspec.ValidationError as problem:
        raise invalid_value(problem) from None
    return edited, _TOKEN


def preferences_of(profile: UserContext | None) -> Preferences:
    """Return the preferences of a profile, those of nobody where there is none."""
    if profile is None:
        return Preferences()
    return Preferences(**{name: getattr(profile, name) for name in PREFERENCES})


class Put(NamedTuple):
    """Write a record in the place of what is there."""

    path: Path
    record: Record
    write_token: ProfileWriteToken | None = None


class Append(NamedTuple):
    """Add a record as the last line of a file; the file is rewritten, so that it is whole at any time."""

    path: Path
    record: Record


class Keep(NamedTuple):
    """Write bytes that are on file elsewhere: a version of a consent that is superseded."""

    path: Path
    data: bytes


class Remove(NamedTuple):
    """Remove a file; that there is none is fine."""

    path: Path


class RemoveTree(NamedTuple):
    """Remove a directory with all that is in it; that there is none is fine."""

    path: Path


Step = Put | Append | Keep | Remove | RemoveTree

Observer = Callable[[Step], None]
"""Called for each step that has changed something."""

Checked = list[tuple[Step, bytes]]
"""Steps that may be done, with the bytes that they write."""


class Writer:
    """Carries out plans."""

    def __init__(self, files: Files, paths: Paths, gate: Gate, observer: Observer | None = None) -> None:
        self._files = files
        self._paths = paths
        self._gate = gate
        self._observer = observer

    def check(self, plan: Iterable[Step]) -> Checked:
        """Return the steps with what they write."""
        return [(step, self._checked(step)) for step in plan]

    def do(self, checked: Checked) -> None:
        """Do the steps in order."""
        for step, data in checked:
            # A removal of nothing is not observed.
            changes = not isinstance(step, Remove | RemoveTree) or self._files.exists(step.path)
            match step:
                case Put(path) | Keep(path):
                    self._files.save(path, data)
                case Append(path):
                    self._files.save(path, (self._files.load(path) or b"") + data)
                case Remove(path):
                    self._files.remove(path)
                case RemoveTree(path):
                    self._files.remove_tree(path)
            if changes and self._observer is not None:
                self._observer(step)

    def _checked(self, step: Step) -> bytes:
        match step:
            case Put(path, record, write_token):
                if self._paths.is_profile(path) and write_token is not _TOKEN:
                    raise ProfileWriteRefused(
                        "a profile is written by onboarding and by the person's own review, by nothing else"
                    )
                return encode(record, path, self._gate, self._files.load(path))
            case Append(path, record):
                if self._paths.is_profile(path):
                    raise ProfileWriteRefused("a profile is no log")
                return encode(record, path, self._gate)
            case Keep(path, data):
                if path.parent.parent != self._paths.consents / "_history":
                    raise ProfileWriteRefused("only versions of a consent are kept as they are")
                return data
            case _:
                return b""
