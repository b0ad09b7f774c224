"""Metrics of a soak for Prometheus, on loopback."""

import math
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

import msgspec
from aiohttp import web
from anyio.from_thread import start_blocking_portal
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from memfin.contracts import DialogDone, ProgressEvent, QuestionDone, TurnDone
from memfin.contracts.soak import ProcessSample, SoakEpoch, SoakSummary
from memfin.errors import UsageError
from memfin.hosting import HostCheck, listening, metrics_answer

HOST: Final = "127.0.0.1"
PREFIX: Final = "memfin_soak_"
BUCKETS: Final = (1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, math.inf)
"""Upper bounds of the latency histogram, in seconds."""

COUNTERS: Final = {
    "epochs": ("Epochs that are complete",),
    "turns": ("Turns by status", "status"),
    "dialogs": ("Dialogues by status, skipped lines too", "status"),
    "errors": ("Errors of complete epochs by kind; timeouts are among the failed turns", "kind"),
    "judged_turns": ("Turns of complete epochs that were sent to the judge",),
}
GAUGES: Final = {
    "metric": ("Headline values of the last complete epoch", "metric"),
    "metric_drifting": ("1 where a headline value drifts over the epochs", "metric"),
    "loop_lag_seconds": ("Lag of the event loop in the last complete epoch", "quantile"),
    "rss_bytes": ("Resident memory",),
    "open_files": ("Open file descriptors",),
    "threads": ("Threads",),
    "tasks": ("Tasks of the event loop",),
}
"""Descriptions and labels by name; the gauges of the process are called as the fields of `ProcessSample`."""


class SoakExporter:
    """Prometheus exporter of a soak: a listener that serves its counts; use as a context manager.

    It counts in this process only: like every counter that Prometheus reads, it begins anew with a
    restart. The server has an event loop of its own in a thread and answers while that of the soak is busy.

    Attributes:
        address: where the metrics are, once it serves.
    """

    def __init__(self, port: int) -> None:
        """Prepare to serve on a port of loopback, 0 for a free one."""
        self._port = port
        self.address = ""
        self._registry = registry = CollectorRegistry()
        self._counters = {
            name: Counter(PREFIX + name, text, labels, registry=registry)
            for name, (text, *labels) in COUNTERS.items()
        }
        self._gauges = {
            name: Gauge(PREFIX + name, text, labels, registry=registry)
            for name, (text, *labels) in GAUGES.items()
        }
        latency, text = f"{PREFIX}turn_latency_seconds", "Latency of the answered turns"
        self._latency = Histogram(latency, text, buckets=BUCKETS, registry=registry)

    def __enter__(self) -> Self:
        """Serve.

        Raises:
            UsageError: the port is in use or may not be taken.
        """
        app = web.Application(middlewares=[HostCheck(HOST).middleware(_refusal)])
        app.router.add_get("/metrics", self._metrics)
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            serving = portal.wrap_async_context_manager(listening(app, "metrics", HOST, self._port))
            try:
                url = stack.enter_context(serving)
            except UsageError as problem:
                raise UsageError(f"--metrics-port: {problem}") from None
            self._serving = stack.pop_all()
        self.address = f"{url}/metrics"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        self._serving.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        return metrics_answer(self._registry)

    def on_event(self, event: ProgressEvent) -> None:
        """Count turns and dialogues as they are done; a question counts as a dialogue of one turn."""
        match event:
            case TurnDone():
                self._count_turn(event.turn_status, event.latency_ms)
            case DialogDone():
                self._counters["dialogs"].labels(event.status).inc()
            case QuestionDone():
                self._count_turn("ok" if event.error is None else "error", event.latency_ms)
                self._counters["dialogs"].labels("complete" if event.error is None else "failed").inc()
            case _:
                return

    def _count_turn(self, status: str, latency_ms: float | None) -> None:
        self._counters["turns"].labels(status).inc()
        if status == "ok" and latency_ms is not None:
            self._latency.observe(latency_ms / 1000)

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Take the figures of a complete epoch."""
        self._counters["epochs"].inc()
        for kind, count in msgspec.structs.asdict(epoch.errors).items():
            counter = self._counters[kind] if kind in COUNTERS else self._counters["errors"].labels(kind)
            counter.inc(count)
        for name, value in epoch.headline_values.items():
            self._gauges["metric"].labels(name).set(value)
        for name, drift in summary.metrics.items():
            self._gauges["metric_drifting"].labels(name).set(drift.drifting)
        lag = epoch.loop_lag_ms
        for quantile, value in (("0.5", lag.p50), ("0.99", lag.p99), ("1", lag.max)):
            self._gauges["loop_lag_seconds"].labels(quantile).set(value / 1000)
        self.on_sample(epoch.resources)

    def on_sample(self, sample: ProcessSample) -> None:
        """Take a look at the process."""
        for name in sample:
            self._gauges[name].set(sample[name])


def _refusal(status: int, code: str, message: str) -> web.HTTPException:
    del code
    kind = web.HTTPForbidden if status == web.HTTPForbidden.status_code else web.HTTPMisdirectedRequest
    return kind(text=message)
