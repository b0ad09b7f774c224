"""Clients with sessions and probes on the command line: stopped, resumed, scored, compared, soaked, shown."""

import json
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command, run_command
from tests.support import dialog, read_jsonl, write_jsonl
from tests.web.view_runs import viewing

AGENTS = """
import asyncio
import json
import pathlib
import re

class Remembering:
    def __init__(self, session, observer):
        self.slow = pathlib.Path("slow").exists() and session.dialog_id == "u0s1"
        self.observer = observer
        self.turns = 0
        self.heard = json.loads(session.carried or b"[]")

    async def reply(self, text):
        self.turns += 1
        if self.slow and self.turns == 2 and "问题" in text:
            await asyncio.sleep(float(pathlib.Path("slow").read_text()))
        self.heard.append(text)
        self.observer.memory(items=[{"content": each} for each in self.heard])
        known = re.findall(r"最多能亏(\\d+%)", "".join(self.heard))
        return f"您说过最多能亏{known[-1]}。" if known and "女儿" not in text else "这个您没有告诉过我。"

    def carry(self):
        return json.dumps(self.heard).encode()

class Forgetting(Remembering):
    def carry(self):
        return b"[]"
"""

SUMMARY = "metrics_summary.json"


def sessions() -> list[dict[str, Any]]:
    """Return three sessions of two clients: the first tells what the others' probes ask for."""
    lines = []
    for index in range(3):
        for user in ("u0", "u1"):
            line = dialog(f"{user}s{index}", 2, user_id=user)
            if index:
                loss = {"question": "我最多能亏多少？", "fact": f"loss-{user}", "kind": "percent"}
                name = {"question": "我女儿叫什么？"}
                line["probes"] = [
                    {"id": f"{kind}-{user}-{index}", "after": 1, **asked}
                    for kind, asked in (("loss", loss), ("name", name))
                ]
            else:
                line["turns"][0]["text"] = "我最多能亏12%。"
                line["facts"] = [{"id": f"loss-{user}", "value": "12%", "told_at": 1, "kind": "percent"}]
            lines.append(line)
    return lines


def memfin(folder: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    done = run_command(*words, cwd=folder, timeout=120)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return done


def options(agent: str, run_id: str) -> list[str]:
    given = ["data.jsonl", "--agent", f"session_agents:{agent}", "--run-id", run_id, "--quiet"]
    return [*given, "--workers-score", "0", "--fsync-interval", "0"]


def memory(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / SUMMARY).read_bytes())["metrics"]["memory"]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with runs of an agent that remembers and of one that forgets."""
    folder = tmp_path_factory.mktemp("sessions")
    (folder / "session_agents.py").write_text(AGENTS, "utf-8")
    write_jsonl(folder / "data.jsonl", sessions())
    memfin(folder, "run", *options("Remembering", "r"))
    memfin(folder, "run", *options("Forgetting", "f"))
    return folder


@pytest.mark.parametrize(("signals", "seconds"), [(1, 1), (2, 60)])
def test_a_run_that_is_stopped_in_a_client_goes_on_there(
    place: Path, tmp_path: Path, signals: int, seconds: int
) -> None:
    for name in ("session_agents.py", "data.jsonl"):
        (tmp_path / name).write_bytes((place / name).read_bytes())
    (tmp_path / "slow").write_text(str(seconds))
    log = tmp_path / "runs/logs/progress_r.jsonl"
    command = Command("run", *options("Remembering", "r"), cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not log.exists() or b'"dialog_id":"u0s1","turn_pair_id":1' not in log.read_bytes():
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for number in range(signals):
        time.sleep(0.1 * number)  # signals of one kind that come too fast are one
        with suppress(ProcessLookupError):  # the first may have ended it
            command.send_signal(signal.SIGINT)
    assert command.communicate(60)[1] == "memfin: stopped by SIGINT; memfin resume runs/r goes on\n"
    assert command.returncode == 130
    done = {trace["dialog_id"] for trace in read_jsonl(tmp_path / "runs/r/dialog_trace.jsonl")}
    assert "u0s0" in done
    assert "u0s2" not in done
    (tmp_path / "slow").unlink()
    assert memfin(tmp_path, "resume", "runs/r", "--quiet").stderr == ""
    assert (tmp_path / "runs/r" / SUMMARY).read_bytes() == (place / "runs/r" / SUMMARY).read_bytes()
    asked = Counter(
        probe["probe_id"]
        for trace in read_jsonl(tmp_path / "runs/r/dialog_trace.jsonl")
        for probe in trace.get("probes", ())
    )
    assert set(asked.values()) == {1}
    assert len(asked) == 8


def test_no_probes_are_asked_where_none_are_wanted(place: Path) -> None:
    memfin(place, "run", *options("Remembering", "none"), "--probes", "none")
    assert not any("probes" in trace for trace in read_jsonl(place / "runs/none/dialog_trace.jsonl"))
    assert memory(place / "runs/none")["not_measured"]["probed"] == "no probe was asked"


def test_scoring_again_gives_the_same_memory(place: Path) -> None:
    memfin(place, "score", "runs/r/dialog_trace.jsonl", "--dataset", "data.jsonl", "--out", "again")
    assert memory(place / "again") == memory(place / "runs/r")
    assert memory(place / "again")["micro"]["probed"] == 1.0


def test_runs_are_compared_by_what_they_remember(place: Path) -> None:
    done = memfin(place, "compare", "runs/r", "runs/f", "--json")
    probed = json.loads(done.stdout)["values"]["memory.probed"]
    assert (probed["a"], probed["b"]) == (1.0, 0.5)


@pytest.mark.parametrize("limit", [("--epochs", 2), ("--duration", "1s")])
def test_each_epoch_of_a_soak_begins_without_memory(place: Path, limit: tuple[str, Any]) -> None:
    name = f"soak{limit[1]}"
    memfin(place, "soak", *options("Remembering", name), *limit)
    found = json.loads((place / "runs" / name / "soak_summary.json").read_bytes())
    probed = found["metrics"]["memory.probed"]
    assert (probed["min"], probed["max"]) == (1.0, 1.0)
    assert "### Memory Facts across sessions" in (place / "runs" / name / "report.md").read_text("utf-8")


async def test_pages_show_what_probes_were_asked_and_how_they_were_read(place: Path, tmp_path: Path) -> None:
    async with viewing(place / "runs", tmp_path) as viewer:
        page = await viewer.get("/runs/f/dialogs/u0s1")
        beside = await viewer.get("/compare/dialogs/u0s1?a=r&b=f")
        run = await viewer.get("/runs/r")
    assert (page.status, beside.status, run.status) == (200, 200, 200)
    assert "u0, session 2" in page.text
    assert page.text.count('class="message probe"') == 2
    assert "我最多能亏多少？" in page.text
