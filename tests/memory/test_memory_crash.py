"""Whatever ends an operation, and wherever: what is there afterwards is what was before it, or after it."""

import errno
import os
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
    LATER,
    USER,
    Change,
    begun,
    changed,
    legal_states,
    state_of,
)
from tests.memory.memory_world import Clock, open_store

STRIDE = int(os.environ.get("MEMFIN_TEST_STRIDE", "4"))
"""How many steps apart refused steps and losses of power are tried; set it to 1 to try all."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return begun(tmp_path_factory.mktemp("begun"))


def steps(room: Path, start: dict[str, bytes], change: Change) -> int:
    """Return how many steps opening a store and changing something take."""
    root = laid_out(room / "counted", start)
    return steps_of(lambda files: changed(root, change, files)).steps


@pytest.mark.parametrize("name", ["first-grant", "grant-less", "revoke", "delete"])
def test_a_process_that_dies_at_any_step_leaves_one_of_the_two_states(
    name: str, start: dict[str, bytes], tmp_path: Path
) -> None:
    before, after = legal_states(tmp_path, start, CHANGES[name])
    assert before != after
    seen = set()
    for step in range(1, steps(tmp_path, start, CHANGES[name]) + 1):
        root = laid_out(tmp_path / str(step), start)
        with open_store(root, Clock(LATER)) as witness:
            with pytest.raises(Killed):
                changed(root, CHANGES[name], DyingFiles(step))
            profiles = state_of(root, witness).profiles
        with open_store(root, Clock(LATER)) as restarted:
            state = state_of(root, restarted)
        assert state in (before, after), step
        # A deletion that is settled, and not acknowledged, may be read until somebody finishes it.
        assert profiles == state.profiles or (name == "delete" and profiles == before.profiles), step
        seen.add(state == after)
        shutil.rmtree(root)
    assert seen == {False, True}


@pytest.mark.parametrize("name", CHANGES)
def test_a_process_that_is_killed_at_any_step_leaves_one_of_the_two_states(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.memory.memory_kill", name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    killed, before, after = map(int, done.stdout.split())
    assert killed == before + after
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
    for step in range(1, total + 1, STRIDE):
        root = laid_out(tmp_path / str(step), start)
        failing = FailingFiles(step, errno.ENOSPC, for_good=bool(step // STRIDE % 2))
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
    for step in range(2, total + 1, STRIDE):
        root = tmp_path / str(step)
        files = PoweredFiles(root, fail_at=step)
        files.adopt(laid_out(root, start))
        with pytest.raises(Killed):
            changed(root, CHANGES[name], files)
        dark = laid_out(tmp_path / f"{step}-dark", files.survivors())
        with open_store(dark, Clock(LATER)) as restarted:
            assert state_of(dark, restarted) in (before, after), step
        shutil.rmtree(root)
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
