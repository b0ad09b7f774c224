"""The table that ``memfin compare`` prints."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from memfin.contracts.run import Comparison, Outcome, PairedValue
from memfin.report.glossary import METRICS, SCORES
from memfin.report.rag.words import BY_NAME, MARKS
from memfin.text.lines import one_line

if TYPE_CHECKING:
    from rich.table import Table

_VERDICTS: Final[dict[Outcome, tuple[str, str]]] = {
    "better": ("better", "green"),
    "worse": ("worse", "red"),
    "no_difference": ("same", "dim"),
    "unknown": ("unknown", "dim"),
}


def comparison_table(comparison: Comparison, *, all_values: bool = False) -> "Table":
    """Return the values of two runs as a table; without ``all_values`` those of the summary table."""
    from rich import box  # noqa: PLC0415 - loaded only when a table is wanted
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table(
        title=Text(f"{one_line(comparison.b, 60)} against {one_line(comparison.a, 60)}"),
        caption=Text(_pairs_line(comparison)),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("Value", overflow="fold", min_width=20)
    for heading in ("a", "b", "b - a", "95 % interval", "Pairs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, label in _shown(comparison, all_values=all_values):
        value = comparison.values[name]
        words, style = _VERDICTS[value.verdict]
        table.add_row(
            Text(label),
            _written(name, value.a),
            _written(name, value.b),
            _change(name, value.difference),
            Text(_bounds(name, value), style="dim"),
            str(value.pairs),
            Text(words, style=style),
        )
    return table


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
            values = f"{_written(case.value, case.a)} -> {_written(case.value, case.b)}"
            yield f"  {one_line(case.id, 60)}  {case.value.partition('.')[2] or case.value}  {values}"


def _shown(comparison: Comparison, *, all_values: bool) -> Iterator[tuple[str, str]]:
    codes = {metric.name: metric.code for metric in METRICS}
    words = {
        f"{metric.name}.{value.key}": f"{metric.code} {value.label}"
        for metric in METRICS
        for value in metric.values
    }
    words |= {"score": "All questions", "pass_rate": "Questions passed"}
    words |= {f"{name}.score": text.title for name, text in BY_NAME.items()}
    words |= {f"judge.{mark}": f"Judge: {title.lower()}" for mark, title in MARKS.items()}
    for name in comparison.values:
        metric, _, value = name.partition(".")
        if name in words:
            yield name, words[name]
        elif all_values:
            yield name, f"{codes.get(metric, metric)} {value}"


def _is_score(name: str) -> bool:
    value = name.rpartition(".")[2]
    return value in SCORES or value in MARKS


def _written(name: str, value: float) -> str:
    return f"{value:.2f}" if _is_score(name) else f"{100 * value:.1f} %"


def _change(name: str, value: float) -> str:
    return f"{value:+.2f}" if _is_score(name) else f"{100 * value:+.1f}"


def _bounds(name: str, value: PairedValue) -> str:
    return "-" if value.ci95 is None else " to ".join(_change(name, bound) for bound in value.ci95)


def _pairs_line(comparison: Comparison) -> str:
    what = "questions" if comparison.suite == "rag" else "dialogues"
    alone = [
        f"{count} only in {run} left out"
        for run, count in (("a", comparison.only_a), ("b", comparison.only_b))
        if count
    ]
    return ", ".join([f"{comparison.pairs} {what} in both runs", *alone])
