"""Resuming a benchmark run: nothing committed is asked again, and the end is that of an unbroken run."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

import memfin
from memfin.contracts import ProgressEvent, QuestionDone, RunResumed
from memfin.errors import RunFault, RunStopped, UsageError
from memfin.journal import COMMITS, QUESTIONS, RAG_RESULTS, Entry, RunDirectory, progress_path
from memfin.journal.commits import CommitRecord, Part
from memfin.journal.disk import Disk
from memfin.journal.index import CommitIndex
from memfin.journal.repair import repair
from memfin.runtime.bench_plan import BenchPlan, make_bench_plan, make_bench_resume_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.commands import Command, run_command
from tests.rag.bench_support import DOCUMENT, Counting, benchmark, fact, mixed
from tests.support import dataset, read_jsonl, unmeasured

WORKERS = 3
QUESTIONS_OF_ALL = 12


def plan(tmp_path: Path, system: Any, name: str = "r", **settings: Any) -> BenchPlan:
    return make_bench_plan(
        tmp_path / "b",
        rag=system,
        runs_dir=tmp_path,
        run_id=name,
        workers_dialog=WORKERS,
        fsync_interval=0,
        **settings,
    )


async def stopped_after(made: BenchPlan, number: int) -> None:
    """Run the plan and cancel it when so many questions are done."""
    left = iter(range(number - 1))

    def show(event: ProgressEvent) -> None:
        if isinstance(event, QuestionDone) and next(left, None) is None:
            group.cancel_scope.cancel()

    run = Run(made, show)
    async with anyio.create_task_group() as group:
        group.start_soon(run.run)
    assert run.summary is None


def summary(path: Path) -> bytes:
    """Return the summary with another run's id in the place of its own."""
    return (path / "rag_summary.json").read_bytes().replace(f'"{path.name}"'.encode(), b'"x"')


@pytest.mark.parametrize("number", [1, 4, 8])
async def test_an_interrupted_benchmark_ends_as_if_nothing_had_happened(tmp_path: Path, number: int) -> None:
    mixed(tmp_path / "b")
    await Run(plan(tmp_path, Counting(wrong="f02"), "whole")).run()
    await stopped_after(plan(tmp_path, Counting(wrong="f02", patience=number + WORKERS - 1)), number)
    before = [row["id"] for row in read_jsonl(tmp_path / "r" / RAG_RESULTS)]
    assert number <= len(before) < QUESTIONS_OF_ALL
    events: list[ProgressEvent] = []
    again = Counting(wrong="f02")
    await Run(make_bench_resume_plan(tmp_path / "r", rag=again), events.append).run()
    assert not set(again.asked) & set(before)
    assert again.asked.total() == QUESTIONS_OF_ALL - len(before)
    resumed = events[0]
    assert isinstance(resumed, RunResumed)
    assert (resumed.dialogs_done, resumed.dialogs) == (len(before), QUESTIONS_OF_ALL)
    assert sorted(row["question_index"] for row in read_jsonl(tmp_path / "r" / RAG_RESULTS)) == list(
        range(1, QUESTIONS_OF_ALL + 1)
    )
    assert summary(tmp_path / "r") == summary(tmp_path / "whole")
    assert list(validate_run(tmp_path / "r")) == []


async def test_a_complete_run_is_resumed_without_making_the_system(tmp_path: Path) -> None:
    mixed(tmp_path / "b")

    def factory(document: Any) -> Counting:
        made.append(document)
        return Counting()

    made: list[Any] = []
    await Run(plan(tmp_path, factory)).run()
    written = (tmp_path / "r" / "rag_summary.json").read_bytes()
    assert len(made) == 1
    await Run(make_bench_resume_plan(tmp_path / "r", rag=factory)).run()
    assert len(made) == 1
    assert (tmp_path / "r" / "rag_summary.json").read_bytes() == written


async def test_a_stop_in_order_keeps_what_is_answered(tmp_path: Path) -> None:
    mixed(tmp_path / "b")

    def show(event: ProgressEvent) -> None:
        if isinstance(event, QuestionDone):
            run.stop("enough", within=0.5)

    run = Run(plan(tmp_path, Counting(patience=5)), show)
    with pytest.raises(RunStopped, match="enough; memfin resume"):
        await run.run()
    answered = len(read_jsonl(tmp_path / "r" / RAG_RESULTS))
    assert 0 < answered < QUESTIONS_OF_ALL
    assert not (tmp_path / "r" / "rag_summary.json").exists()
    assert list(validate_run(tmp_path / "r")) == []
    again = Counting()
    await Run(make_bench_resume_plan(tmp_path / "r", rag=again)).run()
    assert again.asked.total() == QUESTIONS_OF_ALL - answered


async def test_questions_on_which_the_system_failed_are_asked_again_when_this_is_wanted(
    tmp_path: Path,
) -> None:
    mixed(tmp_path / "b")
    await Run(plan(tmp_path, Counting(broken="f01 g1"))).run()
    again = Counting()
    made = make_bench_resume_plan(tmp_path / "r", rag=again, retry_failed=True)
    found = await Run(made).run()
    assert set(again.asked) == {"f01", "g1"}
    assert found.errors == 0
    assert len(read_jsonl(tmp_path / "r" / RAG_RESULTS)) == QUESTIONS_OF_ALL
    assert list(validate_run(tmp_path / "r")) == []


@pytest.mark.parametrize(
    ("what", "named"), [("questions", "benchmark_sha256"), ("document", "document_sha256"), ("system", "rag")]
)
async def test_what_is_not_as_it_was_is_named_and_forced_only_on_demand(
    tmp_path: Path, what: str, named: str
) -> None:
    mixed(tmp_path / "b")
    await stopped_after(plan(tmp_path, Counting(patience=6)), 4)

    class Another(Counting):
        pass

    system = Another() if what == "system" else Counting()
    if what == "questions":
        benchmark(
            tmp_path / "b",
            [*(fact(f"f{number:02}", 41000 if number == 9 else 42000) for number in range(10))],
        )
    elif what == "document":
        (tmp_path / "b" / "record.md").write_text(f"{DOCUMENT}\n再见。\n", "utf-8")
    with pytest.raises(UsageError, match=f"not as it was when the run began: .*{named}"):
        make_bench_resume_plan(tmp_path / "r", rag=system)
    await Run(make_bench_resume_plan(tmp_path / "r", rag=system, force=True)).run()
    manifest = json.loads((tmp_path / "r" / "run_manifest.json").read_bytes())
    assert named in manifest["notes"]


@pytest.mark.parametrize("change", ["other words", "fewer"])
async def test_answers_to_other_questions_are_never_mixed_in(tmp_path: Path, change: str) -> None:
    mixed(tmp_path / "b")
    await Run(plan(tmp_path, Counting())).run()
    if change == "fewer":
        benchmark(tmp_path / "b", [fact("f00")])
    else:
        benchmark(tmp_path / "b", [fact(f"f{number:02}", question="别的问题？") for number in range(12)])
    with pytest.raises(UsageError, match="start a new run"):
        await Run(make_bench_resume_plan(tmp_path / "r", rag=Counting(), force=True)).run()
    assert len(read_jsonl(tmp_path / "r" / RAG_RESULTS)) == QUESTIONS_OF_ALL


async def test_each_suite_refuses_to_go_on_with_the_other(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    await Run(plan(tmp_path, Counting())).run()
    with pytest.raises(UsageError, match="is one of questions"):
        make_resume_plan(tmp_path / "r")
    data = dataset(tmp_path / "d.jsonl", 1, 1)
    await memfin.evaluate(data, agent="echo", judge="none", runs_dir=tmp_path, run_id="d")
    with pytest.raises(UsageError, match="is one of dialogues"):
        make_bench_resume_plan(tmp_path / "d", rag=Counting())


class FullDisk(Disk):
    """Has no room for the results after so many bytes."""

    room = 3000

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == RAG_RESULTS:
            self.room -= len(data)
            if self.room < 0:
                raise OSError(28, "No space left on device")
        return super().write(descriptor, data)


async def test_a_full_disk_stops_the_run_and_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    made = plan(tmp_path, Counting())
    run = Run(made)
    run.directory = RunDirectory(
        made.directory, made.progress, layout=made.layout, advice=made.advice, disk=FullDisk()
    )
    with pytest.raises(RunFault, match="No space left on device; fix the cause, then memfin resume"):
        await run.run()
    answered = [row["id"] for row in read_jsonl(tmp_path / "r" / RAG_RESULTS)]
    assert answered
    again = Counting()
    await Run(make_bench_resume_plan(tmp_path / "r", rag=again)).run()
    assert not set(answered) & set(again.asked)
    assert list(validate_run(tmp_path / "r")) == []


async def test_a_damaged_run_is_found_repaired_and_completed(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    await Run(plan(tmp_path, Counting(), "broken")).run()
    path = tmp_path / "broken" / RAG_RESULTS
    lines = path.read_bytes().split(b"\n")
    lines[4] = lines[4].replace(b"42000", b"42001")
    path.write_bytes(b"\n".join(lines))
    assert any("do not match their checksum" in str(finding) for finding in validate_run(tmp_path / "broken"))
    repaired = repair(tmp_path / "broken", tmp_path / "r")
    assert (repaired.replays, len(repaired.dropped)) == (QUESTIONS_OF_ALL - 1, 1)
    again = Counting()
    await Run(make_bench_resume_plan(tmp_path / "r", rag=again)).run()
    assert again.asked.total() == 1
    assert summary(tmp_path / "r").replace(b'"broken"', b'"x"') == summary(tmp_path / "broken")


def record(seq: int, offset: int = 0) -> CommitRecord:
    part = Part(file=RAG_RESULTS, offset=offset, length=3, rows=1, digest="d")
    return CommitRecord(seq=seq, group=seq, kind="result", dataset_index=1, dialog_id="q", parts=(part,))


def test_a_question_is_committed_once_and_with_its_line() -> None:
    index = CommitIndex()
    assert index.add(record(1)) is None
    (known,) = index
    assert (known.judged, known.trace, index.judged) == (True, (RAG_RESULTS, 0, 3), 1)
    assert "again" in str(index.add(record(2, 3)))
    assert "without its line" in str(CommitIndex().add(record(1).replace(parts=())))


async def test_the_directory_of_a_benchmark_holds_its_own_files_alone(tmp_path: Path) -> None:
    async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r"), layout=QUESTIONS) as directory:
        await directory.commit([Entry("result", 1, "q", {RAG_RESULTS: [b"{}"]}, status="ok")])
    assert {path.name for path in (tmp_path / "r").iterdir()} == {".lock", COMMITS, RAG_RESULTS}
    async with RunDirectory(
        tmp_path / "r", progress_path(tmp_path, "r"), layout=QUESTIONS, existing=True
    ) as directory:
        (known,) = directory.committed
        assert (await directory.read(known)).trace == b"{}"


SLOW = """
import asyncio, pathlib, sys

class Slow:
    def __init__(self, document):
        self.count = 0

    async def query(self, question):
        self.count += 1
        if self.count > 5 and not pathlib.Path("go").exists():
            while pathlib.Path("runs/r/commits.log").read_bytes().count(b"\\n") < 6:
                await asyncio.sleep(0.01)
            print("waiting", file=sys.stderr, flush=True)
            await asyncio.sleep(3600)
        with open("asked", "a") as file:
            file.write(question.partition("：")[0] + "\\n")
        return {"answer": "42000元", "amount": 42000}
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_the_command_goes_on_after_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    mixed(tmp_path / "b")
    (tmp_path / "slow.py").write_text(SLOW)
    words = ["bench", "b", "--rag", "slow:Slow", "--run-id", "r", "--workers-dialog", "1", "--quiet"]
    environment = {**unmeasured(), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = Command(*words, "--fsync-interval", "0", cwd=tmp_path, env=environment)
    while process.errors_so_far() != "waiting\n":
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == (-number if number is signal.SIGKILL else 128 + number)
    if number is signal.SIGTERM:
        assert told == "waiting\nmemfin: stopped by SIGTERM; memfin resume runs/r goes on\n"
    (tmp_path / "go").touch()
    ended = run_command("resume", "runs/r", "--json", "--quiet", cwd=tmp_path, env=environment)
    assert json.loads(ended.stdout)["total_tests"] == QUESTIONS_OF_ALL
    asked = (tmp_path / "asked").read_text().split()
    assert len(asked) == len(set(asked)) == QUESTIONS_OF_ALL
