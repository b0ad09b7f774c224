"""Files of a run are the user's own: no link in a run directory is followed, and others may not read them."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import memfin
from memfin.errors import RunFault, UsageError
from memfin.journal import DIALOG_TRACE, TURN_EVAL, Entry, RunDirectory, progress_path
from memfin.journal.disk import Disk, file_of_temporary, temporary_path
from memfin.journal.lock import LOCK
from memfin.report import write_reports
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.soak_plan import make_soak_resume_plan
from tests.support import dataset

SAID = "is a symbolic link, which is not followed in a run directory"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Return the directory of a complete run."""
    data = dataset(tmp_path / "d.jsonl", 2, 1)
    await memfin.evaluate(data, agent="echo", judge="none", runs_dir=tmp_path / "runs", run_id="r")
    return tmp_path / "runs" / "r"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"precious")
    return path


def is_untouched(victim: Path) -> bool:
    return victim.read_bytes() == b"precious"


def files_of(run: Path) -> list[Path]:
    return list(run.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "name",
    [
        *(LOCK, "commits.log", DIALOG_TRACE, "config.json", "run_manifest.json", "turns.log", ".rewrite"),
        *(".metrics_summary.json.tmp", "metrics_summary.json", "report.html"),
    ],
)
async def test_resume_refuses_a_directory_with_a_link(run: Path, victim: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    with pytest.raises(UsageError) as refused:
        make_resume_plan(run)
    assert str(refused.value) == f"{run / name}: {SAID}; put the file itself there"
    assert is_untouched(victim)


async def test_resume_refuses_what_would_block_it(run: Path) -> None:
    os.mkfifo(run / "turns.log")
    with pytest.raises(UsageError, match=r"turns\.log: is no regular file; remove it"):
        make_resume_plan(run)


@pytest.mark.parametrize("name", [LOCK, "commits.log", TURN_EVAL, "turns.log"])
async def test_a_link_that_appears_later_is_not_followed_either(run: Path, victim: Path, name: str) -> None:
    plan = make_resume_plan(run)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    with pytest.raises(RunFault, match=f"{name}: {SAID}"):
        await Run(plan).run()
    assert is_untouched(victim)


async def test_the_progress_log_is_no_link(run: Path, victim: Path) -> None:
    log = progress_path(run.parent, "r")
    log.unlink()
    log.symlink_to(victim)
    with pytest.raises(RunFault, match=SAID):
        await Run(make_resume_plan(run)).run()
    assert is_untouched(victim)


async def test_a_run_takes_no_name_with_a_linked_lock(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / LOCK).symlink_to(victim)
    with pytest.raises(UsageError, match=SAID):
        async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r")):
            raise AssertionError("opened")
    assert is_untouched(victim)


async def test_whole_files_replace_a_link_and_their_temporary_names_are_drawn(
    tmp_path: Path, victim: Path
) -> None:
    opened: list[str] = []

    class Watched(Disk):
        def open(self, path: Path, flags: int) -> int:
            opened.append(path.name)
            return super().open(path, flags)

    (tmp_path / "a.json").symlink_to(victim)
    (tmp_path / ".a.json.tmp").symlink_to(victim)
    for _ in range(2):
        Watched().write_whole(tmp_path / "a.json", b"{}")
    assert (tmp_path / "a.json").read_bytes() == b"{}"
    assert not (tmp_path / "a.json").is_symlink()
    assert len(set(opened)) == 2
    assert [file_of_temporary(name) for name in opened] == ["a.json", "a.json"]
    assert is_untouched(victim)


def test_a_temporary_name_that_is_taken_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda length: "0" * 2 * length)
    taken = temporary_path(tmp_path / "a.json")
    taken.touch()
    with pytest.raises(OSError, match="File exists") as refused:
        Disk().write_whole(tmp_path / "a.json", b"{}")
    assert refused.value.errno == errno.EEXIST
    assert not (tmp_path / "a.json").exists()


async def test_what_a_crash_left_of_writing_a_file_is_cleared_away(run: Path) -> None:
    left = [temporary_path(run / "config.json"), temporary_path(run / "turns.log"), run / ".turns.log.tmp"]
    for path in left:
        path.write_bytes(b"half")
    (run / ".hidden").write_bytes(b"the user's own")
    await Run(make_resume_plan(run)).run()
    assert not any(path.exists() for path in left)
    assert (run / ".hidden").exists()


async def test_a_run_directory_that_is_a_link_itself_is_what_the_user_named(run: Path) -> None:
    run.with_name("latest").symlink_to(run)
    summary = await Run(make_resume_plan(run.with_name("latest"))).run()
    assert summary.run_id == "r"


@pytest.mark.parametrize("where", ["soak.jsonl", "epochs", "epochs/000001", "epochs/logs"])
async def test_a_soak_with_a_link_is_refused(run: Path, where: str) -> None:
    (run / "soak_summary.json").write_bytes(b"{}")
    link = run / where
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(run.parent)
    with pytest.raises(UsageError, match=f"{where}: {SAID}"):
        make_soak_resume_plan(run)


async def test_a_run_is_open_to_its_user_alone(run: Path) -> None:
    write_reports(run)
    assert mode(run.parent) == 0o755  # as any directory of the user
    assert (mode(run), mode(run.parent / "logs")) == (0o700, 0o700)
    files = [*files_of(run), progress_path(run.parent, "r")]
    assert {mode(path) for path in files} == {0o600}
    assert {"report.html", "config.json", DIALOG_TRACE, LOCK} <= {path.name for path in files}


async def test_a_directory_that_its_user_has_opened_stays_open(run: Path) -> None:
    for path, bits in ((run, 0o750), (run / "turn_eval.jsonl", 0o640)):
        path.chmod(bits)
    await Run(make_resume_plan(run)).run()
    assert (mode(run), mode(run / "turn_eval.jsonl")) == (0o750, 0o640)
    assert mode(run / "metrics_summary.json") == 0o640


async def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir(0o755)
    async with RunDirectory(tmp_path / "r", progress_path(tmp_path, "r")) as directory:
        await directory.commit([Entry("replay", 1, "d", {DIALOG_TRACE: [b"{}"]})])
    assert (mode(tmp_path / "r"), mode(tmp_path / "r" / DIALOG_TRACE)) == (0o755, 0o644)
