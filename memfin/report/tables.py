"""Tables for the terminal: the summary of a run, of a benchmark, and of two runs compared.

rich is imported by the functions that need it, so that a run without a table does not load it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from memfin.contracts import EvalSummary, RunConfig
from memfin.contracts.rag import RagGroup, RagSummary
from memfin.contracts.run import Comparison, PairedValue
from memfin.report import glossary
from memfin.report.common import agent_facts
from memfin.report.glossary import MARKS, METRICS, SCORES, TYPES, format_interval, format_value
from memfin.text.lines import one_line

if TYPE_CHECKING:
    from rich.table import Table

Styled = str | tuple[str | tuple[str, str], ...]
"""A cell: text, or pieces of text, each alone or with its style."""

VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
    "better": ("better", "green"),
    "worse": ("worse", "red"),
    "no_difference": ("same", "dim"),
    "unknown": ("unknown", "dim"),
    "not_measured": ("n/a", "yellow"),
}
"""Words and styles of the outcomes of a comparison."""


def _table(
    title: str, caption: str, headings: tuple[str, ...], rows: Iterable[Iterable[Styled]], width: int = 0
) -> "Table":
    """Return a table; the first column is text, others are figures, one without a heading is text."""
    from rich import box  # noqa: PLC0415 - loaded only when a table is wanted
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table(
        title=Text(title),
        caption=Text(caption) if caption else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=0,  # fits 80 columns, the width of a table that is not on a terminal
        pad_edge=False,
        show_edge=False,
    )
    table.add_column(headings[0], overflow="fold", min_width=width or None)
    for heading in headings[1:]:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else Text.assemble(*cell) for cell in row))
    return table


def summary_table(summary: EvalSummary, settings: RunConfig | None = None) -> "Table":
    """Return the headline values of a summary as a table for `rich.console.Console.print`.

    The title names the agent and the judge of the run's ``settings``.
    """
    counters = summary.counters
    values = list(glossary.metric_rows(summary.metrics, settings.judge if settings else None))
    rows: Iterator[tuple[Styled, ...]] = (
        (
            ((f"{row.text.code} ", "bold"), row.value.label),
            ((format_value(row.value.key, row.micro), "bold red" if row.value.is_bad(row.micro) else ""),),
            ((format_interval(row.value.key, row.interval), "dim"),),
            format_value(row.value.key, row.macro),
            *row.counts,
        )
        for row in values
    )
    facts = [("Dataset", summary.dataset_path)]
    if settings is not None:
        facts = [*agent_facts(settings), *facts, ("Judge", settings.judge)]
    inputs = ", ".join(f"{name.lower()} {one_line(value, 200)}" for name, value in facts)
    counted = (
        f"{counters.valid_dialogs:,} of {counters.total_dialogs:,} dialogues valid, "
        f"{counters.skipped_dialogs:,} skipped, {counters.failed_dialogs:,} failed; "
        f"{counters.total_turn_pairs:,} turn pairs"
    )
    if counters.unscored_turn_pairs:
        counted += f", {counters.unscored_turn_pairs:,} of the dataset not scored"
    headings = ("Metric", "Micro", "95 % interval", "Macro", "Eligible", "Skipped", "Failed")
    caption = "\n".join((*glossary.missing_lines(values), counted))
    return _table(f"Run {one_line(summary.run_id, 128)}: {inputs}", caption, headings, rows)


def rag_table(summary: RagSummary) -> "Table":
    """Return the scores by type, and of all questions, as a table for `rich.console.Console.print`."""
    total = RagGroup(
        count=summary.total_tests,
        passed=summary.passed_tests,
        total_score=summary.overall_score,
        max_score=summary.max_score,
        ci95=summary.ci95,
    )
    groups = [(text.title, summary.by_type[text.name]) for text in TYPES if text.name in summary.by_type]
    rows = (
        (
            ((title, "bold" if group is total else ""),),
            str(group.count),
            str(group.passed),
            f"{group.total_score:.2f}",
            f"{group.max_score:g}",
            f"{group.total_score / group.max_score if group.max_score else 0.0:.1%}",
            ((format_interval("score", group.ci95.get("score")), "dim"),),
        )
        for title, group in (*groups, ("All", total))
        if group.count
    )
    headings = ("Questions", "Asked", "Passed", "Score", "Of", "Share", "95 % interval")
    return _table(f"Run {one_line(summary.run_id, 128)}", "", headings, rows)


def judge_line(summary: RagSummary) -> str | None:
    """Return a line with the mean marks of a judge, None for a run without one."""
    judged = summary.judge
    if judged is msgspec.UNSET:
        return None
    marks = []
    for name, title in MARKS.items():
        mark = judged[name]
        shown = "-" if mark.mean is None else f"{mark.mean:.2f}"
        if mark.ci95 is not None:
            shown += f" ({mark.ci95[0]:.2f} to {mark.ci95[1]:.2f})"
        marks.append(f"{title.lower()} {shown} of 5")
    done = judged.asked - judged.failed
    return f"judge {one_line(judged.judge, 80)}: {', '.join(marks)}, on {done} of {judged.asked} answers"


def comparison_table(comparison: Comparison, *, all_values: bool = False) -> "Table":
    """Return the values of two runs as a table; without ``all_values`` those of the summary table."""
    title = f"{one_line(comparison.b, 60)} against {one_line(comparison.a, 60)}"
    headings = ("Value", "a", "b", "b - a", "95 % interval", "Up/down", "")
    rows: list[tuple[Styled, ...]] = [
        (*cells[:4], ((cells[4], "dim"),), cells[5], (VERDICTS[cells[6]],))
        for cells in comparison_rows(comparison, all_values=all_values)
    ]
    return _table(title, pairs_line(comparison), headings, rows, width=20)


def comparison_rows(comparison: Comparison, *, all_values: bool) -> Iterator[tuple[str, ...]]:
    """Yield label, values of a and b, difference, interval, flips and verdict of every value in words."""
    for name, text in _shown(comparison, all_values=all_values):
        value = comparison.values.get(name)
        if value is None:
            yield text, "-", "-", "-", "-", "-", "not_measured"
            continue
        yield (
            text,
            written(name, value.a, comparison.suite),
            written(name, value.b, comparison.suite),
            _change(name, value.difference, comparison.suite),
            _bounds(name, value, comparison.suite),
            f"{value.improved}/{value.worsened}",
            value.verdict,
        )


def smallest_line(comparison: Comparison, names: Collection[str]) -> str:
    """Return the line with the smallest differences that the data shows in values of those names."""
    parts = [
        f"{text.partition(' ')[0] if text[0] == 'M' else text} "
        + ("none" if value.smallest is None else _change(name, value.smallest, comparison.suite).lstrip("+"))
        for name, text in _shown(comparison, all_values=False)
        if name in names and name in comparison.values
        for value in (comparison.values[name],)
    ]
    return f"Smallest difference that this data shows: {', '.join(parts)}"


def case_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for every case that changed most: those that are worse, then those that are better."""
    for heading, cases in (
        ("Worse:", [case for case in comparison.changed if case.change < 0]),
        ("Better:", [case for case in reversed(comparison.changed) if case.change > 0]),
    ):
        if cases:
            yield ""
            yield heading
        for case in cases:
            before, after = (written(case.value, each, comparison.suite) for each in (case.a, case.b))
            turn = "" if case.turn is None else f"  from turn {case.turn}"
            text = label(case.value, comparison.suite)
            yield f"  {one_line(case.id, 60)}  {text}  {before} -> {after}{turn}"


def _labels() -> dict[str, str]:
    """Return the labels of the values that a comparison shows, in order."""
    return (
        {"failed": "Failed"}
        | {
            f"{metric.name}.{each.key}": f"{metric.code} {each.label}"
            for metric in METRICS
            for each in metric.values
        }
        | {"score": "All questions", "pass_rate": "Questions passed"}
        | {f"{text.name}.score": text.title for text in TYPES}
        | {f"judge.{mark}": f"Judge: {title.lower()}" for mark, title in MARKS.items()}
    )


def label(name: str, suite: str) -> str:
    """Return the label of a value; of an inspect_ai log, its name."""
    if suite == "samples":
        return "Failed" if name == "failed" else one_line(name, 60)
    metric, _, value = name.partition(".")
    codes = {metric.name: metric.code for metric in METRICS}
    return _labels().get(name) or f"{codes.get(metric, metric)} {value}"


def _shown(comparison: Comparison, *, all_values: bool) -> Iterator[tuple[str, str]]:
    found = comparison.values.keys() | comparison.not_measured.keys()
    labels = _labels()
    if comparison.suite == "samples":
        labels = {name: label(name, "samples") for name in (*comparison.values, *comparison.not_measured)}
    yield from ((name, text) for name, text in labels.items() if name in found)
    for name in comparison.values if all_values else ():
        if name not in labels:
            yield name, label(name, comparison.suite)


def _decimals(name: str, suite: str) -> int | None:
    """Return the decimals that a value is written with, None for a share, which is written as per cent."""
    if suite == "samples":
        return None if name == "failed" else 3
    value = name.rpartition(".")[2]
    return 2 if value in SCORES or value in MARKS else None


def written(name: str, value: float, suite: str) -> str:
    """Write a value in its unit."""
    decimals = _decimals(name, suite)
    return f"{100 * value:.1f} %" if decimals is None else f"{value:.{decimals}f}"


def _change(name: str, value: float, suite: str) -> str:
    decimals = _decimals(name, suite)
    return f"{100 * value:+.1f}" if decimals is None else f"{value:+.{decimals}f}"


def _bounds(name: str, value: PairedValue, suite: str) -> str:
    return "-" if value.ci95 is None else " to ".join(_change(name, bound, suite) for bound in value.ci95)


def pairs_line(comparison: Comparison) -> str:
    """Return the number of dialogues or questions in both runs, and in one alone."""
    what = {"rag": "questions", "samples": "samples"}.get(comparison.suite, "dialogues")
    alone = [
        f"{count} only in {run} left out"
        for run, count in (("a", comparison.only_a), ("b", comparison.only_b))
        if count
    ]
    paired = ", ".join([f"{comparison.pairs} {what} in both runs", *alone])
    return f"{paired}; up and down count what got better and what got worse"
