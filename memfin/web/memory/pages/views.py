"""Handlers of the pages: consent and settings (memory design §8.2, §11.2)."""

from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec
from aiohttp import web

from memfin.contracts.base import Language
from memfin.contracts.memory import (
    ConsentScope,
    ConsentScopes,
    Preferences,
    ResearchDepth,
    RiskPromptPreference,
)
from memfin.memory.errors import MemoryRefusal
from memfin.memory.package import zipped
from memfin.memory.records import PREFERENCES, preferences_of
from memfin.memory.store import MemoryStore
from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.auth import Form, see_other
from memfin.web.memory.pages.rendering import HEADERS, PREFIX, page, problem_text
from memfin.web.memory.pages.sessions import Session
from memfin.web.memory.pages.texts import language_of, packaged, texts
from memfin.web.memory.problems import Problem, not_found, problem_of

SCOPES: Final = get_args(ConsentScope)
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "language_preference": get_args(Language),
    "research_depth": get_args(ResearchDepth),
    "risk_prompt_preference": get_args(RiskPromptPreference),
}
_SETTINGS: Final = f"{PREFIX}/settings"


class Views:
    """The pages of people who are signed in."""

    def __init__(self, deps: Dependencies, telemetry: MemoryTelemetry) -> None:
        self._deps = deps
        self._telemetry = telemetry

    async def home(self, request: web.Request) -> web.StreamResponse:
        """Redirect to the settings."""
        del request
        return see_other(_SETTINGS)

    async def style(self, request: web.Request) -> web.StreamResponse:
        """Return the style sheet."""
        del request
        return web.Response(text=packaged("style.css"), content_type="text/css", headers=HEADERS)

    async def consent(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Show the consent dialogue."""
        state = await self._deps.do(_state, self._deps.store, session.user_id)
        if state["consent"] is None:
            self._telemetry.onboarding_step("acknowledgement")
        return self._page(request, session, "consent", state)

    async def grant(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Grant the consent of the dialogue."""
        scopes = ConsentScopes(**{name: form.get(name) == "yes" for name in SCOPES})
        given = {name: form.get(name) or None for name in PREFERENCES}
        if not any(scopes[name] for name in SCOPES):
            return await self._consent_again(request, session, scopes, given, 400, "nothing")
        try:
            preferences = _preferences(given)
            await self._deps.do(self._deps.store.grant_consent, session.user_id, scopes, preferences)
        except (MemoryRefusal, Problem) as refusal:
            problem = problem_of(refusal)
            return await self._consent_again(request, session, scopes, given, problem.status, problem.code)
        self._telemetry.onboarding_step("consent")
        return see_other(f"{_SETTINGS}?done=consent")

    async def settings(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Show the saved data and permissions, with forms to change them."""
        state = await self._deps.do(_state, self._deps.store, session.user_id)
        done = request.query.get("done")
        known = texts(language_of(request))["done"]
        return self._page(request, session, "settings", state, done=done if done in known else None)

    async def change(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Save one preference."""
        name = _preference(request)
        return await self._review(request, session, {name: form.get(name) or None}, "changed")

    async def delete(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Delete one preference."""
        del form
        return await self._review(request, session, {_preference(request): None}, "deleted")

    async def revoke_scope(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Revoke one scope."""
        del form
        scope = request.match_info["scope"]
        if scope not in SCOPES:
            raise not_found()
        await self._deps.do(_revoke, self._deps.store, session.user_id, scope)
        return see_other(f"{_SETTINGS}?done=scope")

    async def revoke(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Revoke all of the consent, once confirmed."""
        del request
        if form.get("confirm") != "yes":
            raise Problem(400, "invalid_input", "confirm it")
        await self._deps.do(_revoke, self._deps.store, session.user_id, None)
        return see_other(f"{_SETTINGS}?done=revoked")

    async def forget(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Forget the contexts of a thread."""
        del form
        await self._deps.do(_forget, self._deps.store, session.user_id, request.match_info["thread_id"])
        return see_other(f"{_SETTINGS}?done=forgotten")

    async def export(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Return the visitor's export."""
        del request
        data = await self._deps.do(_export, self._deps.store, session.user_id)
        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{session.user_id}.zip"'}
        return web.Response(body=data, content_type="application/zip", headers=headers)

    async def _review(
        self, request: web.Request, session: Session, changes: dict[str, Any], done: str
    ) -> web.StreamResponse:
        try:
            await self._deps.do(self._deps.store.review_profile, session.user_id, changes)
        except MemoryRefusal as refusal:
            problem = problem_of(refusal)
            state = await self._deps.do(_state, self._deps.store, session.user_id)
            shown = state | {
                "given": state["given"] | changes,
                "problem": problem_text(request, problem.code),
            }
            return self._page(request, session, "settings", shown, status=problem.status)
        return see_other(f"{_SETTINGS}?done={done}")

    async def _consent_again(
        self,
        request: web.Request,
        session: Session,
        scopes: ConsentScopes,
        given: Mapping[str, str | None],
        status: int,
        code: str,
    ) -> web.Response:
        """Show the dialogue as it was filled in, with its error."""
        state = await self._deps.do(_state, self._deps.store, session.user_id)
        nothing = texts(language_of(request))["consent"]["nothing"]
        words = nothing if code == "nothing" else problem_text(request, code)
        ticked = [name for name in SCOPES if scopes[name]]
        shown = state | {
            "ticked": ticked,
            "given": given,
            "problem": words or problem_text(request, code),
        }
        return self._page(request, session, "consent", shown, status=status)

    def _page(
        self, request: web.Request, session: Session, name: str, state: Mapping[str, Any], **values: Any
    ) -> web.Response:
        status = values.pop("status", 200)
        return page(
            request,
            name,
            status=status,
            form_secret=session.form_secret,
            signed_in=True,
            **{**state, **values},
        )


def _state(store: MemoryStore, user_id: str) -> dict[str, Any]:
    """Return the data of a user for the pages."""
    on_file = store.consent_on_file(user_id)
    consent = on_file.consent
    in_force = on_file.in_force
    saved = msgspec.structs.asdict(preferences_of(store.read_profile(user_id)))
    return {
        "consent": consent,
        "revocable": in_force is not None or (on_file.data is not None and consent is None),
        "scopes": SCOPES,
        "ticked": [name for name in SCOPES if in_force is not None and in_force.scopes[name]],
        "may_save": in_force is not None and in_force.scopes.save_to_profile,
        "names": PREFERENCES,
        "choices": CHOICES,
        "saved": {name: value for name, value in saved.items() if value is not None},
        "given": saved,
        "threads": store.list_threads(user_id),
    }


def _preferences(given: Mapping[str, str | None]) -> Preferences:
    try:
        return msgspec.convert(dict(given), Preferences)
    except msgspec.ValidationError as problem:
        raise Problem(400, "invalid_input", "a preference is none of those there are") from problem


def _preference(request: web.Request) -> str:
    name = request.match_info["name"]
    if name not in PREFERENCES:
        raise not_found()
    return name


def _revoke(store: MemoryStore, user_id: str, scope: ConsentScope | None) -> None:
    store.revoke_consent(user_id, scope=scope)


def _forget(store: MemoryStore, user_id: str, thread_id: str) -> None:
    store.patch_thread(user_id, thread_id, consent_blocked=True)


def _export(store: MemoryStore, user_id: str) -> bytes:
    return zipped(user_id, store.export_user(user_id))
