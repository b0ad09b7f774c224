"""Tables for the terminal: the summary of a run, of a benchmark, and of two runs compared.

rich is imported by the functions that need it, so that a run without a table does not load it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from memfin.contracts import CorrectedValue, Corrections, EvalSummary, RunConfig
from memfin.contracts.rag import RagGroup, RagSummary
from memfin.contracts.run import Comparison
from memfin.language import marked, tr, tr_counted
from memfin.report import glossary
from memfin.report.common import agent_facts
from memfin.report.glossary import (
    ALL_METRICS,
    MARKS,
    TYPES,
    format_corrected,
    format_interval,
    format_value,
    is_quotable,
    is_score,
    labels,
)
from memfin.report.model import grouped, percent, points
from memfin.text.lines import one_line

if TYPE_CHECKING:
    from rich.table import Table

Styled = str | tuple[str | tuple[str, str], ...]
"""A cell: text, or pieces of text, each alone or with its style."""

MIN_WEIGHT: Final = 0.05
MIN_NARROWER: Final = 0.98
"""Limits of the detectors' weight and of the width against labels alone, beyond which they add nothing."""

VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
    "better": (marked("better"), "green"),
    "worse": (marked("worse"), "red"),
    "no_difference": (marked("same"), "dim"),
    "unknown": (marked("unknown"), "dim"),
    "not_measured": (marked("n/a"), "yellow"),
}
"""Words and styles of the outcomes of a comparison."""


def text_table(
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
    facts = [(tr("Dataset"), summary.dataset_path)]
    if settings is not None:
        facts = [*agent_facts(settings), *facts, (tr("Judge"), settings.judge)]
        if settings.shard is not None:
            facts.append((tr("Shard"), settings.shard))
    inputs = tr(", ").join(f"{name.lower()} {one_line(value, 200)}" for name, value in facts)
    counted = tr(
        "{valid_dialogs:,} of {total_dialogs:,} dialogues valid, {skipped_dialogs:,} skipped, "
        "{failed_dialogs:,} failed; {pairs}",
        pairs=tr_counted(counters.total_turn_pairs, marked("1 turn pair"), marked("{count:,} turn pairs")),
        **msgspec.structs.asdict(counters),
    )
    if counters.unscored_turn_pairs:
        counted += tr(", {count:,} of the dataset not scored", count=counters.unscored_turn_pairs)
    memory = summary.metrics.get("m1_context_continuity")
    if memory and (outside := memory.counts.get("contradictions_outside", 0)):
        line = tr("M1 Contradictions: {count:,} more on turns without required keys", count=outside)
        counted = f"{line}\n{counted}"
    headings = (
        *(tr("Metric"), tr("Micro"), tr("95 % interval"), tr("Macro")),
        *(tr("Eligible"), tr("Skipped"), tr("Failed")),
    )
    caption = "\n".join((*glossary.missing_lines(values), counted))
    title = tr("Run {run_id}: {inputs}", run_id=one_line(summary.run_id, 128), inputs=inputs)
    return text_table(title, caption, headings, rows)


class FieldAgreement(NamedTuple):
    """Agreement of readers on a field of labels; a measure is None where it is undefined.

    ``units`` counts the questions that two readers or more answered. Kappa is Cohen's over pairs of readers,
    alpha is Krippendorff's for nominal data; the interval of kappa is clustered by dialogue.
    """

    field: str
    units: int
    observed: float
    kappa: float | None
    kappa_bounds: tuple[float, float] | None
    alpha: float | None


def agreement_headings() -> tuple[str, ...]:
    """Return the headings of `agreement_row`."""
    return (
        *(tr("Label"), tr("Answered by both"), tr("Equal"), tr("Cohen's kappa"), tr("95 % interval")),
        tr("Krippendorff's alpha"),
    )


def agreement_row(found: FieldAgreement) -> tuple[str, ...]:
    """Return the agreement on a field in words and figures, with a dash for what is undefined."""
    kappa, alpha = ("–" if each is None else f"{each:.2f}" for each in (found.kappa, found.alpha))
    interval = "–"
    if found.kappa_bounds is not None:
        low, high = (f"{bound:.2f}" for bound in found.kappa_bounds)
        interval = tr("{low} to {high}", low=low, high=high)
    return field_words(found.field), f"{found.units:,}", percent(found.observed), kappa, interval, alpha


def field_words(field: str) -> str:
    """Return the words for a field of labels."""
    return {
        "compliance": tr("Compliance"),
        "contradiction": tr("Contradiction"),
        "forbidden_hits": tr("Forbidden claims"),
        "risk_tags": tr("Risk disclosures"),
        "rubric": tr("Explainability"),
    }[field]


def corrections_table(corrections: Corrections) -> "Table":
    """Return raw and corrected rates of a run, then those of its groups of dialogues with enough labels."""
    groups = {
        "": corrections.values,
        **{f"{tr('Scenario')} {name}": each for name, each in corrections.by_scenario.items()},
        **{f"{tr('Difficulty')} {name}": each for name, each in corrections.by_difficulty.items()},
    }
    rows = (
        (
            f"  {one_line(group, 60)}" if group else label(name, "dialogues"),
            *_corrected_cells(name, values[name]),
        )
        for name in corrections.values
        for group, values in groups.items()
        if name in values and (not group or values[name] is not None)
    )
    headings = (
        tr("Value"),
        tr("Raw"),
        tr("Corrected"),
        tr("95 % interval"),
        tr("Labels"),
        tr("Labels alone"),
    )
    title = tr("Run {run_id}: rates corrected by labels", run_id=one_line(corrections.run_id, 128))
    return text_table(title, "", headings, rows)


def _corrected_cells(name: str, found: CorrectedValue | None) -> tuple[str, ...]:
    if found is None:
        return ("-",) * 5
    return (
        format_value(name, found.raw),
        format_value(name, found.value),
        format_interval(name, found.ci95),
        f"{found.labels:,}",
        format_interval(name, found.alone_ci95),
    )


def correction_lines(corrections: Corrections) -> Iterator[str]:
    """Yield a line for each rate that the detectors add nothing to, and for each whose raw value is wrong."""
    for name, found in corrections.values.items():
        if found is None:
            continue
        (low, high), (low_alone, high_alone) = found.ci95, found.alone_ci95
        text, interval = label(name, "dialogues"), format_interval(name, found.ci95)
        if not is_quotable(found):
            yield tr(
                "{value}: do not quote the raw {raw}; {labels:,} labels make it {corrected} ({interval})",
                value=text,
                raw=format_value(name, found.raw),
                labels=found.labels,
                corrected=format_value(name, found.value),
                interval=interval,
            )
        if found.weight < MIN_WEIGHT or high - low > MIN_NARROWER * (high_alone - low_alone):
            yield tr(
                "{value}: labels alone are as good (interval {alone}; weight of the detectors {weight:.2f})",
                value=text,
                alone=format_interval(name, found.alone_ci95),
                weight=found.weight,
            )


def corrected_lines(summary: EvalSummary) -> Iterator[str]:
    """Yield a line for each corrected rate of a summary."""
    for name, found in (summary.corrected or {}).items():
        raw = f"{label(name, 'dialogues')} {format_value(name, found.raw)}"
        yield tr(", ").join((raw, format_corrected(name, found)))


def corrected_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield label, corrected values of a and b, difference, its interval and labels of every rate."""
    for name, value in comparison.values.items():
        if found := value.corrected:
            yield (
                label(name, "dialogues"),
                format_value(name, found.a.value),
                format_value(name, found.b.value),
                _change(name, found.difference, "dialogues"),
                _bounds(name, found.ci95, "dialogues"),
                f"{found.a.labels:,}/{found.b.labels:,}",
            )


def corrected_difference_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each difference of corrected rates, after one that says what they are."""
    for place, (text, a, b, difference, interval, used) in enumerate(corrected_rows(comparison)):
        if not place:
            yield tr("Corrected by labels; verdicts are those of the raw values:")
        yield tr(
            "  {value}: {a} to {b}, b - a {difference} ({interval}), {labels} labels",
            value=text,
            a=a,
            b=b,
            difference=difference,
            interval=interval,
            labels=used,
        )


def detector_lines(summary: EvalSummary) -> Iterator[str]:
    """Yield a line for each of the users' detectors of a run."""
    for name, result in (summary.detectors or {}).items():
        line = tr("fired in {count:,} of {total:,} replies", count=result.fired, total=result.replies)
        if result.ci95:
            interval = format_interval("key_coverage", result.ci95)
            line += tr(" (95 % interval {interval})", interval=interval)
        yield f"{name}: {line}"


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
        for title, group in (*groups, (tr("All"), total))
        if group.count
    )
    headings = (
        *(tr("Questions"), tr("Asked"), tr("Passed"), tr("Score"), tr("Of"), tr("Share")),
        tr("95 % interval"),
    )
    return text_table(tr("Run {run_id}", run_id=one_line(summary.run_id, 128)), "", headings, rows)


def baseline_lines(summary: RagSummary) -> Iterator[str]:
    """Yield a line for each baseline, with the system's differences to it overall and by type."""
    for name, baseline in (summary.baselines or {}).items():
        differences = baseline.difference_by_type
        types = ((text.title, differences[text.name]) for text in TYPES if text.name in differences)
        yield tr(
            "baseline {name}: {share:.1f} % of the score; difference {difference} points ({types})",
            name=name,
            share=baseline.overall_percentage,
            difference=points(baseline.difference),
            types=tr(", ").join(f"{title} {points(value)}" for title, value in types),
        )


def judge_line(summary: RagSummary) -> str | None:
    """Return a line with the mean marks of a judge, None for a run without one."""
    judged = summary.judge
    if judged is msgspec.UNSET:
        return None
    marks = []
    for name, title in labels("marks").items():
        mark = judged[name]
        shown = "-" if mark.mean is None else f"{mark.mean:.2f}"
        if mark.ci95 is not None:
            shown += f" ({format_interval('judge_score_mean', mark.ci95)})"
        marks.append(tr("{name} {mark} of 5", name=title.lower(), mark=shown))
    return tr(
        "judge {judge}: {marks}, on {done} of {asked} answers",
        judge=one_line(judged.judge, 80),
        marks=", ".join(marks),
        done=judged.asked - judged.failed,
        asked=judged.asked,
    )


def comparison_table(comparison: Comparison, *, all_values: bool = False) -> "Table":
    """Return the values of two runs as a table; without ``all_values`` those of the summary table."""
    headings = (tr("Value"), "a", "b", "b - a", tr("95 % interval"), tr("Up/down"), "")
    rows: list[tuple[Styled, ...]] = [
        (*cells[:4], ((cells[4], "dim"),), cells[5], ((tr(VERDICTS[cells[6]][0]), VERDICTS[cells[6]][1]),))
        for cells in comparison_rows(comparison, all_values=all_values)
    ]
    return text_table(comparison_title(comparison), pairs_line(comparison), headings, rows, width=20)


def comparison_title(comparison: Comparison) -> str:
    """Return the names of the two runs with the columns that they have in tables."""
    return tr("{b} (b) against {a} (a)", a=one_line(comparison.a, 60), b=one_line(comparison.b, 60))


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
            _bounds(name, value.ci95, comparison.suite),
            f"{value.improved}/{value.worsened}",
            value.verdict,
        )


def reasons_text(reasons: str) -> str:
    """Return the reasons why a value was not measured in run a, b or both."""
    sides = (part.partition(": ") for part in reasons.split("; "))
    return "; ".join(f"{side}: {tr(reason)}" for side, _, reason in sides)


def unmeasured_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line per reason why values of the table were not measured."""
    found: dict[str, list[str]] = {}
    for name, text in _shown(comparison, all_values=False):
        if name in comparison.not_measured:
            found.setdefault(comparison.not_measured[name], []).append(text)
    for reasons, names in found.items():
        values = tr(", ").join(names)
        yield tr("{value}: not measured, {reason}", value=values, reason=reasons_text(reasons))


def smallest_line(comparison: Comparison, names: Collection[str]) -> str:
    """Return the line with the smallest differences that the data shows in values of those names."""
    parts = [
        f"{text.partition(' ')[0] if text[0] == 'M' else text} "
        + (
            tr("none")
            if value.smallest is None
            else _change(name, value.smallest, comparison.suite).lstrip("+")
        )
        for name, text in _shown(comparison, all_values=False)
        if name in names and name in comparison.values
        for value in (comparison.values[name],)
    ]
    return tr("Smallest difference that this data shows: {values}", values=", ".join(parts))


def case_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for every case that changed most: those that are worse, then those that are better."""
    for heading, cases in (
        (tr("Worse:"), [case for case in comparison.changed if case.change < 0]),
        (tr("Better:"), [case for case in reversed(comparison.changed) if case.change > 0]),
    ):
        if cases:
            yield ""
            yield heading
        for case in cases:
            before, after = (written(case.value, each, comparison.suite) for each in (case.a, case.b))
            turn = "" if case.turn is None else "  " + tr("from turn {turn}", turn=case.turn)
            text = label(case.value, comparison.suite)
            yield f"  {one_line(case.id, 60)}  {text}  {before} -> {after}{turn}"


def _labels() -> dict[str, str]:
    """Return the labels of the values that a comparison shows, in order."""
    return (
        {"failed": tr("Failed"), "pass_k": "pass^k"}
        | {
            f"{metric.name}.{each.key}": f"{metric.code} {each.label}"
            for metric in ALL_METRICS
            for each in metric.values
        }
        | {"score": tr("All questions"), "pass_rate": tr("Questions passed")}
        | {f"{text.name}.score": text.title for text in TYPES}
        | {
            f"judge.{mark}": tr("Judge: {mark}", mark=title.lower())
            for mark, title in labels("marks").items()
        }
    )


def label(name: str, suite: str) -> str:
    """Return the label of a value; of an inspect_ai log, its name."""
    if suite == "samples":
        return tr("Failed") if name == "failed" else one_line(name, 60)
    metric, _, value = name.partition(".")
    codes = {metric.name: metric.code for metric in ALL_METRICS}
    return _labels().get(name) or f"{codes.get(metric, metric)} {glossary.value_label(value)}"


def _shown(comparison: Comparison, *, all_values: bool) -> Iterator[tuple[str, str]]:
    found = comparison.values.keys() | comparison.not_measured.keys()
    labels = _labels()
    if comparison.suite == "dialogues":
        labels |= {name: label(name, "dialogues") for name in sorted(found) if glossary.is_custom(name)}
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
    return 2 if is_score(value) or value in MARKS else None


def written(name: str, value: float, suite: str) -> str:
    """Write a value in its unit."""
    decimals = _decimals(name, suite)
    return percent(value) if decimals is None else f"{value:.{decimals}f}"


def _change(name: str, value: float, suite: str) -> str:
    decimals = _decimals(name, suite)
    number = round(value, 3 if decimals is None else decimals) + 0.0  # no -0.0
    sign = "+" if number else ""
    return f"{100 * number:{sign}.1f}" if decimals is None else f"{number:{sign}.{decimals}f}"


def _bounds(name: str, interval: tuple[float, float] | None, suite: str) -> str:
    if interval is None:
        return "-"
    low, high = (_change(name, bound, suite) for bound in interval)
    return tr("{low} to {high}", low=low, high=high)


def in_both(suite: str, count: int) -> str:
    """Return the words for so many dialogues, questions or samples in both runs."""
    if suite == "rag":
        return tr("question in both runs") if count == 1 else tr("questions in both runs")
    if suite == "samples":
        return tr("sample in both logs") if count == 1 else tr("samples in both logs")
    return tr("dialogue in both runs") if count == 1 else tr("dialogues in both runs")


def pairs_line(comparison: Comparison) -> str:
    """Return the number of dialogues or questions in both runs, and in one alone."""
    alone = [
        tr("{count:,} only in {run} left out", count=count, run=run)
        for run, count in (("a", comparison.only_a), ("b", comparison.only_b))
        if count
    ]
    repeated = [tr("k = {count} repeats", count=comparison.repeats)] if comparison.repeats else []
    paired = tr(", ").join(
        [f"{grouped(comparison.pairs)} {in_both(comparison.suite, comparison.pairs)}", *alone, *repeated]
    )
    return tr("{pairs}; up and down count what got better and what got worse", pairs=paired)
