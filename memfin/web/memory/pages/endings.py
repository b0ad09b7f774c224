"""Pages of what is remembered, and those that ask before something is lost (memory design §11.2)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from aiohttp import web

from memfin.memory.access_tokens import TokenFile
from memfin.memory.consent import SCOPES
from memfin.memory.errors import InvalidId, NotFound
from memfin.memory.paths import check_id
from memfin.memory.records import REVIEWABLE
from memfin.memory.store import MemoryStore
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.auth import Auth, Form, FormView, View, see_other
from memfin.web.memory.pages.rendering import PREFIX, page, problem_text
from memfin.web.memory.pages.sessions import Session
from memfin.web.memory.problems import not_found

Ids = Mapping[str, str]
"""The parts of a path by name: ids, or a scope."""
Lost = dict[str, Any]
"""What is lost, by kind, and other values of the page that asks."""

SHOWN: Final = 50
"""Items of a kind on the page of what is remembered, unless all are asked for."""
LOSING: Final = ("save_to_profile", "save_to_thread")
"""The scopes whose revocation ends something besides themselves."""


class Ending(NamedTuple):
    """One thing that a person can end.

    Attributes:
        name: of its texts.
        page: the page that is shown afterwards.
        path: of the page that asks and of its form.
        lost: returns what is lost; raises `NotFound` for what is another's.
        end: does it, given the store, the user's id and the parts of the path in their order.
    """

    name: str
    page: str
    path: str
    lost: Callable[[MemoryStore, str, Ids], Lost]
    end: Callable[..., object]


class Endings:
    """Handlers of the pages and forms that end something."""

    def __init__(self, deps: Dependencies, auth: Auth) -> None:
        self._deps = deps
        self._auth = auth

    async def remembered(self, request: web.Request, session: Session) -> web.StreamResponse:
        """Show what is remembered, each with a way to end it."""
        found = await self._deps.do(_remembered, self._deps.store, session.user_id)
        limit = None if "all" in request.query else SHOWN
        return page(request, "remembered", session=session, limit=limit, **found)

    def page(self, ending: Ending) -> View:
        """Return the handler of the page that asks."""

        async def show(request: web.Request, session: Session) -> web.StreamResponse:
            ids = _ids(request)
            lost = await self._deps.do(ending.lost, self._deps.store, session.user_id, ids)
            return ending_page(request, session, {"words": ending.name, "back": ending.page, **lost})

        return show

    def form(self, ending: Ending) -> FormView:
        """Return the handler of the form that confirms."""

        async def end(request: web.Request, session: Session, form: Form) -> web.StreamResponse:
            del form
            await self._deps.do(ending.end, self._deps.store, session.user_id, *_ids(request).values())
            return see_other(f"{PREFIX}/{ending.page}?done={ending.name}")

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
        return self._auth.leave(request, f"{PREFIX}/goodbye")

    async def goodbye(self, request: web.Request) -> web.StreamResponse:
        """Confirm that an account was deleted."""
        return page(request, "goodbye")


def ending_page(request: web.Request, session: Session, lost: Lost) -> web.Response:
    """Return a page that asks whether something may be lost."""
    nothing: Lost = {name: [] for name in (*_LISTS, "contexts", "scopes")} | {"profile": {}, "fields": {}}
    return page(request, "ending", session=session, **{**nothing, "action": request.path, **lost})


def lost_with(store: MemoryStore, user_id: str, scopes: Sequence[str]) -> Lost:
    """Return what is lost with some scopes of a consent that stays in force."""
    profile = _saved_fields(store, user_id) if "save_to_profile" in scopes else {}
    return {"words": "scope", "scopes": scopes, "profile": profile}


def _ids(request: web.Request) -> Ids:
    """Return the parts of a path; raise the same for what is no id as for an unknown one."""
    ids = dict(request.match_info)
    try:
        for value in ids.values():
            check_id(value, "id")
    except InvalidId as problem:
        raise not_found() from problem
    return ids


def _saved_fields(store: MemoryStore, user_id: str) -> Lost:
    """Return the lasting fields by name, nothing if all of them are empty."""
    profile = store.read_profile(user_id)
    fields = {} if profile is None else {name: profile[name] for name in REVIEWABLE}
    return fields if any(fields.values()) else {}


_LISTS: Final[Mapping[str, Callable[[MemoryStore, str], list[Any]]]] = {
    "threads": lambda store, user: [
        store.show_thread(user, each.thread_id) for each in store.list_threads(user)
    ],
    "tasks": lambda store, user: store.list_tasks(user),
    "feedback": lambda store, user: store.list_feedback(user),
    "drift": lambda store, user: store.drift_log(user)[::-1],
}
"""The lists of what is remembered."""


def _remembered(store: MemoryStore, user_id: str) -> Lost:
    return {kind: listed(store, user_id) for kind, listed in _LISTS.items()}


def _lost_with_scope(store: MemoryStore, user_id: str, ids: Ids) -> Lost:
    consent = store.consent_on_file(user_id).in_force
    if ids["scope"] not in SCOPES or consent is None or not consent.scopes[ids["scope"]]:
        raise not_found()
    if sum(consent.scopes[name] for name in SCOPES) == 1:
        return _lost_with_consent(store, user_id, {})
    return lost_with(store, user_id, [ids["scope"]])


def _lost_with_consent(store: MemoryStore, user_id: str, ids: Ids) -> Lost:
    del ids
    if store.consent_on_file(user_id).data is None:
        raise not_found()
    lost = {kind: _LISTS[kind](store, user_id) for kind in ("feedback", "drift")}
    return {**lost, "words": "revoke", "profile": _saved_fields(store, user_id)}


def _lost_with_thread(store: MemoryStore, user_id: str, ids: Ids) -> Lost:
    return {"threads": [store.show_thread(user_id, ids["thread_id"])]}


def _lost_with_context(store: MemoryStore, user_id: str, ids: Ids) -> Lost:
    view = store.show_thread(user_id, ids["thread_id"])
    return {"contexts": _one(view.contexts, "context_id", ids)}


def _lost_of(kind: str, id_name: str) -> Callable[[MemoryStore, str, Ids], Lost]:
    """Return the function that finds one item of a list by its id."""
    return lambda store, user, ids: {kind: _one(_LISTS[kind](store, user), id_name, ids)}


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


_SETTINGS, _LISTED = "settings", "remembered"
_THREAD: Final = "/threads/{thread_id}"
ENDINGS: Final = (
    Ending("scope", _SETTINGS, "/scopes/{scope}/revoke", _lost_with_scope, _revoke_scope),
    Ending(
        "revoke", _SETTINGS, "/revoke", _lost_with_consent, lambda store, user: store.revoke_consent(user)
    ),
    Ending("forget", _LISTED, f"{_THREAD}/forget", _lost_with_thread, _forget),
    Ending(
        "thread",
        _LISTED,
        f"{_THREAD}/delete",
        _lost_with_thread,
        lambda store, *ids: store.delete_thread(*ids),
    ),
    Ending(
        "context",
        _LISTED,
        f"{_THREAD}/contexts/{{context_id}}/delete",
        _lost_with_context,
        lambda store, *ids: store.delete_context(*ids),
    ),
    Ending(
        "task",
        _LISTED,
        "/tasks/{task_id}/delete",
        _lost_of("tasks", "task_id"),
        lambda store, *ids: store.delete_task(*ids),
    ),
    Ending(
        "feedback",
        _LISTED,
        "/feedback/{feedback_id}/delete",
        _lost_of("feedback", "feedback_id"),
        lambda store, *ids: store.delete_feedback(*ids),
    ),
    Ending(
        "drift",
        _LISTED,
        "/drift/{drift_id}/delete",
        _lost_of("drift", "drift_id"),
        lambda store, *ids: store.delete_drift(*ids),
    ),
)
