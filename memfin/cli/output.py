"""Output of the commands: notes and progress on stderr, tables on stdout."""

import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, ParamSpec, Self, TextIO

import click

from memfin.contracts import (
    Corrections,
    DialogDone,
    EvalSummary,
    JudgeDone,
    ProcessSample,
    ProgressEvent,
    QuestionDone,
    RunFinished,
    RunResumed,
    RunStarted,
    SoakEpoch,
    SoakSummary,
    TurnDone,
    Warned,
    many_failed,
)
from memfin.contracts.run import MAX_FAILED_SHARE, Suite
from memfin.contracts.validity import LABELS
from memfin.errors import RunFault, UsageError
from memfin.sandbox.references import one_line

if TYPE_CHECKING:
    from rich.progress import Progress

P = ParamSpec("P")

INTERVAL: Final = 5.0
"""Seconds between two plain lines."""

MAX_SKIPS: Final = 20
"""Skipped lines that are named one by one."""

MIB: Final = 1 << 20

ViewKind = Literal["quiet", "plain", "bar"]

UNITS: Final[dict[Suite, str]] = {"dialog": "turns", "rag": "questions"}
"""Names of what a suite asks one by one."""


def note(line: str) -> None:
    """Print a line of the program's own on stderr."""
    click.echo(f"memfin: {one_line(line)}", err=True)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def print_table(*tables: object, highlight: bool = True) -> None:
    """Print rich tables on stdout."""
    from rich.console import Console  # noqa: PLC0415 - rich loads slowly

    console = Console(highlight=highlight)
    if console.is_terminal:
        console.print(*tables)
        return
    with console.capture() as printed:
        console.print(*tables)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


LOCAL_JUDGES: Final = (None, "none", "heuristic")
"""Judges that keep no answer waiting."""


class Counts:
    """Counts of a run, from its events; ``total`` is None while it is unknown.

    In a benchmark run ``dialogs`` counts questions and ``asked`` those of this process. With a judge that
    is not local the counts have the answers that wait for it.
    """

    def __init__(self, suite: Suite = "dialog", judge: str | None = None) -> None:
        self.suite: Suite = suite
        self.total: int | None = None
        self.dialogs = 0
        self.turns = 0
        self.asked = 0
        self.passed = 0
        self.errors = 0
        self._before: int | None = None
        self._rate: str | None = None
        self._unjudged: dict[str, int] = {}
        self._queues = judge not in LOCAL_JUDGES
        self._start = time.monotonic()

    def count(self, event: ProgressEvent) -> None:
        """Take one event in."""
        match event:
            case RunStarted() | RunResumed():
                self.total = event.dialogs
                self.dialogs = event.dialogs_done if isinstance(event, RunResumed) else 0
                self._before = self.dialogs if self._before is None else self._before
                self._unjudged.clear()
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
            case QuestionDone():
                self.dialogs += 1
                self.asked += 1
                self.passed += event.passed
                self.errors += event.error is not None
            case RunFinished():
                self.total = self.dialogs  # empty lines of the dataset had been counted
            case _:
                pass

    def add_up(self, parts: Collection["Counts"]) -> None:
        """Take the sums of other counts, those of the shards of a run, and note turns per second, too."""
        totals = [part.total for part in parts]
        self.total = None if None in totals else sum(filter(None, totals))
        self.dialogs, self.turns, self.errors = (
            sum(getattr(part, name) for part in parts) for name in ("dialogs", "turns", "errors")
        )
        self._before = sum(part._before or 0 for part in parts)  # noqa: SLF001 - of this class
        self._unjudged = {"": sum(part.judge_queue for part in parts)}
        self._rate = f"{self.turns / max(1e-3, time.monotonic() - self._start):.1f}/s"

    @property
    def judge_queue(self) -> int:
        """Answered turns whose dialogue is not judged yet."""
        return sum(self._unjudged.values())

    def eta(self) -> str:
        """Return the time that is left, from the pace so far."""
        done = self.dialogs - (self._before or 0)
        if not self.total or not done:
            return "-:--:--"
        left = max(0, self.total - self.dialogs)
        seconds = int((time.monotonic() - self._start) / done * left)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    @property
    def name(self) -> str:
        """Plural of what is counted."""
        return "questions" if self.suite == "rag" else "dialogues"

    def line(self) -> str:
        """Return the counts as a plain line."""
        return f"{self.name} {self.dialogs}/{'?' if self.total is None else self.total}  {self.note()}"

    def note(self) -> str:
        """Return the counts besides that of dialogues or questions."""
        counts = [f"errors {self.errors}", f"eta {self.eta()}"]
        if self.suite == "rag":
            counts.insert(0, f"passed {self.passed}/{self.asked}")
        elif self.turns:
            queue = [f"judge queue {self.judge_queue}"] if self._queues else []
            rate = [self._rate] if self._rate else []
            counts = [f"turns {self.turns}", *rate, *queue, *counts]
        return "  ".join(counts)


def amount(suite: Suite, dialogs: int, turns: int) -> str:
    """Return the size of a soak or of an epoch."""
    if suite == "rag":
        return counted(turns, "question")
    return f"{counted(dialogs, 'dialogue')}, {counted(turns, 'turn')}"


def warning_line(event: Warned) -> str:
    """Return the line that shows a warning."""
    where = f" (dialogue {event.dialog_id})" if event.dialog_id else ""
    return one_line(f"memfin: warning: {event.message}{where}")


def resumed_line(event: RunResumed, suite: Suite, *, soak: bool) -> str:
    """Return the line of a run, or an epoch, that is resumed."""
    done, replays = event.dialogs_done, event.replays_done
    if suite == "rag":
        state = f"{counted(done + replays, 'question')} answered" + (
            f", {replays} of them not judged" if replays else ""
        )
    else:
        begun = f"{event.dialogs_begun} partly answered"
        state = f"{counted(done, 'dialogue')} done, {replays} answered but not scored, {begun}"
    return f"memfin: resuming {'epoch' if soak else 'run'} {event.run_id}: {state}"


def failed_units(suite: Suite, failed: int, total: int) -> str:
    """Return a warning about failed turns or questions where there are many, otherwise an empty text."""
    if not many_failed(failed, total):
        return ""
    return f"{failed} of {total} {UNITS[suite]} failed, more than {MAX_FAILED_SHARE:.0%}"


def epoch_line(epoch: SoakEpoch, summary: SoakSummary) -> str:
    """Return the line of a complete epoch."""
    lag, latency, suite = epoch.loop_lag_ms, epoch.turn_latency_ms, summary.suite or "dialog"
    drifts = {**summary.metrics, **summary.operation}
    drifting = [name for name, drift in drifts.items() if drift.drifting and ".macro." not in name]
    warning = failed_units(suite, epoch.errors.failed_turns, epoch.turns)
    failed = counted(epoch.errors.failed_turns, UNITS[suite].removesuffix("s"))
    of = f"/{summary.limits.epochs}" if summary.limits.epochs is not None else ""
    return (
        f"memfin: epoch {epoch.epoch}{of}: {amount(suite, epoch.dialogs, epoch.turns)} in "
        f"{epoch.wall_seconds:.1f} s; {failed} failed"
        f"; latency p50 {latency.p50:.3g} p99 {latency.p99:.3g} ms"
        f"; loop lag p99 {lag.p99:.3g} ms; rss {epoch.resources.rss_bytes / MIB:.1f} MiB"
        f", {epoch.resources.open_files} files"
        + (f"; drifting: {', '.join(drifting)}" if drifting else "")
        + (f"; warning: {warning}" if warning else "")
    )


class ProgressView:
    """A view of a run or a soak: a context manager around it, and its listener.

    All kinds print warnings and the skipped lines of the dataset, those of a soak in its first epoch.
    ``plain`` prints counts every few seconds, ``bar`` shows them below the other lines, and both print a
    line per epoch. Nothing announces a run before something in it is done, which a start that fails never is.
    """

    def __init__(
        self,
        stream: TextIO,
        kind: ViewKind,
        suite: Suite = "dialog",
        *,
        soak: bool = False,
        judge: str | None = None,
    ) -> None:
        self._stream = stream
        self._suite: Suite = suite
        self._plain = kind == "plain"
        self._quiet = kind == "quiet"
        self._soak = soak
        self._dataset = ""
        self._skipped = 0
        self._epochs = 0
        self._printed = time.monotonic()
        self._judge = judge
        self._unannounced = ""
        self.counts = Counts(suite, judge)
        self.progress = self._made_progress() if kind == "bar" else None

    def _made_progress(self) -> "Progress":
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        name, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
        columns = (name, BarColumn(), MofNCompleteColumn(), note)
        console = Console(file=self._stream)
        progress = Progress(*columns, console=console, refresh_per_second=4, transient=self._soak)
        progress.add_task(self.counts.name, total=None, note="")
        return progress

    def __enter__(self) -> Self:
        if self.progress is not None:
            self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        failed_start = exception[0] is not None and not self.counts.turns and not self.counts.dialogs
        if self.progress is not None:
            self.progress.live.transient |= failed_start
            self.progress.stop()
        elif self._plain and not self._soak and not failed_start:
            self._print_counts()
        self._stream.flush()

    def on_event(self, event: ProgressEvent) -> None:
        """Count the event and show what it changes."""
        if isinstance(event, RunStarted | RunResumed):
            self._dataset = event.dataset_path or ""
            self.counts = Counts(self._suite, self._judge)
        self.counts.count(event)
        self._show(event)
        if self.progress is not None:
            self._move_bar(self.progress, event.run_id)
        elif self._plain:
            self._print_due(event)

    def _show(self, event: ProgressEvent) -> None:
        """Print warnings and skipped lines of the dataset."""
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

    def _move_bar(self, progress: "Progress", run_id: str) -> None:
        epoch = f"  epoch {run_id.rpartition('.')[2]}" if self._soak else ""
        (task,), counts = progress.task_ids, self.counts
        progress.update(task, total=counts.total, completed=counts.dialogs, note=counts.note() + epoch)

    def end_bar(self) -> bool:
        """Leave the bar as it is, with what is printed next below it; return False if there is none."""
        if self.progress is not None:
            self.progress.stop()
        return self.progress is not None

    def _print_due(self, event: ProgressEvent) -> None:
        if isinstance(event, RunResumed):
            self.print(resumed_line(event, self._suite, soak=self._soak))
        elif isinstance(event, RunStarted) and not self._soak:
            self._unannounced = f"memfin: run {event.run_id} started"
        elif self._unannounced and isinstance(event, TurnDone | DialogDone | QuestionDone):
            self.print(self._unannounced)
            self._unannounced = ""
        elif time.monotonic() - self._printed >= INTERVAL:
            self._print_counts()

    def on_exit(self, line: str) -> None:
        """Print why the process ends at once, from any thread."""
        note(line)

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Print the epoch's line; later epochs skip the same lines of the dataset."""
        self._epochs += 1
        self._printed = time.monotonic()
        if not self._quiet:
            self.print(epoch_line(epoch, summary))

    def on_sample(self, sample: ProcessSample) -> None:
        """Show nothing."""

    def _print_counts(self) -> None:
        self._printed = time.monotonic()
        self.print(f"memfin: {self.counts.line()}")

    def print(self, line: str) -> None:
        """Print a line, above the bar where there is one."""
        if self.progress is not None:
            self.progress.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=self._stream, flush=True)


def progress_view(
    suite: Suite = "dialog", *, quiet: bool, soak: bool = False, judge: str | None = None
) -> ProgressView:
    """Return the view that fits: only warnings, a bar on a terminal, plain lines elsewhere."""
    kind: ViewKind = "quiet" if quiet else "bar" if sys.stderr.isatty() else "plain"
    return ProgressView(sys.stderr, kind, suite, soak=soak, judge=judge)


def corrections_of(directory: Path) -> Corrections | None:
    """Return the corrected rates of a run with labels; labels that cannot be used are a warning."""
    if not any((directory / name).is_file() for name in ("corrections.json", LABELS)):
        return None
    from memfin.validity.corrections import current_corrections  # noqa: PLC0415 - loads slowly

    try:
        return current_corrections(directory)
    except UsageError as problem:
        note(f"warning: the labels are not used: {one_line(str(problem))}")
        return None


def noted_at_intervals(line: Callable[P, str]) -> Callable[P, None]:
    """Return what takes progress and notes its line, once in `INTERVAL` seconds."""
    noted = time.monotonic()

    def take(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal noted
        if time.monotonic() - noted >= INTERVAL:
            noted = time.monotonic()
            note(line(*args, **kwargs))

    return take


def corrected_summary(directory: Path) -> EvalSummary | None:
    """Write the corrected rates of a run with labels, and return its summary with them."""
    if (found := corrections_of(directory)) is None:
        return None
    from memfin.validity.corrections import write_corrections  # noqa: PLC0415 - as above

    return write_corrections(directory, found)


def write_reports(directory: Path) -> Path:
    """Write report.md and report.html; return the path of the latter.

    Raises:
        RunFault: the file system refused.
    """
    from memfin.report import write_reports as write  # noqa: PLC0415 - templates and charts load slowly

    try:
        return write(directory)[1]
    except OSError as problem:
        raise RunFault(f"report in {directory}: {problem.strerror or problem}") from problem
