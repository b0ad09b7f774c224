"""Validates a benchmark of the RAG suite: each of its question files, and ids across them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from memfin.contracts import RagBenchmark
from memfin.contracts.catalog import QUESTIONS, contract_of_file
from memfin.errors import UsageError
from memfin.validation.files import validate_artefact
from memfin.validation.findings import Finding, file_text
from memfin.validation.rag_rules import QuestionRules

FOLDER: Final = "questions"
_NO_QUESTIONS: Final = frozenset({"schema.json"})
"""What stands beside question files and holds none, such as the benchmark's own schema."""


def is_benchmark(directory: str | Path) -> bool:
    """Say whether a directory holds a benchmark: a folder ``questions``, or is that folder itself."""
    root = Path(directory)
    return (root / FOLDER).is_dir() or root.name == FOLDER


def question_files(path: str | Path) -> list[Path]:
    """Return the question files of a benchmark, by name.

    A file stands for itself. Of a directory they are the files ``questions/*.json``; without that folder,
    the JSON files in the directory itself but for ``schema.json`` and artefacts of runs. Hidden files are
    left out; folders below are not searched.

    Raises:
        UsageError: when there are none, or the directory cannot be read.
    """
    root = Path(path)
    try:
        if not root.is_dir():
            return [root]
        folder = root / FOLDER if (root / FOLDER).is_dir() else root
        own = folder.name == FOLDER
        names = sorted(item.name for item in folder.iterdir())
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"cannot read {path}: {reason}") from None
    found = [folder / name for name in names if _is_json(name) and (own or not _is_known(name))]
    if not found:
        raise UsageError(f"{path} holds no questions; a benchmark has files {FOLDER}/*.json")
    return found


def validate_benchmark(
    path: str | Path, take: Callable[[Path, RagBenchmark], None] | None = None
) -> Iterator[Finding]:
    """Yield every finding in the question files of a benchmark, the same id in two of them included.

    Args:
        path: a question file, or the directory of a benchmark.
        take: called with every file whose structure is sound, and its content.

    Raises:
        UsageError: when there are no files, or one cannot be read.
    """
    seen: dict[str, str] = {}
    for file in question_files(path):
        rules = QuestionRules(file_text(file), seen)
        yield from validate_artefact(file, QUESTIONS, rules)
        if take is not None and rules.benchmark is not None:
            take(file, rules.benchmark)


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json") and not name.startswith(".")


def _is_known(name: str) -> bool:
    return name in _NO_QUESTIONS or contract_of_file(name).file_format == "json"
