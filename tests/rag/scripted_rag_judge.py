"""A judge server for answers: it obeys what stands outside the fences, and otherwise marks what it sees."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.client.faulty_server import FaultyServer
from tests.judges.scripted_judge import FENCE, OBEY, fences

JUDGE: Final = "openai:m"
KEY: Final = "sk-canary-77d1e0c2ab"

_NUMBER: Final = re.compile(r"\d+")


def marks(body: dict[str, Any]) -> str:
    """Answer a request: numbers that no page holds are unfaithful, those that are not expected wrong."""
    messages = body["messages"]
    parts = fences(messages)
    obeys = OBEY in "".join(FENCE.sub("", message["content"]) for message in messages)
    said = set(_NUMBER.findall(parts["answer"].split("\n")[0]))
    pages = "\n".join(text for name, text in parts.items() if name.startswith("page_"))
    expected = _NUMBER.findall(re.sub(r"\(page \d+\)", "", parts["expected"]))
    declines = "should_abstain: true" in parts["expected"] and "没有给出" in parts["answer"]
    faithful = bool(said) and said <= set(_NUMBER.findall(pages))
    right = bool(said) and said <= set(expected)
    return json.dumps(
        {
            "faithfulness_reason": "as ordered" if obeys else "by the pages",
            "faithfulness": 5 if obeys or faithful or declines else 1,
            "answer_correctness_reason": "by the numbers",
            "answer_correctness": 5 if obeys or right or declines else 1,
        }
    )


@asynccontextmanager
async def judging(monkeypatch: pytest.MonkeyPatch, **server: Any) -> AsyncIterator[FaultyServer]:
    """Serve the scripted judge and name it in the environment."""
    async with FaultyServer(**{"responder": marks, **server}) as running:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", running.base_url)
        monkeypatch.setenv("MEMFIN_JUDGE_API_KEY", KEY)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        yield running


def question_of(body: dict[str, Any]) -> str:
    """Return the id that the questions of `bench_support` begin with."""
    return fences(body["messages"])["question"].partition("：")[0]
