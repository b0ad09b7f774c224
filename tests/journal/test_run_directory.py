"""The run directory: created once, complete lines, whole files, faults told."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import anyio
import pytest

from memfin.errors import RunFault, UsageError
from memfin.journal import COMMITS, DIALOG_TRACE, TURN_EVAL, Entry, Layout, RunDirectory, progress_path
from memfin.journal.disk import Disk
from memfin.journal.lock import LOCK

LONG = 20.0
OWN_FILES = sorted([LOCK, COMMITS, DIALOG_TRACE, TURN_EVAL])


def directory(runs: Path, name: str = "r") -> RunDirectory:
    return RunDirectory(runs / name, progress_path(runs, name))


def replay(number: int, line: bytes) -> Entry:
    return Entry("replay", number, f"d{number}", {DIALOG_TRACE: [line]})


async def refusal(where: RunDirectory) -> str:
    with pytest.raises(UsageError) as refused:
        async with where:
            raise AssertionError("opened")
    gc.collect()  # files that stayed open would warn, and warnings are errors
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


def test_the_progress_log_stands_beside_the_runs() -> None:
    assert progress_path(Path("runs"), "r") == Path("runs/logs/progress_r.jsonl")


async def test_entering_creates_the_directory_and_its_files(tmp_path: Path) -> None:
    runs = tmp_path / "deep" / "runs"
    async with directory(runs):
        assert sorted(path.name for path in (runs / "r").iterdir()) == OWN_FILES
        assert (runs / "logs" / "progress_r.jsonl").exists()


async def test_a_run_that_exists_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with directory(tmp_path) as first:
        await first.commit([replay(1, b"kept")])
        assert (
            await refusal(directory(tmp_path)) == f"run {tmp_path / 'r'}: exists already; choose another name"
        )
    assert (tmp_path / "r" / DIALOG_TRACE).read_bytes() == b"kept\n"


async def test_of_many_that_create_one_run_exactly_one_does(tmp_path: Path) -> None:
    winners: list[RunDirectory] = []
    losers: list[str] = []
    over = anyio.Event()

    async def contend() -> None:
        try:
            async with directory(tmp_path) as won:
                winners.append(won)
                await over.wait()
        except UsageError as problem:
            losers.append(str(problem))
            if len(losers) == 7:
                over.set()

    with anyio.fail_after(LONG):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(contend)
    assert len(winners) == 1
    assert all("exists already" in problem for problem in losers)


FIRST_ARTIFACTS = {"config.json", "run_manifest.json"}


@pytest.mark.parametrize(
    "left",
    [
        set(),
        {LOCK},
        {LOCK, COMMITS},
        {LOCK, COMMITS, DIALOG_TRACE, TURN_EVAL},
        {LOCK, COMMITS, DIALOG_TRACE, TURN_EVAL, ".config.json.tmp", ".config.json.0123456789abcdef.tmp"},
        {LOCK, COMMITS, DIALOG_TRACE, TURN_EVAL, "config.json"},
        {LOCK, COMMITS, DIALOG_TRACE, TURN_EVAL, "config.json", ".run_manifest.json.0123456789abcdef.tmp"},
    ],
    ids=len,
)
async def test_what_a_run_has_left_that_ended_before_it_began_is_taken_over(
    tmp_path: Path, left: set[str]
) -> None:
    async with directory(tmp_path, "sound"):
        log = (tmp_path / "sound" / COMMITS).read_bytes()
    for cut in (0, len(log) // 2, len(log)):
        where = tmp_path / f"r{cut}"
        where.mkdir()
        for name in left:
            (where / name).write_bytes(
                log[:cut] if name == COMMITS else b"{" if name in FIRST_ARTIFACTS else b""
            )
        async with directory(tmp_path, where.name) as run:
            await run.commit([replay(1, b"kept")])
            assert (where / DIALOG_TRACE).read_bytes() == b"kept\n"
            assert sorted(path.name for path in where.iterdir()) == OWN_FILES


@pytest.mark.parametrize("left", ["artifacts", "rows", "commits", "strange", "locked"])
async def test_what_may_count_is_not_taken_over(tmp_path: Path, left: str) -> None:
    where = tmp_path / "r"
    async with directory(tmp_path) as run:
        if left == "commits":
            await run.commit([replay(1, b"kept")])
        if left == "locked":
            assert "exists already" in await refusal(directory(tmp_path))
    if left == "locked":
        return
    if left == "artifacts":
        for name in FIRST_ARTIFACTS:
            (where / name).write_bytes(b"{}")
    elif left == "rows":
        (where / TURN_EVAL).write_bytes(b"{}\n")
    elif left == "strange":
        (where / "thesis.txt").write_bytes(b"mine")
    before = {path.name: path.read_bytes() for path in where.iterdir()}
    assert "exists already" in await refusal(directory(tmp_path))
    assert {path.name: path.read_bytes() for path in where.iterdir()} == before


@pytest.mark.parametrize("what", ["file", "dangling link"])
async def test_whatever_has_the_name_is_in_the_way(tmp_path: Path, what: str) -> None:
    if what == "file":
        (tmp_path / "r").write_text("x")
    else:
        (tmp_path / "r").symlink_to(tmp_path / "nowhere")
    assert "exists already" in await refusal(directory(tmp_path))


async def test_a_runs_directory_that_is_a_file_is_refused_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("x")
    message = await refusal(directory(tmp_path / "runs"))
    assert message == f"run {tmp_path}/runs/r: cannot be created: {tmp_path}/runs is no directory"
    message = await refusal(directory(tmp_path / "runs" / "deeper"))
    assert message.endswith(f": cannot be created: {tmp_path}/runs is no directory")


async def test_logs_that_cannot_be_made_leave_no_run_behind(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("x")
    assert "logs is no directory" in await refusal(directory(tmp_path))
    assert not (tmp_path / "r").exists()


async def test_the_progress_log_may_stand_in_the_directory_itself(tmp_path: Path) -> None:
    async with RunDirectory(tmp_path / "r", progress_path(tmp_path / "r", "r")) as run:
        await run.append_progress([b"event"])
    assert (tmp_path / "r" / "logs" / "progress_r.jsonl").read_bytes() == b"event\n"


async def test_a_progress_log_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs" / "progress_r.jsonl").mkdir(parents=True)
    assert "progress_r.jsonl: Is a directory" in await refusal(directory(tmp_path))


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """Return a directory that nobody but root may write to."""
    tmp_path.chmod(0o500)
    return tmp_path


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_place_that_may_not_be_written_is_a_fault(locked: Path) -> None:
    with pytest.raises(RunFault, match="Permission denied"):
        async with directory(locked):
            raise AssertionError("opened")


async def test_a_disk_without_room_is_a_fault_before_anything_is_made(tmp_path: Path) -> None:
    class Small(Disk):
        def free(self, path: Path) -> int:
            del path
            return 5 << 20

    with pytest.raises(RunFault, match=r"only 5\.0 MiB are free, a run needs 16 MiB") as fault:
        async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r"), disk=Small()):
            raise AssertionError("opened")
    assert fault.value.exit_code == 3
    assert not (tmp_path / "r").exists()


async def test_rows_are_in_order_each_with_its_line_end(tmp_path: Path) -> None:
    async with directory(tmp_path) as run:
        await run.commit([replay(1, b"1"), Entry("judged", 1, "d1", {TURN_EVAL: [b"r1", b"r2"]})])
        assert (tmp_path / "r" / DIALOG_TRACE).read_bytes() == b"1\n"  # at once, for whoever watches
        await run.commit([])
        await run.commit([replay(2, "三".encode()), Entry("judged", 2, "d2", {TURN_EVAL: []})])
        await run.append_progress([b"event", b"another"])
        await run.append_progress([])
    assert (tmp_path / "r" / DIALOG_TRACE).read_text("utf-8") == "1\n三\n"
    assert (tmp_path / "r" / TURN_EVAL).read_bytes() == b"r1\nr2\n"
    assert (tmp_path / "logs" / "progress_r.jsonl").read_bytes() == b"event\nanother\n"


async def test_a_progress_log_that_was_there_before_is_continued(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "progress_r.jsonl").write_bytes(b"before\n")
    async with directory(tmp_path) as run:
        await run.append_progress([b"now"])
    assert (tmp_path / "logs" / "progress_r.jsonl").read_bytes() == b"before\nnow\n"


async def test_commits_of_many_tasks_do_not_mix(tmp_path: Path) -> None:
    async with directory(tmp_path) as run, anyio.create_task_group() as group:
        for number in range(20):
            line = b"%02d" % number * 50_000
            entry = Entry("replay", number, f"d{number}", {DIALOG_TRACE: [line, line]})
            group.start_soon(run.commit, [entry])
    lines = (tmp_path / "r" / DIALOG_TRACE).read_bytes().splitlines()
    assert sorted(lines) == sorted([b"%02d" % number * 50_000 for number in range(20)] * 2)
    assert lines[::2] == lines[1::2]


async def test_a_whole_file_is_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    async with directory(tmp_path) as run:
        await run.write({"a.json": b"old", "b.json": b"b"})
        await run.write({"a.json": b"new"})
    assert (tmp_path / "r" / "a.json").read_bytes() == b"new"
    names = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert names == sorted(["a.json", "b.json", *OWN_FILES])


async def test_a_reader_sees_the_old_or_the_new_content(tmp_path: Path) -> None:
    contents = [b"a" * 300_000, b"b" * 200_000]
    path = tmp_path / "r" / "a.json"
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    async with directory(tmp_path) as run:
        await run.write({"a.json": contents[1]})
        reader = threading.Thread(target=read)
        reader.start()
        try:
            for number in range(30):
                await run.write({"a.json": contents[number % 2]})
        finally:
            done.set()
            reader.join()
    assert seen <= set(contents)
    assert len(seen) == 2


class SlowDisk:
    """Makes the first write of a directory wait in its thread until it is released."""

    def __init__(self, run: RunDirectory) -> None:
        self.begun, self.release = threading.Event(), threading.Event()
        run._writer.submit(self._block)

    def _block(self) -> None:
        self.begun.set()
        self.release.wait(LONG)


@pytest.mark.parametrize("write", ["commit", "write"])
async def test_a_cancelled_write_is_finished_before_the_cancellation_goes_on(
    tmp_path: Path, write: str
) -> None:
    line = b"x" * 100_000
    async with directory(tmp_path) as run:
        disk = SlowDisk(run)
        async with anyio.create_task_group() as group:
            if write == "commit":
                group.start_soon(run.commit, [replay(1, line)])
            else:
                group.start_soon(run.write, {"whole.json": line})
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
            # Long after a cancellation that did not wait would have gone on.
            asyncio.get_running_loop().call_later(0.05, disk.release.set)
        path = tmp_path / "r" / (DIALOG_TRACE if write == "commit" else "whole.json")
        assert path.read_bytes() == line + b"\n" * (write == "commit")


async def test_a_host_that_cancels_natively_tears_no_line(tmp_path: Path) -> None:
    line = b"x" * 100_000
    async with directory(tmp_path) as run:
        disk = SlowDisk(run)
        task = asyncio.ensure_future(run.commit([replay(1, line)]))
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        disk.release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    written = (tmp_path / "r" / DIALOG_TRACE).read_bytes()
    assert written in (b"", line + b"\n")


async def test_nothing_is_written_after_the_directory_is_closed(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    async with directory(tmp_path) as run, anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(run.commit, [replay(number, b"x" * 10_000)])
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    size = (tmp_path / "r" / DIALOG_TRACE).stat().st_size
    for thread in set(threading.enumerate()) - threads:
        thread.join(LONG)  # the writer, if it has not ended yet
        assert not thread.is_alive()
    assert (tmp_path / "r" / DIALOG_TRACE).stat().st_size == size
    assert size % 10_001 == 0


async def test_a_full_disk_is_a_fault_of_one_line(tmp_path: Path) -> None:
    class FullLog(Disk):
        def open(self, path: Path, flags: int) -> int:
            return super().open(Path("/dev/full") if path.name == "progress_r.jsonl" else path, flags)

    async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r"), disk=FullLog()) as run:
        with pytest.raises(RunFault) as fault:
            await run.append_progress([b"event"])
        await run.commit([replay(1, b"elsewhere there is room")])
    assert str(fault.value) == (
        f"run {tmp_path / 'r'}: progress_r.jsonl: No space left on device; "
        "fix the cause and run the command again"
    )
    assert (tmp_path / "r" / DIALOG_TRACE).read_bytes() == b"elsewhere there is room\n"


async def test_a_file_that_cannot_be_replaced_is_a_fault(tmp_path: Path) -> None:
    async with directory(tmp_path) as run:
        (tmp_path / "r" / "a.json").mkdir()
        with pytest.raises(RunFault, match="Is a directory"):
            await run.write({"a.json": b"x"})


async def test_a_directory_that_vanished_is_a_fault(tmp_path: Path) -> None:
    async with directory(tmp_path) as run:
        for path in (tmp_path / "r").iterdir():
            path.unlink()
        (tmp_path / "r").rmdir()
        with pytest.raises(RunFault, match=r"commits\.log: was removed or replaced during the run"):
            await run.commit([replay(1, b"x")])
        with pytest.raises(RunFault, match="No such file or directory"):
            await run.write({"a.json": b"x"})


async def test_every_file_is_closed_although_each_fails_to(tmp_path: Path) -> None:
    class Failing(Disk):
        opened: set[int] = set()

        def open(self, path: Path, flags: int) -> int:
            descriptor = super().open(path, flags)
            self.opened.add(descriptor)
            return descriptor

        def close(self, descriptor: int) -> None:
            super().close(descriptor)
            self.opened.discard(descriptor)
            raise OSError(5, "Input/output error")

        def fsync_directory(self, path: Path) -> None: ...

    disk = Failing()
    with pytest.raises(RunFault, match="Input/output error"):
        async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r"), disk=disk):
            assert len(disk.opened) == 5
    assert disk.opened == set()


def test_the_limit_of_a_file_is_a_fault_and_older_files_stay_whole(tmp_path: Path) -> None:
    program = """
        import asyncio, resource, sys
        from pathlib import Path
        from memfin.errors import RunFault
        from memfin.journal import DIALOG_TRACE, Entry, RunDirectory, progress_path

        def replay(number, line):
            return Entry("replay", number, "d", {DIALOG_TRACE: [line]})

        async def main(runs):
            async with RunDirectory(runs / "r", progress_path(runs, "r")) as run:
                await run.write({"a.json": b"old"})
                await run.commit([replay(1, b"x" * 1000)])
                resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
                for attempt in (run.commit([replay(2, b"y" * 1000)]), run.write({"a.json": b"z" * 2000})):
                    try:
                        await attempt
                    except RunFault as fault:
                        print(fault.exit_code, fault)

        asyncio.run(main(Path(sys.argv[1])))
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), str(tmp_path)]
    # Coverage keeps its own file in the process that it measures; the limit is not meant for that one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split(";")[0] for line in lines] == [
        f"3 run {tmp_path / 'r'}: dialog_trace.jsonl: File too large",
        f"3 run {tmp_path / 'r'}: a.json: File too large",
    ]
    assert (tmp_path / "r" / "a.json").read_bytes() == b"old"
    assert (tmp_path / "r" / DIALOG_TRACE).read_bytes() == b"x" * 1000 + b"\n"


async def test_a_suite_brings_its_own_files_of_rows(tmp_path: Path) -> None:
    rows = ("calls.jsonl", "grades.jsonl")
    layout = Layout(rows=rows, files=(*rows, "votes.jsonl"), artifacts=(), ends=())
    where, progress = tmp_path / "r", progress_path(tmp_path, "r")
    async with RunDirectory(where, progress, layout=layout) as run:
        await run.commit([Entry("replay", 1, "c1", {"calls.jsonl": [b"{}"]})])
        judged = {"grades.jsonl": [b"1", b"2"], "votes.jsonl": [b"3"]}
        await run.commit([Entry("judged", 1, "c1", judged)])
    (where / "notes.jsonl").write_bytes(b"of somebody else\n")
    with (where / "votes.jsonl").open("ab") as votes:
        votes.write(b"torn")
    async with RunDirectory(where, progress, layout=layout, existing=True) as run:
        (known,) = run.committed
        assert await run.read(known) == (b"{}", [b"1", b"2"], [b"3"])
        assert [cut.file for cut in run.cuts] == ["votes.jsonl"]
    assert (where / "notes.jsonl").read_bytes() == b"of somebody else\n"
    assert (where / "votes.jsonl").read_bytes() == b"3\n"
