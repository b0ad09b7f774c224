"""Consent: its versions, what each allows, and what has to go when it changes (memory design §8, §10).

The version of the consent is the authority, and its rename the moment of a revocation. What has to go is
read off the consent and the files alone, so it is found again, and finished, after any interruption.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from memfin.contracts.memory import (
    ConsentScope,
    ConsentScopes,
    ProfileConsent,
    ThreadHeader,
    TrainingAssetCandidate,
    UserContext,
)
from memfin.memory.errors import ConsentNotInForce, ConsentRequired, ConsentUnreadable, NotFound
from memfin.memory.files import Files, temporary
from memfin.memory.paths import Paths
from memfin.memory.plans import Put, Remove, RemoveTree, Step
from memfin.memory.records import RecordDamaged, decode, load_sound

SCOPES: Final[tuple[ConsentScope, ...]] = get_args(ConsentScope)
NOTHING: Final = ConsentScopes(
    create_task=False, save_to_profile=False, save_to_thread=False, training_use_allowed=False
)


class ConsentOnFile(NamedTuple):
    """The bytes of a user's consent file, None without a file, and the consent if they can be read."""

    data: bytes | None
    consent: ProfileConsent | None

    @property
    def in_force(self) -> ProfileConsent | None:
        """The consent, where there is one that is not revoked."""
        return self.consent if self.consent is not None and self.consent.revoked_at is None else None


def read_consent(files: Files, path: Path, user_id: str) -> ConsentOnFile:
    """Read the consent of a user; a file that is damaged, or another user's, holds none."""
    data = files.load(path)
    consent = None if data is None else _consent_of(data)
    return ConsentOnFile(data, consent if consent is not None and consent.user_id == user_id else None)


@lru_cache(maxsize=1024)
def _consent_of(data: bytes) -> ProfileConsent | None:
    """Return the consent in the bytes of a file; it is read for every answer, and YAML is slow."""
    try:
        return decode(data, Path("consent.yaml"), ProfileConsent)
    except RecordDamaged:
        return None


def allows(consent: ProfileConsent | None, scope: ConsentScope) -> bool:
    """Return whether a consent allows something; a revoked one, and none, allows nothing."""
    return consent is not None and consent.revoked_at is None and bool(consent.scopes[scope])


def may_create_task(consent: ProfileConsent | None) -> bool:
    """Return whether a user may ask for a task; revoked consent (§8.5) counts, none (§8.4) does not."""
    return consent is not None and consent.scopes.create_task


def require(on_file: ConsentOnFile, *scopes: ConsentScope) -> ProfileConsent:
    """Return the consent in force; raise `ConsentRequired` unless it allows all of the scopes."""
    consent = readable(on_file)
    missing: list[ConsentScope] = [scope for scope in scopes if not allows(consent, scope)]
    if missing or on_file.in_force is None:
        needed: Sequence[ConsentScope] = missing or scopes
        named = ", ".join(needed) or "any scope"
        raise ConsentRequired(f"this needs the person's consent to {named}; ask for it first", needed)
    return on_file.in_force


def readable(on_file: ConsentOnFile) -> ProfileConsent | None:
    """Return the consent on file, revoked or not; raise `ConsentUnreadable` for one that cannot be read."""
    if on_file.data is not None and on_file.consent is None:
        raise ConsentUnreadable(
            "the consent on file cannot be read, so it allows nothing; revoke it, then ask for it anew"
        )
    return on_file.consent


def acknowledged(consent: ProfileConsent, consent_id: str | None) -> None:
    """Raise `ConsentNotInForce` unless a request names the consent in force."""
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

    With the last scope, all of it is revoked. A wholly revoked version keeps the scopes for the record.
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
    """Return the consent that a request would revoke; None for one that cannot be read."""
    if scope is not None and scope not in SCOPES:
        raise NotFound(f"scope: there is no such scope; there are {', '.join(SCOPES)}")
    if on_file.data is None:
        raise NotFound("consent: there is none to revoke")
    if on_file.consent is not None and consent_id not in {None, on_file.consent.consent_id}:
        raise NotFound("consent: there is none of that id to revoke")
    return on_file.consent


OnboardingState = Literal["brand_new", "incomplete", "revoked", "active"]
"""Nothing on file; known but without consent; consent taken back; consent in force."""


def onboarding_state(on_file: ConsentOnFile, *, known: bool = True) -> OnboardingState:
    """Return where a person stands; one whose consent cannot be read has to be asked again."""
    if on_file.data is None:
        return "incomplete" if known else "brand_new"
    if on_file.consent is None:
        return "incomplete"
    return "active" if on_file.in_force is not None else "revoked"


PURGED_WITHIN: Final = timedelta(hours=48)
"""The time in which a revocation's purge must be done; it is done at once, unless something stops it."""


def is_overdue(consent: ProfileConsent | None, now: datetime) -> bool:
    """Return whether a purge that is not finished should have been."""
    return consent is not None and consent.revoked_at is not None and now - consent.revoked_at > PURGED_WITHIN


def purge_steps(files: Files, paths: Paths, user_id: str, on_file: ConsentOnFile) -> Iterator[Step]:
    """Yield the steps that make a user's files match the consent on file; none while it cannot be read."""
    if on_file.data is not None and on_file.consent is None:
        return
    consent = on_file.consent
    yield from _profiles(files, paths, user_id, consent)
    if on_file.in_force is None:
        yield RemoveTree(paths.drift(user_id))
    if not allows(consent, "save_to_thread"):
        yield from _threads(files, paths, user_id)
    if not allows(consent, "training_use_allowed"):
        yield from _candidates(files, paths, user_id, consent)


def stray_steps(files: Files, paths: Paths, user_id: str) -> Iterator[Step]:
    """Yield the steps that remove what killed writers of single files left in a user's own directories."""
    for tree in paths.trees(user_id):
        yield from map(Remove, files.strays(tree))


def leftover_steps(files: Files, paths: Paths, user_id: str, on_file: ConsentOnFile) -> Iterator[Step]:
    """Yield the steps that remove what an interrupted operation left behind, in the history as well."""
    strays = list(files.strays(paths.history(user_id)))
    strays += [temporary(paths.consent(user_id)), temporary(paths.stub(user_id))]
    if on_file.consent is not None:  # a version that was to be superseded, and was not
        strays.append(paths.version(user_id, on_file.consent.version))
    yield from (Remove(stray) for stray in strays if files.exists(stray))


def block_steps(files: Files, directory: Path) -> Iterator[Step]:
    """Yield the steps that block the contexts of a thread: they stay, and are read for no answer."""
    for context in load_sound(files, directory, UserContext):
        if not context.consent_blocked:
            yield Put(directory / f"{context.context_id}.json", context.replace(consent_blocked=True))


def _profiles(files: Files, paths: Paths, user_id: str, consent: ProfileConsent | None) -> Iterator[Step]:
    """Remove every profile but the one in force: revoked, replaced, or of a grant that never came to be."""
    directory = paths.profiles(user_id)
    kept = consent.profile_context_id if consent is not None and allows(consent, "save_to_profile") else None
    if kept is None:
        yield RemoveTree(directory)
        return
    for name in files.entries(directory):
        if name != f"{kept}.json":
            yield Remove(directory / name)


def _threads(files: Files, paths: Paths, user_id: str) -> Iterator[Step]:
    for thread_id in files.names(paths.all_thread_contexts(user_id), ""):
        yield from block_steps(files, paths.thread_contexts(user_id, thread_id))
    directory = paths.threads(user_id)
    for header in load_sound(files, directory, ThreadHeader):
        if not header.consent_blocked:
            yield Put(directory / f"{header.thread_id}.json", header.replace(consent_blocked=True))


def _candidates(files: Files, paths: Paths, user_id: str, consent: ProfileConsent | None) -> Iterator[Step]:
    directory = paths.candidates(user_id)
    for found in load_sound(files, directory, TrainingAssetCandidate):
        if found.withdrawal_status == "active":
            moment = found.created_at if consent is None else consent.updated_at
            withdrawn = found.replace(withdrawal_status="revoked", withdrawn_at=moment)
            yield Put(directory / f"{found.candidate_id}.json", withdrawn)


def deletion_steps(paths: Paths, user_id: str) -> Iterator[Step]:
    """Yield the steps that remove all of a user; the consent first, so that nothing is read from then on."""
    yield Remove(paths.consent(user_id))
    yield RemoveTree(paths.history(user_id))
    yield from (RemoveTree(tree) for tree in paths.trees(user_id))


def has_files(files: Files, paths: Paths, user_id: str) -> bool:
    """Return whether there is anything of a user but a stub."""
    places = (paths.consent(user_id), paths.history(user_id), *paths.trees(user_id))
    return any(map(files.exists, places))
