"""Counts and rates of users' detectors over the replies of a run."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from memfin.contracts import DETECTOR_PREFIX, DetectorResult, TurnEvalRow
from memfin.metrics.interval import ratio_interval


class DetectorStats:
    """Mergeable counts of users' detectors, by detector and dialogue."""

    def __init__(self) -> None:
        self._cells: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def add(self, row: TurnEvalRow) -> None:
        """Count a row; one that cannot be counted never raises."""
        with suppress(Exception):
            for name, findings in findings_by_detector(row):
                counts = {"replies": 1, "fired": int(findings > 0), "findings": findings}
                self._cells[name, row.dialog_id].update(counts)
            for name in row.get("detector_errors", {}):
                if name.startswith(DETECTOR_PREFIX):
                    self._cells[name, row.dialog_id].update(failed=1)

    def merge(self, other: "DetectorStats") -> None:
        """Add the counts of another state; the other stays unchanged."""
        for key, counts in list(other._cells.items()):  # noqa: SLF001 - of the same class
            self._cells[key].update(counts)

    def results(self) -> dict[str, DetectorResult] | msgspec.UnsetType:
        """Return the results by detector, UNSET without one."""
        cells: defaultdict[str, list[Counter[str]]] = defaultdict(list)
        for (name, _), counts in sorted(self._cells.items(), key=lambda item: item[0]):
            cells[name].append(counts)
        return {name: _result(found) for name, found in cells.items()} or msgspec.UNSET


def findings_by_detector(row: TurnEvalRow) -> Iterator[tuple[str, int]]:
    """Yield the users' detectors that read a reply, each with the number of its findings."""
    if names := [name for name in row.detectors if name.startswith(DETECTOR_PREFIX)]:
        fields = Counter(finding.field for finding in row.findings)
        yield from ((name, fields[name]) for name in names)


def _result(cells: Sequence[Counter[str]]) -> DetectorResult:
    total = Counter[str]()
    for counts in cells:
        total.update(counts)
    bounds = ratio_interval((counts["fired"], counts["replies"]) for counts in cells)
    return DetectorResult(
        replies=total["replies"],
        fired=total["fired"],
        findings=total["findings"],
        failed=total["failed"],
        rate=total["fired"] / total["replies"] if total["replies"] else 0.0,
        ci95=msgspec.UNSET if bounds is None else bounds,
    )
