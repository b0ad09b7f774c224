"""The programs and commands of the page on adapters work as written, with the model on loopback."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import memfin
from tests.agents.loopback_model import DIMENSIONS, Answer
from tests.docs.page_session import assert_all_succeeded, page_session
from tests.docs.pages import ROOT
from tests.support import read_jsonl

PAGE = ROOT / "docs" / "adapters.md"

MISSING = [
    name for name in ("langchain_core", "langchain_openai", "langgraph", "mem0") if find_spec(name) is None
]
if MISSING:
    pytest.skip(f"not installed: {', '.join(MISSING)}; make test installs it", allow_module_level=True)


def adviser_and_extractor(request: dict[str, Any]) -> Answer:
    """Answer as an adviser, and as the model that mem0 has extract facts."""
    if request.get("response_format") == {"type": "json_object"}:
        return json.dumps({"memory": [{"id": "0", "text": "客户不使用杠杆", "attributed_to": "user"}]})
    return "建议分散配置。市场存在不确定性，以上仅供参考。"


IN_PROCESS = (
    "memfin run --agent my_graph:agent --limit 2 --run-id graph",
    "memfin run --agent my_chain:agent --limit 2 --run-id chain",
    "memfin run --agent my_chain:agent --limit 2 --run-id chain-forced --history forced",
)
"""Commands whose options go to an evaluation in this process, where the packages are imported already."""


async def test_the_programs_of_the_page_are_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("LANGSMITH_TRACING", raising=False)
    async with page_session(tmp_path, adviser_and_extractor) as (session, model):
        session.replaced["dimensions=1024"] = f"dimensions={DIMENSIONS}"
        session.set("OPENAI_BASE_URL", model.base_url)
        session.set("OPENAI_API_KEY", "k")
        session.set("MEM0_DIR", str(tmp_path / "mem0"))
        session.replaced |= dict.fromkeys(reversed(IN_PROCESS), "")  # the longer one first
        await session.work_through(PAGE)
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        for line in IN_PROCESS:
            assert f"{line}\n" in PAGE.read_text("utf-8")
            words = line.removeprefix("memfin run ").replace("--", "").replace("-", "_").split()
            options: dict[str, Any] = dict(zip(words[::2], words[1::2], strict=True))
            await memfin.evaluate(**options | {"limit": 2, "run_id": options["run_id"].replace("_", "-")})
    assert [line.split("--run-id ")[1] for line, _ in session.done] == ["mem0"]
    assert_all_succeeded(session.done)
    for name in ("graph", "chain", "chain-forced", "mem0"):
        traces = read_jsonl(tmp_path / "runs" / name / "dialog_trace.jsonl")
        assert [trace["dialog_status"] for trace in traces] == ["ok"] * 2, name
        later = [turn for trace in traces for turn in trace["turns"][1:]]
        assert all(turn["recall"]["short_term_context"] for turn in later), name
        if name == "mem0":
            assert {item["source"] for turn in later for item in turn["recall"]["items"]} == {"mem0"}
    assert model.embedded
