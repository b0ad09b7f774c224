"""Calls for consent and the saved profile (memory design §5.1, §5.2, §10.4, §11.2)."""

from typing import Any, Final, get_args

import msgspec

from memfin.contracts.memory import ConsentScope, UserContext
from memfin.memory.errors import NotFound
from memfin.memory.records import REVIEWABLE
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import ConsentState, Grant, Granted, Profile, ProfileReview, Revoked
from memfin.web.memory.routes import Call, Field, route

_CONSENT: Final = "/api/users/{user_id}/profile-consent"
_PROFILE: Final = "/api/users/{user_id}/profile"
_SCOPE: Final = Field(
    "scope", "Take back this scope alone.", {"type": "string", "enum": list(get_args(ConsentScope))}
)


@route("POST", _CONSENT, "grantConsent", status=201, errors=(403, 410, 422))
def grant(store: MemoryStore, call: Call, asked: Grant) -> Granted:
    """Give consent, or the next version of it, with the preferences set in the same dialogue."""
    consent = store.grant_consent(call.user_id, asked.scopes, asked.preferences)
    return Granted(consent_id=consent.consent_id, version=consent.version)


@route("GET", _CONSENT, "getConsent")
def state(store: MemoryStore, call: Call) -> ConsentState:
    """Return the last version of the consent."""
    consent = store.consent_on_file(call.user_id).consent
    if consent is None:
        raise NotFound("consent: there is none")
    return ConsentState(**{name: consent[name] for name in ConsentState.__struct_fields__})


@route("DELETE", f"{_CONSENT}/{{consent_id}}", "revokeConsent", query=(_SCOPE,), errors=(410,))
def revoke(store: MemoryStore, call: Call) -> Revoked:
    """Take consent back; profile, items, drift log and feedback are gone when this answers."""
    scope: Any = call.query.get("scope")
    revocation = store.revoke_consent(call.user_id, call.params["consent_id"], scope=scope)
    return Revoked(revoked_at=revocation.revoked_at)


@route("GET", _PROFILE, "getProfile")
def profile(store: MemoryStore, call: Call) -> Profile:
    """Return the saved profile; null, or an empty list, where nothing is saved."""
    return _profile(store.read_profile(call.user_id))


@route("PATCH", _PROFILE, "reviewProfile", errors=(403, 410, 422))
def review(store: MemoryStore, call: Call, asked: ProfileReview) -> Profile:
    """Set fields of the saved profile, or delete them with null."""
    given = msgspec.structs.asdict(asked)
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    return _profile(store.review_profile(call.user_id, changes))


def _profile(found: UserContext | None) -> Profile:
    return Profile() if found is None else Profile(**{name: found[name] for name in REVIEWABLE})
