"""No key of the environment is written or shown, whatever a user's agent and judge do with it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import dataset

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
    return subprocess.run(
        [sys.executable, "-m", "memfin", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def leaks(tmp_path: Path) -> list[str]:
    written = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    return [str(path) for path in written if b"canary" in path.read_bytes().lower()]


def test_errors_of_agent_and_judge_are_written_without_the_key(tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", 2)
    done = run(
        tmp_path, "run", str(data), "--agent", "leaky:Leaky", "--judge", "leaky:Judge", "--run-id", "r"
    )
    assert done.returncode == 0, done.stderr
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
