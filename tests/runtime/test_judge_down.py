"""A judge whose endpoint is down: the run waits, says so, stops in order, and is finished later."""

import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import ProgressEvent, Warned
from memfin.errors import RunFault
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.client.faulty_server import FaultyServer
from tests.commands import run_beside_us
from tests.judges.scripted_judge import verdict
from tests.support import dataset, read_jsonl

DIALOGS = 8
TURNS = 3
CONTROLS = 9
ROOT = Path(__file__).resolve().parents[2]
SUMMARY = "metrics_summary.json"

asked: Counter[tuple[str, int]] = Counter()


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()


class Agent:
    def __init__(self, session: Any, observer: Any) -> None:
        self._dialog_id = session.dialog_id
        self._turn = 0

    async def reply(self, user_text: str) -> str:
        self._turn += 1
        asked[self._dialog_id, self._turn] += 1
        return f"{self._dialog_id}-{self._turn}：根据数据，注意风险，仅供参考。"


class Switched(FaultyServer):
    """A judge that is down from its n-th verdict on, until it is switched on again."""

    def __init__(self, verdicts: int | None = None, fault: str = "503") -> None:
        super().__init__(responder=verdict)
        self.left = verdicts
        self._fault = fault

    @property
    def judged(self) -> int:
        """How many verdicts it has given."""
        return sum(arrival.fault is None and "response_format" in arrival.body for arrival in self.arrivals)

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.arrivals[-1] = self.arrivals[-1]._replace(fault=self._fault)
                fault = self._fault
        return await super()._answer(request, body, fault)


@asynccontextmanager
async def judging(
    monkeypatch: pytest.MonkeyPatch, verdicts: int | None = None, fault: str = "503"
) -> AsyncIterator[Switched]:
    async with Switched(verdicts, fault) as server:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", server.base_url)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        yield server


def plan(tmp_path: Path, runs: str = "runs", **settings: Any) -> RunPlan:
    data = tmp_path.parent / "judge_down.jsonl"  # the same for every test, as the summary holds its path
    if not data.exists():
        dataset(data, DIALOGS, TURNS)
    defaults: dict[str, Any] = {
        "agent": Agent,
        "judge": "openai:m",
        "workers_judge": 4,
        "judge_patience": 0.2,
        "fsync_interval": 0,
    }
    made = make_plan(data, runs_dir=tmp_path / runs, run_id="r", **defaults | settings)
    hurry(made)
    return made


def again(tmp_path: Path, runs: str = "runs") -> RunPlan:
    made = make_resume_plan(tmp_path / runs / "r", agent=Agent)
    hurry(made)
    return made


def hurry(made: RunPlan) -> None:
    """Take the waiting out of the gate between attempts; what it decides stays the same."""
    judge: Any = made.judge
    judge._gate._draw = lambda: 0.0


undisturbed: dict[str, bytes] = {}


async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_cache: str = "write") -> bytes:
    """Return the summary of a run that nothing disturbs, which is the same for every test."""
    if judge_cache not in undisturbed:
        folder = str(tmp_path / "other")
        async with judging(monkeypatch):
            made = plan(tmp_path, "whole", judge_cache=judge_cache, judge_cache_dir=folder)
            await Run(made).run()
        asked.clear()
        undisturbed[judge_cache] = (tmp_path / "whole" / "r" / SUMMARY).read_bytes()
    return undisturbed[judge_cache]


async def given_up(made: RunPlan) -> tuple[RunFault, list[ProgressEvent]]:
    events: list[ProgressEvent] = []
    with pytest.raises(RunFault) as fault:
        await Run(made, events.append).run()
    return fault.value, events


def committed(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    log = read_jsonl(tmp_path / "runs" / "r" / "commits.log")
    return [record for record in log if record["kind"] == kind]


def names(records: list[dict[str, Any]]) -> set[str]:
    return {record["dialog_id"] for record in records}


@pytest.mark.parametrize(
    ("verdicts", "cache", "fault"),
    [
        (0, "write", "503"),
        (0, "off", "reset"),
        (5, "write", "reset"),
        (5, "off", "503"),
        (CONTROLS + 7, "write", "503"),
        (CONTROLS + 7, "off", "reset"),
        (CONTROLS + 20, "write", "reset"),
        (CONTROLS + 20, "off", "503"),
    ],
)
async def test_a_run_whose_judge_stays_down_stops_in_order_and_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdicts: int, cache: str, fault: str
) -> None:
    expected = await whole(tmp_path, monkeypatch, cache)
    async with judging(monkeypatch, verdicts, fault) as server:
        made = plan(tmp_path, judge_cache=cache, judge_cache_dir=str(tmp_path / "cache"))
        stopped, events = await given_up(made)
        directory = tmp_path / "runs" / "r"
        assert str(stopped).startswith(
            f"run {directory}: the judge was given up: the endpoint has been down for"
        )
        assert str(stopped).endswith(f"; memfin resume {directory} finishes the run once it is back")
        assert len(str(stopped).splitlines()) == 1
        assert stopped.exit_code == 3
        told = [event.message for event in events if isinstance(event, Warned)]
        assert any("the judge's endpoint is down" in line for line in told)
        assert read_jsonl(tmp_path / "runs" / "logs" / "progress_r.jsonl")[-1]["reason"] == str(stopped)
        assert not (directory / SUMMARY).exists()

        replays, judged = committed(tmp_path, "replay"), committed(tmp_path, "judged")
        answered = {dialog_id for dialog_id, turn in asked if turn == TURNS}
        assert names(replays) == answered
        assert len(answered) >= 4  # the channels before the judges were full
        assert all(record.get("judge_failures", 0) == 0 for record in judged)
        assert len(judged) * TURNS <= max(0, verdicts)
        asked.clear()

        server.left = None
        before = server.judged
        await Run(again(tmp_path)).run()
        paid = server.judged - before
    assert not {dialog_id for dialog_id, _ in asked} & names(replays)
    assert (directory / SUMMARY).read_bytes() == expected
    everything = DIALOGS * TURNS + CONTROLS
    assert paid == (everything - verdicts if cache == "write" else everything - TURNS * len(judged))
    assert all(row["judge_error"] is None for row in read_jsonl(directory / "turn_eval.jsonl"))
    assert list(validate_run(directory)) == []


@pytest.mark.parametrize("verdicts", [0, CONTROLS + 7])
async def test_a_judge_that_says_nothing_but_429_counts_as_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdicts: int
) -> None:
    expected = await whole(tmp_path, monkeypatch)
    async with judging(monkeypatch, verdicts, "429_zero") as server:
        stopped, _ = await given_up(plan(tmp_path, judge_cache_dir=str(tmp_path / "cache")))
        assert "the endpoint has refused every call for its rate for" in str(stopped)
        assert stopped.exit_code == 3
        assert all(record.get("judge_failures", 0) == 0 for record in committed(tmp_path, "judged"))
        server.left = None
        await Run(again(tmp_path)).run()
    assert (tmp_path / "runs" / "r" / SUMMARY).read_bytes() == expected


async def test_a_run_may_be_given_up_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = await whole(tmp_path, monkeypatch)
    async with judging(monkeypatch, 0) as server:
        await given_up(plan(tmp_path))
        for number in range(4):
            server.left = 6 if number else 0
            await given_up(again(tmp_path))
        server.left = None
        await Run(again(tmp_path)).run()
        assert server.judged == DIALOGS * TURNS + CONTROLS
    assert max(asked.values()) == 1
    assert (tmp_path / "runs" / "r" / SUMMARY).read_bytes() == expected


async def test_a_judge_that_comes_back_in_time_costs_no_judgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await whole(tmp_path, monkeypatch, "off")
    async with judging(monkeypatch, 12) as server:
        events: list[ProgressEvent] = []

        def show(event: ProgressEvent) -> None:
            events.append(event)
            if isinstance(event, Warned) and "is down" in event.message:
                server.left = None

        await Run(plan(tmp_path, judge_patience=60.0, judge_cache="off"), show).run()
    told = [event.message for event in events if isinstance(event, Warned)]
    assert any("is down" in line for line in told)
    assert "the judge's endpoint answers again; calls continue" in told
    assert (tmp_path / "runs" / "r" / SUMMARY).read_bytes() == expected


async def test_single_failures_are_counted_and_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fails(Switched):
        async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
            said = body["messages"][-1]["content"]
            bad = {"d0001-2": "503", "d0002-1": "refusal", "d0003-3": "invalid_json"}
            return await super()._answer(request, body, next((bad[key] for key in bad if key in said), None))

    async with Fails() as server:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", server.base_url)
        summary = await Run(plan(tmp_path, judge_cache="off")).run()
    assert summary.metrics["m5_explainability"].counts["judge_failed_turns"] == 3
    failed = {record["dialog_id"] for record in committed(tmp_path, "judged") if "judge_failures" in record}
    assert failed == {"d0001", "d0002", "d0003"}


async def test_scoring_a_trace_stops_in_order_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with judging(monkeypatch) as server:
        await Run(plan(tmp_path)).run()
        server.left = 3
        rescored = make_rescore_plan(
            tmp_path / "runs" / "r" / "dialog_trace.jsonl",
            tmp_path.parent / "judge_down.jsonl",
            tmp_path / "again",
            judge="openai:m",
            judge_patience=0.2,
            judge_cache="off",
        )
        with pytest.raises(RunFault, match=r"once it is back, remove .* and score again"):
            await Run(rescored).run()


async def test_the_command_says_in_one_line_how_it_goes_on(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 3)
    runs = tmp_path / "runs"
    words = (str(data), "--agent=echo", "--judge=openai:m", f"--runs-dir={runs}", "--run-id=r")
    async with Switched(4) as server:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "MEMFIN_JUDGE_BASE_URL": server.base_url}
        stopped = await run_beside_us("run", *words, "--quiet", "--judge-patience=0.2", env=env)
        assert stopped.returncode == 3
        lines = stopped.stderr.splitlines()
        assert lines[-1].startswith(f"memfin: run {runs / 'r'}: the judge was given up: ")
        assert lines[-1].endswith(f"memfin resume {runs / 'r'} finishes the run once it is back")
        assert any(line.startswith("memfin: warning: the judge's endpoint is down") for line in lines)
        assert "Traceback" not in stopped.stderr
        server.left = None
        done = await run_beside_us("resume", runs / "r", "--quiet", env=env)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False)
        assert server.judged == 9 + CONTROLS
    assert json.loads((runs / "r" / "run_stats.json").read_bytes())["judge_failures"] == 0
