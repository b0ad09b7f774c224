"""Recovery: whatever happened to the files, what was committed is found as it was, or refused."""

import functools
import itertools
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfin.errors import RunFault, UsageError
from memfin.journal import (
    COMMITS,
    DIALOG_TRACE,
    JUDGEMENTS,
    TURN_EVAL,
    Entry,
    JournalDamaged,
    RunDirectory,
    commits,
    progress_path,
    recovery,
)
from memfin.journal.commits import encode_group
from memfin.journal.recovery import examine
from tests.journal.journal_disks import MemoryDisk
from tests.support import LONG, each_case

DIRECTORY = Path("run")
SAMPLE = 700
"""Bytes of a file that are tried where not all are."""

GROUPS = (1, 7, 1, 12, 3, 20, 5, 30, 9, 12)
"""Records in each group of the journal under test; the first is the one that opens the log."""

State = dict[int, tuple[bytes, bytes | None]]
"""Trace and rows of each dialogue; None for rows that are not committed."""


def entries(count: int) -> Iterator[Entry]:
    """Yield commits as a run makes them: judgements follow their replays some way behind."""
    yield Entry("opened")
    for number in range(1, count):
        dialog = (number + 1) // 2
        if number % 2:
            yield Entry("replay", dialog, f"d{dialog}", {DIALOG_TRACE: [b'{"t":%d}' % dialog]}, status="ok")
        else:
            rows = [b'{"r":%d}' % row for row in range(dialog % 3)]
            votes = [b"{}"] if dialog % 5 == 0 else []
            yield Entry("judged", dialog, f"d{dialog}", {TURN_EVAL: rows, JUDGEMENTS: votes})


class Journal:
    """A journal of 100 records in memory, with the size of every file after each record."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {COMMITS: b"", DIALOG_TRACE: b"", TURN_EVAL: b"", JUDGEMENTS: b""}
        self.log_ends: list[int] = [0]
        self.states: list[State] = [{}]
        seq, left = 1, list(entries(sum(GROUPS)))
        for size in GROUPS:
            chosen, left = left[:size], left[size:]
            group = encode_group(chosen, seq, {name: len(data) for name, data in self.files.items()})
            seq += size
            for name, data in group.data.items():
                self.files[name] += data
            self.files[COMMITS] += group.log
            for line in group.log.splitlines(keepends=True):
                self.log_ends.append(self.log_ends[-1] + len(line))
            for entry in chosen:
                state = dict(self.states[-1])
                if entry.kind == "replay":
                    state[entry.dataset_index] = (_data(entry, DIALOG_TRACE), None)
                elif entry.kind == "judged":
                    trace = state[entry.dataset_index][0]
                    state[entry.dataset_index] = (trace, _data(entry, TURN_EVAL))
                self.states.append(state)


def _data(entry: Entry, name: str) -> bytes:
    return b"".join(line + b"\n" for line in entry.rows[name])


def recovered(files: dict[str, bytes]) -> State:
    """Return what recovery says is committed, read from the files as they are."""
    disk = MemoryDisk(files)
    found = examine(disk, DIRECTORY)
    for cut in found.cuts:
        del disk.files[cut.file][cut.keep :]
    state: State = {}
    for dialog in found.committed:
        _, start, length = dialog.trace
        trace = bytes(disk.files[DIALOG_TRACE][start : start + length])
        rows = b"" if dialog.judged else None
        for _, start, length in (piece for piece in dialog.rows if piece.file == TURN_EVAL):
            rows = bytes(disk.files[TURN_EVAL][start : start + length])
        state[dialog.dataset_index] = (trace, rows)
    for name in (DIALOG_TRACE, TURN_EVAL, JUDGEMENTS):
        assert len(disk.files.get(name, b"")) == found.committed.ends.get(name, 0)
    return state


JOURNAL = Journal()
LOG = JOURNAL.files[COMMITS]
LAST_GROUP = len(JOURNAL.states) - 1 - GROUPS[-1]
"""How many records are before the last group."""


@pytest.fixture(autouse=True)
def remember_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a line that many variants share but once: thousands of them differ in a single byte."""
    monkeypatch.setattr(commits, "decode_line", functools.lru_cache(1000)(commits.decode_line))
    monkeypatch.setattr(recovery, "digest", functools.lru_cache(1000)(commits.digest))


def places(end: int, *whole: range) -> list[int]:
    """Return places before an end: those in the ranges and a sample; in a long run all."""
    if LONG:
        return list(range(end))
    sample = random.Random(20261128).sample(range(end), min(end, SAMPLE))
    return sorted({*sample, *(place for each in whole for place in each if 0 <= place < end)})


def flipped(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def test_an_undamaged_journal_is_found_whole() -> None:
    assert sum(GROUPS) == 100
    assert recovered(JOURNAL.files) == JOURNAL.states[-1]
    assert sum(len(state) for state in JOURNAL.states) > 1000


def test_a_log_cut_at_any_byte_gives_the_commits_before_the_cut() -> None:
    borders = [range(end - 1, end + 2) for end in JOURNAL.log_ends]
    for place in [place + 1 for place in places(len(LOG), *borders)]:
        whole = sum(end <= place for end in JOURNAL.log_ends) - 1
        if whole == 0:
            with pytest.raises(JournalDamaged, match="every line is damaged"):
                recovered(JOURNAL.files | {COMMITS: LOG[:place]})
        else:
            assert recovered(JOURNAL.files | {COMMITS: LOG[:place]}) == JOURNAL.states[whole], place


def test_a_changed_byte_of_the_log_is_refused_or_costs_only_the_last_group() -> None:
    """A crash can tear the last group only, so that a defect anywhere else is no crash's work."""
    refused = 0
    masks = random.Random(7)
    borders = [range(end - 1, end + 1) for end in JOURNAL.log_ends]
    damages = places(len(LOG), *borders)
    for place in damages:
        mask = masks.choice((0xFF, 0x01, 0x20))
        record = sum(end <= place for end in JOURNAL.log_ends) - 1
        damaged = JOURNAL.files | {COMMITS: flipped(LOG, place, mask)}
        if record < LAST_GROUP:
            with pytest.raises(JournalDamaged, match=r"run/commits\.log: offset \d+: .*--repair") as found:
                recovered(damaged)
            assert found.value.offset == JOURNAL.log_ends[record], place
            refused += 1
        else:
            assert recovered(damaged) == JOURNAL.states[record], place
    assert refused == sum(place < JOURNAL.log_ends[LAST_GROUP] for place in damages)


@pytest.mark.parametrize("name", [DIALOG_TRACE, TURN_EVAL, JUDGEMENTS])
def test_committed_rows_that_are_cut_or_changed_are_refused(name: str) -> None:
    data = JOURNAL.files[name]
    for place in places(len(data), range(3), range(len(data) - 3, len(data))):
        for damaged in (data[:place], flipped(data, place, 0xFF), flipped(data, place, 0x01)):
            with pytest.raises(JournalDamaged, match=rf"run/{name}: offset \d+: ") as found:
                recovered(JOURNAL.files | {name: damaged})
            assert found.value.offset <= place
    missing = {file: content for file, content in JOURNAL.files.items() if file != name}
    with pytest.raises(JournalDamaged, match=f"{name}: offset 0: .*the file is missing"):
        recovered(missing)


@each_case("name", [COMMITS, DIALOG_TRACE, TURN_EVAL, JUDGEMENTS])
@each_case("tail", [b"\0" * 5000, b'{"seq":', b"x\ny\n"])
def test_what_was_never_committed_is_cut(name: str, tail: bytes) -> None:
    damaged = JOURNAL.files | {name: JOURNAL.files[name] + tail}
    assert recovered(damaged) == JOURNAL.states[-1]
    (cut,) = examine(MemoryDisk(damaged), DIRECTORY).cuts
    assert (cut.file, cut.keep, cut.size - cut.keep) == (name, len(JOURNAL.files[name]), len(tail))


def test_a_group_of_which_only_later_pages_reached_the_disk_is_cut_from_its_first_hole() -> None:
    """A power cut may leave zeros in the middle of what was written last."""
    lines = LOG.splitlines(keepends=True)
    for hole in range(LAST_GROUP, len(lines)):
        holed = b"".join([*lines[:hole], b"\0" * len(lines[hole]), *lines[hole + 1 :]])
        assert recovered(JOURNAL.files | {COMMITS: holed}) == JOURNAL.states[hole]


def test_lines_of_the_log_that_are_lost_doubled_or_swapped_are_refused() -> None:
    lines = LOG.splitlines(keepends=True)
    for number in range(1, LAST_GROUP):
        for damaged in (
            [*lines[:number], *lines[number + 1 :]],
            [*lines[: number + 1], *lines[number:]],
            [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]],
        ):
            with pytest.raises(JournalDamaged):
                recovered(JOURNAL.files | {COMMITS: b"".join(damaged)})


def test_a_log_of_another_format_is_refused() -> None:
    line = commits.encode_record(commits.CommitRecord(seq=1, group=1, kind="opened", format=2))
    with pytest.raises(UsageError, match=r"commits\.log: is of format 2; this release reads format 1"):
        recovered({COMMITS: line})


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ([Entry("replay", 1, "a", {DIALOG_TRACE: [b"t"]})], "does not begin as a commit log"),
        ([Entry("opened"), Entry("judged", 1, "a")], "before its replay"),
        ([Entry("opened"), Entry("replay", 1, "a")], "without a trace"),
        ([Entry("opened"), *2 * [Entry("replay", 1, "a", {DIALOG_TRACE: [b"t"]})]], "again"),
    ],
)
def test_records_that_contradict_each_other_are_refused(chosen: list[Entry], problem: str) -> None:
    group = encode_group(chosen, 1, {})
    with pytest.raises(JournalDamaged, match=problem):
        recovered({**group.data, COMMITS: group.log})


def test_rows_that_do_not_continue_the_file_are_refused() -> None:
    opened = encode_group([Entry("opened")], 1, {})
    group = encode_group([Entry("replay", 1, "a", {DIALOG_TRACE: [b"t"]})], 2, {DIALOG_TRACE: 3})
    with pytest.raises(JournalDamaged, match="does not continue"):
        recovered({COMMITS: opened.log + group.log, DIALOG_TRACE: b"xy\nt\n"})


def directory(runs: Path, *, existing: bool = False) -> RunDirectory:
    return RunDirectory(runs / "r", progress_path(runs, "r"), existing=existing)


async def test_a_run_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    left = list(entries(40))[1:]
    async with directory(tmp_path) as run:
        await run.commit(left[:20])
    for name in (COMMITS, DIALOG_TRACE, TURN_EVAL):
        with (tmp_path / "r" / name).open("ab") as file:
            file.write(b'{"torn')
    with (tmp_path / "logs" / "progress_r.jsonl").open("ab") as file:
        file.write(b'{"event"}\n{"eve')
    async with directory(tmp_path, existing=True) as run:
        assert {str(cut).split(":")[0] for cut in run.cuts} == {COMMITS, DIALOG_TRACE, TURN_EVAL}
        assert len(run.committed) == 10
        assert run.committed.judged == 10
        await run.commit(left[20:])
        await run.append_progress([b"more"])
    async with directory(tmp_path, existing=True) as run:
        assert run.cuts == ()
        assert len(run.committed) == 20
        found = [await run.read(dialog) for dialog in run.committed]
    expected: State = {}
    for entry in itertools.chain(left):
        old = expected.get(entry.dataset_index)
        expected[entry.dataset_index] = (
            (_data(entry, DIALOG_TRACE), None) if old is None else (old[0], _data(entry, TURN_EVAL))
        )
    lines = [(trace + b"\n", b"".join(row + b"\n" for row in rows)) for trace, rows, _ in found]
    assert lines[:-1] == [expected[number] for number in range(1, 20)]
    assert expected[20] == (lines[-1][0], None)
    assert (tmp_path / "logs" / "progress_r.jsonl").read_bytes() == b'{"event"}\nmore\n'


async def test_a_damaged_run_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    async with directory(tmp_path) as run:
        await run.commit([Entry("replay", 1, "d1", {DIALOG_TRACE: [b"trace"]})])
    path = tmp_path / "r" / DIALOG_TRACE
    path.write_bytes(b"trade\n")
    (tmp_path / "r" / TURN_EVAL).write_bytes(b"torn")
    with pytest.raises(
        JournalDamaged, match=r"dialog_trace\.jsonl: offset 0: replay of dialogue 'd1': the rows do not match"
    ):
        async with directory(tmp_path, existing=True):
            raise AssertionError("opened")
    assert path.read_bytes() == b"trade\n"
    assert (tmp_path / "r" / TURN_EVAL).read_bytes() == b"torn"


async def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    for problem in ("no such directory", r"has no commits\.log"):
        with pytest.raises(UsageError, match=problem):
            async with directory(tmp_path, existing=True):
                raise AssertionError("opened")
        (tmp_path / "r").mkdir(exist_ok=True)
    assert os.listdir(tmp_path / "r") == []  # noqa: PTH208 - not even a lock


async def test_a_trace_that_shrinks_under_the_run_is_a_fault(tmp_path: Path) -> None:
    async with directory(tmp_path) as run:
        await run.commit([Entry("replay", 1, "d1", {DIALOG_TRACE: [b"trace"]})])
    async with directory(tmp_path, existing=True) as run:
        os.truncate(tmp_path / "r" / DIALOG_TRACE, 3)
        with pytest.raises(RunFault, match=r"dialog_trace\.jsonl: has shrunk"):
            await run.read(next(iter(run.committed)))
