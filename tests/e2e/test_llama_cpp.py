"""A real llama.cpp server as judge and as agent: ``make test-llama-cpp`` runs this.

The server is the one of the PyPI package llama-cpp-python; its model is made here, tiny and random.
What it says is nonsense, but nonsense in the form that was asked for.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.tiny_model import write_tiny_model
from tests.support import dataset, read_jsonl

MISSING = [name for name in ("llama_cpp", "gguf", "uvicorn") if find_spec(name) is None]
if MISSING:
    pytest.skip(
        f"not installed: {', '.join(MISSING)}; make test-llama-cpp installs it", allow_module_level=True
    )

STARTS_WITHIN = 120.0
"""Seconds."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - loopback
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the model for the tests of this module."""
    folder = tmp_path_factory.mktemp("llama")
    model = write_tiny_model(folder / "tiny.gguf")
    port = free_port()
    words = [sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--model_alias", "tiny"]
    words += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "32768", "--chat_format", "chatml"]
    log = (folder / "server.log").open("wb")
    server = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        end = time.monotonic() + STARTS_WITHIN
        while not answers(f"{url}/models"):
            told = (folder / "server.log").read_text("utf-8", "replace")
            assert server.poll() is None, f"the server ended: {told}"
            assert time.monotonic() < end, f"the server does not answer: {told}"
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()
        log.close()


def run(folder: Path, base_url: str, *words: str) -> Path:
    """Run memfin on two dialogues against the server; return the run's directory."""
    source = dataset(folder / "data.jsonl", 2, turns=2)
    done = subprocess.run(
        [sys.executable, "-m", "memfin", "run", str(source), "--run-id", "r", "--quiet", *words],
        cwd=folder,
        env={**os.environ, "MEMFIN_JUDGE_BASE_URL": base_url, "MEMFIN_AGENT_BASE_URL": base_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "r"


@pytest.mark.parametrize("scope", ["m5", "all"])
def test_schema_constrained_answers_of_the_server_parse(scope: str, base_url: str, tmp_path: Path) -> None:
    directory = run(tmp_path, base_url, "--judge", "openai:tiny", "--judge-scope", scope)
    votes = read_jsonl(directory / "judgements.jsonl")
    assert [vote["error"] for vote in votes] == [None] * len(votes)
    assert len(votes) >= 4
    assert {vote["response_format"] for vote in votes} == {"json_object_schema"}
    assert all(vote["verdict"]["score"] in {1, 2, 3, 4, 5} for vote in votes)
    rows = read_jsonl(directory / "turn_eval.jsonl")
    assert [1 <= row["judge_score_1_5"] <= 5 for row in rows] == [True] * 4


def test_the_model_answers_as_an_agent(base_url: str, tmp_path: Path) -> None:
    directory = run(tmp_path, base_url, "--agent", "openai:tiny", "--agent-max-tokens", "16")
    turns = [turn for trace in read_jsonl(directory / "dialog_trace.jsonl") for turn in trace["turns"]]
    assert [(turn["turn_status"], turn["error"]) for turn in turns] == [("ok", None)] * 4
    assert all(turn["pred_assistant_text"] for turn in turns)
