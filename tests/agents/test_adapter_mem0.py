"""mem0 as the memory behind a plain model: the real package, its models on loopback."""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from memfin.agents.calls import TransportError
from memfin.agents.protocol import Session
from memfin.errors import UsageError
from tests.agents.adapter_replay import stay_on_loopback
from tests.agents.loopback_model import DIMENSIONS, Answer, LoopbackModel, loopback_model

if find_spec("mem0") is None:
    pytest.skip("the extra memfin[mem0] is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def mem0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Import the adapter with a home for mem0 that is not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEM0_DIR", str(tmp_path_factory.mktemp("mem0")))
        patch.delenv("MEM0_TELEMETRY", raising=False)
        yield importlib.import_module("memfin.agents.adapters.mem0")


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "MEMFIN_AGENT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return stay_on_loopback(monkeypatch)


def session(number: int = 1, language: str = "zh") -> Session:
    name = f"dialogue {number}"
    return Session(run_id="r", dialog_id=name, session_id=f"s {name}", user_id=f"u {name}", language=language)


def extracted(request: dict[str, Any]) -> Answer:
    """Extract what the user wrote in the last exchange as the one fact."""
    new = request["messages"][-1]["content"].partition("## New Messages")[2]
    found = re.findall(r"^user: (.*)$", new, re.MULTILINE)
    facts = [{"id": "0", "text": f"客户说：{found[-1]}", "attributed_to": "user"}] if found else []
    return json.dumps({"memory": facts}, ensure_ascii=False)


def factory(mem0: Any, model: LoopbackModel, patch: pytest.MonkeyPatch, **sizes: int) -> Any:
    patch.setenv("MEMFIN_AGENT_BASE_URL", model.base_url)
    return mem0.mem0_memory(model="m1", embedding_model="e1", dimensions=DIMENSIONS, **sizes)


async def test_facts_of_earlier_exchanges_are_found_and_put_before_the_model(
    mem0: Any, monkeypatch: pytest.MonkeyPatch, attempts: list[str]
) -> None:
    async with loopback_model(extracted) as model:
        memory = factory(mem0, model, monkeypatch, window=1)(session())
        empty = await memory.recall("杠杆可以用吗")
        await memory.record("我不使用杠杆", "好的。")
        await memory.record("我偏好不用杠杆的指数基金", "记住了。")
        found = await memory.recall("杠杆可以用吗")
        await memory.close()
    assert (empty.context, empty.turns, empty.recall.items) == ("", [], [])
    assert found.recall.items[0].content == "客户说：我不使用杠杆"
    assert found.recall.items[0].source == "mem0"
    assert [item.rank for item in found.recall.items] == [1, 2]
    assert found.context.splitlines()[:2] == ["[关于客户的记忆]", "- 客户说：我不使用杠杆"]
    assert [(turn.role, turn.content) for turn in found.turns] == [
        ("user", "我偏好不用杠杆的指数基金"),
        ("assistant", "记住了。"),
    ]
    assert found.recall.short_term_context == "user: 我偏好不用杠杆的指数基金\nassistant: 记住了。"
    assert found.recall.packed_context.startswith(found.context)
    assert found.recall.token_count > 0
    assert {request["model"] for request in model.requests} == {"m1"}
    assert attempts == []


async def test_at_most_so_many_facts_are_recalled(mem0: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback_model(extracted) as model:
        memory = factory(mem0, model, monkeypatch, top_k=1)(session(language="en"))
        for text in ("no leverage for me", "no leverage at all"):
            await memory.record(text, "noted")
        found = await memory.recall("leverage")
        assert (await memory.recall("  ")).recall.items == []
        await memory.close()
    assert len(found.recall.items) == 1
    assert found.context.startswith("[What you remember about the client]")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_dialogues_keep_apart_and_leave_nothing_behind(
    mem0: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mem0.tempfile, "tempdir", str(tmp_path))
    async with loopback_model(extracted) as model:
        create = factory(mem0, model, monkeypatch)
        first, second = create(session(1)), create(session(2))
        await first.record("我不使用杠杆", "好的。")
        assert len((await first.recall("杠杆")).recall.items) == 1
        assert (await second.recall("杠杆")).recall.items == []
        assert len(names(tmp_path)) == 2
        await first.close()
        await second.close()
    assert names(tmp_path) == []


async def test_a_mem0_of_the_users_own_keeps_dialogues_apart_by_user(
    mem0: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with loopback_model(extracted) as model:
        reached = {"openai_base_url": model.base_url, "api_key": "k"}
        store = {"collection_name": "c", "embedding_model_dims": DIMENSIONS, "path": str(tmp_path)}
        own = mem0.AsyncMemory.from_config(
            {
                "llm": {"provider": "openai", "config": {"model": "m1", **reached}},
                "embedder": {"provider": "openai", "config": {"model": "e1", **reached}},
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": ":memory:",
            }
        )
        create = mem0.shared_mem0(own)
        first, second = create(session(1)), create(session(2))
        await first.record("我不使用杠杆", "好的。")
        await first.close()
        assert (await second.recall("杠杆")).recall.items == []
        assert len((await create(session(1)).recall("杠杆")).recall.items) == 1
        own.close()
        for part in (own.llm, own.embedding_model, own.vector_store):
            part.client.close()


async def test_a_server_that_is_busy_for_long_is_a_transport_error_and_a_retry_remembers_once(
    mem0: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.BaseClient._calculate_retry_timeout", lambda *_, **__: 0.0)
    busy = [503] * 3  # as often as mem0's own client tries
    async with loopback_model(lambda request: busy.pop() if busy else extracted(request)) as model:
        memory = factory(mem0, model, monkeypatch)(session())
        with pytest.raises(TransportError, match="503"):
            await memory.record("我不使用杠杆", "好的。")
        await memory.record("我不使用杠杆", "好的。")
        found = await memory.recall("杠杆")
        await memory.close()
    assert len(found.turns) == 2
    assert len(found.recall.items) == 1


async def test_a_question_to_a_server_that_is_gone_is_a_transport_error(
    mem0: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.BaseClient._calculate_retry_timeout", lambda *_, **__: 0.0)
    async with loopback_model(extracted) as model:
        memory = factory(mem0, model, monkeypatch)(session())
    with pytest.raises(TransportError, match="onnect"):
        await memory.recall("杠杆")
    await memory.close()


async def test_the_key_is_that_of_the_agent_and_no_error_tells_it(
    mem0: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-canary-0123456789"
    monkeypatch.setenv("MEMFIN_AGENT_API_KEY", key)
    monkeypatch.setattr("openai._base_client.BaseClient._calculate_retry_timeout", lambda *_, **__: 0.0)
    async with loopback_model(lambda request: 429, error=f"your key {key} is out of money") as model:
        memory = factory(mem0, model, monkeypatch)(session())
        with pytest.raises(TransportError) as caught:
            await memory.record("我不使用杠杆", "好的。")
        await memory.close()
    assert {request.get("Authorization") for request in model.headers} == {f"Bearer {key}"}
    assert "out of money" in str(caught.value)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "MEMFIN_AGENT_BASE_URL"),
        ({"MEMFIN_AGENT_BASE_URL": "http://127.0.0.1:9/v1", "OPENROUTER_API_KEY": "k"}, "OpenRouter"),
        ({"MEMFIN_AGENT_BASE_URL": "http://me:secret@127.0.0.1:9/v1"}, "user and password"),
    ],
)
def test_an_endpoint_that_mem0_would_not_use_is_refused(
    variables: dict[str, str], expected: str, mem0: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMFIN_AGENT_BASE_URL", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    create = mem0.mem0_memory(model="m1", embedding_model="e1", dimensions=DIMENSIONS)
    with pytest.raises(UsageError, match=expected) as caught:
        create(session())
    assert "secret" not in str(caught.value)


def fresh(source: str, tmp_path: Path, **variables: str) -> str:
    """Return what a program prints in a process that has imported nothing yet."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MEM0_DIR": str(tmp_path), **variables}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    words = [sys.executable, "-c", source]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_telemetry_of_mem0_is_off(mem0: Any) -> None:
    del mem0  # has imported it
    telemetry = importlib.import_module("mem0.memory.telemetry")
    assert telemetry.MEM0_TELEMETRY is False
    assert telemetry.client_telemetry.posthog is None


def test_a_mem0_that_was_imported_with_its_telemetry_is_refused(tmp_path: Path) -> None:
    source = (
        "import sys, types\n"
        "sys.modules['mem0'] = types.ModuleType('mem0')\n"
        "try:\n    import memfin.agents.adapters.mem0\n"
        "except Exception as problem:\n    print(problem)\n"
    )
    assert "MEM0_TELEMETRY=False" in fresh(source, tmp_path)


def test_a_missing_mem0_is_named_with_its_extra(tmp_path: Path) -> None:
    source = (
        "import sys; sys.modules['mem0'] = None\n"
        "try:\n    import memfin.agents.adapters.mem0\n"
        "except ModuleNotFoundError as problem:\n    print(problem)\n"
    )
    assert "pip install 'memfin[mem0]'" in fresh(source, tmp_path, MEM0_TELEMETRY="False")
