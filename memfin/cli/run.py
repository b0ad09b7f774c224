"""``memfin run``: evaluate an agent on a dataset."""

import sys
from pathlib import Path
from typing import Any

import click

from memfin.actors.base import utc_now
from memfin.cli.failures import TurnFailures
from memfin.cli.options import fail_under_gates, run_options
from memfin.cli.progress import ProgressView, progress_view
from memfin.cli.working import work_to_end
from memfin.contracts import EvalSummary, ProgressEvent, RunConfig, RunStats, Warned
from memfin.errors import GateFailed, RunFault
from memfin.judges.stats import judge_warnings
from memfin.runtime.gates import failed_gates
from memfin.runtime.outputs import pretty_json
from memfin.runtime.plan import DialogPlan, make_plan
from memfin.runtime.run import Run
from memfin.sandbox.references import one_line


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
    carry_out(plan, as_json=as_json, quiet=quiet)


def carry_out(plan: DialogPlan, *, as_json: bool, quiet: bool) -> None:
    """Run the plan to its end, write the reports, print what the user asked for, and hold the gates.

    Raises:
        UsageError: the run is complete, but no agent could be created in any dialogue.
        GateFailed: the run is complete, but a gate does not hold.
    """
    directory = plan.directory.absolute()
    with progress_view(quiet=quiet) as view:
        run = run_to_end(plan, view)
    summary, stats = results(run)
    report = write_reports(directory) and plan.directory / "report.html"
    present(summary, stats, report, plan.config, as_json=as_json, quiet=quiet)
    config = plan.config
    gates = failed_gates(summary, stats, config.fail_under, config.fail_on_error, config.fail_on_judge_error)
    sys.stdout.flush()
    if run.no_agent is not None:
        raise run.no_agent
    if gates:
        raise GateFailed("; ".join(gates))


def run_to_end(plan: DialogPlan, view: ProgressView) -> Run[EvalSummary]:
    """Run the plan in a loop of its own; a signal ends it early, with exit code 130 or 143.

    When more than half of the turns failed, the view is told the most frequent reason.
    """
    failures = TurnFailures()

    def watch(event: ProgressEvent) -> None:
        failures.count(event)
        view.show(event)

    run = Run(plan, watch)
    work_to_end(run, plan)
    if (line := failures.line()) is not None:
        view.show(Warned(ts=utc_now(), run_id=plan.run_id, message=line))
    return run


def results(run: Run[EvalSummary]) -> tuple[EvalSummary, RunStats]:
    """Return the summary and the statistics of a complete run."""
    assert run.summary is not None and run.stats is not None  # noqa: S101, PT018 - what a run's end means
    return run.summary, run.stats


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


def present(
    summary: EvalSummary, stats: RunStats, report: Path, config: RunConfig, *, as_json: bool, quiet: bool
) -> None:
    """Print what the user asked for: JSON, or the table and where the report is; and what to beware of."""
    for line in judge_warnings(
        stats.judged_turns,
        stats.judge_failures,
        stats.judge_declined,
        stats.judge_failure_reasons,
        config.judge_scope,
    ):
        click.echo(f"memfin: warning: judge: {one_line(line)}", err=True)
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
    click.echo(f"report: {report}")
