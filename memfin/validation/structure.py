"""Violations of a contract struct in plain data.

msgspec stops at the first violation. The walk here follows the same types over the same data to the end;
msgspec still decides if a record is sound at all.
"""

import functools
from collections.abc import Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
import msgspec.inspect as mi

from memfin.contracts.reading import shown
from memfin.validation.findings import Steps, Violation


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


def _walk(value: object, node: mi.Type, steps: Steps) -> Iterator[Violation]:  # noqa: C901, PLR0912 - one case per type
    match node:
        case mi.Metadata(type=inner):
            yield from _walk(value, inner, steps)
        case mi.UnionType():
            yield from _walk_union(value, node, steps)
        case mi.StructType() if isinstance(value, dict):
            yield from _walk_struct(value, node, steps)
        case mi.ListType(item_type=item_type) if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _walk(item, item_type, (*steps, index))
        case mi.DictType(value_type=value_type) if isinstance(value, dict):
            for name, item in value.items():
                yield from _walk(item, value_type, (*steps, name))
        case mi.TupleType(item_types=item_types) if isinstance(value, list):
            yield from _walk_tuple(value, item_types, steps)
        case mi.LiteralType(values=members):
            if not _fits(value, node) or value not in members:
                allowed = ", ".join(map(repr, members))
                yield Violation(steps, f"{described(value)} is none of {allowed}")
        case mi.IntType() | mi.FloatType() if _fits(value, node):
            yield from _walk_bounds(cast("float", value), node, steps)
        case _:
            if not _fits(value, node):
                yield Violation(steps, f"expected {_name(node)}, got {described(value)}")


def _walk_union(value: object, node: mi.UnionType, steps: Steps) -> Iterator[Violation]:
    """Walk the member of a union with the value's tag, or else with its kind of JSON value."""
    tagged = [item for item in node.types if isinstance(item, mi.StructType) and item.tag_field]
    if tagged and isinstance(value, dict):
        field = cast("str", tagged[0].tag_field)
        chosen = [item for item in tagged if item.tag == value.get(field)]
        if chosen:
            yield from _walk(value, chosen[0], steps)
        elif field not in value:
            yield Violation((*steps, field), "missing")
        else:
            tags = ", ".join(repr(item.tag) for item in tagged)
            yield Violation((*steps, field), f"{described(value[field])} is none of {tags}")
        return
    fitting = [item for item in node.types if _fits(value, item)]
    if fitting:
        yield from _walk(value, fitting[0], steps)
        return
    named = [item for item in node.types if not isinstance(item, mi.NoneType) and _name(item)]
    if len(named) == 1:
        yield from _walk(value, named[0], steps)
    else:
        yield Violation(
            steps, f"expected {' or '.join(dict.fromkeys(map(_name, named)))}, got {described(value)}"
        )


def _walk_struct(value: dict[str, Any], node: mi.StructType, steps: Steps) -> Iterator[Violation]:
    if node.tag_field and value.get(node.tag_field) != node.tag:
        yield Violation((*steps, node.tag_field), f"expected {node.tag!r}")
    for field in node.fields:
        if field.encode_name in value:
            yield from _walk(value[field.encode_name], field.type, (*steps, field.encode_name))
        elif field.required:
            yield Violation((*steps, field.encode_name), "missing")


def _walk_tuple(value: list[Any], item_types: tuple[mi.Type, ...], steps: Steps) -> Iterator[Violation]:
    if len(value) != len(item_types):
        yield Violation(steps, f"expected {len(item_types)} values, got {len(value)}")
    for index, (item, item_type) in enumerate(zip(value, item_types, strict=False)):
        yield from _walk(item, item_type, (*steps, index))


def _walk_bounds(value: float, node: mi.IntType | mi.FloatType, steps: Steps) -> Iterator[Violation]:
    # Written so that NaN, which compares with nothing, is outside every bound.
    if node.ge is not None and not value >= node.ge:
        yield Violation(steps, f"{described(value)} is less than {node.ge}")
    elif node.gt is not None and not value > node.gt:
        yield Violation(steps, f"{described(value)} is not greater than {node.gt}")
    elif node.le is not None and not value <= node.le:
        yield Violation(steps, f"{described(value)} is greater than {node.le}")


def _fits(value: object, node: mi.Type) -> bool:
    """Return True if a value is of the JSON kind of a type."""
    wanted, kind = _name(node), _kind(value)
    return isinstance(node, mi.AnyType) or kind == wanted or (kind, wanted) == ("an integer", "a number")


def _name(node: mi.Type) -> str:
    """Return the JSON name of a type; the marker of an absent field has none."""
    if isinstance(node, mi.LiteralType):
        return _kind(node.values[0])
    return _NAMES.get(type(node), "")


def _kind(value: object) -> str:
    """Return the JSON name of a value's kind."""
    return next(name for name, types in _KINDS if isinstance(value, types))


def described(value: object) -> str:
    """Return a value as messages show it: scalars as they are, containers by their kind."""
    if isinstance(value, dict | list):
        return _kind(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)


_NAMES: Final[Mapping[type[mi.Type], str]] = MappingProxyType(
    {
        mi.StructType: "an object",
        mi.DictType: "an object",
        mi.ListType: "an array",
        mi.TupleType: "an array",
        mi.StrType: "a string",
        mi.BoolType: "a boolean",
        mi.IntType: "an integer",
        mi.FloatType: "a number",
        mi.NoneType: "null",
    }
)
_KINDS: Final = (
    ("an object", dict),
    ("an array", list),
    ("a string", str),
    ("a boolean", bool),  # before the integers, which it counts among in Python
    ("an integer", int),
    ("a number", float),
    ("null", object),
)
