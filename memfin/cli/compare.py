"""``memfin compare``: what is better and what is worse in a second run."""

from pathlib import Path

import click

from memfin.contracts.comparison import Comparison
from memfin.errors import GateFailed
from memfin.sandbox.references import one_line


@click.command("compare", short_help="Compare two runs, dialogue by dialogue.")
@click.argument("run_a", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("run_b", metavar="RUN_B", type=click.Path(path_type=Path))
@click.option("--all", "all_values", is_flag=True, help="Show every value, not the headline ones alone.")
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
    interval leaves 0 out. One in twenty does so by chance.
    """
    from memfin.report.comparison import compare_runs  # noqa: PLC0415 - metrics load only when used

    comparison = compare_runs(run_a, run_b)
    if comparison.inputs_changed:
        changed = ", ".join(comparison.inputs_changed)
        click.echo(
            one_line(
                f"memfin: warning: the runs differ in more than what was evaluated: {changed}; a difference "
                "may come from that"
            ),
            err=True,
        )
    if as_json:
        from memfin.runtime.outputs import pretty_json  # noqa: PLC0415 - as above

        click.echo(pretty_json(comparison).decode(), nl=False)
    else:
        _show(comparison, all_values=all_values)
    if fail_on_worse and (worse := _worse(comparison)):
        raise GateFailed(f"--fail-on-worse: worse than in {comparison.a}: {', '.join(worse)}")


def _worse(comparison: Comparison) -> list[str]:
    from memfin.report.comparison import HEADLINES  # noqa: PLC0415 - as above

    return [
        name for name, value in comparison.values.items() if value.verdict == "worse" and name in HEADLINES
    ]


def _show(comparison: Comparison, *, all_values: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - rich loads slowly

    from memfin.report.tables import case_lines, comparison_table  # noqa: PLC0415 - as above

    console = Console(highlight=False)
    console.print(comparison_table(comparison, all_values=all_values))
    for line in case_lines(comparison):
        click.echo(line)
