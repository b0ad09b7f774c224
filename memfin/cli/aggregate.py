"""``memfin aggregate``: metrics from recorded rows."""

from pathlib import Path
from typing import Any

import click

from memfin.cli.options import VALUE_GATES, with_options
from memfin.cli.output import corrections_of, note
from memfin.contracts import RunConfig
from memfin.errors import GateFailed, UsageError
from memfin.journal.layout import TURN_EVAL
from memfin.metrics.aggregate import encode_summary
from memfin.runtime.aggregation import aggregate_rows
from memfin.runtime.gates import (
    custom_directions,
    gates_of,
    summary_values,
    value_directions,
    value_gates,
)


@click.command("aggregate")
@click.argument("turn_eval", type=click.Path(path_type=Path))
@click.option(
    "--dialog-trace", type=click.Path(path_type=Path), help="The run's traces, for M2 and the counters."
)
@click.option("--dataset", type=click.Path(path_type=Path), help="The run's dataset, for M2.")
@with_options(*VALUE_GATES)
def command(turn_eval: Path, dialog_trace: Path | None, dataset: Path | None, **limits: Any) -> None:
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
    custom = custom_directions(summary.metrics)
    gates = gates_of(RunConfig(**limits), value_directions(custom))
    if turn_eval.name == TURN_EVAL and (found := corrections_of(turn_eval.parent)) is not None:
        from memfin.validity.corrections import with_corrected  # noqa: PLC0415 - loads slowly

        summary = with_corrected(summary, found)
    if dialog_trace is None:
        note("M2 is not measured: it needs --dialog-trace and --dataset")
    click.echo(encode_summary(summary).decode(), nl=False)
    for problem in problems:
        note(problem)
    failed = [f"{len(problems)} invalid lines in {turn_eval}"] if problems else []
    failed += value_gates(gates, summary_values(summary, turn_eval.parent))
    if failed:
        raise GateFailed("; ".join(failed))
