"""Exports of spans from Arize Phoenix as dialogue traces: data frames, answers of its API, OTLP."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from memfin.exchange.conversations import ImportStats, Source, SpanRecord, import_spans
from memfin.exchange.messages import json_value
from memfin.exchange.openinference import KIND, SESSION, mapping_of, nested, openinference_part, value_at
from memfin.exchange.otel import otlp_record
from memfin.exchange.otlp import TraceRequest
from memfin.exchange.records import errors_at, nanoseconds, read_records

_LISTS: Final = ("data", "spans")


def import_phoenix(files: Sequence[Path], out: Path, *, run_id: str = "imported") -> ImportStats:
    """Write the sessions in exports of Phoenix as a dialogue trace; see `import_spans`."""
    source = Source(
        read=_read,
        no_dialog=f"no span of a model, a chain or an agent has {SESSION}; have it set",
        no_text="no span of a session has the user's text (input.value, llm.input_messages)",
    )
    return import_spans(source, files, out, run_id=run_id)


def _read(path: Path) -> Iterator[SpanRecord]:
    for where, record in read_records(path):
        if "resourceSpans" in record:
            with errors_at(where):
                request = msgspec.convert(record, TraceRequest)
            yield from (otlp_record(where, span) for span in request.spans())
            continue
        inside = next((record[key] for key in _LISTS if isinstance(record.get(key), list)), [record])
        for each in inside:
            with errors_at(where):
                found = _record(where, each)
            yield found


def _record(where: str, record: object) -> SpanRecord:
    """Return a span from a row of a data frame, or from an object of the API or the command line."""
    span = mapping_of(nested(record))
    attributes = mapping_of(json_value(span.get("attributes")))
    context = mapping_of(span.get("context"))
    trace, key = context.get("trace_id"), context.get("span_id")
    if not trace or not key:
        raise ValueError("no span of Phoenix: context.trace_id or context.span_id is missing")
    start = nanoseconds(span.get("start_time"))
    if start is None:
        raise ValueError(f"span {key}: start_time is missing")
    end = nanoseconds(span.get("end_time")) or 0  # has not ended
    failed = str(span.get("status_code", "")).upper() == "ERROR"
    error = (span.get("status_message") or "error") if failed else None
    kind = value_at(attributes, KIND) or span.get("span_kind")
    part = openinference_part(attributes, str(span.get("name", "")), error, (end - start) / 1e6, kind)
    session = str(value_at(attributes, SESSION) or "").strip() or None
    return SpanRecord(
        where, str(trace), str(key), str(span.get("parent_id") or ""), session, start, end, part
    )
