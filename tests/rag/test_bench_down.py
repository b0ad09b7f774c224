"""RAG system whose endpoint is down or refuses all calls: one line, exit code 3, finished by `resume`."""

import json
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import SoakLimits
from memfin.errors import RunFault
from memfin.journal import RAG_ANSWERS, RAG_RESULTS
from memfin.runtime.bench_plan import (
    make_bench_plan,
    make_bench_resume_plan,
    make_bench_soak_plan,
    make_bench_soak_resume_plan,
)
from memfin.runtime.run import Run
from memfin.runtime.soak import Soak
from tests.dying_server import Server, serving
from tests.rag.bench_support import mixed
from tests.support import read_jsonl

QUESTIONS = 12
KEY = "MEMFIN_AGENT_API_KEY"
KINDS = pytest.mark.parametrize("kind", ["http", "openai"])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.agents.calls.FIRST_BACKOFF", 0.002)
    monkeypatch.setattr("memfin.rag.systems.under_test.FIRST_BACKOFF", 0.002)
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def system_at(kind: str, server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/query" if kind == "http" else "openai:m"


async def stopped(tmp_path: Path, rag: str, **settings: Any) -> str:
    """Run until the system is given up, and return the line."""
    common: dict[str, Any] = {"run_id": "r", "runs_dir": tmp_path, "fsync_interval": 0, **settings}
    with pytest.raises(RunFault) as fault:
        await Run(make_bench_plan(mixed(tmp_path / "b"), rag=rag, **common)).run()
    assert fault.value.exit_code == 3
    line, directory = str(fault.value), tmp_path / "r"
    assert line.startswith(f"run {directory}: the RAG system was given up: http://127.0.0.1:")
    assert line.endswith(f"; memfin resume {directory} finishes the run once it is back")
    assert len(line.splitlines()) == 1
    assert not (directory / "rag_summary.json").exists()
    return line


async def finish(tmp_path: Path, server: Server, answered: int = 0) -> None:
    """Resume the run; only the remaining questions are asked, and none has failed."""
    kept = [row for name in (RAG_ANSWERS, RAG_RESULTS) for row in read_jsonl_if(tmp_path / "r" / name)]
    assert (len(kept), {row["error"] for row in kept}) == (answered, {None} if answered else set())
    server.lives_for, before = None, server.turns
    await Run(make_bench_resume_plan(tmp_path / "r")).run()
    assert server.turns - before == QUESTIONS - answered
    rows = read_jsonl(tmp_path / "r" / RAG_RESULTS)
    assert (len(rows), {row["error"] for row in rows}) == (QUESTIONS, {None})
    summary = json.loads((tmp_path / "r" / "rag_summary.json").read_bytes())
    assert len(summary["individual_results"]) == QUESTIONS


def read_jsonl_if(path: Path) -> list[dict[str, Any]]:
    return read_jsonl(path) if path.exists() else []


@KINDS
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_first_question_that_is_refused_ends_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, status: int
) -> None:
    async with serving(monkeypatch) as server:
        server.status = status
        line = await stopped(tmp_path, system_at(kind, server))
        assert f"HTTP {status}" in line
        assert (f"; look at {KEY} (not set); " in line) == (status != 404)
        server.status = 200
        await finish(tmp_path, server)


@KINDS
async def test_a_first_question_without_a_connection_ends_the_benchmark_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async with serving(monkeypatch) as server:
        await server.stop()
        monkeypatch.setattr("memfin.rag.systems.under_test.FIRST_BACKOFF", 60.0)  # nothing is retried
        await stopped(tmp_path, system_at(kind, server))
    async with serving(monkeypatch, server.port) as server:
        await finish(tmp_path, server)


@KINDS
@pytest.mark.parametrize(
    "settings", [{"workers_dialog": 4}, {"workers_dialog": 1, "turn_retries": 1}], ids=["four", "one"]
)
async def test_a_server_that_dies_pauses_the_benchmark_and_costs_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, settings: dict[str, Any]
) -> None:
    async with serving(monkeypatch) as server:
        server.lives_for = 5
        line = await stopped(tmp_path, system_at(kind, server), **settings)
        assert ", 5 times in a row; " in line
    async with serving(monkeypatch, server.port) as server:
        await finish(tmp_path, server, answered=5)


async def test_a_soak_of_a_benchmark_stops_likewise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = SoakLimits(epochs=2)
    async with serving(monkeypatch) as server:
        server.lives_for = QUESTIONS + 3
        plan = make_bench_soak_plan(
            mixed(tmp_path / "b"), limits=limits, rag="openai:m", runs_dir=tmp_path, run_id="s"
        )
        with pytest.raises(RunFault, match=f"; memfin resume {tmp_path / 's'} finishes the run once"):
            await Soak(plan).run()
    async with serving(monkeypatch, server.port):
        soak = Soak(make_bench_soak_resume_plan(tmp_path / "s"))
        await soak.run()
    assert soak.summary is not None
    assert (soak.summary.epochs, soak.summary.errors.failed_turns) == (2, 0)
