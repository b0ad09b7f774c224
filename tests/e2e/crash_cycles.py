"""Kills runs with SIGKILL at random moments, resumes them, and counts what is lost or done twice.

    python tests/e2e/crash_cycles.py --cycles 10000 --seed 1
    python tests/e2e/crash_cycles.py --cycles 1000 --slow-judge

Each cycle is one kill. A run is killed again and again until it comes to its end, which is then held
against that of a run that nobody killed. Exit code 1 and a line for each failure; the seed gives
the same moments again, though not the same state of the machine.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from memfin.contracts import DialogDone, JudgeRequest, ProgressEvent, Verdict  # noqa: E402 - found by way of the line above
from memfin.errors import UsageError  # noqa: E402
from memfin.journal import COMMITS, DIALOG_TRACE, TURN_EVAL  # noqa: E402
from memfin.journal.disk import Disk  # noqa: E402
from memfin.journal.recovery import examine  # noqa: E402
from memfin.runtime.plan import RunPlan, make_plan  # noqa: E402
from memfin.runtime.resume import make_resume_plan  # noqa: E402
from memfin.runtime.run import Run  # noqa: E402
from tests.support import dataset, read_jsonl  # noqa: E402

DIALOGS = 24
TURNS = 3
LONGEST = 0.8
"""Time until a kill at most, as a share of what a run takes that nobody kills."""

DURABLE = 1.0
"""Seconds after its last answer in which a dialogue is on disk: ``fsync_interval`` and a busy machine."""

SUMMARY = "metrics_summary.json"


Judge = type["SlowJudge"] | str


class Agent:
    """Answers after a moment, alike at all times, and says on a pipe that it was asked."""

    pipe = -1

    def __init__(self, session: Any, observer: Any) -> None:
        self._name = session.dialog_id
        self._observer = observer
        self._turn = 0

    async def reply(self, user_text: str) -> str:
        """Return the reply of this turn."""
        self._turn += 1
        if self.pipe >= 0 and self._turn == 1:
            os.write(self.pipe, f"asked {self._name}\n".encode())
        await asyncio.sleep(0.002)
        self._observer.recall(short_term_context=user_text, query=user_text)
        if self.pipe >= 0 and self._turn == TURNS:
            os.write(self.pipe, f"answered {time.monotonic()} {self._name}\n".encode())
        return f"{self._name}：市场存在不确定性，仅供参考。"


class SlowJudge:
    """Takes a hundred times as long as the agent."""

    async def judge(self, request: JudgeRequest) -> Verdict:
        """Return the same verdict for every request."""
        await asyncio.sleep(0.2)
        return Verdict(score=3.0, rubric_items=request.rubric_required[:1])


def plan(folder: Path, name: str, judge: Judge) -> RunPlan:
    """Return the plan that begins a run, or the one that goes on with it."""
    run = folder / name / "r"
    if run.exists():
        return make_resume_plan(run, agent=Agent, judge=judge)
    return make_plan(
        folder / "data.jsonl",
        agent=Agent,
        judge=judge,
        runs_dir=folder / name,
        run_id="r",
        fsync_interval=0.005,
        workers_judge=12,
        workers_score=0,
        judge_cache="off",
    )


def child(folder: Path, name: str, judge: Judge, pipe: int) -> NoReturn:
    """Work on the run in a process of its own until it ends or the process is killed."""
    Agent.pipe = pipe

    def tell(event: ProgressEvent) -> None:
        if isinstance(event, DialogDone):
            os.write(pipe, f"done {event.dialog_id}\n".encode())

    code = 1
    try:
        asyncio.run(Run(plan(folder, name, judge), tell).run())
        code = 0
    except UsageError as problem:
        os.write(pipe, f"refused {problem}\n".encode())
    finally:
        os._exit(code)


def begin(folder: Path, name: str, judge: Judge) -> tuple[int, int]:
    """Start a process that works on the run; return its number and the end of a pipe on which it speaks."""
    receiving, sending = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(receiving)
        child(folder, name, judge, sending)
    os.close(sending)
    return process, receiving


def one_life(folder: Path, name: str, judge: Judge, seconds: float) -> tuple[bool, float, list[list[str]]]:
    """Let a process work for so long; return whether it came to its end, when it was killed, what it said."""
    process, receiving = begin(folder, name, judge)
    time.sleep(seconds)
    killed = time.monotonic()
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    with os.fdopen(receiving, "rb") as file:
        said = [line.decode().split(" ", 1) for line in file.read().splitlines()]
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, killed, said


def duration(folder: Path, name: str, judge: Judge) -> float:
    """Return the seconds that a process takes that nobody kills."""
    start = time.perf_counter()
    process, receiving = begin(folder, name, judge)
    with os.fdopen(receiving, "rb") as file:
        file.read()
    os.waitpid(process, 0)
    return time.perf_counter() - start


def committed(run: Path, *, judged: bool) -> set[str]:
    """Return the dialogues that are committed."""
    if not (run / COMMITS).exists():
        return set()
    return {dialog.dialog_id for dialog in examine(Disk(), run).committed if dialog.judged or not judged}


def cycle(folder: Path, name: str, judge: Judge, seconds: float) -> tuple[bool, list[str]]:
    """Kill the run once; return whether it is complete, and what went wrong."""
    run = folder / name / "r"
    replays, done = committed(run, judged=False), committed(run, judged=True)
    complete, killed, said = one_life(folder, name, judge, seconds)
    refusals = [text for word, text in said if word == "refused"]
    if any("before it began" in text or "start a new run" in text for text in refusals) and not replays:
        shutil.rmtree(folder / name)  # killed before there was anything to go on with
        return False, []
    problems = [f"refused: {text}" for text in refusals]
    asked = {text for word, text in said if word == "asked"}
    told = {text for word, text in said if word == "done"}
    answers = [text.split(" ", 1) for word, text in said if word == "answered"]
    answered = {dialog_id for at, dialog_id in answers if float(at) < killed - DURABLE}
    for what, found in (
        ("lost after it was told", told - committed(run, judged=True)),
        (
            "lost though committed",
            (replays - committed(run, judged=False)) | (done - committed(run, judged=True)),
        ),
        ("answered and not on disk", answered - committed(run, judged=False)),
        ("asked though committed", asked & replays),
        ("told twice", told & done),
    ):
        problems += [f"{what}: {dialog_id}" for dialog_id in sorted(found)]
    return complete, problems


def at_the_end(run: Path, expected: bytes) -> list[str]:
    """Hold a complete run against one that nobody killed."""
    problems = []
    if (run / SUMMARY).read_bytes() != expected:
        problems.append("another summary")
    traces = [trace["dialog_id"] for trace in read_jsonl(run / DIALOG_TRACE)]
    rows = [(row["dialog_id"], row["turn_pair_id"]) for row in read_jsonl(run / TURN_EVAL)]
    if not len(set(traces)) == len(traces) == DIALOGS:
        problems.append(f"{len(traces)} traces of {len(set(traces))} dialogues")
    if not len(set(rows)) == len(rows) == DIALOGS * TURNS:
        problems.append(f"{len(rows)} rows of {len(set(rows))} turns")
    return problems


def crash(cycles: int, seed: int, judge: Judge, folder: Path) -> tuple[list[str], int]:
    """Return every failure in so many kills, and how many runs came to their end."""
    draw = random.Random(seed)
    dataset(folder / "data.jsonl", DIALOGS, TURNS)
    asyncio.run(Run(plan(folder, "first", judge)).run())  # loads what later ones find loaded
    longest = LONGEST * duration(folder, "whole", judge)
    expected = (folder / "whole" / "r" / SUMMARY).read_bytes()
    failures: list[str] = []
    completed = 0
    for number in range(cycles):
        name = f"run{completed}"
        complete, problems = cycle(folder, name, judge, draw.uniform(0, longest))
        if complete:
            problems += at_the_end(folder / name / "r", expected)
            shutil.rmtree(folder / name)
            completed += 1
        failures += [f"seed {seed}, cycle {number}: {problem}" for problem in problems]
    duration(folder, f"run{completed}", judge)  # the last one comes to its end, too
    problems = at_the_end(folder / f"run{completed}" / "r", expected)
    return failures + [f"seed {seed}, the last run: {problem}" for problem in problems], completed + 1


def main(words: Sequence[str] | None = None) -> None:
    """Run the cycles that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow-judge", action="store_true", help="a judge 100 times slower than the agent")
    options = parser.parse_args(words)
    judge = SlowJudge if options.slow_judge else "heuristic"
    with tempfile.TemporaryDirectory() as folder:
        failures, completed = crash(options.cycles, options.seed, judge, Path(folder))
    last = f"{options.cycles} kills, {completed} runs completed, {len(failures)} failures"
    sys.stdout.write("\n".join([*failures, last, ""]))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
