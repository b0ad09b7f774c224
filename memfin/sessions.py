"""Sessions of clients in a dataset: their order, what came before each, and an index by id."""

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from memfin.contracts import Dialog, EarlierSession
from memfin.contracts.reading import BOM, Line, iter_lines
from memfin.dataset import DatasetEntry, SpooledDataset, check_dataset_file, read_entries, read_entry
from memfin.errors import RunFault
from memfin.shards import Shard

_USER: Final = b'"user_id"'


class ClientSessions:
    """Sessions of the clients of a dataset: their places in the file, in the order in which they are held.

    A session stands by its ``session_index``; one without stands after the client's session before it in
    the dataset. Of equals the earlier line is the earlier session. Memory holds places, and the sessions of
    the client asked for last; a file without ``user_id`` is only searched for it.
    """

    def __init__(self, file: BinaryIO, limit: int | None = None) -> None:
        """Read the places of the first ``limit`` lines of a file, and go back to its beginning.

        Raises:
            OSError: the file cannot be read.
        """
        self._places: dict[str, array[int]] = {}
        self._last: tuple[str, list[DatasetEntry]] = ("", [])
        file.seek(0)
        if any(_USER in line.data for line in islice(iter_lines(file), limit)):
            self._read(file, limit)
        file.seek(0)

    def _read(self, file: BinaryIO, limit: int | None) -> None:
        found: dict[str, list[tuple[int, int, int]]] = {}
        file.seek(0)
        start = 0
        for entry in read_entries(file, limit):
            end = file.tell()
            if entry.dialog is not None and entry.user_id is not None:
                before = found.setdefault(entry.user_id, [])
                place = before[-1][0] if before else 0
                given = entry.dialog.session_index
                before.append((place if given is None else given, entry.dataset_index, start))
            start = end
        for user, places in found.items():
            ordered = sorted(places)
            self._places[user] = array("q", [value for _, *place in ordered for value in place])

    def of(self, user_id: str, file: BinaryIO) -> list[DatasetEntry]:
        """Return a client's sessions in order, counted from 1, each with those ``earlier``.

        Raises:
            RunFault: the file has changed.
            OSError: it cannot be read.
        """
        if self._last[0] != user_id:
            self._last = (user_id, [*self._entries(user_id, file)])
        return self._last[1]

    def _entries(self, user_id: str, file: BinaryIO) -> Iterator[DatasetEntry]:
        place, earlier = file.tell(), list[EarlierSession]()
        numbers = iter(self._places[user_id])
        for index, (number, start) in enumerate(zip(numbers, numbers, strict=True), 1):
            file.seek(start)
            line = next(iter_lines(file), None)
            entry = None if line is None else read_entry(line._replace(number=number))
            if entry is None or entry.dialog is None or entry.user_id != user_id:
                raise RunFault(f"dataset: line {number} is not as it was when the dataset was opened")
            dialog = entry.dialog.replace(session_index=index, earlier=[*earlier])
            yield entry.replace(dialog=dialog)
            earlier.append(
                EarlierSession(
                    dialog_id=dialog.dialog_id,
                    session_index=index,
                    session_time=dialog.session_time,
                    facts=dialog.facts,
                )
            )
        file.seek(place)

    def completed(self, entry: DatasetEntry, file: BinaryIO) -> DatasetEntry:
        """Return an entry with the place of its session and the ones before; others as they are."""
        user, line = entry.user_id, entry.dataset_index
        sessions = self.of(user, file) if user is not None and user in self._places else ()
        return next((each for each in sessions if each.dataset_index == line), entry)

    def batches(self, entries: Iterable[DatasetEntry], file: BinaryIO) -> Iterator[list[DatasetEntry]]:
        """Yield the entries one by one, but a client's sessions together where their first line stands."""
        for entry in entries:
            user = entry.user_id
            if user is None or user not in self._places:
                yield [entry]
            elif entry.dataset_index == min(self._places[user][::2]):
                yield self.of(user, file)


class DatasetIndex:
    """Index of the dialogues of a dataset by id, with their places in the file.

    Sessions of clients have their places among the first ``limit`` lines, as in a run with that limit.

    Raises:
        UsageError: on construction, if the file is not a usable dataset.
        OSError: if the file cannot be read.
    """

    def __init__(self, path: Path, limit: int | None = None) -> None:
        check_dataset_file(path)
        self.path = path
        self._places: dict[str, tuple[int, int, int]] = {}
        with path.open("rb") as file:
            self._sessions = ClientSessions(file, limit)
            start = 0
            for line in iter_lines(file):
                end = file.tell()
                entry = read_entry(line)
                if entry.dialog is not None:
                    self._places.setdefault(entry.dialog_id, (start, end - start, line.number))
                start = end

    def get(self, dialog_id: str) -> Dialog | None:
        """Return the valid dialogue of that id, the first if there are several, or None."""
        place = self._places.get(dialog_id)
        if place is None:
            return None
        start, length, number = place
        with self.path.open("rb") as file:
            file.seek(start)
            data = file.read(length).strip().removeprefix(BOM)
            return self._sessions.completed(read_entry(Line(number, data)), file).dialog

    def __len__(self) -> int:
        return len(self._places)


def shard_lines(dataset: Path | SpooledDataset, shard: Shard, limit: int | None = None) -> int:
    """Return the number of lines that a shard holds of the first ``limit`` ones.

    Raises:
        OSError: the file cannot be read.
    """
    held = 0
    with dataset.open("rb") as file:
        for line in islice(iter_lines(file), limit):
            if _USER in line.data:
                break
            held += shard.holds(line.number)
        else:
            return held
        file.seek(0)
        return sum(shard.holds(entry.dataset_index, entry.user_id) for entry in read_entries(file, limit))
