"""A model that follows rules, as an OpenAI-compatible server on loopback, for the memory libraries.

As the model behind mem0 or LangMem it extracts the sentences of the client's words that are no questions,
and it embeds words by their hashes. As the agent's model it answers with the facts in its prompt. Equal
requests get equal answers: a figure is that of what the library stores and finds, not of a model's skill.
"""

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from memfin.text.bm25 import terms

DIMENSIONS: Final = 1024
UNKNOWN: Final = {True: "您没有告诉过我这一点。", False: "You have not told me that."}
_CHINESE: Final = re.compile(r"[\u3400-\u9fff]")
_SAID: Final = re.compile(r"^(?:user: |=+ Human Message =+\n\n)(.*)$", re.MULTILINE)  # to mem0, to LangMem
_END: Final = re.compile(r"(?<=[。！？])|(?<=[.!?])\s+")


def facts(prompt: str) -> list[str]:
    """Return the sentences of the client's new words in a library's prompt, without questions."""
    new = prompt.rpartition("## New Messages")[2]
    sentences = [part.strip() for words in _SAID.findall(new) for part in _END.split(words)]
    return [sentence for sentence in sentences if sentence and sentence[-1] not in "?？"]


def embedding(text: str) -> list[float]:
    """Return the counts of a text's words by their hashes."""
    vector = [0.0] * DIMENSIONS
    for term in terms(text):
        vector[zlib.crc32(term.encode()) % DIMENSIONS] += 1.0
    return vector


def message(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a chat request: tool calls for LangMem, JSON for mem0, text for the agent."""
    prompt = request["messages"][-1]["content"]
    if request.get("tools"):
        named = [{"name": "Memory", "arguments": json.dumps({"content": fact})} for fact in facts(prompt)]
        calls = [{"id": f"c{n}", "type": "function", "function": each} for n, each in enumerate(named)]
        return {"role": "assistant", "content": "", **({"tool_calls": calls} if calls else {})}
    if request.get("response_format"):
        found = [{"text": fact, "attributed_to": "user"} for fact in facts(prompt)]
        return {"role": "assistant", "content": json.dumps({"memory": found})}
    shown = re.findall(r"^- (.*)$", request["messages"][0]["content"], re.MULTILINE)
    text = "\n".join(shown) or UNKNOWN[_CHINESE.search(prompt) is not None]
    return {"role": "assistant", "content": text}


def answer(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the document that answers a request."""
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    common = {"id": "1", "created": 0, "model": request["model"], "usage": usage}
    if path.endswith("/embeddings"):
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        vectors = [
            {"object": "embedding", "index": n, "embedding": embedding(text)} for n, text in enumerate(texts)
        ]
        return {**common, "object": "list", "data": vectors}
    choice = {"index": 0, "finish_reason": "stop", "message": message(request)}
    return {**common, "object": "chat.completion", "choices": [choice]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answer(self.path, request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library names it
        """Log nothing."""


@contextmanager
def served() -> Iterator[str]:
    """Serve the model; give its base URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
