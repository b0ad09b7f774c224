"""What consent allows, and the version that each change of it makes (memory design §5.2, §8, §10.4)."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, get_args

from memfin.contracts.memory import ConsentScope, ConsentScopes, ProfileConsent
from memfin.memory.errors import ConsentNotInForce, ConsentRequired, ConsentUnreadable, NotFound
from memfin.memory.files import Files
from memfin.memory.records import RecordDamaged, decode

SCOPES: Final[tuple[ConsentScope, ...]] = get_args(ConsentScope)
NOTHING: Final = ConsentScopes(
    create_task=False, save_to_profile=False, save_to_thread=False, training_use_allowed=False
)


class ConsentOnFile(NamedTuple):
    """The consent file of a user: its bytes, and the consent that they hold.

    No bytes: there is no file. Bytes without a consent: it cannot be read, or is another user's, so
    that nothing counts as consented to.
    """

    data: bytes | None
    consent: ProfileConsent | None

    @property
    def in_force(self) -> ProfileConsent | None:
        """The consent, where there is one that is not revoked."""
        return self.consent if self.consent is not None and self.consent.revoked_at is None else None


def read_consent(files: Files, path: Path, user_id: str) -> ConsentOnFile:
    """Read the consent of a user; whatever is wrong with the file, the answer allows nothing."""
    data = files.load(path)
    if data is None:
        return ConsentOnFile(None, None)
    try:
        consent = decode(data, path, ProfileConsent)
    except RecordDamaged:
        return ConsentOnFile(data, None)
    return ConsentOnFile(data, consent if consent.user_id == user_id else None)


def allows(consent: ProfileConsent | None, scope: ConsentScope) -> bool:
    """Say whether a consent allows something; a revoked one, and none, allows nothing."""
    return consent is not None and consent.revoked_at is None and bool(consent.scopes[scope])


def may_create_task(consent: ProfileConsent | None) -> bool:
    """Say whether a user may ask for a task.

    A user whose consent is revoked may, as one of whom nothing is known (memory design §8.5); one who
    never gave consent may not (§8.4).
    """
    return consent is not None and consent.scopes.create_task


def require(on_file: ConsentOnFile, *scopes: ConsentScope) -> ProfileConsent:
    """Return the consent in force when it allows all of the scopes; without scopes, any will do.

    Raises:
        ConsentRequired: it does not; the details name the scopes.
        ConsentUnreadable: it cannot be read.
    """
    consent = readable(on_file)
    missing: list[ConsentScope] = [scope for scope in scopes if not allows(consent, scope)]
    if missing or on_file.in_force is None:
        needed: Sequence[ConsentScope] = missing or scopes
        named = ", ".join(needed) or "any scope"
        raise ConsentRequired(f"this needs the person's consent to {named}; ask for it first", needed)
    return on_file.in_force


def readable(on_file: ConsentOnFile) -> ProfileConsent | None:
    """Return the consent on file, revoked or not.

    Raises:
        ConsentUnreadable: it cannot be read.
    """
    if on_file.data is not None and on_file.consent is None:
        raise ConsentUnreadable(
            "the consent on file cannot be read, so it allows nothing; revoke it, then ask for it anew"
        )
    return on_file.consent


def acknowledged(consent: ProfileConsent, consent_id: str | None) -> None:
    """Return when a request names the consent in force.

    Raises:
        ConsentNotInForce: it names another one, or none.
    """
    if consent_id != consent.consent_id:
        raise ConsentNotInForce("consent_id: is not that of the consent in force; read it again")


def not_before(consent: ProfileConsent | None, now: datetime) -> datetime:
    """Return now, or the moment of the version on file where the clock has been set back behind that."""
    return now if consent is None else max(now, consent.updated_at)


def granted(
    current: ProfileConsent | None,
    user_id: str,
    new_consent_id: str,
    scopes: ConsentScopes,
    profile_context_id: str | None,
    now: datetime,
) -> ProfileConsent:
    """Return the version that a grant makes; it goes on with the consent in force, if there is one."""
    going_on = current is not None and current.revoked_at is None
    return ProfileConsent(
        consent_id=current.consent_id if current is not None and going_on else new_consent_id,
        user_id=user_id,
        version=1 if current is None else current.version + 1,
        scopes=scopes,
        granted_at=current.granted_at if current is not None and going_on else now,
        updated_at=now,
        profile_context_id=profile_context_id if scopes.save_to_profile else None,
    )


def revoked(current: ProfileConsent, scope: ConsentScope | None, now: datetime) -> ProfileConsent:
    """Return the version that revokes one scope, or all of the consent (memory design §10.4, §11.2).

    When the last scope goes, all of the consent is revoked. A wholly revoked version keeps the scopes
    for the record.
    """
    left = NOTHING if scope is None else current.scopes.replace(**{scope: False})
    whole = not any(left[name] for name in SCOPES)
    scopes = current.scopes if scope is None else left
    return current.replace(
        version=current.version + 1,
        scopes=scopes,
        updated_at=now,
        revoked_at=now if whole else None,
        profile_context_id=current.profile_context_id if left.save_to_profile else None,
    )


def revoked_unread(user_id: str, consent_id: str, version: int, now: datetime) -> ProfileConsent:
    """Return the version that revokes a consent that cannot be read."""
    return ProfileConsent(
        consent_id=consent_id,
        user_id=user_id,
        version=version,
        scopes=NOTHING,
        granted_at=now,
        updated_at=now,
        revoked_at=now,
    )


def to_revoke(
    on_file: ConsentOnFile, consent_id: str | None, scope: ConsentScope | None
) -> ProfileConsent | None:
    """Return the consent that a request would revoke; None for one that cannot be read.

    Raises:
        NotFound: there is no such consent, or no such scope.
    """
    if scope is not None and scope not in SCOPES:
        raise NotFound(f"scope: there is no such scope; there are {', '.join(SCOPES)}")
    if on_file.data is None:
        raise NotFound("consent: there is none to revoke")
    if on_file.consent is not None and consent_id not in {None, on_file.consent.consent_id}:
        raise NotFound("consent: there is none of that id to revoke")
    return on_file.consent
