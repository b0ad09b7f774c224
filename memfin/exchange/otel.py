"""OpenTelemetry spans of conversations (GenAI or OpenInference conventions) as dialogue traces."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memfin.exchange.conversations import ImportStats, Part, Source, SpanRecord, import_spans
from memfin.exchange.messages import (
    content_of,
    json_value,
    objects,
    recall_part,
    text_of,
    tool_part,
    turn_part,
)
from memfin.exchange.openinference import KIND, SESSION, nested, openinference_part
from memfin.exchange.otlp import Span, plain_attributes, read_spans
from memfin.exchange.records import errors_at

CONVERSATION: Final = "gen_ai.conversation.id"
TURN: Final = "memfin.turn"
"""Number of a turn that MemFin exported, which is no repetition of another."""
OTHER_ERROR: Final = "_OTHER"
"""Type of errors that have none."""

_TURNS: Final = frozenset(
    {"chat", "text_completion", "generate_content", "invoke_agent", "invoke_workflow", "responses"}
)
_RECALLS: Final = frozenset({"search_memory", "retrieval"})
_DETAILS: Final = "gen_ai.client.inference.operation.details"


def import_otel(files: Sequence[Path], out: Path, *, run_id: str = "imported") -> ImportStats:
    """Write the conversations in OTLP files as a dialogue trace; see `import_spans`."""
    source = Source(
        read=_read,
        no_dialog=f"no span of a model or an agent has {CONVERSATION}; have the agent set it",
        no_text="no span of a conversation has the user's text (gen_ai.input.messages); "
        "have the instrumentation capture message content",
    )
    return import_spans(source, files, out, run_id=run_id)


def _read(path: Path) -> Iterator[SpanRecord]:
    for where, span in read_spans(path):
        yield otlp_record(where, span)


def otlp_record(where: str, span: Span) -> SpanRecord:
    """Return a span of either convention; its conversation is that of the GenAI ones, else its session."""
    with errors_at(where):
        if not (span.trace_id and span.span_id):
            raise ValueError("a span without traceId or spanId")
        start, end = span.times
        attributes = plain_attributes(span.attributes)
        conversation = attributes.get(CONVERSATION)
        latency_ms = (end - start) / 1e6
        if KIND in attributes:
            conversation = conversation or attributes.get(SESSION)
            error = _error(span, attributes)
            part = openinference_part(nested(attributes), span.name, error, latency_ms)
        else:
            part = _part_of(span, attributes, latency_ms)
        known = None if conversation is None else str(conversation).strip() or None
    return SpanRecord(where, span.trace_id, span.span_id, span.parent_span_id, known, start, end, part)


def _part_of(span: Span, attributes: Mapping[str, Any], latency_ms: float) -> Part | None:
    """Return what the trace needs of a span; None where that is nothing."""
    operation = attributes.get("gen_ai.operation.name")
    error = _error(span, attributes)
    if operation == "execute_tool":
        name = text_of(attributes.get("gen_ai.tool.name")) or span.name
        args, result = (attributes.get(f"gen_ai.tool.call.{key}") for key in ("arguments", "result"))
        return tool_part(name, args, result, latency_ms, error)
    if operation in _RECALLS:
        return _recall(attributes)
    inputs, outputs = _messages(span, attributes)
    if operation not in _TURNS and not (inputs or outputs):
        return None
    replies = [("assistant", text) for each in outputs if (text := content_of(each))]
    part = turn_part([(str(each.get("role")), content_of(each)) for each in inputs], replies[:1], error=error)
    return part.replace(numbered=TURN in attributes)


def _error(span: Span, attributes: Mapping[str, Any]) -> str | None:
    kind = text_of(attributes.get("error.type"))
    if not span.failed and not kind:
        return None
    return ": ".join(filter(None, (kind if kind != OTHER_ERROR else "", span.status.message))) or "error"


def _messages(
    span: Span, attributes: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the messages to and from the model, in any of the places that the conventions have had.

    1. JSON or structured attributes of the span, or of its event of operation details.
    2. An event per message: ``gen_ai.ROLE.message``, and ``gen_ai.choice`` for each answer.
    """
    inputs, outputs = _both(attributes)
    for event in span.events:
        body = plain_attributes(event.attributes)
        if event.name == _DETAILS and not (inputs or outputs):
            inputs, outputs = _both(body)
        content = json_value(body.get("gen_ai.event.content"))
        body = {**body, **content} if isinstance(content, Mapping) else body
        if event.name == "gen_ai.choice":
            message = json_value(body.get("message", body))
            outputs.append(message if isinstance(message, Mapping) else {"content": message})
        elif event.name.startswith("gen_ai.") and event.name.endswith(".message"):
            inputs.append({**body, "role": event.name.split(".")[1]})
    return inputs, outputs


def _both(attributes: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    inputs, outputs = (
        objects(attributes.get(name)) for name in ("gen_ai.input.messages", "gen_ai.output.messages")
    )
    return inputs, outputs


def _recall(attributes: Mapping[str, Any]) -> Part:
    def first(*names: str) -> Any:
        return next((attributes[name] for name in names if name in attributes), None)

    source = first("gen_ai.memory.store.name", "gen_ai.memory.store.id", "gen_ai.data_source.id")
    return recall_part(
        first("gen_ai.memory.query.text", "gen_ai.retrieval.query.text"),
        first("gen_ai.memory.records", "gen_ai.retrieval.documents"),
        None if source is None else text_of(source),
    )
