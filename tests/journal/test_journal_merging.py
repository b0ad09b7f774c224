"""Merging of journals: rows are found by the line of the dataset, and checked."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from memfin.errors import UsageError
from memfin.journal import COMMITS, DIALOG_TRACE, JUDGEMENTS, TURN_EVAL, Entry, JournalDamaged
from memfin.journal.disk import Disk
from memfin.journal.journal import Journal
from memfin.journal.merging import JournalReader
from memfin.journal.recovery import examine
from tests.support import each_case

NAMES = (COMMITS, DIALOG_TRACE, TURN_EVAL, JUDGEMENTS)
FILES = (DIALOG_TRACE, TURN_EVAL, JUDGEMENTS)


def replay(line: int) -> Entry:
    return Entry("replay", line, f"d{line}", {DIALOG_TRACE: [b'{"t":%d}' % line]}, status="ok", retries=line)


def judged(line: int) -> Entry:
    rows = {TURN_EVAL: [b'{"r":%d}' % row for row in range(line % 3)], JUDGEMENTS: [b"{}"] * (line % 2)}
    return Entry("judged", line, f"d{line}", rows, judge_failures=line)


def journal(directory: Path, groups: Sequence[Sequence[Entry]]) -> Path:
    directory.mkdir(parents=True)
    made = Journal(directory, Disk(), FILES[:2], FILES)
    made.create({"config.json": "x"})
    for group in groups:
        made.commit(group)
    made.close()
    return directory


def merged(target: Path, sources: Sequence[Path], lines: Sequence[int]) -> dict[str, bytes]:
    """Merge the journals in the order of the lines, and return the files."""
    target.mkdir()
    with JournalReader(Disk(), sources) as reader:
        copy = Journal(target, Disk(), FILES[:2])
        copy.create({"config.json": "y"})
        copy.commit([entry for line in lines if (found := reader.read(line)) for entry in found.entries])
        copy.close()
    return {name: (target / name).read_bytes() for name in NAMES if (target / name).exists()}


def test_the_order_of_the_lines_decides_and_not_that_of_the_commits(tmp_path: Path) -> None:
    lines = range(1, 30)
    one = journal(tmp_path / "one", [[replay(line)] for line in lines] + [[judged(line) for line in lines]])
    odd = journal(tmp_path / "odd", [[replay(line), judged(line)] for line in reversed(lines) if line % 2])
    even = journal(tmp_path / "even", [[replay(line), judged(line)] for line in lines if not line % 2])
    files = merged(tmp_path / "a", [one], lines)
    assert merged(tmp_path / "b", [even, odd], lines) == files
    assert files[DIALOG_TRACE] == b"".join(b'{"t":%d}\n' % line for line in lines)
    found, cuts = examine(Disk(), tmp_path / "b", FILES)
    assert (len(found), found.judged, cuts, found.artifacts) == (29, 29, (), {"config.json": {"y"}})
    whole = examine(Disk(), one, FILES).committed
    for line in lines:
        here, there = found.get(line), whole.get(line)
        assert here is not None and there is not None  # noqa: PT018 - for the type checker
        assert here._replace(trace=there.trace, rows=there.rows) == there


def test_a_line_that_is_in_no_journal_is_not_found(tmp_path: Path) -> None:
    source = journal(tmp_path / "one", [[replay(3), judged(3)]])
    with JournalReader(Disk(), [source]) as reader:
        assert reader.dialogs == 1
        assert [line for line in range(9) if reader.read(line) is not None] == [3]


def test_a_line_in_two_journals_is_refused(tmp_path: Path) -> None:
    sources = [journal(tmp_path / name, [[replay(3), judged(3)]]) for name in ("one", "two")]
    with pytest.raises(UsageError, match=r"run .*two: dialogue 'd3' of line 3 is in .*one, too"):
        JournalReader(Disk(), sources).__enter__()


def test_a_dialogue_without_its_judgement_is_refused(tmp_path: Path) -> None:
    source = journal(tmp_path / "one", [[replay(3), judged(3), replay(4)]])
    with pytest.raises(UsageError, match=r"run .*one: 1 of 2 dialogues are judged; memfin resume .*one goes"):
        JournalReader(Disk(), [source]).__enter__()


@each_case("name", [DIALOG_TRACE, TURN_EVAL, JUDGEMENTS, COMMITS])
def test_what_changes_after_the_logs_were_read_is_found(name: str, tmp_path: Path) -> None:
    source = journal(tmp_path / name, [[replay(1), judged(1)]])
    with JournalReader(Disk(), [source]) as reader:
        data = (source / name).read_bytes()
        (source / name).write_bytes(data[:-3] + b"9" + data[-2:])
        with pytest.raises(JournalDamaged, match=rf"{name}: offset \d+: "):
            reader.read(1)


@each_case("name", [DIALOG_TRACE, TURN_EVAL, JUDGEMENTS])
def test_a_file_of_rows_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    source = journal(tmp_path / name, [[replay(1), judged(1)]])
    (source / name).unlink()
    with pytest.raises(JournalDamaged, match=rf"{name}: offset 0: \d+ committed bytes are missing"):
        JournalReader(Disk(), [source]).__enter__()
