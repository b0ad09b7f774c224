"""Servers differ in how a JSON schema is asked for: the judge finds the form that theirs takes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from memfin.client.endpoint import Endpoint
from memfin.client.limiter import CallLimiter
from memfin.contracts import JudgeRequest, Verdict
from memfin.judges import JudgeSetup
from memfin.judges.openai import OpenAIJudge
from memfin.judges.protocol import JudgeResult
from memfin.judges.reply_grading import ReplyGrading

REQUEST = JudgeRequest(
    dialog_id="d", turn_pair_id=1, language="zh", user_text="q", reply="a", rubric_required=["信息依据"]
)
VERDICT = {"reason": "r", "satisfied": ["R1"], "risk_tags": [], "compliance": "compliant", "score": 4}

Refusal = Callable[[dict[str, Any]], tuple[int, str] | None]


def llama_cpp_python(asked: dict[str, Any]) -> tuple[int, str] | None:
    """Refuse as the Python server of llama.cpp 0.3.36 does: as if the fault were its own."""
    if asked["type"] == "json_schema":
        return 500, "1 validation error: ('body', 'response_format', 'type'): 'text' or 'json_object'"
    return None


def without_schemas(asked: dict[str, Any]) -> tuple[int, str] | None:
    """Refuse every form that has a schema."""
    return None if asked == {"type": "json_object"} else (400, "unknown parameter")


async def results(
    refusal: Refusal, times: int, tmp_path: Path
) -> tuple[list[JudgeResult[Verdict]], list[Any], list[str]]:
    """Judge so many times at a server that refuses so; return the results, forms asked for, notices."""
    forms: list[Any] = []

    async def chat(request: web.Request) -> web.Response:
        asked = (await request.json()).get("response_format")
        forms.append(asked)
        refused = refusal(asked)
        if refused is not None:
            return web.json_response({"error": {"message": refused[1]}}, status=refused[0])
        message = {"role": "assistant", "content": json.dumps(VERDICT)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"model": "m", "choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    notices: list[str] = []
    async with TestServer(app) as server:
        judge = OpenAIJudge(
            "m",
            Endpoint(str(server.make_url("/v1"))),
            ReplyGrading(),
            JudgeSetup(gate=CallLimiter(workers=1, on_warning=notices.append), warn=notices.append),
        )
        found = [await judge.deliberate(REQUEST) for _ in range(times)]
        await judge.close()
    return found, forms, notices


@pytest.mark.parametrize(
    ("refusal", "form", "attempts"),
    [
        (lambda asked: None, "json_schema", 1),
        (llama_cpp_python, "json_object_schema", 2),
        (without_schemas, "json_object", 3),
    ],
    ids=["takes all", "llama-cpp-python", "no schemas"],
)
async def test_the_form_that_the_server_takes_is_found_once(
    refusal: Refusal, form: str, attempts: int, tmp_path: Path
) -> None:
    found, forms, notices = await results(refusal, 2, tmp_path)
    assert [[vote.response_format for vote in result.votes] for result in found] == [[form], [form]]
    assert [[vote.attempts for vote in result.votes] for result in found] == [[attempts], [1]]
    assert len(forms) == attempts + 1
    assert any(form in line for line in notices) == (attempts > 1)


async def test_the_form_of_llama_cpp_carries_the_schema(tmp_path: Path) -> None:
    _, forms, _ = await results(llama_cpp_python, 1, tmp_path)
    assert forms[1]["type"] == "json_object"
    assert forms[1]["schema"] == forms[0]["json_schema"]["schema"]
