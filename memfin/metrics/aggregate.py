"""Metrics M1 to M5 and custom metrics of a run: one mergeable state, one summary, one byte form."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

import msgspec

from memfin.contracts import (
    TRACE_VERSION,
    Counters,
    Dialog,
    DialogTrace,
    EvalSummary,
    MetricResult,
    TurnEvalRow,
    is_variant,
)
from memfin.contracts.reading import check_trace_version
from memfin.metrics.clients import ClientState
from memfin.metrics.custom import CustomMetric, CustomState, custom_states
from memfin.metrics.detector_stats import DetectorStats
from memfin.metrics.m1_context import M1State
from memfin.metrics.m2_profile import M2State
from memfin.metrics.m3_risk import M3State
from memfin.metrics.m4_compliance import M4State
from memfin.metrics.m5_explainability import M5State
from memfin.metrics.memory import MemoryState, has_memory
from memfin.metrics.state import MetricState, RowState, read_row

PIECE: Final = 1_000
"""Dialogues of a metric that are encoded at a time."""


class MetricsState:
    """Mergeable states of all metrics; the size grows with the number of dialogues, not of turns."""

    def __init__(self, metrics: Mapping[str, CustomMetric] = MappingProxyType({})) -> None:
        """Begin with the states of some custom metrics; others come with the rows that have them."""
        self.m1 = M1State()
        self.m2 = M2State()
        self.m3 = M3State()
        self.m4 = M4State()
        self.m5 = M5State()
        self.custom = {
            name: CustomState(name, metric.blank(), metric.description()) for name, metric in metrics.items()
        }
        self.memory = MemoryState()
        self.clients: dict[str, str] = {}
        self.client = ClientState()
        self.detectors = DetectorStats()

    @property
    def own(self) -> tuple[MetricState[Any], ...]:
        """The states of MemFin's metrics in order, the last two of which only some runs have."""
        return self.m1, self.m2, self.m3, self.m4, self.m5, self.memory, self.client

    @property
    def states(self) -> tuple[MetricState[Any], ...]:
        """The states of the metrics in order."""
        some = [state for state in (self.memory, self.client) if state.is_there]
        return *self.own[:-2], *some, *(self.custom[name] for name in sorted(self.custom))

    def row_states(self, row: TurnEvalRow) -> list[RowState[Any]]:
        """Return the states that count a row."""
        memory = [self.memory] if has_memory(row) else []
        client = [] if row.client is msgspec.UNSET else [self.client]
        return [self.m1, self.m3, self.m4, self.m5, *memory, *client, *custom_states(row, self.custom)]

    @property
    def bad_rows(self) -> int:
        """The number of times that a metric of rows could not count one."""
        return sum(state.bad_rows for state in self.states if state is not self.m2)

    def add_row(self, row: TurnEvalRow | Mapping[str, Any]) -> None:
        """Count a turn_eval row in M1, M3, M4, M5 and its custom metrics; an invalid one is bad.

        Rows of perturbed variants do not count: the metrics are those of the dataset without them.
        """
        record = read_row(row)
        if record is not None and is_variant(record):
            return
        if record is not None:
            self.detectors.add(record)
        if record is None:
            for state in (self.m1, self.m3, self.m4, self.m5):
                state.count_bad()
        else:
            self.m2.add_probes(record)
            if record.client_id is not msgspec.UNSET:
                self.clients[record.dialog_id] = record.client_id
            for counting in self.row_states(record):
                counting.add_record(record)

    def add_rows(self, rows: Iterable[TurnEvalRow | Mapping[str, Any]]) -> None:
        """Count several rows."""
        for row in rows:
            self.add_row(row)

    def add_dialog(
        self, trace: DialogTrace | Mapping[str, Any], dialog: Dialog | Mapping[str, Any] | None
    ) -> None:
        """Count a dialogue in M2; see `M2State.add_dialog`. Perturbed variants do not count."""
        if trace.get("perturbation") is not None:
            return
        self.m2.add_dialog(trace, dialog)

    def merge(self, other: "MetricsState") -> None:
        """Add the counts of another state; the other stays unchanged."""
        self.m1.merge(other.m1)
        self.m2.merge(other.m2)
        self.m3.merge(other.m3)
        self.m4.merge(other.m4)
        self.m5.merge(other.m5)
        self.memory.merge(other.memory)
        self.clients |= other.clients
        self.client.merge(other.client)
        for name, state in other.custom.items():
            self.custom.setdefault(name, state.new()).merge(state)
        self.detectors.merge(other.detectors)

    def results(self) -> dict[str, MetricResult]:
        """Return the result of each metric by its name, in order."""
        return {state.name: state.result(self.clients) for state in self.states}

    def summary(
        self,
        run_id: str,
        dataset_path: str,
        counters: Counters | Mapping[str, int],
        fingerprint: str | None = None,
        *,
        trace_version: str = TRACE_VERSION,
    ) -> EvalSummary:
        """Return the summary so far; ``fingerprint`` becomes its ``config_fingerprint``."""
        summary = aggregate_all_metrics(
            run_id, dataset_path, self.results(), counters, fingerprint, trace_version=trace_version
        )
        return summary.replace(detectors=self.detectors.results())


def aggregate_all_metrics(
    run_id: str,
    dataset_path: str,
    metrics: Mapping[str, MetricResult],
    counters: Counters | Mapping[str, int],
    config_fingerprint: str | None = None,
    *,
    trace_version: str = TRACE_VERSION,
) -> EvalSummary:
    """Return the summary of the metrics of a run (metrics contract section 7).

    ``trace_version`` is that of the rows and traces they were computed from.

    Raises:
        UnsupportedTraceVersion: when ``trace_version`` is neither ``v1`` nor a ``v1.x``.
        msgspec.ValidationError: when ``counters`` is plain data that does not fit `Counters`.
    """
    check_trace_version(trace_version)
    return EvalSummary(
        run_id=run_id,
        trace_version=trace_version,
        dataset_path=dataset_path,
        metrics=dict(metrics),
        counters=counters if isinstance(counters, Counters) else msgspec.convert(dict(counters), Counters),
        config_fingerprint=config_fingerprint,
    )


def encode_summary(summary: EvalSummary) -> bytes:
    """Return a summary as the bytes of ``metrics_summary.json``: UTF-8, indented by 2, one final line end.

    Equal summaries give equal bytes.

    Raises:
        msgspec.ValidationError: when a value is NaN or infinite, which JSON cannot hold.
    """
    return b"".join(summary_pieces(summary))


def summary_pieces(summary: EvalSummary) -> Iterator[bytes]:
    """Return the bytes of `encode_summary` in pieces: those of many dialogues are long.

    Raises:
        msgspec.ValidationError: at once, when a value is NaN or infinite.
    """
    # The encoder would write such numbers as null.
    for name, metric in summary.metrics.items():
        for place, value in _numbers(metric):
            if not isfinite(value):
                raise msgspec.ValidationError(f"{value} is no JSON number - at `$.metrics.{name}.{place}`")
    return _pieces(summary)


def _pieces(summary: EvalSummary) -> Iterator[bytes]:
    frame = _indented(msgspec.structs.replace(summary, metrics={}))
    head, empty, tail = frame.partition(b'\n  "metrics": {}')
    yield head + empty[:-1]
    separator = b""
    for name, metric in summary.metrics.items():
        # A line break stands between values only: within a JSON string it is escaped.
        lines = _indented({name: msgspec.structs.replace(metric, by_dialog={})})
        before, key, after = lines.removeprefix(b"{").removesuffix(b"\n}").partition(b'"by_dialog": {}')
        yield separator + (before + key[:-1]).replace(b"\n", b"\n  ")
        yield from _by_dialog(metric.by_dialog)
        yield (b"}" + after).replace(b"\n", b"\n  ")
        separator = b","
    yield (b"\n  }" if summary.metrics else b"}") + tail + b"\n"


def _by_dialog(by_dialog: Mapping[str, Mapping[str, float]]) -> Iterator[bytes]:
    """Yield the entries of some dialogues at a time, indented as within a metric of the summary."""
    items, separator = iter(by_dialog.items()), b""
    while some := dict(islice(items, PIECE)):
        lines = _indented(some).removeprefix(b"{").removesuffix(b"\n}")
        yield separator + lines.replace(b"\n", b"\n      ")
        separator = b","
    if by_dialog:
        yield b"\n      "


def _indented(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _numbers(metric: MetricResult) -> Iterator[tuple[str, float]]:
    """Yield every number of a result that may be a fraction, with its place."""
    for place, values in (("micro", metric.micro), ("macro", metric.macro)):
        for key, value in values.items():
            yield f"{place}.{key}", value
    for dialog_id, values in metric.by_dialog.items():
        for key, value in values.items():
            yield f"by_dialog.{dialog_id}.{key}", value
    for key, bounds in metric.ci95.items():
        for value in bounds:
            yield f"ci95.{key}", value
