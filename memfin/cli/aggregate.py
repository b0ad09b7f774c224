"""``memfin aggregate``: metrics from recorded rows."""

from pathlib import Path

import click

from memfin.cli.output import note
from memfin.errors import GateFailed, UsageError
from memfin.metrics.aggregate import encode_summary
from memfin.runtime.aggregation import aggregate_rows


@click.command("aggregate")
@click.argument("turn_eval", type=click.Path(path_type=Path))
@click.option(
    "--dialog-trace", type=click.Path(path_type=Path), help="The run's traces, for M2 and the counters."
)
@click.option("--dataset", type=click.Path(path_type=Path), help="The run's dataset, for M2.")
def command(turn_eval: Path, dialog_trace: Path | None, dataset: Path | None) -> None:
    """Print the metrics summary of TURN_EVAL as JSON on stdout.

    \b
    memfin aggregate runs/my_run/turn_eval.jsonl
    memfin aggregate turn_eval.jsonl --dialog-trace dialog_trace.jsonl --dataset my_dialogs.jsonl

    M2 compares profiles, which rows do not hold: it needs the traces and the dataset. A line that
    is no row, a row that contradicts itself and a second row of a turn are named on stderr and
    make the exit code 1.
    """
    if (dialog_trace is None) != (dataset is None):
        raise UsageError("--dialog-trace and --dataset go together: M2 needs both")
    summary, problems = aggregate_rows(turn_eval, dialog_trace, dataset)
    click.echo(encode_summary(summary).decode(), nl=False)
    for problem in problems:
        note(problem)
    if problems:
        raise GateFailed(f"{len(problems)} invalid lines in {turn_eval}")
