"""Export of a run as OpenTelemetry spans (GenAI semantic conventions) in OTLP JSON lines."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts import ModelUsage
from memfin.exchange.evaluations import Evaluation, TimedDialog, TimedTurn, digest, timed_dialogs
from memfin.exchange.otel import CONVERSATION, OTHER_ERROR, TURN
from memfin.results import Results
from memfin.version import __version__

FILE: Final = "spans.jsonl"

_OF_STEPS: Final = {
    "search_memory": ("gen_ai.memory.store.name", "gen_ai.memory.query.text", "gen_ai.memory.records"),
    "execute_tool": ("gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
}
"""Attributes with the name, the input and the output of a step."""

Attributes = Mapping[str, str | int | float | None]


def export(run: Results[Any], out: Path) -> dict[str, int]:
    """Write a request per dialogue, as ``memfin import otel`` and OTLP receivers read it; count spans."""
    count = 0
    resource = {"attributes": _attributes({"service.name": "memfin", "memfin.run.id": run.run_id})}
    scope = {"name": "memfin", "version": __version__}
    with (out / FILE).open("wb") as file:
        for dialog in timed_dialogs(run):
            spans = [{"traceId": dialog.trace_id, **span} for span in _spans(dialog)]
            count += len(spans)
            request = {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}
            file.write(msgspec.json.encode({"resourceSpans": [request]}) + b"\n")
    return {FILE: count}


def _spans(dialog: TimedDialog) -> Iterator[dict[str, Any]]:
    """Yield the span of a dialogue, which is no operation of the conventions, and those below it."""
    trace, turns, root = dialog.trace, dialog.turns, digest(16, dialog.trace)
    about: dict[str, str | None] = {
        CONVERSATION: trace.dialog_id,
        "memfin.scenario": trace.scenario_type,
        "memfin.difficulty": trace.difficulty,
    }
    yield _span("dialogue", (root, ""), turns[0].start, turns[-1].end, about, events=dialog.evaluations)
    for turn in turns:
        yield _turn_span(turn, root, trace.dialog_id)
        for key, step in turn.steps:
            values = (step.name, _text(step.input), _text(step.output))
            about = {
                "gen_ai.operation.name": step.kind,
                **dict(zip(_OF_STEPS[step.kind], values, strict=True)),
            }
            yield _span(step.kind, (key, turn.span_id), step.start, step.end, about, step.error)


def _turn_span(turn: TimedTurn, root: str, dialog_id: str) -> dict[str, Any]:
    trace, usage = turn.trace, turn.trace.usage or ModelUsage()
    reply = trace.pred_assistant_text
    about: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        CONVERSATION: dialog_id,
        TURN: trace.turn_pair_id,
        "gen_ai.input.messages": _message("user", trace.user_text),
        "gen_ai.output.messages": None
        if reply is None
        else _message("assistant", reply, finish_reason="stop"),
        "gen_ai.response.model": usage.model,
        "gen_ai.usage.input_tokens": usage.prompt_tokens or None,
        "gen_ai.usage.output_tokens": usage.completion_tokens or None,
    }
    error = None if trace.turn_status == "ok" else trace.error or "no reply"
    kind = "timeout" if trace.turn_status == "timeout" else OTHER_ERROR
    ids = (turn.span_id, root)
    return _span("invoke_agent", ids, turn.start, turn.end, about, error, kind, turn.evaluations)


def _span(
    name: str,
    ids: tuple[str, str],
    start: int,
    end: int,
    about: Attributes,
    error: str | None = None,
    error_type: str = OTHER_ERROR,
    events: Iterable[Evaluation] = (),
) -> dict[str, Any]:
    """Return a span with its own id and that of its parent, without that of its trace."""
    failed = {} if error is None else {"error.type": error_type}
    return {
        "spanId": ids[0],
        "parentSpanId": ids[1],
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": _attributes({**about, **failed}),
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
    name = "gen_ai.evaluation.result"
    return {"name": name, "timeUnixNano": str(time), "attributes": _attributes(about)}


def _message(role: str, text: str, **fields: str) -> str:
    return _text([{"role": role, "parts": [{"type": "text", "content": text}], **fields}])


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _attributes(about: Attributes) -> list[dict[str, Any]]:
    """Return attributes in the JSON encoding of OTLP, without those that are None."""
    return [{"key": key, "value": _value(value)} for key, value in about.items() if value is not None]


def _value(value: str | float) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}
