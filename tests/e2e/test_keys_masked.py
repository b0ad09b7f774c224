"""No key of the environment is written or shown, whatever a user's agent and judge do with it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.agents.protocol import AgentReply
from memfin.report import write_reports
from tests.client.faulty_server import FaultyServer
from tests.commands import run_command
from tests.judges.scripted_judge import verdict
from tests.support import dataset, read_jsonl

CANARY = "canary-5f3a/Zk+91=secret"

AGENT = """
import os, sys

KEY = os.environ["SOMEBODYS_API_KEY"]

class Leaky:
    def __init__(self, session, observer):
        self.observer, self.turn = observer, 0

    def reply(self, user_text):
        self.turn += 1
        if self.turn == 1:
            raise PermissionError(f"401: wrong key {KEY}, from https://u:{KEY}@models.test/")
        if self.turn == 2:
            self.observer.tool(name=KEY.encode(), arguments={}, result="")
        return "市场存在不确定性，仅供参考。"

    def close(self):
        raise RuntimeError(KEY)

class Judge:
    def judge(self, request):
        raise ConnectionError("refused for " + KEY)

def broken(session, observer):
    raise KeyError(KEY)

def exits():
    sys.exit("no access with " + KEY)
"""


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "leaky.py").write_text(AGENT, "utf-8")
    environment = {
        **os.environ,
        "SOMEBODYS_API_KEY": CANARY,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).resolve().parents[2]}",
        "MEMFIN_DEBUG": "1",
    }
    return run_command(*words, cwd=tmp_path, env=environment, timeout=120)


def leaks(tmp_path: Path) -> list[str]:
    written = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    return [str(path) for path in written if b"canary" in path.read_bytes().lower()]


def test_errors_of_agent_and_judge_are_written_without_the_key(tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", 2)
    done = run(
        tmp_path, "run", str(data), "--agent", "leaky:Leaky", "--judge", "leaky:Judge", "--run-id", "r"
    )
    assert done.returncode == 1, done.stderr  # this judge never gives a verdict
    assert "canary" not in (done.stdout + done.stderr).lower()
    assert leaks(tmp_path) == []
    trace = (tmp_path / "runs" / "r" / "dialog_trace.jsonl").read_text("utf-8")
    assert "401: wrong key ***" in trace
    rows = (tmp_path / "runs" / "r" / "turn_eval.jsonl").read_text("utf-8")
    assert "refused for ***" in rows


def test_what_ends_a_run_is_told_without_the_key(tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", 1)
    for words in (("--agent", "leaky:broken"), ("--judge", "leaky:exits")):
        done = run(tmp_path, "run", str(data), *words)
        assert "canary" not in (done.stdout + done.stderr).lower()
        assert leaks(tmp_path) == []


class Quoting:
    """Hands on what services told it, with the key that they refused."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.observer, self.turn, self.committed = observer, 0, list[str]()

    def reply(self, user_text: str) -> Any:
        self.turn += 1
        said = f"Incorrect API key provided: {CANARY}"
        hidden = json.dumps({"key": CANARY}).replace("-", "\\u002d")
        usage = {"calls": 1, "model": f"m-{CANARY}"}
        if self.turn == 1:
            self.observer.tool(tool_name="quote", args={"token": CANARY}, result_excerpt=hidden, error=said)
            self.observer.profile(note=[CANARY], **{CANARY: 1})
            self.observer.recall(
                query=said, short_term_context=said, items=[{"content": CANARY, "metadata": {CANARY: [said]}}]
            )
            self.observer.compliance(is_compliant=False, violations=[{"rule": said}])
            return f"市场存在不确定性。{said} {hidden}"
        return AgentReply(
            text=f"仅供参考。{CANARY.upper()}",
            tools=[{"tool_name": CANARY, "args": said}],
            profile_snapshot={"note": said},
            recall={"query": CANARY, "short_term_context": ""},
            compliance={"is_compliant": True, "suitability_warning": said},
            usage=usage,
            observation_error=said if self.turn == 3 else None,
        )

    def commit(self, assistant_text: str) -> None:
        assert "canary" in assistant_text.lower()  # the agent's history is its own


async def test_what_an_agent_says_and_tells_goes_nowhere_with_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOMEBODYS_API_KEY", CANARY)
    events: list[Any] = []
    async with FaultyServer(responder=verdict) as server:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", server.base_url)
        await memfin.evaluate(
            dataset(tmp_path / "d.jsonl", 2),
            agent=Quoting,
            judge="openai:m",
            judge_scope="all",
            judge_cache_dir=str(tmp_path / "runs" / "cache"),
            trace_version="v1.1",
            runs_dir=tmp_path / "runs",
            run_id="r",
            on_event=events.append,
        )
        sent = json.dumps([arrival.body for arrival in server.arrivals], ensure_ascii=False)
        assert len(server.arrivals) >= 4
    write_reports(tmp_path / "runs" / "r")
    assert leaks(tmp_path) == []
    written = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    shown = "".join(capfd.readouterr()) + repr(events)
    for text in (sent, shown, written.decode("utf-8", "replace")):
        assert "canary" not in text.lower()
        assert "5f3a/" not in text  # without the stroke it would stand in a digest by chance
        assert "Zk+91" not in text
    assert "Incorrect API key provided: ***" in sent
    first, second, third = read_jsonl(tmp_path / "runs" / "r" / "dialog_trace.jsonl")[0]["turns"]
    assert first["pred_assistant_text"] == '市场存在不确定性。Incorrect API key provided: *** {"key": "***"}'
    assert first["tools"][0]["args"] == {"token": "***"}
    assert first["profile_snapshot"] == {"note": ["***"], "***": 1}
    assert first["recall"]["items"][0]["content"] == "***"
    assert second["usage"]["model"] == "m-***"
    assert (first["turn_status"], second["turn_status"]) == ("ok", "ok")
    assert third["observation_error"].endswith("***")


async def test_a_placeholder_of_a_key_masks_no_word_of_a_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")

    class Agent:
        def __init__(self, session: Any, observer: Any) -> None:
            pass

        def reply(self, user_text: str) -> str:
            return "an EMPTY promise"

    await memfin.evaluate(dataset(tmp_path / "d.jsonl", 1), agent=Agent, runs_dir=tmp_path, run_id="r")
    (trace,) = read_jsonl(tmp_path / "r" / "dialog_trace.jsonl")
    assert {turn["pred_assistant_text"] for turn in trace["turns"]} == {"an EMPTY promise"}
