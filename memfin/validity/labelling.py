"""Labels of a run's turns: their file, the draw of turns to label, and the agreement of readers."""

import fcntl
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from memfin.contracts import LabelledReply, Record, TurnEvalRow
from memfin.contracts.reading import decode_part, open_input, read_json
from memfin.contracts.validity import ADJUDICATED, LABEL_DRAW
from memfin.errors import UsageError
from memfin.journal.disk import Disk, file_of_temporary
from memfin.judges.stats import Coincidences
from memfin.metrics.interval import ratio_interval
from memfin.report import reader
from memfin.report.tables import FieldAgreement
from memfin.validity import measures
from memfin.validity.corrections import Turn, answers, read_run
from memfin.validity.label_plan import MORE, draw_turns

DEFAULT_NUMBER: Final = 100

More = Literal["detector", "unsure"]
Key = tuple[str, int, str]
"""Dialogue, turn and reader of a label."""


class DrawnTurn(Record):
    """A turn to label, and the probability with which it was drawn."""

    dialog_id: str
    turn: int
    probability: float


class LabelDraw(Record):
    """``label_draw.json``: the turns of a run that were drawn for labelling, in the order of reading.

    ``readers`` is how many readers label each turn; ``turn_eval_sha256`` is the hash of the rows.
    """

    number: int
    more: More | None
    seed: int
    readers: int
    turn_eval_sha256: str
    turns: list[DrawnTurn]


class StoredLabel(NamedTuple):
    """A label of the file, and the version that a change of it has to name."""

    label: LabelledReply
    version: str


class LabelConflict(UsageError):  # noqa: N818 - names what happened, as the other errors do
    """The label was changed meanwhile; ``stored`` is its present state."""

    def __init__(self, stored: StoredLabel) -> None:
        self.stored = stored
        super().__init__("the label was changed meanwhile")


class LabelStore:
    """A file of labels, one line per turn and reader, for several processes at once.

    A save rewrites the file beside the old one, and is on the medium when `save` returns. Readers of the
    file see the old or the new one. Lines that name no turn stay as they are.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path.resolve()
        self._disk: Final = Disk()

    def read(self) -> dict[Key, StoredLabel]:
        """Return the labels by dialogue, turn and reader.

        Raises:
            UsageError: a line is no labelled reply, or the file cannot be read.
        """
        keys = ((_key(stored.label), stored) for _, stored in self._lines())
        return {key: stored for key, stored in keys if key is not None}

    def save(self, label: LabelledReply, version: str) -> None:
        """Write a label in the place of the one of that version, "" for none.

        Raises:
            LabelConflict: the file has another version of this label.
            UsageError: as in `read`.
            OSError: the file cannot be written; it is unchanged.
        """
        new = _encoded(label)
        with self.locked():
            found = self._lines()
            lines = [line for line, _ in found]
            places = {_key(stored.label): place for place, (_, stored) in enumerate(found)}
            place = places.get(_key(label))
            if place is not None:
                if lines[place] != new and found[place][1].version != version:
                    raise LabelConflict(found[place][1])
                lines[place] = new
            elif version:
                raise UsageError(f"{self.path}: the label of {label.id!r} was removed; open its page again")
            else:
                lines.append(new)
            self._disk.write_whole(self.path, b"".join(line + b"\n" for line in lines))
            self._disk.fsync_directory(self.path.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other processes and threads, and remove what a crash left behind."""
        directory, name = self.path.parent, self.path.name
        lock = directory / f".{name}.lock"
        with self._disk.opening(lock, os.O_RDWR | os.O_CREAT) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            for left in self._disk.names(directory):
                if file_of_temporary(left) == name:
                    self._disk.unlink(directory / left)
            yield

    def _lines(self) -> list[tuple[bytes, StoredLabel]]:
        if not self.path.exists():
            return []
        with open_input(self.path) as file:
            lines = enumerate(file.read().split(b"\n"), start=1)
        return [
            (text, StoredLabel(decode_part(text, LabelledReply, f"{self.path}:{number}"), _version(text)))
            for number, line in lines
            if (text := line.strip())
        ]


def _version(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]


def _key(label: LabelledReply) -> Key | None:
    if label.dialog_id is None or label.turn is None:
        return None
    return label.dialog_id, label.turn, label.reader or ""


def _encoded(label: LabelledReply) -> bytes:
    """Return a label as a line of JSON, without the fields that are not labelled."""
    fields = _given_fields(label)
    if label.marks:
        fields["marks"] = list(map(_given_fields, label.marks))
    return msgspec.json.encode(fields)


def _given_fields(record: Record) -> dict[str, Any]:
    return {name: value for name in record if (value := record[name]) is not None}


def open_draw(
    run_dir: Path,
    store: LabelStore,
    *,
    number: int | None = None,
    more: More | None = None,
    seed: int | None = None,
    readers: int | None = None,
) -> LabelDraw:
    """Return the draw beside a file of labels; the first time, draw the turns.

    Options that are None are those of the draw that is there; of a new one the defaults.

    Raises:
        UsageError: the run is not finished or has no turn to label, the draw that is there is of other
            options or other rows, or there are labels without a draw.
    """
    reader.require_run_directory(run_dir)
    path = store.path.with_name(LABEL_DRAW)
    digest = reader.rows_sha256(run_dir)
    with store.locked():
        if path.is_file():
            draw = read_json(path, LabelDraw)
            if bad := next((each for each in draw.turns if not 0 < each.probability <= 1), None):
                raise UsageError(
                    f"{path}: the probability {bad.probability:g} of turn {bad.turn} of {bad.dialog_id!r} is "
                    "not above 0 and at most 1; draw again in another directory with --labels"
                )
            wanted = {"draw": number, "more": more, "seed": seed}
            made = {"draw": draw.number, "more": draw.more, "seed": draw.seed}
            if other := [name for name, value in wanted.items() if value not in (None, made[name])]:
                raise UsageError(
                    f"{path}: the turns were drawn with --{other[0]} {made[other[0]] or 'none'}; go on "
                    f"without --{other[0]}, or name another directory with --labels for a draw of its own"
                )
            if draw.turn_eval_sha256 != digest:
                raise UsageError(
                    f"{path}: drawn from other rows than those of {run_dir}; label them in another directory "
                    "with --labels"
                )
            if readers in (None, draw.readers):
                return draw
            draw = draw.replace(readers=readers)
        else:
            if store.path.is_file() and store.path.stat().st_size:
                raise UsageError(
                    f"{store.path}: it has labels, and there is no {LABEL_DRAW} beside it; name another file "
                    "with --labels"
                )
            number, seed = number or DEFAULT_NUMBER, seed or 0
            draw = LabelDraw(
                number=number,
                more=more,
                seed=seed,
                readers=readers or 1,
                turn_eval_sha256=digest,
                turns=_draw(run_dir, number, more, seed),
            )
        disk = Disk()
        disk.write_whole(path, msgspec.json.format(msgspec.json.encode(draw), indent=1) + b"\n")
        disk.fsync_directory(path.parent)
    return draw


def _draw(run_dir: Path, number: int, more: More | None, seed: int) -> list[DrawnTurn]:
    turns = read_run(run_dir).turns
    if not turns:
        raise UsageError(f"{run_dir}: no turn carries a rate that labels correct; there is nothing to label")
    if more == "unsure":
        doubted = {
            (row.dialog_id, row.turn_pair_id)
            for row in reader.scan(run_dir / reader.ROWS, TurnEvalRow)
            if row.get("unsure") or row.get("judge_spread") or row.get("judge_changed")
        }
        turns = [each._replace(flagged=each.turn in doubted) for each in turns]
    drawn = draw_turns(turns, number, MORE if more else 1.0, seed)
    return [DrawnTurn(dialog_id=turn[0], turn=turn[1], probability=p) for turn, p in drawn.items()]


def by_turn(labels: Iterable[LabelledReply]) -> dict[Turn, dict[str, LabelledReply]]:
    """Return the labels of each turn by reader, in the order of their names."""
    found: defaultdict[Turn, dict[str, LabelledReply]] = defaultdict(dict)
    for label in sorted(labels, key=lambda each: each.reader or ""):
        if label.turn is not None:
            found[label.dialog_id or "", label.turn][label.reader or ""] = label
    return found


def differences(readings: Mapping[str, LabelledReply]) -> list[tuple[str, str]]:
    """Return the questions that readers of a turn answer differently."""
    return [question for question, given in _given(readings).items() if len(set(given)) > 1]


def _given(readings: Mapping[str, LabelledReply]) -> dict[tuple[str, str], list[Any]]:
    """Return the answers of the readers of a turn by question, without adjudicated ones."""
    given: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
    for name, label in readings.items():
        if name != ADJUDICATED:
            for question, answer in answers(label).items():
                given[question].append(answer)
    return given


def agreement(labels: Iterable[LabelledReply]) -> list[FieldAgreement]:
    """Return the agreement of readers by field, without adjudicated labels."""
    coincidences: defaultdict[str, Coincidences[Any]] = defaultdict(lambda: Coincidences("nominal"))
    matrices: defaultdict[str, Counter[tuple[Any, Any]]] = defaultdict(Counter)
    dialogs: defaultdict[str, defaultdict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for (dialog, _), readings in by_turn(labels).items():
        for (field, _), values in _given(readings).items():
            coincidences[field].add(values)
            for place, one in enumerate(values):
                for other in values[place + 1 :]:
                    matrices[field][one, other] += 1
                    dialogs[field][dialog].append(one == other)
    found = []
    for field, matrix in matrices.items():
        result = coincidences[field].agreement()
        assert result is not None  # noqa: S101 - there is a pair
        bounds = ratio_interval([(sum(each), len(each)) for each in dialogs[field].values()])
        found.append(
            FieldAgreement(
                field=field,
                units=result.units,
                observed=result.observed,
                kappa=measures.kappa(matrix),
                kappa_bounds=measures.kappa_bounds(matrix, bounds),
                alpha=result.alpha,
            )
        )
    return sorted(found)
