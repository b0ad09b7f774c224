"""Samples of inspect_ai's logs as dialogue traces."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts import TRACE_VERSION, DialogTrace, ToolTrace, TurnTrace
from memfin.contracts.dataset import TurnTags
from memfin.errors import UsageError
from memfin.exchange.conversations import ImportStats
from memfin.journal.disk import Disk
from memfin.report.inspect_log import call_library, is_log

_UNREAD: Final = {"store", "timelines"}
"""Large parts of a sample that a trace does not need."""


def import_inspect(path: Path, out: Path, *, run_id: str = "imported") -> ImportStats:
    """Write the samples of a log as a dialogue trace; memory holds a sample of an ``.eval`` log at a time.

    Raises:
        UsageError: the file is no log, no sample has the user's text, or ``out`` exists.
    """
    if out.exists():
        raise UsageError(f"{out} exists; remove it or name another file")
    if not is_log(path):
        raise UsageError(f"{path}: is no file named .eval or .json, as logs of inspect_ai are")
    header = call_library(path, "read_eval_log", header_only=True)
    stats = ImportStats(unfinished="" if header.status == "success" else header.status)
    repeated = (header.eval.config.epochs or 1) > 1

    def lines() -> Iterator[bytes]:
        nonlocal stats
        for sample in _samples_of(path):
            turns, silent = _turns(sample)
            answered = sum(turn.error is None for turn in turns)
            unanswered = sum(turn.pred_assistant_text is None and turn.error is None for turn in turns)
            place = f"{path}: sample {sample.id}, epoch {sample.epoch}" if silent else ""
            stats = stats.replace(
                dialogs=stats.dialogs + bool(turns),
                turns=stats.turns + len(turns),
                silent=stats.silent + silent,
                first_silent=stats.first_silent or place,
                unanswered=stats.unanswered + unanswered,
            )
            if turns:
                trace = DialogTrace(
                    trace_version=TRACE_VERSION,
                    run_id=run_id,
                    dialog_id=f"{sample.id}_epoch_{sample.epoch}" if repeated else str(sample.id),
                    dataset_index=stats.dialogs,
                    dialog_status="ok" if answered == len(turns) else "partial" if answered else "failed",
                    valid_dialog=True,
                    turns=turns,
                )
                yield msgspec.json.encode(trace) + b"\n"
        if not stats.dialogs:
            raise UsageError(f"{path}: no sample has a user message with text; nothing was written")

    try:
        Disk().write_whole(out, lines())
    except OSError as problem:
        raise UsageError(f"cannot write {out}: {problem.strerror or problem}") from problem
    return stats


def _samples_of(path: Path) -> Iterator[Any]:
    if path.suffix == ".json":  # the library reads the whole file for each of its samples
        yield from call_library(path, "read_eval_log", resolve_attachments=True).samples or ()
        return
    for each in call_library(path, "read_eval_log_sample_summaries"):
        yield call_library(
            path,
            "read_eval_log_sample",
            each.id,
            each.epoch,
            resolve_attachments=True,
            exclude_fields=_UNREAD,
        )


def _turns(sample: Any) -> tuple[list[TurnTrace], int]:
    """Return the turns of a sample, and the number of those without the user's text.

    A user message begins a turn. Turns whose replies are part of the sample's input are left out: no model
    has given them.
    """
    groups: list[tuple[str, list[Any]]] = []
    for message in sample.messages:
        if message.role == "user":
            groups.append((message.text, []))
        elif groups and message.role != "system":
            groups[-1][1].append(message)
    live = [(user, rest) for user, rest in groups if not rest or any(each.source != "input" for each in rest)]
    events = {
        event.id if event.event == "tool" else event.output.message.id: event
        for event in sample.events
        if event.event == "tool" or (event.event == "model" and event.output.choices)
    }
    heard = [(user, rest) for user, rest in live if user.strip()]
    turns = [_turn(number, user, rest, events) for number, (user, rest) in enumerate(heard, 1)]
    if turns and sample.error is not None:
        turns[-1] = turns[-1].replace(turn_status="error", error=sample.error.message)
    return turns, len(live) - len(heard)


def _turn(number: int, user: str, messages: list[Any], events: Mapping[str, Any]) -> TurnTrace:
    """Return a turn: the last text of the model is the reply, the events of messages and calls have times."""
    assistant = [message for message in messages if message.role == "assistant"]
    replies = [message.text for message in assistant if message.text.strip()]
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    calls = [call for message in assistant for call in message.tool_calls or ()]
    tools = []
    for call in calls:
        result = results.get(call.id)
        tools.append(
            ToolTrace(
                tool_name=call.function,
                args=call.arguments,
                result_excerpt=result.text if result else "",
                latency_ms=_milliseconds([call.id], events),
                error=result.error.message if result and result.error else None,
            )
        )
    return TurnTrace(
        turn_pair_id=number,
        user_turn_abs_idx=2 * number - 2,
        gt_assistant_abs_idx=2 * number - 1,
        user_text=user,
        gt_assistant_text="",
        gt_turn_tags=TurnTags(),
        turn_status="ok",
        pred_assistant_text=replies[-1] if replies else None,
        latency_ms=_milliseconds([each.id for each in (*assistant, *calls)], events),
        tools=tools,
    )


def _milliseconds(keys: list[str], events: Mapping[str, Any]) -> float | None:
    """Return the time from the start of the first event to the end of the last; None without events."""
    found = [events[key] for key in keys if key in events]
    if not found:
        return None
    end = max(event.completed or event.timestamp for event in found)
    return float((end - min(event.timestamp for event in found)).total_seconds() * 1000)
