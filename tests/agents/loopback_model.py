"""An OpenAI-compatible model on loopback: answers as a test says, and keeps what it was asked."""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = str | dict[str, Any] | int
"""A reply's text, a whole message (with tool calls), or the HTTP status of a refusal."""

DIMENSIONS = 64


class LoopbackModel:
    """The server's books: every chat request in order, every text that was embedded."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer], error: str) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.embedded: list[str] = []
        self.base_url = ""
        self._answer = answer
        self._error = error

    @property
    def asked(self) -> list[list[dict[str, Any]]]:
        """Return the messages of each chat request."""
        return [request["messages"] for request in self.requests]

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        answer = self._answer(body)
        if isinstance(answer, int):
            return web.json_response({"error": {"message": self._error}}, status=answer)
        message = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
        return web.json_response(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
            }
        )

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = body["input"]
        self.embedded += texts
        data = [
            {"object": "embedding", "index": index, "embedding": embedding(text)}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})


def embedding(text: str) -> list[float]:
    """Return a vector in which texts that share characters are near: a hashed bag of characters."""
    vector = [0.0] * DIMENSIONS
    for character in text:
        vector[hashlib.sha256(character.encode()).digest()[0] % DIMENSIONS] += 1.0
    return vector


@asynccontextmanager
async def loopback_model(
    answer: Callable[[dict[str, Any]], Answer], *, error: str = "busy"
) -> AsyncIterator[LoopbackModel]:
    """Serve a model on loopback for as long as the context is open; refusals carry the error's text."""
    model = LoopbackModel(answer, error)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.chat)
    app.router.add_post("/v1/embeddings", model.embeddings)
    async with TestServer(app) as server:
        model.base_url = str(server.make_url("/v1"))
        yield model
