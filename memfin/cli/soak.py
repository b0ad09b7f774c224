"""``memfin soak``: evaluate again and again, and see what drifts."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from memfin.cli.options import fail_under_gates, run_options
from memfin.cli.soak_view import closing_line, drift_table, soak_view
from memfin.cli.working import work_to_end
from memfin.contracts.soak import SoakLimits, SoakSummary
from memfin.errors import GateFailed
from memfin.runtime.outputs import pretty_json
from memfin.runtime.soak import Soak, SoakListener
from memfin.runtime.soak_plan import SoakPlan, make_soak_plan, make_soak_resume_plan, parse_duration


@click.command("soak", short_help="Evaluate again and again, and see what drifts.")
@click.argument("dataset", required=False, envvar="MEMFIN_DATASET")
@click.option(
    "--duration",
    metavar="TIME",
    envvar="MEMFIN_DURATION",
    help="Begin no epoch after this time: 8h, 30m, 90s, 1d12h.",
)
@click.option("--epochs", type=int, metavar="N", envvar="MEMFIN_EPOCHS", help="End after N epochs.")
@click.option(
    "--keep-epochs",
    type=int,
    metavar="K",
    envvar="MEMFIN_KEEP_EPOCHS",
    help="Keep traces and rows of the last K epochs, and of others their papers only.  [default: all]",
)
@click.option(
    "--metrics-port",
    type=int,
    metavar="PORT",
    envvar="MEMFIN_METRICS_PORT",
    help="Serve Prometheus metrics on 127.0.0.1:PORT; 0 takes a free port and prints it.",
)
@run_options
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    envvar="MEMFIN_JSON",
    help="Print the soak's summary as JSON on stdout.",
)
@click.option("--quiet", is_flag=True, envvar="MEMFIN_QUIET", help="No progress and no table.")
def command(
    dataset: str | None,
    *,
    duration: str | None,
    epochs: int | None,
    keep_epochs: int | None,
    metrics_port: int | None,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Evaluate an agent on DATASET epoch after epoch, until --duration or --epochs is reached.

    \b
    memfin soak --epochs 3
    memfin soak my_dialogs.jsonl --agent mypackage.agent:create --duration 8h --keep-epochs 10
    memfin soak my_dialogs.jsonl --duration 1d12h --metrics-port 9464

    Every epoch is a run of its own in RUNS_DIR/RUN_ID/epochs, with agents of its own. soak.jsonl gets a
    line when an epoch is complete; soak_summary.json has totals and the drift of every value.
    Gates are for the soak as a whole: means over the epochs, failed turns of all of them.

    Whatever stops a soak, memfin resume RUNS_DIR/RUN_ID goes on with it. Exit codes are those of run.
    """
    settings["fail_under"] = fail_under_gates(settings["fail_under"])
    limits = SoakLimits(
        duration_seconds=None if duration is None else parse_duration(duration),
        epochs=epochs,
        keep_epochs=keep_epochs,
        metrics_port=metrics_port,
    )
    soak_to_end(make_soak_plan(dataset, limits=limits, **settings), as_json=as_json, quiet=quiet)


def resume(run_dir: Path, *, force: bool, metrics_port: int | None, as_json: bool, quiet: bool) -> None:
    """Go on with the soak in a directory; what ``memfin resume`` does with one."""
    plan = make_soak_resume_plan(run_dir, force=force, metrics_port=metrics_port)
    soak_to_end(plan, as_json=as_json, quiet=quiet)


def soak_to_end(plan: SoakPlan, *, as_json: bool, quiet: bool) -> None:
    """Run a soak, show it, and apply its gates."""
    with ExitStack() as stack:
        listeners: list[SoakListener] = []
        if plan.limits.metrics_port is not None:
            from memfin.runtime.soak_prometheus import SoakExporter  # noqa: PLC0415 - few soaks serve metrics

            exporter = stack.enter_context(SoakExporter(plan.limits.metrics_port))
            listeners.append(exporter)
            click.echo(f"memfin: metrics at {exporter.address}", err=True)
        view = stack.enter_context(soak_view(quiet=quiet))
        soak = Soak(plan, [*listeners, view])
        work_to_end(soak, plan)
    if soak.summary is not None:
        _present(soak.summary, plan.directory, as_json=as_json, quiet=quiet)
        sys.stdout.flush()
        if soak.summary.gates:
            raise GateFailed("; ".join(soak.summary.gates))


def _present(summary: SoakSummary, directory: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        click.echo(pretty_json(summary).decode(), nl=False)
        return
    if not quiet:
        from rich.console import Console  # noqa: PLC0415 - rich loads slowly

        Console().print(drift_table(summary))
        click.echo(closing_line(summary))
    click.echo(f"soak: {directory / 'soak_summary.json'}")
