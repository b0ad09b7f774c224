"""Validity report as text: tables of figures, and disagreements with their excerpts."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from memfin.contracts import BinaryScores, Disagreement, ValidityReport
from memfin.text.lines import one_line
from memfin.validity.stats import LABELS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_NOTHING: Final = "-"
_NAME: Final = 40

_COLUMNS: Final = ("prec.", "rec.", "F1", "95 % of F1", "kappa", "pos.", "rows")


def tables(report: ValidityReport) -> Iterator["RenderableType"]:
    """Yield the parts of a report for `rich.console.Console.print`, without those that have no labels.

    rich is imported here, since JSON output does not need it.
    """
    from rich.text import Text  # noqa: PLC0415 - loaded only when tables are wanted

    if (tags := report.risk_tags) is not None and tags.rows:
        table = _scores_table("Risk tags", tags.by_tag)
        cells = (_share(tags.micro_precision), _share(tags.micro_recall), _share(tags.micro_f1))
        table.add_row("micro", *cells, _bounds(tags.ci95.get("micro_f1")), "", "", str(tags.rows))
        table.add_row("macro", "", "", _share(tags.macro_f1), _bounds(tags.ci95.get("macro_f1")), "", "", "")
        yield table
    if (found := report.contradiction) is not None and found.rows:
        yield _scores_table("Contradicted constraints", {"contradiction": found}, total=False)
    if (labels := report.compliance) is not None and labels.rows:
        table = _scores_table("Compliance", labels.by_label)
        macro = (_share(labels.macro_f1), _bounds(labels.ci95.get("macro_f1")), _share(labels.kappa))
        table.add_row("macro", "", "", *macro, "", str(labels.rows))
        yield table
        yield Text(
            f"accuracy {_share(labels.accuracy)} ({_bounds(labels.ci95.get('accuracy'))}); "
            f"kappa {_share(labels.kappa)} ({_bounds(labels.ci95.get('kappa'))}); "
            f"always the most frequent label: {_share(labels.constant_accuracy)}; "
            f"wrongly called severe: {labels.severe_false_positives}"
        )
        yield _confusion_table(labels.confusion)
    if (forbidden := report.forbidden) is not None and forbidden.rows:
        table = _scores_table("Forbidden categories", forbidden.by_category)
        cells = (_share(forbidden.precision), _share(forbidden.recall), _share(forbidden.f1))
        table.add_row("all", *cells, _bounds(forbidden.ci95.get("f1")), "", "", str(forbidden.rows))
        yield table
        if forbidden.not_scored:
            others = ", ".join(f"{name} ({count})" for name, count in forbidden.not_scored.items())
            yield Text(f"found, but named by no label and not scored: {others}")
    if (rubric := report.rubric) is not None and rubric.rows:
        yield _rubric_table(rubric.by_item)
        yield Text(
            f"accuracy {_share(rubric.accuracy)} ({_bounds(rubric.ci95.get('accuracy'))}); "
            f"always the more frequent answer: {_share(rubric.constant_accuracy)}"
        )


def disagreement_text(found: Disagreement) -> str:
    """Return a disagreement as lines of text: its place, its values, and each rule with its excerpt."""
    lines = [
        f"{one_line(found.file, 200)}:{found.line} {one_line(found.id, 120)}",
        f"  {one_line(found.field, 120)}: labelled {_text_of(found.expected)}, found {_text_of(found.got)}",
    ]
    for span in found.spans:
        words, context = one_line(span.text, 200), one_line(span.context, 250)
        lines.append(f"    {span.rule} [{span.start}:{span.end}] {words!r} in {context!r}")
    if found.reason:
        lines.append(f"    judge: {one_line(found.reason, 300)}")
    return "\n".join(lines)


def _table(title: str, columns: tuple[str, ...]) -> "Table":
    from rich import box  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - the same

    table = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("", overflow="fold")
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _scores_table(title: str, scores: Mapping[str, BinaryScores], *, total: bool = True) -> "Table":
    table = _table(title, _COLUMNS)
    for name, each in scores.items():
        table.add_row(
            one_line(name, _NAME),
            _share(each.precision),
            _share(each.recall),
            _share(each.f1),
            _bounds(each.ci95.get("f1")),
            _share(each.kappa),
            str(each.support),
            str(each.rows),
            end_section=total and name == list(scores)[-1],
        )
    return table


def _rubric_table(scores: Mapping[str, BinaryScores]) -> "Table":
    table = _table("Rubric", ("accuracy", "95 %", "F1", "kappa", "constant", "pos.", "rows"))
    for name, each in scores.items():
        table.add_row(
            one_line(name, _NAME),
            _share(each.accuracy),
            _bounds(each.ci95.get("accuracy")),
            _share(each.f1),
            _share(each.kappa),
            _share(each.constant_accuracy),
            str(each.support),
            str(each.rows),
        )
    return table


def _confusion_table(confusion: Mapping[str, Mapping[str, int]]) -> "Table":
    table = _table("Labelled (rows) and found (columns)", LABELS)
    for expected in LABELS:
        table.add_row(expected, *(str(confusion[expected][got]) for got in LABELS))
    return table


def _share(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.3f}"


def _bounds(interval: tuple[float, float] | None) -> str:
    return _NOTHING if interval is None else f"{interval[0]:.3f}-{interval[1]:.3f}"


def _text_of(value: bool | int | str) -> str:
    if isinstance(value, str):
        return value
    return "yes" if value else "no"
