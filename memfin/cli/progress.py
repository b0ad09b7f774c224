"""Progress of a run: bars on a terminal, plain lines elsewhere, always on stderr."""

import sys
import time
from typing import Final, NamedTuple, Protocol, Self, TextIO

from memfin.contracts import (
    DialogDone,
    DialogStarted,
    JudgeDone,
    ProgressEvent,
    RunResumed,
    RunStarted,
    TurnDone,
    Warned,
)
from memfin.sandbox.references import one_line

EVERY: Final = 5.0
"""Seconds between two plain lines."""

MOST_SKIPS: Final = 20
"""Skipped lines that are named one by one."""


class ProgressView(Protocol):
    """Shows events as they come; used as a context manager around the run."""

    def __enter__(self) -> Self:
        """Start showing."""
        ...

    def __exit__(self, *exception: object) -> None:
        """Stop showing."""

    def show(self, event: ProgressEvent) -> None:
        """Take one event in."""


class Bar(NamedTuple):
    """One bar of a terminal's view; ``total`` is None while it is unknown."""

    name: str
    completed: int
    total: int | None
    note: str


class Standing:
    """How far a run is, counted from its events; other suites count other events in its place."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.dialogs = 0
        self._before = 0
        self.turns = 0
        self.open_turns = 0
        self.errors = 0
        self._unjudged: dict[str, int] = {}
        self._start = time.monotonic()

    def count(self, event: ProgressEvent) -> None:
        """Take one event in."""
        match event:
            case RunStarted():
                self.total = event.dialogs
            case RunResumed():
                self.total = event.dialogs
                self.dialogs = self._before = event.dialogs_done
            case DialogStarted():
                self.open_turns += event.turns - event.first_turn + 1 if event.turns is not None else 0
            case TurnDone():
                self.turns += 1
                answered = self._unjudged.get(event.dialog_id, 0) + (event.turn_status == "ok")
                self._unjudged[event.dialog_id] = answered
                self.errors += event.turn_status != "ok"
            case JudgeDone():
                self._unjudged.pop(event.dialog_id, None)
                self.errors += event.failed
            case DialogDone():
                self.dialogs += 1
                self._unjudged.pop(event.dialog_id, None)
            case _:
                return

    @property
    def judge_queue(self) -> int:
        """Answered turns whose dialogue is not judged yet."""
        return sum(self._unjudged.values())

    def eta(self) -> str:
        """Return the time that is left, from the pace so far."""
        done = self.dialogs - self._before
        if not self.total or not done:
            return "-:--:--"
        left = max(0, self.total - self.dialogs)
        seconds = int((time.monotonic() - self._start) / done * left)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def line(self) -> str:
        """Return all of it as a plain line."""
        total = self.total if self.total is not None else "?"
        return (
            f"memfin: dialogs {self.dialogs}/{total}  turns {self.turns}  judge queue {self.judge_queue}"
            f"  errors {self.errors}  eta {self.eta()}"
        )

    def goes_on(self, event: RunResumed) -> str:
        """Return the line that begins a run that goes on."""
        return (
            f"memfin: run {event.run_id} goes on: {event.dialogs_done} dialogues are done, "
            f"{event.replays_done} more are answered, {event.dialogs_begun} go on where they stopped"
        )

    def bars(self) -> tuple[Bar, ...]:
        """Return the bars of a terminal, the same ones every time."""
        return (
            Bar("dialogs", self.dialogs, self.total, f"errors {self.errors}  eta {self.eta()}"),
            Bar("turns", self.turns, self.open_turns or None, f"judge queue {self.judge_queue}"),
        )


def warning_line(event: Warned) -> str:
    """Return the line that shows a warning."""
    where = f" (dialog {event.dialog_id})" if event.dialog_id else ""
    return one_line(f"memfin: warning: {event.message}{where}")


class Notices:
    """The lines that a user must see whatever the view: warnings, and skipped lines of the dataset."""

    def __init__(self) -> None:
        self._dataset = ""
        self._skipped = 0

    def of(self, event: ProgressEvent) -> list[str]:
        """Return the lines that an event calls for."""
        match event:
            case RunStarted() | RunResumed():
                self._dataset = event.dataset_path or ""
            case Warned():
                return [warning_line(event)]
            case DialogDone(skip_reason=str()):
                self._skipped += 1
                if self._skipped <= MOST_SKIPS:
                    place = f"{self._dataset}:{event.dataset_index}"
                    return [one_line(f"memfin: {place}: skipped, {event.skip_reason}: {event.error}")]
                if self._skipped == MOST_SKIPS + 1:
                    return ["memfin: more lines are skipped; the report counts them, the trace names each"]
            case _:
                return []
        return []


class QuietView:
    """Shows nothing but notices."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._notices = Notices()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.flush()

    def show(self, event: ProgressEvent) -> None:
        """Print notices."""
        for line in self._notices.of(event):
            print(line, file=self._stream, flush=True)


class PlainView(QuietView):
    """A line every few seconds and one at the end."""

    def __init__(self, stream: TextIO, standing: Standing | None = None) -> None:
        super().__init__(stream)
        self._standing = standing or Standing()
        self._printed = time.monotonic()

    def __exit__(self, *exception: object) -> None:
        self._print()

    def show(self, event: ProgressEvent) -> None:
        """Count the event and print a line when one is due."""
        super().show(event)
        self._standing.count(event)
        if isinstance(event, RunStarted):
            print(f"memfin: run {event.run_id} started", file=self._stream, flush=True)
        elif isinstance(event, RunResumed):
            print(self._standing.goes_on(event), file=self._stream, flush=True)
        elif time.monotonic() - self._printed >= EVERY:
            self._print()

    def _print(self) -> None:
        self._printed = time.monotonic()
        print(self._standing.line(), file=self._stream, flush=True)


class BarView:
    """The standing as bars, such as dialogues and turns."""

    def __init__(self, standing: Standing | None = None) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        self._standing = standing or Standing()
        self._notices = Notices()
        self._progress = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._tasks = [
            self._progress.add_task(bar.name, total=None, note="") for bar in self._standing.bars()
        ]

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def show(self, event: ProgressEvent) -> None:
        """Count the event and move the bars."""
        self._standing.count(event)
        for line in self._notices.of(event):
            self._progress.console.print(line, markup=False, highlight=False)
        for task, bar in zip(self._tasks, self._standing.bars(), strict=True):
            self._progress.update(task, total=bar.total, completed=bar.completed, note=bar.note)


def progress_view(*, quiet: bool, standing: Standing | None = None) -> ProgressView:
    """Return the view that fits: nothing, bars on a terminal, plain lines elsewhere.

    ``standing`` counts the events of a suite; None is that of dialogues.
    """
    if quiet:
        return QuietView(sys.stderr)
    return BarView(standing) if sys.stderr.isatty() else PlainView(sys.stderr, standing)
