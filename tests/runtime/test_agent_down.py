"""An agent's endpoint that is down or refuses all calls: one line, exit code 3, finished by `resume`."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from memfin.agents.calls import AgentEndpoint
from memfin.agents.openai.agent import OpenAIAgents
from memfin.client.endpoint import Endpoint
from memfin.client.errors import EndpointDown, RequestError
from memfin.contracts import SoakLimits
from memfin.errors import RunFault
from memfin.runtime.plan import make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan, make_soak_resume_plan
from memfin.sandbox.calls import CallFailed
from tests.dying_server import serving
from tests.support import dataset, read_jsonl

DIALOGS = 6
TURNS = 3
SUMMARY = "metrics_summary.json"
KEY = "MEMFIN_AGENT_API_KEY"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("calls", "replay"):
        monkeypatch.setattr(f"memfin.agents.{module}.FIRST_BACKOFF", 0.002)
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def agent_at(kind: str, port: int) -> str:
    return f"http://127.0.0.1:{port}" if kind == "http" else "openai:m"


async def run(tmp_path: Path, agent: str, run_id: str = "r", **settings: Any) -> None:
    data = tmp_path / "data.jsonl"
    if not data.exists():
        dataset(data, DIALOGS, TURNS)
    common: dict[str, Any] = {"judge": "none", "fsync_interval": 0, "runs_dir": tmp_path}
    await Run(make_plan(data, agent=agent, run_id=run_id, **common | settings)).run()


async def stopped(tmp_path: Path, agent: str, **settings: Any) -> str:
    """Run until the agent is given up, and return the line."""
    with pytest.raises(RunFault) as fault:
        await run(tmp_path, agent, **settings)
    assert fault.value.exit_code == 3
    line = str(fault.value)
    directory = tmp_path / "r"
    assert line.startswith(f"run {directory}: the agent was given up: http://127.0.0.1:")
    assert line.endswith(f"; memfin resume {directory} finishes the run once it is back")
    assert len(line.splitlines()) == 1
    log = read_jsonl(directory / "commits.log")
    assert all(record.get("status", "ok") == "ok" for record in log)
    assert not (directory / SUMMARY).exists()
    return line


async def finish(tmp_path: Path) -> None:
    """Resume the run, and compare it with one that nothing disturbed."""
    await Run(make_resume_plan(tmp_path / "r")).run()
    for trace in read_jsonl(tmp_path / "r" / "dialog_trace.jsonl"):
        assert [turn["turn_status"] for turn in trace["turns"]] == ["ok"] * TURNS
    assert json.loads((tmp_path / "r" / SUMMARY).read_bytes())["counters"]["total_dialogs"] == DIALOGS


@pytest.mark.parametrize("kind", ["http", "openai"])
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_first_call_that_is_refused_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, status: int
) -> None:
    async with serving(monkeypatch) as server:
        server.status = status
        line = await stopped(tmp_path, agent_at(kind, server.port))
        assert f"HTTP {status}" in line
        assert (f"; look at {KEY} (not set); " in line) == (status != 404)
        server.status = 200
        await finish(tmp_path)


@pytest.mark.parametrize("kind", ["http", "openai"])
async def test_a_first_call_without_a_connection_ends_the_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async with serving(monkeypatch) as server:
        await server.stop()
        monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 60.0)  # nothing is retried
        await stopped(tmp_path, agent_at(kind, server.port))
    async with serving(monkeypatch, server.port):
        await finish(tmp_path)


@pytest.mark.parametrize("kind", ["http", "openai"])
@pytest.mark.parametrize(
    ("lives_for", "settings"),
    [
        (1, {"workers_dialog": 1}),
        (TURNS, {"workers_dialog": 1, "turn_retries": 0}),
        (7, {"workers_dialog": 4}),
        (7, {"workers_dialog": 1, "turn_retries": 0}),
    ],
)
async def test_a_server_that_dies_under_the_run_stops_it_and_costs_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, lives_for: int, settings: dict[str, Any]
) -> None:
    async with serving(monkeypatch) as server:
        server.lives_for = lives_for
        line = await stopped(tmp_path, agent_at(kind, server.port), **settings)
        assert ", 5 times in a row; " in line
    async with serving(monkeypatch, server.port):
        await finish(tmp_path)


async def test_an_answer_begins_a_new_row_and_calls_that_fail_together_count_once() -> None:
    endpoint = AgentEndpoint()
    for began in [0.0] * 9:  # under way before the first failed
        await endpoint.wait_out("refused", began)
    for _ in range(3):
        await endpoint.wait_out("refused", math.inf)
    endpoint.count_answer()
    for _ in range(4):
        await endpoint.wait_out("refused", math.inf)
    await endpoint.wait_out("no route", math.inf)
    for _ in range(3):
        await endpoint.wait_out("no route", math.inf)
    with pytest.raises(EndpointDown, match=r"^no route, 5 times in a row$"):
        await endpoint.wait_out("no route", math.inf)


async def test_a_soak_stops_likewise_and_is_resumed_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dataset(tmp_path / "data.jsonl", DIALOGS, TURNS)
    async with serving(monkeypatch) as server:
        server.lives_for = DIALOGS * TURNS + 2
        plan = make_soak_plan(
            data, limits=SoakLimits(epochs=2), agent="openai:m", judge="none", runs_dir=tmp_path, run_id="s"
        )
        with pytest.raises(RunFault, match=f"; memfin resume {tmp_path / 's'} finishes the run once"):
            await Soak(plan).run()
    async with serving(monkeypatch, server.port):
        soak = Soak(make_soak_resume_plan(tmp_path / "s"))
        await soak.run()
    assert soak.summary is not None
    assert (soak.summary.epochs, soak.summary.errors.failed_turns) == (2, 0)


def test_a_text_that_the_provider_withholds_is_an_answer() -> None:
    agents = OpenAIAgents("m", endpoint=Endpoint("http://127.0.0.1:9/v1"))
    error = agents.error_of(RequestError("refusal", "withheld", retryable=False, status=403))
    assert (type(error), agents.availability.answered) == (CallFailed, True)
