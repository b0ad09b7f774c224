"""What a user sees of a soak: a line an epoch, how the epoch under way is doing, a table in the end."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TextIO

from memfin.cli.progress import EVERY, Notices
from memfin.cli.soak_words import DIALOGS, SoakWords, words_of
from memfin.contracts import DialogDone, ProgressEvent, RunResumed, RunStarted
from memfin.contracts.soak import Drift, ProcessSample, SoakEpoch, SoakSummary

if TYPE_CHECKING:
    from rich.table import Table

_MIB: Final = 1 << 20


def epoch_line(epoch: SoakEpoch, summary: SoakSummary) -> str:
    """Return the line of a complete epoch."""
    lag, latency, words = epoch.loop_lag_ms, epoch.turn_latency_ms, words_of(summary.suite)
    drifting = [name for name, drift in summary.metrics.items() if drift.drifting and ".macro." not in name]
    of = f"/{summary.limits.epochs}" if summary.limits.epochs is not None else ""
    return (
        f"epoch {epoch.epoch}{of}: {words.amount(epoch.dialogs, epoch.turns)} in "
        f"{epoch.wall_seconds:.1f} s; {epoch.errors.failed_turns} {words.unit} failed"
        f"; latency p50 {latency.p50:.3g} p99 {latency.p99:.3g} ms"
        f"; loop lag p99 {lag.p99:.3g} ms; rss {epoch.resources.rss_bytes / _MIB:.1f} MiB"
        f", {epoch.resources.open_files} files" + (f"; drifting: {', '.join(drifting)}" if drifting else "")
    )


class SoakView(Protocol):
    """Shows a soak as it goes on; used as a context manager around it."""

    def __enter__(self) -> Self:
        """Start showing."""
        ...

    def __exit__(self, *exception: object) -> None:
        """Stop showing."""

    def on_event(self, event: ProgressEvent) -> None:
        """Take an event of the epoch under way."""

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Show a complete epoch."""

    def on_sample(self, sample: ProcessSample) -> None:
        """Take a look at the process."""


class QuietSoakView:
    """Shows nothing but notices; a line of the dataset that is skipped is named in the first epoch only."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._notices = Notices()
        self._lines_named = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.flush()

    def on_event(self, event: ProgressEvent) -> None:
        """Print notices."""
        if self._lines_named and isinstance(event, DialogDone):
            return
        for line in self._notices.of(event):
            self._say(line)

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Show nothing; later epochs skip the same lines."""
        del epoch, summary
        self._lines_named = True

    def on_sample(self, sample: ProcessSample) -> None:
        """Show nothing."""

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class PlainSoakView(QuietSoakView):
    """A line an epoch, and one every few seconds within long ones."""

    def __init__(self, stream: TextIO, words: SoakWords = DIALOGS) -> None:
        super().__init__(stream)
        self._words = words
        self._standing = words.standing()
        self._printed = time.monotonic()

    def on_event(self, event: ProgressEvent) -> None:
        """Count the event and print a line when one is due."""
        super().on_event(event)
        if isinstance(event, RunStarted | RunResumed):
            self._standing = self._words.standing()
        now = self._standing
        now.count(event)
        if isinstance(event, RunResumed):
            self._say(f"memfin: epoch {event.run_id} goes on: {self._words.goes_on(event)}")
        elif time.monotonic() - self._printed >= EVERY:
            self._printed = time.monotonic()
            self._say(
                f"memfin: {self._words.name} {now.dialogs}/{now.total if now.total is not None else '?'}"
                f"  {self._words.note(now)}  eta of the epoch {now.eta()}"
            )

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Print the epoch's line."""
        super().on_epoch(epoch, summary)
        self._printed = time.monotonic()
        self._say(f"memfin: {epoch_line(epoch, summary)}")


class BarSoakView(QuietSoakView):
    """A line an epoch above the bar of the epoch under way."""

    def __init__(self, stream: TextIO, words: SoakWords = DIALOGS) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        super().__init__(stream)
        self._words = words
        self._standing = words.standing()
        self._progress = Progress(
            TextColumn(f"epoch {{task.fields[epoch]}} {words.name}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            refresh_per_second=4,
            transient=True,
        )
        self._bar = self._progress.add_task(words.name, total=None, epoch="", note="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def on_event(self, event: ProgressEvent) -> None:
        """Count the event and move the bar."""
        super().on_event(event)
        if isinstance(event, RunStarted | RunResumed):
            self._standing = self._words.standing()
        now = self._standing
        now.count(event)
        self._progress.update(
            self._bar,
            total=now.total,
            completed=now.dialogs,
            epoch=event.run_id.rpartition(".")[2],
            note=f"{self._words.note(now)}  eta {now.eta()}",
        )

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Print the epoch's line above the bar."""
        super().on_epoch(epoch, summary)
        self._say(epoch_line(epoch, summary))

    def _say(self, line: str) -> None:
        self._progress.console.print(line, markup=False, highlight=False)


def soak_view(*, quiet: bool, words: SoakWords = DIALOGS) -> SoakView:
    """Return the view that fits: nothing, a bar on a terminal, plain lines elsewhere."""
    if quiet:
        return QuietSoakView(sys.stderr)
    return BarSoakView(sys.stderr, words) if sys.stderr.isatty() else PlainSoakView(sys.stderr, words)


def drift_table(summary: SoakSummary) -> "Table":
    """Return the final table: headline values and operation over the epochs, with their trends."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - rich loads slowly
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(title=f"{summary.run_id}: {summary.epochs} epochs", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("value", no_wrap=True)
    for name in ("mean", "last", "an epoch", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    groups: dict[str, dict[str, Drift]] = {}
    for name, drift in summary.metrics.items():
        metric, _, value = name.partition(".")
        if not value.startswith("macro."):
            groups.setdefault(metric, {})[value] = drift
    for group, values in {**groups, "operation": summary.operation}.items():
        table.add_row(group, style="bold")
        for name, drift in values.items():
            table.add_row(*_cells(f"  {name}", drift))
        table.add_section()
    return table


def _cells(name: str, drift: Drift) -> tuple[str, ...]:
    bounds = "" if drift.ci95 is None else f"{_short(drift.ci95[0])}..{_short(drift.ci95[1])}"
    values = (drift.mean, drift.last, drift.slope)
    return name, *map(_short, values), bounds, "drifts" if drift.drifting else ""


def _short(value: float) -> str:
    """Return a number in few characters, large ones in millions."""
    return f"{value / 1e6:.3g}M" if abs(value) >= 1e5 else f"{value:.3g}"  # noqa: PLR2004 - bytes, that is


def closing_line(summary: SoakSummary) -> str:
    """Return what a soak amounts to, in one line."""
    latency, errors, words = summary.turn_latency_ms, summary.errors, words_of(summary.suite)
    others: Mapping[str, Any] = {
        "turns timed out": errors.timeouts,
        "retries": errors.turn_retries,
        "judgements failed": errors.judge_failures,
        "lines skipped": errors.skipped_dialogs,
        "calls left behind": errors.abandoned_calls,
    }
    growth = summary.rss_bytes_per_100k_turns
    return (
        f"{summary.epochs} epochs, {words.amount(summary.dialogs, summary.turns)} in "
        f"{summary.elapsed_seconds:.1f} s; {errors.failed_turns} {words.unit} failed"
        + "".join(f", {count} {what}" for what, count in others.items() if count)
        + f"; latency p50 {latency.p50:.3g} p90 {latency.p90:.3g} p99 {latency.p99:.3g} ms"
        f"; loop lag p99 {summary.loop_lag_ms.p99:.3g} ms"
        + (f"; memory {growth / _MIB:+.2f} MiB in 100,000 {words.unit}" if growth is not None else "")
    )
