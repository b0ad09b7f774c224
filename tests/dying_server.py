"""Server on loopback that may go away under a run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

REPLY = "根据数据，注意风险，仅供参考。"


class Server:
    """Agent service, RAG system and chat endpoint at one address, which dies after ``lives_for`` turns."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.turns = 0
        self.lives_for: int | None = None
        self.status = 200
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._sessions = 0

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/sessions", self.open)
        app.router.add_post("/sessions/{id}/turns", self.turn)
        app.router.add_delete("/sessions/{id}", self.end)
        app.router.add_post("/query", self.query)
        app.router.add_post("/v1/chat/completions", self.chat)
        runner = self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = self._site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def open(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.json_response({"error": {"code": "c", "message": "m"}}, status=self.status)
        self._sessions += 1
        return web.json_response({"protocol": 1, "id": str(self._sessions)}, status=201)

    async def end(self, request: web.Request) -> web.Response:
        return web.Response(status=204)

    async def turn(self, request: web.Request) -> web.Response:
        await self._live(request)
        return web.json_response({"text": REPLY})

    async def query(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.json_response({"error": {"code": "c", "message": "m"}}, status=self.status)
        await self._live(request)
        return web.json_response({"answer": REPLY})

    async def chat(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.json_response({"error": {"message": "m"}}, status=self.status)
        await self._live(request)
        message = {"role": "assistant", "content": REPLY}
        answer = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        return web.json_response(answer)

    async def _live(self, request: web.Request) -> None:
        if self.lives_for is not None and self.turns >= self.lives_for:
            site, self._site = self._site, None
            if site is not None:
                await site.stop()
            assert request.transport is not None
            request.transport.abort()
            await asyncio.sleep(0)
        self.turns += 1


@asynccontextmanager
async def serving(monkeypatch: pytest.MonkeyPatch, port: int = 0) -> AsyncIterator[Server]:
    server = Server(port)
    await server.start()
    monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", f"http://127.0.0.1:{server.port}/v1")
    try:
        yield server
    finally:
        await server.stop()
