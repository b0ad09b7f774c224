"""Datasets of dialogues: reading, validation, normalisation, pairing of turns."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from inspect import isroutine
from itertools import islice, pairwise
from math import isnan
from pathlib import Path
from typing import (
    Any,
    BinaryIO,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    runtime_checkable,
)

import msgspec

from memfin.contracts import (
    Blueprint,
    Dialog,
    Difficulty,
    Fact,
    Probe,
    ProfileTruth,
    Record,
    SkipReason,
    Turn,
    TurnPair,
    TurnTags,
)
from memfin.contracts.clients import ClientSheet, sheet_problems
from memfin.contracts.pressure import Perturbation
from memfin.contracts.reading import BOM, Line, canonical_difficulty, iter_lines, upgrade
from memfin.errors import RunFault, UsageError
from memfin.sandbox.plugins import plugin_reference
from memfin.sandbox.references import describe, import_object

SAMPLE: Final = Path(__file__).parent / "data" / "datasets" / "sample.jsonl"
"""The dataset that ships with MemFin."""

CLIENTS: Final = SAMPLE.with_name("clients.jsonl")
"""Clients with several sessions each, which ship with MemFin; the dataset's name is ``clients``."""

GOALS: Final = SAMPLE.with_name("goals.jsonl")
"""Sheets of simulated clients, each with a scripted dialogue; the dataset's name is ``goals``."""

SHIPPED: Final = {f"builtin:{path.name}": path for path in (SAMPLE, CLIENTS, GOALS)}
"""The datasets that ship with MemFin, by the path that a run of one records."""

D = TypeVar("D")

_FORMS: Final = "path of an existing JSONL file, pkg.module:name"
_NAME: Final = re.compile(r"[^/\\.\0]+|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_PIECE: Final = 1024 * 1024
_SHOWN: Final = 80


@runtime_checkable
class DatasetSource(Protocol):
    """Source of dialogues, read once before the first call of a run."""

    def read(self) -> Iterator[bytes | dict[str, Any]]:
        """Yield dialogues in order, each as a dictionary or as one line of JSON."""
        ...


class _PandasFrame(Protocol):
    itertuples: Callable[..., Any]


class _PolarsFrame(Protocol):
    iter_rows: Callable[..., Any]


DatasetLike = (
    str | os.PathLike[str] | DatasetSource | Iterable[bytes | Mapping[str, Any]] | _PandasFrame | _PolarsFrame
)
"""A path of a JSONL file, or dialogues: a source, an iterable of dictionaries, or a data frame of them."""


class Problem(NamedTuple):
    """Defect of a line: the reason of the contract, the path, and a message."""

    reason: SkipReason
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidDialogError(ValueError):
    """An invalid dialogue; ``problem`` has the reason, the path and a message."""

    def __init__(self, reason: SkipReason, path: str, message: str) -> None:
        self.problem = Problem(reason, path, message)
        super().__init__(str(self.problem))


class DatasetEntry(Record):
    """One line of a dataset: a valid dialogue, or the reason why it is skipped.

    ``dataset_index`` is the 1-based line number; ``scenario_type`` and ``difficulty`` are kept for
    skipped lines, too, if readable.
    """

    dataset_index: int
    dialog_id: str
    dialog: Dialog | None = None
    skip_reason: SkipReason | None = None
    detail: str | None = None
    scenario_type: str | None = None
    difficulty: Difficulty | None = None

    @property
    def user_id(self) -> str | None:
        """The client of a valid dialogue that is a session."""
        return None if self.dialog is None else self.dialog.user_id


def load_dataset_jsonl(dataset_path: str | Path) -> list[dict[str, Any]]:
    """Return the objects of a JSONL dataset as they are, all at once.

    Raises:
        OSError: the file cannot be read.
        json.JSONDecodeError: a line is not valid JSON; the message names the line.
    """
    objects: list[dict[str, Any]] = []
    with Path(dataset_path).open("rb") as file:
        for line in iter_lines(file):
            if line.too_long:
                raise json.JSONDecodeError(f"line {line.number}: longer than 16 MiB", "", 0)
            try:
                objects.append(msgspec.json.decode(line.data))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
                text = line.data.decode("utf-8", "replace")
                raise json.JSONDecodeError(f"line {line.number}: {problem}", text, 0) from problem
    return objects


def classify_dialog_validity(dialog_obj: object) -> tuple[bool, SkipReason | None]:
    """Return ``(valid_dialog, skip_reason)`` for one decoded line of a dataset."""
    try:
        normalize_dialog(dialog_obj)
    except InvalidDialogError as invalid:
        return False, invalid.problem.reason
    return True, None


def normalize_dialog(dialog_obj: object, default_id: str = "line_0") -> Dialog:
    """Return the dialogue in canonical form, without unknown fields.

    ``content`` becomes ``text``, ``med`` becomes ``medium``, and an unknown difficulty None;
    ``default_id`` names a dialogue without a usable ``dialog_id``. A normalized dialogue is returned
    unchanged. One with a client's sheet may have no turns.

    Raises:
        InvalidDialogError: the object is not a valid dialogue.
    """
    if isinstance(dialog_obj, Dialog):
        return dialog_obj
    if not isinstance(dialog_obj, Mapping):
        raise InvalidDialogError("not_an_object", "$", f"expected an object, got {_kind(dialog_obj)}")
    simulated = dialog_obj.get("client") is not None
    turns = _turns(dialog_obj.get("turns")) if dialog_obj.get("turns") or not simulated else []
    profile = _profile(dialog_obj.get("profile_gt"))
    session = _session(dialog_obj)
    question = next((turn.text for turn in turns if turn.role == "user"), "")
    blueprint = dialog_obj.get("blueprint")
    return Dialog(
        dialog_id=usable_id(dialog_obj) or default_id,
        profile_gt=profile,
        turns=turns,
        scenario_type=_text(dialog_obj, "scenario_type"),
        difficulty=canonical_difficulty(dialog_obj.get("difficulty")),
        language=_text(dialog_obj, "language")
        or (session["client"].language if simulated else detect_language(question)),
        events=[e for e in _list(dialog_obj.get("events")) if isinstance(e, dict)],
        seed_source=_text(dialog_obj, "seed_source"),
        seed_data=data if isinstance(data := dialog_obj.get("seed_data"), dict) else None,
        blueprint=Blueprint(
            forbidden_list=[
                item
                for item in _list(blueprint.get("forbidden_list") if isinstance(blueprint, Mapping) else None)
                if isinstance(item, str) and item.strip()
            ]
        ),
        user_id=_text(dialog_obj, "user_id"),
        **session,
    )


def align_turn_pairs(dialog_obj: object) -> list[TurnPair]:
    """Return each user turn that is answered, with its assistant turn, numbered from 1.

    A reply without usable tags requires nothing.

    Raises:
        InvalidDialogError: the object is not a valid dialogue.
    """
    turns = normalize_dialog(dialog_obj).turns
    return [
        TurnPair(
            turn_pair_id=number,
            user_turn_abs_idx=index,
            gt_assistant_abs_idx=index + 1,
            user_text=turns[index].text,
            gt_assistant_text=turns[index + 1].text,
            gt_turn_tags=turns[index + 1].turn_tags or TurnTags(),
        )
        for number, index in enumerate(_answered(turns), 1)
    ]


def unscored_pairs(dialog: Dialog) -> int:
    """Return the number of user turns that have no reply, or one without usable tags."""
    answered = sum(dialog.turns[index + 1].turn_tags is not None for index in _answered(dialog.turns))
    return sum(turn.role == "user" for turn in dialog.turns) - answered


def read_entries(file: BinaryIO, limit: int | None = None) -> Iterator[DatasetEntry]:
    """Yield the entries of a dataset one by one, at most ``limit``, without blank lines.

    The second valid dialogue of one ``dialog_id`` is skipped as ``duplicate_dialog_id``; a 16-byte
    digest of every id is kept for that.
    """
    seen: set[bytes] = set()
    for line in islice(iter_lines(file), limit):
        entry = read_entry(line)
        if entry.dialog is not None:
            digest = hashlib.blake2b(entry.dialog_id.encode(), digest_size=16).digest()
            if digest in seen:
                problem = Problem(
                    "duplicate_dialog_id", "$.dialog_id", f"{entry.dialog_id!r} stands on an earlier line too"
                )
                entry = _skipped(line.number, entry.dialog, problem)
            seen.add(digest)
        yield entry


def read_entry(line: Line) -> DatasetEntry:
    """Return one line as a dataset entry; a defect becomes its ``skip_reason``, never an exception."""
    number = line.number
    if line.too_long:
        return _skipped(number, None, Problem("line_too_long", "$", "the line is longer than 16 MiB"))
    try:
        obj = msgspec.json.decode(line.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        return _skipped(number, None, Problem("invalid_json", "$", str(problem)))
    except RecursionError:
        return _skipped(number, None, Problem("invalid_json", "$", "the value is nested too deeply"))
    try:
        dialog = normalize_dialog(obj, default_id=f"line_{number}")
    except InvalidDialogError as invalid:
        return _skipped(number, obj, invalid.problem)
    return DatasetEntry(
        dataset_index=number,
        dialog_id=dialog.dialog_id,
        dialog=dialog,
        scenario_type=dialog.scenario_type,
        difficulty=dialog.difficulty,
    )


def check_dataset_file(path: Path) -> None:
    """Raise `UsageError` with one clear line unless the path is a readable, non-empty, regular file."""
    try:
        if not path.exists():
            raise UsageError(f"dataset {path}: no such file")
        if path.is_dir():
            raise UsageError(f"dataset {path}: is a directory; name a JSONL file")
        if not path.is_file():
            raise UsageError(
                f"dataset {path}: not a regular file; a dataset is read twice, save it to a file first"
            )
        with path.open("rb") as file:
            if not file.read(1):
                raise UsageError(f"dataset {path}: the file is empty")
    except OSError as problem:
        raise UsageError(f"dataset {path}: {problem.strerror or problem}") from problem
    except ValueError as problem:
        raise UsageError(f"dataset {str(path)!r}: {problem}") from problem


def named_dataset(dataset: D) -> "D | DatasetLike":
    """Return the dataset of a plugin's name or a reference ``pkg.module:name``, and any other as it is.

    A path that exists is one, as is a text with a suffix or a slash. A function is called. ``clients`` and
    ``goals`` ship with MemFin.

    Raises:
        UsageError: the name is unknown, the reference does not import, or the function fails.
    """
    if not isinstance(dataset, str) or os.path.exists(dataset) or not _NAME.fullmatch(dataset):  # noqa: PTH110
        return dataset
    if dataset in (CLIENTS.stem, GOALS.stem):
        return str(SAMPLE.with_name(f"{dataset}.jsonl"))
    reference = plugin_reference("dataset", dataset, _FORMS, "memfin.datasets")
    found = import_object("dataset", reference, _FORMS)
    if isinstance(found, type) or isroutine(found):
        try:
            found = found()
        except (Exception, SystemExit) as problem:
            raise UsageError(
                f"dataset {dataset!r}: {reference} cannot be made: {describe(problem)}"
            ) from problem
    if found is None:
        raise UsageError(f"dataset {dataset!r}: {reference} is None; give a list or a source of dialogues")
    return cast("DatasetLike", found)


class SpooledDataset:
    """Dialogues from memory as an unnamed JSONL file, until a run directory holds them under ``path``."""

    def __init__(self, dataset: DatasetLike, path: Path, noun: str = "dialogues") -> None:
        """Write all dialogues, or what ``noun`` names; an unnamed file leaves nothing behind.

        Raises:
            UsageError: an item is no dialogue, or the source itself fails; the message has the number.
            RunFault: the file system refuses.
        """
        self.path = path.absolute()
        lines = _lines_of(dataset, noun)
        try:
            place = next(each for each in self.path.parents if each.is_dir())
            self._file: BinaryIO = tempfile.TemporaryFile(dir=place)  # noqa: SIM115 - closed by `close`
        except OSError as problem:
            raise RunFault(f"dataset {path}: cannot be written: {problem.strerror or problem}") from problem
        try:
            self._file.writelines(lines)
            self._file.flush()
        except OSError as problem:
            self.close()
            raise RunFault(f"dataset {path}: cannot be written: {problem.strerror or problem}") from problem
        except BaseException:
            self.close()
            raise

    @contextmanager
    def open(self, mode: Literal["rb"] = "rb") -> Iterator[BinaryIO]:
        """Open the dialogues for reading, as `Path.open` does."""
        if self._file.closed:
            with self.path.open(mode) as file:
                yield file
        else:
            self._file.seek(0)
            yield self._file

    def pieces(self) -> Iterator[bytes]:
        """Yield the content and close the file."""
        with self._file as file:
            file.seek(0)
            while piece := file.read(_PIECE):
                yield piece

    def close(self) -> None:
        """Close the unnamed file, whose content is lost."""
        self._file.close()


def _lines_of(dataset: Any, noun: str) -> Iterator[bytes]:
    """Return the lines of a dataset in memory; raise `UsageError` at once where there are none to iterate.

    An exception of the source becomes a `UsageError` while iterating.
    """
    name, rows = type(dataset).__name__, None
    hugging_face = type(dataset).__module__.partition(".")[0] == "datasets"
    if hugging_face and isinstance(dataset, Mapping):
        raise UsageError(f"dataset: {name} has the splits {', '.join(dataset)}; give one of them")
    known = any(hasattr(dataset, method) for method in ("read", "iter_rows", "itertuples", "__iter__"))
    if not known or isinstance(dataset, Mapping | bytes | bytearray):
        raise UsageError(
            f"dataset: {name} is neither a path nor an iterable of dictionaries; give one, a data frame, or "
            "an object whose read() yields them"
        )
    try:
        if hasattr(dataset, "iter_rows"):
            items = rows = dataset.iter_rows(named=True)
        elif hasattr(dataset, "itertuples"):
            columns = [*map(str, dataset.columns)]
            rows = dataset.itertuples(index=False, name=None)
            items = (dict(zip(columns, row, strict=True)) for row in rows)
        elif hugging_face and hasattr(dataset, "with_format"):  # else rows may be frames or tensors
            items = iter(dataset.with_format(None))
        else:  # an open file is iterable, too, over its lines
            items = iter(dataset if hasattr(dataset, "__iter__") else dataset.read())
    except (Exception, SystemExit) as problem:
        raise UsageError(f"dataset: {name} cannot be read: {describe(problem)}") from problem
    # Rows of frames and of Hugging Face have all fields, the missing ones as None or NaN.
    return _encoded(items, noun, columnar=rows is not None or hugging_face)


def _encoded(items: Iterator[Any], noun: str, *, columnar: bool) -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        try:
            item = next(items)
        except StopIteration:
            if number == 1:
                raise UsageError(f"dataset: there are no {noun} in it") from None
            return
        except (Exception, SystemExit) as problem:
            raise UsageError(f"dataset item {number}: cannot be read: {describe(problem)}") from problem
        if isinstance(item, bytes):
            line = item.removesuffix(b"\n")
            if b"\n" in line:
                raise UsageError(f"dataset item {number}: holds more than one line")
        elif isinstance(item, Mapping | Dialog):
            try:
                line = msgspec.json.encode(_present(item) if columnar else item, enc_hook=_plain)
            except (TypeError, ValueError, RecursionError) as problem:  # no JSON, lone surrogates, a circle
                raise UsageError(f"dataset item {number}: {describe(problem)}") from problem
        else:
            raise UsageError(f"dataset item {number}: expected a dictionary, got {_kind(item)}")
        yield line + b"\n"


def _plain(value: Any) -> Any:
    """Return mappings, and arrays and numbers of numpy, as types that JSON has."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _present(value: Any) -> Any:
    """Return a cell of a frame without its missing fields."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        cells = ((str(name), _present(cell)) for name, cell in value.items())
        return {name: cell for name, cell in cells if cell is not None}
    if isinstance(value, list | tuple):
        return [_present(each) for each in value]
    missing = type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value))
    return None if missing else value


def digest_dataset(path: Path | SpooledDataset) -> tuple[str, int]:
    """Return the SHA-256 of the file's bytes and its number of lines that are not blank, read in pieces."""
    sha256 = hashlib.sha256()
    lines, blank, mark = 0, True, BOM
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            sha256.update(piece)
            first, *others = piece.removeprefix(mark).split(b"\n")
            blank, mark = blank and not first.strip(b" \t\r"), b""
            for part in others:
                lines += not blank
                blank = not part.strip(b" \t\r")
    return sha256.hexdigest(), lines + (not blank)


def detect_language(text: str) -> str:
    """Return ``zh`` for text with Chinese characters, else ``en``."""
    return "zh" if any("\u4e00" <= char <= "\u9fff" for char in text) else "en"


def usable_id(obj: object) -> str | None:
    """Return the dialogue's own id, or None if it is not usable."""
    value = obj.get("dialog_id") if isinstance(obj, Mapping) else None
    return value if isinstance(value, str) and value.strip() else None


def _skipped(number: int, obj: object, problem: Problem) -> DatasetEntry:
    fields = obj if isinstance(obj, Mapping | Dialog) else {}
    return DatasetEntry(
        dataset_index=number,
        dialog_id=(obj.dialog_id if isinstance(obj, Dialog) else usable_id(obj)) or f"line_{number}",
        skip_reason=problem.reason,
        detail=str(problem),
        scenario_type=_text(fields, "scenario_type"),
        difficulty=canonical_difficulty(_text(fields, "difficulty")),
    )


def _turns(value: object) -> list[Turn]:
    if not isinstance(value, list) or not value:
        found = "the list is empty" if value == [] else f"expected a list of turns, got {_kind(value)}"
        raise InvalidDialogError("missing_turns", "$.turns", found)
    problems: dict[int, InvalidDialogError] = {}
    turns = [_turn(index, item, problems) for index, item in enumerate(value)]
    replies = [index + 1 for index in _answered(turns)]
    if not replies:
        found, last = "no user turn is followed by an assistant turn", f"$.turns[{len(turns) - 1}]"
        raise InvalidDialogError("invalid_turn_sequence", last, found)
    if problems and all(reply in problems for reply in replies):
        raise problems[replies[0]]
    return turns


def _answered(turns: Sequence[Turn]) -> list[int]:
    """Return the positions of the user turns that an assistant turn follows."""
    return [
        index
        for index, (turn, following) in enumerate(pairwise(turns))
        if turn.role == "user" and following.role == "assistant"
    ]


def _turn(index: int, item: object, problems: dict[int, InvalidDialogError]) -> Turn:
    path = f"$.turns[{index}]"
    if not isinstance(item, dict | Mapping):  # the abstract class alone is five times slower
        raise InvalidDialogError("invalid_turn_sequence", path, f"expected an object, got {_kind(item)}")
    role = item.get("role")
    if not isinstance(role, str) or role not in ("user", "assistant"):
        found = f"expected 'user' or 'assistant', got {_shown_role(role)}"
        raise InvalidDialogError("invalid_turn_sequence", f"{path}.role", found)
    text = item.get("text", item.get("content"))
    if not isinstance(text, str):
        raise InvalidDialogError(
            "invalid_turn_sequence", f"{path}.text", f"expected a string, got {_kind(text)}"
        )
    if role == "user":
        if not text.strip():
            raise InvalidDialogError("invalid_turn_sequence", f"{path}.text", "the user turn is blank")
        return Turn(role="user", text=text)
    try:
        tags = _tags(f"{path}.turn_tags", item.get("turn_tags"))
    except InvalidDialogError as problem:
        problems[index] = problem
        tags = None
    return Turn(role="assistant", text=text, turn_tags=tags)


def _tags(path: str, value: object) -> TurnTags:
    try:
        return msgspec.convert(value, TurnTags)  # the usual case; nulls and older terms are handled below
    except msgspec.ValidationError:
        pass
    if not isinstance(value, Mapping):
        reason: SkipReason = "missing_gt_tags" if value is None else "invalid_gt_tags"
        raise InvalidDialogError(reason, path, f"expected an object, got {_kind(value)}")
    known = {name: value[name] for name in TurnTags.__struct_fields__ if value.get(name) is not None}
    try:
        return msgspec.convert(upgrade(known, TurnTags), TurnTags)
    except msgspec.ValidationError as problem:
        raise _mismatch("invalid_gt_tags", path, problem) from problem


def _profile(value: object) -> ProfileTruth:
    if not isinstance(value, Mapping):
        raise InvalidDialogError(
            "missing_profile_gt", "$.profile_gt", f"expected an object, got {_kind(value)}"
        )
    known = {name: value[name] for name in ProfileTruth.__struct_fields__ if value.get(name) is not None}
    try:
        return msgspec.convert(known, ProfileTruth)
    except msgspec.ValidationError as problem:
        raise _mismatch("missing_profile_gt", "$.profile_gt", problem) from problem


_SESSION: Final = {
    "session_index": int | None,
    "session_time": str | None,
    "facts": list[Fact],
    "probes": list[Probe],
    "perturbation": Perturbation,
    "client": ClientSheet,
}


def _session(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a line of dataset v1.2 says of its session, checked; nothing for one of v1."""
    known = {name: fields[name] for name in _SESSION if fields.get(name) is not None}
    for name, value in known.items():
        path = f"$.{name}"
        try:
            known[name] = msgspec.convert(value, _SESSION[name])
        except msgspec.ValidationError as problem:
            raise _mismatch("invalid_session", path, problem) from problem
        for place, item in enumerate(known[name] if isinstance(value, list) else ()):
            day = item.get("until")
            if day is not None and not is_iso_time(day):
                raise InvalidDialogError("invalid_session", f"{path}[{place}].until", _NO_DATE)
    if (now := known.get("session_time")) is not None and not is_iso_time(now):
        raise InvalidDialogError("invalid_session", "$.session_time", _NO_DATE)
    if (sheet := known.get("client")) is not None and (problems := sheet_problems(sheet)):
        raise InvalidDialogError("invalid_session", "$.client", "; ".join(problems))
    return known


_NO_DATE: Final = "expected an ISO 8601 date or time such as 2026-03-31"


def is_iso_time(text: str) -> bool:
    """Return True for a date or time of ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _mismatch(reason: SkipReason, path: str, problem: msgspec.ValidationError) -> InvalidDialogError:
    """Return the error for an invalid part; the message may quote a value of any length."""
    message, _, where = str(problem).rpartition(" - at `$")
    return InvalidDialogError(reason, path + where.rstrip("`"), message[:_SHOWN])


def _text(fields: object, name: str) -> str | None:
    value = getattr(fields, name, None) if isinstance(fields, Dialog) else None
    if isinstance(fields, Mapping):
        value = fields.get(name)
    return value if isinstance(value, str) and value else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown_role(value: object) -> str:
    # Only a string is quoted: the representation of a deeply nested value may not end.
    return repr(value[:_SHOWN]) if isinstance(value, str) else _kind(value)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
