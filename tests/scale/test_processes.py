"""``memfin run --engine processes``: real workers, real signals, agents that take them down."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memfin.contracts import ConfigFile
from memfin.contracts.reading import read_json
from memfin.contracts.settings import EngineFile, EngineSettings
from memfin.errors import RunFault
from memfin.scale import engine
from memfin.scale.engine import Engine
from memfin.scale.plan import make_engine_plan
from memfin.scale.processes import ProcessLauncher
from memfin.validation import validate_run
from tests.commands import Command, run_command
from tests.scale.test_engine import Listener
from tests.support import LONG as LONG_TESTS
from tests.support import dialog, length, read_jsonl, write_jsonl

ROOT = Path(__file__).resolve().parents[2]
RUN = Path("runs") / "r"
SHARDS = Path("runs") / "r.shards"
LONG = 60.0
KILLED = "its worker was ended by SIGKILL, as when memory runs out"

DRAINED = 5.0
AT_ONCE = 0.5
SLACK = 4.0
"""Seconds that a command has after one and after two signals, and what a busy machine may add."""

AGENT = """
import asyncio, os, pathlib, signal, sys

IN_WORKER = os.getpid() == os.getsid(0)
if IN_WORKER:
    print("a model is loaded")
if IN_WORKER and pathlib.Path("unusable").exists():
    raise ImportError("no model here")

class Agent:
    def __init__(self, session, observer):
        self.name = session.dialog_id
        self.observer = observer
        self.turn = 0
        if self.name == "d0009":
            raise ValueError("no agent for this one")

    async def reply(self, user_text):
        self.turn += 1
        self.observer.recall(short_term_context=user_text, query=user_text)
        if self.name == "d0003" and self.turn == 2:
            raise RuntimeError("this turn fails")
        for poison, victim in (("once", "d0008"), ("always", "d0004")):
            if self.name == victim and self.turn == 2 and pathlib.Path(poison).exists():
                print("unfinished", end="", file=sys.stderr, flush=True)
                if poison == "once":
                    pathlib.Path(poison).unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        if self.name >= "d0006" and pathlib.Path("hang").exists():
            pathlib.Path(f"hanging-{self.name}").touch()
            await asyncio.sleep(60)
        return f"{self.name}-{self.turn}：市场存在不确定性，仅供参考。"

def make(session, observer):
    return Agent(session, observer)
"""

OPTIONS = (
    "data.jsonl",
    "--agent",
    "agent_of_shards:make",
    "--run-id",
    "r",
    "--fsync-interval",
    "0",
    "--workers-score",
    "0",
)
ENGINE = ("--engine", "processes", "--engine-workers", "2")


def prepare(folder: Path) -> None:
    """Write the agent and 12 dialogues, three of one user, with a broken, a skipped and a repeated line."""
    (folder / "agent_of_shards.py").write_text(AGENT, "utf-8")
    lines = [dialog(f"d{number:04}", 2) for number in range(12)]
    for number in (1, 2, 7):
        lines[number]["user_id"] = "anna"
    write_jsonl(folder / "data.jsonl", [*lines[:5], {"turns": []}, lines[1], *lines[5:]])
    with (folder / "data.jsonl").open("a", encoding="utf-8") as file:
        file.write("{broken\n")


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), **more}


def memfin(folder: Path, *words: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    return run_command(*words, cwd=folder, env=environment(folder, **variables), timeout=LONG)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the summary of a run in one process."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(folder)
    done = memfin(folder, "run", *OPTIONS, "--quiet")
    assert done.returncode == 0, done.stderr
    return (folder / RUN / "metrics_summary.json").read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with the agent and the dataset, in which no worker may be left."""
    prepare(tmp_path)
    yield tmp_path
    left = workers(tmp_path)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert left == []


def workers(folder: Path) -> list[int]:
    """Return the processes of workers in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"memfin.cli.worker" in words and (process / "cwd").readlink() == folder:
                found.append(int(process.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def wait_until(true: Callable[[], bool], command: Command | None = None) -> None:
    deadline = time.monotonic() + LONG
    while not true():
        assert command is None or command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_a_worker_that_dies_each_time_leaves_its_shard_resumable(
    folder: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "always").touch()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", environment(folder)["PYTHONPATH"])
    retries = length(0, 3)
    monkeypatch.setattr(engine, "RETRIES", retries)
    plan = make_engine_plan(
        "data.jsonl",
        EngineSettings(engine="processes", engine_workers=2),
        agent="agent_of_shards:make",
        run_id="r",
        fsync_interval=0,
        workers_score=0,
    )
    listener = Listener()
    with pytest.raises(RunFault) as failed:
        await Engine(plan, ProcessLauncher(), listener).run()
    assert str(failed.value) == (
        f"shard 1/2: {KILLED}, in {retries + 1} attempts; memfin resume runs/r.shards goes on"
    )
    assert [state.name for state in listener.states].count("retrying") == retries
    assert not (folder / RUN).exists()
    states = {path.name: json.loads((path / "run_manifest.json").read_bytes()) for path in shards(folder)}
    assert states["0-of-2"]["ended_at"] is not None
    assert states["1-of-2"]["ended_at"] is None
    record = read_json(folder / SHARDS / "engine.json", EngineFile)
    assert (record.engine.engine, record.engine.engine_workers, record.version) == ("processes", 2, 1)
    (folder / "always").unlink()
    variables = {"MEMFIN_ENGINE": "processes", "MEMFIN_ENGINE_WORKERS": "2"}
    again = memfin(folder, "run", *OPTIONS, **variables)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "exists already; memfin resume runs/r.shards goes on" in again.stderr
    resumed = memfin(folder, "resume", SHARDS)
    assert resumed.returncode == 0, resumed.stderr
    assert "memfin: resuming run r: 1 of 2 shards are complete" in resumed.stderr
    assert (folder / RUN / "metrics_summary.json").read_bytes() == expected
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["logs", "r"]
    assert [path.name for path in (folder / "runs" / "logs").iterdir()] == ["progress_r.jsonl"]


def shards(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / SHARDS).iterdir() if path.is_dir())


def test_signals_drain_all_workers_and_a_killed_one_goes_on(folder: Path, expected: bytes) -> None:
    """None outlives its engine, and the summary is that of one process."""
    (folder / "hang").touch()
    (folder / "memfin.toml").write_text(
        'engine = "processes"\nengine_workers = 2\nkeep_shards = true\n'
        "agent_rpm = 60_000\nrate_lease = true\nfail_on_error = 1\n"
    )
    words: tuple[object, ...] = ("run", *OPTIONS)
    before: dict[Path, set[str]] = {}
    said = ""
    ends = [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGKILL, 1)]
    for number, times in ends if LONG_TESTS else ends[::2]:
        command = Command(*words, cwd=folder, env=environment(folder))
        words = ("resume", SHARDS)
        wait_until(lambda: len(list(folder.glob("hanging-*"))) >= 4, command)
        assert len(workers(folder)) == 2
        now = {path: committed(path) for path in shards(folder)}
        assert all(found >= before.get(path, set()) for path, found in now.items())
        before = now
        since = time.monotonic()
        for _ in range(times):
            command.send_signal(number)
            time.sleep(0.05)  # two signals at the same moment may count as one
        _, errors = command.communicate(timeout=LONG)
        said += errors
        if number == signal.SIGKILL:
            wait_until(lambda: not workers(folder))
        else:
            assert time.monotonic() - since < (DRAINED if times == 1 else AT_ONCE) + SLACK
            assert command.returncode == 128 + number
            line = f"memfin: stopped by {number.name}; memfin resume runs/r.shards goes on\n"
            assert errors.endswith(line)
            assert errors.count("stopped by") == 1
            assert workers(folder) == []
        for path in folder.glob("hanging-*"):
            path.unlink()
    (folder / "hang").unlink()
    assert all(before.values())
    (folder / "once").touch()
    done = memfin(folder, *words, "--json")
    assert done.returncode == 1, done.stderr
    assert (folder / RUN / "metrics_summary.json").read_bytes() == expected
    assert json.loads(done.stdout) == json.loads(expected)
    assert read_json(folder / RUN / "config.json", ConfigFile).settings.rate_lease_address is None
    assert len(shards(folder)) == 2
    assert not list(validate_run(folder / RUN))
    for line, text in (
        ("memfin: run r started in 2 shards", said),
        ("memfin: data.jsonl:6: skipped, missing_turns: $.turns: the list is empty", said),
        ("a model is loaded", done.stderr),
        ("unfinished", done.stderr),
        (f"memfin: warning: shard 1/2: {KILLED}; retry 1 of 3", done.stderr),
        ("memfin: --fail-on-error 1: 3 of 24 turns failed", done.stderr),
    ):
        assert sum(each.startswith(line) for each in text.splitlines()) == 1, text


def committed(run: Path) -> set[str]:
    return {entry["dialog_id"] for entry in read_jsonl(run / "commits.log") if entry["kind"] == "judged"}


def test_usage_errors_are_those_of_a_single_run_and_told_once(folder: Path) -> None:
    mistakes: list[tuple[str, ...]] = [
        ("missing.jsonl", *OPTIONS[1:]),
        (*OPTIONS, "--agent", "no_such_module:make"),
        (*OPTIONS, "--metric", "agent_of_shards:nothing"),
    ]
    for words in mistakes:
        single, divided = memfin(folder, "run", *words), memfin(folder, "run", *words, *ENGINE)
        assert divided.returncode == single.returncode == 2
        assert divided.stderr == single.stderr
    refusals: list[tuple[tuple[str, ...], str]] = [
        (("run", *OPTIONS, *ENGINE, "--repeats", "2"), "--repeats: not together with --engine processes"),
        (("run", *OPTIONS, *ENGINE, "--shard", "0/2"), "--shard: not together with --engine processes"),
        (("run", *OPTIONS, "--engine-workers", "2"), "--engine-workers: needs an engine"),
        (("run", *OPTIONS, "--engine", "clouds"), "'clouds' is not one of 'local', 'processes', 'ray'"),
        (("soak", *OPTIONS, *ENGINE[:2], "--epochs", "1"), "--engine: memfin soak runs in one process"),
        (("bench", *ENGINE[:2]), "--engine: memfin bench runs in one process"),
        (("run", *OPTIONS, *ENGINE, "--rate-lease"), "--rate-lease: there is no rate to lease"),
    ]
    for words, reason in refusals:
        refused = memfin(folder, *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert reason in refused.stderr
    (folder / "unusable").touch()
    refused = memfin(folder, "run", *OPTIONS, *ENGINE, "--quiet")
    assert refused.returncode == 2
    assert refused.stderr.count("no model here") == 1
    assert not (folder / SHARDS).exists()
    assert not (folder / RUN).exists()
