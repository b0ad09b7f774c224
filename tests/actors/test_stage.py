"""A stage: its loop, its channels, and what an unexpected exception costs."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

import memfin
from memfin.actors.base import MAX_FAILURES, Stage
from memfin.agents.observer import TurnObserver
from memfin.contracts import Warned
from memfin.errors import RunFault
from tests.support import dataset, read_jsonl


class Doubling(Stage[int]):
    """Doubles numbers; odd ones are too much for it."""

    def __init__(self, inbox: MemoryObjectReceiveStream[int], outbox: MemoryObjectSendStream[int]) -> None:
        super().__init__("doubling", inbox, outbox)
        self._outbox = outbox
        self.refused: list[int] = []

    async def handle(self, message: int) -> None:
        if message == 0:
            raise RunFault("the disk is full")
        if message < 0:
            self.leave()
            return
        if message % 2:
            raise ZeroDivisionError
        await self._outbox.send(2 * message)

    async def quarantine(self, message: int, problem: Exception) -> None:
        assert isinstance(problem, ZeroDivisionError)
        self.refused.append(message)

    async def finish(self) -> None:
        await self._outbox.send(-1)


async def doubled(numbers: list[int]) -> tuple[list[int], Doubling]:
    """Return what the stage sends, and the stage after its end."""
    numbers_in, inbox = anyio.create_memory_object_stream[int](len(numbers))
    outbox, results = anyio.create_memory_object_stream[int](len(numbers) + 1)
    stage = Doubling(inbox, outbox)
    for number in numbers:
        numbers_in.send_nowait(number)
    numbers_in.close()
    with results:
        await stage.supervised()
        return [number async for number in results], stage


async def test_a_message_that_cannot_be_handled_costs_itself_only() -> None:
    results, stage = await doubled([2, 3, 4, 5])
    assert results == [4, 8, -1]
    assert stage.refused == [3, 5]
    assert stage.finished.is_set()
    assert not stage.cut


async def test_more_failures_in_a_row_than_allowed_end_the_stage() -> None:
    results, _ = await doubled([2, *[1] * MAX_FAILURES, 4, *[1] * MAX_FAILURES])
    assert results == [4, 8, -1]
    with pytest.raises(ZeroDivisionError):
        await doubled([1] * (MAX_FAILURES + 1))


async def test_faults_of_the_machine_are_not_quarantined() -> None:
    with pytest.raises(RunFault):
        await doubled([2, 0, 4])


async def test_a_stage_that_leaves_is_cut_and_leaves_its_inbox_undone() -> None:
    results, stage = await doubled([2, -1, 4])
    assert results == [4]
    assert stage.cut
    assert stage.statistics().received == 2


async def test_a_stage_that_never_ran_closes_its_channels_when_told() -> None:
    sender, inbox = anyio.create_memory_object_stream[int](1)
    outbox, receiver = anyio.create_memory_object_stream[int](1)
    Doubling(inbox, outbox).close()
    with pytest.raises(anyio.EndOfStream):
        receiver.receive_nowait()
    with pytest.raises(anyio.BrokenResourceError):
        sender.send_nowait(1)
    sender.close()
    receiver.close()


async def test_a_dialogue_that_cannot_be_replayed_fails_alone(tmp_path: Path) -> None:
    """The host's own observers break on the second dialogue."""
    made = 0

    def observer() -> TurnObserver:
        nonlocal made
        made += 1
        if made == 2:
            raise LookupError("no room for another observer")
        return TurnObserver()

    data = dataset(tmp_path / "data.jsonl", 4, 2)
    warnings: list[str] = []

    def listen(event: Any) -> None:
        if isinstance(event, Warned):
            warnings.append(event.message)

    summary = (await memfin.evaluate(
        data, agent="echo", runs_dir=tmp_path, run_id="r", workers_dialog=1, on_event=listen,
        observer_factory=observer,
    )).summary  # fmt: skip
    assert summary.counters.failed_dialogs == 1
    failed = [
        row for row in read_jsonl(tmp_path / "r" / "dialog_trace.jsonl") if row["dialog_status"] == "failed"
    ]
    assert [row["dialog_error"] for row in failed] == [
        "could not be replayed, please report this: LookupError: no room for another observer"
    ]
    assert [turn["turn_status"] for turn in failed[0]["turns"]] == ["error", "error"]
    assert any("LookupError: no room for another observer" in line for line in warnings)
