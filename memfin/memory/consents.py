"""The service of consents: onboarding, revocation and the saved profile (memory design §5.2, §8, §10.4)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import structs

from memfin.contracts.base import Record
from memfin.contracts.memory import (
    ConsentScope,
    ConsentScopes,
    Feedback,
    Preferences,
    ProfileConsent,
    ThreadHeader,
    UserContext,
)
from memfin.memory import consent as rules
from memfin.memory.errors import ConsentRequired, ConsentUnreadable
from memfin.memory.paths import new_id
from memfin.memory.plans import Keep, Put, Step, onboarded, reviewed
from memfin.memory.records import load_sound
from memfin.memory.workspace import Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry

_TICK: Final = timedelta(microseconds=1)

ConsentState = Literal["none", "granted", "revoked", "unreadable"]


class Revocation(Record):
    """The consent revoked, the version in force, when it took effect, and whether it covers all of it."""

    consent_id: str
    version: int
    revoked_at: datetime
    whole: bool


class Consents:
    """Decisions of a person about their own memory."""

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

    def onboarding_state(self, user_id: str, *, known: bool = True) -> rules.OnboardingState:
        """Return the onboarding state of a user; `known` is whether an access token names them."""
        return rules.onboarding_state(self._workspace.consent_on_file(user_id), known=known)

    def grant_consent(
        self, user_id: str, scopes: ConsentScopes, preferences: Preferences | None = None
    ) -> ProfileConsent:
        """Write the next version of a consent, and the profile when it may be saved (memory design §5.2).

        Preferences replace those that were saved, whole; without any, a saved profile stays as it is. Records
        that the new scopes do not allow any more are removed. Consent and profile appear in the same instant.
        """
        workspace = self._workspace
        with workspace.writing(user_id, {} if preferences is None else structs.asdict(preferences)):
            on_file = workspace.consent_on_file(user_id)
            current = rules.readable(on_file)
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
            granted = rules.granted(current, user_id, consent_id, scopes, context_id, now)
            checked = workspace.check([*plan, *self._succession(on_file, granted)])
            if current is None:
                workspace.admit(user_id)
            workspace.do(user_id, checked, settle=True)
            if self._telemetry is not None:
                self._telemetry.consent_granted(granted.consent_id, granted.version)
            return granted

    def revoke_consent(
        self, user_id: str, consent_id: str | None = None, *, scope: ConsentScope | None = None
    ) -> Revocation:
        """Take consent back, all of it or one scope (memory design §10.4, §11.2).

        Records that it forbids to keep are removed before this returns. Revoking again returns the result of
        the first time. ``consent_id``, when given, must be that of the consent on file.
        """
        return self._workspace.despite_full_disk(lambda: self._revoke(user_id, consent_id, scope))

    def _revoke(self, user_id: str, consent_id: str | None, scope: ConsentScope | None) -> Revocation:
        workspace = self._workspace
        with workspace.writing(user_id):
            on_file = workspace.consent_on_file(user_id)
            current = rules.to_revoke(on_file, consent_id, scope)
            now = rules.not_before(current, workspace.now())
            if current is None:
                version = workspace.version_on_file(user_id) + 1
                consent_id = _new_consent_id(user_id, version, now)
                revoked = rules.revoked_unread(user_id, consent_id, version, now)
            elif current.revoked_at is not None or (scope is not None and not current.scopes[scope]):
                revoked = current
            else:
                revoked = rules.revoked(current, scope, now)
            if revoked is not current:
                plan = self._succession(on_file, revoked)
                workspace.do(user_id, workspace.check(plan), settle=True)
            return Revocation(
                consent_id=revoked.consent_id,
                version=revoked.version,
                revoked_at=revoked.revoked_at or revoked.updated_at,
                whole=revoked.revoked_at is not None,
            )

    def on_consent_revoked(self, user_id: str) -> None:
        """Remove the records that a revoked consent forbids to keep; refused while consent is in force.

        For hosts that revoke by other means than `revoke_consent`, which does it itself (§10.4).
        """

        def settle() -> None:
            with self._workspace.writing(user_id):
                if self._workspace.consent_on_file(user_id).in_force is not None:
                    raise ConsentRequired("consent: is in force; revoke it first", [])
                self._workspace.do(user_id, [], settle=True)

        self._workspace.despite_full_disk(settle)

    def read_profile(self, user_id: str) -> UserContext | None:
        """Return the saved profile for its owner to see; None when there is none in force."""
        return self._workspace.consistently(user_id, self._workspace.profile_of)

    def review_profile(self, user_id: str, changes: Mapping[str, Any]) -> UserContext:
        """Change fields of the saved profile for its owner; None deletes a field (memory design §5.1)."""
        workspace = self._workspace
        with workspace.writing(user_id, changes):
            consent = rules.require(workspace.consent_on_file(user_id), "save_to_profile")
            current = workspace.profile_of(consent)
            if current is None or consent.profile_context_id is None:
                raise ConsentUnreadable("profile: cannot be read; grant consent with preferences anew")
            edited, write_token = reviewed(current, changes, consent.version, workspace.now())
            path = workspace.paths.profile(user_id, current.context_id)
            workspace.do(user_id, workspace.check([Put(path, edited, write_token)]))
            return edited

    def _moment_of_grant(self, user_id: str, on_file: rules.ConsentOnFile) -> datetime:
        """Return now, or where the clock was set back, the moment after the last record on file."""
        workspace = self._workspace
        now = rules.not_before(on_file.consent, workspace.now())
        if on_file.in_force is not None:
            return now
        files, paths = workspace.files, workspace.paths
        moments = [each.created_at for each in load_sound(files, paths.feedback(user_id), Feedback)]
        moments += [each.updated_at for each in load_sound(files, paths.threads(user_id), ThreadHeader)]
        return max([now, *(moment + _TICK for moment in moments if moment > now)])

    def _succession(self, on_file: rules.ConsentOnFile, next_version: ProfileConsent) -> list[Step]:
        """Return the steps that put a version in force and keep the one before it."""
        paths, user_id = self._workspace.paths, next_version.user_id
        plan: list[Step] = []
        if on_file.data is not None:
            plan.append(Keep(paths.version(user_id, next_version.version - 1), on_file.data))
        return [*plan, Put(paths.consent(user_id), next_version)]


def _new_consent_id(user_id: str, version: int, now: datetime) -> str:
    return new_id("consent", f"{user_id}:{version}", now, lambda _: False)
