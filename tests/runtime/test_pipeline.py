"""A suite of its own: stages, judging, totals and files are data to the run and the journal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memfin.actors.aggregator import Totals
from memfin.actors.base import Actor, Stage
from memfin.actors.channels import Wires, send
from memfin.actors.judge_pool import Judging
from memfin.actors.messages import Commit, WarningBoard
from memfin.contracts import Controls, Counters, DialogDone, Record, RunConfig
from memfin.journal import Entry, Layout
from memfin.judges.protocol import JudgeResult
from memfin.judges.stats import ReplyVoteStats
from memfin.runtime.outputs import pretty_json
from memfin.runtime.pipeline import Plan, Suite
from memfin.runtime.run import Run
from tests.support import read_jsonl

NumberWires = Wires[int, int, int]
LAYOUT = Layout(("numbers.jsonl",), ("numbers.jsonl",), ("sum.json",), ("sum.json",))


class Sum(Record):
    """The summary of a run."""

    total: int


class Counting(Actor[None]):
    def __init__(self, wires: NumberWires) -> None:
        self._tasks = wires.tasks.sender()
        super().__init__("source", None, self._tasks)

    async def run(self) -> None:
        for number in range(1, 101):
            await send(self._tasks, number)


class Doubling(Stage[int]):
    def __init__(self, wires: NumberWires) -> None:
        self._outbox = wires.answered.sender()
        super().__init__("worker", wires.tasks.receiver(), self._outbox)

    async def handle(self, message: int) -> None:
        await send(self._outbox, 2 * message)


class Passing(Stage[int]):
    def __init__(self, wires: NumberWires) -> None:
        self._outbox = wires.scored.sender()
        super().__init__("scorer", wires.answered.receiver(), self._outbox)

    async def handle(self, message: int) -> None:
        await send(self._outbox, message)


class Unjudged(Judging[int, Record, Record]):
    def requests(self, message: int) -> list[Record]:
        return []

    def judged(
        self, message: int, requests: Sequence[Record], results: Sequence[JudgeResult[Record]]
    ) -> Commit:
        entry = Entry("result", message, f"n{message}", {"numbers.jsonl": [b"%d" % message]}, status="ok")
        done = DialogDone(ts="", run_id="r", dialog_id=f"n{message}", status="ok", turns=1)
        return Commit(entry, answers=1, event=done, completed=message)

    def failed(self, message: int, reason: str) -> Commit:
        raise AssertionError(reason)

    def name(self, message: int) -> str:
        return f"n{message}"

    def control_report(self, results: Sequence[tuple[int, JudgeResult[Record]]]) -> Controls[Any]:
        raise AssertionError


class Adding(Totals[int]):
    total = 0

    def add(self, committed: int) -> None:
        self.total += committed
        self.rows += 1

    def counters(self) -> Counters:
        return Counters(total_dialogs=self.rows, valid_dialogs=self.rows, total_turn_pairs=self.rows)


class Numbers(Plan[Sum]):
    def suite(self) -> Suite[Sum]:
        totals = Adding(ReplyVoteStats())
        return Suite(
            source=Counting,
            workers=lambda wires: [Doubling(wires), Doubling(wires)],
            scorer=Passing,
            judging=Unjudged(),
            totals=totals,
            summary=lambda: Sum(total=totals.total),
            files=lambda summary, _: {"sum.json": pretty_json(summary)},
            controls_file="controls.json",
            room=2,
            tasks=2,
        )


async def test_a_suite_is_data_to_the_run(tmp_path: Path) -> None:
    plan = Numbers(
        config=RunConfig(run_id="r", runs_dir=str(tmp_path)),
        source="numbers",
        dataset_path="numbers",
        dialogs=100,
        model_name="doubling",
        judge=None,
        system=None,
        board=WarningBoard(),
        fingerprint_inputs={},
        layout=LAYOUT,
    )
    plan.board.warn("before the run")
    assert await Run(plan).run() == Sum(total=10_100)
    assert sum(map(int, (tmp_path / "r" / "numbers.jsonl").read_text().split())) == 10_100
    events = read_jsonl(plan.progress)
    assert [event["message"] for event in events if event["event"] == "warning"] == ["before the run"]
    assert sum(event["event"] == "dialog_done" for event in events) == 100
    assert events[-1]["event"] == "run_finished"
