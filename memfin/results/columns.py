"""Columns of records: names, types and cells of data frames, Parquet and CSV."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import inspect

from memfin.contracts import Record

ColumnType = Literal["int64", "float64", "bool_", "string", "json"]

_TYPES: Final[dict[type[inspect.Type], ColumnType]] = {
    inspect.IntType: "int64",
    inspect.FloatType: "float64",
    inspect.BoolType: "bool_",
    inspect.StrType: "string",
}
_KEYS: Final = ("run_id", "dialog_id", "turn_pair_id", "turn")


class Column(NamedTuple):
    """Field of a record, or of a record within, with the type of its values; ``json`` is text of any value.

    ``depth`` counts the lists around a value: 1 for a list of texts.
    """

    path: tuple[str, ...]
    type: ColumnType
    depth: int = 0

    @property
    def name(self) -> str:
        """The names of the path with dots between."""
        return ".".join(self.path)

    def nested(self, kind: Any, list_of: Callable[[Any], Any]) -> Any:
        """Return the type of the column, given that of a value."""
        return reduce(lambda inner, _: list_of(inner), range(self.depth), kind)

    def cell(self, record: Record) -> Any:
        """Return the value of the field; None where the record has none."""
        value: Any = record
        for name in self.path:
            value = getattr(value, name, None)
        if value is None or value is msgspec.UNSET:
            return None
        return msgspec.json.encode(value).decode() if self.type == "json" else value


def columns_of(kind: type[Record]) -> list[Column]:
    """Return the columns of a kind of record, first those that name its run, dialogue and turn.

    A record within has columns of its own, a list of texts or numbers stays a list, and all else that has
    parts is JSON.
    """
    return sorted(
        _columns(kind), key=lambda column: _KEYS.index(column.name) if column.name in _KEYS else len(_KEYS)
    )


def _columns(kind: type[Any], path: tuple[str, ...] = ()) -> Iterator[Column]:
    for field in msgspec.structs.fields(kind):
        leaf, depth = _leaf(inspect.type_info(field.type))
        if isinstance(leaf, type):
            yield from _columns(leaf, (*path, field.name))
        else:
            yield Column((*path, field.name), leaf, depth)


def _leaf(info: inspect.Type) -> tuple[ColumnType | type[Record], int]:
    """Return the type of a field's values, or the record within, and the depth of lists."""
    if isinstance(info, inspect.Metadata):
        return _leaf(info.type)
    if isinstance(info, inspect.UnionType):
        found = {_leaf(each) for each in info.types if not isinstance(each, inspect.NoneType)}
        if found == {("int64", 0), ("float64", 0)}:
            return "float64", 0
        return found.pop() if len(found) == 1 else ("json", 0)
    if isinstance(info, inspect.ListType):
        leaf, depth = _leaf(info.item_type)
        return ("json", 0) if isinstance(leaf, type) or leaf == "json" else (leaf, depth + 1)
    if isinstance(info, inspect.StructType) and issubclass(info.cls, Record):
        return info.cls, 0
    if isinstance(info, inspect.LiteralType):
        info = inspect.type_info(type(info.values[0]))
    return _TYPES.get(type(info), "json"), 0
