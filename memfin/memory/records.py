"""Records and the bytes of their files: checked, gated and encoded before anything is written."""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml
from msgspec import inspect

from memfin.contracts.base import Record, non_finite_path
from memfin.errors import RunFault
from memfin.memory.errors import InvalidInput, MemoryRefusal, invalid_value
from memfin.memory.files import Files

Gate = Callable[[Any, str], None]
"""Looks through plain data of a given name; raises `SensitiveInput` when some of it is never saved."""

MAX_RECORD: Final = 64 * 1024  # bytes of the largest record
MAX_DEPTH: Final = 16  # levels of lists and objects in a record
_MAX_UNCHECKED: Final = 1024
"""Bytes of a YAML file that cannot be nested deeply enough to overflow the stack of libyaml."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WORDLESS: Final = (
    inspect.LiteralType,
    inspect.DateTimeType,
    inspect.BoolType,
    inspect.NoneType,
    inspect.IntType,
)

_DAMAGES: Final = (msgspec.DecodeError, yaml.YAMLError, ValueError, TypeError, RecursionError)
"""The errors of reading bytes that hold no record."""

RecordT = TypeVar("RecordT", bound=Record)


class RecordDamaged(RunFault):
    """A file of the layer does not hold what it must; the message names the file, not the content."""


def encode(record: Record, path: Path, gate: Gate, on_file: bytes | None = None) -> bytes:
    """Return the bytes of a record's file, YAML or JSON as its name says.

    The gate is spared text that is on file there already: it passed once, and a record must stay
    revocable under a gate that has become stricter since.
    """
    kind = type(record)
    try:
        plain = msgspec.to_builtins(record)
        texts = {name: plain[name] for name in text_fields(kind)}
        _check_plain(texts)
        msgspec.convert(plain, kind)
        data = msgspec.json.encode(record) + b"\n"
    except msgspec.ValidationError as problem:
        raise invalid_value(problem, default=kind.__name__) from None
    except UnicodeEncodeError:
        raise InvalidInput(f"{kind.__name__}: holds text that is not Unicode") from None
    except (TypeError, OverflowError, RecursionError):
        raise InvalidInput(f"{kind.__name__}: holds a value that JSON has no form for") from None
    if len(data) > MAX_RECORD:
        raise InvalidInput(f"{kind.__name__}: is larger than {MAX_RECORD} bytes")
    if texts and (on_file is None or texts != _texts_on_file(on_file, path, kind)):
        gate(texts, "")
    return _yaml_of(plain) if path.suffix == ".yaml" else data


def decode(data: bytes, path: Path, kind: type[RecordT]) -> RecordT:
    """Return the record of a file."""
    try:
        if path.suffix == ".yaml":
            return msgspec.convert(_plain_of(data), kind)
        decoder: msgspec.json.Decoder[RecordT] = _decoder(kind)
        return decoder.decode(data)
    except _DAMAGES:
        raise RecordDamaged(f"{path}: is no readable {kind.__name__}; restore or remove it") from None


def load(files: Files, path: Path, kind: type[RecordT]) -> RecordT | None:
    """Return the record of a file, None where there is no such file."""
    data = files.load(path)
    return None if data is None else decode(data, path, kind)


def load_all(files: Files, directory: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a directory by id; those that vanish meanwhile are left out."""
    for name, data in files.loaded(directory):
        yield decode(data, directory / name, kind)


def load_sound(files: Files, directory: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a directory by id, without those that cannot be read."""
    for name, data in files.loaded(directory):
        with suppress(RecordDamaged):
            yield decode(data, directory / name, kind)


@functools.cache
def text_fields(kind: type[Record]) -> tuple[str, ...]:
    """Return the fields of a record that can hold what a person wrote."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)  # noqa: S101 - records are structs
    return tuple(field.name for field in described.fields if _may_hold_text(field.type))


@functools.cache
def _decoder(kind: type[RecordT]) -> msgspec.json.Decoder[RecordT]:
    return msgspec.json.Decoder(kind)


def _plain_of(data: bytes) -> object:
    """Return the content of a YAML file; libyaml would overflow the stack on deep nesting."""
    depth = 0
    for event in yaml.parse(data, _LOADER) if len(data) > _MAX_UNCHECKED else ():
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
    plain: object = yaml.load(data, _LOADER)  # noqa: S506 - a safe loader
    return plain


def _yaml_of(plain: object) -> bytes:
    text: str = yaml.dump(plain, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    return text.encode()


def _texts_on_file(data: bytes, path: Path, kind: type[Record]) -> dict[str, Any] | None:
    try:
        plain = msgspec.to_builtins(decode(data, path, kind))
    except RecordDamaged:
        return None
    return {name: plain[name] for name in text_fields(kind)}


def _may_hold_text(kind: inspect.Type) -> bool:
    match kind:
        case inspect.Metadata(extra={"given": True}):
            return False
        case inspect.Metadata(type=inner):
            return _may_hold_text(inner)
        case inspect.UnionType(types=kinds):
            return any(_may_hold_text(each) for each in kinds)
        case inspect.StructType(fields=fields):
            return any(_may_hold_text(field.type) for field in fields)
        case _:
            return not isinstance(kind, _WORDLESS)


def _check_plain(value: object) -> None:
    """Refuse what is nested too deeply to walk through, and numbers that JSON has no form for."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        if not level:
            break
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)  # type: ignore[attr-defined]
            if isinstance(item, dict | list | tuple)
        ]
    else:
        raise InvalidInput(f"the record is nested more than {MAX_DEPTH} levels deep")
    if (where := non_finite_path(value)) is not None:
        raise InvalidInput(f"{where.removeprefix('$.')}: is not a finite number")


_UNREADABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


class EarlyGate:
    """A gate that checks the texts of an operation before it takes a lock, and refuses them when asked.

    A result counts for exactly the value that was checked; others are checked when asked.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._here = threading.local()

    @contextmanager
    def reading(self, texts: Mapping[str, Any]) -> Iterator[None]:
        """Check texts, by the names of their fields in records, and remember the results within."""
        self._here.results = dict(self._results(texts))
        try:
            yield
        finally:
            self._here.results = {}

    def __call__(self, texts: Any, field: str) -> None:
        """Refuse texts that are never saved."""
        results: Mapping[str, tuple[Any, MemoryRefusal | None]] = getattr(self._here, "results", {})
        if field or not results or not isinstance(texts, Mapping):
            self._gate(texts, field)
            return
        unread: dict[str, Any] = {}
        for name, value in texts.items():
            if name not in results or results[name][0] != value:
                unread[name] = value
            elif (refusal := results[name][1]) is not None:
                raise refusal
        if unread:
            self._gate(unread, field)

    def _results(self, texts: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, MemoryRefusal | None]]]:
        for name, value in texts.items():
            try:
                plain = msgspec.to_builtins(value)  # a copy, which nobody changes meanwhile
                if len(msgspec.json.encode(plain)) > MAX_RECORD:
                    continue  # refused for its size, unread
            except _UNREADABLE:
                continue  # refused for its type, unread
            refused: MemoryRefusal | None = None
            try:
                self._gate({name: plain}, "")
            except MemoryRefusal as refusal:
                refused = refusal
            yield name, (plain, refused)
