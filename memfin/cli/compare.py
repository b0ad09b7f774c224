"""``memfin compare``: paired differences between runs, or between logs of inspect_ai."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from msgspec import UNSET

from memfin.cli.options import VALUE_GATES, with_language, with_options
from memfin.cli.output import corrections_of, note, print_table
from memfin.contracts import EvalSummary, RunConfig, SoakSummary
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import read_sums
from memfin.contracts.reading import read_json
from memfin.contracts.run import Comparison
from memfin.contracts.validity import LABELS
from memfin.errors import GateFailed, UsageError
from memfin.language import tr
from memfin.report.comparison import FAILED, compare_runs, headlines, run_directories
from memfin.report.comparison_report import comparison_csv, comparison_latex, comparison_report
from memfin.report.inspect_log import is_log, means, read_log
from memfin.report.reader import SUMMARY
from memfin.report.render import render_html_report, render_markdown_report, replace_file
from memfin.report.soak_report import SUMMARY as SOAK_SUMMARY
from memfin.report.tables import (
    case_lines,
    comparison_table,
    corrected_difference_lines,
    smallest_line,
    unmeasured_lines,
)
from memfin.runtime.bench_gates import DIRECTIONS, PERCENTAGE, score_interval
from memfin.runtime.gates import (
    Gate,
    GatedValue,
    custom_directions,
    gates_of,
    parse_value,
    summary_values,
    value_directions,
    value_gates,
)
from memfin.runtime.outputs import pretty_json

OUT: Final = click.Path(path_type=Path, dir_okay=False)


@click.command("compare")
@click.argument("run_a", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("others", metavar="RUN_B...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--all", "all_values", is_flag=True, help="Show every value, not only the headline ones.")
@click.option(
    "--baseline",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Compare every other run with this one; RUN_A by default.",
)
@click.option(
    "--margin",
    "margins",
    metavar="METRIC.VALUE=X",
    multiple=True,
    help="Exit 1 unless the value is shown to be worse by less than X. Repeatable.",
)
@with_options(*VALUE_GATES)
@with_language()
@click.option("--fail-on-worse", is_flag=True, help="Exit 1 when a headline value, or failures, are worse.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON on stdout.")
@click.option(
    "--html", type=OUT, help="Write a page with the replies side by side at the first turn that differs."
)
@click.option("--markdown", type=OUT, help="Write the same as Markdown.")
@click.option("--csv", "csv_file", type=OUT, help="Write all values as CSV.")
@click.option("--latex", type=OUT, help="Write the table for LaTeX (booktabs).")
def command(  # noqa: PLR0913 - one argument per option
    run_a: Path,
    others: tuple[Path, ...],
    *,
    all_values: bool,
    baseline: Path | None,
    margins: tuple[str, ...],
    fail_on_worse: bool,
    as_json: bool,
    html: Path | None,
    markdown: Path | None,
    csv_file: Path | None,
    latex: Path | None,
    **limits: Any,
) -> None:
    """Compare runs with RUN_A: runs of dialogues, or of a benchmark, or logs of inspect_ai.

    \b
    memfin compare runs/before runs/after
    memfin compare runs/before runs/after runs/other --fail-on-worse
    memfin compare runs/before runs/after --margin m3_risk_coverage.risk_coverage=0.02
    memfin compare runs/before runs/after --json
    memfin compare logs/before.eval logs/after.eval

    Values are those of the turns or questions that both runs answered; failures come first. The interval
    is that of the paired difference, with dialogues as the sampling unit. A headline value is better or
    worse only where an exact test finds a difference, adjusted by Holm for the number of headline values.
    --fail-under, --fail-over and --gate hold the values of every run that is compared with RUN_A.
    """
    held = dict(parse_value(margin, "--margin") for margin in margins)
    first = baseline if baseline is not None else run_a
    compared = [run for run in (run_a, *others) if run.resolve() != first.resolve()]
    compared = compared or list(others)
    logged = _log_values(compared) if limits["gate"] else {}
    scored = {name: name == FAILED for values in logged.values() for name in values}
    custom = _custom_directions(compared) if any(limits.values()) else {}
    gates = gates_of(RunConfig(**limits), scored or {**value_directions(custom), **DIRECTIONS})
    comparisons = [_with_corrected(compare_runs(first, run, held), first, run) for run in compared]
    for line in dict.fromkeys(line for comparison in comparisons for line in _limits(comparison)):
        note(f"warning: {line}")
    files = {"html": html, "markdown": markdown, "csv": csv_file, "latex": latex}
    _write(files, comparisons, [(first, run) for run in compared])
    if as_json:
        found = comparisons[0] if len(comparisons) == 1 else comparisons
        click.echo(pretty_json(found).decode(), nl=False)
    else:
        for comparison in comparisons:
            print_table(comparison_table(comparison, all_values=all_values), highlight=False)
            for line in unmeasured_lines(comparison):
                click.echo(line)
            click.echo(smallest_line(comparison, headlines(comparison.suite, comparison.values)))
            for line in (*corrected_difference_lines(comparison), *case_lines(comparison)):
                click.echo(line)
    problems = [
        line
        for comparison in comparisons
        for line in (*_inferior(comparison), *(_worse(comparison) if fail_on_worse else ()))
    ]
    problems += [line for run in compared for line in _gated(run, gates, logged.get(run))]
    if problems:
        raise GateFailed("; ".join(problems))


def _with_corrected(comparison: Comparison, run_a: Path, run_b: Path) -> Comparison:
    """Return the comparison with the differences of corrected rates, where both runs have labels."""
    if comparison.suite != "dialogues" or not all((run / LABELS).is_file() for run in (run_a, run_b)):
        return comparison
    from memfin.validity.corrections import corrected_differences  # noqa: PLC0415 - loads slowly

    try:
        found = corrected_differences(run_a, run_b)
    except UsageError as problem:
        note(f"warning: the labels are not used: {problem}")
        return comparison
    values = {
        name: value.replace(corrected=found.get(name, UNSET)) for name, value in comparison.values.items()
    }
    return comparison.replace(values=values)


def _write(
    files: Mapping[str, Path | None], comparisons: Sequence[Comparison], runs: Sequence[tuple[Path, Path]]
) -> None:
    """Write the comparisons in every format that a file is given for."""
    for name, path in files.items():
        if path is None:
            continue
        if name in ("html", "markdown"):
            report = comparison_report(comparisons, runs)
            text = render_html_report(report) if name == "html" else render_markdown_report(report)
        else:
            text = comparison_csv(comparisons) if name == "csv" else comparison_latex(comparisons)
        replace_file(path, text)


def _log_values(runs: Sequence[Path]) -> dict[Path, dict[str, GatedValue]]:
    """Return the values of the inspect_ai logs among the runs, for gates."""
    return {
        run: {
            **{name: GatedValue(*means(units)) for name, units in log.values.items()},
            **{name: GatedValue(0.0, not_measured=reason) for name, reason in log.not_measured.items()},
        }
        for run in runs
        if is_log(run)
        for log in (read_log(run, FAILED),)
    }


def _custom_directions(runs: Sequence[Path]) -> dict[str, bool]:
    """Return the values of the custom metrics of the runs."""
    files = [run_directories(run)[-1] / SUMMARY for run in runs if not is_log(run)]
    found = (read_json(path, EvalSummary).metrics for path in files if path.is_file())
    return {name: less for metrics in found for name, less in custom_directions(metrics).items()}


def _gated(run: Path, gates: Sequence[Gate], logged: Mapping[str, GatedValue] | None = None) -> Iterator[str]:
    """Yield a line per gate that the values of a run do not pass; raise `UsageError` for one it has not."""
    if not gates:
        return
    last = run_directories(run)[-1]
    means: dict[str, float] = {}
    if (run / SOAK_SUMMARY).is_file():
        drifts = read_json(run / SOAK_SUMMARY, SoakSummary).metrics
        means = {name.removeprefix("rag."): drift.mean for name, drift in drifts.items()}
    values: Mapping[str, GatedValue]
    if logged is not None:
        values = logged
    elif (last / RAG_SUMMARY).is_file():
        sums = read_sums(last / RAG_SUMMARY)
        values = {PERCENTAGE: GatedValue(sums.overall_percentage, score_interval(sums.ci95))}
    else:
        found = corrections_of(last)
        summary = read_json(last / SUMMARY, EvalSummary).replace(corrected=found.values if found else UNSET)
        values = summary_values(summary, last)
    for gate in gates:
        if gate.name not in values:
            raise UsageError(f"{gate.text}: {run} has no such value; known: {', '.join(values)}")
    values = {name: each._replace(value=means.get(name, each.value)) for name, each in values.items()}
    for line in value_gates(gates, values):
        yield f"{run}: {line}"


def _limits(comparison: Comparison) -> Iterator[str]:
    if comparison.inputs_changed:
        changed = ", ".join(comparison.inputs_changed)
        yield tr(
            "the runs differ in more than what was evaluated: {inputs}; a difference may come from that",
            inputs=changed,
        )
    yield from comparison.warnings


def _worse(comparison: Comparison) -> Iterator[str]:
    known = headlines(comparison.suite, comparison.values)
    names = [name for name, value in comparison.values.items() if value.verdict == "worse" and name in known]
    if names:
        yield f"--fail-on-worse: {comparison.b} is worse than {comparison.a}: {', '.join(names)}"


def _inferior(comparison: Comparison) -> Iterator[str]:
    for name, value in comparison.values.items():
        if value.non_inferior is False:
            bounds = "there is no interval" if value.ci95 is None else "{:.4g} to {:.4g}".format(*value.ci95)
            yield (
                f"--margin {name}={value.margin:g}: {comparison.b} is not shown to be within it of "
                f"{comparison.a}; the interval of the difference is {bounds}"
            )
