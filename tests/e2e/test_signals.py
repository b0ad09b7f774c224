"""SIGINT and SIGTERM: real processes, real signals, agents of every temper."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memfin.journal import COMMITS
from tests.commands import Command, run_command
from tests.support import dataset, read_jsonl

ROOT = Path(__file__).resolve().parents[2]
DIALOGS = 12
TURNS = 4
RUN = Path("runs") / "r"
LOG = Path("runs") / "logs" / "progress_r.jsonl"

LONG = 60.0
"""What the agents take that do not come to an end; each limit below is far from it."""

DRAINED = 5.0
SECOND = 0.5
SLACK = 4.0
"""Seconds that a process has after one and after two signals, and what a busy machine may add."""

AGENTS = """
import asyncio, os, pathlib, time

LONG = 60.0

class Base:
    agents = 0

    def __init__(self, session, observer):
        self.number = int(session.dialog_id[1:])
        self.turn = 0
        Base.agents += 1

    def text(self):
        self.turn += 1
        return f"{self.number}-{self.turn}：市场存在不确定性，仅供参考。"

class Quick(Base):
    async def reply(self, user_text):
        await asyncio.sleep(0.2)
        return self.text()

class Late(Base):
    # The first dialogue of each worker is answered, the next one hangs.
    async def wait(self):
        pathlib.Path("hanging").touch()
        await asyncio.sleep(LONG)

    async def reply(self, user_text):
        if self.number >= 4 and not pathlib.Path("patient").exists():
            await self.wait()
        return self.text()

class Swallowing(Late):
    async def wait(self):
        pathlib.Path("hanging").touch()
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                pass

    async def close(self):
        if self.number >= 4 and not pathlib.Path("patient").exists():
            await self.wait()

async def others_done():
    # What holds the loop holds the commits of the others, too.
    while pathlib.Path("runs/r/commits.log").read_bytes().count(b'"judged"') < 4:
        await asyncio.sleep(0.05)
    pathlib.Path("hanging").touch()

class Blocking(Late):
    async def wait(self):
        await others_done()
        time.sleep(LONG)

class Spinning(Late):
    async def wait(self):
        await others_done()
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            pass

class Plain(Base):
    def reply(self, user_text):
        if self.number >= 4 and not pathlib.Path("patient").exists():
            pathlib.Path("hanging").touch()
            time.sleep(LONG)
        return self.text()

class Pooled(Late):
    # A thread of the loop's own pool: the interpreter waits for such threads when it ends.
    async def wait(self):
        pathlib.Path("hanging").touch()
        await asyncio.to_thread(time.sleep, LONG)

def make(session, observer):
    temper = pathlib.Path("temper").read_text()
    return globals()[temper](session, observer)

class SlowJudge:
    async def judge(self, request):
        if not pathlib.Path("patient").exists():
            pathlib.Path("hanging").touch()
            await asyncio.sleep(LONG)
        return {"score": 3, "rubric_items": ["边界声明"]}
"""

TEMPERS = ["Late", "Swallowing", "Blocking", "Spinning", "Plain", "Pooled"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the summary of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(folder)
    (folder / "patient").touch()
    (folder / "temper").write_text("Late")
    done = memfin(folder, "run", "data.jsonl", *OPTIONS)
    assert done.returncode == 0, done.stderr
    return (folder / RUN / "metrics_summary.json").read_bytes()


OPTIONS = (
    "--agent",
    "tempers:make",
    "--run-id",
    "r",
    "--quiet",
    "--workers-dialog",
    "4",
    "--fsync-interval",
    "0",
)


def prepare(folder: Path) -> None:
    (folder / "tempers.py").write_text(AGENTS, "utf-8")
    dataset(folder / "data.jsonl", DIALOGS, TURNS)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}


def memfin(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_command(*words, cwd=folder, env=environment(folder), timeout=LONG)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Return a function that starts a run and waits until it is where a test wants it."""
    prepare(tmp_path)
    processes: list[Command] = []

    def start(temper: str, *words: str, until: Callable[[], bool]) -> Command:
        (tmp_path / "temper").write_text(temper)
        process = Command("run", "data.jsonl", *OPTIONS, *words, cwd=tmp_path, env=environment(tmp_path))
        processes.append(process)
        deadline = time.monotonic() + LONG
        while not until():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def hanging(folder: Path) -> Callable[[], bool]:
    """Say when all four workers have answered their first dialogue and stand in the next."""

    def there() -> bool:
        return (folder / "hanging").exists() and len(committed(folder, "judged")) >= 4

    return there


def committed(folder: Path, kind: str) -> set[str]:
    log = folder / RUN / COMMITS
    if not log.exists():
        return set()
    lines = log.read_bytes().split(b"\n")[:-1]
    return {record["dialog_id"] for record in map(json.loads, lines) if record["kind"] == kind}


def ended(process: Command, since: float, limit: float) -> str:
    """Wait for the end within the limit and return what was printed on stderr."""
    _, errors = process.communicate(timeout=LONG)
    assert time.monotonic() - since < limit + SLACK
    assert "Traceback" not in errors
    return errors


def is_whole_after_resuming(folder: Path, summary: bytes) -> None:
    """Hold the files against the contract, go on, and hold the end against an uninterrupted run's."""
    validated = memfin(folder, "validate", str(RUN))
    assert validated.returncode == 0, validated.stdout
    events = [event["event"] for event in read_jsonl(folder / LOG)]
    assert events.count("run_interrupted") == 1
    assert events[-1] == "run_interrupted"
    before = committed(folder, "replay")
    traces = (folder / RUN / "dialog_trace.jsonl").read_bytes()
    (folder / "patient").touch()
    resumed = memfin(folder, "resume", str(RUN), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert (folder / RUN / "metrics_summary.json").read_bytes() == summary
    after = (folder / RUN / "dialog_trace.jsonl").read_bytes()
    assert before
    for line in traces.split(b"\n")[: len(before)]:
        assert line in after  # no committed dialogue was asked again


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_running_turns_end_and_nothing_new_starts(
    tmp_path: Path,
    started: Callable[..., Command],
    expected: bytes,
    number: signal.Signals,
    code: int,
) -> None:
    def two_turns_each() -> bool:
        return (tmp_path / LOG).exists() and (tmp_path / LOG).read_bytes().count(b'"turn_done"') >= 8

    process = started("Quick", until=two_turns_each)
    asked = (tmp_path / LOG).read_bytes().count(b'"turn_done"')
    process.send_signal(number)
    since = time.monotonic()
    assert (
        ended(process, since, DRAINED) == f"memfin: stopped by {number.name}; memfin resume {RUN} goes on\n"
    )
    assert process.returncode == code
    events = read_jsonl(tmp_path / LOG)
    assert events[-1]["event"] == "run_interrupted"
    assert events[-1]["reason"] == number.name
    turns = [event for event in events if event["event"] == "turn_done"]
    # Those that were asked are answered, and each of four workers may have begun one more meanwhile.
    assert asked <= len(turns) <= asked + 8
    assert {event["turn_status"] for event in turns} == {"ok"}
    done = {event["dialog_id"] for event in events if event["event"] == "dialog_done"}
    whole = {
        event["dialog_id"] for event in turns if event["turn_pair_id"] == TURNS
    }  # answered, so scored, judged and committed
    assert done == whole == committed(tmp_path, "judged")
    (tmp_path / "patient").touch()
    assert memfin(tmp_path, "resume", str(RUN), "--quiet").returncode == 0
    assert (tmp_path / RUN / "metrics_summary.json").read_bytes() == expected


@pytest.mark.parametrize("temper", TEMPERS)
def test_a_signal_ends_the_run_whatever_its_agents_do(
    tmp_path: Path,
    started: Callable[..., Command],
    expected: bytes,
    temper: str,
) -> None:
    process = started(temper, until=hanging(tmp_path))
    process.send_signal(signal.SIGTERM)
    errors = ended(process, time.monotonic(), DRAINED)
    assert process.returncode == 143, errors
    assert errors.endswith(f"memfin: stopped by SIGTERM; memfin resume {RUN} goes on\n")
    assert read_jsonl(tmp_path / LOG)[-1]["reason"] == "SIGTERM"
    is_whole_after_resuming(tmp_path, expected)


@pytest.mark.parametrize("temper", TEMPERS)
def test_a_second_signal_ends_the_run_at_once(
    tmp_path: Path,
    started: Callable[..., Command],
    expected: bytes,
    temper: str,
) -> None:
    process = started(temper, until=hanging(tmp_path))
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)  # signals of one kind that come too fast are one
    process.send_signal(signal.SIGINT)
    errors = ended(process, time.monotonic(), SECOND)
    assert process.returncode == 130, errors
    is_whole_after_resuming(tmp_path, expected)


@pytest.mark.parametrize("quiet", [True, False])
def test_ctrl_c_at_a_terminal_is_answered_on_a_line_of_its_own(tmp_path: Path, quiet: bool) -> None:
    prepare(tmp_path)
    (tmp_path / "temper").write_text("Quick")
    ours, terminal = os.openpty()
    options = [option for option in OPTIONS if quiet or option != "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-m", "memfin", "run", "data.jsonl", *options],
        cwd=tmp_path,
        env=environment(tmp_path) | {"TERM": "xterm", "COLUMNS": "120"},
        stdin=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
    ) as process:
        os.close(terminal)
        while not (tmp_path / LOG).exists() or b'"turn_done"' not in (tmp_path / LOG).read_bytes():
            assert process.poll() is None
            time.sleep(0.01)
        os.write(ours, b"\x03")  # Ctrl-C, which the terminal shows as ^C
        assert process.wait(LONG) == 130
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(ours, 1 << 16).decode())
    os.close(ours)
    before, *lines = shown.splitlines()[-3:]
    assert before == "^C" if quiet else re.search(r"dialogues .* \d+/\d+ turns \d+  errors 0  eta ", before)
    assert lines == [
        "memfin: SIGINT: waiting up to 5 s for running turns; press Ctrl-C again to stop at once",
        f"memfin: stopped by SIGINT; memfin resume {RUN} goes on",
    ]


def test_a_judge_that_hangs_costs_its_judgements_and_no_replay(
    tmp_path: Path, started: Callable[..., Command]
) -> None:
    words = ("--judge", "tempers:SlowJudge", "--workers-judge", "1")

    def stuck() -> bool:
        # Four dialogues are answered; the judge has the first turn of the first.
        log = (tmp_path / LOG).read_bytes() if (tmp_path / LOG).exists() else b""
        return (tmp_path / "hanging").exists() and log.count(b'"turn_done"') == 4 * TURNS

    process = started("Late", *words, until=stuck)
    process.send_signal(signal.SIGTERM)
    errors = ended(process, time.monotonic(), DRAINED)
    assert process.returncode == 143, errors
    whole = {
        event["dialog_id"]
        for event in read_jsonl(tmp_path / LOG)
        if event["event"] == "turn_done" and event["turn_pair_id"] == TURNS
    }
    assert whole
    assert committed(tmp_path, "replay") == whole
    assert committed(tmp_path, "judged") == set()
    (tmp_path / "patient").touch()
    resumed = memfin(tmp_path, "resume", str(RUN), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    rows = read_jsonl(tmp_path / RUN / "turn_eval.jsonl")
    assert len(rows) == DIALOGS * TURNS
    assert {row["judge_score_1_5"] for row in rows} == {3.0}


def test_a_child_of_an_agent_that_is_ended_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(
        "import multiprocessing, os, signal, time\n"
        "class Forks:\n"
        "    def __init__(self, session, observer): ...\n"
        "    def reply(self, user_text):\n"
        "        child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "        child.start()\n"
        "        child.terminate()\n"
        "        child.join()\n"
        "        return str(child.exitcode)\n",
        "utf-8",
    )
    dataset(tmp_path / "data.jsonl", 1, 1)
    done = memfin(tmp_path, "run", "data.jsonl", "--agent", "forking:Forks", "--run-id", "r", "--quiet")
    assert done.returncode == 0, done.stderr
    (trace,) = read_jsonl(tmp_path / RUN / "dialog_trace.jsonl")
    assert trace["turns"][0]["pred_assistant_text"] == str(-signal.SIGTERM)


def test_threads_that_an_agent_has_left_do_not_keep_the_process(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "temper").write_text("Pooled")
    since = time.monotonic()
    done = memfin(
        tmp_path, "run", "data.jsonl", *OPTIONS, "--json", "--turn-timeout", "0.3", "--workers-dialog", "12"
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - since < LONG / 2
    assert json.loads(done.stdout)["counters"]["valid_dialogs"] == DIALOGS
