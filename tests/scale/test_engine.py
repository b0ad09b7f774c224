"""The engine and its plan, with workers that behave badly."""

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import pytest

from memfin.contracts import ProgressEvent, Warned
from memfin.contracts.settings import EngineSettings
from memfin.errors import RunFault, UsageError
from memfin.scale import engine, processes
from memfin.scale.engine import Attempt, Ending, Engine, State
from memfin.scale.plan import EnginePlan, make_engine_plan, make_engine_resume_plan
from memfin.scale.processes import MAX_LINE, ProcessLauncher
from memfin.scale.worker import WorkerEvent
from memfin.shards import Shard
from tests.support import dataset

EVENT = Warned(ts="", run_id="r", message="of the worker")

HOSTILE = f"""
import os, sys
sys.stdin.readline()
os.write(1, b'\\xff\\xfe\\n{{"event":"\\xff"}}\\n{{"event":"warned","x":' + b"[" * 100000 + b"\\n")
os.write(1, {msgspec.json.encode(EVENT)!r} + b"\\nno line end")
for _ in range(48):
    os.write(2, b"x" * 65536)
os.kill(os.getpid(), 40)
"""


def plan_of(folder: Path) -> EnginePlan:
    settings = EngineSettings(engine="processes", engine_workers=1)
    data = str(dataset(folder / "data.jsonl", 1))
    return make_engine_plan(data, settings, agent="echo", run_id="r", runs_dir=str(folder / "runs"))


class Listener:
    """Keeps the states."""

    def __init__(self) -> None:
        self.states: list[State] = []

    def on_shard_event(self, shard: Shard, event: ProgressEvent) -> None: ...
    def on_state(self, shard: Shard, state: State) -> None:
        self.states.append(state)

    def on_warning(self, line: str) -> None: ...
    def on_line(self, shard: Shard, line: str) -> None: ...
    def on_merge(self, merged: int, dialogs: int) -> None: ...


class Idle:
    """Launcher whose workers do nothing and say that all is done."""

    host = "127.0.0.1"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def attempt(self, attempt: Attempt, /) -> Ending:
        return Ending(0)

    def drain(self) -> None: ...
    def kill(self) -> None: ...


async def test_what_is_no_event_is_passed_over_and_no_line_is_endless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "worker_command", lambda: [sys.executable, "-S", "-c", HOSTILE])
    events: list[WorkerEvent] = []
    lines: list[str] = []
    shard = Shard(0, 1)
    async with ProcessLauncher() as launcher:
        attempt = Attempt(shard, plan_of(tmp_path).task(shard), events.append, lines.append)
        ending = await launcher.attempt(attempt)
    assert events == [EVENT]
    assert sum(map(len, lines)) == 48 * 65536
    assert max(map(len, lines)) < 2 * MAX_LINE
    assert ending.reason == "its worker was ended by signal 40"


async def test_a_worker_that_says_done_too_early_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PAUSES", (0.0, 0.0, 0.0))
    listener = Listener()
    with pytest.raises(RunFault, match=r"ended before the shard was complete, in 4 attempts; memfin resume"):
        await Engine(plan_of(tmp_path), Idle(), listener).run()
    names = [state.name for state in listener.states]
    assert names == ["waiting", "retrying", "retrying", "retrying", "failed"]


def test_the_record_of_an_engine_has_to_be_that_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(tmp_path)
    with plan.opened():
        record = (plan.directory / "engine.json").read_text()
    monkeypatch.chdir(plan.directory)
    assert make_engine_resume_plan(Path()).out == plan.out.resolve()
    (plan.directory / "below").mkdir()
    monkeypatch.chdir("below")
    assert make_engine_resume_plan(Path(os.pardir)).out == plan.out.resolve()
    for old, new, refusal in (
        (
            '"engine": "processes"',
            '"engine": "local"',
            "engine: 'local' has no shards",
        ),
        ('"run_id": "r"', '"run_id": "other"', "give it its name again"),
    ):
        assert old in record
        for count in (1, -1):
            changed = new.join(record.rsplit(old, 1)) if count == 1 else record.replace(old, new)
            (plan.directory / "engine.json").write_text(changed)
            with pytest.raises(UsageError, match=refusal):
                make_engine_resume_plan(plan.directory)
