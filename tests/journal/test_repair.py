"""Repair: what is sound is copied, what is not is named, the original stays as it is."""

import json
import random
import shutil
from pathlib import Path

import pytest

from memfin.errors import UsageError
from memfin.journal import COMMITS, DIALOG_TRACE, JUDGEMENTS, TURN_EVAL, Entry, RunDirectory, progress_path
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine
from memfin.journal.repair import Repaired, repair
from tests.support import length

DIALOGS = 30
FILES = (COMMITS, DIALOG_TRACE, TURN_EVAL, JUDGEMENTS)


async def make_run(runs: Path) -> Path:
    """Write a run of 30 dialogues, some with rows and votes, the last one not judged."""
    async with RunDirectory(runs / "r", progress_path(runs, "r")) as run:
        for number in range(1, DIALOGS + 1):
            group = [
                Entry("replay", number, f"d{number}", {DIALOG_TRACE: [b'{"t":%d}' % number]}, status="ok")
            ]
            if number < DIALOGS:
                rows = {TURN_EVAL: [b'{"r":%d}' % number] * (number % 3), JUDGEMENTS: [b"{}"] * (number % 2)}
                group.append(Entry("judged", number, f"d{number}", rows))
            await run.commit(group)
        await run.write(
            {
                "config.json": b'{"a": 1}\n',
                "run_manifest.json": b'{"run_id": "r", "ended_at": "2026-01-01T00:00:00Z"}\n',
                "metrics_summary.json": b"{}\n",
            }
        )
    return runs / "r"


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def state(directory: Path) -> dict[int, tuple[bytes, bytes | None]]:
    """Return the trace and the rows of every dialogue of a sound directory."""
    found = examine(Disk(), directory)
    assert found.cuts == ()
    files = contents(directory)
    result: dict[int, tuple[bytes, bytes | None]] = {}
    for dialog in found.committed:
        _, start, length = dialog.trace
        rows: bytes | None = b"" if dialog.judged else None
        for _, begin, size in (piece for piece in dialog.rows if piece.file == TURN_EVAL):
            rows = files[TURN_EVAL][begin : begin + size]
        result[dialog.dataset_index] = (files[DIALOG_TRACE][start : start + length], rows)
    return result


def damage(run: Path, name: str, data: bytes) -> None:
    (run / name).write_bytes(data)


async def test_a_sound_run_is_copied_whole(tmp_path: Path) -> None:
    run = await make_run(tmp_path)
    before = contents(run)
    assert repair(run, tmp_path / "new") == Repaired(DIALOGS, DIALOGS - 1, ())
    assert state(tmp_path / "new") == state(run)
    after = contents(tmp_path / "new")
    for name in (
        "config.json",
        "run_manifest.json",
        "metrics_summary.json",
        DIALOG_TRACE,
        TURN_EVAL,
        JUDGEMENTS,
    ):
        assert after[name] == before[name], name
    assert contents(run) == before


async def test_a_changed_trace_costs_its_dialogue_alone(tmp_path: Path) -> None:
    run = await make_run(tmp_path)
    sound = state(run)
    data = (run / DIALOG_TRACE).read_bytes()
    place = data.index(b'{"t":7}')
    damage(run, DIALOG_TRACE, data.replace(b'{"t":7}', b'{"t":8}'))
    before = contents(run)
    repaired = repair(run, tmp_path / "new")
    assert (repaired.replays, repaired.judgements) == (DIALOGS - 1, DIALOGS - 2)
    assert [str(dropped) for dropped in repaired.dropped] == [
        f"dialog_trace.jsonl: offset {place}: replay of dialogue 'd7': the rows do not match their checksum",
        f"commits.log: offset {repaired.dropped[1].offset}: judged of dialogue 'd7': its replay is lost",
    ]
    del sound[7]
    assert state(tmp_path / "new") == sound
    assert contents(run) == before
    after = contents(tmp_path / "new")
    assert json.loads(after["run_manifest.json"]) == {"run_id": "r", "ended_at": None}
    assert after["config.json"] == before["config.json"]
    assert "metrics_summary.json" not in after


async def test_changed_rows_cost_the_judgement_and_keep_the_replay(tmp_path: Path) -> None:
    run = await make_run(tmp_path)
    sound = state(run)
    data = (run / TURN_EVAL).read_bytes()
    damage(run, TURN_EVAL, data.replace(b'{"r":5}', b'{"r":6}', 1))
    repaired = repair(run, tmp_path / "new")
    assert (repaired.replays, repaired.judgements) == (DIALOGS, DIALOGS - 2)
    sound[5] = (sound[5][0], None)
    assert state(tmp_path / "new") == sound


async def test_whatever_is_damaged_the_copy_is_sound_and_says_nothing_new(tmp_path: Path) -> None:
    whole = await make_run(tmp_path)
    sound = state(whole)
    for seed in range(length(60, 150)):
        run = shutil.copytree(whole, tmp_path / str(seed) / "r")
        damage_somewhere(run, random.Random(seed))
        before = contents(run)
        repaired = repair(run, tmp_path / str(seed) / "new")
        assert repaired.dropped, seed
        found = state(tmp_path / str(seed) / "new")
        assert repaired.replays == len(found), seed
        assert repaired.judgements == sum(rows is not None for _, rows in found.values()), seed
        for number, (trace, rows) in found.items():
            assert trace == sound[number][0], seed
            assert rows in (None, sound[number][1]), seed
        assert contents(run) == before, seed


def damage_somewhere(run: Path, draw: random.Random) -> None:
    """Damage files of a run at one to three places."""
    for _ in range(draw.randrange(1, 4)):
        name = draw.choice(FILES)
        data = bytearray((run / name).read_bytes())
        place = draw.randrange(len(data))
        match draw.randrange(4):
            case 0:
                data[place] ^= 1 << draw.randrange(8)
            case 1:
                del data[place:]
            case 2:
                del data[place : place + draw.randrange(1, 200)]
            case _:
                data[place:place] = draw.randbytes(draw.randrange(1, 200))
        damage(run, name, bytes(data) or b"x")


async def test_what_cannot_be_repaired_is_refused(tmp_path: Path) -> None:
    run = await make_run(tmp_path)
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="there: exists already"):
        repair(run, tmp_path / "there")
    with pytest.raises(UsageError, match=r"has no commits\.log"):
        repair(tmp_path / "there", tmp_path / "new")
    async with RunDirectory(run, tmp_path / "progress.jsonl", existing=True):
        with pytest.raises(UsageError, match="is in use"):
            repair(run, tmp_path / "new")
    (run / ".rewrite").mkdir()
    (run / ".rewrite" / "complete").touch()
    with pytest.raises(UsageError, match="is half rewritten"):
        repair(run, tmp_path / "new")
    assert not (tmp_path / "new").exists()


async def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    class Full(Disk):
        def fsync(self, descriptor: int) -> None:
            raise OSError(28, "No space left on device")

    run = await make_run(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        repair(run, tmp_path / "new", Full())
    assert not (tmp_path / "new").exists()
