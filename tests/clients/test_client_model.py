"""Models that word simulated clients; the model is a server on loopback, good, bad, slow or gone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.client.endpoint import Endpoint
from memfin.client.limiter import CallLimiter
from memfin.clients.model import ClientModel
from memfin.clients.registry import resolve_client_model
from memfin.clients.wording import SimulatedClient
from memfin.contracts import RunConfig, TurnTrace
from memfin.dataset import GOALS
from memfin.errors import UsageError
from tests.client.faulty_server import FaultyServer
from tests.clients.test_simulated_clients import good_agent, make_sheet, talk
from tests.support import read_jsonl

LANGUAGES = pytest.mark.parametrize("language", ["zh", "en"])


async def worded(
    base_url: str, language: str = "en", limit: float = 5.0
) -> tuple[SimulatedClient, list[TurnTrace], list[TurnTrace]]:
    """Talk to a good agent; return the client, its turns, and those that templates alone would give."""
    gate = CallLimiter(workers=1, max_attempts=2, max_down=0.0, on_warning=lambda _: None, draw=lambda: 0.0)
    model = ClientModel("small", Endpoint(base_url), gate, seed=7, limit=limit)
    sheet = make_sheet(language)
    try:
        client, turns = await talk(sheet, good_agent(sheet), model)
    finally:
        await model.close()
    assert client.state(turns).act.kind == "accept"  # the agent has done its job, whoever words the client
    _, plain = await talk(sheet, good_agent(sheet))
    return client, turns, plain


def texts(turns: list[TurnTrace]) -> list[str]:
    return [turn.user_text for turn in turns]


def gist(body: dict[str, Any]) -> str:
    """Return what the model is to say, without the mood before and the faults after it."""
    words: str = body["messages"][1]["content"]
    return words.partition("] ")[2].partition("\n\n")[0]


@LANGUAGES
async def test_a_model_words_what_the_client_means_and_never_hears_the_agent(language: str) -> None:
    async with FaultyServer(responder=lambda body: f"<think>45%?</think>{gist(body)}!") as server:
        client, turns, plain = await worded(server.base_url, language)
        assert texts(turns) == [f"{text}!" for text in texts(plain)]
        assert client.errors == {}
        assert len(server.arrivals) == len(turns)
        sent = json.dumps([arrival.body for arrival in server.arrivals], ensure_ascii=False)
        assert not [turn for turn in turns if (turn.pred_assistant_text or "?") in sent]
        assert {arrival.body["seed"] for arrival in server.arrivals} == {7}


@LANGUAGES
async def test_a_figure_that_the_model_invents_is_redone_with_the_fault_named(language: str) -> None:
    def responder(body: dict[str, Any]) -> str:
        named = "invents 45%" in body["messages"][1]["content"]
        return gist(body) if named else f"{gist(body)} 45%。"

    async with FaultyServer(responder=responder) as server:
        client, turns, plain = await worded(server.base_url, language)
        assert texts(turns) == texts(plain)
        assert client.errors == {}
        assert len(server.arrivals) == 2 * len(turns)


@pytest.mark.parametrize(
    ("responder", "reason"),
    [
        (lambda body: f"{gist(body)} And 45%.", "invents 45%"),
        (lambda body: f"{gist(body)} 好。", "is not in English"),
        (lambda body: f"{gist(body)} A short bond fund?", "says the answer short bond fund"),
        (lambda body: f"{gist(body)} I owe 80000 yuan.", "discloses debt"),
        (lambda body: gist(body) * 40, "is longer than 800 characters"),
    ],
)
async def test_words_that_stay_wrong_are_charged_to_the_simulator(
    responder: Callable[[dict[str, Any]], str], reason: str
) -> None:
    async with FaultyServer(responder=responder) as server:
        client, turns, plain = await worded(server.base_url)
        assert len(server.arrivals) == 3 * len(turns)
    assert texts(turns) == texts(plain)
    assert list(client.errors) == [turn.turn_pair_id for turn in turns]
    assert all(reason in reasons for reasons in client.errors.values())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("hang", "no whole answer"), ("html", "the model failed"), ("503", "HTTP 503"), ("401", "HTTP 401")],
)
async def test_a_slow_or_broken_server_costs_the_words_and_not_the_agent(fault: str, reason: str) -> None:
    async with FaultyServer(share=1.0, faults=(fault,)) as server:
        client, turns, plain = await worded(server.base_url, limit=0.05)
    assert texts(turns) == texts(plain)
    assert list(client.errors) == [turn.turn_pair_id for turn in turns]
    assert reason in client.errors[1][0]


async def test_a_server_that_is_not_there_costs_the_words_and_not_the_agent() -> None:
    async with FaultyServer() as server:
        gone = server.base_url
    client, turns, plain = await worded(gone)
    assert texts(turns) == texts(plain)
    assert all("cannot connect" in reasons[0] for reasons in client.errors.values())
    assert len(client.errors) == len(turns)


@pytest.mark.parametrize("fault", [None, "html"])
async def test_a_run_records_who_is_charged(
    fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.clients.registry.MAX_ATTEMPTS", 1)
    settings: dict[str, Any] = {"client": "simulated", "runs_dir": tmp_path, "workers_score": 0, "limit": 1}
    plain = await memfin.evaluate(GOALS, agent="echo", run_id="plain", **settings)
    async with FaultyServer(
        responder=lambda body: f"{gist(body)}!", share=float(fault is not None), faults=(fault or "html",)
    ) as server:
        monkeypatch.setenv("MEMFIN_CLIENT_BASE_URL", server.base_url)
        results = await memfin.evaluate(
            GOALS, agent="echo", run_id="r", client_model="openai:small", **settings
        )
    assert results.summary.config_fingerprint != plain.summary.config_fingerprint
    counts = results.summary.metrics["client"].counts
    assert (counts["success_total"], counts["simulator_errors_total"]) == (1, 1)
    (trace,), (other,) = (read_jsonl(tmp_path / name / "dialog_trace.jsonl") for name in ("r", "plain"))
    assert {turn["turn_status"] for turn in trace["turns"]} == {"ok"}
    end = "!" if fault is None else ""
    first, of_template = trace["turns"][0], other["turns"][0]
    assert first["user_text"] == f"{of_template['user_text']}{end}"
    assert ("simulator_errors" in first) is (fault is not None)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"client_model": "openai:small"}, "add --client simulated"),
        ({"client": "simulated", "client_model": "small"}, "name the model"),
        ({"client": "simulated", "client_model": "openai: "}, "name the model"),
        ({"client": "simulated", "client_model": "openai:small"}, "MEMFIN_CLIENT_BASE_URL"),
    ],
)
def test_an_unusable_model_is_refused(
    settings: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEMFIN_CLIENT_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=problem):
        resolve_client_model(RunConfig(**settings), print)
