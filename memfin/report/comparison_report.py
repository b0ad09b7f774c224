"""Comparisons as a report (HTML and Markdown), as CSV, and as a LaTeX table."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from memfin.contracts.run import ChangedCase, Comparison
from memfin.language import tr
from memfin.report import model, reader
from memfin.report.comparison import HEADLINES, run_directories
from memfin.report.tables import VERDICTS, comparison_rows, comparison_title, label, pairs_line, written
from memfin.text.lines import visible

_MAX_SHOWN: Final = 8
_MAX_REPLY: Final = 4000
_CSV: Final = (
    *("a", "b", "difference", "verdict", "pairs", "units", "improved", "worsened"),
    *("p_value", "p_adjusted", "smallest", "margin", "non_inferior"),
)
_LATEX: Final = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def comparison_report(
    comparisons: Sequence[Comparison], directories: Sequence[tuple[Path, Path]]
) -> model.Report:
    """Make the content of a report; ``directories`` are those of the two runs of each comparison.

    Raises:
        UsageError: a trace does not fit its contract.
    """
    first = comparisons[0]
    sections = []
    for number, (comparison, places) in enumerate(zip(comparisons, directories, strict=True), 1):
        title = comparison_title(comparison)
        rows = [(*row[:-1], _verdict(row)) for row in comparison_rows(comparison, all_values=False)]
        reasons = [
            (tr("{value} is not measured", value=label(name)), tr(reason))
            for name, reason in comparison.not_measured.items()
            if name in HEADLINES
        ]
        part = model.section(
            f"run-{number}",
            title,
            model.Block("warnings", tuple(_warnings(comparison))),
            model.table("", _headings(), "lrrrrrl", rows, pairs_line(comparison)),
            model.Block("notes", tuple(reasons)),
            _cases(comparison, places, number),
            nav=comparison.b,
        )
        if part is not None:
            sections.append(part)
    counts = (
        model.Counter(
            tr("dialogues in both") if first.suite == "dialogues" else tr("questions in both"), first.pairs
        ),
        model.Counter(tr("only in a"), first.only_a, "odd" if first.only_a else ""),
        model.Counter(tr("only in b"), first.only_b, "odd" if first.only_b else ""),
    )
    names = ", ".join(comparison.b for comparison in comparisons)
    return model.report(
        tr("MemFin comparison"),
        tr("{b} against {a}", a=first.a, b=names),
        [("a", first.a), ("b", names)],
        counts,
        sections,
    )


def _headings() -> tuple[str, ...]:
    return (tr("Value"), "a", "b", "b - a", tr("95 % interval"), tr("Up/down"), tr("Verdict"))


def _verdict(row: Sequence[str]) -> str:
    return tr("not measured") if row[-1] == "not_measured" else tr(VERDICTS[row[-1]][0])


def _warnings(comparison: Comparison) -> Iterator[model.ReportWarning]:
    if comparison.inputs_changed:
        changed = ", ".join(comparison.inputs_changed)
        yield model.ReportWarning(
            tr("The runs differ in more than what was evaluated"),
            tr("{inputs}; a difference may come from that.", inputs=changed),
        )
    for warning in comparison.warnings:
        yield model.ReportWarning(tr("Replies without content"), warning)


def _cases(comparison: Comparison, places: tuple[Path, Path], number: int) -> model.Cases | None:
    """Return the dialogues that changed most, at their first turn that differs, with both replies."""
    if comparison.suite != "dialogues":
        return None
    first: dict[str, ChangedCase] = {}
    for case in comparison.changed:
        if case.turn is not None:
            first.setdefault(case.id, case)
    shown = list(first.values())[:_MAX_SHOWN]
    wanted = {case.id: {case.turn} for case in shown if case.turn is not None}
    texts_a, texts_b = (reader.fetch_turns(run_directories(place)[-1], wanted) for place in places)
    cases: list[model.Case] = []
    for case in shown:
        a, b = (texts.get((case.id, case.turn or 0)) for texts in (texts_a, texts_b))
        if a is None or b is None:
            continue
        replies = tuple(
            (label, model.segments(turn.pred_assistant_text or tr("(no answer)"), (), _MAX_REPLY))
            for label, turn in ((comparison.a, a), (comparison.b, b))
        )
        change = f"{written(case.value, case.a)} → {written(case.value, case.b)}"
        cases.append(
            model.Case(
                anchor=f"case-{number}-{len(cases) + 1}",
                why=f"{tr('better') if case.change > 0 else tr('worse')}: {label(case.value)} {change}",
                id=visible(case.id),
                where=tr(", turn {turn}", turn=case.turn),
                question=visible(a.user_text),
                reply=None,
                beside=replies,
            )
        )
    if not cases:
        return None
    return model.Cases(
        title=tr("First turns that differ"),
        cases=tuple(cases),
        total=tr("in the dialogues that changed most"),
    )


def comparison_csv(comparisons: Sequence[Comparison]) -> str:
    """Return every value of every comparison as CSV with a heading, bounds of the interval included."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("baseline", "run", "value", *_CSV, "low", "high"))
    for each in comparisons:
        for name, value in each.values.items():
            writer.writerow(
                (each.a, each.b, name, *(value[field] for field in _CSV), *(value.ci95 or ("", "")))
            )
    return out.getvalue()


def comparison_latex(comparisons: Sequence[Comparison]) -> str:
    """Return the headline values as a LaTeX table for the package booktabs."""
    lines = [r"\begin{tabular}{lrrrrrl}", r"\toprule", _latex(_headings())]
    for each in comparisons:
        lines += [r"\midrule", rf"\multicolumn{{7}}{{l}}{{{_escaped(comparison_title(each))}}} \\"]
        rows = comparison_rows(each, all_values=False)
        lines += [_latex((*row[:-1], _verdict(row))) for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex(cells: Sequence[str]) -> str:
    return " & ".join(map(_escaped, cells)) + r" \\"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)
