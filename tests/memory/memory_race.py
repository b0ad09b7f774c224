"""A hundred readers race the revocations of one user's consent.

``python -m tests.memory.memory_race ROOT ROUNDS`` grants and revokes again and again. Every reader is a
process of its own that stops itself somewhere in a read. In each round one of them goes on beside the
revocation, and all the others are in the middle of a read. Every read is compared with the versions that
were acknowledged before it and begun until its end. Prints a `Stats` as JSON.
"""

import gc
import mmap
import os
import random
import re
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from memfin.memory import MemoryStore
from memfin.memory.files import temporary
from tests.memory.memory_disks import UnsyncedFiles
from tests.memory.memory_world import EVERYTHING, open_store, preferences

USER: Final = "u1"
READERS: Final = 100
_LOOKS: Final = 9
_MARK: Final = re.compile(rb"mark-([0-9]{7})")
_BEGUN, _ACKNOWLEDGED, _OVER = range(3)


class Stats(msgspec.Struct):
    """What the readers found.

    Attributes:
        reads: by each reader.
        known: how many reads gave a profile.
        min_met: in the middle of how many reads a revocation came, at least.
        wrong: how many reads gave what no version gives from the last acknowledged before them to the
            last begun until their end.
    """

    reads: list[int]
    known: int
    min_met: int
    wrong: int


class Board:
    """What all processes see: versions begun and acknowledged, counts and a row of bytes a reader."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.numbers = memoryview(mmap.mmap(-1, 8 * 3)).cast("Q")
        self.reads, self.known, self.wrong = (
            memoryview(mmap.mmap(-1, 8 * READERS)).cast("Q") for _ in range(3)
        )
        self.rows = [memoryview(mmap.mmap(-1, 2 * rounds + 3)) for _ in range(READERS)]

    def stats(self) -> Stats:
        """Return what is on the board; the first revocation is that of the preparations."""
        met = map(sum, zip(*(row[4::2] for row in self.rows), strict=True))
        return Stats(list(self.reads), sum(self.known), min(met), sum(self.wrong))


class HaltingFiles(UnsyncedFiles):
    """Stops the process at one of its next looks at a file, until the race is over."""

    def __init__(self, board: Board, reader: int) -> None:
        self._board = board
        self._chance = random.Random(reader)
        self._left = 0

    def arm(self) -> None:
        """Stop the process at the next look."""
        self._left = 1

    def load(self, path: Path) -> bytes | None:
        data = super().load(path)
        self._left -= 1
        if self._left == 0 and not self._board.numbers[_OVER]:
            self._left = self._chance.randint(1, _LOOKS)
            os.kill(os.getpid(), signal.SIGSTOP)
            if self._chance.random() < 0.5:  # the look may as well come afterwards
                data = super().load(path)
        return data


class Grants:
    """Puts consent in force: now and then as everybody does, mostly by laying the same files."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        store.grant_consent(USER, EVERYTHING, preferences("mark-0000001"))
        self.known = given(store)
        self._consent = store.workspace.paths.consent(USER)
        (self._profile,) = store.workspace.paths.profiles(USER).iterdir()
        self._consent_data = self._consent.read_bytes()
        self._profile_data = self._profile.read_bytes()
        store.revoke_consent(USER)

    def grant(self, version: int) -> None:
        """Grant a version: profile first, then the consent that names it."""
        mark = f"mark-{version:07d}"
        if version % 100 == 1:
            assert self._store.grant_consent(USER, EVERYTHING, preferences(mark)).version == version
            return
        profile = self._profile_data.replace(b"mark-0000001", mark.encode())
        consent = self._consent_data.replace(b"version: 1\n", b"version: %d\n" % version, 1)
        self._profile.parent.mkdir()
        self._profile.write_bytes(
            profile.replace(b'"consent_version":1,', b'"consent_version":%d,' % version)
        )
        temporary(self._consent).write_bytes(consent)
        temporary(self._consent).replace(self._consent)


def given(store: MemoryStore) -> bytes:
    """Return all that memory gives a task, as bytes."""
    return msgspec.json.encode(store.load_memory_slices(USER, "thread_refresh"))


def read_on(store: MemoryStore, board: Board, reader: int, stranger: bytes, known: bytes) -> None:
    """Read until the race is over, and once more."""
    numbers, row = board.numbers, board.rows[reader]
    over = 0
    while not over:
        over = numbers[_OVER]
        before = numbers[_ACKNOWLEDGED]
        found = given(store)
        after = numbers[_BEGUN]
        if found == stranger:  # of a revocation, which has an even number
            fits = before % 2 == 0 or after > before
        else:
            mark = _MARK.search(found)
            fits = mark is not None and before <= int(mark[1]) <= after and int(mark[1]) % 2 == 1
            fits = fits and _MARK.sub(b"mark-0000001", found) == known
        board.wrong[reader] += not fits
        board.known[reader] += found != stranger
        board.reads[reader] += 1
        row[before + 1 : after + 1] = b"\1" * (after - before)


def begun(root: Path, board: Board, reader: int, stranger: bytes, known: bytes) -> int:
    """Return the process of a reader that has stopped in its first read."""
    process = os.fork()
    if process == 0:
        try:
            files = HaltingFiles(board, reader)
            store = open_store(root, files=files)
            files.arm()
            read_on(store, board, reader, stranger, known)
        except BaseException:  # noqa: BLE001 - a child has nobody to tell
            board.wrong[reader] += 1
        os._exit(0)
    os.waitpid(process, os.WUNTRACED)
    return process


def race(store: MemoryStore, board: Board, grants: Grants, readers: list[int]) -> None:
    """Grant and revoke; the reader whose turn it is goes on while it revokes."""
    numbers = board.numbers
    for number in range(board.rounds):
        process = readers[number % READERS]
        numbers[_BEGUN] += 1
        grants.grant(numbers[_BEGUN])
        numbers[_ACKNOWLEDGED] += 1
        numbers[_BEGUN] += 1
        os.kill(process, signal.SIGCONT)
        numbers[_ACKNOWLEDGED] = store.revoke_consent(USER).version
        os.waitpid(process, os.WUNTRACED)
    numbers[_OVER] = 1
    for process in readers:
        os.kill(process, signal.SIGCONT)


def main(root: Path, rounds: int) -> None:
    """Race, and print the stats."""
    board = Board(rounds)
    with open_store(root) as store:
        stranger = given(store)
        grants = Grants(store)
        board.numbers[_BEGUN] = board.numbers[_ACKNOWLEDGED] = 2
        gc.freeze()  # what the processes share stays shared
        gc.disable()
        readers: list[int] = []
        try:
            for reader in range(READERS):
                process = begun(root, board, reader, stranger, grants.known)
                readers.append(process)
            race(store, board, grants, readers)
        except BaseException:
            for process in readers:
                os.kill(process, signal.SIGKILL)
            raise
        for process in readers:
            os.waitpid(process, 0)
    sys.stdout.buffer.write(msgspec.json.encode(board.stats()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
