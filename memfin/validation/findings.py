"""Findings, and the violations of a contract struct in plain data.

msgspec stops at the first violation. The walk here follows the same types over the same data to the end;
msgspec still decides if a record is sound at all.
"""

import functools
import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import msgspec.inspect as mi

from memfin.contracts.reading import shown

Steps = tuple[str | int, ...]
"""The path from the top of a JSON value to a part of it: field names and list indices."""

_PLAIN_NAME: Final = re.compile(r"[\w-]+")


class Violation(NamedTuple):
    """A part of one record that breaks the contract."""

    steps: Steps
    message: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation in a file. ``line`` counts from 1; ``path`` begins with ``$``, the record."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        """Return the finding as ``file:line: path: message``."""
        return f"{self.file}:{self.line}: {self.path}: {self.message}"


def finding(file: str | Path, message: str, steps: Steps = (), line: int = 1) -> Finding:
    """Return the finding at a part of a record; bytes of the file's path that are not UTF-8 are escaped."""
    return Finding(file=file_text(file), line=line, path=path_text(steps), message=message)


def file_text(path: str | Path) -> str:
    """Return a printable form of a file's path; bytes that are not UTF-8 are escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def path_text(steps: Steps) -> str:
    """Return steps as a path such as ``$.turns[3].text``; unusual names are quoted and escaped."""
    text = "$"
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{shown(step)}]"
    return text


# ---- structure


def structure_violations(value: object, kind: object, steps: Steps = ()) -> Iterator[Violation]:
    """Yield every violation of a contract type in plain data: missing, of a wrong type, not allowed."""
    return _walk(value, _type_info(kind), steps)


def convert_or_violations(value: object, kind: Any) -> tuple[Any, list[Violation]]:
    """Return the struct and no violation, or None and every violation."""
    try:
        return msgspec.convert(value, kind), []
    except RecursionError:
        return None, [Violation((), "the value is nested too deeply")]
    except msgspec.ValidationError as problem:
        # A finding even if the walk is more lenient than msgspec.
        return None, list(structure_violations(value, kind)) or [Violation((), str(problem))]


@functools.cache
def _type_info(kind: Hashable) -> mi.Type:
    return mi.type_info(kind)


def _walk(value: object, node: mi.Type, steps: Steps) -> Iterator[Violation]:  # noqa: C901, PLR0912 - a case per type
    match node:
        case mi.Metadata(type=inner):
            yield from _walk(value, inner, steps)
        case mi.UnionType():
            yield from _walk_union(value, node, steps)
        case mi.StructType() if isinstance(value, dict):
            if node.tag_field and value.get(node.tag_field) != node.tag:
                yield Violation((*steps, node.tag_field), f"expected {node.tag!r}")
            for field in node.fields:
                if field.encode_name in value:
                    yield from _walk(value[field.encode_name], field.type, (*steps, field.encode_name))
                elif field.required:
                    yield Violation((*steps, field.encode_name), "missing")
        case mi.ListType(item_type=item_type) if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _walk(item, item_type, (*steps, index))
        case mi.DictType(value_type=value_type) if isinstance(value, dict):
            for name, item in value.items():
                yield from _walk(item, value_type, (*steps, name))
        case mi.TupleType(item_types=item_types) if isinstance(value, list):
            if len(value) != len(item_types):
                yield Violation(steps, f"expected {len(item_types)} values, got {len(value)}")
            for index, (item, item_type) in enumerate(zip(value, item_types, strict=False)):
                yield from _walk(item, item_type, (*steps, index))
        case mi.LiteralType(values=members):
            if not _fits(value, node) or value not in members:
                yield Violation(steps, f"{described(value)} is none of {', '.join(map(repr, members))}")
        case mi.IntType() | mi.FloatType() if _fits(value, node):
            number = cast("float", value)
            # Written so that NaN, which compares with nothing, is outside every bound.
            if node.ge is not None and not number >= node.ge:
                yield Violation(steps, f"{described(value)} is less than {node.ge}")
            elif node.gt is not None and not number > node.gt:
                yield Violation(steps, f"{described(value)} is not greater than {node.gt}")
            elif node.le is not None and not number <= node.le:
                yield Violation(steps, f"{described(value)} is greater than {node.le}")
        case _ if not _fits(value, node):
            yield Violation(steps, f"expected {_name(node)}, got {described(value)}")


def _walk_union(value: object, node: mi.UnionType, steps: Steps) -> Iterator[Violation]:
    """Walk the member of a union with the value's tag, or else with its kind of JSON value."""
    tagged = {item.tag: item for item in node.types if isinstance(item, mi.StructType) and item.tag_field}
    if tagged and isinstance(value, dict):
        field = cast("str", next(iter(tagged.values())).tag_field)
        if field not in value:
            yield Violation((*steps, field), "missing")
        elif isinstance(tag := value[field], str) and tag in tagged:
            yield from _walk(value, tagged[tag], steps)
        else:
            yield Violation((*steps, field), f"{described(tag)} is none of {', '.join(map(repr, tagged))}")
        return
    named = [item for item in node.types if not isinstance(item, mi.NoneType) and _name(item)]
    if (fitting := next((item for item in node.types if _fits(value, item)), None)) is not None:
        yield from _walk(value, fitting, steps)
    elif len(named) == 1:
        yield from _walk(value, named[0], steps)
    else:
        kinds = " or ".join(dict.fromkeys(map(_name, named)))
        yield Violation(steps, f"expected {kinds}, got {described(value)}")


def _fits(value: object, node: mi.Type) -> bool:
    """Return True if a value is of the JSON kind of a type."""
    wanted, kind = _name(node), _kind(value)
    return isinstance(node, mi.AnyType) or kind == wanted or (kind, wanted) == ("an integer", "a number")


def _name(node: mi.Type) -> str:
    """Return the JSON name of a type; the marker of an absent field has none."""
    if isinstance(node, mi.Metadata):
        return _name(node.type)
    if isinstance(node, mi.LiteralType):
        return _kind(node.values[0])
    return next((name for name, types, _ in _KINDS if isinstance(node, types)), "")


def _kind(value: object) -> str:
    """Return the JSON name of a value's kind."""
    return next(name for name, _, kind in _KINDS if isinstance(value, kind))


def described(value: object) -> str:
    """Return a value as messages show it: scalars as they are, containers by their kind."""
    if isinstance(value, dict | list):
        return _kind(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)


_KINDS: Final[tuple[tuple[str, type | tuple[type, ...], type], ...]] = (
    ("an object", (mi.StructType, mi.DictType), dict),
    ("an array", (mi.ListType, mi.TupleType), list),
    ("a string", mi.StrType, str),
    ("a boolean", mi.BoolType, bool),  # before the integers, which it counts among in Python
    ("an integer", mi.IntType, int),
    ("a number", mi.FloatType, float),
    ("null", mi.NoneType, object),
)
"""The JSON names of types and of values."""
