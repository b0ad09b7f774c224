"""A memory service on loopback with two users, and what tests ask of it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from memfin.memory import MemoryStore
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile
from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.application import memory_application

SCOPES = {"create_task": True, "save_to_profile": True, "save_to_thread": True, "training_use_allowed": True}
PREFERENCES = {
    "language_preference": "zh",
    "research_depth": "deep",
    "risk_prompt_preference": "risk_first",
    "user_focus_reason": "半导体周期",
}
THREAD = {
    "title": "光伏产业链",
    "cognition_object": {"type": "theme", "name": "光伏"},
    "save_user_context": True,
}
FEEDBACK = {
    "related_object_ref": "snapshot:snap_1",
    "cognition_object": {"type": "asset", "name": "SOL"},
    "rating": "thumbs_up",
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error, which has exactly the fields that errors have."""
        error = self.json
        assert error.keys() == {"error"}
        assert error["error"].keys() == {"code", "message", "details"}
        assert self.headers["Content-Type"] == "application/json"
        return str(error["error"]["code"])


class Service(NamedTuple):
    """A running service.

    Attributes:
        url: where it is.
        store: what it serves.
        tokens: of the users alice and bob.
        client: asks it.
    """

    url: str
    store: MemoryStore
    tokens: dict[str, str]
    token_file: TokenFile
    telemetry: MemoryTelemetry
    client: ClientSession

    async def ask(
        self, method: str, path: str, body: Any = None, *, user: str | None = "alice", **options: Any
    ) -> Answer:
        headers = dict(options.pop("headers", {}))
        if user is not None:
            headers.setdefault("Authorization", f"Bearer {self.tokens[user]}")
        if body is not None:
            options["json"] = body
        async with self.client.request(method, self.url + path, headers=headers, **options) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    async def grant(self, user: str = "alice", **scopes: bool) -> str:
        body = {"scopes": SCOPES | scopes, "preferences": PREFERENCES}
        answer = await self.ask("POST", f"/api/users/{user}/profile-consent", body, user=user)
        assert answer.status == 201, answer
        return str(answer.json["consent_id"])

    async def save_thread(self, consent_id: str, user: str = "alice") -> str:
        body = THREAD | {"consent_ack": {"consent_id": consent_id}, "user_focus_reason": "需求见底"}
        answer = await self.ask("POST", "/api/snapshots/snap_1/save-as-thread", body, user=user)
        assert answer.status == 201, answer
        return str(answer.json["thread_id"])


@asynccontextmanager
async def serving(root: Path, **options: Any) -> AsyncIterator[Service]:
    telemetry = MemoryTelemetry()
    token_file = TokenFile(root / TOKENS_FILE)
    tokens = {user: token_file.add(user)[1] for user in ("alice", "bob")}
    with MemoryStore(root, telemetry=telemetry, **options.pop("store", {})) as store:
        app: web.Application = memory_application(store, token_file, telemetry=telemetry, **options)
        async with TestServer(app) as server, ClientSession() as client:
            yield Service(str(server.make_url("")).rstrip("/"), store, tokens, token_file, telemetry, client)
