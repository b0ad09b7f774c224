"""``memfin bench``, questions of a benchmark to a retrieval system, and ``memfin resume`` of any run."""

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from memfin.cli import run
from memfin.cli.ci import Case, CiOutput, Outcome, with_ci
from memfin.cli.engine import run_engine
from memfin.cli.options import (
    BENCH_OPTIONS,
    NO_ENGINE,
    SettingsCommand,
    output_flags,
    soak_limits,
    with_language,
    with_options,
    with_settings,
)
from memfin.cli.output import note, print_table, progress_view, write_reports
from memfin.cli.process import run_work
from memfin.cli.soak import run_soak
from memfin.contracts import RunStats, many_failed
from memfin.contracts.rag import SUMMARY, RagSummary, iter_individual_results
from memfin.errors import GateFailed, UsageError
from memfin.language import tr
from memfin.runtime.bench_gates import PERCENTAGE, failed_bench_gates, not_asked, score_interval, total_errors
from memfin.runtime.bench_plan import (
    BenchPlan,
    make_bench_plan,
    make_bench_resume_plan,
    make_bench_soak_plan,
    make_bench_soak_resume_plan,
)
from memfin.runtime.gates import GatedValue
from memfin.runtime.resume import is_bench, make_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.soak_directory import is_soak, read_summary
from memfin.runtime.soak_plan import make_soak_resume_plan
from memfin.sandbox.references import one_line
from memfin.scale.plan import is_engine_run, make_engine_resume_plan

MAX_NAMED = 5
"""Questions that a warning names."""


def _refuse_agent(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del ctx, param
    if value is not None:
        raise UsageError(
            f"--agent: a benchmark asks a retrieval system; name it with --rag {one_line(value)}"
        )


@click.command("bench", cls=SettingsCommand)
@click.argument("path", required=False, envvar="MEMFIN_BENCHMARK")
@with_settings(BENCH_OPTIONS, "bench")
@with_options(NO_ENGINE)
@click.option("--agent", hidden=True, expose_value=False, callback=_refuse_agent)
@output_flags("the summary", variables=True)
@with_language(variable=True)
@with_ci(variables=True)
def command(path: str | None, *, as_json: bool, quiet: bool, ci: CiOutput, **settings: Any) -> None:
    """Ask a system the questions of PATH, a directory with questions/*.json or a file of questions.

    \b
    memfin bench
    memfin bench my_benchmark --rag mypackage.rag:create --type fact_exact
    memfin bench my_benchmark --rag https://rag.example/query --fail-under 70
    memfin bench my_benchmark --rag openai:gpt-4o-mini --fail-on-regression runs/last_week
    memfin bench my_benchmark --rag mypackage.rag:create --judge openai:gpt-4o
    memfin bench my_benchmark --rag mypackage.rag:create --duration 8h --keep-epochs 10
    memfin bench my_benchmark --rag openai:gpt-4o-mini --repeats 5

    Without PATH the benchmark that ships with MemFin is asked, document included. Writes the run
    directory RUNS_DIR/RUN_ID with answers, scores, summary and reports; memfin resume continues a
    run that was stopped. Settings can also be set in memfin.toml, in the table [bench].

    With --judge a model, or a judge of your own, reads every answer with the pages that bear on it, and marks
    its faithfulness and its correctness from 1 to 5; that changes no score.

    With --epochs or --duration the benchmark is soaked: every epoch is a run of its own, and
    soak_summary.json has the drift of every value, as memfin soak does for dialogues. With --repeats K
    the seed is another in each of K epochs, and soak_summary.json has pass^k, too.

    Exit codes: 0 done, 1 a gate failed, 2 bad usage or input, 3 stopped by a fault,
    130 and 143 stopped by a signal.
    """
    limits = soak_limits(settings)
    if limits is not None:
        soaked = make_bench_soak_plan(path, limits=limits, **settings)
        run_soak(soaked, as_json=as_json, quiet=quiet, ci=ci)
        return
    plan = make_bench_plan(path, **settings)
    carry_out(plan, as_json=as_json, quiet=quiet, ci=ci)


@click.command("resume")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option(
    "--force",
    is_flag=True,
    help="Continue although the dataset, agent, judge, lexicon or MemFin has changed; the manifest notes it.",
)
@click.option(
    "--retry-failed",
    is_flag=True,
    help="Repeat failed and partial dialogues, failed judgements, and questions that the system failed on.",
)
@click.option("--metrics-port", type=int, metavar="PORT", help="Port for the Prometheus metrics of a soak.")
@output_flags("the metrics summary")
@with_language()
@with_ci()
def resume(
    run_dir: Path,
    *,
    force: bool,
    retry_failed: bool,
    metrics_port: int | None,
    as_json: bool,
    quiet: bool,
    ci: CiOutput,
) -> None:
    """Continue the run, the benchmark or the soak in RUN_DIR where it stopped.

    \b
    memfin resume runs/20260219_101855_ab12cd
    memfin resume runs/20260219_101855_ab12cd --retry-failed
    memfin resume runs/20260219_101855_ab12cd.shards

    Whatever ended the run, committed replays are not asked again and committed judgements not made
    again; the metrics are those of a run that was never interrupted. Settings are the run's own, and
    relative paths in them start from the current directory. Exit codes are those of run.

    The agent and the judge that RUN_DIR names are imported and run: resume what you or people you trust
    began.
    """
    if is_soak(run_dir):
        if retry_failed:
            raise UsageError(
                "--retry-failed: only for runs; a soak counts its failures, and each of its epochs is a run"
            )
        make = make_bench_soak_resume_plan if read_summary(run_dir).suite == "rag" else make_soak_resume_plan
        run_soak(make(run_dir, force=force, metrics_port=metrics_port), as_json=as_json, quiet=quiet, ci=ci)
        return
    if metrics_port is not None:
        raise UsageError(f"--metrics-port: only for soaks; {run_dir} is not one")
    if is_engine_run(run_dir):
        shards = make_engine_resume_plan(run_dir, force=force, retry_failed=retry_failed)
        run.show_results(run_engine(shards, quiet=quiet), as_json=as_json, quiet=quiet, ci=ci)
        return
    if is_bench(run_dir):
        bench = make_bench_resume_plan(run_dir, force=force, retry_failed=retry_failed)
        carry_out(bench, as_json=as_json, quiet=quiet, ci=ci)
        return
    plan = make_resume_plan(run_dir, force=force, retry_failed=retry_failed)
    run.carry_out(plan, as_json=as_json, quiet=quiet, ci=ci)


def carry_out(plan: BenchPlan, *, as_json: bool, quiet: bool, ci: CiOutput) -> None:
    """Run the plan to its end, write the reports, print the results, and apply the gates.

    Raises:
        GateFailed: the run is complete, but a gate does not hold.
    """
    directory = plan.directory.absolute()
    with progress_view("rag", quiet=quiet) as view:
        asked = Run(plan, view.on_event)
        run_work(asked, plan, view)
    summary, stats = run.results(asked)
    report = write_reports(directory) and plan.directory / "report.html"
    warning = _show_warnings(summary, directory, stats, plan)
    if as_json:
        with (directory / SUMMARY).open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    else:
        _present(summary, stats, report, quiet=quiet)
    failed = failed_bench_gates(summary, directory, stats, plan.config, plan.before)
    sys.stdout.flush()
    if ci.wanted:
        values = {PERCENTAGE: GatedValue(summary.overall_percentage, score_interval(summary.ci95))}
        cases = (Case(one.id, failed=one.error) for one in iter_individual_results(directory / SUMMARY))
        dataset, kind = plan.dataset_path, "question"
        ci.show(Outcome(plan.run_id, plan.config, dataset, values, failed, warning, kind, cases))
    if failed:
        raise GateFailed("; ".join(failed))


def _show_warnings(summary: RagSummary, directory: Path, stats: RunStats, plan: BenchPlan) -> str | None:
    """Print what the figures do not show by themselves; return the warning about failed questions."""
    failed, total = total_errors(stats), summary.total_tests
    warning = None
    if many_failed(failed, total):
        listed = iter_individual_results(directory / SUMMARY)
        first = next(one.error for one in listed if one.error is not None)
        warning = f"the system failed on {failed} of {total} questions; the first time: {first}"
        note(f"warning: {warning}")
    run.show_judge_warnings(stats, "answers")
    if gone := not_asked(directory, plan.before):
        named = ", ".join(gone[:MAX_NAMED]) + (", ..." if len(gone) > MAX_NAMED else "")
        line = f"{len(gone)} fact questions that were right before are not asked now: {named}"
        note(f"warning: --fail-on-regression: {line}")
    return warning


def _present(summary: RagSummary, stats: RunStats, report: Path, *, quiet: bool) -> None:
    """Print the table and where the report is."""
    if not quiet:
        from memfin.report.tables import baseline_lines, judge_line, rag_table  # noqa: PLC0415 - rich loads slowly

        print_table(rag_table(summary))
        click.echo(
            tr(
                "{passed} of {total} questions passed, {share:.1f} % of the score, in {seconds:.1f} s; "
                "the system failed on {failed}",
                passed=summary.passed_tests,
                total=summary.total_tests,
                share=summary.overall_percentage,
                seconds=stats.wall_seconds,
                failed=total_errors(stats),
            )
        )
        for baseline in baseline_lines(summary):
            click.echo(baseline)
        if line := judge_line(summary):
            click.echo(line)
    click.echo(tr("report: {path}", path=report))
