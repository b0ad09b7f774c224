"""``memfin run``, ``score`` and ``report``: runs of an agent on a dataset."""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import click
import msgspec

from memfin.cli.ci import Case, CiOutput, Outcome, with_ci
from memfin.cli.engine import engine_settings, run_engine
from memfin.cli.options import (
    ENGINE_OPTIONS,
    FLAGS,
    REPEATS,
    RUN_OPTIONS,
    UPLOAD,
    SettingsCommand,
    config_option,
    output_flags,
    read_config,
    setting_options,
    soak_limits,
    with_language,
    with_options,
    with_settings,
)
from memfin.cli.output import (
    corrected_summary,
    note,
    print_table,
    progress_view,
    write_reports,
)
from memfin.cli.process import run_work
from memfin.cli.soak import run_soak
from memfin.cli.upload import finish_upload
from memfin.contracts import (
    ConfigFile,
    EvalSummary,
    JudgeScope,
    MetricResult,
    Record,
    RunConfig,
    RunStats,
    many_failed,
)
from memfin.contracts.reading import read_json
from memfin.errors import GateFailed, UsageError
from memfin.judges.stats import OTHERS, JudgedTurns, judge_warnings
from memfin.language import marked, tr, tr_counted
from memfin.runtime.gates import (
    custom_directions,
    failed_gates,
    gated_values,
    gates_of,
    judge_gates_failed_by,
    summary_values,
    value_directions,
    value_gates,
)
from memfin.runtime.outputs import pretty_json
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.runtime.soak_plan import make_soak_plan
from memfin.sandbox.references import one_line
from memfin.scale.plan import make_engine_plan
from memfin.scale.upload import check_target

S = TypeVar("S", bound=Record)
_TURNS: Final = marked("1 turn"), marked("{count:,} turns")


SCORE_OPTIONS: Final = setting_options(
    RunConfig,
    ("fail_under", "fail_over", "gate", "fail_on_judge_error", "history", "seed", "turn_timeout"),
    groups=("Judge", "Scoring"),
    history={
        "default": None,
        "help": "History mode of the recorded run.  [default: that of its files, or free]",
        "extra": {"group": "Evaluation", "variable": None},
    },
)
"""Settings of a run that scoring has, too; what the recorded run was comes from flags alone."""


def _read_score_config(path: Path) -> dict[str, Any]:
    names = {*(option.name for option in SCORE_OPTIONS), *FLAGS.values(), "lang"} - {"history"}
    return {name: value for name, value in read_config(path).items() if name in names}


@click.command("run", cls=SettingsCommand)
@click.argument("dataset", required=False, envvar="MEMFIN_DATASET")
@with_settings((*RUN_OPTIONS, *REPEATS, *ENGINE_OPTIONS, *UPLOAD), "run")
@output_flags("the metrics summary", variables=True)
@with_language(variable=True)
@with_ci(variables=True)
def command(
    dataset: str | None, *, upload: str | None, as_json: bool, quiet: bool, ci: CiOutput, **settings: Any
) -> None:
    """Evaluate an agent on DATASET, a JSONL file of dialogues or a plugin; by default on the sample.

    \b
    memfin run
    memfin run my_dialogs.jsonl --agent mypackage.agent:create --workers-dialog 16
    memfin run --agent oracle --fail-under m3_risk_coverage.risk_coverage=0.8
    memfin run my_dialogs.jsonl --agent openai:gpt-4o-mini --agent-temperature 1 --repeats 5
    memfin run my_dialogs.jsonl --engine processes --engine-workers 8

    Writes the run directory RUNS_DIR/RUN_ID with the traces, rows, metrics and reports. Every
    option can also be set in memfin.toml (with _ for -) or in a variable MEMFIN_OPTION.

    With --repeats the directory is that of a soak: RUNS_DIR/RUN_ID/epochs has a run for each repeat,
    soak_summary.json the means of all values and pass^k. Gates are for all repeats together.

    With --engine the dataset is divided into shards, RUNS_DIR/RUN_ID.shards, which workers evaluate at the
    same time; the results are those of a single process. memfin resume RUNS_DIR/RUN_ID.shards continues
    shards that were stopped or whose workers failed.

    Exit codes: 0 done, 1 a gate failed, 2 bad usage or input, 3 stopped by a fault,
    130 and 143 stopped by a signal.
    """
    limits = soak_limits(settings)
    engine = engine_settings(settings)
    if engine is not None:
        if limits is not None:
            raise UsageError(f"--repeats: not together with --engine {engine.engine}; give one of them")
        shards = make_engine_plan(dataset, engine, **settings)
        if upload is not None:
            check_target(upload, shards.out)
        show_results(run_engine(shards, quiet=quiet), as_json=as_json, quiet=quiet, ci=ci, upload=upload)
        return
    if limits is not None:
        if upload is not None:
            raise UsageError("--upload: not together with --repeats; memfin upload takes single repeats")
        repeated = make_soak_plan(dataset, limits=limits, **settings)
        run_soak(repeated, as_json=as_json, quiet=quiet, ci=ci)
        return
    plan = make_plan(dataset, **settings)
    if upload is not None:
        if plan.shard is not None:
            raise UsageError(f"--upload: not for shard {plan.shard}; give it to memfin merge")
        check_target(upload, plan.directory)
    carry_out(plan, as_json=as_json, quiet=quiet, ci=ci, upload=upload)


@click.command("score", cls=SettingsCommand)
@click.argument("dialog_trace", type=click.Path(path_type=Path))
@click.option(
    "--dataset",
    type=click.Path(path_type=Path),
    help="The dataset that was replayed.  [default: none; what needs its labels is not measured]",
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Directory to create for the result."
)
@with_options(*SCORE_OPTIONS, config_option(_read_score_config))
@output_flags("the metrics summary", variables=True)
@with_language(variable=True)
@with_ci()
def score(
    dialog_trace: Path,
    dataset: Path | None,
    out: Path,
    *,
    as_json: bool,
    quiet: bool,
    ci: CiOutput,
    **settings: Any,
) -> None:
    """Rebuild turn_eval.jsonl and the metrics from DIALOG_TRACE.

    \b
    memfin score runs/my_run/dialog_trace.jsonl --dataset my_dialogs.jsonl --out rescored
    memfin score imported.jsonl --out scored

    The directory gets everything that a run writes, so that it can be reported and compared, and the
    labels.jsonl beside the trace. Judge, rules, metrics, detectors and gates can also be set in memfin.toml
    or in variables, as for memfin run.
    """
    try:
        plan = make_rescore_plan(dialog_trace, dataset, out, **settings)
    except OSError as problem:
        raise UsageError(f"{problem.filename or dialog_trace}: {problem.strerror or problem}") from problem
    if not plan.history_known:
        note(
            "warning: nothing says which history mode the trace was made with; "
            "free is assumed; pass --history forced if it was that"
        )
    with progress_view(quiet=quiet, judge=plan.config.judge) as view:
        run = Run(plan, view.on_event)
        run_work(run, plan, view)
    summary, stats = results(run)
    warning, _ = _failures(plan.directory, stats)
    if (labels := dialog_trace.with_name("labels.jsonl")).is_file():
        shutil.copyfile(labels, plan.directory / labels.name)
    summary = corrected_summary(plan.directory) or summary
    present(summary, stats, write_reports(plan.directory), plan.config, as_json=as_json, quiet=quiet)
    sys.stdout.flush()
    config, directions = plan.config, value_directions(custom_directions(summary.metrics))
    gates = [
        *value_gates(gates_of(config, directions), summary_values(summary, plan.directory)),
        *judge_gates_failed_by(stats.judged_turns, stats.judge_failures, config.fail_on_judge_error),
    ]
    ci.show(_outcome(config, summary, gates, warning, plan.directory))
    if gates:
        raise GateFailed("; ".join(gates))


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@with_language()
def report(run_dir: Path) -> None:
    """Write report.md and report.html into a run directory or a soak's and print their paths.

    \b
    memfin report runs/20260217_210500_abc123

    A soak's report shows what changed over its epochs; it can be written while the soak runs. The
    HTML file is self-contained: it needs no network and no other file. The same run gives the same bytes;
    reports that exist are replaced. The rates of a run with labels.jsonl are corrected first.
    """
    from memfin.report import write_reports as write  # noqa: PLC0415 - templates and charts load slowly

    if (run_dir / "metrics_summary.json").is_file():
        corrected_summary(run_dir)
    for path in write(run_dir):
        click.echo(path)


def carry_out(plan: RunPlan, *, as_json: bool, quiet: bool, ci: CiOutput, upload: str | None = None) -> None:
    """Run the plan to its end, write the reports, print the results, upload the run, and apply the gates.

    Raises:
        UsageError: the run is complete, but no agent could be created in any dialogue.
        GateFailed: the run is complete, but a gate does not hold.
        RunFault: the run is complete, but was not uploaded.
    """
    directory = plan.directory.absolute()  # an agent may change the working directory
    with progress_view(quiet=quiet, judge=plan.config.judge) as view:
        run_work(Run(plan, view.on_event), plan, view)
    show_results(directory, plan.directory, as_json=as_json, quiet=quiet, ci=ci, upload=upload)


def show_results(
    directory: Path,
    shown: Path | None = None,
    *,
    as_json: bool,
    quiet: bool,
    ci: CiOutput,
    upload: str | None = None,
) -> None:
    """Write the reports of a complete run, print its results, upload it, and apply its gates.

    ``shown`` is the directory as it is printed. A shard has no gates: they are for the merged run.

    Raises:
        UsageError: no agent could be created in any dialogue.
        GateFailed: a gate of its settings does not hold.
        RunFault: it was not uploaded.
    """
    shown = shown or directory
    config = read_json(directory / "config.json", ConfigFile).settings
    stats = read_json(directory / "run_stats.json", RunStats)
    corrected = corrected_summary(directory)
    warning, no_agent = _failures(directory, stats)
    report = write_reports(directory) and shown / "report.html"
    # Read after the reports are written: values by dialogue and reports are what is large in a large run.
    kind = EvalSummary if as_json else _Headline
    summary = corrected or read_json(directory / "metrics_summary.json", kind)
    present(summary, stats, report, config, as_json=as_json, quiet=quiet)
    gates: list[str] = []
    if config.shard is None:
        bounds = gates_of(config, value_directions(custom_directions(summary.metrics)))
        limits = config.fail_on_error, config.fail_on_judge_error
        gates = failed_gates(summary, stats, bounds, *limits, directory)
    sys.stdout.flush()
    ci.show(_outcome(config, summary, gates, warning, directory))
    if no_agent is not None and config.shard is None:
        raise UsageError(
            f"agent {config.agent!r}: no turn of the {summary.counters.valid_dialogs} dialogues was "
            f"answered: {no_agent}; {shown} holds the records"
        )
    finish_upload(shown, upload, gates, quiet=quiet)
    if gates:
        raise GateFailed("; ".join(gates))


class _HeadlineMetric(MetricResult, kw_only=True):
    by_dialog: dict[str, dict[str, float]] = msgspec.field(default_factory=dict, name="(not read)")


class _Headline(EvalSummary, kw_only=True):
    """A summary whose values by dialogue are not read: only JSON shows them."""

    metrics: dict[str, _HeadlineMetric]  # type: ignore[assignment]


def _failures(directory: Path, stats: RunStats) -> tuple[str | None, str | None]:
    """Print the warning about failed turns; return it, and the error of a run that got no agent."""
    total = sum(stats.turns_by_status.values())
    if not many_failed(total - stats.turns_by_status.get("ok", 0), total):
        return None, None
    from memfin.report.reader import TRACES, ScannedDialog, scan  # noqa: PLC0415 - as above

    turns, valid, without = JudgedTurns(), 0, 0
    creation_error: str | None = None
    for dialog in scan(directory / TRACES, ScannedDialog):
        valid += dialog.valid_dialog
        if dialog.dialog_status == "failed" and dialog.dialog_error is not None:
            without += 1
            creation_error = creation_error or dialog.dialog_error
        for turn in dialog.turns:
            turns.count(None if turn.outcome == "ok" else turn.error or turn.outcome)
    warning = failure_line(stats.turns_by_status, turns)
    if warning is not None:
        note(f"warning: {warning}")
    return warning, creation_error if without == valid else None


def _outcome(
    config: RunConfig, summary: EvalSummary, gates: Sequence[str], warning: str | None, directory: Path
) -> Outcome:
    """Return the results for a CI server."""
    values, cases = gated_values(summary.metrics), dialog_cases(directory)
    run_id = str(config.run_id)
    return Outcome(run_id, config, summary.dataset_path, values, gates, warning, "dialogue", cases)


def dialog_cases(run_dir: Path) -> Iterator[Case]:
    """Yield the dialogues of a run for a CI server; one with a failed turn has failed."""
    from memfin.report.reader import TRACES, ScannedDialog, scan  # noqa: PLC0415 - loads slowly

    for dialog in scan(run_dir / TRACES, ScannedDialog):
        if not dialog.valid_dialog:
            reasons = filter(None, (dialog.skip_reason, dialog.dialog_error))
            yield Case(dialog.dialog_id, skipped=": ".join(reasons))
            continue
        failed = [turn for turn in dialog.turns if turn.outcome != "ok"]
        problem = dialog.dialog_error
        if failed:
            more = f"; {len(failed) - 1} more turns failed" if len(failed) > 1 else ""
            problem = f"turn {failed[0].turn_pair_id}: {failed[0].error or failed[0].outcome}{more}"
        yield Case(dialog.dialog_id, sum(turn.latency_ms or 0.0 for turn in dialog.turns) / 1000, problem)


def failure_line(turns_by_status: Mapping[str, int], turns: JudgedTurns) -> str | None:
    """Return a warning when many turns failed, with the most frequent reason."""
    total = sum(turns_by_status.values())
    failed = total - turns_by_status.get("ok", 0)
    if not many_failed(failed, total):
        return None
    text, times = next((item for item in turns.reasons().items() if item[0] != OTHERS), ("", 0))
    reason = f"; the most frequent reason, {times} times: {text}" if times else ""
    return one_line(f"{failed} of {total} turns failed{reason}")


def results(run: Run[S]) -> tuple[S, RunStats]:
    """Return the summary and the statistics of a complete run."""
    assert run.summary is not None and run.stats is not None  # noqa: S101, PT018 - what a run's end means
    return run.summary, run.stats


def present(
    summary: EvalSummary, stats: RunStats, report: Path, config: RunConfig, *, as_json: bool, quiet: bool
) -> None:
    """Print warnings, and JSON or the table with the path of the report."""
    show_judge_warnings(stats, config.judge_scope)
    if as_json:
        click.echo(pretty_json(summary).decode(), nl=False)
        return
    if not quiet:
        from memfin.report.pressure import pressure_lines  # noqa: PLC0415 - with the next
        from memfin.report.tables import corrected_lines, detector_lines, summary_table  # noqa: PLC0415 - rich loads slowly

        print_table(summary_table(summary, config))
        lines = (*detector_lines(summary), *corrected_lines(summary), *pressure_lines(report.parent))
        for line in lines:
            click.echo(line)
        turns, counters = sum(stats.turns_by_status.values()), summary.counters
        line = tr(
            "{dialogs}, {turns} in {seconds:.1f} s; {failed} failed, {skipped} skipped",
            dialogs=tr_counted(counters.valid_dialogs, marked("1 dialogue"), marked("{count:,} dialogues")),
            turns=tr_counted(turns, *_TURNS),
            seconds=stats.wall_seconds,
            failed=tr_counted(turns - stats.turns_by_status.get("ok", 0), *_TURNS),
            skipped=tr_counted(counters.skipped_dialogs, marked("1 line"), marked("{count:,} lines")),
        )
        if stats.judge_failures:
            one, many = marked(", 1 judgement failed"), marked(", {count:,} judgements failed")
            line += tr_counted(stats.judge_failures, one, many)
        click.echo(line)
    click.echo(tr("report: {path}", path=report))
    if config.shard is not None and not quiet:
        shards = report.parent.parent
        click.echo(
            tr(
                "shard {shard} is complete; once all are: memfin merge {shards}",
                shard=config.shard,
                shards=shards,
            )
        )


def show_judge_warnings(stats: RunStats, scope: JudgeScope | Literal["answers"]) -> None:
    """Print what the figures of a judge do not show."""
    for line in judge_warnings(stats, scope):
        note(f"warning: judge: {line}")
