"""Validates the directory of a soak: its own papers, every epoch, and whether they tell the same story."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memfin.contracts import EvalSummary
from memfin.contracts.catalog import CONTRACTS
from memfin.contracts.reading import InvalidRecord, iter_jsonl, read_json
from memfin.contracts.soak import SoakEpoch
from memfin.errors import UsageError
from memfin.validation.files import validate_artefact
from memfin.validation.findings import Finding, file_text
from memfin.validation.rules import ConfigRules, RunRules
from memfin.validation.run_directory import validate_run
from memfin.validation.soak_rules import SoakEpochRules, SoakSummaryRules

SUMMARY: Final = "soak_summary.json"
LINES: Final = "soak.jsonl"
CONFIG: Final = "config.json"
_KEPT: Final = ("run-manifest", "metrics-summary", "run-stats")
"""What pruning leaves of every epoch."""


def is_soak(directory: str | Path) -> bool:
    """Say whether a directory is that of a soak."""
    return (Path(directory) / SUMMARY).is_file()


def validate_soak(directory: str | Path) -> Iterator[Finding]:
    """Yield every finding in the papers of a soak and in its epochs, progress logs included.

    Raises:
        UsageError: when something cannot be read.
    """
    root = Path(directory)
    lines, summary_rules = SoakEpochRules(), SoakSummaryRules()
    yield from validate_artefact(root / SUMMARY, CONTRACTS["soak-summary"], summary_rules)
    if (root / LINES).is_file():
        yield from validate_artefact(root / LINES, CONTRACTS["soak-epoch"], lines, may_be_empty=True)
    if (root / CONFIG).is_file():
        yield from validate_artefact(root / CONFIG, CONTRACTS["config"], ConfigRules())
    summary = summary_rules.summary
    if summary is None:
        return
    behind = lines.epochs - summary.epochs
    if behind and not (behind == 1 and summary.state == "running"):
        message = f"{summary.epochs}, but {LINES} holds {lines.epochs}"
        yield Finding(file=file_text(root / SUMMARY), line=1, path="$.epochs", message=message)
    elif not behind:
        for name in ("turns", "dialogs"):
            if summary[name] != (counted := getattr(lines, name)):
                message = f"{summary[name]}, but {LINES} amounts to {counted}"
                yield Finding(file=file_text(root / SUMMARY), line=1, path=f"$.{name}", message=message)
    if lines.run_id not in (None, summary.run_id):
        message = f"{lines.run_id!r} differs from {summary.run_id!r}, the run of {SUMMARY}"
        yield Finding(file=file_text(root / LINES), line=1, path="$.run_id", message=message)
    yield from _epochs(root, summary.pruned_epochs, lines.epochs)


def _epochs(root: Path, pruned: int, complete: int) -> Iterator[Finding]:
    """Check the run directory of every epoch: all of it, or the papers that pruning has left."""
    for number in range(1, complete + 1):
        directory = root / "epochs" / f"{number:06}"
        if not directory.is_dir():
            message = f"the directory of epoch {number} is missing"
            yield Finding(file=file_text(root / LINES), line=number, path="$.epoch", message=message)
        elif number > pruned:
            yield from validate_run(directory)
        else:
            for name in _KEPT:
                entry = CONTRACTS[name]
                path = directory / str(entry.file_name)
                if path.is_file():
                    yield from validate_artefact(path, entry, RunRules())
                else:
                    yield Finding(file=file_text(path), line=1, path="$", message="the file is missing")
    if (root / LINES).is_file():
        yield from _values(root)


def _values(root: Path) -> Iterator[Finding]:
    """Hold the values of every line against the summary of its epoch."""
    try:
        for number, epoch in iter_jsonl(root / LINES, SoakEpoch, on_error=_told_already):
            path = root / "epochs" / f"{epoch.epoch:06}" / "metrics_summary.json"
            if not path.is_file():
                continue
            found = _headlines(read_json(path, EvalSummary))
            for name in sorted({*found, *epoch.metrics}):
                if found.get(name) != epoch.metrics.get(name):
                    message = f"{epoch.metrics.get(name)}, but the epoch's summary says {found.get(name)}"
                    yield Finding(
                        file=file_text(root / LINES), line=number, path=f"$.metrics.{name}", message=message
                    )
    except UsageError:
        return  # a file that is no record is a finding already


def _told_already(line: int, problem: InvalidRecord) -> None:
    """Pass over a line that is a finding of its own."""


def _headlines(summary: EvalSummary) -> dict[str, float]:
    return {
        f"{metric}.{prefix}{name}": value
        for metric, result in summary.metrics.items()
        for prefix, values in (("", result.micro), ("macro.", result.macro))
        for name, value in values.items()
    }
