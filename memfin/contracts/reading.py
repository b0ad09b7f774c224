"""Readers of contract records from bytes and files: strict, bounded, with one clear error.

Lines decode straight into their struct. Only data that does not fit is looked at again with other spellings
replaced by those of v1 (spec sections 3 and 4): the contract's older draft called a turn's status ``status``
and the labels ``minor`` and ``severe``, and had no ``trace_version`` and no ``dialog_status``; datasets, and
the traces that copied from them, may say ``med`` for the difficulty ``medium``.
"""

import functools
import os
import re
import stat
import tomllib
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar, cast

import msgspec

from memfin.contracts.base import TRACE_VERSION, DialogStatus, Difficulty
from memfin.contracts.dataset import TurnTags
from memfin.contracts.trace import DialogTrace, TurnTrace
from memfin.contracts.turn_eval import TurnEvalRow
from memfin.contracts.validity import LabelledReply
from memfin.errors import UsageError

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line of a dataset that readers accept, in bytes without its line end (spec section 3)."""

MAX_RECORD_BYTES: Final = 1024 * 1024 * 1024
"""The same for artifacts: a trace holds the replies too and grows longer than any line of a dataset."""

BOM: Final = b"\xef\xbb\xbf"
_LINE_END_ROOM: Final = len(BOM) + len(b"\r\n")
_SKIP_BYTES: Final = 1024 * 1024


class Line(NamedTuple):
    """One physical line of a file, counted from 1, without line end and byte order mark.

    A line over the limit has ``too_long`` set and no data; ``had_bom`` says that a mark was taken off.
    """

    number: int
    data: bytes
    too_long: bool = False
    had_bom: bool = False


def iter_lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[Line]:
    r"""Yield the lines of a binary file that hold more than JSON white space.

    Lines end at ``\n`` and nowhere else: text methods also split at U+2028 and its kin, which are
    legal inside a JSON string. At most about ``limit`` bytes are held at a time; the rest of a
    longer line is skipped in small reads. Blank lines are left out but keep their number.

    Raises:
        OSError: when reading the file fails.
    """
    number = 0
    while raw := file.readline(limit + _LINE_END_ROOM):
        number += 1
        complete = raw.endswith(b"\n")
        had_bom = number == 1 and raw.startswith(BOM)
        data = (raw[len(BOM) :] if had_bom else raw).removesuffix(b"\n").removesuffix(b"\r")
        if len(data) > limit:
            del raw, data  # not held beside the reads that skip the rest
            while not complete and (rest := file.readline(_SKIP_BYTES)):
                complete = rest.endswith(b"\n")
            yield Line(number, b"", too_long=True, had_bom=had_bom)
        elif data.strip(b" \t\r"):
            yield Line(number, data, had_bom=had_bom)


_LABELS: Final = MappingProxyType({"minor": "minor_violation", "severe": "severe_violation"})
_DIFFICULTIES: Final[Mapping[str, Difficulty]] = MappingProxyType(
    {"easy": "easy", "medium": "medium", "med": "medium", "hard": "hard"}
)


def upgrade(value: object, kind: object) -> object:
    """Return plain data for a contract type with the older draft's names replaced by v1's.

    Data of an unexpected shape is returned as it is: what is wrong with it is for the decoder to say.
    """
    change = _UPGRADES.get(kind)
    return change(value) if change is not None and isinstance(value, dict) else value


def canonical_difficulty(value: object) -> Difficulty | None:
    """Return the difficulty that is meant, or None for what is none."""
    return _DIFFICULTIES.get(value) if isinstance(value, str) else None


def _with_labels(value: dict[str, Any], *, fields: tuple[str, ...]) -> dict[str, Any]:
    """Rename the draft's labels in the given fields."""
    changes = {
        name: _LABELS[label]
        for name in fields
        if isinstance(label := value.get(name), str) and label in _LABELS
    }
    return {**value, **changes} if changes else value


_tags = functools.partial(_with_labels, fields=("compliance_label_gt",))


def _turn(value: dict[str, Any]) -> dict[str, Any]:
    if "turn_status" not in value and "status" in value:
        value = {**value, "turn_status": value["status"]}
    tags = value.get("gt_turn_tags")
    return {**value, "gt_turn_tags": _tags(tags)} if isinstance(tags, dict) else value


def _row(value: dict[str, Any]) -> dict[str, Any]:
    return _with_version(_with_labels(value, fields=("pred_compliance_label", "gt_compliance_label")))


def _with_version(value: dict[str, Any]) -> dict[str, Any]:
    """Add the version to a record of a run in the draft's form."""
    is_draft = "trace_version" not in value and "run_id" in value
    return {"trace_version": TRACE_VERSION, **value} if is_draft else value


def _draft_status(value: dict[str, Any]) -> DialogStatus:
    """Return the status of a dialogue of the draft, whose turns are upgraded."""
    if value.get("valid_dialog") is False:
        return "skipped"
    ok = [turn.get("turn_status") == "ok" for turn in value.get("turns") or () if isinstance(turn, dict)]
    if value.get("dialog_error") is not None or not any(ok):
        return "failed"
    return "ok" if all(ok) else "partial"


def _dialog(value: dict[str, Any]) -> dict[str, Any]:
    is_draft = "trace_version" not in value and "dialog_status" not in value
    value = _with_version(value)
    if (difficulty := canonical_difficulty(value.get("difficulty"))) is not None:
        value = {**value, "difficulty": difficulty}
    turns = value.get("turns")
    if isinstance(turns, list):
        value = {**value, "turns": [_turn(turn) if isinstance(turn, dict) else turn for turn in turns]}
    if is_draft and "valid_dialog" in value and isinstance(turns, list | None):
        value = {**value, "dialog_status": _draft_status(value)}
    return value


_UPGRADES: Final[Mapping[object, Callable[[dict[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {
        DialogTrace: _dialog,
        TurnTrace: _turn,
        TurnTags: _tags,
        TurnEvalRow: _row,
        LabelledReply: functools.partial(_with_labels, fields=("compliance",)),
    }
)

MAX_DOCUMENT_BYTES: Final = 256 * 1024 * 1024
"""The largest file that is read as one JSON document, in bytes."""

MAX_SETTINGS_BYTES: Final = 16 * 1024
"""The largest file of settings; a key of so many dots takes a quarter of a GiB while it is read."""

_SUPPORTED: Final = re.compile(r"v1(\.[0-9]+)?")
_BEYOND_FINITE: Final = re.compile(r"Expected `float` [<>]= -?1\.797\d*e\+308")
_GZIP_MAGIC: Final = b"\x1f\x8b"

RecordT = TypeVar("RecordT")


class InvalidRecord(UsageError):  # noqa: N818 - names what was read, as the other errors do
    """The bytes are no record of the contract; the message says where and why."""


class UnsupportedTraceVersion(InvalidRecord):
    """The record follows a major version of the contract that this program does not read."""


def check_trace_version(version: str) -> None:
    """Accept ``v1`` and every ``v1.x``, which may only add fields (trace schema section 8).

    Raises:
        UnsupportedTraceVersion: for any other version.
    """
    if not _SUPPORTED.fullmatch(version):
        raise UnsupportedTraceVersion(
            f"$.trace_version: {shown(version)} is not supported; this release reads v1 and v1.x"
        )


def decode(data: bytes, kind: type[RecordT]) -> RecordT:
    """Decode one JSON text into a contract struct.

    Unknown fields are ignored, older names are read, and a record with a ``trace_version`` must
    be of a version that is supported.

    Raises:
        UnsupportedTraceVersion: when the record is of another major version.
        InvalidRecord: when the text is no JSON or does not fit; the message begins with the path.
    """
    try:
        record: RecordT = _decoder(cast("Hashable", kind)).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = convert(upgrade(_decode_plain(data, kind), kind), kind)
    version = getattr(record, "trace_version", None)
    if version is not None:
        check_trace_version(version)
    return record


def convert(value: object, kind: type[RecordT]) -> RecordT:
    """Convert plain data to a contract struct.

    Raises:
        InvalidRecord: when the data does not fit; the message begins with the path.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise InvalidRecord(_path_first(reason_of(problem))) from None


def iter_jsonl(
    source: str | Path | BinaryIO,
    kind: type[RecordT],
    *,
    on_error: Callable[[int, InvalidRecord], None] | None = None,
    limit: int = MAX_RECORD_BYTES,
) -> Iterator[tuple[int, RecordT]]:
    """Yield ``(line number, record)`` for the lines of a JSONL file, one line in memory at a time.

    Args:
        source: a path, or a file that is open for reading bytes (which stays open).
        kind: the struct of a line.
        on_error: takes the number and the error of a line that does not decode, and reading goes
            on; without it the first such line ends the reading.
        limit: the longest line that is read, in bytes.

    Raises:
        InvalidRecord: for a line that does not decode; the message begins with ``file:line:``.
        UsageError: when the file cannot be opened.
    """
    if isinstance(source, str | Path):
        with open_input(source) as file:
            yield from iter_jsonl(file, kind, on_error=on_error, limit=limit)
        return
    name = getattr(source, "name", "<stream>")
    for line in iter_lines(source, limit):
        try:
            if line.too_long:
                raise InvalidRecord(f"$: the line is longer than {limit} bytes")  # noqa: TRY301 - one handler
            record = decode(line.data, kind)
        except InvalidRecord as problem:
            if on_error is None:
                raise type(problem)(f"{name}:{line.number}: {problem}") from None
            on_error(line.number, problem)
        else:
            yield line.number, record


def read_json(path: str | Path, kind: type[RecordT]) -> RecordT:
    """Read a file that holds one record.

    Raises:
        InvalidRecord: when the content does not decode; the message begins with the file.
        UsageError: when the file cannot be opened.
    """
    with open_input(path) as file:
        data = read_document(file)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidRecord(f"{path}: the file is larger than {MAX_DOCUMENT_BYTES} bytes")
    return decode_part(data, kind, path)


def decode_part(data: bytes, kind: type[RecordT], path: str | Path, place: str = "") -> RecordT:
    """Decode a record at a ``place`` of a file, such as ``.list[0]``; errors begin with the file."""
    try:
        return decode(data.removeprefix(BOM), kind)
    except InvalidRecord as problem:
        raise type(problem)(f"{path}: ${place}{str(problem).removeprefix('$')}") from None


def read_document(file: BinaryIO, limit: int | None = None) -> bytes:
    """Return the content of a regular file; of one beyond the limit, `MAX_DOCUMENT_BYTES`, one byte more.

    Memory is asked for by the file's size: reading up to the bound would ask for all of it at once.
    """
    bound = MAX_DOCUMENT_BYTES if limit is None else limit
    return file.read(min(os.fstat(file.fileno()).st_size, bound) + 1)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a file of settings.

    Raises:
        UsageError: when the file cannot be opened, is too large, or is no TOML; the message names no file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SETTINGS_BYTES + 1)
        if len(data) > MAX_SETTINGS_BYTES:
            raise UsageError(f"the file is larger than {MAX_SETTINGS_BYTES >> 10} KiB")
        return tomllib.loads(data.decode("utf-8-sig"))
    except OSError as problem:
        raise UsageError(problem.strerror or str(problem)) from problem
    except (RecursionError, MemoryError):
        raise UsageError("the values are nested too deeply") from None
    except ValueError as problem:  # no UTF-8, no TOML, or an integer of thousands of digits
        raise UsageError(str(problem)) from problem


def open_input(path: str | Path) -> BinaryIO:
    """Open a regular, uncompressed file for reading bytes.

    A pipe or device is refused before it is opened: opening one may block for ever.

    Raises:
        UsageError: when there is no such file, it is of another kind, or it may not be read.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a str has no stat method
        if stat.S_ISDIR(mode):
            raise UsageError(f"{path} is a directory; name a file")
        if not stat.S_ISREG(mode):
            raise UsageError(f"{path} is not a regular file")
        file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
        compressed = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"cannot read {path}: {reason}") from None
    if compressed:
        file.close()
        raise UsageError(f"{path} is compressed with gzip; decompress it first")
    return file


def reason_of(problem: Exception) -> str:
    """Return msgspec's words for what does not fit, with plain ones for a number that is not finite."""
    return _BEYOND_FINITE.sub("Expected a finite number", str(problem))


def shown(value: object, width: int = 60) -> str:
    """Return a value as an error message shows it: on one line, printable, cut to a width."""
    if isinstance(value, str):
        value = value[:width]  # the representation of megabytes is made for nothing
    text = repr(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


@functools.cache
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _decode_plain(data: bytes, kind: object) -> object:
    """Decode to plain data and refuse another major version before its fields are judged."""
    try:
        value: Any = msgspec.json.decode(data)
    except UnicodeDecodeError:
        raise InvalidRecord("$: the text is not UTF-8") from None
    except msgspec.DecodeError as problem:
        raise InvalidRecord(f"$: invalid JSON: {problem}") from None
    except RecursionError:
        raise InvalidRecord("$: the value is nested too deeply") from None
    fields = getattr(kind, "__struct_fields__", ())
    if isinstance(value, dict) and "trace_version" in fields:
        version = value.get("trace_version")
        if isinstance(version, str):
            check_trace_version(version)
    return value


def _path_first(message: str) -> str:
    """Turn msgspec's ``reason - at `path``` into ``path: reason``."""
    reason, _, path = message.partition(" - at `")
    return f"{path.removesuffix('`') or '$'}: {reason}"
