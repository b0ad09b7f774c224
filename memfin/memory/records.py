"""Encoding of records, and write plans that are checked completely before the first byte.

A profile needs the token that only `onboarded` and `reviewed` give (memory design §5.1).
"""

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import yaml
from msgspec import inspect

from memfin.contracts import memory
from memfin.contracts.base import Record, non_finite_path
from memfin.contracts.memory import ContextFields, Preferences, UserContext
from memfin.errors import RunFault
from memfin.memory.errors import InvalidInput, MemoryRefusal, ProfileWriteRefused, invalid_value
from memfin.memory.files import Files
from memfin.memory.paths import Paths

# Looks through plain data of a given name; raises `SensitiveInput` when some of it is never saved
Gate = Callable[[Any, str], None]
MAX_RECORD: Final = 64 * 1024  # bytes of the largest record
MAX_DEPTH: Final = 16  # levels of lists and objects in a record
# Bytes of a YAML file that cannot be nested deeply enough to overflow the stack of libyaml
_MAX_UNCHECKED: Final = 1024
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WORDLESS: Final = (
    inspect.LiteralType,
    inspect.DateTimeType,
    inspect.BoolType,
    inspect.NoneType,
    inspect.IntType,
)
_BYTES: Final = (bytes, bytearray)  # no gate could look into them
# The errors of reading bytes that hold no record
_DAMAGES: Final = (msgspec.DecodeError, yaml.YAMLError, ValueError, TypeError, RecursionError)
RecordT = TypeVar("RecordT", bound=Record)

# msgspec prepares a type when it is first used; its C code may crash where several threads do so at once.
for _kind in vars(memory).values():
    if isinstance(_kind, type) and issubclass(_kind, Record):
        msgspec.json.Decoder(_kind)


class RecordDamaged(RunFault):
    """A stored file is damaged; the message names the file, not its content."""


def encode(record: Record, path: Path, gate: Gate, on_file: bytes | None = None) -> bytes:
    """Encode a record as YAML or JSON, depending on the file's name.

    The gate skips text that the file already contains: it passed once, and a record must stay
    revocable under a gate that has become stricter since.
    """
    kind = type(record)
    try:
        plain = msgspec.to_builtins(record, builtin_types=_BYTES)
        texts = {name: plain[name] for name in text_fields(kind)}
        _check_plain(texts)
        msgspec.convert(plain, kind)
        data = msgspec.json.encode(record) + b"\n"
    except msgspec.ValidationError as problem:
        raise invalid_value(problem, default=kind.__name__) from None
    except UnicodeEncodeError:
        raise InvalidInput(f"{kind.__name__}: holds text that is not Unicode") from None
    except (TypeError, OverflowError, RecursionError):
        raise InvalidInput(f"{kind.__name__}: holds a value that JSON cannot represent") from None
    if len(data) > MAX_RECORD:
        raise InvalidInput(f"{kind.__name__}: is larger than {MAX_RECORD} bytes")
    kept: dict[str, Any] = {}
    if on_file is not None:
        with suppress(RecordDamaged):
            before = msgspec.to_builtins(decode(on_file, path, kind))
            kept = {name: before[name] for name in texts}
    if texts != kept:
        gate(texts, "")
    if path.suffix == ".yaml":
        return str(yaml.dump(plain, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)).encode()
    return data


def decode(data: bytes, path: Path, kind: type[RecordT]) -> RecordT:
    """Decode the record of a file."""
    try:
        if path.suffix == ".yaml":
            return msgspec.convert(_plain_of(data), kind)
        decoder: msgspec.json.Decoder[RecordT] = _decoder(kind)
        return decoder.decode(data)
    except _DAMAGES:
        raise RecordDamaged(f"{path}: is not a readable {kind.__name__}; restore or remove it") from None


def load(files: Files, path: Path, kind: type[RecordT]) -> RecordT | None:
    """Read the record of a file; None if there is no such file."""
    data = files.load(path)
    return None if data is None else decode(data, path, kind)


def load_all(files: Files, directory: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a directory by id; those removed meanwhile are skipped."""
    for name, data in files.loaded(directory):
        yield decode(data, directory / name, kind)


def load_sound(files: Files, directory: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the readable records of a directory by id."""
    for _, data in files.loaded(directory):
        with suppress(RecordDamaged):
            yield decode(data, directory, kind)  # the error, which names the path, is not shown


def load_lines(files: Files, path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the readable records of a file with one per line."""
    for line in (files.load(path) or b"").splitlines():
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=kind)


def by_age(records: Iterable[RecordT]) -> list[RecordT]:
    """Sort records by creation, the oldest first, and by their ids, which are the first fields."""
    return sorted(records, key=lambda each: (each["created_at"], each[each.__struct_fields__[0]]))


@functools.cache
def text_fields(kind: type[Record]) -> tuple[str, ...]:
    """Return the fields of a record that can contain a user's text."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)  # noqa: S101 - records are structs
    return tuple(field.name for field in described.fields if _may_hold_text(field.type))


@functools.cache
def _decoder(kind: type[RecordT]) -> msgspec.json.Decoder[RecordT]:
    return msgspec.json.Decoder(kind)


def _plain_of(data: bytes) -> object:
    """Parse a YAML file without libyaml, which would overflow the stack on deep nesting."""
    depth = 0
    for event in yaml.parse(data, _LOADER) if len(data) > _MAX_UNCHECKED else ():
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
    plain: object = yaml.load(data, _LOADER)  # noqa: S506 - a safe loader
    return plain


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


def _check_plain(texts: object) -> None:
    """Refuse data that is nested too deeply, and values that JSON cannot represent."""
    if any(isinstance(each, bytes | bytearray) for level in _levels(texts) for each in level):
        raise InvalidInput("the record holds bytes; give a str")
    if is_deeper(texts, MAX_DEPTH):
        raise InvalidInput(f"the record is nested more than {MAX_DEPTH} levels deep")
    if (where := non_finite_path(texts)) is not None:
        raise InvalidInput(f"{where.removeprefix('$.')}: is not a finite number")


def _levels(value: object) -> Iterator[list[Any]]:
    """Yield the parts of plain data by the number of lists and objects around them."""
    level: list[Any] = [value]
    while level:
        yield level
        inner = (each for each in level if isinstance(each, dict | list | tuple))
        level = [item for each in inner for item in (each.values() if isinstance(each, dict) else each)]


def is_deeper(value: object, limit: int) -> bool:
    """Return True if more than ``limit`` lists and objects of plain data are nested."""
    level = next(itertools.islice(_levels(value), limit, None), ())
    return any(isinstance(each, dict | list | tuple) for each in level)


class EarlyGate:
    """Sensitive-input gate that scans the texts of an operation before it takes a lock.

    A result applies to exactly the scanned value; other values are scanned on demand.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._here = threading.local()

    @contextmanager
    def reading(self, texts: Mapping[str, Any]) -> Iterator[None]:
        """Scan texts, by the names of their fields in records, and keep the results within the context."""
        results: dict[str, tuple[Any, MemoryRefusal | None]] = {}
        for name, value in texts.items():
            # What is refused for its type or its size is not read.
            with suppress(TypeError, ValueError, OverflowError, RecursionError):
                plain = msgspec.to_builtins(value)  # a copy, which nobody changes meanwhile
                if len(msgspec.json.encode(plain)) <= MAX_RECORD:
                    results[name] = plain, self._refusal(name, plain)
        self._here.results = results
        try:
            yield
        finally:
            self._here.results = {}

    def __call__(self, texts: Any, field: str) -> None:
        """Raise `SensitiveInput` for texts that are never saved."""
        results: Mapping[str, tuple[Any, MemoryRefusal | None]] = getattr(self._here, "results", {})
        if not field and isinstance(texts, Mapping):
            known = [name for name, value in texts.items() if name in results and results[name][0] == value]
            if refusal := next(
                (found for name in texts if name in known and (found := results[name][1])), None
            ):
                raise refusal
            texts = {name: value for name, value in texts.items() if name not in known}
        if texts:
            self._gate(texts, field)

    def _refusal(self, name: str, plain: Any) -> MemoryRefusal | None:
        try:
            self._gate({name: plain}, "")
        except MemoryRefusal as refusal:
            return refusal
        return None


PREFERENCES: Final = Preferences.__struct_fields__  # the fields of a profile that onboarding asks for
# The fields that a review may set; positions, horizon and constraints only when named as such (§10.2).
REVIEWABLE: Final = (
    *PREFERENCES,
    "research_style",
    "user_stated_position_context",
    "time_horizon",
    "constraints",
)
_NO_FIELDS: Final = ContextFields()


def context_fields(given: ContextFields | Mapping[str, Any] | None, name: str) -> ContextFields | None:
    """Return the fields that a caller gives for a context; an unknown one or a wrong type is refused."""
    return None if given is None else given_fields(given, ContextFields, name)


def given_fields(given: Record | Mapping[str, Any], kind: type[RecordT], name: str) -> RecordT:
    """Return a record that a caller gives, or makes of a mapping; an unknown field or type is refused."""
    fields = kind.__struct_fields__
    if not isinstance(given, kind | Mapping):
        raise InvalidInput(f"{name}: give a mapping of fields; known fields: {', '.join(fields)}")
    plain = msgspec.structs.asdict(given) if isinstance(given, kind) else dict(given)
    for field in plain:
        if field not in fields:
            known = ", ".join(fields)
            raise InvalidInput(f"{name}.{str(field)[:40]}: is not a known field; known fields: {known}")
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        raise invalid_value(problem, f"{name}.") from None


def given_object(given: object, name: str) -> dict[str, Any]:
    """Return the mapping that a caller gives as a dictionary."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name}: give a mapping")
    return dict(given)


class ProfileWriteToken:
    """Permission to write a profile, created by `onboarded` and `reviewed` alone."""

    __slots__ = ()


_TOKEN: Final = ProfileWriteToken()


def onboarded(
    user_id: str, context_id: str, preferences: Preferences, version: int, now: datetime
) -> tuple[UserContext, ProfileWriteToken]:
    """Return the profile that a grant saves, and the token to write it (memory design §5.2)."""
    profile = UserContext(
        context_id=context_id,
        user_id=user_id,
        scope="profile",
        created_at=now,
        updated_at=now,
        consent_version=version,
        **{name: getattr(preferences, name) for name in PREFERENCES},
    )
    return profile, _TOKEN


def reviewed(
    profile: UserContext, changes: Mapping[str, Any], version: int, now: datetime
) -> tuple[UserContext, ProfileWriteToken]:
    """Return the profile with its owner's changes, None to delete a field, and the token to write it."""
    for name in changes:
        if name not in REVIEWABLE:
            raise InvalidInput(
                f"{str(name)[:40]!r}: is not a field of a profile; known fields: {', '.join(REVIEWABLE)}"
            )
    given = {name: _NO_FIELDS[name] if value is None else value for name, value in changes.items()}
    fields = msgspec.structs.asdict(profile) | given | {"updated_at": now, "consent_version": version}
    try:
        edited = msgspec.convert(fields, UserContext)
    except msgspec.ValidationError as problem:
        raise invalid_value(problem) from None
    return edited, _TOKEN


class Put(NamedTuple):
    """Write a record, replacing an earlier one."""

    path: Path
    record: Record
    write_token: ProfileWriteToken | None = None


class Append(NamedTuple):
    """Append a record as a line; the file is rewritten and so is complete at any time."""

    path: Path
    record: Record


class Keep(NamedTuple):
    """Write stored bytes to another file: a superseded version of a consent."""

    path: Path
    data: bytes


class Remove(NamedTuple):
    """Remove a file if it exists."""

    path: Path


class RemoveTree(NamedTuple):
    """Remove a directory with its content if it exists."""

    path: Path


Step = Put | Append | Keep | Remove | RemoveTree
Observer = Callable[
    [Step, str], None
]  # called for each step that has changed something, and its consent's id
Checked = list[tuple[Step, bytes]]  # steps that may be done, with the bytes that they write


class Writer:
    """Executor of write plans."""

    def __init__(self, files: Files, paths: Paths, gate: Gate, observer: Observer | None = None) -> None:
        self._files = files
        self._paths = paths
        self._gate = gate
        self._observer = observer

    def check(self, plan: Iterable[Step]) -> Checked:
        """Return a plan's steps with the bytes to write; one refused step refuses the plan."""
        return [(step, self._checked(step)) for step in plan]

    def do(self, checked: Checked, consent_id: str = "") -> None:
        """Execute the steps of a person in order, under the consent of an id."""
        for step, data in checked:
            # A removal of nothing is not observed.
            changes = not isinstance(step, Remove | RemoveTree) or self._files.exists(step.path)
            match step:
                case Put(path) | Keep(path):
                    self._files.save(path, data)
                case Append(path):
                    self._files.save(path, (self._files.load(path) or b"") + data)
                case Remove(path):
                    self._files.remove(path)
                case RemoveTree(path):
                    self._files.remove_tree(path)
            if changes and self._observer is not None:
                self._observer(step, consent_id)

    def _checked(self, step: Step) -> bytes:
        match step:
            case Put(path, record, write_token):
                if self._paths.is_profile(path) and write_token is not _TOKEN:
                    raise ProfileWriteRefused(
                        "a profile is written only by onboarding and by the person's own review"
                    )
                return encode(record, path, self._gate, self._files.load(path))
            case Append(path, record):
                if self._paths.is_profile(path):
                    raise ProfileWriteRefused("a profile cannot be appended to")
                return encode(record, path, self._gate)
            case Keep(path, data):
                if path.parent.parent != self._paths.consents / "_history":
                    raise ProfileWriteRefused("only versions of a consent are kept as they are")
                return data
            case _:
                return b""
