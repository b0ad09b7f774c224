"""The table that a benchmark run prints at its end."""

from typing import TYPE_CHECKING

import msgspec

from memfin.contracts.rag import RagGroup, RagSummary
from memfin.report.rag.words import MARKS, TYPES
from memfin.text.lines import one_line

if TYPE_CHECKING:
    from rich.table import Table


def rag_table(summary: RagSummary) -> "Table":
    """Return the scores by type, and of all questions, as a table for `rich.console.Console.print`."""
    from rich import box  # noqa: PLC0415 - loaded only when a table is wanted
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table(
        title=Text(f"Run {one_line(summary.run_id, 128)}"),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("Questions", overflow="fold")
    for heading in ("Asked", "Passed", "Score", "Of", "Share"):
        table.add_column(heading, justify="right", no_wrap=True)
    total = RagGroup(
        count=summary.total_tests,
        passed=summary.passed_tests,
        total_score=summary.overall_score,
        max_score=summary.max_score,
    )
    rows = [(text.title, summary.by_type[text.name]) for text in TYPES if text.name in summary.by_type]
    for title, group in (*rows, ("All", total)):
        if group.count:
            share = group.total_score / group.max_score if group.max_score else 0.0
            table.add_row(
                Text(title, style="bold" if group is total else ""),
                str(group.count),
                str(group.passed),
                f"{group.total_score:.2f}",
                f"{group.max_score:g}",
                f"{share:.1%}",
            )
    return table


def judge_line(summary: RagSummary) -> str | None:
    """Return a line with what a judge says of the answers, None for a run without one."""
    judged = summary.judge
    if judged is msgspec.UNSET:
        return None
    marks = []
    for name, title in MARKS.items():
        mark = judged[name]
        told = "-" if mark.mean is None else f"{mark.mean:.2f}"
        if mark.ci95 is not None:
            told += f" ({mark.ci95[0]:.2f} to {mark.ci95[1]:.2f})"
        marks.append(f"{title.lower()} {told} of 5")
    done = judged.asked - judged.failed
    return f"judge {one_line(judged.judge, 80)}: {', '.join(marks)}, on {done} of {judged.asked} answers"
