"""``memfin soak``: evaluate again and again, and see what drifts."""

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from memfin.cli.options import SOAK_OPTIONS, SettingsCommand, output_flags, soak_limits, with_settings
from memfin.cli.soak_view import closing_line, drift_table, soak_view
from memfin.cli.soak_words import words_of
from memfin.cli.working import work_to_end
from memfin.contracts import SoakLimits, SoakSummary
from memfin.contracts.run import Suite
from memfin.errors import GateFailed
from memfin.runtime.outputs import pretty_json
from memfin.runtime.soak import Soak, SoakListener
from memfin.runtime.soak_bench import make_bench_soak_resume_plan
from memfin.runtime.soak_directory import read_summary
from memfin.runtime.soak_plan import SoakPlan, make_soak_plan, make_soak_resume_plan


@click.command("soak", cls=SettingsCommand, short_help="Evaluate again and again, and see what drifts.")
@click.argument("dataset", required=False, envvar="MEMFIN_DATASET")
@with_settings(SOAK_OPTIONS, "soak")
@output_flags("the soak's summary", variables=True)
def command(dataset: str | None, *, as_json: bool, quiet: bool, **settings: Any) -> None:
    """Evaluate an agent on DATASET epoch after epoch, until --duration or --epochs is reached.

    \b
    memfin soak --epochs 3
    memfin soak my_dialogs.jsonl --agent mypackage.agent:create --duration 8h --keep-epochs 10
    memfin soak my_dialogs.jsonl --duration 1d12h --metrics-port 9464

    Every epoch is a run of its own in RUNS_DIR/RUN_ID/epochs, with agents of its own. soak.jsonl gets a
    line when an epoch is complete; soak_summary.json has totals and the drift of every value.
    Gates are for the soak as a whole: means over the epochs, failed turns of all of them.

    Whatever stops a soak, memfin resume RUNS_DIR/RUN_ID goes on with it. Exit codes are those of run.
    To repeat a benchmark instead, give memfin bench --epochs or --duration.
    """
    limits = soak_limits(settings) or SoakLimits()
    soak_to_end(make_soak_plan(dataset, limits=limits, **settings), as_json=as_json, quiet=quiet)


def resume(run_dir: Path, *, force: bool, metrics_port: int | None, as_json: bool, quiet: bool) -> None:
    """Go on with the soak in a directory; what ``memfin resume`` does with one."""
    resumed = _RESUMED[read_summary(run_dir).suite or "dialog"]
    soak_to_end(resumed(run_dir, force=force, metrics_port=metrics_port), as_json=as_json, quiet=quiet)


_RESUMED: Final[Mapping[Suite, Callable[..., SoakPlan]]] = {
    "dialog": make_soak_resume_plan,
    "rag": make_bench_soak_resume_plan,
}


def soak_to_end(plan: SoakPlan, *, as_json: bool, quiet: bool) -> None:
    """Run a soak, show it, and apply its gates."""
    with ExitStack() as stack:
        listeners: list[SoakListener] = []
        if plan.limits.metrics_port is not None:
            from memfin.runtime.soak_prometheus import SoakExporter  # noqa: PLC0415 - few soaks serve metrics

            exporter = stack.enter_context(SoakExporter(plan.limits.metrics_port))
            listeners.append(exporter)
            click.echo(f"memfin: metrics at {exporter.address}", err=True)
        view = stack.enter_context(soak_view(quiet=quiet, words=words_of(plan.suite.suite)))
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
