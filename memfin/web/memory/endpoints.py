"""Route handlers: authenticate the caller, decode the call, and do its work in a thread."""

from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
from aiohttp import hdrs, web

from memfin.hosting import Handler
from memfin.memory.access_tokens import TokenFile
from memfin.memory.reading import Skill
from memfin.memory.store import MemoryStore
from memfin.sandbox.references import one_line
from memfin.web.memory.problems import Problem, ids_of, json_answer, not_found
from memfin.web.memory.requests import read_json
from memfin.web.memory.routes import Archive, Call, Route

MAX_THREADS: Final = 16
"""Maximum number of calls worked on at a time; further ones wait."""


class Dependencies:
    """Dependencies of handlers: the store, the tokens, the skills, and a bounded number of threads."""

    def __init__(self, store: MemoryStore, tokens: TokenFile, skills: tuple[Skill, ...] = ()) -> None:
        self.store = store
        self.tokens = tokens
        self.skills = skills
        self._limiter = anyio.CapacityLimiter(MAX_THREADS)

    async def do(self, work: Any, *args: Any) -> Any:
        """Run a blocking function in a thread and return its result; once begun, it runs to its end."""
        return await anyio.to_thread.run_sync(partial(work, *args), limiter=self._limiter)

    def handler(self, route: Route) -> Handler:
        """Return the handler of a route."""

        async def handle(request: web.Request) -> web.StreamResponse:
            user_id = await self._caller(request)
            call = self._call(request, route, user_id)
            body = [] if route.body is None else [await read_json(request, route.body)]
            answer = await self.do(route.work, self.store, call, *body)
            if answer is None:
                return web.Response(status=route.status, headers={"Cache-Control": "no-store"})
            return _archive(answer) if isinstance(answer, Archive) else json_answer(route.status, answer)

        return handle

    async def _caller(self, request: web.Request) -> str:
        shown = request.headers.getall(hdrs.AUTHORIZATION, [])
        scheme, _, token = shown[0].partition(" ") if len(shown) == 1 else ("", "", "")
        user_id = await self.do(self.tokens.user_of, token.strip()) if scheme.lower() == "bearer" else None
        if user_id is None:
            raise Problem(
                401,
                "unauthorized",
                "show a token of the user: Authorization: Bearer TOKEN",
                headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
            )
        return str(user_id)

    def _call(self, request: web.Request, route: Route, user_id: str) -> Call:
        """Return the call; other people's resources, and paths that are no ids, are not found."""
        params = ids_of(request)
        if params.pop("user_id", user_id) != user_id:
            raise not_found()
        return Call(user_id, params, _query(request, route), self.tokens, self.skills)


def _query(request: web.Request, route: Route) -> dict[str, str]:
    known = {field.name: field for field in route.query}
    for name in request.query:
        if name not in known:
            fields = f"known fields: {', '.join(known)}" if known else "this call takes none"
            raise Problem(400, "invalid_input", f"query: unknown field {one_line(name)[:40]!r}; {fields}")
        values = request.query.getall(name)
        choices = known[name].schema.get("enum")
        if len(values) > 1 or (choices and values[0] not in choices):
            raise Problem(400, "invalid_input", f"query: {name}: expected one of {choices or 'its values'}")
    if missing := [name for name, field in known.items() if field.required and name not in request.query]:
        raise Problem(400, "invalid_input", f"query: {missing[0]}: is required")
    return dict(request.query)


def _archive(answer: Archive) -> web.Response:
    return web.Response(
        body=answer.data,
        content_type="application/zip",
        headers={
            "Content-Disposition": f'attachment; filename="{answer.name}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        },
    )
