"""Validates the directory of a soak: its own artifacts, every epoch, and whether they tell the same story."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from memfin.contracts import EvalSummary
from memfin.contracts.catalog import CONTRACTS
from memfin.contracts.rag import read_sums
from memfin.contracts.reading import InvalidRecord, iter_jsonl, read_json
from memfin.contracts.run import Suite
from memfin.contracts.soak import SoakEpoch
from memfin.errors import UsageError
from memfin.validation.files import validate_artefact
from memfin.validation.findings import Finding, file_text
from memfin.validation.rag_judged import MARKS
from memfin.validation.rules import ConfigRules, RunRules
from memfin.validation.run_directory import validate_run
from memfin.validation.soak_rules import SoakEpochRules, SoakSummaryRules

SUMMARY: Final = "soak_summary.json"
LINES: Final = "soak.jsonl"
CONFIG: Final = "config.json"
_SUMMARIES: Final[Mapping[Suite, str]] = {"dialog": "metrics-summary", "rag": "rag-summary"}
"""The contract of an epoch's summary, by suite."""


def is_soak(directory: str | Path) -> bool:
    """Say whether a directory is that of a soak."""
    return (Path(directory) / SUMMARY).is_file()


def validate_soak(directory: str | Path) -> Iterator[Finding]:
    """Yield every finding in the artifacts of a soak and in its epochs, progress logs included.

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
    yield from _epochs(root, _SUMMARIES[summary.suite or "dialog"], summary.pruned_epochs, lines.epochs)


def _epochs(root: Path, summary: str, pruned: int, complete: int) -> Iterator[Finding]:
    """Check the run directory of every epoch: all of it, or the artifacts that pruning has left."""
    for number in range(1, complete + 1):
        directory = root / "epochs" / f"{number:06}"
        if not directory.is_dir():
            message = f"the directory of epoch {number} is missing"
            yield Finding(file=file_text(root / LINES), line=number, path="$.epoch", message=message)
        elif number > pruned:
            yield from validate_run(directory)
        else:
            for name in ("run-manifest", summary, "run-stats"):
                entry = CONTRACTS[name]
                path = directory / str(entry.file_name)
                if path.is_file():
                    yield from validate_artefact(path, entry, RunRules())
                else:
                    yield Finding(file=file_text(path), line=1, path="$", message="the file is missing")
    if (root / LINES).is_file():
        yield from _values(root, summary)


def _values(root: Path, summary: str) -> Iterator[Finding]:
    """Hold the values of every line against the summary of its epoch."""
    try:
        for number, epoch in iter_jsonl(root / LINES, SoakEpoch, on_error=_told_already):
            path = root / "epochs" / f"{epoch.epoch:06}" / str(CONTRACTS[summary].file_name)
            if not path.is_file():
                continue
            found = _HEADLINES[summary](path)
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


def _of_dialogs(path: Path) -> dict[str, float]:
    summary = read_json(path, EvalSummary)
    return {
        f"{metric}.{prefix}{name}": value
        for metric, result in summary.metrics.items()
        for prefix, values in (("", result.micro), ("macro.", result.macro))
        for name, value in values.items()
    }


def _of_questions(path: Path) -> dict[str, float]:
    summary = read_sums(path)
    values = {"overall_percentage": summary.overall_percentage, "pass_rate": summary.pass_rate}
    for kind, group in summary.by_type.items():
        if group.count:
            share = group.total_score / group.max_score if group.max_score else 0.0
            values |= {f"{kind}.percentage": 100 * share, f"{kind}.pass_rate": group.passed / group.count}
    if summary.judge is not msgspec.UNSET:
        means = {mark: summary.judge[mark].mean for mark in MARKS}
        values |= {f"judge.{mark}": mean for mark, mean in means.items() if mean is not None}
    return {f"rag.{name}": value for name, value in values.items()}


_HEADLINES: Final[Mapping[str, Callable[[Path], dict[str, float]]]] = {
    "metrics-summary": _of_dialogs,
    "rag-summary": _of_questions,
}
