"""``memfin bench``: ask a retrieval system the questions of a benchmark."""

import sys
from pathlib import Path
from typing import Any

import click

from memfin.cli.options import BENCH_OPTIONS, SettingsCommand, output_flags, soak_limits, with_settings
from memfin.cli.output import note, print_table
from memfin.cli.process import run_work
from memfin.cli.progress import progress_view
from memfin.cli.run import show_judge_warnings, write_reports
from memfin.cli.soak import run_soak
from memfin.contracts import RunStats
from memfin.contracts.rag import SUMMARY, RagSummary, iter_individual_results
from memfin.errors import GateFailed
from memfin.runtime.bench_gates import failed_bench_gates, not_asked, total_errors
from memfin.runtime.bench_plan import BenchPlan, make_bench_plan, make_bench_resume_plan, make_bench_soak_plan
from memfin.runtime.run import Run

MAX_NAMED = 5
"""Questions that a warning names."""

PIECE = 1 << 16
"""Bytes of the summary that are printed at a time."""


@click.command("bench", cls=SettingsCommand)
@click.argument("path", required=False, envvar="MEMFIN_BENCHMARK")
@with_settings(BENCH_OPTIONS, "bench")
@output_flags("the summary", variables=True)
def command(path: str | None, *, as_json: bool, quiet: bool, **settings: Any) -> None:
    """Ask a system the questions of PATH, a directory with questions/*.json or a file of questions.

    \b
    memfin bench
    memfin bench my_benchmark --rag mypackage.rag:create --type fact_exact
    memfin bench my_benchmark --rag https://rag.example/query --fail-under 70
    memfin bench my_benchmark --rag openai:gpt-4o-mini --fail-on-regression runs/last_week
    memfin bench my_benchmark --rag mypackage.rag:create --judge openai:gpt-4o
    memfin bench my_benchmark --rag mypackage.rag:create --duration 8h --keep-epochs 10

    Without PATH the benchmark that ships with MemFin is asked, document included. Writes the run
    directory RUNS_DIR/RUN_ID with answers, scores, summary and reports; memfin resume continues a
    run that was stopped. Settings can also be set in memfin.toml, in the table [bench].

    With --judge a model, or a judge of your own, reads every answer with the pages that bear on it, and marks
    its faithfulness and its correctness from 1 to 5; that changes no score.

    With --epochs or --duration the benchmark is soaked: every epoch is a run of its own, and
    soak_summary.json has the drift of every value, as memfin soak does for dialogues.

    Exit codes: 0 done, 1 a gate failed, 2 bad usage or input, 3 stopped by a fault,
    130 and 143 stopped by a signal.
    """
    limits = soak_limits(settings)
    if limits is not None:
        soaked = make_bench_soak_plan(path, limits=limits, **settings)
        run_soak(soaked, as_json=as_json, quiet=quiet)
        return
    plan = make_bench_plan(path, **settings)
    carry_out(plan, as_json=as_json, quiet=quiet)


def resume(run_dir: Path, *, force: bool, retry_failed: bool, as_json: bool, quiet: bool) -> None:
    """Continue the benchmark run in a directory, for ``memfin resume``."""
    plan = make_bench_resume_plan(run_dir, force=force, retry_failed=retry_failed)
    carry_out(plan, as_json=as_json, quiet=quiet)


def carry_out(plan: BenchPlan, *, as_json: bool, quiet: bool) -> None:
    """Run the plan to its end, write the reports, print the results, and apply the gates.

    Raises:
        GateFailed: the run is complete, but a gate does not hold.
    """
    directory = plan.directory.absolute()
    with progress_view("rag", quiet=quiet) as view:
        run = Run(plan, view.on_event)
        run_work(run, plan)
    summary, stats = run.summary, run.stats
    assert summary is not None and stats is not None  # noqa: S101, PT018 - what a run's end means
    report = write_reports(directory) and plan.directory / "report.html"
    _show_warnings(summary, directory, stats, plan)
    if as_json:
        _print_json(directory)
    else:
        _present(summary, stats, report, quiet=quiet)
    failed = failed_bench_gates(summary, directory, stats, plan.config, plan.before)
    sys.stdout.flush()
    if failed:
        raise GateFailed("; ".join(failed))


def _show_warnings(summary: RagSummary, directory: Path, stats: RunStats, plan: BenchPlan) -> None:
    """Print what the figures do not show by themselves."""
    failed, total = total_errors(stats), summary.total_tests
    if 2 * failed > total:
        listed = iter_individual_results(directory / SUMMARY)
        first = next(one.error for one in listed if one.error is not None)
        line = f"the system failed on {failed} of {total} questions; the first time: {first}"
        note(f"warning: {line}")
    show_judge_warnings(stats, "answers")
    if gone := not_asked(directory, plan.before):
        named = ", ".join(gone[:MAX_NAMED]) + (", ..." if len(gone) > MAX_NAMED else "")
        line = f"{len(gone)} fact questions that were right before are not asked now: {named}"
        note(f"warning: --fail-on-regression: {line}")


def _print_json(directory: Path) -> None:
    """Print the summary as its file has it, piece by piece."""
    with (directory / SUMMARY).open("rb") as file:
        while piece := file.read(PIECE):
            click.echo(piece, nl=False)


def _present(summary: RagSummary, stats: RunStats, report: Path, *, quiet: bool) -> None:
    """Print the table and where the report is."""
    if not quiet:
        from memfin.report.tables import judge_line, rag_table  # noqa: PLC0415 - rich loads slowly

        print_table(rag_table(summary))
        click.echo(
            f"{summary.passed_tests} of {summary.total_tests} questions passed, "
            f"{summary.overall_percentage:.1f} % of the score, in {stats.wall_seconds:.1f} s; "
            f"the system failed on {total_errors(stats)}"
        )
        if line := judge_line(summary):
            click.echo(line)
    click.echo(f"report: {report}")
