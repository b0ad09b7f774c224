"""``memfin bench``: ask a retrieval system the questions of a benchmark."""

import sys
from pathlib import Path
from typing import Any

import click

from memfin.cli.bench_options import bench_options, gates
from memfin.cli.bench_view import QuestionStanding
from memfin.cli.progress import progress_view
from memfin.cli.run import write_reports
from memfin.cli.soak import soak_to_end
from memfin.cli.soak_options import soak_limits, soak_options
from memfin.cli.working import work_to_end
from memfin.contracts import RunStats
from memfin.contracts.rag import RagSummary
from memfin.contracts.rag_summary import SUMMARY, iter_individual_results
from memfin.errors import GateFailed
from memfin.judges.stats import judge_warnings
from memfin.runtime.bench import make_bench_resume_plan
from memfin.runtime.bench_gates import failed_bench_gates, not_asked, total_errors
from memfin.runtime.bench_plan import BenchPlan, make_bench_plan
from memfin.runtime.run import Run
from memfin.runtime.soak_bench import make_bench_soak_plan
from memfin.sandbox.references import one_line

MOST_NAMED = 5
"""Questions that a warning names."""

PIECE = 1 << 16
"""Bytes of the summary that are printed at a time."""


@click.command("bench", short_help="Ask a retrieval system the questions of a benchmark.")
@click.argument("path", required=False, envvar="MEMFIN_BENCHMARK")
@bench_options
@soak_options("MEMFIN_BENCH", "Ask all of it again and again. ")
@click.option(
    "--json", "as_json", is_flag=True, envvar="MEMFIN_JSON", help="Print the summary as JSON on stdout."
)
@click.option("--quiet", is_flag=True, envvar="MEMFIN_QUIET", help="No progress and no table.")
def command(
    path: str | None, *, fail_under: float | None, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Ask a system the questions of PATH, a directory with questions/*.json or a file of questions.

    \b
    memfin bench
    memfin bench my_benchmark --rag mypackage.rag:create --type fact_exact
    memfin bench my_benchmark --rag https://rag.example/query --fail-under 70
    memfin bench my_benchmark --rag openai:gpt-4o-mini --fail-on-regression runs/last_week
    memfin bench my_benchmark --rag mypackage.rag:create --judge openai:gpt-4o
    memfin bench my_benchmark --rag mypackage.rag:create --duration 8h --keep-epochs 10

    Without PATH the benchmark that ships with MemFin is asked, document included. Writes the run
    directory RUNS_DIR/RUN_ID with answers, scores, summary and reports; memfin resume goes on with a
    run that was stopped. Settings may also stand in memfin.toml, in the table [bench].

    With --judge a model, or a judge of your own, reads every answer with the pages that bear on it, and marks
    its faithfulness and its correctness from 1 to 5; that changes no score.

    With --epochs or --duration the benchmark is soaked: every epoch is a run of its own, and
    soak_summary.json has the drift of every value, as memfin soak does for dialogues.

    Exit codes: 0 done, 1 a gate failed, 2 bad usage or input, 3 stopped by a fault,
    130 and 143 stopped by a signal.
    """
    limits = soak_limits(settings)
    if limits is not None:
        soaked = make_bench_soak_plan(path, limits=limits, fail_under=gates(fail_under), **settings)
        soak_to_end(soaked, as_json=as_json, quiet=quiet)
        return
    plan = make_bench_plan(path, fail_under=gates(fail_under), **settings)
    carry_out(plan, as_json=as_json, quiet=quiet)


def resume(run_dir: Path, *, force: bool, retry_failed: bool, as_json: bool, quiet: bool) -> None:
    """Go on with the benchmark run in a directory; what ``memfin resume`` does with one."""
    plan = make_bench_resume_plan(run_dir, force=force, retry_failed=retry_failed)
    carry_out(plan, as_json=as_json, quiet=quiet)


def carry_out(plan: BenchPlan, *, as_json: bool, quiet: bool) -> None:
    """Run the plan to its end, write the reports, print what the user asked for, and hold the gates.

    Raises:
        GateFailed: the run is complete, but a gate does not hold.
    """
    directory = plan.directory.absolute()
    with progress_view(quiet=quiet, standing=QuestionStanding()) as view:
        run = Run(plan, view.show)
        work_to_end(run, plan)
    summary, stats = run.summary, run.stats
    assert summary is not None and stats is not None  # noqa: S101, PT018 - what a run's end means
    report = write_reports(directory) and plan.directory / "report.html"
    _beware(summary, directory, stats, plan)
    if as_json:
        _print_json(directory)
    else:
        _present(summary, stats, report, quiet=quiet)
    failed = failed_bench_gates(summary, directory, stats, plan.config, plan.before)
    sys.stdout.flush()
    if failed:
        raise GateFailed("; ".join(failed))


def _beware(summary: RagSummary, directory: Path, stats: RunStats, plan: BenchPlan) -> None:
    """Tell what the figures do not show by themselves."""
    failed, total = total_errors(stats), summary.total_tests
    if 2 * failed > total:
        listed = iter_individual_results(directory / SUMMARY)
        first = next(one.error for one in listed if one.error is not None)
        line = f"the system failed on {failed} of {total} questions; the first time: {first}"
        click.echo(one_line(f"memfin: warning: {line}"), err=True)
    for line in judge_warnings(
        stats.judged_turns,
        stats.judge_failures,
        stats.judge_declined,
        stats.judge_failure_reasons,
        "answers",
    ):
        click.echo(f"memfin: warning: judge: {one_line(line)}", err=True)
    if gone := not_asked(directory, plan.before):
        named = ", ".join(gone[:MOST_NAMED]) + (", ..." if len(gone) > MOST_NAMED else "")
        line = f"{len(gone)} fact questions that were right before are not asked now: {named}"
        click.echo(one_line(f"memfin: warning: --fail-on-regression: {line}"), err=True)


def _print_json(directory: Path) -> None:
    """Print the summary as its file has it, piece by piece."""
    with (directory / SUMMARY).open("rb") as file:
        while piece := file.read(PIECE):
            click.echo(piece, nl=False)


def _present(summary: RagSummary, stats: RunStats, report: Path, *, quiet: bool) -> None:
    """Print the table and where the report is."""
    if not quiet:
        from rich.console import Console  # noqa: PLC0415 - rich loads slowly

        from memfin.report.rag.table import judge_line, rag_table  # noqa: PLC0415 - as above

        Console().print(rag_table(summary))
        click.echo(
            f"{summary.passed_tests} of {summary.total_tests} questions passed, "
            f"{summary.overall_percentage:.1f} % of the score, in {stats.wall_seconds:.1f} s; "
            f"the system failed on {total_errors(stats)}"
        )
        if line := judge_line(summary):
            click.echo(line)
    click.echo(f"report: {report}")
