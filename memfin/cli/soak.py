"""``memfin soak``: evaluate again and again, and see what drifts."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from memfin.cli.ci import Case, CiOutput, Outcome, with_ci
from memfin.cli.options import (
    NO_ENGINE,
    SOAK_OPTIONS,
    SettingsCommand,
    output_flags,
    soak_limits,
    with_language,
    with_options,
    with_settings,
)
from memfin.cli.output import (
    MIB,
    UNITS,
    failed_units,
    note,
    print_table,
    progress_view,
    write_reports,
)
from memfin.cli.process import run_work
from memfin.contracts import Reliability, SoakLimits, SoakSummary
from memfin.contracts.run import Suite
from memfin.errors import GateFailed
from memfin.language import marked, tr, tr_counted
from memfin.metrics.reliability import spread
from memfin.runtime.gates import GatedValue
from memfin.runtime.outputs import pretty_json
from memfin.runtime.soak import Soak, SoakListener
from memfin.runtime.soak_directory import read_epochs
from memfin.runtime.soak_plan import SoakPlan, make_soak_plan

if TYPE_CHECKING:
    from rich.table import Table

_TURNS: Final = marked("1 turn"), marked("{count:,} turns")
_EPOCHS: Final = marked("1 epoch"), marked("{count:,} epochs")
_WHOLES: Final[dict[Suite, tuple[str, str]]] = {
    "dialog": (marked("1 dialogue"), marked("{count:,} dialogues")),
    "rag": (marked("1 question"), marked("{count:,} questions")),
}


@click.command("soak", cls=SettingsCommand)
@click.argument("dataset", required=False, envvar="MEMFIN_DATASET")
@with_settings(SOAK_OPTIONS, "soak")
@with_options(NO_ENGINE)
@output_flags("the soak's summary", variables=True)
@with_language(variable=True)
@with_ci(variables=True)
def command(dataset: str | None, *, as_json: bool, quiet: bool, ci: CiOutput, **settings: Any) -> None:
    """Evaluate an agent on DATASET epoch after epoch, until --duration or --epochs is reached.

    \b
    memfin soak --epochs 3
    memfin soak my_dialogs.jsonl --agent mypackage.agent:create --duration 8h --keep-epochs 10
    memfin soak my_dialogs.jsonl --duration 1d12h --metrics-port 9464

    Every epoch is a run of its own in RUNS_DIR/RUN_ID/epochs, with agents of its own. soak.jsonl gets a
    line when an epoch is complete; soak_summary.json has totals and the drift of every value.
    Gates are for the soak as a whole: means over the epochs, failed turns of all of them.

    Whatever stops a soak, memfin resume RUNS_DIR/RUN_ID continues it. Exit codes are those of run.
    To repeat a benchmark instead, give memfin bench --epochs or --duration.
    """
    limits = soak_limits(settings) or SoakLimits()
    run_soak(make_soak_plan(dataset, limits=limits, **settings), as_json=as_json, quiet=quiet, ci=ci)


def run_soak(plan: SoakPlan, *, as_json: bool, quiet: bool, ci: CiOutput) -> None:
    """Run a soak, show it, and apply its gates."""
    directory = plan.directory.absolute()
    with ExitStack() as stack:
        listeners: list[SoakListener] = []
        if plan.limits.metrics_port is not None:
            from memfin.runtime.soak_prometheus import SoakExporter  # noqa: PLC0415 - few soaks serve metrics

            exporter = stack.enter_context(SoakExporter(plan.limits.metrics_port))
            listeners.append(exporter)
            note(f"metrics at {exporter.address}")
        name, judge = plan.suite.name or "dialog", plan.config.judge
        view = stack.enter_context(progress_view(name, quiet=quiet, soak=True, judge=judge))
        soak = Soak(plan, [*listeners, view])
        run_work(soak, plan, view)
    summary = soak.summary
    if summary is None:
        return
    warning = failed_units(summary.suite or "dialog", summary.errors.failed_turns, summary.turns) or None
    if warning is not None:
        note(f"warning: {warning}")
    report = write_reports(directory) and plan.directory / "report.html"
    if as_json:
        click.echo(pretty_json(summary).decode(), nl=False)
    else:
        if not quiet:
            from memfin.report.soak_report import unmeasured_lines  # noqa: PLC0415 - loads slowly

            print_table(drift_table(summary))
            for line in unmeasured_lines(summary):
                click.echo(line)
            click.echo(closing_line(summary))
            if summary.reliability:
                click.echo(reliability_line(summary.reliability, summary.suite or "dialog"))
        click.echo(tr("soak: {path}", path=plan.directory / "soak_summary.json"))
        click.echo(tr("report: {path}", path=report))
    sys.stdout.flush()
    values = {name: GatedValue(drift.mean) for name, drift in summary.metrics.items()}
    config, dataset, cases = plan.config, plan.config.dataset or "built-in", epoch_cases(directory)
    ci.show(Outcome(plan.run_id, config, dataset, values, summary.gates, warning, "epoch", cases))
    if summary.gates:
        raise GateFailed("; ".join(summary.gates))


def epoch_cases(directory: Path) -> Iterator[Case]:
    """Yield the epochs of a soak for a CI server; one with a failed turn has failed."""
    for epoch in read_epochs(directory):
        failed = epoch.errors.failed_turns
        problem = f"{failed} of {epoch.turns} failed" if failed else None
        yield Case(f"epoch {epoch.epoch}", epoch.wall_seconds, problem)


def drift_table(summary: SoakSummary) -> "Table":
    """Return a table of headline values and operation over the epochs, with their trends."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - rich loads slowly
    from rich.table import Table  # noqa: PLC0415 - as above

    from memfin.report.soak_report import change_in_unit, in_unit, trends  # noqa: PLC0415 - as above

    title = tr("{run_id}: {epochs}", run_id=summary.run_id, epochs=tr_counted(summary.epochs, *_EPOCHS))
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(tr("value"), min_width=26)
    for name in (tr("mean"), tr("last"), tr("per epoch"), "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for group, values in trends(summary):
        table.add_row(group, style="bold")
        for name, unit, drift in values:
            low, high = drift.ci95 or (0.0, 0.0)
            ends = (change_in_unit(unit, end, bare=True) for end in ((low, high) if low < high else ()))
            change = change_in_unit(unit, drift.slope, bare=True)
            numbers = in_unit(unit, drift.mean), in_unit(unit, drift.last), change
            table.add_row(f"  {name}", *numbers, "..".join(ends), tr("drifts") if drift.drifting else "")
        table.add_section()
    return table


def closing_line(summary: SoakSummary) -> str:
    """Return the totals of a soak in one line."""
    latency, errors, suite = summary.turn_latency_ms, summary.errors, summary.suite or "dialog"
    units = tr(UNITS[suite])
    counts = [tr_counted(summary.epochs, *_EPOCHS)]
    counts += [tr_counted(summary.dialogs, *_WHOLES["dialog"])] if suite == "dialog" else []
    counts += [tr_counted(summary.turns, *(_TURNS if suite == "dialog" else _WHOLES["rag"]))]
    line = tr(
        "{counts} in {seconds:.1f} s; {failed:,} failed",
        counts=tr(", ").join(counts),
        seconds=summary.elapsed_seconds,
        failed=errors.failed_turns,
    )
    for text, count in (
        ((marked(", {count:,} timed out"),) * 2, errors.timeouts),
        ((marked(", 1 retry"), marked(", {count:,} retries")), errors.turn_retries),
        ((marked(", 1 judgement failed"), marked(", {count:,} judgements failed")), errors.judge_failures),
        ((marked(", 1 line skipped"), marked(", {count:,} lines skipped")), errors.skipped_dialogs),
        ((marked(", 1 abandoned call"), marked(", {count:,} abandoned calls")), errors.abandoned_calls),
    ):
        line += tr_counted(count, *text) if count else ""
    line += tr(
        "; latency p50 {p50:.3g} p90 {p90:.3g} p99 {p99:.3g} ms; loop lag p99 {lag:.3g} ms",
        p50=latency.p50,
        p90=latency.p90,
        p99=latency.p99,
        lag=summary.loop_lag_ms.p99,
    )
    if (growth := summary.rss_bytes_per_100k_turns) is not None:
        line += tr("; memory {change:+.2f} MiB in 100,000 {units}", change=growth / MIB, units=units)
    return line


def reliability_line(found: Reliability, suite: Suite) -> str:
    """Return pass^k for the first, the middle and the last k in one line."""
    from memfin.report.glossary import format_interval  # noqa: PLC0415 - loads slowly
    from memfin.report.model import percent  # noqa: PLC0415 - as above

    values = tr(", ").join(f"pass^{each.k} {percent(each.value)}" for each in spread(found.pass_k, 3))
    last = found.pass_k[-1].ci95 if found.pass_k else None
    bounds = (
        "" if last is None else tr(" (95 % interval {interval})", interval=format_interval("pass_k", last))
    )
    wholes = tr_counted(len(found.passes), *_WHOLES[suite])
    repeated = tr("{wholes} in {count} repeats", wholes=wholes, count=found.repeats)
    return tr(
        "{values}; {repeated}", values=(values or tr("pass^k is not known")) + bounds, repeated=repeated
    )
