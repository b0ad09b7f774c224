"""Consent: its versions, its scopes, and the service of consents and accounts (memory design §8, §10)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from msgspec import structs

from memfin.contracts.base import Record
from memfin.contracts.memory import (
    ConsentScope,
    ConsentScopes,
    DeletionStub,
    Feedback,
    Preferences,
    ProfileConsent,
    ThreadHeader,
    UserContext,
)
from memfin.memory.errors import ConsentRequired, ConsentUnreadable, InvalidInput, NotFound
from memfin.memory.paths import check_id, new_id
from memfin.memory.records import (
    REVIEWABLE,
    Keep,
    Put,
    Step,
    given_fields,
    load,
    load_sound,
    onboarded,
    reviewed,
)
from memfin.memory.workspace import ConsentOnFile, Workspace, after, allows

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry

SCOPES: Final[tuple[ConsentScope, ...]] = get_args(ConsentScope)
NOTHING: Final = ConsentScopes(
    create_task=False, save_to_profile=False, save_to_thread=False, training_use_allowed=False
)
ConsentState = Literal["none", "granted", "revoked", "unreadable"]


def may_create_task(consent: ProfileConsent | None) -> bool:
    """Return True if a user may start a task: with consent, even revoked (§8.5), not without (§8.4)."""
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
            "the consent on file cannot be read, so it allows nothing; revoke it, then ask for it again"
        )
    return on_file.consent


def not_before(consent: ProfileConsent | None, now: datetime) -> datetime:
    """Return the time, at least that of the version on file, since the clock may have been set back."""
    return now if consent is None else max(now, consent.updated_at)


def granted(
    current: ProfileConsent | None,
    user_id: str,
    new_consent_id: str,
    scopes: ConsentScopes,
    profile_context_id: str | None,
    now: datetime,
) -> ProfileConsent:
    """Return the version that a grant creates; it continues the consent in force, if there is one."""
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
    return current.replace(
        version=current.version + 1,
        scopes=current.scopes if scope is None else left,
        updated_at=now,
        revoked_at=now if whole else None,
        profile_context_id=current.profile_context_id if left.save_to_profile else None,
    )


# Nothing on file; known but without consent; consent taken back; consent in force
OnboardingState = Literal["brand_new", "incomplete", "revoked", "active"]


def onboarding_state(on_file: ConsentOnFile, *, known: bool = True) -> OnboardingState:
    """Return the onboarding state of a user; an unreadable consent has to be given again."""
    if on_file.data is None:
        return "incomplete" if known else "brand_new"
    if on_file.consent is None:
        return "incomplete"
    return "active" if on_file.in_force is not None else "revoked"


class Revocation(Record):
    """The consent revoked, the version in force, when it took effect, and whether it covers all of it."""

    consent_id: str
    version: int
    revoked_at: datetime
    whole: bool


class Consents:
    """Service of consents: grant, revocation, profile review, and deletion."""

    def __init__(self, workspace: Workspace, telemetry: "MemoryTelemetry | None" = None) -> None:
        self._workspace = workspace
        self._telemetry = telemetry

    def consent_state(self, user_id: str) -> ConsentState:
        """Return the state of a user's consent (memory design §8.1)."""
        on_file = self._workspace.consent_on_file(user_id)
        if on_file.data is None:
            return "none"
        if on_file.consent is None:
            return "unreadable"
        return "revoked" if on_file.in_force is None else "granted"

    def onboarding_state(self, user_id: str, *, known: bool = True) -> OnboardingState:
        """Return the onboarding state of a user; `known` is whether an access token names them."""
        return onboarding_state(self._workspace.consent_on_file(user_id), known=known)

    def grant_consent(
        self,
        user_id: str,
        scopes: ConsentScopes | Mapping[str, bool],
        preferences: Preferences | Mapping[str, Any] | None = None,
    ) -> ProfileConsent:
        """Write the next version of a consent, and the profile when it may be saved (memory design §5.2).

        Preferences replace those that were saved, whole; without any, a saved profile stays as it is. Records
        that the new scopes do not allow any more are removed. Consent and profile appear in the same instant.
        """
        workspace = self._workspace
        scopes = given_fields(scopes, ConsentScopes, "scopes")
        preferences = None if preferences is None else given_fields(preferences, Preferences, "preferences")
        with workspace.writing(user_id, {} if preferences is None else structs.asdict(preferences)):
            on_file = workspace.consent_on_file(user_id)
            current = readable(on_file)
            now = self._moment_of_grant(user_id, on_file)
            version = 1 if current is None else current.version + 1
            kept = workspace.profile_of(on_file.in_force) if preferences is None else None
            plan: list[Step] = []
            context_id = None if kept is None else kept.context_id
            if scopes.save_to_profile and kept is None:
                context_id = workspace.id_for("ctx", user_id, workspace.paths.profiles(user_id), now)
                wanted = preferences or Preferences()
                profile, write_token = onboarded(user_id, context_id, wanted, version, now)
                plan.append(Put(workspace.paths.profile(user_id, context_id), profile, write_token))
            consent_id = _new_consent_id(user_id, version, now)
            consent = granted(current, user_id, consent_id, scopes, context_id, now)
            checked = workspace.check([*plan, *self._succession(on_file, consent)])
            if current is None:
                workspace.admit(user_id)
            workspace.do(user_id, checked, settle=True)
            if self._telemetry is not None:
                self._telemetry.consent_granted(consent.consent_id, consent.version)
            return consent

    def revoke_consent(
        self, user_id: str, consent_id: str | None = None, *, scope: ConsentScope | None = None
    ) -> Revocation:
        """Revoke all of a consent or one scope (memory design §10.4, §11.2).

        Records that it forbids to keep are removed before this returns. Revoking again returns the result of
        the first time. ``consent_id``, when given, must be that of the consent on file.
        """
        return self._workspace.erase(user_id, lambda: self._revoke(user_id, consent_id, scope))

    def _revoke(self, user_id: str, consent_id: str | None, scope: ConsentScope | None) -> Revocation:
        workspace = self._workspace
        on_file = workspace.consent_on_file(user_id)
        current = on_file.consent
        if scope is not None and scope not in SCOPES:
            raise NotFound(f"scope: unknown; known scopes: {', '.join(SCOPES)}")
        if on_file.data is None:
            raise NotFound("consent: there is none to revoke")
        if current is not None and consent_id not in {None, current.consent_id}:
            raise NotFound("consent: there is none with that id to revoke")
        now = not_before(current, workspace.now())
        if current is None:  # it cannot be read
            version = workspace.version_on_file(user_id) + 1
            unread_id = _new_consent_id(user_id, version, now)
            consent = granted(None, user_id, unread_id, NOTHING, None, now)
            consent = consent.replace(version=version, revoked_at=now)
        elif current.revoked_at is not None or (scope is not None and not current.scopes[scope]):
            consent = current
        else:
            consent = revoked(current, scope, now)
        if consent is not current:
            plan = self._succession(on_file, consent)
            workspace.do(user_id, workspace.check(plan), settle=True)
        return Revocation(
            consent_id=consent.consent_id,
            version=consent.version,
            revoked_at=consent.revoked_at or consent.updated_at,
            whole=consent.revoked_at is not None,
        )

    def on_consent_revoked(self, user_id: str) -> None:
        """Remove the records that need the revoked consent; refused while consent is in force.

        For hosts that revoke by other means than `revoke_consent`, which does it itself (§10.4).
        """

        def settle() -> None:
            if self._workspace.consent_on_file(user_id).in_force is not None:
                raise ConsentRequired("consent: is in force; revoke it first", [])
            self._workspace.do(user_id, [], settle=True)

        self._workspace.erase(user_id, settle)

    def read_profile(self, user_id: str) -> UserContext | None:
        """Return the saved profile for its owner; None when none is in force."""
        return self._workspace.consistently(user_id, self._workspace.profile_of)

    def review_profile(self, user_id: str, changes: Mapping[str, Any]) -> UserContext:
        """Change fields of the saved profile for its owner; None deletes a field (memory design §5.1)."""
        workspace = self._workspace
        if not isinstance(changes, Mapping):
            raise InvalidInput(f"changes: give a mapping of fields; known fields: {', '.join(REVIEWABLE)}")
        with workspace.writing(user_id, changes):
            consent = require(workspace.consent_on_file(user_id), "save_to_profile")
            current = workspace.profile_of(consent)
            if current is None or consent.profile_context_id is None:
                raise ConsentUnreadable("profile: cannot be read; grant consent again with the preferences")
            edited, write_token = reviewed(current, changes, consent.version, workspace.now())
            path = workspace.paths.profile(user_id, current.context_id)
            workspace.do(user_id, workspace.check([Put(path, edited, write_token)]))
            return edited

    def delete_user(self, user_id: str) -> DeletionStub:
        """Remove all data of a user but the stub of a deleted account; finishes an interrupted deletion."""
        check_id(user_id)
        return self._workspace.despite_full_disk(lambda: self._delete(user_id))

    def _delete(self, user_id: str) -> DeletionStub:
        workspace = self._workspace
        with workspace.faults(), workspace.locks.of_user(user_id):
            path = workspace.paths.stub(user_id)
            stub = load(workspace.files, path, DeletionStub)
            if stub is None:
                if not workspace.has_files(user_id):
                    raise NotFound("user: there is none with that id")
                version = workspace.version_on_file(user_id)
                stub = DeletionStub(deleted_at=workspace.now(), consent_version_at_deletion=version)
                checked = workspace.check([Put(path, stub)])
                workspace.mark(user_id)
                workspace.do(user_id, checked)
            workspace.finish(user_id)
            return stub

    def _moment_of_grant(self, user_id: str, on_file: ConsentOnFile) -> datetime:
        """Return the time, or the moment after the last record on file that the grant must not cover.

        Drift is found in records since ``save_to_profile`` was given, whatever the clock says.
        """
        workspace = self._workspace
        now = not_before(on_file.consent, workspace.now())
        if allows(on_file.consent, "save_to_profile"):
            return now
        files, paths = workspace.files, workspace.paths
        moments = [each.created_at for each in load_sound(files, paths.feedback(user_id), Feedback)]
        moments += [each.updated_at for each in load_sound(files, paths.threads(user_id), ThreadHeader)]
        return max([now, *(after(moment) for moment in moments if moment >= now)])

    def _succession(self, on_file: ConsentOnFile, next_version: ProfileConsent) -> list[Step]:
        """Return the steps that put a version in force and keep the one before it."""
        paths, user_id = self._workspace.paths, next_version.user_id
        plan: list[Step] = []
        if on_file.data is not None:
            plan.append(Keep(paths.version(user_id, next_version.version - 1), on_file.data))
        return [*plan, Put(paths.consent(user_id), next_version)]


def _new_consent_id(user_id: str, version: int, now: datetime) -> str:
    return new_id("consent", f"{user_id}:{version}", now, lambda _: False)
