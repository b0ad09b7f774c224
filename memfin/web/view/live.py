"""Live pages: incremental reading of runs that go on, and server-sent events of what has changed."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import msgspec
from aiohttp import web

from memfin.contracts import ConfigFile, SoakEpoch, SoakSummary, TurnEvalRow
from memfin.contracts.progress import RunInterrupted, RunResumed, RunStarted
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import RagResult, RagSummary
from memfin.contracts.reading import decode_part, open_input, read_json
from memfin.errors import MemfinError
from memfin.journal import layout
from memfin.journal.commits import COMMITS, CommitRecord, decode_line
from memfin.journal.lock import LOCK, is_locked
from memfin.language import marked, tr
from memfin.metrics.aggregate import MetricsState
from memfin.rag.aggregation import RagState
from memfin.report.glossary import METRICS, format_value, labels, value_label, word
from memfin.report.reader import CONFIG, SUMMARY, Figures, ScannedDialog
from memfin.report.soak_report import LINES as SOAK_LINES
from memfin.report.soak_report import SUMMARY as SOAK_SUMMARY
from memfin.web.view.runs import Catalog, Recent, Summary, Value, rag_values, values_of

POLL: Final = 1.0
"""Seconds between two looks at the files of a run."""
MAX_STREAMS: Final = 64
"""Open streams of all visitors."""
MAX_RUNS: Final = 8
"""Runs whose state is held; that of another one is read again from the beginning."""
EPOCHS: Final = 30
"""Epochs on the page of a soak, the newest ones."""
NEWEST: Final = 10
"""Failures and violations on the page of a run."""
QUIET: Final = 15.0
"""Seconds after which a stream without news sends a comment."""

_LIVE: Final = ("unfinished", "running", "interrupted")
_RUN_EVENT: Final = b'{"event":"run_'
_RUN_EVENTS: Final = msgspec.json.Decoder(RunStarted | RunResumed | RunInterrupted)


class _Stamp(msgspec.Struct):
    ts: str = ""


class Failure(NamedTuple):
    """A turn without an answer, with a severe violation or with a contradiction.

    ``values`` are those of its findings, ``text`` is the error.
    """

    dialog: str
    turn: int
    kind: str
    values: tuple[str, ...] = ()
    text: str = ""

    @property
    def label(self) -> str:
        """Return the kind in words."""
        return labels("findings").get(self.kind) or labels("turn_status").get(self.kind) or word(self.kind)

    @property
    def reason(self) -> str:
        """Return the findings in words, or the error."""
        return self.text or tr(", ").join(map(word, self.values))


class Snapshot(NamedTuple):
    """State of a run at a moment.

    ``state`` is ``running``, ``interrupted`` or ``finished``; ``done`` and ``total`` count dialogues or
    questions, ``rate`` is per minute of the process at work, ``remaining`` in seconds.
    """

    state: str
    done: int = 0
    total: int | None = None
    turns: int = 0
    rate: float | None = None
    remaining: float | None = None
    last: str = ""
    reason: str = ""
    newest: tuple[Failure, ...] = ()
    metrics: Mapping[str, Figures] = {}
    sums: RagSummary | None = None
    judge: str | None = None
    epochs: tuple[SoakEpoch, ...] = ()

    @property
    def courses(self) -> list[tuple[str, list[str]]]:
        """Return the leading values of the epochs, the newest first, by their labels."""
        found = []
        for metric in METRICS:
            name = metric.lead or metric.values[0].key
            key = f"{metric.name}.{name}"
            values = [epoch.headline_values.get(key) for epoch in self.epochs]
            if any(value is not None for value in values):
                texts = [format_value(key, value) for value in values]
                found.append((f"{metric.code} {value_label(name)}", texts))
        return found

    @property
    def values(self) -> tuple[Value, ...]:
        """Return the values so far in the language of the context."""
        if self.sums is not None:
            return tuple(rag_values(self.sums)) if self.done else ()
        return tuple(values_of(self.metrics, self.judge)) if self.turns else ()

    @property
    def left(self) -> str:
        """Return the remaining time in words."""
        seconds = max(1, round(self.remaining or 0))
        if seconds < 60:  # noqa: PLR2004 - a minute
            return tr("{seconds} s", seconds=seconds)
        hours, minutes = divmod(-(-seconds // 60), 60)
        words = marked("{hours} h {minutes} min") if hours else marked("{minutes} min")
        return tr(words, hours=hours, minutes=minutes)


class LiveRuns:
    """Readers of the runs that go on, one for all visitors of a run."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._runs = Recent[LiveRun | LiveSoak](MAX_RUNS)

    def read(self, summary: Summary) -> Snapshot | None:
        """Return the state of a run, None for one that has finished."""
        name, files = summary.name, self._catalog.files(summary.name)
        if summary.state not in _LIVE or not files.keys() & {COMMITS, SOAK_SUMMARY}:
            return None

        def opened() -> LiveRun | LiveSoak:
            return LiveSoak(files) if SOAK_SUMMARY in files else LiveRun(files, self._catalog.progress(name))

        return self._runs.get(name, None, opened).read()

    def state(self, summary: Summary) -> tuple[str, Snapshot | None]:
        """Return the state of a run for a list, and that of its progress if it goes on."""
        files = self._catalog.files(summary.name)
        path = files.get(COMMITS) or files.get(SOAK_SUMMARY)
        if summary.state not in _LIVE or path is None:
            return summary.state, None
        if is_locked(path.with_name(LOCK)):
            return "running", self.read(summary)
        return "interrupted", None


class Streams:
    """Streams of server-sent events, which end when the server stops."""

    def __init__(self) -> None:
        self._open = 0
        self._stopping = asyncio.Event()

    async def stop(self, app: web.Application) -> None:
        """End all streams."""
        del app
        self._stopping.set()

    async def send(
        self,
        request: web.Request,
        read: Callable[[], Awaitable[Snapshot | None]],
        render: Callable[[], Awaitable[str]],
        headers: Mapping[str, str],
    ) -> web.StreamResponse:
        """Send what ``render`` returns whenever ``read`` returns another state; ends with the run.

        Browsers connect again when the stream breaks off, also after an error.
        """
        if self._open >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(reason=f"{MAX_STREAMS} pages are live already; reload this one")
        self._open += 1
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        try:
            state, quiet = await read(), 0.0
            sent: object = self
            await response.prepare(request)
            with suppress(OSError, MemfinError):
                while not self._stopping.is_set() and not _gone(request):
                    if state is not sent:
                        await response.write(message(await render()))
                        sent, quiet = state, 0.0
                    elif (quiet := quiet + POLL) >= QUIET:
                        await response.write(b":\n\n")
                        quiet = 0.0
                    if state is None or state.state == "finished":
                        await response.write(message("", "end"))
                        break
                    with anyio.move_on_after(POLL):
                        await self._stopping.wait()
                    state = await read()
        finally:
            self._open -= 1
        return response


def message(text: str, event: str = "") -> bytes:
    """Return a server-sent event."""
    name = f"event: {event}\n" if event else ""
    lines = "\n".join(f"data: {line}" for line in text.replace("\r", "\n").split("\n"))
    return f"{name}{lines}\n\n".encode()


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


class Tail:
    """Complete lines that a file has gained since the last reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._last = b""

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines with their ends.

        Raises:
            ValueError: the line that was read last is no longer where it was.
            UsageError: the file cannot be read.
        """
        if self._path.is_symlink() or not self._path.is_file():
            return
        with open_input(self._path) as file:
            file.seek(self._at - len(self._last))
            if file.read(len(self._last)) != self._last:
                raise ValueError(self._path)
            while (line := file.readline()).endswith(b"\n"):
                self._at, self._last = self._at + len(line), line
                yield line


class LiveRun:
    """Reader of a run that goes on, shared by all who watch it.

    Only committed rows are read, each once, in the order of the commit log. Memory grows with the number of
    dialogues, as the states of metrics do, not with the size of the files.
    """

    def __init__(self, files: Mapping[str, Path], progress: Path | None) -> None:
        self._files = files
        self._progress = progress
        self._lock = threading.Lock()
        self._until = 0.0
        self._judge = None
        with suppress(MemfinError, KeyError):
            self._judge = read_json(files[CONFIG], ConfigFile).settings.judge
        self._restart()

    def _restart(self) -> None:
        self._tails = Tail(self._files[COMMITS]), self._progress and Tail(self._progress)
        self._metrics = MetricsState()
        self._newest: deque[Failure] = deque(maxlen=NEWEST)
        self._done = self._turns = 0
        self._rag = RagState()
        self._total: int | None = None
        self._begun, self._done_before = "", 0
        self._last, self._reason = b"", ""
        self._snapshot = Snapshot("")

    def read(self) -> Snapshot:
        """Return the state of the run, the same object until something has changed."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._update()
                except ValueError:  # repairs and ``memfin resume --retry-failed`` write the files anew
                    self._restart()
                    self._update()
                self._until = time.monotonic() + POLL
            return self._snapshot

    def _update(self) -> None:
        state = "running" if is_locked(self._files[COMMITS].with_name(LOCK)) else "interrupted"
        directory = self._files[COMMITS].parent
        if state != "running" and any((directory / name).is_file() for name in (SUMMARY, RAG_SUMMARY)):
            state = "finished"
        commits, progress = self._tails
        changed = state != self._snapshot.state
        for line in commits.lines():
            if (record := decode_line(line)) is not None:
                changed = True
                self._add(record)
        for line in progress.lines() if progress else ():
            self._last, changed = line, True
            if line.startswith(_RUN_EVENT):
                self._note(line)
        if changed:
            self._snapshot = self._taken(state)

    def _note(self, line: bytes) -> None:
        with suppress(msgspec.DecodeError):
            event = _RUN_EVENTS.decode(line)
            if isinstance(event, RunInterrupted):
                self._reason = event.reason
                return
            self._total = event.dialogs if event.dialogs is not None else self._total
            self._begun, self._reason = event.ts, ""
            self._done_before = event.dialogs_done if isinstance(event, RunResumed) else 0

    def _add(self, record: CommitRecord) -> None:
        self._done += record.kind in ("judged", "result")
        for part in record.parts:
            with suppress(KeyError), open_input(self._files[part.file]) as file:
                file.seek(part.offset)
                for _ in range(part.rows):
                    self._add_row(part.file, file.readline())

    def _add_row(self, name: str, line: bytes) -> None:
        if name == layout.TURN_EVAL:
            row = decode_part(line, TurnEvalRow, name)
            self._turns += 1
            self._metrics.add_row(row)
            for kind, field, holds in (
                ("severe_violation", "compliance", row.pred_compliance_label == "severe_violation"),
                ("constraint_contradiction", "constraint_contradiction", row.constraint_contradiction),
            ):
                if holds:
                    values = {each.value: None for each in row.findings if each.field == field}
                    self._newest.appendleft(Failure(row.dialog_id, row.turn_pair_id, kind, tuple(values)))
        elif name == layout.DIALOG_TRACE:
            trace = decode_part(line, ScannedDialog, name)
            for turn in trace.turns if trace.valid_dialog else ():
                if turn.outcome != "ok":
                    failure = Failure(trace.dialog_id, turn.turn_pair_id, turn.outcome, text=turn.error or "")
                    self._newest.appendleft(failure)
        elif name == layout.RAG_RESULTS:
            self._rag.add(decode_part(line, RagResult, name))

    def _taken(self, state: str) -> Snapshot:
        last = ""
        with suppress(msgspec.DecodeError):
            last = msgspec.json.decode(self._last, type=_Stamp).ts
        seconds_each = None
        if (done := self._done - self._done_before) > 0:
            with suppress(ValueError):  # a time that is missing
                seconds_each = (
                    datetime.fromisoformat(last) - datetime.fromisoformat(self._begun)
                ).total_seconds() / done
        left = None if self._total is None else max(0, self._total - self._done)
        return Snapshot(
            state,
            self._done,
            self._total,
            self._turns,
            60 / seconds_each if seconds_each else None,
            left * seconds_each if left and seconds_each else None,
            last,
            self._reason,
            tuple(self._newest),
            {name: each for name, each in self._metrics.results().items() if name != self._metrics.m2.name},
            self._rag.summary("") if layout.RAG_RESULTS in self._files else None,
            self._judge,
        )


class LiveSoak:
    """Reader of a soak that goes on: its epochs as they end."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._path = files[SOAK_SUMMARY]
        self._tail = Tail(self._path.with_name(SOAK_LINES))
        self._lock = threading.Lock()
        self._epochs: deque[SoakEpoch] = deque(maxlen=EPOCHS)
        self._snapshot = Snapshot("")

    def read(self) -> Snapshot:
        """Return the state of the soak, the same object until something has changed."""
        with self._lock:
            state = "running" if is_locked(self._path.with_name(LOCK)) else "interrupted"
            new = [decode_part(line, SoakEpoch, SOAK_LINES) for line in self._tail.lines()]
            self._epochs.extendleft(new)
            if new or state != self._snapshot.state:
                last = self._epochs[0] if self._epochs else None
                total = read_json(self._path, SoakSummary).limits.epochs
                done, ended = (last.epoch, last.ended_at) if last else (0, "")
                self._snapshot = Snapshot(state, done, total, last=ended, epochs=tuple(self._epochs))
            return self._snapshot
