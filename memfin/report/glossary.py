"""Labels and explanations of metrics and scores, and the warnings, from ``data/templates/report.toml``."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import msgspec

from memfin.contracts import HEURISTIC_JUDGE, NO_JUDGE, CorrectedValue
from memfin.language import marked, tr
from memfin.report.model import Interval, Pairs, ReportWarning, grouped, percent
from memfin.report.reader import Figures
from memfin.text.lines import one_line


class ValueText(msgspec.Struct, frozen=True):
    """A value of a metric; ``denominator`` is the count that it is divided by.

    A ``share`` of 0 to 1 is written as per cent, a ``score`` is a mark of 1 to 5.
    """

    key: str
    label_text: str = msgspec.field(name="label")
    meaning_text: str = msgspec.field(name="meaning")
    better: Literal["higher", "lower"] = "higher"
    scale: Literal["share", "score"] = "share"
    denominator: str = "eligible_count"

    @property
    def label(self) -> str:
        """Return the name for readers."""
        return tr(self.label_text)

    @property
    def meaning(self) -> str:
        """Return a phrase that explains the value."""
        return tr(self.meaning_text)

    def is_bad(self, measured: float | None) -> bool:
        """Return True for a value above 0 that should be 0."""
        return self.better == "lower" and self.scale == "share" and bool(measured)


class _Titled(msgspec.Struct, frozen=True, kw_only=True):
    """Texts with a title and an explanation, in the language of the context."""

    title_text: str = msgspec.field(name="title")
    meaning_text: str = msgspec.field(name="meaning")

    @property
    def title(self) -> str:
        """Return the name for readers."""
        return tr(self.title_text)

    @property
    def meaning(self) -> str:
        """Return the explanation."""
        return tr(self.meaning_text)


class MetricText(_Titled, frozen=True, kw_only=True):
    """One metric; ``lead`` is the value that reports show first, of none the first of ``values``."""

    name: str
    code: str
    values: tuple[ValueText, ...]
    lead: str = ""

    def values_of(self, judge: str | None) -> list[ValueText]:
        """Return the values; of a run without a language model as the judge not its score."""
        judged = judge not in (NO_JUDGE, HEURISTIC_JUDGE)
        return [value for value in self.values if judged or value.key != "judge_score_mean"]

    @property
    def headline(self) -> ValueText:
        """Return the value that stands for the metric in comparisons: the first that should be high."""
        return next(value for value in self.values if value.better == "higher")


class TypeText(_Titled, frozen=True, kw_only=True):
    """A type of benchmark question; ``parts`` of its score have a name, a label and a weight."""

    name: str
    part_texts: tuple[tuple[str, str, float], ...] = msgspec.field(name="parts")

    @property
    def parts(self) -> tuple[tuple[str, str, float], ...]:
        """Return the parts with their names for readers."""
        return tuple((name, tr(label), weight) for name, label, weight in self.part_texts)


class MetricRow(NamedTuple):
    """A value of a summary; without a value ``missing`` is the reason."""

    text: MetricText
    value: ValueText
    micro: float | None
    macro: float | None
    interval: Interval | None
    missing: str | None
    counts: tuple[str, ...]


class _Warning(msgspec.Struct):
    title: str
    text: str
    level: Literal["warning", "note"] = "warning"


class _Glossary(msgspec.Struct):
    warnings: dict[str, _Warning]
    metrics: tuple[MetricText, ...]
    memory: MetricText
    client: MetricText
    types: tuple[TypeText, ...]
    labels: dict[str, dict[str, str]]
    notes: dict[str, dict[str, str]]


_GLOSSARY: Final = msgspec.toml.decode(
    (files("memfin") / "data" / "templates" / "report.toml").read_text("utf-8"), type=_Glossary
)
METRICS: Final = _GLOSSARY.metrics
ALL_METRICS: Final = (*METRICS, _GLOSSARY.memory, _GLOSSARY.client)
"""MemFin's metrics with those of facts and probes, and of simulated clients, which only some runs have."""

TYPES: Final = _GLOSSARY.types
MARKS: Final = tuple(_GLOSSARY.labels["marks"])
"""Names of a judge's marks for answers of a benchmark."""

NOT_MEASURED: Final = marked("not measured")
MARK_SCALE: Final = (1.0, 5.0)
VALUE_LABELS: Final = {value.key: value.label_text for metric in ALL_METRICS for value in metric.values}
_DENOMINATORS: Final = {value.key: value.denominator for metric in ALL_METRICS for value in metric.values}


def is_score(key: str) -> bool:
    """Return True for a value that is a mean of marks or measurements, and not a share."""
    return key.endswith("mean")


def is_custom(name: str) -> bool:
    """Return True if ``metric.value`` of a run of dialogues is a value of a custom metric."""
    return "." in name and name.partition(".")[0] not in {metric.name for metric in ALL_METRICS}


def texts_of(metrics: Mapping[str, Figures]) -> Iterator[MetricText]:
    """Yield the texts of MemFin's metrics, and of the custom ones among results."""
    yield from (text for text in ALL_METRICS if text in METRICS or text.name in metrics)
    for name, figures in metrics.items():
        if figures.lower_is_better is not msgspec.UNSET:
            values = tuple(
                ValueText(
                    key,
                    label_text=value_label(key),
                    meaning_text=figures.description or "",
                    better="lower" if figures.lower_is_better else "higher",
                    scale="score" if is_score(key) else "share",
                )
                for key in figures.micro
            )
            yield MetricText(
                name=name,
                code=name,
                values=values,
                title_text=marked("Custom metric"),
                meaning_text=figures.description or "",
            )


def labels(kind: str) -> dict[str, str]:
    """Return the labels of one kind, by the names in artifacts."""
    return {name: tr(label) for name, label in _GLOSSARY.labels[kind].items()}


def value_label(key: str) -> str:
    """Return the label of a value or count of a metric; a name that the glossary lacks in plain words."""
    label = VALUE_LABELS.get(key) or _GLOSSARY.labels["values"].get(key)
    return tr(label) if label else one_line(key, 80).replace("_", " ").capitalize()


def word(code: str) -> str:
    """Write a label, tag or category, such as ``severe_violation``, in words."""
    return tr(_GLOSSARY.labels["codes"].get(code, "")) or one_line(code, 120).replace("_", " ")


def notes(kind: str) -> Pairs:
    """Return explanations for the end of a report: ``dialog``, ``rag``, or ``rag_judge`` with a judge."""
    return tuple((tr(title), tr(text)) for title, text in _GLOSSARY.notes[kind].items())


def warning(name: str, /, level: Literal["warning", "note"] | None = None, **values: Any) -> ReportWarning:
    """Return a warning of ``report.toml`` with its fields filled in."""
    words = _GLOSSARY.warnings[name]
    return ReportWarning(tr(words.title, **values), tr(words.text, **values), level or words.level)


def missing(key: str, figures: Figures) -> str | None:
    """Return why a value was not measured, None for one that was; its 0 says nothing about the agent."""
    of = figures.counts.get(_DENOMINATORS.get(key, ""), figures.counts.get("eligible_count", 0))
    if not of or key not in figures.micro:
        return tr(figures.not_measured.get(key, marked("nothing to measure")))
    reason = figures.not_measured.get(key)
    return None if reason is None else tr(reason)


def measured(key: str, figures: Figures) -> tuple[float | None, float | None, Interval | None]:
    """Return the micro value, the macro value and the interval, None for what was not measured."""
    if missing(key, figures) is not None:
        return None, None, None
    return figures.micro.get(key), figures.macro.get(key), figures.ci95.get(key)


def shown_values(text: MetricText, figures: Figures, judge: str | None = None) -> list[ValueText]:
    """Return the values that a summary has, the leading one first.

    Runs of earlier versions lack what the leading value needs; it comes second there.
    """
    shown = [value for value in text.values_of(judge) if value.key in figures.micro]
    eligible = figures.counts.get("eligible_count")
    lacks = bool(eligible) and not figures.counts.get(_DENOMINATORS.get(text.lead, ""), 1)
    return sorted(shown or text.values[:1], key=lambda value: value.key != text.lead or lacks)


def metric_rows(metrics: Mapping[str, Figures], judge: str | None = None) -> Iterator[MetricRow]:
    """Yield the values of a summary; ``counts`` stand beside the first of a metric."""
    for text in texts_of(metrics):
        if (figures := metrics.get(text.name)) is None:
            continue
        counts = (figures.counts.get(f"{kind}_count", 0) for kind in ("eligible", "skipped", "failed"))
        for place, value in enumerate(shown_values(text, figures, judge)):
            shown = ("", "", "") if place else tuple(map(grouped, counts))
            yield MetricRow(text, value, *measured(value.key, figures), missing(value.key, figures), shown)


def missing_lines(rows: Iterable[MetricRow]) -> Iterator[str]:
    """Yield a line per reason why values of a metric were not measured; one where none of them was."""
    for code, group in groupby(rows, key=lambda row: row.text.code):
        of_metric = list(group)
        reasons: dict[str, list[str]] = {}
        for row in of_metric:
            if row.missing is not None:
                reasons.setdefault(row.missing, []).append(row.value.label)
        if all(row.missing for row in of_metric):
            yield tr("{value}: not measured, {reason}", value=code, reason=of_metric[0].missing)
        else:
            for why, of in reasons.items():
                value = f"{code} {tr(', ').join(of)}"
                yield tr("{value}: not measured, {reason}", value=value, reason=why)


def format_value(key: str, value: float | None) -> str:
    """Write a value of a summary: per cent, or judge scores with two decimals; None as a dash."""
    if value is None:
        return "-"
    return f"{value:.2f}" if is_score(key) else percent(value)


def format_estimate(key: str, value: float | None, bounds: tuple[float, float] | None) -> str:
    """Write a value and, in brackets, its confidence interval."""
    return format_value(key, value) + ("" if bounds is None else f" ({format_interval(key, bounds)})")


def format_corrected(key: str, found: CorrectedValue | None) -> str:
    """Write a rate as labels correct it, with its interval and their number; nothing without labels."""
    if found is None:
        return ""
    text = tr(
        "corrected: {value} ({interval}), {labels:,} labels",
        value=format_value(key, found.value),
        interval=format_interval(key, found.ci95),
        labels=found.labels,
    )
    return text if is_quotable(found) else tr("{corrected}; do not quote the raw value", corrected=text)


def is_quotable(found: CorrectedValue) -> bool:
    """Return True for a raw rate within the interval of the corrected one."""
    return found.ci95[0] <= found.raw <= found.ci95[1]


def format_interval(key: str, bounds: tuple[float, float] | None) -> str:
    """Write a confidence interval in the unit of its value; a dash when there is none."""
    if bounds is None:
        return "-"
    low, high = bounds
    if is_score(key):
        return tr("{low:.2f} to {high:.2f}", low=low, high=high)
    return tr("{low:.1f} to {high:.1f} %", low=100 * low, high=100 * high)
