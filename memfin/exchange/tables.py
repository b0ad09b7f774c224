"""Tables of a run's records as CSV or Parquet: a file per kind of record, a column per field."""

import csv
import importlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import msgspec

from memfin.contracts import Record
from memfin.errors import UsageError
from memfin.results.columns import Column
from memfin.results.records import TABLES

TableFormat = Literal["csv", "parquet"]

_BATCH: Final = 1000


def export_tables(directory: Path, out: Path, form: TableFormat) -> dict[str, int]:
    """Write the tables whose files a run directory has, and return their numbers of rows by file name.

    Raises:
        UsageError: there are no such files, or one is broken.
        OSError: ``out`` cannot be written to.
    """
    found = {name: table for name, table in TABLES.items() if table.is_in(directory)}
    if not found:
        raise UsageError(f"{directory}: holds no rows; give the directory of a run, such as runs/RUN_ID")
    write = _write_csv if form == "csv" else _write_parquet
    files = {f"{name}.{form}": table for name, table in found.items()}
    return {name: write(out / name, table.columns, table.read(directory)) for name, table in files.items()}


def _write_csv(path: Path, columns: list[Column], records: Iterator[Record]) -> int:
    """Write a CSV file, and return the number of records; empty cells stand for absent values."""
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(column.name for column in columns)
        for count, record in enumerate(records, 1):  # noqa: B007 - returned
            cells = (column.cell(record) for column in columns)
            writer.writerow(
                msgspec.json.encode(cell).decode() if isinstance(cell, bool | list) else cell
                for cell in cells
            )
    return count


def _write_parquet(path: Path, columns: list[Column], records: Iterator[Record]) -> int:
    """Write a Parquet file with the types of the contract, and return the number of records."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError("--to parquet needs the extra: pip install 'memfin[parquet]'") from None
    kinds = [getattr(arrow, "string" if column.type == "json" else column.type)() for column in columns]
    types = [column.nested(kind, arrow.list_) for column, kind in zip(columns, kinds, strict=True)]
    schema = arrow.schema(zip((column.name for column in columns), types, strict=True))
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(records, _BATCH)):
            cells = [[column.cell(record) for record in batch] for column in columns]
            try:
                arrays = list(map(arrow.array, cells, types))
            except (ValueError, OverflowError) as problem:  # an integer beyond 64 bits
                raise UsageError(f"{path.name}: not possible after row {count}: {problem}") from problem
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(batch)
    return count
