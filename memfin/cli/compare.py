"""``memfin compare``: paired differences between two runs."""

from pathlib import Path

import click

from memfin.cli.output import note, print_table
from memfin.contracts.run import Comparison
from memfin.errors import GateFailed
from memfin.report.comparison import HEADLINES, compare_runs
from memfin.report.tables import case_lines, comparison_table
from memfin.runtime.outputs import pretty_json


@click.command("compare")
@click.argument("run_a", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("run_b", metavar="RUN_B", type=click.Path(path_type=Path))
@click.option("--all", "all_values", is_flag=True, help="Show every value, not only the headline ones.")
@click.option("--fail-on-worse", is_flag=True, help="Exit 1 when a headline value of RUN_B is worse.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON on stdout.")
def command(run_a: Path, run_b: Path, *, all_values: bool, fail_on_worse: bool, as_json: bool) -> None:
    """Compare RUN_B with RUN_A: two runs of dialogues, or two of a benchmark.

    \b
    memfin compare runs/before runs/after
    memfin compare runs/before runs/after --fail-on-worse
    memfin compare runs/before runs/after --json

    Values are those of the dialogues or questions that carry them in both runs. The interval is that of
    the paired difference, with dialogues as the sampling unit; a value is better or worse only where its
    interval excludes 0. One in twenty does so by chance.
    """
    comparison = compare_runs(run_a, run_b)
    if comparison.inputs_changed:
        changed = ", ".join(comparison.inputs_changed)
        note(
            f"warning: the runs differ in more than what was evaluated: {changed}; a difference may come "
            "from that"
        )
    if as_json:
        click.echo(pretty_json(comparison).decode(), nl=False)
    else:
        print_table(comparison_table(comparison, all_values=all_values), highlight=False)
        for line in case_lines(comparison):
            click.echo(line)
    if fail_on_worse and (worse := _worse(comparison)):
        raise GateFailed(f"--fail-on-worse: worse than in {comparison.a}: {', '.join(worse)}")


def _worse(comparison: Comparison) -> list[str]:
    return [
        name for name, value in comparison.values.items() if value.verdict == "worse" and name in HEADLINES
    ]
