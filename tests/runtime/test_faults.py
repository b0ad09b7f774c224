"""Every operation of the disk fails once: the run says so, nothing acknowledged is lost, and it resumes."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import DialogDone, EvalSummary, ProgressEvent
from memfin.errors import RunFault
from memfin.journal import RunDirectory
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.journal.journal_disks import FaultyDisk
from tests.support import dataset, length

DIALOGS = 4
SUMMARY = "metrics_summary.json"
CHANGES = frozenset({"open", "write", "fsync", "replace"})
ALL = CHANGES | {"truncate", "unlink", "mkdir", "rmdir"}


class Agent:
    """Answers alike at all times; while ``broken``, one dialogue fails."""

    broken = False

    def __init__(self, session: Any, observer: Any) -> None:
        self._name = session.dialog_id
        self._observer = observer

    async def reply(self, user_text: str) -> str:
        if self.broken and self._name == "d0001":
            raise ValueError("fails")
        self._observer.recall(short_term_context=user_text, query=user_text)
        return "市场存在不确定性，仅供参考。"


def plan(tmp_path: Path, name: str) -> RunPlan:
    return make_plan(
        tmp_path / "data.jsonl",
        agent=Agent,
        runs_dir=tmp_path / name,
        run_id="r",
        fsync_turns=2,
        workers_dialog=2,
    )


def evaluation(made: RunPlan, disk: Disk, done: set[str] | None = None) -> Run[EvalSummary]:
    """Return an evaluation on a disk that notes the dialogues which it acknowledged."""

    def note(event: ProgressEvent) -> None:
        if done is not None and isinstance(event, DialogDone):
            done.add(event.dialog_id)

    found = Run(made, note)
    found.directory = RunDirectory(
        made.directory,
        made.progress,
        existing=made.resumed is not None,
        drop=made.resumed.drop if made.resumed is not None else frozenset(),
        advice=made.advice,
        disk=disk,
    )
    return found


def check_fault(fault: RunFault, code: int, run: Path) -> None:
    message = str(fault)
    assert fault.exit_code == 3
    assert len(message.splitlines()) == 1
    assert os.strerror(code) in message
    goes_on = f"; fix the cause, then memfin resume {run} goes on"
    assert message.endswith(goes_on if run.exists() else "; fix the cause and run the command again")


def committed(run: Path) -> set[str]:
    return {dialog.dialog_id for dialog in examine(Disk(), run).committed if dialog.judged}


async def finish(tmp_path: Path, name: str) -> bytes:
    """Complete the run on a sound disk, or begin it when the fault left no run; return its summary."""
    run = tmp_path / name / "r"
    made = make_resume_plan(run, agent=Agent) if run.exists() else plan(tmp_path, name)
    await Run(made).run()
    assert list(validate_run(run)) == []
    return (run / SUMMARY).read_bytes()


@pytest.mark.parametrize(
    ("code", "half", "for_good"),
    [(errno.EIO, False, False), (errno.ENOSPC, True, True), (errno.EMFILE, False, False)],
    ids=["an I/O error", "a disk that stays full after half a write", "too many open files"],
)
async def test_a_run_stops_at_every_fault_and_resumes(
    tmp_path: Path, code: int, half: bool, for_good: bool
) -> None:
    dataset(tmp_path / "data.jsonl", DIALOGS, turns=2)
    await Run(plan(tmp_path, "whole")).run()
    expected = (tmp_path / "whole" / "r" / SUMMARY).read_bytes()
    kinds = frozenset({"open"}) if code == errno.EMFILE else CHANGES
    failed: set[str] = set()
    for disk in disks(code, kinds, half=half, for_good=for_good, every=length(6, 1)):
        name = f"run{disk.fail_at}"
        acknowledged: set[str] = set()
        try:
            await evaluation(plan(tmp_path, name), disk, acknowledged).run()
        except RunFault as fault:
            check_fault(fault, code, tmp_path / name / "r")
        else:
            assert not disk.failed
        failed.add(disk.failed)
        assert not disk.opened
        if acknowledged:
            assert acknowledged <= committed(tmp_path / name / "r"), disk.fail_at
        if disk.failed:
            assert await finish(tmp_path, name) == expected, disk.fail_at
        shutil.rmtree(tmp_path / name)
    assert failed == kinds | {""}


def disks(
    code: int,
    kinds: frozenset[str],
    *,
    half: bool,
    for_good: bool,
    every: int = 1,
    also: Iterable[int] = (),
) -> Iterator[FaultyDisk]:
    """Yield disks of which one operation fails: the first ones, then every n-th, until all succeed."""
    for number in sorted({*range(1, 6), *range(6, 1000, every), *also}):
        disk = FaultyDisk(number, code, kinds, half=half, fail_for_good=for_good)
        yield disk
        if not disk.failed:
            assert number > 5
            return


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
async def test_resuming_stops_at_every_fault_and_resumes(
    tmp_path: Path, torn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a failed dialogue to be replayed, so that the journal is rewritten; and with tails to be cut."""
    dataset(tmp_path / "data.jsonl", DIALOGS, turns=2)
    await Run(plan(tmp_path, "whole")).run()
    expected = (tmp_path / "whole" / "r" / SUMMARY).read_bytes()
    monkeypatch.setattr(Agent, "broken", True)
    await Run(plan(tmp_path, "broken")).run()
    monkeypatch.setattr(Agent, "broken", False)
    if torn:
        for name in ("commits.log", "dialog_trace.jsonl", "turn_eval.jsonl"):
            with (tmp_path / "broken" / "r" / name).open("ab") as file:
                file.write(b"torn")
    counted = FaultyDisk(0, kinds=ALL)
    shutil.copytree(tmp_path / "broken", tmp_path / "counted")
    made = make_resume_plan(tmp_path / "counted" / "r", agent=Agent, retry_failed=True)
    await evaluation(made, counted).run()
    rare = [number for number, kind in enumerate(counted.called, 1) if kind not in CHANGES]
    failed: set[str] = set()
    for disk in disks(errno.EIO, ALL, half=True, for_good=False, every=length(4, 1), also=rare):
        name = f"run{disk.fail_at}"
        shutil.copytree(tmp_path / "broken", tmp_path / name)
        run = tmp_path / name / "r"
        made = make_resume_plan(run, agent=Agent, retry_failed=True)
        try:
            await evaluation(made, disk).run()
        except RunFault as fault:
            check_fault(fault, errno.EIO, run)
        else:
            assert (run / SUMMARY).read_bytes() == expected
        failed.add(disk.failed)
        assert not disk.opened
        await Run(make_resume_plan(run, agent=Agent, retry_failed=True)).run()
        assert (run / SUMMARY).read_bytes() == expected, disk.fail_at
        assert list(validate_run(run)) == []
        shutil.rmtree(tmp_path / name)
    assert failed >= CHANGES | {"unlink", "mkdir", "rmdir", ""} | ({"truncate"} if torn else set())


async def test_a_fault_is_not_tried_again(tmp_path: Path) -> None:
    """An fsync that failed may succeed the next time although its data is lost."""
    dataset(tmp_path / "data.jsonl", DIALOGS, turns=2)

    class Counting(FaultyDisk):
        synchronised = 0

        def fsync(self, descriptor: int) -> None:
            if self.failed:
                self.synchronised += 1
            super().fsync(descriptor)

    for number in range(8, 14):
        disk = Counting(number, kinds=frozenset({"fsync"}))
        with pytest.raises(RunFault, match="Input/output error"):
            await evaluation(plan(tmp_path, f"run{number}"), disk).run()
        assert disk.synchronised == 0
