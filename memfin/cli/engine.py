"""Runs in shards: their progress in one view, and their end."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

import click
from click.core import ParameterSource

from memfin.actors.messages import utc_now
from memfin.cli.options import ENGINE_OPTIONS
from memfin.cli.output import (
    INTERVAL,
    Counts,
    ProgressView,
    ViewKind,
    counted,
    warning_line,
)
from memfin.cli.process import run_work
from memfin.contracts import DialogDone, ProgressEvent, RunResumed, RunStarted, TurnDone, Warned
from memfin.contracts.settings import EngineSettings, check_settings
from memfin.errors import UsageError
from memfin.scale.engine import RETRIES, Engine, State
from memfin.scale.launchers import make_launcher
from memfin.scale.plan import EnginePlan
from memfin.shards import Shard

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

MAX_ROWS: Final = 16
"""Shards that have a line each on a terminal; more have one together."""

MAX_KNOWN: Final = 1000
"""Different lines that are shown once although several shards have them."""

REFRESH: Final = 0.2
"""Seconds between two changes of the bars."""


class ShardsView(ProgressView):
    """View of a run in shards: the counts of all together, and the state of each.

    What several shards warn of is shown once, and so is what their workers print before they begin.
    """

    def __init__(self, stream: TextIO, kind: ViewKind, plan: EnginePlan) -> None:
        judge, lines = plan.config.judge, plan.run.dialogs
        self._plan = plan
        self._states = {shard: State("waiting") for shard in plan.shards}
        self._parts = {shard: Counts(judge=judge) for shard in plan.shards}
        self._rows: dict[Shard, TaskID] = {}
        self._known: set[str] = set()
        self._begun: set[Shard] = set()
        self._refreshed = 0.0
        super().__init__(stream, kind, judge=judge)
        complete = plan.complete_shards()
        for shard, part in self._parts.items():
            part.total = complete.get(shard, shard.lines(lines))
            if shard in complete:
                self._states[shard] = State("complete")
                part.count(RunResumed(ts="", run_id="", dialogs_done=complete[shard], dialogs=part.total))
        self._add_up()
        self._unannounced = self._beginning(len(complete))

    def _beginning(self, complete: int) -> str:
        plan = self._plan
        if plan.resumed:
            return f"memfin: resuming run {plan.run_id}: {complete} of {len(plan.shards)} shards are complete"
        return f"memfin: run {plan.run_id} started in {counted(len(plan.shards), 'shard')}"

    def _made_progress(self) -> "Progress":
        progress = super()._made_progress()
        if len(self._parts) <= MAX_ROWS:
            for shard in self._parts:
                self._rows[shard] = progress.add_task(f"  shard {shard}", total=None, note="waiting")
        else:
            progress.add_task("  shards", total=len(self._parts), note="")
        return progress

    def __enter__(self) -> Self:
        super().__enter__()
        self._refresh()
        return self

    def __exit__(self, *exception: object) -> None:
        self._refresh()
        super().__exit__(*exception)

    def on_shard_event(self, shard: Shard, event: ProgressEvent) -> None:
        """Count the event and show what it changes."""
        part = self._parts[shard]
        part.count(event)
        self._begun.add(shard)
        if isinstance(event, RunStarted | RunResumed):
            self._dataset = event.dataset_path or ""
        if not isinstance(event, Warned) or self._is_new(warning_line(event)):
            self._show(event)
        if time.monotonic() - self._refreshed >= REFRESH:
            self._refresh()
        if self._plain:
            self._print_due(event)

    def on_state(self, shard: Shard, state: State) -> None:
        """Show the state of a shard."""
        self._states[shard] = state
        if state.name == "retrying":
            self._begun.discard(shard)
            self.on_warning(f"shard {shard}: {state.reason}; retry {state.retry} of {RETRIES}")
        elif state.name == "failed" and len(self._parts) > 1:
            self.on_warning(f"shard {shard}: {state.reason}; the other shards go on")
        self._refresh()

    def on_line(self, shard: Shard, line: str) -> None:
        """Print what a worker has written to standard error."""
        if shard in self._begun or self._is_new(line):
            self.print(line)

    def on_merge(self, merged: int, dialogs: int) -> None:
        """Show how far the merge is."""
        if self.progress is not None:
            self.progress.update(
                self.progress.task_ids[0], description="merging", completed=merged, total=dialogs, note=""
            )

    def on_warning(self, line: str) -> None:
        """Print a warning of the engine's own."""
        self._show(Warned(ts=utc_now(), run_id=self._plan.run_id, message=line))

    def _is_new(self, line: str) -> bool:
        new = line not in self._known
        if len(self._known) < MAX_KNOWN:
            self._known.add(line)
        return new

    def _add_up(self) -> None:
        self.counts.add_up(self._parts.values())
        if any(state.name != "complete" for state in self._states.values()):
            self.counts.total = self._plan.run.dialogs  # where users have dialogues, shards only guess

    def _refresh(self) -> None:
        self._refreshed = time.monotonic()
        self._add_up()
        if self.progress is None:
            return
        total, *others = self.progress.task_ids
        counts = self.counts
        self.progress.update(
            total, description=counts.name, total=counts.total, completed=counts.dialogs, note=counts.note()
        )
        for shard, row in self._rows.items():
            part = self._parts[shard]
            self.progress.update(
                row, total=part.total, completed=part.dialogs, note=_state(self._states[shard])
            )
        if not self._rows:
            complete = sum(state.name == "complete" for state in self._states.values())
            self.progress.update(others[0], completed=complete, note=self._states_line())

    def _print_due(self, event: ProgressEvent) -> None:
        if self._unannounced and isinstance(event, TurnDone | DialogDone):
            self.print(self._unannounced)
            self._unannounced = ""
        elif time.monotonic() - self._printed >= INTERVAL:
            self._print_counts()

    def _states_line(self) -> str:
        names = [state.name for state in self._states.values()]
        return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))

    def _print_counts(self) -> None:
        self._printed = time.monotonic()
        self.print(f"memfin: {self.counts.line()}  shards: {self._states_line()}")


def _state(state: State) -> str:
    if state.name == "retrying" or (state.name == "running" and state.retry):
        return f"{state.name}, retry {state.retry} of {RETRIES}"
    return state.name


def engine_settings(settings: dict[str, Any]) -> EngineSettings | None:
    """Take the settings of the engine out of those of a command; None for a run in this process.

    Raises:
        UsageError: the command line has an option of an engine and no engine.
    """
    values = {option.setting.name: settings.pop(str(option.name)) for option in ENGINE_OPTIONS}
    found = check_settings(EngineSettings, values)
    if found.engine != "local":
        return found
    context = click.get_current_context()
    for option in ENGINE_OPTIONS:
        name = str(option.name)
        if name != "engine" and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{option.opts[0]}: needs an engine; give --engine processes, too")
    return None


def run_engine(plan: EnginePlan, *, quiet: bool) -> Path:
    """Run the shards of a plan and merge them; return the directory of the complete run."""
    kind: ViewKind = "quiet" if quiet else "bar" if sys.stderr.isatty() else "plain"
    launcher = make_launcher(plan.engine)
    with ShardsView(sys.stderr, kind, plan) as view:
        run_work(Engine(plan, launcher, view), plan, view)
    return plan.out
