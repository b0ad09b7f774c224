"""Dialogue traces from recorded spans of conversations, whichever system they come from.

Spans are spilled to a temporary SQLite file as they are read; one conversation at a time is put together.
"""

import contextlib
import os
import sqlite3
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from memfin.contracts import TRACE_VERSION, DialogTrace, RecallTrace, Record, ToolTrace, TurnTrace
from memfin.contracts.base import TurnStatus
from memfin.contracts.dataset import TurnTags
from memfin.errors import RunFault, UsageError
from memfin.exchange.records import errors_at

_BATCH: Final = 1000

_TABLES: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -32768;
CREATE TABLE span (trace, id, parent, conversation, start, end, origin, part, PRIMARY KEY (trace, id));
"""
_INSERT: Final = "INSERT OR IGNORE INTO span VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_IS_THERE: Final = (
    "SELECT 1 FROM span WHERE trace = ? AND id = ? "
    "AND (parent, conversation, start, end, part) IS (?, ?, ?, ?, ?)"
)
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
_MAKE_TRACES: Final = """
INSERT OR IGNORE INTO span SELECT trace, '', '', NULL, min(start), max(end), min(origin), ?
FROM span GROUP BY trace
"""
_JOIN_TRACES: Final = """
UPDATE span SET parent = '' WHERE id != '' AND NOT EXISTS (
    SELECT 1 FROM span AS above WHERE above.trace = span.trace AND above.id = span.parent
);
UPDATE span SET end = (SELECT max(end) FROM span AS within WHERE within.trace = span.trace) WHERE id = '';
"""


class ImportStats(Record):
    """Counts of an import.

    Spans without a conversation, spans with the id of an earlier one and other content (twins), turns without
    the user's text and scores of other systems are left out; ``first_stray`` and the others like it say where
    the first of them is. ``unfinished`` is the status of a log that is not complete.
    """

    dialogs: int = 0
    turns: int = 0
    strays: int = 0
    first_stray: str = ""
    silent: int = 0
    first_silent: str = ""
    unanswered: int = 0
    scores: int = 0
    first_score: str = ""
    unfinished: str = ""
    twins: int = 0
    first_twin: str = ""


class Part(Record):
    """Content of a span that the trace needs.

    ``asks`` is False where its last input is not the user's. ``history`` has the turns before it that its
    input repeats. ``whole`` is that of a trace, which has neither a status nor times of its own; ``numbered``
    that of a turn which is no repetition of another. What is within a tool or an aside, such as a guard, is
    no part of the dialogue.
    """

    kind: Literal["turn", "tool", "recall", "aside"]
    user: str | None = None
    asks: bool = True
    reply: str | None = None
    error: str | None = None
    tool: ToolTrace | None = None
    recall: RecallTrace | None = None
    history: list[tuple[str, str]] = []
    whole: bool = False
    numbered: bool = False


class SpanRecord(NamedTuple):
    """A span as it is read; times are in nanoseconds since 1970."""

    where: str
    trace: str
    span: str
    parent: str
    conversation: str | None
    start: int
    end: int
    part: Part | None


class LeftOut(NamedTuple):
    """A record, or scores of one, that a trace has no place for."""

    where: str
    kind: Literal["stray", "score"]
    number: int = 1


@dataclass(frozen=True)
class Source:
    """A system whose spans are read; the texts are the errors for files without a turn.

    ``by_trace`` makes each trace a turn, and one without a conversation a dialogue. The record of a trace has
    an empty span id, which is the parent of its outermost spans.
    """

    read: Callable[[Path], Iterator[SpanRecord | LeftOut]]
    no_dialog: str
    no_text: str
    by_trace: bool = False


@dataclass(slots=True)
class _Node:
    """A span of the conversation that is being put together."""

    trace: str
    parent: tuple[str, str]
    start: int
    end: int
    origin: str
    part: Part | None


@dataclass(slots=True)
class _Turn:
    """A turn that is being put together."""

    trace: str
    start: int
    end: int
    user: str
    reply: str | None
    error: str | None
    timed: bool = True
    history: list[tuple[str, str]] = field(default_factory=list)
    tools: list[ToolTrace] = field(default_factory=list)
    recalls: list[RecallTrace] = field(default_factory=list)


def import_spans(
    source: Source, files: Sequence[Path], out: Path, *, run_id: str = "imported"
) -> ImportStats:
    """Write the conversations in files as a dialogue trace, ordered by their first spans.

    A span without a conversation has that of its nearest ancestor that has one, else the only one of its
    trace.

    Raises:
        UsageError: a file is none of the source's, none has a conversation, or ``out`` exists.
        RunFault: the file system refuses.
    """
    if out.exists():
        raise UsageError(f"{out} exists; remove it or name another file")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no directory {out.parent}")
    partial = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    with tempfile.TemporaryDirectory(prefix="memfin-") as scratch:
        database = sqlite3.connect(Path(scratch) / "spans.db", isolation_level=None)
        try:
            database.executescript(_TABLES)
            database.execute("BEGIN")
            stats = _spill(database, (record for path in files for record in source.read(path)))
            database.execute("COMMIT")
            if source.by_trace:
                database.execute(_MAKE_TRACES, (msgspec.json.encode(Part(kind="turn", whole=True)),))
                database.executescript(_JOIN_TRACES)
            database.executescript(_INHERIT)
            if source.by_trace:
                database.execute("UPDATE span SET conversation = trace WHERE conversation IS NULL")
            stats = _with_strays(database, stats)
            with partial.open("wb") as file:
                for trace, found in _dialogs(database, run_id):
                    if trace.turns:
                        file.write(msgspec.json.encode(trace) + b"\n")
                    stats = stats.replace(
                        dialogs=stats.dialogs + bool(trace.turns),
                        turns=stats.turns + found.turns,
                        silent=stats.silent + found.silent,
                        first_silent=stats.first_silent or found.first_silent,
                        unanswered=stats.unanswered + found.unanswered,
                    )
            if not stats.dialogs:
                names = ", ".join(map(str, files))
                silent = f"{stats.first_silent}: {source.no_text}" if stats.silent else None
                raise UsageError(silent or f"{names}: {source.no_dialog}")
            partial.replace(out)
        except OSError as problem:
            raise RunFault(f"cannot write {out}: {problem.strerror or problem}") from problem
        except sqlite3.Error as problem:
            raise RunFault(f"spans cannot be spilled to {scratch}: {problem}") from problem
        finally:
            database.close()
            with contextlib.suppress(OSError):
                partial.unlink()
    return stats


def _spill(database: sqlite3.Connection, records: Iterable[SpanRecord | LeftOut]) -> ImportStats:
    """Insert spans, and count what is left out; of a span that was exported twice the first stays."""
    rows: list[tuple[Any, ...]] = []
    left: dict[str, tuple[int, str]] = {"stray": (0, ""), "score": (0, ""), "twin": (0, "")}

    def leave(kind: str, where: str, number: int = 1) -> None:
        count, first = left[kind]
        left[kind] = (count + number, first or where)

    def insert() -> None:
        changes = database.total_changes
        database.executemany(_INSERT, rows)
        for row in rows if database.total_changes - changes < len(rows) else ():
            *key, where, part = row
            if database.execute(_IS_THERE, (*key, part)).fetchone() is None:
                leave("twin", where)
        rows.clear()

    for record in records:
        if isinstance(record, LeftOut):
            leave(record.kind, record.where, record.number)
            continue
        where, *fields, part = record
        with errors_at(where):  # a text may have lone surrogates
            rows.append((*fields, where, None if part is None else msgspec.json.encode(part)))
        if len(rows) == _BATCH:
            insert()
    insert()
    counts: dict[str, object] = {f"{kind}s": count for kind, (count, _) in left.items()}
    return msgspec.convert(
        counts | {f"first_{kind}": first for kind, (_, first) in left.items()}, ImportStats
    )


def _with_strays(database: sqlite3.Connection, stats: ImportStats) -> ImportStats:
    """Return the counts with the spans that have no conversation."""
    strays = "SELECT count(*) FROM span WHERE conversation IS NULL"
    first = "SELECT origin FROM span WHERE conversation IS NULL ORDER BY rowid LIMIT 1"
    (count,) = database.execute(strays).fetchone()
    (origin,) = database.execute(first).fetchone() or ("",)
    return stats.replace(strays=stats.strays + count, first_stray=stats.first_stray or origin)


def _dialogs(database: sqlite3.Connection, run_id: str) -> Iterator[tuple[DialogTrace, ImportStats]]:
    """Yield the conversations with their counts; one may have no turn."""
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
                None if part is None else msgspec.json.decode(part, type=Part),
            )
            for trace, key, parent, start, end, origin, part in rows
        }
        turns, silent = _turns(nodes)
        if turns and turns[0].trace == conversation:  # a dialogue of one trace
            top = turns[0]
            before = [
                _Turn(top.trace, top.start, top.start, user, reply or None, None, timed=False)
                for user, reply in top.history
            ]
            turns = before + turns
        number += bool(turns)
        stats = ImportStats(
            turns=len(turns),
            silent=len(silent),
            first_silent=silent[0] if silent else "",
            unanswered=sum(turn.reply is None and turn.error is None for turn in turns),
        )
        answered = sum(turn.error is None for turn in turns)
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
       does one that asks again after an error in the same trace, unless it is numbered.
    3. A tool or recall is of the turn that it is within, else of the one under way at its start. Between two
       turns of its trace a tool is of the one before, a recall of the one after.
    """
    groups: dict[tuple[str, str], list[tuple[int, Part]]] = {}
    for key, node in nodes.items():
        owner = _outermost(key, nodes)
        if owner is not None and node.part is not None and node.part.kind == "turn":
            groups.setdefault(owner, []).append((max(node.start, node.end), node.part))
    turns: list[_Turn] = []
    silent: list[str] = []
    owners: dict[tuple[str, str], _Turn] = {}
    for key in sorted(groups, key=lambda key: (nodes[key].start, -nodes[key].end)):
        top, parts = nodes[key], groups[key]
        assert top.part is not None  # noqa: S101 - by `_outermost`
        asked, reply, error = _joined_parts(top.part, parts)
        user = asked.user
        before = turns[-1] if turns else None
        retried = before is not None and before.trace == top.trace and not top.part.numbered
        if before is not None and (
            (user is None and before.trace == top.trace)
            or not top.part.asks
            or (retried and before.error is not None and before.user == user)
        ):
            before.end = max(before.end, top.end)
            before.reply, before.error = reply or before.reply, error
            owners[key] = before
        elif user is None:
            silent.append(top.origin)
        else:
            timed = top.end > top.start or (top.end == top.start and not top.part.whole)
            owners[key] = _Turn(top.trace, top.start, top.end, user, reply, error, timed, asked.history)
            turns.append(owners[key])
    by_trace: dict[str, list[_Turn]] = {}
    for turn in turns:
        by_trace.setdefault(turn.trace, []).append(turn)
    for node in nodes.values() if turns else ():
        if node.part is not None and node.part.kind != "turn":
            above = next((each for each in _ancestors(node.parent, nodes) if each in owners), None)
            at = _turn_at(node, by_trace.get(node.trace, turns), recall=node.part.kind == "recall")
            turn = owners[above] if above else at
            turn.tools += [node.part.tool] if node.part.tool else []
            turn.recalls += [node.part.recall] if node.part.recall else []
    return turns, silent


def _joined_parts(top: Part, parts: Sequence[tuple[int, Part]]) -> tuple[Part, str | None, str | None]:
    """Return the part with the user's text, the reply and the error; parts are given with their ends.

    A reply is that of the span within that ends last, where the outermost has none. An error within is the
    turn's only where its trace has no reply, since a trace has no status of its own.
    """
    asked = next((part for part in (top, *(part for _, part in parts)) if part.user), top)
    replies = [(end, part.reply) for end, part in parts if part.reply]
    reply = top.reply or (max(replies, key=lambda found: found[0])[1] if replies else None)
    errors = [part.error for _, part in parts if part.error] if top.whole and not reply else []
    return asked, reply, top.error or (errors[-1] if errors else None)


def _outermost(key: tuple[str, str], nodes: Mapping[tuple[str, str], _Node]) -> tuple[str, str] | None:
    """Return the span itself or its farthest ancestor that is of a model or an agent; None within others."""
    found = None
    for each in _ancestors(key, nodes):
        part = nodes[each].part
        if part is not None and part.kind in ("tool", "aside"):
            return None
        if part is not None and part.kind == "turn":
            found = each
    return found


def _ancestors(key: tuple[str, str], nodes: Mapping[tuple[str, str], _Node]) -> Iterator[tuple[str, str]]:
    """Yield a span and those above it, each once where they make a circle."""
    seen = set[tuple[str, str]]()
    while key in nodes and key not in seen:
        seen.add(key)
        yield key
        key = nodes[key].parent


def _turn_at(node: _Node, turns: Sequence[_Turn], *, recall: bool) -> _Turn:
    """Return the turn of a tool or recall; see `_turns`."""
    place = bisect_right(turns, node.start, key=lambda turn: turn.start)
    under_way = place > 0 and turns[place - 1].end >= node.start
    later = place == 0 or (recall and not under_way and place < len(turns))
    return turns[place if later else place - 1]


def _trace_of(number: int, turn: _Turn) -> TurnTrace:
    failed: TurnStatus = "timeout" if (turn.error or "").partition(":")[0] == "timeout" else "error"
    return TurnTrace(
        turn_pair_id=number,
        user_turn_abs_idx=2 * number - 2,
        gt_assistant_abs_idx=2 * number - 1,
        user_text=turn.user,
        gt_assistant_text="",
        gt_turn_tags=TurnTags(),
        turn_status="ok" if turn.error is None else failed,
        pred_assistant_text=turn.reply,
        latency_ms=max((turn.end - turn.start) / 1e6, 0.0) if turn.timed else None,
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
