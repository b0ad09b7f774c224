"""Loads a benchmark: all questions of its files, checked, and where its document is (spec section 9)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from memfin.contracts import RagBenchmark, RagQuestion, RagQuestionEntry
from memfin.contracts.rag import RagType
from memfin.contracts.reading import open_input, read_document
from memfin.errors import UsageError
from memfin.rag.document import TEXT_SUFFIXES
from memfin.rag.packed import Packed
from memfin.validation import Finding, validate_benchmark
from memfin.validation.rag import FOLDER

SAMPLE: Final = Path(__file__).parents[1] / "data" / "rag"
"""The benchmark that is shipped."""

_SUFFIXES: Final = (*sorted(TEXT_SUFFIXES), ".pdf", "")


class Benchmark(NamedTuple):
    """A benchmark as it is run.

    ``questions`` stand in the order of the files' names and of the questions in each. ``document`` is the
    place of the document that the files name, None when they name none or it is not there;
    ``document_name`` is what they call it. ``digest`` is the SHA-256 of the files' names and contents, in
    hexadecimal. ``descriptions`` are those of the files that have one.
    """

    path: Path
    files: tuple[Path, ...]
    questions: Packed[RagQuestion]
    document: Path | None
    document_name: str | None
    digest: str
    descriptions: tuple[str, ...] = ()

    def of_type(self, question_type: RagType | None) -> tuple[RagQuestion, ...]:
        """Return the questions of a type, all of them for None."""
        return tuple(one for one in self.questions if question_type in (None, one.type))


def load_benchmark(path: str | Path) -> Benchmark:
    """Read and check all questions of a file or directory.

    Raises:
        UsageError: when something cannot be read, or anything in the files is wrong: the first finding as
            ``file:line: path: message``, and how many more there are.
    """
    place = Path(path)
    documents: dict[Path, str | None] = {}
    questions = Packed[RagQuestion](RagQuestion)
    descriptions: list[str] = []
    findings: list[Finding] = []

    def take(file: Path, content: RagBenchmark) -> None:
        if findings:
            return
        documents[file] = content.document
        descriptions.extend([content.description] if content.description else [])
        for one in _questions(content):
            questions.append(one)

    for finding in validate_benchmark(place, take):
        findings.append(finding)  # noqa: PERF402 - one after another, since what is taken depends on them
    if findings:
        raise UsageError(_told(findings, path))
    document, name = find_document(place, documents)
    return Benchmark(
        path=place,
        files=tuple(documents),
        questions=questions,
        document=document,
        document_name=name,
        digest=_digest(documents),
        descriptions=tuple(descriptions),
    )


def find_document(path: Path, files: Mapping[Path, str | None]) -> tuple[Path | None, str | None]:
    """Return where the document of question files is, and the name they give it; None for what is absent.

    ``files`` says what each of them calls the document.

    The name is a path within the benchmark's directory or of what stands in it, with or without its
    suffix; a name that leads out of the directory finds nothing.

    Raises:
        UsageError: when files name different documents.
    """
    names: dict[str, Path] = {}
    for file, said in files.items():
        if said and said.strip():
            names.setdefault(said.strip(), file)
    if not names:
        return None, None
    if len(names) > 1:
        (one, first), (other, second), *_ = names.items()
        raise UsageError(
            f"{second}: the document is {other!r}, but {one!r} in {first}; "
            "keep the questions about each document in a benchmark of their own"
        )
    (name,) = names
    root = benchmark_root(path)
    return next(_candidates(root, name), None), name


def benchmark_root(path: Path) -> Path:
    """Return the directory of a benchmark that a file, the directory, or its ``questions`` stands for."""
    folder = path if path.is_dir() else path.parent
    return folder.resolve().parent if folder.resolve().name == FOLDER else folder


def _candidates(root: Path, name: str) -> Iterator[Path]:
    inside = root.resolve()
    for suffix in ("", *_SUFFIXES):
        candidate = root / f"{name}{suffix}"
        try:
            if candidate.exists() and candidate.resolve().is_relative_to(inside):
                yield candidate
        except (OSError, ValueError, RuntimeError):  # a NUL, a name too long, a loop of links
            continue


def _questions(content: RagBenchmark) -> Iterator[RagQuestion]:
    criteria = content.evaluation_criteria
    for entry in content.questions:
        kind = entry.type or content.benchmark_type
        assert kind is not None, "the check of the files has seen to it"  # noqa: S101
        yield RagQuestion(
            id=entry.id,
            type=kind,
            question=entry.question,
            weight=entry.weight * criteria.type_weights.get(kind, 1.0),
            pass_threshold=criteria.pass_threshold,
            expected=entry.expected,
            required_evidence=entry.required_evidence,
            scoring=entry.scoring,
            should_abstain=kind == "conflict_gap" and _asks_for_abstention(entry),
            hallucination_penalty=entry.hallucination_penalty,
            required_quote=entry.required_quote,
            additional_quotes=entry.additional_quotes,
            evidence_location=entry.evidence_location,
            expected_behavior=entry.expected_behavior,
            metadata=entry.metadata,
        )


def _asks_for_abstention(entry: RagQuestionEntry) -> bool:
    said = entry.should_abstain if entry.should_abstain is not None else entry.scoring.abstention_required
    return said is not False


def _told(findings: list[Finding], path: str | Path) -> str:
    more = len(findings) - 1
    return str(findings[0]) + (f" (and {more} more: memfin validate {path})" if more else "")


def _digest(files: Iterable[Path]) -> str:
    sha256 = hashlib.sha256()
    for path in files:
        with open_input(path) as file:
            content = hashlib.sha256(read_document(file)).digest()
        sha256.update(path.name.encode(errors="surrogateescape") + b"\0" + content)
    return sha256.hexdigest()
