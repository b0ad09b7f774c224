"""The page about RAG systems: its programs run and its messages are those of the protocol."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from memfin.contracts import RagAnswer
from memfin.contracts.reading import decode
from memfin.rag.document import load_document
from memfin.rag.http import openapi_document
from memfin.rag.systems import Asked, load_system
from memfin.rag.systems.openai import OpenAIRag
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "rag-systems.md"
RECORD = "问：签合同了吗？\n答：合同是5月签的。\n"
TEN_LINES = 10


def program(name: str) -> str:
    programs = (block.text for block in blocks(PAGE) if block.language == "python")
    return next(text for text in programs if text.startswith(f"# {name}\n"))


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "interview.md"
    path.write_text(RECORD, "utf-8")
    return path


async def asked(system: Any, question: str, path: Path) -> Asked:
    loaded = load_system(system, document=load_document(path))
    try:
        return await loaded.ask(question)
    finally:
        await loaded.close()


async def test_the_system_of_the_page_answers(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = program("my_rag.py")
    assert len([line for line in text.splitlines()[1:] if line.strip()]) <= TEN_LINES
    record.with_name("my_rag.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(record.parent)
    found = (await asked("my_rag:MyRag", "合同签了吗？", record)).answer
    assert found is not None
    assert found.citation[0].page == 1
    assert "合同" in found.citation[0].quote
    assert (await asked("my_rag:MyRag", "什么颜色？", record)).answer == RagAnswer(
        answer="原文没有说明。", abstained=True
    )
    sys.modules.pop("my_rag")


@pytest.fixture
def service(record: Path) -> Iterator[str]:
    """Run the page's service on a free port."""
    text = program("my_rag_service.py")
    assert len([line for line in text.splitlines()[1:] if line.strip()]) <= TEN_LINES
    record.with_name("my_rag_service.py").write_text(text.replace("8766", "0"), "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMFIN_", "OPENAI_"))}
    process = subprocess.Popen(
        [sys.executable, "my_rag_service.py"],
        cwd=record.parent,
        env={**kept, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_service_of_the_page_answers(service: str, record: Path) -> None:
    assert service.endswith("/query")
    outcome = asyncio.run(asked(service, "q", record))
    assert outcome.answer == RagAnswer(answer="interview.md: 原文没有说明。", abstained=True)


def test_the_model_of_the_page_is_made(record: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(program("model_in_python.py"), namespace)  # noqa: S102 - our own page
    assert isinstance(namespace["system"], OpenAIRag)
    assert namespace["system"].reference == "openai:qwen3"


def test_the_messages_of_the_page_are_those_of_the_document() -> None:
    document = openapi_document()
    shown = [block.text for block in blocks(PAGE) if block.language == "json"]
    names = ["QueryRequest", "QueryAnswer", "QueryError"]
    assert len(shown) == len(names)
    for name, text in zip(names, shown, strict=True):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        message = decode(text.encode(), dict[str, Any])
        jsonschema.Draft202012Validator(schema).validate(message)
        assert set(message) <= set(document["components"]["schemas"][name]["properties"])


def test_the_fields_of_an_answer_are_all_there() -> None:
    text = PAGE.read_text("utf-8")
    for name in RagAnswer.__struct_fields__:
        assert f"`{name}`" in text, name
