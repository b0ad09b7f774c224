"""Export of a run as OpenTelemetry spans (GenAI semantic conventions) in OTLP JSON lines."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts import ModelUsage
from memfin.exchange.evaluations import MS, Evaluation, TimedDialog, TimedTurn, digest, timed_dialogs
from memfin.exchange.otel import CONVERSATION, OTHER_ERROR
from memfin.results import Results
from memfin.version import __version__

EVALUATION: Final = "gen_ai.evaluation.result"
FILE: Final = "spans.jsonl"

Attributes = Mapping[str, str | int | float | None]


def export(run: Results[Any], out: Path) -> dict[str, int]:
    """Write a request per dialogue, as ``memfin import otel`` and OTLP receivers read it; count spans."""
    spans = 0
    resource = {"attributes": _attributes({"service.name": "memfin", "memfin.run.id": run.run_id})}
    scope = {"name": "memfin", "version": __version__}
    with (out / FILE).open("wb") as file:
        for dialog in timed_dialogs(run):
            found = _dialog_spans(dialog)
            spans += len(found)
            request = {"resource": resource, "scopeSpans": [{"scope": scope, "spans": found}]}
            file.write(msgspec.json.encode({"resourceSpans": [request]}) + b"\n")
    return {FILE: spans}


def _dialog_spans(dialog: TimedDialog) -> list[dict[str, Any]]:
    """Return the spans of a dialogue: its root, its turns, and their recalls and tools."""
    trace, turns = dialog.trace, dialog.turns
    known: Attributes = {CONVERSATION: trace.dialog_id}
    about = {**known, "memfin.scenario": trace.scenario_type, "memfin.difficulty": trace.difficulty}
    root = _span("dialogue", turns[0].start, turns[-1].end, about, events=dialog.evaluations)
    root["spanId"] = digest(16, trace)
    spans = [root]
    for turn in turns:
        spans.append(_turn_span(turn, known) | {"spanId": turn.span_id, "parentSpanId": root["spanId"]})
        details = [*_recall_spans(turn), *_tool_spans(turn)]
        for number, span in enumerate(details):
            key = digest(16, trace, turn.trace.turn_pair_id, number)
            spans.append(span | {"spanId": key, "parentSpanId": turn.span_id})
    return [{"traceId": dialog.trace_id, **span} for span in spans]


def _turn_span(turn: TimedTurn, known: Attributes) -> dict[str, Any]:
    trace, usage = turn.trace, turn.trace.usage or ModelUsage()
    about = {
        **known,
        "memfin.turn": trace.turn_pair_id,
        "gen_ai.input.messages": _message("user", trace.user_text),
        "gen_ai.output.messages": _message("assistant", trace.pred_assistant_text, finish_reason="stop"),
        "gen_ai.response.model": usage.model,
        "gen_ai.usage.input_tokens": usage.prompt_tokens or None,
        "gen_ai.usage.output_tokens": usage.completion_tokens or None,
    }
    error = None if trace.turn_status == "ok" else trace.error or "no reply"
    kind = "timeout" if trace.turn_status == "timeout" else OTHER_ERROR
    return _span("invoke_agent", turn.start, turn.end, about, error, kind, events=turn.evaluations)


def _recall_spans(turn: TimedTurn) -> Iterator[dict[str, Any]]:
    """Yield a span per source of recalled entries, at the start of the turn; one without entries, too."""
    recall = turn.trace.recall
    if recall is None:
        return
    by_source = groupby(recall.items, lambda item: item.source)
    for source, items in [(source, list(items)) for source, items in by_source] or [(None, [])]:
        about = {
            "gen_ai.memory.query.text": recall.query,
            "gen_ai.memory.store.name": source,
            "gen_ai.memory.records": _json(
                [{"id": item.item_id, "content": item.content, "score": item.score} for item in items]
            ),
        }
        yield _span("search_memory", turn.start, turn.start, about)


def _tool_spans(turn: TimedTurn) -> Iterator[dict[str, Any]]:
    """Yield a span per tool call, each a nanosecond after the one before: traces tell only their order."""
    for number, tool in enumerate(turn.trace.tools):
        start = turn.start + number
        about = {
            "gen_ai.tool.name": tool.tool_name,
            "gen_ai.tool.call.arguments": tool.args if isinstance(tool.args, str) else _json(tool.args),
            "gen_ai.tool.call.result": tool.result_excerpt,
        }
        yield _span("execute_tool", start, start + round((tool.latency_ms or 0) * MS), about, tool.error)


def _span(
    operation: str,
    start: int,
    end: int,
    about: Attributes,
    error: str | None = None,
    error_type: str = OTHER_ERROR,
    *,
    events: Iterable[Evaluation] = (),
) -> dict[str, Any]:
    """Return a span without its ids; that of a dialogue is no operation of the conventions."""
    named = {} if operation == "dialogue" else {"gen_ai.operation.name": operation}
    failed = {} if error is None else {"error.type": error_type}
    return {
        "name": operation,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": _attributes({**named, **about, **failed}),
        "events": [_event(each, end) for each in events],
        "status": {"code": 0} if error is None else {"code": 2, "message": error},
    }


def _event(evaluation: Evaluation, time: int) -> dict[str, Any]:
    about = {
        "gen_ai.evaluation.name": evaluation.name,
        "gen_ai.evaluation.score.value": evaluation.value,
        "gen_ai.evaluation.score.label": evaluation.label,
        "gen_ai.evaluation.explanation": evaluation.explanation,
    }
    return {"name": EVALUATION, "timeUnixNano": str(time), "attributes": _attributes(about)}


def _message(role: str, text: str | None, **fields: str) -> str | None:
    if text is None:
        return None
    return _json([{"role": role, "parts": [{"type": "text", "content": text}], **fields}])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _attributes(about: Attributes) -> list[dict[str, Any]]:
    """Return attributes in the JSON encoding of OTLP, without those that are None."""
    return [{"key": key, "value": _value(value)} for key, value in about.items() if value is not None]


def _value(value: str | float) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}
