"""Handlers of the pages: consent, settings and export (memory design §8.2, §11.2)."""

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec
from aiohttp import web

from memfin.contracts.base import Language
from memfin.contracts.memory import ConsentScopes, Preferences, ResearchDepth, RiskPromptPreference
from memfin.errors import RunFault
from memfin.memory.consent import SCOPES
from memfin.memory.errors import MemoryRefusal
from memfin.memory.package import zipped
from memfin.memory.records import PREFERENCES, REVIEWABLE
from memfin.memory.store import MemoryStore
from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.auth import Form, see_other
from memfin.web.memory.pages.confirmations import LOSING, confirmation_page, lost_with
from memfin.web.memory.pages.rendering import HEADERS, PREFIX, page, problem_text
from memfin.web.memory.pages.sessions import Session
from memfin.web.memory.pages.texts import language_of, packaged, texts
from memfin.web.memory.problems import Problem, problem_of

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "language_preference": get_args(Language),
    "research_depth": get_args(ResearchDepth),
    "risk_prompt_preference": get_args(RiskPromptPreference),
}
_SETTINGS: Final = f"{PREFIX}/settings"


async def home(_: web.Request) -> web.StreamResponse:
    """Redirect to the settings."""
    return see_other(_SETTINGS)


async def style(_: web.Request) -> web.StreamResponse:
    """Return the style sheet."""
    return web.Response(text=packaged("style.css"), content_type="text/css", headers=HEADERS)


class Views:
    """The pages of people who are signed in."""

    def __init__(self, deps: Dependencies, telemetry: MemoryTelemetry) -> None:
        self._deps = deps
        self._telemetry = telemetry

    async def consent(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Show the consent dialogue."""
        state = await self._deps.do(_state, self._deps.store, session.user_id)
        if state["consent"] is None:
            self._telemetry.onboarding_step("acknowledgement")
        return page(request, "consent", session=session, **state)

    async def grant(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Grant the consent of the dialogue; ask first if a scope is taken back and something is lost."""
        store = self._deps.store
        state = await self._deps.do(_state, store, session.user_id)
        ticked = [name for name in SCOPES if form.get(name) == "yes"]
        given = _given(form, PREFERENCES)
        shown = state | {"ticked": ticked, "given": state["given"] | given}
        unsaved = any(given.values()) and "save_to_profile" not in ticked and not state["may_save"]
        if not ticked or unsaved:
            words = texts(language_of(request))["consent"]["unsaved" if ticked else "nothing"]
            return page(request, "consent", status=400, session=session, **shown | {"problem": words})
        taken_back = [name for name in state["ticked"] if name not in ticked]
        if not LOSING.keys().isdisjoint(taken_back) and form.get("confirm") != "yes":
            lost = await self._deps.do(lost_with, store, session.user_id, taken_back)
            fields = {name: form[name] for name in (*SCOPES, *PREFERENCES) if name in form}
            again = {"back": "consent", "fields": fields | {"confirm": "yes"}}
            return confirmation_page(request, session, lost | again)
        try:
            scopes = ConsentScopes(**{name: name in ticked for name in SCOPES})
            preferences = None if state["may_save"] else _preferences(given)
            await self._deps.do(store.grant_consent, session.user_id, scopes, preferences)
        except (MemoryRefusal, Problem, RunFault) as refusal:
            return self._again(request, session, "consent", shown, refusal)
        self._telemetry.onboarding_step("consent")
        return see_other(f"{_SETTINGS}?done=consent")

    async def settings(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Show the lasting fields and the permissions, with forms to change them."""
        state = await self._deps.do(_state, self._deps.store, session.user_id)
        return page(request, "settings", session=session, **state)

    async def save(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Save all lasting fields; an empty one is deleted."""
        given = _given(form, REVIEWABLE)
        try:
            await self._deps.do(self._deps.store.review_profile, session.user_id, given)
        except (MemoryRefusal, RunFault) as refusal:
            state = await self._deps.do(_state, self._deps.store, session.user_id)
            shown = state | {"given": state["given"] | given}
            return self._again(request, session, "settings", shown, refusal)
        return see_other(f"{_SETTINGS}?done=saved")

    async def export(self, _: web.Request, session: Session) -> web.StreamResponse:
        """Return the visitor's export."""
        data = await self._deps.do(_export, self._deps.store, session.user_id)
        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{session.user_id}.zip"'}
        return web.Response(body=data, content_type="application/zip", headers=headers)

    def _again(
        self,
        request: web.Request,
        session: Session,
        name: str,
        shown: Mapping[str, Any],
        refusal: MemoryRefusal | Problem | RunFault,
    ) -> web.Response:
        """Return a page as it was filled in, with its error and the field that it is about."""
        problem = problem_of(refusal)
        words = problem_text(request, problem.code)
        field = re.match(r"\w*", str(refusal))
        wrong = field[0] if field is not None and field[0] in REVIEWABLE else None
        if wrong is not None:
            words = f"{texts(language_of(request))['fields'][wrong]}: {words}"
        values = {**shown, "problem": words, "wrong": wrong}
        return page(request, name, status=problem.status, session=session, **values)


def _state(store: MemoryStore, user_id: str) -> dict[str, Any]:
    """Return the data of a user for the pages."""
    on_file = store.consent_on_file(user_id)
    consent, in_force = on_file.consent, on_file.in_force
    profile = store.read_profile(user_id)
    ticked = [] if in_force is None else [name for name in SCOPES if in_force.scopes[name]]
    return {
        "consent": consent,
        "unreadable": on_file.data is not None and consent is None,
        "scopes": SCOPES,
        "ticked": ticked,
        "losing": ticked if len(ticked) == 1 else LOSING,
        "may_save": "save_to_profile" in ticked,
        "names": REVIEWABLE,
        "preferences": PREFERENCES,
        "choices": CHOICES,
        "profile": profile,
        "given": {name: None if profile is None else profile[name] for name in REVIEWABLE},
        "wrong": None,
    }


def _given(form: Form, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the given fields of a form by name, None for an empty one; constraints are one per line."""
    given: dict[str, Any] = {name: form[name].strip() or None for name in names if name in form}
    if lines := given.get("constraints"):
        given["constraints"] = list(dict.fromkeys(filter(None, map(str.strip, lines.splitlines()))))
    return given


def _preferences(given: Mapping[str, str | None]) -> Preferences:
    try:
        return msgspec.convert(dict(given), Preferences)
    except msgspec.ValidationError as problem:
        raise Problem(400, "invalid_input", "a preference is none of those there are") from problem


def _export(store: MemoryStore, user_id: str) -> bytes:
    return zipped(user_id, store.export_user(user_id))
