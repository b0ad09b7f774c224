"""Whatever ends an operation, and wherever: what is there afterwards is what was before it, or after it."""

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from memfin.errors import RunFault
from memfin.memory.paths import STATE
from tests.memory.memory_disks import (
    CountedFiles,
    DyingFiles,
    FailingFiles,
    Killed,
    PoweredFiles,
    laid_out,
    steps_of,
    tree,
)
from tests.memory.memory_endings import (
    CHANGES,
    KILLED,
    LATER,
    USER,
    Change,
    begun,
    changed,
    legal_states,
    state_of,
    tried,
)
from tests.memory.memory_rooms import quick_room
from tests.memory.memory_world import Clock, open_store
from tests.support import length


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return begun(tmp_path_factory.mktemp("begun"))


def steps(room: Path, start: dict[str, bytes], change: Change) -> int:
    """Return how many steps opening a store and changing something take."""
    root = laid_out(room / "counted", start)
    return steps_of(lambda files: changed(root, change, files)).steps


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int, int, str]]:
    with quick_room(tmp_path_factory.mktemp("killed")) as room:
        command = [sys.executable, "-m", "tests.memory.memory_kill", str(room)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, tuple[int, int, int, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", KILLED)
def test_a_process_that_is_killed_at_any_step_leaves_one_of_the_two_states(
    name: str, killed: dict[str, tuple[int, int, int, str]], start: dict[str, bytes], tmp_path: Path
) -> None:
    """And no reader meets any other state meanwhile, least of all a profile that is revoked."""
    times, before, after, wrong = killed[name]
    assert not wrong
    assert times == -(-steps(tmp_path, start, KILLED[name]) // length(5, 1)) == before + after
    assert min(before, after) > 0


class _OneLine(Exception):  # noqa: N818 - what was looked for
    pass


@contextmanager
def one_line(root: Path) -> Iterator[None]:
    """Check that a fault, if there is one, is told in one line that names the root."""
    try:
        yield
    except RunFault as fault:
        if "\n" not in str(fault) and str(root) in str(fault):
            raise _OneLine from fault
        raise


@pytest.mark.parametrize("name", CHANGES)
def test_a_step_that_the_system_refuses_is_told_in_one_line_and_heals(
    name: str, start: dict[str, bytes], tmp_path: Path
) -> None:
    before, after = legal_states(tmp_path, start, CHANGES[name])
    total = steps(tmp_path, start, CHANGES[name])
    for step in tried(total):
        root = laid_out(tmp_path / str(step), start)
        failing = FailingFiles(step, errno.ENOSPC, for_good=bool(step % 2))
        with suppress(_OneLine), one_line(root):
            changed(root, CHANGES[name], failing)
        with open_store(root, Clock(LATER)) as healed:
            assert state_of(root, healed) in (before, after), step
        shutil.rmtree(root)


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_acknowledged_survives_the_loss_of_power(
    name: str, start: dict[str, bytes], tmp_path: Path
) -> None:
    _, after = legal_states(tmp_path, start, CHANGES[name])
    root = tmp_path / "powered"
    files = PoweredFiles(root)
    files.adopt(laid_out(root, start))
    changed(root, CHANGES[name], files)
    survivors = {path: data for path, data in files.survivors().items() if not path.startswith(STATE)}
    assert survivors == after.files


@pytest.mark.parametrize("name", CHANGES)
def test_a_loss_of_power_at_any_step_leaves_one_of_the_two_states(
    name: str, start: dict[str, bytes], tmp_path: Path
) -> None:
    before, after = legal_states(tmp_path, start, CHANGES[name])
    total = steps(tmp_path, start, CHANGES[name])
    last: dict[str, bytes] = {}
    for step in tried(total)[1:]:
        root = tmp_path / str(step)
        files = PoweredFiles(root, fail_at=step)
        files.adopt(laid_out(root, start))
        with pytest.raises(Killed):
            changed(root, CHANGES[name], files)
        shutil.rmtree(root)
        if files.survivors() == last:  # what is done about it depends on that alone
            continue
        last = files.survivors()
        dark = laid_out(tmp_path / f"{step}-dark", last)
        with open_store(dark, Clock(LATER)) as restarted:
            assert state_of(dark, restarted) in (before, after), step
        shutil.rmtree(dark)


def test_an_interrupted_revocation_is_finished_by_the_next_write_of_another_process(
    start: dict[str, bytes], tmp_path: Path
) -> None:
    _, after = legal_states(tmp_path, start, CHANGES["revoke"])
    counted = CountedFiles()
    root = laid_out(tmp_path / "root", start)
    changed(laid_out(tmp_path / "counted", start), CHANGES["revoke"], counted)
    renamed = counted.steps.index(("replace", str(tmp_path / "counted" / "consents" / f"{USER}.yaml")))
    with open_store(root, Clock(LATER)) as other:
        with pytest.raises(Killed):
            changed(root, CHANGES["revoke"], DyingFiles(renamed + 2))
        assert other.read_profile(USER) is None
        assert tree(root) != after.files
        other.revoke_consent(USER)
        assert tree(root) == after.files


def test_an_interrupted_deletion_is_finished_by_the_sweep(start: dict[str, bytes], tmp_path: Path) -> None:
    _, after = legal_states(tmp_path, start, CHANGES["delete"])
    total = steps(tmp_path, start, CHANGES["delete"])
    root = laid_out(tmp_path / "root", start)
    with open_store(root, Clock(LATER)) as other:
        with pytest.raises(Killed):
            changed(root, CHANGES["delete"], DyingFiles(total // 2))
        assert tree(root) != after.files
        assert other.expire().finished == 1
        assert tree(root) == after.files
