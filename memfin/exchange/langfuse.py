"""Exports of traces and observations from Langfuse as dialogue traces.

Keys are those of its API and of the exports of its pages (``sessionId``) or of blob storage (``session_id``).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memfin.exchange.conversations import ImportStats, LeftOut, Part, Source, SpanRecord, import_spans
from memfin.exchange.messages import json_value, messages_in, recall_part, tool_part, turn_part
from memfin.exchange.records import errors_at, nanoseconds, read_records

_MODELS: Final = frozenset({"GENERATION", "AGENT"})
_STEPS: Final = frozenset({"SPAN", "CHAIN", "EVENT"})
_MAX_LATENCY: Final = 1e9
_ASIDES: Final = frozenset({"EVALUATOR", "GUARDRAIL"})


def import_langfuse(files: Sequence[Path], out: Path, *, run_id: str = "imported") -> ImportStats:
    """Write the sessions in exports of Langfuse as a dialogue trace; see `import_spans`.

    Each trace is a turn. One without a session is a dialogue, with the turns that its input repeats.
    """
    source = Source(
        read=_read,
        no_dialog="no trace and no observation of Langfuse; export traces or observations",
        no_text="no trace has the user's text as its input, and no observation of it has",
        by_trace=True,
    )
    return import_spans(source, files, out, run_id=run_id)


def _read(path: Path) -> Iterator[SpanRecord | LeftOut]:
    for where, record in read_records(path):
        yield from _records(where, record)


def _records(where: str, record: Mapping[str, Any]) -> Iterator[SpanRecord | LeftOut]:
    """Yield the traces and observations of a record.

    1. A page of the API has them under ``data``, a download of a trace has ``trace`` and ``observations``.
    2. A session has ``traces``, a trace may have ``observations`` and ``scores``; in lists they are only ids.
    """
    if _value(record, "dataType") and "name" in record:
        yield LeftOut(where, "score")
        return
    session = _value(record, "sessionId") or (_value(record, "id") if "traces" in record else None)
    for inside in (
        record.get("data"),
        record.get("traces"),
        [record.get("trace")],
        record.get("observations"),
    ):
        for each in inside if isinstance(inside, list) else ():
            if isinstance(each, Mapping):
                yield from _records(where, {"sessionId": session, **each} if session else each)
    scores = record.get("scores")
    if isinstance(scores, list) and scores:
        yield LeftOut(where, "score", len(scores))
    if any(isinstance(record.get(key), list | Mapping) for key in ("data", "traces", "trace")):
        return
    with errors_at(where):
        found = _span(where, record)
    yield found or LeftOut(where, "stray")


def _value(record: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key in either spelling."""
    value = record.get(key)
    return record.get("".join(f"_{c.lower()}" if c.isupper() else c for c in key)) if value is None else value


def _span(where: str, record: Mapping[str, Any]) -> SpanRecord | None:
    """Return a trace or an observation; None for anything else."""
    key, trace = str(_value(record, "id") or ""), str(_value(record, "traceId") or "")
    start = nanoseconds(_value(record, "startTime") if trace else record.get("timestamp"))
    if start is None or not key:
        return None
    session = str(_value(record, "sessionId") or "").strip() or None
    if not trace:
        latency = float(record.get("latency") or 0)
        if not 0 <= latency < _MAX_LATENCY:
            raise ValueError(f"the latency {latency} is no number of seconds")
        end = start + round(latency * 1e9)
        return SpanRecord(where, key, "", "", session, start, end, _turn(record, None, whole=True))
    end = nanoseconds(_value(record, "endTime")) or 0  # has not ended
    parent = str(_value(record, "parentObservationId") or "")
    part = _part(record, root=not parent, latency_ms=(end - start) / 1e6)
    return SpanRecord(where, trace, key, parent, session, start, end or start, part)


def _part(record: Mapping[str, Any], *, root: bool, latency_ms: float) -> Part | None:
    """Return what the trace needs of an observation; of a step in between that is nothing."""
    kind = str(record.get("type") or "").upper()
    failed = str(record.get("level") or "").upper() == "ERROR"
    error = (_value(record, "statusMessage") or "error") if failed else None
    if kind in _MODELS or (kind in _STEPS and root):
        return _turn(record, error)
    if kind == "TOOL":
        name, result = str(record.get("name") or ""), record.get("output")
        return tool_part(name, record.get("input"), result, latency_ms, error)
    if kind == "RETRIEVER":
        return recall_part(record.get("input"), json_value(record.get("output")))
    return Part(kind="aside") if kind in _ASIDES else None


def _turn(record: Mapping[str, Any], error: str | None, *, whole: bool = False) -> Part:
    inputs, outputs = messages_in(record.get("input"), "user"), messages_in(record.get("output"), "assistant")
    history = not _value(record, "sessionId")
    return turn_part(inputs, outputs, error=error, whole=whole, history=history)
