"""Calls for consent and the saved profile (memory design §5.1, §5.2, §10.4, §11.2)."""

from typing import Any, Final, get_args

import msgspec

from memfin.contracts.memory import ConsentScope, UserContext
from memfin.memory.errors import NotFound
from memfin.memory.records import REVIEWABLE
from memfin.memory.store import MemoryStore
from memfin.web.memory.bodies import (
    ConsentState,
    Grant,
    Granted,
    Profile,
    ProfileReview,
    Revoked,
)
from memfin.web.memory.routes import Call, Field, Route

_CONSENT: Final = "/api/users/{user_id}/profile-consent"
_PROFILE: Final = "/api/users/{user_id}/profile"


def grant(store: MemoryStore, call: Call) -> Granted:
    """Put a consent in force."""
    asked: Grant = call.body
    consent = store.grant_consent(call.user_id, asked.scopes, asked.preferences)
    return Granted(consent_id=consent.consent_id, version=consent.version)


def state(store: MemoryStore, call: Call) -> ConsentState:
    """Return the consent on file."""
    consent = store.consent_on_file(call.user_id).consent
    if consent is None:
        raise NotFound("consent: there is none")
    return ConsentState(**{name: consent[name] for name in ConsentState.__struct_fields__})


def revoke(store: MemoryStore, call: Call) -> Revoked:
    """Revoke a consent, or one scope of it."""
    scope: Any = call.query.get("scope")
    revocation = store.revoke_consent(call.user_id, call.params["consent_id"], scope=scope)
    return Revoked(revoked_at=revocation.revoked_at)


def profile(store: MemoryStore, call: Call) -> Profile:
    """Return the saved profile."""
    return _profile(store.read_profile(call.user_id))


def review(store: MemoryStore, call: Call) -> Profile:
    """Change the saved profile for its owner."""
    asked: ProfileReview = call.body
    given = msgspec.structs.asdict(asked)
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    return _profile(store.review_profile(call.user_id, changes))


def _profile(found: UserContext | None) -> Profile:
    return Profile() if found is None else Profile(**{name: found[name] for name in REVIEWABLE})


ROUTES: Final = (
    Route(
        method="POST",
        path=_CONSENT,
        name="grantConsent",
        summary="Give consent, or the next version of it, with the preferences set in the same dialogue.",
        work=grant,
        body=Grant,
        status=201,
        answer=Granted,
        errors=(403, 410, 422),
    ),
    Route(
        method="GET",
        path=_CONSENT,
        name="getConsent",
        summary="Return the last version of the consent.",
        work=state,
        answer=ConsentState,
    ),
    Route(
        method="DELETE",
        path=f"{_CONSENT}/{{consent_id}}",
        name="revokeConsent",
        summary="Take consent back; the saved profile and the drift log are gone when this answers.",
        work=revoke,
        answer=Revoked,
        query=(
            Field(
                "scope",
                "Take back this scope alone.",
                {"type": "string", "enum": list(get_args(ConsentScope))},
            ),
        ),
        errors=(410,),
    ),
    Route(
        method="GET",
        path=_PROFILE,
        name="getProfile",
        summary="Return the saved profile; null, or an empty list, where nothing is saved.",
        work=profile,
        answer=Profile,
    ),
    Route(
        method="PATCH",
        path=_PROFILE,
        name="reviewProfile",
        summary="Set fields of the saved profile, or delete them with null.",
        work=review,
        body=ProfileReview,
        answer=Profile,
        errors=(403, 410, 422),
    ),
)
