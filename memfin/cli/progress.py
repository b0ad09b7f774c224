"""Progress of runs and soaks on stderr: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Self, TextIO

from memfin.contracts import (
    DialogDone,
    DialogStarted,
    JudgeDone,
    ProcessSample,
    ProgressEvent,
    QuestionDone,
    RunResumed,
    RunStarted,
    SoakEpoch,
    SoakSummary,
    TurnDone,
    Warned,
)
from memfin.contracts.run import Suite
from memfin.sandbox.references import one_line

INTERVAL: Final = 5.0
"""Seconds between two plain lines."""

MAX_SKIPS: Final = 20
"""Skipped lines that are named one by one."""

MIB: Final = 1 << 20


class Bar(NamedTuple):
    """One bar of a terminal's view; ``total`` is None while it is unknown."""

    name: str
    completed: int
    total: int | None
    note: str


class DialogueCounts:
    """Counts of a run of dialogues, from its events; ``total`` is None while it is unknown."""

    unit = "turns"

    def __init__(self) -> None:
        self.total: int | None = None
        self.dialogs = 0
        self.turns = 0
        self.open_turns = 0
        self.errors = 0
        self._before = 0
        self._unjudged: dict[str, int] = {}
        self._judging = False
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
                self._judging = True
                self._unjudged.pop(event.dialog_id, None)
                self.errors += event.failed
            case DialogDone():
                self.dialogs += 1
                self._unjudged.pop(event.dialog_id, None)
            case _:
                return

    @property
    def judge_queue(self) -> int:
        """Answered turns whose dialogue is not judged yet; 0 until a judge has done anything."""
        return sum(self._unjudged.values()) if self._judging else 0

    def eta(self) -> str:
        """Return the time that is left, from the pace so far."""
        done = self.dialogs - self._before
        if not self.total or not done:
            return "-:--:--"
        left = max(0, self.total - self.dialogs)
        seconds = int((time.monotonic() - self._start) / done * left)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def _done(self) -> str:
        return f"{self.dialogs}/{'?' if self.total is None else self.total}"

    def line(self) -> str:
        """Return the counts as a plain line."""
        queue = f"  judge queue {self.judge_queue}" if self._judging else ""
        return f"dialogues {self._done()}  turns {self.turns}{queue}  errors {self.errors}  eta {self.eta()}"

    def bars(self) -> tuple[Bar, ...]:
        """Return the bars of a terminal, the same ones every time."""
        queue = f"judge queue {self.judge_queue}" if self._judging else ""
        return (
            Bar("dialogues", self.dialogs, self.total, f"errors {self.errors}  eta {self.eta()}"),
            Bar("turns", self.turns, self.open_turns or None, queue),
        )

    @staticmethod
    def resumed(event: RunResumed) -> str:
        """Return the state of a run that is resumed."""
        return (
            f"{event.dialogs_done} dialogues done, {event.replays_done} answered but not scored, "
            f"{event.dialogs_begun} partly answered"
        )

    @staticmethod
    def amount(dialogs: int, turns: int) -> str:
        """Return the size of a soak or of an epoch."""
        return f"{dialogs} dialogues, {turns} turns"


class QuestionCounts(DialogueCounts):
    """Counts of a benchmark run; ``dialogs`` counts questions, ``asked`` those of this process."""

    unit = "questions"

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0
        self.asked = 0

    def count(self, event: ProgressEvent) -> None:
        """Take one event in."""
        super().count(event)
        if isinstance(event, QuestionDone):
            self.dialogs += 1
            self.asked += 1
            self.passed += event.passed
            self.errors += event.error is not None

    def line(self) -> str:
        """Return the counts as a plain line."""
        return f"questions {self._done()}  {self._note()}"

    def bars(self) -> tuple[Bar, ...]:
        """Return the one bar."""
        return (Bar("questions", self.dialogs, self.total, self._note()),)

    def _note(self) -> str:
        return f"passed {self.passed}/{self.asked}  errors {self.errors}  eta {self.eta()}"

    @staticmethod
    def resumed(event: RunResumed) -> str:
        """Return the state of a run that is resumed."""
        unjudged = f", {event.replays_done} of them not judged" if event.replays_done else ""
        return f"{event.dialogs_done + event.replays_done} questions answered{unjudged}"

    @staticmethod
    def amount(dialogs: int, turns: int) -> str:
        """Return the size of a soak or of an epoch."""
        del dialogs
        return f"{turns} questions"


COUNTS: Final[Mapping[Suite, type[DialogueCounts]]] = {"dialog": DialogueCounts, "rag": QuestionCounts}
"""The counts of a suite."""


def warning_line(event: Warned) -> str:
    """Return the line that shows a warning."""
    where = f" (dialogue {event.dialog_id})" if event.dialog_id else ""
    return one_line(f"memfin: warning: {event.message}{where}")


def epoch_line(epoch: SoakEpoch, summary: SoakSummary) -> str:
    """Return the line of a complete epoch."""
    lag, latency, counts = epoch.loop_lag_ms, epoch.turn_latency_ms, COUNTS[summary.suite or "dialog"]
    drifting = [name for name, drift in summary.metrics.items() if drift.drifting and ".macro." not in name]
    of = f"/{summary.limits.epochs}" if summary.limits.epochs is not None else ""
    return (
        f"memfin: epoch {epoch.epoch}{of}: {counts.amount(epoch.dialogs, epoch.turns)} in "
        f"{epoch.wall_seconds:.1f} s; {epoch.errors.failed_turns} {counts.unit} failed"
        f"; latency p50 {latency.p50:.3g} p99 {latency.p99:.3g} ms"
        f"; loop lag p99 {lag.p99:.3g} ms; rss {epoch.resources.rss_bytes / MIB:.1f} MiB"
        f", {epoch.resources.open_files} files" + (f"; drifting: {', '.join(drifting)}" if drifting else "")
    )


class QuietView:
    """Shows only warnings and skipped lines of the dataset; those of a soak in its first epoch.

    A view is a context manager around the run or the soak, and a listener of both.
    """

    def __init__(self, stream: TextIO, suite: Suite = "dialog", *, soak: bool = False) -> None:
        self._stream = stream
        self._suite: Suite = suite
        self._soak = soak
        self._dataset = ""
        self._skipped = 0
        self._epochs = 0
        self._printed = time.monotonic()
        self.counts = COUNTS[suite]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.flush()

    def on_event(self, event: ProgressEvent) -> None:
        """Count the event; print warnings and skipped lines in every view."""
        if isinstance(event, RunStarted | RunResumed):
            self._dataset = event.dataset_path or ""
            self.counts = COUNTS[self._suite]()
        self.counts.count(event)
        match event:
            case Warned():
                self.print(warning_line(event))
            case DialogDone(skip_reason=str()) if not self._epochs:
                self._skipped += 1
                if self._skipped <= MAX_SKIPS:
                    place = f"{self._dataset}:{event.dataset_index}"
                    self.print(one_line(f"memfin: {place}: skipped, {event.skip_reason}: {event.error}"))
                elif self._skipped == MAX_SKIPS + 1:
                    self.print("memfin: more lines are skipped; the report counts them, the trace names each")
            case _:
                pass

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Show nothing; later epochs skip the same lines."""
        del epoch, summary
        self._epochs += 1

    def on_sample(self, sample: ProcessSample) -> None:
        """Show nothing."""

    def print(self, line: str) -> None:
        """Print a line."""
        print(line, file=self._stream, flush=True)


class PlainView(QuietView):
    """A line every few seconds, one per epoch, and one at the end of a run."""

    def __exit__(self, *exception: object) -> None:
        failed_start = exception[0] is not None and not self.counts.turns and not self.counts.dialogs
        if not self._soak and not failed_start:
            self._print_counts()

    def on_event(self, event: ProgressEvent) -> None:
        """Count the event and print a line when one is due."""
        super().on_event(event)
        name = "epoch" if self._soak else "run"
        if isinstance(event, RunResumed):
            self.print(f"memfin: resuming {name} {event.run_id}: {self.counts.resumed(event)}")
        elif isinstance(event, RunStarted) and not self._soak:
            self.print(f"memfin: run {event.run_id} started")
        elif time.monotonic() - self._printed >= INTERVAL:
            self._print_counts()

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Print the epoch's line."""
        super().on_epoch(epoch, summary)
        self._printed = time.monotonic()
        self.print(epoch_line(epoch, summary))

    def _print_counts(self) -> None:
        self._printed = time.monotonic()
        self.print(f"memfin: {self.counts.line()}")


class BarView(QuietView):
    """The counts as bars, such as dialogues and turns; lines of epochs are printed above them."""

    def __init__(self, stream: TextIO, suite: Suite = "dialog", *, soak: bool = False) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        super().__init__(stream, suite, soak=soak)
        self._progress = Progress(
            TextColumn("{task.description:>9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(file=stream),
            refresh_per_second=4,
            transient=soak,
        )
        self._tasks = [self._progress.add_task(bar.name, total=None, note="") for bar in self.counts.bars()]

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def on_event(self, event: ProgressEvent) -> None:
        """Count the event and move the bars."""
        super().on_event(event)
        epoch = f"  epoch {event.run_id.rpartition('.')[2]}" if self._soak else ""
        for task, bar in zip(self._tasks, self.counts.bars(), strict=True):
            note = bar.note + (epoch if task == self._tasks[0] else "")
            self._progress.update(task, total=bar.total, completed=bar.completed, note=note)

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Print the epoch's line above the bars."""
        super().on_epoch(epoch, summary)
        self.print(epoch_line(epoch, summary))

    def print(self, line: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(line, markup=False, highlight=False)


def progress_view(suite: Suite = "dialog", *, quiet: bool, soak: bool = False) -> QuietView:
    """Return the view that fits: only warnings, bars on a terminal, plain lines elsewhere."""
    kind = QuietView if quiet else BarView if sys.stderr.isatty() else PlainView
    return kind(sys.stderr, suite, soak=soak)
