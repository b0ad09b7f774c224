"""What the report of a soak shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from memfin.contracts.run import Suite
from memfin.contracts.soak import Drift, SoakEpoch, SoakSummary
from memfin.report.glossary import METRICS, SCORES
from memfin.report.model import Caution
from memfin.report.templates import milliseconds

Unit = Literal["share", "percent", "score", "ms", "bytes", "count", "number"]

_MIB: Final = 1 << 20
RAG: Final = "rag"
"""What the names of a benchmark's values begin with."""

_NAMES: Final = frozenset(metric.name for metric in METRICS)

OPERATION: Final[dict[str, tuple[str, Unit]]] = {
    "error_rate": ("{units} that failed", "share"),
    "turn_latency_p50_ms": ("{unit} latency, median", "ms"),
    "turn_latency_p99_ms": ("{unit} latency, 99th percentile", "ms"),
    "loop_lag_p99_ms": ("Event-loop lag, 99th percentile", "ms"),
    "rss_bytes": ("Resident memory", "bytes"),
    "open_files": ("Open files", "count"),
    "threads": ("Threads", "count"),
    "tasks": ("Tasks of the event loop", "count"),
}
"""What tells how the runtime and the machine fare: labels with the words of the suite, units."""


class SoakWords(NamedTuple):
    """What a suite asks: words for one and for several; ``wholes`` are what turns make up, if anything."""

    unit: str
    units: str
    wholes: str | None
    system: str
    source: str


WORDS: Final[Mapping[Suite, SoakWords]] = {
    "dialog": SoakWords("turn", "turns", "dialogues", "Agent", "Data set"),
    "rag": SoakWords("question", "questions", None, "System", "Benchmark"),
}


def unit_of(metric: str, value: str) -> Unit:
    """Return the unit of a metric's value; a metric that the glossary does not know is a plain number."""
    if metric == RAG:
        return "percent" if value.endswith("percentage") else "share"
    if metric not in _NAMES:
        return "number"
    return "score" if value in SCORES else "share"


def in_unit(unit: Unit, value: float) -> str:
    """Write a value as a reader would."""
    match unit:
        case "share" | "percent":
            return f"{value * (100 if unit == 'share' else 1):.1f} %"
        case "score":
            return f"{value:.2f}"
        case "ms":
            return milliseconds(value)
        case "bytes":
            return f"{value / _MIB:.1f} MiB"
        case "count":
            return f"{value:.0f}"
    return f"{value:.4g}"


def change_in_unit(unit: Unit, value: float) -> str:
    """Write a change with its sign; shares and percentages change by percentage points."""
    scale, name = {
        "share": (100, " pp"),
        "percent": (1, " pp"),
        "ms": (1, " ms"),
        "bytes": (1 / _MIB, " MiB"),
    }.get(unit, (1, ""))
    scaled = value * scale
    return "0" if scaled == 0 else f"{scaled:+.3g}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendRow:
    """A value over epochs."""

    label: str
    unit: Unit
    drift: Drift

    @property
    def slope(self) -> str:
        """The change an epoch, with its 95 % interval where there is one."""
        drift = self.drift
        if drift.ci95 is None:
            return change_in_unit(self.unit, drift.slope)
        low, high = (change_in_unit(self.unit, bound) for bound in drift.ci95)
        return f"{change_in_unit(self.unit, drift.slope)} ({low} to {high})"

    def worded(self, value: float) -> str:
        """Write one of the row's values."""
        return in_unit(self.unit, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendTable:
    """Values that belong together."""

    title: str
    rows: list[TrendRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Values of one unit over epochs, to be drawn: points of (epoch, value) by label.

    ``thinned`` is how many epochs each point is the mean of.
    """

    name: str
    title: str
    unit: Unit
    lines: dict[str, list[tuple[int, float]]]
    thinned: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakReportModel:
    """A soak's report; ``epochs`` are the last ones, ``omitted`` is how many come before."""

    summary: SoakSummary
    words: SoakWords
    agent: str
    dataset: str
    cautions: list[Caution]
    metrics: list[TrendTable]
    operation: TrendTable
    courses: list[Course]
    epochs: list[SoakEpoch]
    omitted: int
