"""Counts and rates of users' detectors over the replies of a run."""

from collections import Counter, defaultdict

import msgspec

from memfin.contracts import DETECTOR_PREFIX, DetectorResult, TurnEvalRow
from memfin.metrics.interval import ratio_interval


class DetectorStats:
    """Mergeable counts of users' detectors, by detector and dialogue."""

    def __init__(self) -> None:
        self._cells: defaultdict[str, defaultdict[str, Counter[str]]] = defaultdict(
            lambda: defaultdict(Counter)
        )

    def add(self, row: TurnEvalRow) -> None:
        """Count a row."""
        for name in row.get("detector_errors", {}):
            if name.startswith(DETECTOR_PREFIX):
                self._cells[name][row.dialog_id]["failed"] += 1
        for name in row.detectors:
            if name.startswith(DETECTOR_PREFIX):
                findings = sum(finding.field == name for finding in row.findings)
                self._cells[name][row.dialog_id].update(replies=1, findings=findings, fired=int(findings > 0))

    def merge(self, other: "DetectorStats") -> None:
        """Add the counts of another state; the other stays unchanged."""
        for name, cells in other._cells.items():  # noqa: SLF001 - of the same class
            for dialog_id, counts in cells.items():
                self._cells[name][dialog_id].update(counts)

    def results(self) -> dict[str, DetectorResult] | msgspec.UnsetType:
        """Return the results by detector, UNSET without one."""
        return {name: _result(self._cells[name]) for name in sorted(self._cells)} or msgspec.UNSET


def _result(cells: dict[str, Counter[str]]) -> DetectorResult:
    total: Counter[str] = Counter()
    for counts in cells.values():
        total.update(counts)
    clusters = [(counts["fired"], counts["replies"]) for _, counts in sorted(cells.items())]
    bounds = ratio_interval(clusters)
    return DetectorResult(
        replies=total["replies"],
        fired=total["fired"],
        findings=total["findings"],
        failed=total["failed"],
        rate=total["fired"] / total["replies"] if total["replies"] else 0.0,
        ci95=msgspec.UNSET if bounds is None else bounds,
    )
