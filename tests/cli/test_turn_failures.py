"""The most frequent reason of failed turns at the end of a run; hints at wrong addresses."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import memfin
from memfin.agents.registry import resolve_agent
from memfin.cli.run import failure_line
from memfin.client.endpoint import Endpoint
from memfin.errors import RunFault, UsageError
from memfin.judges.stats import MAX_KINDS, JudgedTurns
from tests.support import dataset


def line_of(*errors: str | None) -> str | None:
    turns = JudgedTurns()
    for error in errors:
        turns.count(error)
    return failure_line({"ok": turns.turns - turns.failed, "error": turns.failed}, turns)


def test_many_failed_turns_are_a_warning_with_the_most_frequent_reason() -> None:
    assert line_of() is None
    assert line_of(*[None] * 19, "a") is None
    assert line_of(*[None] * 18, "a") == "1 of 19 turns failed; the most frequent reason, 1 times: a"
    assert failure_line({"error": 2}, JudgedTurns()) == "2 of 2 turns failed"
    assert line_of(None, "b", "after 3.2 s", "after 4 s") == (
        "3 of 4 turns failed; the most frequent reason, 2 times: after 3.2 s"
    )
    many = [f"reason {'x' * number}" for number in range(MAX_KINDS + 50)]
    assert line_of(*many, "reason x", "more\nlines") == (
        f"{len(many) + 2} of {len(many) + 2} turns failed; the most frequent reason, 2 times: reason x"
    )


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("", "; the base URL of most servers ends in /v1"),
        ("/v1/chat/completions", "; the base URL should end before /chat/completions"),
        ("/v1", ""),
        ("/v1beta/openai/", ""),
    ],
)
async def test_a_base_url_that_is_not_there_says_what_to_look_at(
    path: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Endpoint(f"http://h{path}").hint(500) == ""
    async with TestServer(web.Application()) as server:
        monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", str(server.make_url("")).rstrip("/") + path)
        with pytest.raises(RunFault) as stopped:
            await memfin.evaluate(
                dataset(tmp_path / "d.jsonl", 1, 1), agent="openai:m", runs_dir=tmp_path, run_id="r"
            )
    assert f": HTTP 404: 404: Not Found{hint}; memfin resume" in str(stopped.value)


@pytest.mark.parametrize("agent", ["openai:m", "https://{address}"])
async def test_https_to_a_port_of_http_says_so(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with TestServer(web.Application()) as server:
        address = f"{server.host}:{server.port}"
        monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", f"https://{address}/v1")
        data = dataset(tmp_path / "d.jsonl", 1, 1)
        with pytest.raises(RunFault, match=r"; does the server speak http instead of https\?; memfin resume"):
            await memfin.evaluate(data, agent=agent.format(address=address), runs_dir=tmp_path, run_id="r")


def test_a_service_may_be_named_in_capitals_but_not_without_its_scheme() -> None:
    assert resolve_agent("HTTP://LocalHost:8765").reference == "http://localhost:8765"
    for address in ("127.0.0.1:9010", "localhost:80/advice", "my-host.example:1", "[::1]:80"):
        with pytest.raises(UsageError) as refused:
            resolve_agent(address)
        assert str(refused.value) == (
            f"agent '{address}': an address needs its scheme, as in http://{address}"
        )


@pytest.mark.parametrize("role", ["judge", "agent"])
def test_a_url_with_a_user_and_a_key_are_one_too_many(role: Any) -> None:
    environ = {f"MEMFIN_{role.upper()}_BASE_URL": "http://me:geheim@h/v1", "OPENAI_API_KEY": "canary-key"}
    with pytest.raises(UsageError) as refused:
        Endpoint.from_environment(role, environ)
    assert str(refused.value) == (
        f"MEMFIN_{role.upper()}_BASE_URL has a user or password and OPENAI_API_KEY a key; a request can "
        "carry only one of them: take the user out of the URL, or unset the key"
    )
    del environ["OPENAI_API_KEY"]
    assert Endpoint.from_environment(role, environ).headers()["Authorization"].startswith("Basic ")
