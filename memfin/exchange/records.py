"""Reader of exported records: JSON lines, a JSON array or document, CSV or Parquet."""

import codecs
import contextlib
import csv
import importlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec

from memfin.contracts.reading import BOM, MAX_RECORD_BYTES
from memfin.errors import UsageError
from memfin.exchange.otlp import iter_documents, open_export

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME: Final = 2**62  # in 2116; nanoseconds and durations then fit into 63 bits
_CHUNK: Final = 1 << 16
_BETWEEN: Final = re.compile(r"[\s,]*")
_PARQUET_ROWS: Final = 500


@contextlib.contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Turn an error in a record into one that begins with its place."""
    try:
        yield
    except RecursionError:
        raise UsageError(f"{where}: nested too deeply") from None
    except (ValueError, TypeError, OverflowError, msgspec.ValidationError) as problem:
        raise UsageError(f"{where}: {problem}") from None


def read_records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each record of a file with its ``file:line``, or its row in Parquet; one is in memory at a time.

    Raises:
        UsageError: the file cannot be read, or a record is no object.
    """
    suffix = next((suffix for suffix in reversed(path.suffixes) if suffix != ".gz"), "")
    with open_export(path) as file:
        if suffix == ".parquet":
            records = _parquet(path)
        elif suffix == ".csv":
            records = _csv(path, file)
        else:
            records = _json(path, file)
        for where, record in records:
            if not isinstance(record, Mapping):
                raise UsageError(f"{where}: no JSON object")
            yield where, record


def nanoseconds(value: object) -> int | None:
    """Return a time in nanoseconds since 1970; None for none, and a text without a zone is in UTC.

    A number is in the unit that makes it a time of the last decades: seconds, or thousandths of it and on.
    """
    if value is None or value == "":
        return None
    with contextlib.suppress(TypeError, ValueError):
        number = float(value)  # type: ignore[arg-type]
        for limit, unit in ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3), (float(_MAX_TIME), 1)):
            if 0 <= number < limit:
                return int(value) * unit if isinstance(value, int) else round(number * unit)
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        found = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        found = timedelta(-1)
    if not 0 <= (time_ns := found // timedelta(microseconds=1) * 1000) < _MAX_TIME:
        raise ValueError(f"{value!r} is no time since 1970")
    return time_ns


def _json(path: Path, file: BinaryIO) -> Iterator[tuple[str, Any]]:
    if cast("io.BufferedReader", file).peek(_CHUNK).removeprefix(BOM).lstrip().startswith(b"["):
        yield from _array(path, file)
        return
    for where, data in iter_documents(path, file, "record"):
        try:
            yield where, msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise UsageError(f"{where}: no JSON: {problem or 'nested too deeply'}") from None


def _array(path: Path, file: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a JSON array; more of the file is read where one does not end yet."""
    text, decoder, line = codecs.getreader("utf-8-sig")(file), json.JSONDecoder(), 1
    try:
        rest = text.read(_CHUNK)
        place = rest.index("[") + 1
        while True:
            start = _BETWEEN.match(rest, place).end()  # type: ignore[union-attr]  # it matches nothing, too
            line += rest.count("\n", place, start)
            if rest.startswith("]", start):
                return
            try:
                place = decoder.raw_decode(rest, start)[1]
                element = msgspec.json.decode(rest[start:place])  # as the lines of a file are
            except ValueError as problem:
                rest, place = rest[start:], 0
                more = text.read(max(_CHUNK, len(rest))) if len(rest) < MAX_RECORD_BYTES else ""
                if not more:
                    raise UsageError(f"{path}:{line}: no JSON: {getattr(problem, 'msg', problem)}") from None
                rest += more
                continue
            yield f"{path}:{line}", element
            line += rest.count("\n", start, place)
    except (UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{path}:{line}: no JSON: {problem}") from None


def _csv(path: Path, file: BinaryIO) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(MAX_RECORD_BYTES)
    with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        rows = csv.DictReader(text, strict=True)
        try:
            for row in rows:
                where = f"{path}:{rows.line_num}"
                if None in row or None in row.values():
                    raise UsageError(f"{where}: the row has not the columns of the header")
                yield where, {name: cell for name, cell in row.items() if cell != ""}
        except (csv.Error, UnicodeDecodeError) as problem:
            raise UsageError(f"{path}:{rows.reader.line_num}: no CSV: {problem}") from None


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise UsageError(f"{path}: reading Parquet needs pip install 'memfin[parquet]'") from None
    number = 0
    try:
        table = parquet.ParquetFile(path)
        for batch in table.iter_batches(_PARQUET_ROWS):
            micro = arrow.schema(
                field.with_type(arrow.timestamp("us", field.type.tz))
                if arrow.types.is_timestamp(field.type)
                else field
                for field in batch.schema
            )
            for row in arrow.Table.from_batches([batch]).cast(micro, safe=False).to_pylist():
                number += 1
                yield f"{path}:{number}", row
    except arrow.ArrowException as problem:
        raise UsageError(f"{path}: no Parquet: {problem}") from None
