"""Page of the remembered data, and confirmation pages of deletions and revocations (memory design §11.2)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from aiohttp import web

from memfin.memory.access_tokens import TokenFile
from memfin.memory.consent import SCOPES
from memfin.memory.errors import NotFound
from memfin.memory.owned import ThreadView
from memfin.memory.records import REVIEWABLE
from memfin.memory.store import MemoryStore
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.auth import Auth, Form, FormView, View, see_other
from memfin.web.memory.pages.rendering import PREFIX, page, problem_text
from memfin.web.memory.pages.sessions import Session
from memfin.web.memory.problems import ids_of, not_found

Ids = Mapping[str, str]
"""The parts of a path by name: ids, or a scope."""
Lost = dict[str, Any]
"""Data that is lost, by kind, and other values of a confirmation page."""

MAX_SHOWN: Final = 50
"""Maximum number of records of a kind on the page of the remembered data, unless all are asked for."""
LOSING: Final[Mapping[str, tuple[str, ...]]] = {
    "create_task": ("feedback",),
    "save_to_profile": ("profile", "items", "drift"),
    "save_to_thread": ("threads",),
}
"""Kinds of data that end with a scope: threads are no longer used, all else is deleted."""


class Confirmation(NamedTuple):
    """Deletion or revocation with a page that asks for it to be confirmed.

    Attributes:
        name: of its texts.
        page: the page that is shown afterwards.
        path: of the confirmation page and of its form.
        lost: returns the data that is lost; raises `NotFound` for that of others.
        end: the operation, given the store, the user's id and the parts of the path in their order.
    """

    name: str
    page: str
    path: str
    lost: Callable[[MemoryStore, str, Ids], Lost]
    end: Callable[..., object]


class Confirmations:
    """Handlers of the page of the remembered data, of the confirmation pages and of their forms."""

    def __init__(self, deps: Dependencies, auth: Auth) -> None:
        self._deps = deps
        self._auth = auth

    async def remembered(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Show the remembered data, each record with a link that deletes it."""
        found = await self._deps.do(_remembered, self._deps.store, session.user_id)
        limit = None if "all" in request.query else MAX_SHOWN
        return page(request, "remembered", session=session, limit=limit, **found)

    def page(self, confirmation: Confirmation) -> View:
        """Return the handler of a confirmation page."""

        async def show(request: web.Request, session: Session) -> web.StreamResponse:
            ids = ids_of(request)
            lost = await self._deps.do(confirmation.lost, self._deps.store, session.user_id, ids)
            return confirmation_page(
                request, session, {"words": confirmation.name, "back": confirmation.page, **lost}
            )

        return show

    def form(self, confirmation: Confirmation) -> FormView:
        """Return the handler of the form on a confirmation page."""

        async def end(request: web.Request, session: Session, _: Form) -> web.StreamResponse:
            await self._deps.do(
                confirmation.end, self._deps.store, session.user_id, *ids_of(request).values()
            )
            return see_other(f"{PREFIX}/{confirmation.page}?done={confirmation.name}")

        return end

    async def account(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Ask before an account is deleted."""
        return page(request, "account", session=session)

    async def delete_account(self, request: web.Request, session: Session, form: Form) -> web.StreamResponse:
        """Delete the account if its id was typed, and end its sessions."""
        if form.get("user_id", "").strip() != session.user_id:
            problem = problem_text(request, "other_user_id")
            return page(request, "account", status=400, session=session, problem=problem)
        await self._deps.do(_delete_account, self._deps.store, self._deps.tokens, session.user_id)
        return self._auth.leave(request, page(request, "goodbye"))


def confirmation_page(request: web.Request, session: Session, lost: Lost) -> web.Response:
    """Return a confirmation page."""
    nothing: Lost = {name: [] for name in (*_LISTS, "contexts", "scopes")} | {"fields": {}}
    return page(request, "confirmation", session=session, **{**nothing, "action": request.path, **lost})


def lost_with(store: MemoryStore, user_id: str, scopes: Sequence[str]) -> Lost:
    """Return the data that ends with some scopes of a consent."""
    kinds = [kind for scope in scopes for kind in LOSING.get(scope, ())]
    lost = {kind: _LISTS[kind](store, user_id) for kind in kinds}
    outside = [each for each in lost.get("items", ()) if each.thread_id is None]
    used = [each for each in lost.get("threads", ()) if each.contexts and not each.header.consent_blocked]
    return {**lost, "items": outside, "threads": used, "words": "scope", "scopes": scopes}


def _saved_fields(store: MemoryStore, user_id: str) -> Lost:
    """Return the lasting fields by name, nothing if all of them are empty."""
    profile = store.read_profile(user_id)
    fields = {} if profile is None else {name: profile[name] for name in REVIEWABLE}
    return fields if any(fields.values()) else {}


def _threads(store: MemoryStore, user_id: str) -> list[ThreadView]:
    found = []
    for header in store.list_threads(user_id):
        with suppress(NotFound):  # deleted meanwhile
            found.append(store.show_thread(user_id, header.thread_id))
    return found


_LISTS: Final[Mapping[str, Callable[[MemoryStore, str], Any]]] = {
    "profile": _saved_fields,
    "threads": _threads,
    "items": lambda store, user: store.items.everything(user)[::-1],
    "tasks": lambda store, user: store.list_tasks(user),
    "feedback": lambda store, user: store.list_feedback(user),
    "drift": lambda store, user: store.drift_log(user)[::-1],
}
"""Remembered data by kind, newest first."""


def _remembered(store: MemoryStore, user_id: str) -> Lost:
    return {kind: listed(store, user_id) for kind, listed in _LISTS.items()}


def _lost_with_scope(store: MemoryStore, user_id: str, ids: Ids) -> Lost:
    scope, consent = ids["scope"], store.consent_on_file(user_id).in_force
    if scope not in SCOPES or consent is None or not consent.scopes[scope]:
        raise not_found()
    if sum(consent.scopes[name] for name in SCOPES) == 1:
        return _lost_with_consent(store, user_id, {})
    return lost_with(store, user_id, [scope])


def _lost_with_consent(store: MemoryStore, user_id: str, _: Ids) -> Lost:
    if store.consent_on_file(user_id).data is None:
        raise not_found()
    return lost_with(store, user_id, SCOPES) | {"words": "revoke", "scopes": []}


def _lost_with_thread(store: MemoryStore, user_id: str, ids: Ids) -> Lost:
    view = store.show_thread(user_id, ids["thread_id"])
    items = [each for each in store.items.everything(user_id) if each.thread_id == ids["thread_id"]]
    return {"threads": [view], "items": items}


def _lost_with_context(store: MemoryStore, user_id: str, ids: Ids) -> Lost:
    view = store.show_thread(user_id, ids["thread_id"])
    return {"contexts": _one(view.contexts, "context_id", ids)}


def _lost_of(kind: str, id_name: str) -> Callable[[MemoryStore, str, Ids], Lost]:
    """Return the function that finds one item of a list by its id."""
    return lambda store, user, ids: {kind: _one([*_LISTS[kind](store, user)], id_name, ids)}


def _one(records: Sequence[Any], id_name: str, ids: Ids) -> list[Any]:
    found = [record for record in records if record[id_name] == ids[id_name]]
    if not found:
        raise not_found()
    return found


def _revoke_scope(store: MemoryStore, user_id: str, scope: Any) -> None:
    if scope not in SCOPES:
        raise not_found()
    store.revoke_consent(user_id, scope=scope)


def _forget(store: MemoryStore, user_id: str, thread_id: str) -> None:
    store.patch_thread(user_id, thread_id, consent_blocked=True)


def _delete_account(store: MemoryStore, tokens: TokenFile, user_id: str) -> None:
    """Delete an account and its tokens; there may be nothing but tokens."""
    with suppress(NotFound):
        store.delete_user(user_id)
    store.despite_full_disk(lambda: tokens.forget_user(user_id))


_RECORDS: Final[tuple[tuple[str, str, Callable[..., object]], ...]] = (
    ("item", "items", lambda store, *ids: store.items.forget(*ids)),
    ("task", "tasks", lambda store, *ids: store.delete_task(*ids)),
    ("feedback", "feedback", lambda store, *ids: store.delete_feedback(*ids)),
    ("drift", "drift", lambda store, *ids: store.delete_drift(*ids)),
)
"""Names, kinds and deletions of the records that stand alone."""

_SETTINGS, _LISTED = "settings", "remembered"
_THREAD, _CONTEXT = "/threads/{thread_id}", "/threads/{thread_id}/contexts/{context_id}"
CONFIRMATIONS: Final = (
    Confirmation("scope", _SETTINGS, "/scopes/{scope}/revoke", _lost_with_scope, _revoke_scope),
    Confirmation("revoke", _SETTINGS, "/revoke", _lost_with_consent, lambda s, user: s.revoke_consent(user)),
    Confirmation("forget", _LISTED, f"{_THREAD}/forget", _lost_with_thread, _forget),
    Confirmation(
        "thread", _LISTED, f"{_THREAD}/delete", _lost_with_thread, lambda s, *ids: s.delete_thread(*ids)
    ),
    Confirmation(
        "context", _LISTED, f"{_CONTEXT}/delete", _lost_with_context, lambda s, *ids: s.delete_context(*ids)
    ),
    *(
        Confirmation(name, _LISTED, f"/{kind}/{{{name}_id}}/delete", _lost_of(kind, f"{name}_id"), end)
        for name, kind, end in _RECORDS
    ),
)
