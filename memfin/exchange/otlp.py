"""Reader of OTLP trace files: JSON lines, a JSON document or protobuf, each optionally gzipped."""

import contextlib
import gzip
import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from memfin.contracts.reading import MAX_RECORD_BYTES, iter_lines, open_input
from memfin.errors import UsageError

_GZIP_MAGIC: Final = b"\x1f\x8b"
_PROTOBUF: Final = frozenset({".pb", ".bin", ".binpb", ".proto"})
_MODULES: Final = (
    "google.protobuf.json_format",
    "google.protobuf.message",
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
)
_ERROR_CODES: Final = (2, "STATUS_CODE_ERROR")
_MAX_TIME: Final = 2**63


class _Otlp(msgspec.Struct, rename="camel"):
    """Base of the messages, as the JSON encoding of OTLP names their fields."""


class AnyValue(_Otlp):
    """A value of an attribute, in the one field that is set."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: "ArrayValue | None" = None
    kvlist_value: "KeyValueList | None" = None
    bytes_value: str | None = None

    def plain(self) -> Any:
        """Return the value as plain data."""
        if self.array_value is not None:
            return [value.plain() for value in self.array_value.values]
        if self.kvlist_value is not None:
            return plain_attributes(self.kvlist_value.values)
        if self.int_value is not None:
            return int(self.int_value)
        if self.double_value is not None:
            return float(self.double_value)
        found = (self.string_value, self.bool_value, self.bytes_value)
        return next((value for value in found if value is not None), None)


class ArrayValue(_Otlp):
    """A list of values."""

    values: list[AnyValue] = []


class KeyValue(_Otlp):
    """An attribute."""

    key: str
    value: AnyValue = msgspec.field(default_factory=AnyValue)


class KeyValueList(_Otlp):
    """A mapping of values."""

    values: list[KeyValue] = []


class Event(_Otlp):
    """An event of a span."""

    name: str = ""
    attributes: list[KeyValue] = []


class Status(_Otlp):
    """The status of a span."""

    code: int | str = 0
    message: str = ""


class Span(_Otlp):
    """A span, as far as the importer reads it."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[KeyValue] = []
    events: list[Event] = []
    status: Status = msgspec.field(default_factory=Status)

    @property
    def times(self) -> tuple[int, int]:
        """Start and end in nanoseconds; raises ValueError where one is no such number."""
        start, end = int(self.start_time_unix_nano), int(self.end_time_unix_nano)
        if not (0 <= start < _MAX_TIME and 0 <= end < _MAX_TIME):
            raise ValueError(f"span {self.span_id}: its times are no nanoseconds since 1970")
        return start, end

    @property
    def failed(self) -> bool:
        """True if the status is an error."""
        return self.status.code in _ERROR_CODES


class ScopeSpans(_Otlp):
    """Spans of one instrumentation."""

    spans: list[Span] = []


class ResourceSpans(_Otlp):
    """Spans of one service."""

    scope_spans: list[ScopeSpans] = []


class TraceRequest(_Otlp):
    """An ExportTraceServiceRequest, which is also a TracesData."""

    resource_spans: list[ResourceSpans]

    def spans(self) -> Iterator[Span]:
        """Yield the spans of all services."""
        for resource in self.resource_spans:
            for scope in resource.scope_spans:
                yield from scope.spans


def plain_attributes(attributes: list[KeyValue]) -> dict[str, Any]:
    """Return attributes as a dictionary of plain data."""
    return {each.key: each.value.plain() for each in attributes}


def read_spans(path: Path) -> Iterator[tuple[str, Span]]:
    """Yield each span of a file with its ``file:line``; one request is in memory at a time.

    Raises:
        UsageError: the file cannot be read, or a request is no OTLP; the message begins with ``file:line``.
    """
    with open_export(path) as file:
        for where, request in _requests(path, file):
            yield from ((where, span) for span in request.spans())


@contextlib.contextmanager
def open_export(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file; one that is compressed with gzip is decompressed while it is read.

    Raises:
        UsageError: the file cannot be read, now or within the context.
    """
    try:
        with _open(path) as file:
            yield file
    except (OSError, EOFError, zlib.error) as problem:
        raise UsageError(f"cannot read {path}: {problem}") from problem


def _open(path: Path) -> BinaryIO:
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
                return gzip.open(path)  # type: ignore[return-value]  # a GzipFile reads as a BinaryIO does
    return open_input(path)


def _requests(path: Path, file: BinaryIO) -> Iterator[tuple[str, TraceRequest]]:
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    if suffixes and suffixes[-1] in _PROTOBUF:
        yield from _protobuf(path, file)
        return
    for where, data in iter_documents(path, file, "request"):
        yield where, _decode(where, data)


def iter_documents(path: Path, file: BinaryIO, noun: str) -> Iterator[tuple[str, bytes]]:
    """Yield each line of JSON lines, or the whole of a document, with its ``file:line``."""
    first = True
    for line in iter_lines(file, MAX_RECORD_BYTES):
        where, data = f"{path}:{line.number}", line.data
        if line.too_long:
            raise UsageError(f"{where}: the {noun} is longer than {MAX_RECORD_BYTES} bytes; split the file")
        if first and not data.rstrip().endswith(b"}"):  # a document over several lines
            data += b"\n" + file.read()
        first = False
        yield where, data


def _decode(where: str, data: bytes) -> TraceRequest:
    try:
        return msgspec.json.decode(data, type=TraceRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{where}: no OTLP request of spans: {problem or 'nested too deeply'}") from None


def _protobuf(path: Path, file: BinaryIO) -> Iterator[tuple[str, TraceRequest]]:
    """Yield the requests of a protobuf file: one as it is, or several, each after its length in 4 bytes."""
    try:
        protobuf, errors, service = (importlib.import_module(name) for name in _MODULES)
    except ImportError:
        raise UsageError(
            f"{path}: reading protobuf needs pip install 'memfin[otel]'; or have it written as JSON"
        ) from None
    number = 0
    while head := file.read(4):
        number += 1
        framed = head[:1] == b"\0"  # a message begins with the tag of its first field, which is not 0
        length = int.from_bytes(head, "big")
        data = file.read(length) if framed else head + file.read()
        where = f"{path}:{number}"
        if framed and len(data) < length:
            raise UsageError(f"{where}: the request is cut off")
        try:
            fields = protobuf.MessageToDict(service.ExportTraceServiceRequest.FromString(data))
            yield where, msgspec.convert({"resourceSpans": [], **fields}, TraceRequest)
        except (errors.DecodeError, msgspec.ValidationError) as problem:
            raise UsageError(f"{where}: no OTLP request of spans: {problem}") from None
