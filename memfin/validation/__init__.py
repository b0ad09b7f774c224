"""Validation of datasets and artifacts against the contract, with every violation."""

from collections.abc import Iterator
from pathlib import Path

from memfin.errors import UsageError
from memfin.validation.dialogues import dialogue_violations
from memfin.validation.directories import is_soak, validate_benchmark, validate_run, validate_soak
from memfin.validation.files import validate_file
from memfin.validation.findings import Finding, Violation, path_text
from memfin.validation.rag import is_benchmark
from memfin.validation.structure import structure_violations

__all__ = [
    "Finding",
    "Violation",
    "dialogue_violations",
    "path_text",
    "structure_violations",
    "validate_benchmark",
    "validate_file",
    "validate_path",
    "validate_run",
    "validate_soak",
]


def validate_path(path: str | Path, kind: str | None = None) -> Iterator[Finding]:
    """Yield every finding in a file, or in all artifacts of the directory of a run, a soak or a benchmark.

    Raises:
        UsageError: when something cannot be read, or a directory is given together with a kind.
    """
    if Path(path).is_dir():
        if kind is not None:
            raise UsageError(
                f"{path} is a directory, whose files have their kinds by name; leave the kind out"
            )
        if is_benchmark(path):
            yield from validate_benchmark(path)
        else:
            yield from (validate_soak if is_soak(path) else validate_run)(path)
    else:
        yield from validate_file(path, kind)
