"""Onboarding, revocation, explicit review (memory design §5.2, §8, §10.4, §11.2)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

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
from memfin.memory import profile as profiles
from memfin.memory.errors import ConsentRequired, ConsentUnreadable
from memfin.memory.ids import new_id
from memfin.memory.plans import Keep, Put, Step
from memfin.memory.records import load_sound
from memfin.memory.workspace import Workspace

_TICK: Final = timedelta(microseconds=1)

ConsentState = Literal["none", "granted", "revoked", "unreadable"]


class Revocation(Record):
    """What a revocation did.

    Attributes:
        consent_id: the consent that it was about.
        version: the version that is in force now.
        revoked_at: when it took effect.
        whole: whether all of the consent is revoked.
    """

    consent_id: str
    version: int
    revoked_at: datetime
    whole: bool


class ConsentOperations(Workspace):
    """What a person decides about their own memory."""

    def consent_state(self, user_id: str) -> ConsentState:
        """Say where a user stands (memory design §8.1)."""
        on_file = self.consent_on_file(user_id)
        if on_file.data is None:
            return "none"
        if on_file.consent is None:
            return "unreadable"
        return "revoked" if on_file.in_force is None else "granted"

    def grant_consent(
        self, user_id: str, scopes: ConsentScopes, preferences: Preferences | None = None
    ) -> ProfileConsent:
        """Write the next version of a consent, and the profile when it may be saved (memory design §5.2).

        Preferences replace those that were saved, whole; without any, a saved profile stays as it is.
        What the new scopes do not allow any more goes, as with a revocation. Consent and profile appear
        to readers in the same instant.

        Raises:
            InvalidId, InvalidInput, SensitiveInput, AccountDeleted: nothing was written.
            ConsentUnreadable: the consent on file cannot be read.
        """
        with self.writing(user_id, {} if preferences is None else structs.asdict(preferences)):
            on_file = self.consent_on_file(user_id)
            current = rules.readable(on_file)
            now = self._moment_of_grant(user_id, on_file)
            version = 1 if current is None else current.version + 1
            kept = self.profile_of(on_file.in_force) if preferences is None else None
            plan: list[Step] = []
            context_id = None if kept is None else kept.context_id
            if scopes.save_to_profile and kept is None:
                context_id = self.id_for("ctx", user_id, self.paths.profiles(user_id), now)
                wanted = preferences or Preferences()
                profile, write_token = profiles.onboarded(user_id, context_id, wanted, version, now)
                plan.append(Put(self.paths.profile(user_id, context_id), profile, write_token))
            consent_id = _new_consent_id(user_id, version, now)
            granted = rules.granted(current, user_id, consent_id, scopes, context_id, now)
            checked = self.check([*plan, *self._succession(on_file, granted)])
            if current is None:
                self.admit(user_id)
            self.do(user_id, checked, settle=True)
            if self.telemetry is not None:
                self.telemetry.consent_granted(granted.consent_id, granted.version)
            return granted

    def revoke_consent(
        self, user_id: str, consent_id: str | None = None, *, scope: ConsentScope | None = None
    ) -> Revocation:
        """Take consent back, all of it or one scope (memory design §10.4, §11.2).

        Readers see it whole from the rename of the new version on. What it forbids to keep is removed
        before this returns. Revoking what is revoked already returns what was then. ``consent_id``,
        when given, must be that of the consent on file.

        Raises:
            NotFound: there is no such consent or scope.
        """
        return self.despite_full_disk(lambda: self._revoke(user_id, consent_id, scope))

    def _revoke(self, user_id: str, consent_id: str | None, scope: ConsentScope | None) -> Revocation:
        with self.writing(user_id):
            on_file = self.consent_on_file(user_id)
            current = rules.to_revoke(on_file, consent_id, scope)
            now = rules.not_before(current, self.now())
            if current is None:
                version = self.version_on_file(user_id) + 1
                consent_id = _new_consent_id(user_id, version, now)
                revoked = rules.revoked_unread(user_id, consent_id, version, now)
            elif current.revoked_at is not None or (scope is not None and not current.scopes[scope]):
                revoked = current
            else:
                revoked = rules.revoked(current, scope, now)
            if revoked is not current:
                self.do(user_id, self.check(self._succession(on_file, revoked)), settle=True)
            return Revocation(
                consent_id=revoked.consent_id,
                version=revoked.version,
                revoked_at=revoked.revoked_at or revoked.updated_at,
                whole=revoked.revoked_at is not None,
            )

    def on_consent_revoked(self, user_id: str) -> None:
        """Do what a revocation asks of the memory layer, where the consent on file is revoked.

        The entrance that the memory design names (§10.4) for hosts that revoke by other means.
        `revoke_consent` has done all of it already; doing it again changes nothing.

        Raises:
            ConsentRequired: the consent is in force; revoke it with `revoke_consent`.
        """

        def settle() -> None:
            with self.writing(user_id):
                if self.consent_on_file(user_id).in_force is not None:
                    raise ConsentRequired("consent: is in force; revoke it first", [])
                self.do(user_id, [], settle=True)

        self.despite_full_disk(settle)

    def read_profile(self, user_id: str) -> UserContext | None:
        """Return the saved profile for its owner to see; None when there is none in force."""
        return self.consistently(user_id, self.profile_of)

    def review_profile(self, user_id: str, changes: Mapping[str, Any]) -> UserContext:
        """Change the saved profile as its owner says; None deletes a field (memory design §5.1, §11.2).

        Raises:
            ConsentRequired: the consent in force does not allow a profile.
            InvalidInput, SensitiveInput: nothing was written.
        """
        with self.writing(user_id, changes):
            consent = rules.require(self.consent_on_file(user_id), "save_to_profile")
            current = self.profile_of(consent)
            if current is None or consent.profile_context_id is None:
                raise ConsentUnreadable("profile: cannot be read; grant consent with preferences anew")
            edited, write_token = profiles.reviewed(current, changes, consent.version, self.now())
            path = self.paths.profile(user_id, current.context_id)
            self.do(user_id, self.check([Put(path, edited, write_token)]))
            return edited

    def _moment_of_grant(self, user_id: str, on_file: rules.ConsentOnFile) -> datetime:
        """Return now, or where the clock was set back: when what was there before had happened.

        A consent that begins anew begins after all that was said under those before it, so that drift is
        told from what is said under this one alone.
        """
        now = rules.not_before(on_file.consent, self.now())
        if on_file.in_force is not None:
            return now
        said = [each.created_at for each in load_sound(self.files, self.paths.feedback(user_id), Feedback)]
        headers = load_sound(self.files, self.paths.threads(user_id), ThreadHeader)
        said += [each.updated_at for each in headers]
        return max([now, *(moment + _TICK for moment in said if moment > now)])

    def _succession(self, on_file: rules.ConsentOnFile, next_version: ProfileConsent) -> list[Step]:
        """Return the steps that put a version in force and keep the one before it."""
        user_id = next_version.user_id
        plan: list[Step] = []
        if on_file.data is not None:
            plan.append(Keep(self.paths.version(user_id, next_version.version - 1), on_file.data))
        plan.append(Put(self.paths.consent(user_id), next_version))
        return plan


def _new_consent_id(user_id: str, version: int, now: datetime) -> str:
    return new_id("consent", f"{user_id}:{version}", now, lambda _: False)
