"""``memfin run``: evaluate an agent on a dataset."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
import click

from memfin.cli.options import fail_under_gates, run_options
from memfin.cli.progress import ProgressView, progress_view
from memfin.contracts import EvalSummary, RunConfig, RunStats
from memfin.errors import GateFailed, RunFault, RunStopped
from memfin.runtime.gates import failed_gates
from memfin.runtime.outputs import pretty_json
from memfin.runtime.plan import Plan, make_plan
from memfin.runtime.run import Run
from memfin.runtime.watchdog import LoopWatchdog

STUCK_EXIT: Final = 3


@click.command("run", short_help="Evaluate an agent on a dataset.")
@click.argument("dataset", required=False, envvar="MEMFIN_DATASET")
@run_options
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    envvar="MEMFIN_JSON",
    help="Print the metrics summary as JSON on stdout.",
)
@click.option("--quiet", is_flag=True, envvar="MEMFIN_QUIET", help="No progress and no table.")
def command(dataset: str | None, *, as_json: bool, quiet: bool, **settings: Any) -> None:
    """Evaluate an agent on DATASET, a JSONL file of dialogues; without it on the built-in sample.

    \b
    memfin run
    memfin run my_dialogs.jsonl --agent mypackage.agent:create --workers-dialog 16
    memfin run --agent oracle --fail-under m3_risk_coverage.risk_coverage=0.8

    Writes the run directory RUNS_DIR/RUN_ID with the traces, rows, metrics and reports. Every
    option may also stand in memfin.toml (with _ for -) or in a variable MEMFIN_OPTION.

    Exit codes: 0 done, 1 a gate failed, 2 bad usage or input, 3 stopped by a fault,
    130 and 143 stopped by a signal.
    """
    settings["fail_under"] = fail_under_gates(settings["fail_under"])
    plan = make_plan(dataset, **settings)
    directory = plan.directory.absolute()
    with progress_view(quiet=quiet) as view:
        summary, stats = run_to_end(plan, view)
    report = write_reports(directory) and plan.directory / "report.html"
    present(summary, stats, report, as_json=as_json, quiet=quiet)
    gates = failed_gates(summary, stats, plan.config.fail_under, plan.config.fail_on_error)
    sys.stdout.flush()
    if gates:
        raise GateFailed("; ".join(gates))


class Work(Protocol):
    """What `work_to_end` runs: a run or a soak."""

    stopped_by: str | None

    async def run(self) -> object:
        """Do all of it."""

    def record_stop(self, reason: str) -> None:
        """Tell the papers from another thread that the process ends."""


class Planned(Protocol):
    """What is known of it before."""

    @property
    def config(self) -> RunConfig:
        """Return its settings."""
        ...

    @property
    def directory(self) -> Path:
        """Return where it writes."""
        ...

    @property
    def after_stop(self) -> str:
        """Return what there is once it was stopped on purpose."""
        ...


def run_to_end(plan: Plan, view: ProgressView) -> tuple[EvalSummary, RunStats]:
    """Run the plan in a loop of its own, ended early by SIGINT (exit 130) or SIGTERM (exit 143)."""
    run = Run(plan, view.show)
    work_to_end(run, plan)
    assert run.summary is not None and run.stats is not None  # noqa: S101, PT018 - what a run's end means
    return run.summary, run.stats


def work_to_end(work: Work, plan: Planned) -> None:
    """Run a run or a soak in a loop of its own, ended early by SIGINT (exit 130) or SIGTERM (exit 143)."""
    stopped_by: list[signal.Signals] = []
    failures: list[Exception] = []
    completed: list[object] = []

    async def main() -> None:
        async with anyio.create_task_group() as group, _watchdog(plan, work):
            group.start_soon(_stop_on_signal, group.cancel_scope, work, stopped_by)
            try:
                completed.append(await work.run())
            except Exception as failure:  # noqa: BLE001 - raised again outside the group, as itself
                failures.append(failure)
            group.cancel_scope.cancel()

    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for data, not for what agents print
            anyio.run(main)
    except asyncio.CancelledError:
        raise RunFault(
            f"the run's own tasks were cancelled, by {plan.config.agent} it seems; {plan.directory} holds "
            "what was done"
        ) from None
    if failures:
        raise failures[0]
    if not completed:
        number = stopped_by[0] if stopped_by else signal.SIGINT
        raise RunStopped(f"stopped by {number.name}; {plan.after_stop}", 128 + number)


async def _stop_on_signal(scope: anyio.CancelScope, work: Work, stopped_by: list[signal.Signals]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            stopped_by.append(number)
            work.stopped_by = number.name
            scope.cancel()


def _watchdog(plan: Planned, work: Work) -> LoopWatchdog:
    """Name what blocks the loop; end the process when the loop is never given back."""
    config = plan.config
    named = (("agent", config.agent), ("agent memory", config.agent_memory), ("judge", config.judge))
    suspects = [
        f"{what} {name}"
        for what, name in named
        if ":" in name and not name.startswith(("openai:", "http://", "https://"))
    ]
    suspect = " or ".join(suspects)

    def warn(seconds: float) -> None:
        if not suspect:
            return  # what ships with MemFin gives the loop back; a long text may take its time
        click.echo(
            f"memfin: warning: {suspect} has blocked the event loop for {seconds:.1f} s; "
            "make its methods plain functions, or await instead of blocking",
            err=True,
        )

    def give_up(seconds: float) -> None:
        reason = f"{suspect} has blocked the event loop for {seconds:.0f} s, over its time-out"
        work.record_stop(reason)
        click.echo(f"memfin: {reason}; the run was stopped, {plan.after_stop}", err=True)
        os._exit(STUCK_EXIT)

    return LoopWatchdog(warn, give_up if suspect else None, config.turn_timeout + 5.0)


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


def present(summary: EvalSummary, stats: RunStats, report: Path, *, as_json: bool, quiet: bool) -> None:
    """Print what the user asked for: JSON, or the table and where the report is."""
    if as_json:
        click.echo(pretty_json(summary).decode(), nl=False)
        return
    if not quiet:
        from rich.console import Console  # noqa: PLC0415 - rich loads slowly

        from memfin.report.table import summary_table  # noqa: PLC0415 - as above

        Console().print(summary_table(summary))
        turns = sum(stats.turns_by_status.values())
        click.echo(
            f"{summary.counters.valid_dialogs} dialogues, {turns} turns in {stats.wall_seconds:.1f} s; "
            f"{turns - stats.turns_by_status.get('ok', 0)} turns failed, "
            f"{summary.counters.skipped_dialogs} lines skipped"
            + (f", {stats.judge_failures} judgements failed" if stats.judge_failures else "")
        )
    for line in stats.judge.warnings if stats.judge is not None else ():
        click.echo(f"memfin: warning: judge control: {line}", err=True)
    click.echo(f"report: {report}")
