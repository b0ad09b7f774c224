"""``memfin score``: rows and metrics from a recorded trace."""

import sys
from pathlib import Path
from typing import Any, Final

import click

from memfin.cli.options import SettingsCommand, output_flags, setting_options, with_options
from memfin.cli.output import note
from memfin.cli.progress import progress_view
from memfin.cli.run import present, results, run_to_end, write_reports
from memfin.contracts import RunConfig
from memfin.contracts.settings import settings_of
from memfin.errors import GateFailed, UsageError
from memfin.runtime.gates import judge_gates_failed_by
from memfin.runtime.rescore import make_rescore_plan

SETTINGS: Final = setting_options(
    RunConfig,
    {
        *(each.name for each in settings_of(RunConfig) if each.extra["group"] in ("Judge", "Scoring")),
        *("fail_on_judge_error", "history", "seed", "turn_timeout"),
    },
    prefix=None,
    history={
        "default": None,
        "help": "History mode of the recorded run.  [default: that of its files, or free]",
    },
)
"""Settings of a run that scoring has, too."""


@click.command("score", cls=SettingsCommand)
@click.argument("dialog_trace", type=click.Path(path_type=Path))
@click.option(
    "--dataset", type=click.Path(path_type=Path), required=True, help="The dataset that was replayed."
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Directory to create for the result."
)
@with_options(*SETTINGS)
@output_flags("the metrics summary")
def command(
    dialog_trace: Path, dataset: Path, out: Path, *, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Rebuild turn_eval.jsonl and the metrics from DIALOG_TRACE.

    \b
    memfin score runs/my_run/dialog_trace.jsonl --dataset my_dialogs.jsonl --out rescored

    The directory gets everything that a run writes, so that it can be reported and compared.
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
    with progress_view(quiet=quiet) as view:
        summary, stats = results(run_to_end(plan, view))
    present(summary, stats, write_reports(plan.directory), plan.config, as_json=as_json, quiet=quiet)
    sys.stdout.flush()
    limit = plan.config.fail_on_judge_error
    if gates := judge_gates_failed_by(stats.judged_turns, stats.judge_failures, limit):
        raise GateFailed("; ".join(gates))
