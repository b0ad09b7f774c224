"""The table that a run prints at its end."""

from typing import TYPE_CHECKING

from memfin.contracts import EvalSummary
from memfin.report.glossary import METRICS, format_interval, format_value, is_measured
from memfin.text.lines import one_line

if TYPE_CHECKING:
    from rich.table import Table


def summary_table(summary: EvalSummary) -> "Table":
    """Return the headline values of a summary as a table for `rich.console.Console.print`.

    Off a terminal rich prints the same table without colour. rich is imported here, so that a run
    without a table does not load it.
    """
    from rich import box  # noqa: PLC0415 - loaded only when a table is wanted
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table(
        title=Text(f"Run {one_line(summary.run_id, 128)}"),
        caption=Text(_counters_line(summary)),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=(0, 1, 0, 0),  # fits 80 columns, the width of a table that is not on a terminal
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("Metric", overflow="fold")
    for heading in ("Micro", "95 % interval", "Macro", "Eligible", "Skipped", "Failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for text in METRICS:
        result = summary.metrics.get(text.name)
        if result is None:
            continue
        counts = [str(result.counts.get(f"{kind}_count", 0)) for kind in ("eligible", "skipped", "failed")]
        shown = [value for value in text.values if value.key in result.micro]
        for value in shown:
            first = value is shown[0]
            macro = result.macro.get(value.key)
            measured = is_measured(value.key, result.counts)
            table.add_row(
                Text.assemble((f"{text.code} ", "bold"), value.label),
                Text(format_value(value.key, result.micro[value.key]) if measured else "-"),
                Text(format_interval(value.key, result.ci95.get(value.key)), style="dim"),
                Text(format_value(value.key, macro) if macro is not None and measured else "-"),
                *(Text(count if first else "") for count in counts),
            )
    return table


def _counters_line(summary: EvalSummary) -> str:
    counters = summary.counters
    return (
        f"{counters.valid_dialogs} of {counters.total_dialogs} dialogues valid, "
        f"{counters.skipped_dialogs} skipped, {counters.failed_dialogs} failed; "
        f"{counters.total_turn_pairs} turn pairs"
    )
