"""Tables of a run's records, as CSV or Parquet: a file per kind of record, a column per field."""

import csv
import importlib
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

import msgspec
from msgspec import inspect

from memfin.contracts import DialogTrace, Record, TurnTrace
from memfin.contracts.catalog import CONTRACTS
from memfin.contracts.reading import iter_jsonl
from memfin.errors import UsageError

TableFormat = Literal["csv", "parquet"]
ColumnType = Literal["int64", "float64", "bool_", "string", "json"]

_BATCH: Final = 1000
_LEAVES: Final[dict[type[inspect.Type], ColumnType]] = {
    inspect.IntType: "int64",
    inspect.FloatType: "float64",
    inspect.BoolType: "bool_",
    inspect.StrType: "string",
}


class _TurnOfDialogue(Record):
    """A row of the table of turns."""

    run_id: str
    dialog_id: str
    turn: TurnTrace


class Column(NamedTuple):
    """A field of a record, or of a record within, and the type of its cells; ``json`` is text of a value."""

    path: tuple[str, ...]
    type: ColumnType

    @property
    def name(self) -> str:
        """The names of the path with dots between."""
        return ".".join(self.path).removeprefix("turn.")

    def cell(self, record: Record) -> Any:
        """Return the value of the field; None where the record has none."""
        value: Any = record
        for name in self.path:
            value = getattr(value, name, None)
        if value is None or value is msgspec.UNSET:
            return None
        return msgspec.json.encode(value).decode() if self.type == "json" else value


def columns_of(kind: type[Record], path: tuple[str, ...] = ()) -> list[Column]:
    """Return the columns of a kind of record; records within have their own, lists and mappings are JSON."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - a record is one
    columns: list[Column] = []
    for field in info.fields:
        leaf, place = _leaf(field.type), (*path, field.name)
        if (kind, field.name) == (DialogTrace, "turns"):
            continue  # a table of their own
        columns += columns_of(leaf, place) if isinstance(leaf, type) else [Column(place, leaf)]
    return columns


def _leaf(info: inspect.Type) -> ColumnType | type[Record]:
    """Return the type of a field's cells, or the record within."""
    if isinstance(info, inspect.Metadata):
        return _leaf(info.type)
    if isinstance(info, inspect.UnionType):
        found: set[ColumnType | type[Record]] = {
            _leaf(each) for each in info.types if not isinstance(each, inspect.NoneType)
        }
        if found == {"int64", "float64"}:
            return "float64"
        return found.pop() if len(found) == 1 else "json"
    if isinstance(info, inspect.LiteralType):
        return "int64" if all(isinstance(value, int) for value in info.values) else "string"
    if isinstance(info, inspect.StructType) and issubclass(info.cls, Record):
        return info.cls
    return _LEAVES.get(type(info), "json")


class _Table(Protocol):
    """A file of one kind of record, open for writing."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def write(self, records: list[Record]) -> None:
        """Write a batch of records."""


class _CsvTable:
    """A CSV file; empty cells stand for absent values."""

    def __init__(self, path: Path, columns: list[Column]) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._columns = columns
        self._writer.writerow([column.name for column in columns])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, records: list[Record]) -> None:
        """Write a batch of records."""
        for record in records:
            cells = [column.cell(record) for column in self._columns]
            self._writer.writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells])


class _ParquetTable:
    """A Parquet file; the types of its columns are those of the contract, whatever the rows hold."""

    def __init__(self, path: Path, columns: list[Column]) -> None:
        self._arrow, parquet = _pyarrow()
        self._columns = columns
        text = self._arrow.string()
        types = [text if column.type == "json" else getattr(self._arrow, column.type)() for column in columns]
        names = [column.name for column in columns]
        self._schema = self._arrow.schema(list(zip(names, types, strict=True)))
        self._writer = parquet.ParquetWriter(path, self._schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write(self, records: list[Record]) -> None:
        """Write a batch of records."""
        arrays = [
            self._arrow.array([column.cell(record) for record in records], field.type)
            for column, field in zip(self._columns, self._schema, strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError("--to parquet needs the extra: pip install 'memfin[parquet]'") from None


def export_tables(directory: Path, out: Path, form: TableFormat) -> dict[str, int]:
    """Write a table for each file of rows in a run directory, and return the rows of each by its name.

    The turns of ``dialog_trace.jsonl`` are a table of their own, ``turns``.

    Raises:
        UsageError: there are no such files, one is broken, or ``out`` exists.
    """
    files = {
        directory / entry.file_name: entry.type
        for entry in CONTRACTS.values()
        if entry.file_name is not None and "{" not in entry.file_name and entry.file_format == "jsonl"
    }
    found = {path: kind for path, kind in files.items() if path.is_file()}
    if not found:
        raise UsageError(f"{directory}: holds no rows; give the directory of a run, such as runs/RUN_ID")
    if out.exists():
        raise UsageError(f"{out} exists; remove it or name another directory")
    partial = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    counts: dict[str, int] = {}
    try:
        partial.mkdir()
        for path, kind in found.items():
            counts |= _export(path, kind, partial, form)
        partial.rename(out)
    except OSError as problem:
        raise UsageError(f"cannot write {out}: {problem.strerror or problem}") from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return counts


def _export(path: Path, kind: type[Record], out: Path, form: TableFormat) -> dict[str, int]:
    """Write the tables of one file."""
    kinds = {path.stem: kind} | ({"turns": _TurnOfDialogue} if kind is DialogTrace else {})
    counts = dict.fromkeys(kinds, 0)
    make: Callable[[Path, list[Column]], _Table] = _CsvTable if form == "csv" else _ParquetTable
    with ExitStack() as stack:
        tables = {
            name: stack.enter_context(make(out / f"{name}.{form}", columns_of(each)))
            for name, each in kinds.items()
        }
        rows = iter_jsonl(path, kind)
        while batch := list(islice(rows, _BATCH)):
            units: dict[str, list[Record]] = {path.stem: [record for _, record in batch]}
            units["turns"] = [
                _TurnOfDialogue(run_id=record.run_id, dialog_id=record.dialog_id, turn=turn)
                for _, record in batch
                if isinstance(record, DialogTrace)
                for turn in record.turns
            ]
            try:
                for name, table in tables.items():
                    table.write(units[name])
                    counts[name] += len(units[name])
            except (ValueError, OverflowError) as problem:  # an integer beyond 64 bits
                raise UsageError(
                    f"{path}:{batch[0][0]}: cannot be {form} from here on: {problem}"
                ) from problem
    return counts
