"""Comparisons as a report (HTML and Markdown), as CSV, and as a LaTeX table."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from memfin.contracts.run import ChangedCase, Comparison
from memfin.language import tr
from memfin.report import inspect_log, model, reader
from memfin.report.comparison import FAILED, headlines, run_directories
from memfin.report.tables import (
    VERDICTS,
    comparison_rows,
    comparison_title,
    corrected_rows,
    in_both,
    label,
    pairs_line,
    reasons_text,
    smallest_line,
    written,
)
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
            (tr("{value} is not measured", value=label(name, comparison.suite)), reasons_text(reason))
            for name, reason in comparison.not_measured.items()
            if name in headlines(comparison.suite, comparison.not_measured)
        ]
        part = model.section(
            f"run-{number}",
            title,
            model.Block("warnings", tuple(_warnings(comparison))),
            model.table("", _headings(), "lrrrrrl", rows, pairs_line(comparison)),
            model.Block(
                "text", note=smallest_line(comparison, headlines(comparison.suite, comparison.values))
            ),
            _corrected(comparison),
            model.Block("notes", tuple(reasons)),
            _cases(comparison, places, number),
            nav=comparison.b,
        )
        if part is not None:
            sections.append(part)
    counts = (
        model.Counter(in_both(first.suite, first.pairs), first.pairs),
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


def _corrected(comparison: Comparison) -> model.Table | None:
    """Return the table of corrected rates, None unless both runs have labels."""
    rows = list(corrected_rows(comparison))
    note = tr("The interval is that of the difference. Verdicts are those of the raw values.")
    headings = (*_headings()[:5], tr("Labels"))
    return model.table(tr("Corrected by labels"), headings, "lrrrrr", rows, note) if rows else None


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
        yield model.ReportWarning(tr("Limits of a run"), warning)


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
            (name, model.segments(text or tr("(no answer)"), (), _MAX_REPLY))
            for name, text in zip((comparison.a, comparison.b), texts, strict=True)
        )
        before, after = (written(case.value, each, comparison.suite) for each in (case.a, case.b))
        change = f"{label(case.value, comparison.suite)} {before} → {after}"
        cases.append(
            model.Case(
                anchor=f"case-{number}-{len(cases) + 1}",
                why=f"{tr('better') if case.change > 0 else tr('worse')}: {change}",
                id=visible(case.id),
                where=where,
                question=visible(question),
                reply=None,
                beside=replies,
            )
        )
    if not cases:
        return None
    title = tr("Samples that changed most") if sampled else tr("First turns that differ")
    total = tr("in their first epoch that differs") if sampled else tr("in the dialogues that changed most")
    return model.Cases(title=title, cases=tuple(cases), total=total)


_Texts = dict[str, tuple[str, str, str | None, str | None]]
"""Place, question and both replies of a case, by its id."""


def _turns(shown: Sequence[ChangedCase], places: tuple[Path, Path]) -> _Texts:
    found: _Texts = {}
    directories = [run_directories(place) for place in places]
    repeated = all(len(runs) > 1 for runs in directories)
    for epoch in sorted({case.epoch for case in shown}):
        wanted = {case.id: {case.turn} for case in shown if case.turn is not None and case.epoch == epoch}
        texts_a, texts_b = (reader.fetch_turns(runs[epoch - 1], wanted) for runs in directories)
        for key in texts_a.keys() & texts_b.keys():
            a, b = texts_a[key], texts_b[key]
            where = tr(", epoch {epoch}", epoch=epoch) if repeated else ""
            where += tr(", turn {turn}", turn=key[1])
            found[key[0]] = where, a.user_text, a.pred_assistant_text, b.pred_assistant_text
    return found


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
        name: (tr(", epoch {epoch}", epoch=epoch), a.question[:_MAX_REPLY], a.reply, b.reply)
        for (name, epoch), a, b in zip(epochs.items(), *texts, strict=True)
    }


def comparison_csv(comparisons: Sequence[Comparison]) -> str:
    """Return every value of every comparison as CSV with a heading, bounds of the interval included."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("baseline", "run", "value", *_CSV, "low", "high"))
    for each in comparisons:
        for name in each.not_measured:
            writer.writerow(
                (each.a, each.b, name, "", "", "", "not_measured", *[""] * (len(_CSV) - 4), "", "")
            )
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
