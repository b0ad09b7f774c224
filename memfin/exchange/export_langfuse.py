"""Export of a run as batches for Langfuse's ingestion API, one per line."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts import DialogTrace
from memfin.exchange.evaluations import Evaluation, TimedDialog, TimedTurn, digest, timed_dialogs
from memfin.results import Results

FILE: Final = "batches.jsonl"

_MAX_BATCH: Final = 1_000_000  # bytes; Langfuse takes 3.5 MB
_MAX_SESSION: Final = 200  # characters, of US-ASCII
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def export(run: Results[Any], out: Path) -> dict[str, int]:
    """Write the dialogues as sessions with a trace per turn; count batches."""
    batches = 0
    with (out / FILE).open("wb") as file:
        for batch in _batches(event for dialog in timed_dialogs(run) for event in _dialog_events(dialog)):
            file.write(b'{"batch":[' + b",".join(batch) + b"]}\n")
            batches += 1
    return {FILE: batches}


def _batches(events: Iterator[dict[str, Any]]) -> Iterator[list[bytes]]:
    """Yield encoded events in lists of at most `_MAX_BATCH` bytes; one that is larger has its own."""
    batch: list[bytes] = []
    size = 0
    for event in events:
        encoded = msgspec.json.encode(event)
        if batch and size + len(encoded) > _MAX_BATCH:
            yield batch
            batch, size = [], 0
        batch.append(encoded)
        size += len(encoded) + 1
    if batch:
        yield batch


def _dialog_events(dialog: TimedDialog) -> Iterator[dict[str, Any]]:
    trace = dialog.trace
    session = f"{trace.run_id}/{trace.dialog_id}"
    if len(session) > _MAX_SESSION or not session.isascii():
        session = dialog.trace_id
    for turn in dialog.turns:
        yield from _turn_events(trace, session, turn)
    for score in dialog.evaluations:
        yield _score(trace, score, dialog.turns[-1].end, sessionId=session)


def _turn_events(dialog: DialogTrace, session: str, turn: TimedTurn) -> Iterator[dict[str, Any]]:
    """Yield the trace of a turn, its reply, recalls and tools as observations, and the scores."""
    trace, usage, start = turn.trace, turn.trace.usage or None, _time(turn.start)
    key = digest(32, dialog, trace.turn_pair_id)
    texts = {"input": trace.user_text, "output": trace.pred_assistant_text}
    body = {
        "id": key,
        "timestamp": start,
        "name": f"turn {trace.turn_pair_id}",
        "sessionId": session,
        "userId": dialog.user_id,
        "tags": [tag for tag in (dialog.scenario_type, dialog.difficulty) if tag],
        "metadata": {"run_id": dialog.run_id, "dialog_id": dialog.dialog_id, "turn": trace.turn_pair_id},
        **texts,
    }
    yield _event("trace-create", turn.start, body)
    reply = {
        "id": turn.span_id,
        "traceId": key,
        "name": "reply",
        "startTime": start,
        "endTime": _time(turn.end),
        "model": usage and usage.model,
        "usageDetails": usage and {"input": usage.prompt_tokens, "output": usage.completion_tokens},
        **_level(None if trace.turn_status == "ok" else trace.error or trace.turn_status),
        **texts,
    }
    yield _event("generation-create", turn.start, reply)
    for step_id, step in turn.steps:
        body = {
            "id": step_id,
            "traceId": key,
            "parentObservationId": turn.span_id,
            "name": step.name or "recall",
            "startTime": _time(step.start),
            "endTime": _time(step.end),
            "input": step.input,
            "output": step.output,
            **_level(step.error),
        }
        yield _event("span-create", step.start, body)
    for score in turn.evaluations:
        yield _score(dialog, score, turn.end, traceId=key, observationId=turn.span_id)


def _level(error: str | None) -> dict[str, str]:
    return {} if error is None else {"level": "ERROR", "statusMessage": error}


def _score(dialog: DialogTrace, score: Evaluation, time: int, **place: str) -> dict[str, Any]:
    """Return the score of a reply or a session: a label, a number, or 1 or 0 for true and false."""
    number = "BOOLEAN" if score.is_binary else "NUMERIC"
    body = {
        "id": digest(32, dialog, score.name, *place.values()),
        **place,
        "name": score.name,
        "value": score.label if score.value is None else score.value,
        "dataType": "CATEGORICAL" if score.value is None else number,
        "comment": score.explanation,
    }
    return _event("score-create", time, body)


def _event(kind: str, time: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return an event without fields that are None; its id is that of what it makes."""
    known = {name: value for name, value in body.items() if value is not None}
    return {"id": f"{kind}-{body['id']}", "type": kind, "timestamp": _time(time), "body": known}


def _time(nanoseconds: int) -> str:
    moment = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
