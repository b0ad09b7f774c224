"""OpenTelemetry spans of conversations (GenAI semantic conventions) as dialogue traces.

Spans are spilled to a temporary SQLite file as they are read; one conversation at a time is put together.
"""

import contextlib
import os
import sqlite3
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from memfin.contracts import (
    TRACE_VERSION,
    DialogTrace,
    RecallItem,
    RecallTrace,
    Record,
    ToolTrace,
    TurnTrace,
)
from memfin.contracts.dataset import TurnTags
from memfin.errors import UsageError
from memfin.exchange.otlp import Span, plain_attributes, read_spans

CONVERSATION: Final = "gen_ai.conversation.id"

_TURNS: Final = frozenset(
    {"chat", "text_completion", "generate_content", "invoke_agent", "invoke_workflow", "responses"}
)
_RECALLS: Final = frozenset({"search_memory", "retrieval"})
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_BATCH: Final = 1000

_TABLES: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -32768;
CREATE TABLE span (trace, id, parent, conversation, start, end, origin, part, PRIMARY KEY (trace, id));
"""
_INHERIT: Final = """
CREATE INDEX child ON span (trace, parent);
CREATE TABLE inherited AS
WITH RECURSIVE below (trace, id, conversation) AS (
    SELECT trace, id, conversation FROM span WHERE conversation IS NOT NULL
    UNION ALL
    SELECT span.trace, span.id, below.conversation FROM below
    JOIN span ON span.trace = below.trace AND span.parent = below.id WHERE span.conversation IS NULL
)
SELECT trace, id, conversation FROM below;
CREATE TABLE single AS SELECT trace, min(conversation) AS conversation FROM inherited
GROUP BY trace HAVING min(conversation) = max(conversation);
CREATE UNIQUE INDEX inherited_id ON inherited (trace, id);
CREATE UNIQUE INDEX single_trace ON single (trace);
UPDATE span SET conversation = coalesce(
    (SELECT conversation FROM inherited WHERE trace = span.trace AND id = span.id),
    (SELECT conversation FROM single WHERE trace = span.trace)
) WHERE conversation IS NULL;
CREATE INDEX place ON span (conversation, start, end DESC);
"""


class ImportStats(Record):
    """Counts of an import.

    Spans without a conversation and turns without the user's text are left out; ``first_stray`` and
    ``first_silent`` say where the first of them is.
    ``unfinished`` is the status of a log that is not complete.
    """

    dialogs: int = 0
    turns: int = 0
    strays: int = 0
    first_stray: str = ""
    silent: int = 0
    first_silent: str = ""
    unanswered: int = 0
    unfinished: str = ""


class _Part(Record):
    """Content of a span that the trace needs; ``asks`` is False where its last input is not the user's."""

    kind: Literal["turn", "tool", "recall"]
    user: str | None = None
    asks: bool = True
    reply: str | None = None
    error: str | None = None
    tool: ToolTrace | None = None
    recall: RecallTrace | None = None


@dataclass(slots=True)
class _Node:
    """A span of the conversation that is being put together."""

    trace: str
    parent: tuple[str, str]
    start: int
    end: int
    origin: str
    part: _Part | None


@dataclass(slots=True)
class _Turn:
    """A turn that is being put together."""

    trace: str
    start: int
    end: int
    user: str
    reply: str | None
    error: str | None
    tools: list[ToolTrace] = field(default_factory=list)
    recalls: list[RecallTrace] = field(default_factory=list)


def import_otel(files: Sequence[Path], out: Path, *, run_id: str = "imported") -> ImportStats:
    """Write the conversations in OTLP files as a dialogue trace, ordered by their first spans.

    A span without a conversation id has that of its nearest ancestor that has one, else the only one of its
    trace.

    Raises:
        UsageError: a file is no OTLP, none has a conversation, or ``out`` exists.
    """
    if out.exists():
        raise UsageError(f"{out} exists; remove it or name another file")
    partial = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    with tempfile.TemporaryDirectory(prefix="memfin-") as scratch:
        database = sqlite3.connect(Path(scratch) / "spans.db", isolation_level=None)
        try:
            database.executescript(_TABLES)
            database.execute("BEGIN")
            for path in files:
                _spill(database, path)
            database.execute("COMMIT")
            database.executescript(_INHERIT)
            stats = _counted_strays(database)
            with partial.open("wb") as file:
                for trace, found in _dialogs(database, run_id):
                    file.write(msgspec.json.encode(trace) + b"\n")
                    stats = stats.replace(
                        dialogs=stats.dialogs + bool(trace.turns),
                        turns=stats.turns + found.turns,
                        silent=stats.silent + found.silent,
                        first_silent=stats.first_silent or found.first_silent,
                        unanswered=stats.unanswered + found.unanswered,
                    )
            if not stats.dialogs:
                raise UsageError(_nothing(files, stats))
            partial.replace(out)
        except OSError as problem:
            raise UsageError(f"cannot write {out}: {problem.strerror or problem}") from problem
        except sqlite3.Error as problem:
            raise UsageError(f"spans cannot be spilled to {scratch}: {problem}") from problem
        finally:
            database.close()
            with contextlib.suppress(OSError):
                partial.unlink()
    return stats


def _nothing(files: Sequence[Path], stats: ImportStats) -> str:
    names = ", ".join(map(str, files))
    if stats.silent:
        return (
            f"{stats.first_silent}: no span of a conversation has the user's text (gen_ai.input.messages); "
            "have the instrumentation capture message content"
        )
    return f"{names}: no span of a model or an agent has {CONVERSATION}; have the agent set it"


def _spill(database: sqlite3.Connection, path: Path) -> None:
    """Insert the spans of a file; of a span that was exported twice the first stays."""
    insert = "INSERT OR IGNORE INTO span VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    rows: list[tuple[Any, ...]] = []
    for where, span in read_spans(path):
        try:
            start, end = span.times
            attributes = plain_attributes(span.attributes)
            part = _part_of(span, attributes, (end - start) / 1e6)
        except (ValueError, OverflowError, msgspec.ValidationError) as problem:
            raise UsageError(f"{where}: {problem}") from None
        conversation = str(attributes.get(CONVERSATION, "")).strip() or None
        blob = None if part is None else msgspec.json.encode(part)
        rows.append((span.trace_id, span.span_id, span.parent_span_id, conversation, start, end, where, blob))
        if len(rows) == _BATCH:
            database.executemany(insert, rows)
            rows.clear()
    database.executemany(insert, rows)


def _counted_strays(database: sqlite3.Connection) -> ImportStats:
    strays = "SELECT count(*) FROM span WHERE conversation IS NULL"
    first = "SELECT origin FROM span WHERE conversation IS NULL ORDER BY rowid LIMIT 1"
    (count,) = database.execute(strays).fetchone()
    (origin,) = database.execute(first).fetchone() or ("",)
    return ImportStats(strays=count, first_stray=origin)


# ---- what a span tells


def _part_of(span: Span, attributes: Mapping[str, Any], latency_ms: float) -> _Part | None:
    """Return what the trace needs of a span; None where that is nothing."""
    operation = attributes.get("gen_ai.operation.name")
    error = _error(span, attributes)
    if operation == "execute_tool":
        tool = ToolTrace(
            tool_name=_text(attributes.get("gen_ai.tool.name")) or span.name,
            args=_arguments(attributes.get("gen_ai.tool.call.arguments")),
            result_excerpt=_text(attributes.get("gen_ai.tool.call.result")),
            latency_ms=max(latency_ms, 0.0),
            error=error,
        )
        return _Part(kind="tool", tool=tool)
    if operation in _RECALLS:
        return _Part(kind="recall", recall=_recall(attributes))
    inputs, outputs = _messages(span, attributes)
    if operation not in _TURNS and not (inputs or outputs):
        return None
    users = [text for each in inputs if each.get("role") == "user" and (text := _content(each))]
    replies = [text for each in outputs if (text := _content(each))]
    return _Part(
        kind="turn",
        user=users[-1] if users else None,
        asks=not inputs or inputs[-1].get("role") == "user",
        reply=replies[0] if replies else None,
        error=error,
    )


def _error(span: Span, attributes: Mapping[str, Any]) -> str | None:
    kind = _text(attributes.get("error.type"))
    if not span.failed and not kind:
        return None
    return ": ".join(filter(None, (kind, span.status.message))) or "error"


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
        content = _json(body.get("gen_ai.event.content"))
        body = {**body, **content} if isinstance(content, Mapping) else body
        if event.name == "gen_ai.choice":
            message = _json(body.get("message", body))
            outputs.append(message if isinstance(message, Mapping) else {"content": message})
        elif event.name.startswith("gen_ai.") and event.name.endswith(".message"):
            inputs.append({**body, "role": event.name.split(".")[1]})
    return inputs, outputs


def _both(attributes: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    inputs, outputs = (
        _objects(attributes.get(name)) for name in ("gen_ai.input.messages", "gen_ai.output.messages")
    )
    return inputs, outputs


def _content(message: Mapping[str, Any]) -> str:
    """Return the text parts of a message, a line each."""
    parts = message.get("parts", message.get("content"))
    if not isinstance(parts, list):
        return _text(parts)
    texts = (
        part.get("content", part.get("text"))
        for part in parts
        if isinstance(part, Mapping) and part.get("type", "text") == "text"
    )
    return "\n".join(text for text in texts if isinstance(text, str))


def _recall(attributes: Mapping[str, Any]) -> RecallTrace:
    kind = "memory" if "gen_ai.memory.records" in attributes else "retrieval"
    names = ("gen_ai.memory.store.name", "gen_ai.memory.store.id", "gen_ai.data_source.id")
    source = next((_text(attributes[name]) for name in names if name in attributes), None)
    found = _objects(
        attributes.get("gen_ai.memory.records" if kind == "memory" else "gen_ai.retrieval.documents")
    )
    queries = ("gen_ai.memory.query.text", "gen_ai.retrieval.query.text")
    return RecallTrace(
        query=next((_text(attributes[name]) for name in queries if name in attributes), ""),
        items=[
            RecallItem(
                content=_text(each.get("content")),
                item_id=None if each.get("id") is None else _text(each["id"]),
                score=score if isinstance(score := each.get("score"), int | float) else None,
                source=source,
            )
            for each in found
        ],
    )


def _arguments(value: object) -> dict[str, Any] | str:
    found = _json(value)
    return found if isinstance(found, dict) else _text(value)


def _objects(value: object) -> list[Mapping[str, Any]]:
    found = _json(value)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _json(value: object) -> Any:
    """Return the value of a JSON text; a text that is none, and what is no text, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _text(value: object) -> str:
    """Return a text as it is, nothing as an empty one, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


# ---- conversations


def _dialogs(database: sqlite3.Connection, run_id: str) -> Iterator[tuple[DialogTrace, ImportStats]]:
    """Yield the conversations that have a turn, with their counts."""
    conversations = database.execute(
        "SELECT conversation FROM span WHERE conversation IS NOT NULL "
        "GROUP BY conversation ORDER BY min(start), conversation"
    )
    number = 0
    for (conversation,) in conversations:
        rows = database.execute(
            "SELECT trace, id, parent, start, end, origin, part FROM span WHERE conversation = ? "
            "ORDER BY start, end DESC, rowid",
            (conversation,),
        )
        nodes = {
            (trace, key): _Node(
                trace,
                (trace, parent),
                start,
                end,
                origin,
                None if part is None else msgspec.json.decode(part, type=_Part),
            )
            for trace, key, parent, start, end, origin, part in rows
        }
        turns, silent = _turns(nodes)
        number += bool(turns)
        stats = ImportStats(
            turns=len(turns),
            silent=len(silent),
            first_silent=silent[0] if silent else "",
            unanswered=sum(turn.reply is None and turn.error is None for turn in turns),
        )
        answered = sum(turn.error is None for turn in turns)
        if turns:
            yield (
                DialogTrace(
                    trace_version=TRACE_VERSION,
                    run_id=run_id,
                    dialog_id=conversation,
                    dataset_index=number,
                    dialog_status="ok" if answered == len(turns) else "partial" if answered else "failed",
                    valid_dialog=True,
                    turns=[_trace_of(place, turn) for place, turn in enumerate(turns, 1)],
                ),
                stats,
            )


def _turns(nodes: Mapping[tuple[str, str], _Node]) -> tuple[list[_Turn], list[str]]:
    """Return the turns of a conversation, and the places of outermost spans without the user's text.

    1. An outermost span of a model or an agent is a turn; those within it tell what it does not. Those within
       a tool, such as an agent called as one, are no part of the dialogue.
    2. One whose last message is no user's, such as a tool's result, goes on with the turn before it, and so
       does one that asks again after an error in the same trace.
    3. A tool or recall is of the turn under way at its start. Between two turns of its trace a tool is of the
       one before, a recall of the one after.
    """
    groups: dict[tuple[str, str], list[_Part]] = {}
    for key, node in nodes.items():
        owner = _outermost(key, nodes)
        if owner is not None and node.part is not None and node.part.kind == "turn":
            groups.setdefault(owner, []).append(node.part)
    turns: list[_Turn] = []
    silent: list[str] = []
    for key in sorted(groups, key=lambda key: (nodes[key].start, -nodes[key].end)):
        top, parts = nodes[key], groups[key]
        assert top.part is not None  # noqa: S101 - by `_outermost`
        user = top.part.user or next((part.user for part in parts if part.user), None)
        replies = [part.reply for part in parts if part.reply]
        reply = top.part.reply or (replies[-1] if replies else None)
        before = turns[-1] if turns else None
        if before is not None and (
            (user is None and before.trace == top.trace)
            or not top.part.asks
            or (before.error is not None and before.trace == top.trace and before.user == user)
        ):
            before.end = max(before.end, top.end)
            before.reply, before.error = reply or before.reply, top.part.error
        elif user is None:
            silent.append(top.origin)
        else:
            turns.append(_Turn(top.trace, top.start, top.end, user, reply, top.part.error))
    by_trace: dict[str, list[_Turn]] = {}
    for turn in turns:
        by_trace.setdefault(turn.trace, []).append(turn)
    for node in nodes.values() if turns else ():
        if node.part is not None and node.part.kind != "turn":
            turn = _turn_at(node, by_trace.get(node.trace, turns), recall=node.part.kind == "recall")
            turn.tools += [node.part.tool] if node.part.tool else []
            turn.recalls += [node.part.recall] if node.part.recall else []
    return turns, silent


def _outermost(key: tuple[str, str], nodes: Mapping[tuple[str, str], _Node]) -> tuple[str, str] | None:
    """Return the span itself or its farthest ancestor that is of a model or an agent; None within a tool."""
    found, seen = None, set[tuple[str, str]]()
    while key in nodes and key not in seen:
        seen.add(key)
        part = nodes[key].part
        if part is not None and part.kind == "tool":
            return None
        if part is not None and part.kind == "turn":
            found = key
        key = nodes[key].parent
    return found


def _turn_at(node: _Node, turns: Sequence[_Turn], *, recall: bool) -> _Turn:
    """Return the turn of a tool or recall; see `_turns`."""
    place = bisect_right(turns, node.start, key=lambda turn: turn.start)
    under_way = place > 0 and turns[place - 1].end >= node.start
    later = place == 0 or (recall and not under_way and place < len(turns))
    return turns[place if later else place - 1]


def _trace_of(number: int, turn: _Turn) -> TurnTrace:
    return TurnTrace(
        turn_pair_id=number,
        user_turn_abs_idx=2 * number - 2,
        gt_assistant_abs_idx=2 * number - 1,
        user_text=turn.user,
        gt_assistant_text="",
        gt_turn_tags=TurnTags(),
        turn_status="ok" if turn.error is None else "error",
        pred_assistant_text=turn.reply,
        latency_ms=max((turn.end - turn.start) / 1e6, 0.0),
        error=turn.error,
        recall=_joined(turn.recalls) if turn.recalls else None,
        tools=turn.tools,
    )


def _joined(recalls: Iterable[RecallTrace]) -> RecallTrace:
    """Return the recalls of a turn as one, with ranks in their order."""
    every = list(recalls)
    items = [item for recall in every for item in recall.items]
    return RecallTrace(
        query=next((recall.query for recall in every if recall.query), ""),
        items=[item.replace(rank=rank) for rank, item in enumerate(items, 1)],
    )
