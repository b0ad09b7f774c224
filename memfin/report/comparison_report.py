"""Comparisons as a report (HTML and Markdown), as CSV, and as a LaTeX table."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from memfin.contracts.run import ChangedCase, Comparison
from memfin.report import inspect_log, model, reader
from memfin.report.comparison import FAILED, headlines, run_directories
from memfin.report.tables import VERDICTS, comparison_rows, label, pairs_line, written
from memfin.text.lines import visible

_MAX_SHOWN: Final = 8
_MAX_REPLY: Final = 4000
_UNITS: Final = {"dialogues": "dialogues", "rag": "questions", "samples": "samples"}
_HEADINGS: Final = ("Value", "a", "b", "b - a", "95 % interval", "Up/down", "Verdict")
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
        title = f"{comparison.b} against {comparison.a}"
        rows = [(*row[:-1], _verdict(row)) for row in comparison_rows(comparison, all_values=False)]
        reasons = [
            (f"{label(name, comparison.suite)} is not measured", reason)
            for name, reason in comparison.not_measured.items()
            if name in headlines(comparison.suite, comparison.not_measured)
        ]
        part = model.section(
            title,
            model.Block("warnings", tuple(_warnings(comparison))),
            model.table("", _HEADINGS, "lrrrrrl", rows, pairs_line(comparison)),
            model.Block("notes", tuple(reasons)),
            _cases(comparison, places, number),
            nav=comparison.b,
        )
        if part is not None:
            sections.append(part)
    counts = (
        model.Counter(f"{_UNITS[first.suite]} in both", first.pairs),
        model.Counter("only in a", first.only_a, "odd" if first.only_a else ""),
        model.Counter("only in b", first.only_b, "odd" if first.only_b else ""),
    )
    names = ", ".join(comparison.b for comparison in comparisons)
    return model.report(
        "comparison", f"{names} against {first.a}", [("a", first.a), ("b", names)], counts, sections
    )


def _verdict(row: Sequence[str]) -> str:
    return "not measured" if row[-1] == "not_measured" else VERDICTS[row[-1]][0]


def _warnings(comparison: Comparison) -> Iterator[model.ReportWarning]:
    if comparison.inputs_changed:
        changed = ", ".join(comparison.inputs_changed)
        yield model.ReportWarning(
            "The runs differ in more than what was evaluated", f"{changed}; a difference may come from that."
        )
    for warning in comparison.warnings:
        title = "Limits of a log" if comparison.suite == "samples" else "Replies without content"
        yield model.ReportWarning(title, warning)


def _cases(comparison: Comparison, places: tuple[Path, Path], number: int) -> model.Cases | None:
    """Return the cases that changed most, with both replies at the first turn or epoch that differs."""
    if comparison.suite == "rag":
        return None
    sampled = comparison.suite == "samples"
    first: dict[str, ChangedCase] = {}
    for case in comparison.changed:
        if sampled or case.turn is not None:
            first.setdefault(case.id, case)
    shown = list(first.values())[:_MAX_SHOWN]
    found = (_samples if sampled else _turns)(shown, places)
    cases: list[model.Case] = []
    for case in shown:
        if case.id not in found:
            continue
        where, question, *texts = found[case.id]
        replies = tuple(
            (name, model.segments(text or "(no answer)", (), _MAX_REPLY))
            for name, text in zip((comparison.a, comparison.b), texts, strict=True)
        )
        before, after = (written(case.value, each, comparison.suite) for each in (case.a, case.b))
        change = f"{label(case.value, comparison.suite)} {before} → {after}"
        cases.append(
            model.Case(
                anchor=f"case-{number}-{len(cases) + 1}",
                why=f"{'better' if case.change > 0 else 'worse'}: {change}",
                id=visible(case.id),
                where=where,
                question=visible(question),
                reply=None,
                beside=replies,
            )
        )
    if not cases:
        return None
    title = "Samples that changed most" if sampled else "First turns that differ"
    total = "in their first epoch that differs" if sampled else "in the dialogues that changed most"
    return model.Cases(title=title, cases=tuple(cases), total=total)


_Texts = dict[str, tuple[str, str, str | None, str | None]]
"""Place, question and both replies of a case, by its id."""


def _turns(shown: Sequence[ChangedCase], places: tuple[Path, Path]) -> _Texts:
    wanted = {case.id: {case.turn} for case in shown if case.turn is not None}
    texts = [reader.fetch_turns(run_directories(place)[-1], wanted) for place in places]
    keys = [key for key in texts[0] if key in texts[1]]
    return {
        key[0]: (f", turn {key[1]}", a.user_text, a.pred_assistant_text, b.pred_assistant_text)
        for key in keys
        for a, b in ((texts[0][key], texts[1][key]),)
    }


def _samples(shown: Sequence[ChangedCase], places: tuple[Path, Path]) -> _Texts:
    logs = [inspect_log.read_log(place, FAILED) for place in places]
    epochs: dict[str, int] = {}
    for case in shown:
        a, b = (log.values[case.value] for log in logs)
        differing = (unit[1] for unit in sorted(a) if unit[0] == case.id and b.get(unit, a[unit]) != a[unit])
        epochs[case.id] = next(differing)
    texts = [
        inspect_log.read_replies(place, [(log.ids[name], epoch) for name, epoch in epochs.items()])
        for log, place in zip(logs, places, strict=True)
    ]
    return {
        name: (f", epoch {epoch}", a.question[:_MAX_REPLY], a.reply, b.reply)
        for (name, epoch), a, b in zip(epochs.items(), *texts, strict=True)
    }


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
    lines = [r"\begin{tabular}{lrrrrrl}", r"\toprule", _latex(_HEADINGS)]
    for each in comparisons:
        lines += [r"\midrule", rf"\multicolumn{{7}}{{l}}{{{_escaped(f'{each.b} against {each.a}')}}} \\"]
        rows = comparison_rows(each, all_values=False)
        lines += [_latex((*row[:-1], _verdict(row))) for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex(cells: Sequence[str]) -> str:
    return " & ".join(map(_escaped, cells)) + r" \\"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)
