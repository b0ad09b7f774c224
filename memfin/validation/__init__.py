"""Validation of datasets and artifacts against the contract, with every violation."""

from memfin.validation.files import (
    validate_benchmark,
    validate_file,
    validate_path,
    validate_questions,
    validate_run,
    validate_soak,
)
from memfin.validation.findings import Finding, Violation, path_text, structure_violations
from memfin.validation.rules import dialogue_violations

__all__ = [
    "Finding",
    "Violation",
    "dialogue_violations",
    "path_text",
    "structure_violations",
    "validate_benchmark",
    "validate_file",
    "validate_path",
    "validate_questions",
    "validate_run",
    "validate_soak",
]
