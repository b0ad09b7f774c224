"""Content of a soak's page: values and errors per epoch, their trends, and the runs of the epochs."""

from typing import Any, Final

from memfin.contracts.reading import read_json
from memfin.contracts.soak import SoakEpoch, SoakErrors, SoakSummary
from memfin.language import tr
from memfin.report import soak_report
from memfin.report.glossary import labels
from memfin.report.model import duration, grouped, milliseconds, moment
from memfin.web.view.runs import Catalog

MAX_EPOCHS: Final = 100
"""Epochs in the table, the last ones."""


def soak_page(catalog: Catalog, run: str) -> dict[str, Any]:
    """Return the content of the page of a soak, for the template."""
    files = catalog.files(run)
    summary = read_json(files[soak_report.SUMMARY], SoakSummary)
    path = files.get(soak_report.LINES)
    epochs = list(soak_report.epochs_of(path, summary.epochs)) if path is not None else []
    shown = epochs[-MAX_EPOCHS:]
    names = soak_report.watched_values(summary)
    last = epochs[-1].epoch_run_id if epochs and catalog.files(epochs[-1].epoch_run_id) else None
    kinds = [kind for kind in labels("soak_errors") if summary.errors[kind]]
    return {
        "warnings": list(soak_report.warnings_of(summary)),
        "charts": list(soak_report.charts_of(summary, epochs)),
        "trends": [soak_report.trend_table(title, rows) for title, rows in soak_report.trends(summary)],
        "addresses": {name: f"/runs/{last}/turns?metric={name}" for name in summary.metrics if last},
        "errors": _errors(summary.errors),
        "headings": [
            *(tr("Epoch"), tr("Ended"), tr("Duration"), *names.values(), "p50", "p99"),
            *(labels("soak_errors")[kind] for kind in kinds),
        ],
        "epochs": [
            (
                epoch.epoch,
                epoch.epoch_run_id if catalog.files(epoch.epoch_run_id) else None,
                _cells(epoch, names, kinds),
            )
            for epoch in shown
        ],
        "left_out": len(epochs) - len(shown),
    }


def _errors(errors: SoakErrors) -> list[tuple[str, str]]:
    return [(label, grouped(errors[kind])) for kind, label in labels("soak_errors").items() if errors[kind]]


def _cells(epoch: SoakEpoch, names: dict[str, str], kinds: list[str]) -> list[str]:
    values, latency = epoch.headline_values, epoch.turn_latency_ms
    return [
        moment(epoch.ended_at) or "",
        duration(epoch.wall_seconds),
        *(
            "-" if value is None else soak_report.in_unit(soak_report.unit_of(name), value)
            for name, value in zip(names, map(values.get, names), strict=True)
        ),
        *map(milliseconds, (latency.p50, latency.p99)),
        *(grouped(epoch.errors[kind]) for kind in kinds),
    ]
