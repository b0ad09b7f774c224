"""The turn log: what is recorded comes back whole or not at all, and the file stays small."""

import errno
from pathlib import Path

import pytest

from memfin.contracts import DialogCheckpoint, TurnTags, TurnTrace
from memfin.errors import RunFault
from memfin.journal import DIALOG_TRACE, Entry, RunDirectory, checkpoints
from memfin.journal.checkpoints import TURNS, CheckpointLog
from memfin.journal.disk import Disk
from tests.journal.journal_disks import FaultyDisk
from tests.support import length


def turn(number: int, said: str = "") -> TurnTrace:
    return TurnTrace(
        turn_pair_id=number,
        user_turn_abs_idx=2 * number - 2,
        gt_assistant_abs_idx=2 * number - 1,
        user_text=f"question {number}",
        gt_assistant_text=f"reference {number}",
        gt_turn_tags=TurnTags(),
        turn_status="ok",
        pred_assistant_text=f"answer {number}{said}",
        latency_ms=1.5,
    )


def begun(place: int, spoken: list[TurnTrace], state: bytes | None = None) -> DialogCheckpoint:
    return DialogCheckpoint(
        dataset_index=place,
        dialog_id=f"d{place}",
        turns=spoken,
        snapshot=f"{place}: {len(spoken)}".encode() if state is None else state,
        retries=len(spoken),
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Hasty(Disk):
    """A disk for thousands of files that no power cut threatens."""

    def fsync(self, descriptor: int) -> None:
        pass


def recovered(folder: Path, done: frozenset[int] = frozenset(), disk: Disk | None = None) -> CheckpointLog:
    log = CheckpointLog(folder, disk or Disk())
    log.recover(done)
    return log


def spoken(count: int) -> list[TurnTrace]:
    return [turn(number) for number in range(1, count + 1)]


def test_what_was_recorded_comes_back(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path, Disk())
    first, second = spoken(3), spoken(2)
    for count in (1, 2, 3):
        log.append([begun(1, first[:count])])
    log.append([begun(2, second)])
    assert log.read(1) == begun(1, first)
    log.close()
    again = recovered(tmp_path)
    assert len(again) == 2
    assert again.read(1) == begun(1, first)
    assert again.read(2) == begun(2, second)
    assert again.read(3) is None
    assert again.damage == ()
    again.close()


def test_a_record_holds_the_new_turns_only(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path, Disk())
    said = spoken(3)
    sizes = []
    for count in (1, 2, 3):
        log.append([begun(1, said[:count])])
        sizes.append((tmp_path / TURNS).stat().st_size)
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]
    log.close()


def test_a_dialogue_that_started_again_does_not_continue_its_old_turns(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path, Disk())
    log.append([begun(1, spoken(2))])
    log.close()
    log = recovered(tmp_path)
    assert log.read(1) is not None
    other = [turn(number, " of another agent") for number in (1, 2, 3)]
    log.append([begun(1, other)])  # whose first snapshots could not be had
    assert log.read(1) == begun(1, other)
    log.close()
    log = recovered(tmp_path)
    assert log.read(1) == begun(1, other)
    log.close()


def test_a_restored_dialogue_continues_its_turns(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path, Disk())
    log.append([begun(1, spoken(2))])
    log.close()
    log = recovered(tmp_path)
    known = log.read(1)
    assert known is not None
    before = (tmp_path / TURNS).stat().st_size
    log.append([begun(1, [*known.turns, turn(3)])])
    assert log.read(1) == begun(1, spoken(3))
    assert (tmp_path / TURNS).stat().st_size - before < before
    log.close()


def test_dialogues_that_are_complete_are_forgotten(tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path, Disk())
    log.append([begun(1, spoken(2)), begun(2, spoken(1))])
    log.release([1])
    assert log.read(1) is None
    log.close()
    assert (tmp_path / TURNS).exists()
    log = recovered(tmp_path, frozenset({1}))
    assert (log.read(1), log.read(2)) == (None, begun(2, spoken(1)))
    log.release([2])
    log.close()
    assert not (tmp_path / TURNS).exists()


@pytest.mark.parametrize("place", ["a byte is another", "the file ends"])
def test_damage_at_any_byte_costs_turns_and_never_changes_one(tmp_path: Path, place: str) -> None:
    log = CheckpointLog(tmp_path, Disk())
    first, second = spoken(3), spoken(2)
    for count in (1, 2, 3):
        log.append([begun(1, first[:count])])
        log.append([begun(2, second[: min(count, 2)])] if count < 3 else [begun(3, spoken(1))])
    log.close()
    whole = (tmp_path / TURNS).read_bytes()
    (tmp_path / TURNS).unlink()
    seen = set()
    ends = [place for place in range(len(whole)) if whole[place] == ord(b"\n")]
    sampled = {*range(0, len(whole), length(3, 1)), *ends, *(place - 1 for place in ends)}
    for offset in sorted(sampled):
        changed = bytearray(whole)
        changed[offset] ^= 1 << offset % 8
        folder = tmp_path / str(offset)
        folder.mkdir()
        (folder / TURNS).write_bytes(changed if place == "a byte is another" else whole[:offset])
        log = recovered(folder, disk=Hasty())
        found = {number: log.read(number) for number in (1, 2, 3)}
        log.close()
        for number, dialog in found.items():
            if dialog is not None:
                told = {1: first, 2: second, 3: spoken(1)}[number]
                assert dialog == begun(number, told[: len(dialog.turns)]), offset
        lost = 6 - sum(len(dialog.turns) for dialog in found.values() if dialog is not None)
        assert 0 < lost <= (5 if place == "a byte is another" else 6)  # two records: a line's end
        seen.add(lost)
        if place == "a byte is another" and offset < len(whole) - 1:  # without its end, a line is no line
            assert len(log.damage) == 1
    assert seen >= {1, 2, 3}


def test_the_file_stays_as_small_as_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "ROOM", 4000)
    log = CheckpointLog(tmp_path, Disk())
    state = b"s" * 500
    largest = 0
    for number in range(400):
        talk = spoken(4)
        for count in (1, 2, 3, 4):
            log.append([begun(number, talk[:count], state)])
            largest = max(largest, (tmp_path / TURNS).stat().st_size)
        assert log.read(number) == begun(number, talk, state)
        log.release([number])
    one = 4 * 1100 + 800
    assert largest < 4000 + checkpoints.GROWTH * one + one
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_rewriting_keeps_dialogues_that_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "ROOM", 2000)
    log = CheckpointLog(tmp_path, Disk())
    talks = {number: spoken(12) for number in range(3)}
    for count in range(1, 13):
        log.append([begun(number, talk[:count]) for number, talk in talks.items()])
        for number, talk in talks.items():
            assert log.read(number) == begun(number, talk[:count])
    log.close()
    log = recovered(tmp_path)
    assert [log.read(number) for number in talks] == [begun(number, talk) for number, talk in talks.items()]
    log.close()


def test_every_operation_fails_once_and_what_came_back_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "ROOM", 1500)
    kinds = frozenset({"open", "write", "fsync", "replace", "unlink", "truncate"})
    failed = set()
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        disk = FaultyDisk(number, errno.EIO, kinds, half=True)
        log = CheckpointLog(folder, disk)
        talk = spoken(8)
        kept = 0
        try:
            for count in range(1, 9):
                log.append([begun(1, talk[:count])])
                kept = count
        except OSError:
            pass
        try:
            log.close()
        except OSError:
            log.close()
        assert not disk.opened, number
        again = recovered(folder)
        found = again.read(1)
        assert kept <= (0 if found is None else len(found.turns)) <= kept + 1, number
        assert found is None or found == begun(1, talk[: len(found.turns)])
        again.close()
        failed.add(disk.failed)
        if not disk.failed:
            break
    assert failed == {"open", "write", "fsync", "replace", ""}


async def test_a_fault_names_the_file(tmp_path: Path) -> None:
    class Full(Disk):
        full = False

        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(descriptor, data)

    disk = Full()
    async with RunDirectory(tmp_path / "r", tmp_path / "p", disk=disk) as directory:
        await directory.commit([], [begun(1, spoken(1))])
        disk.full = True
        with pytest.raises(RunFault, match=f"{TURNS}: No space left on device"):
            await directory.commit([], [begun(1, spoken(2))])
        disk.full = False
        with pytest.raises(RunFault, match="No space left on device"):
            await directory.commit([Entry("replay", 1, "d1", {DIALOG_TRACE: [b"{}"]})])


async def test_a_run_that_could_not_start_leaves_no_turns(tmp_path: Path) -> None:
    async with RunDirectory(tmp_path / "r", tmp_path / "p") as directory:
        await directory.commit([], [begun(1, spoken(1))])
        await directory.discard()
    assert contents(tmp_path) == {}


async def test_a_commit_of_turns_alone_leaves_the_commit_log_as_it_is(tmp_path: Path) -> None:
    async with RunDirectory(tmp_path / "r", tmp_path / "p") as directory:
        before = contents(tmp_path / "r")
        await directory.commit([], [begun(1, spoken(1))])
        after = contents(tmp_path / "r")
        assert set(after) - set(before) == {TURNS}
        assert {name: after[name] for name in before} == before
