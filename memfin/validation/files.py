"""Validates one file, a line at a time or, for JSON documents, a value at a time."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from memfin.contracts.catalog import DATASET, LABELS, QUESTIONS, Contract, contract, contract_of_file
from memfin.contracts.reading import (
    MAX_DOCUMENT_BYTES,
    MAX_LINE_BYTES,
    MAX_RECORD_BYTES,
    Line,
    UnsupportedTraceVersion,
    check_trace_version,
    iter_lines,
    open_input,
    read_document,
    upgrade,
)
from memfin.errors import UsageError
from memfin.validation.dialogues import DatasetRules
from memfin.validation.findings import Finding, Steps, Violation, file_text, path_text
from memfin.validation.labels import LabelRules
from memfin.validation.locations import Locator
from memfin.validation.rag_judged import RagJudgementRules
from memfin.validation.rag_results import RagResultRules, RagSummaryRules
from memfin.validation.rag_rules import QuestionRules
from memfin.validation.rules import (
    ConfigRules,
    DialogTraceRules,
    JudgementRules,
    ManifestRules,
    ProgressRules,
    RunRules,
    StatsRules,
    SummaryRules,
    TurnEvalRules,
)
from memfin.validation.soak_rules import SoakEpochRules, SoakSummaryRules
from memfin.validation.structure import convert_or_violations
from memfin.validation.text import NotJsonError, parse

RULES: Final[Mapping[str, Callable[[], RunRules]]] = MappingProxyType(
    {
        "run-manifest": ManifestRules,
        "dialog-trace": DialogTraceRules,
        "turn-eval": TurnEvalRules,
        "metrics-summary": SummaryRules,
        "progress": ProgressRules,
        "config": ConfigRules,
        "run-stats": StatsRules,
        "judgement": JudgementRules,
        "judge-controls": RunRules,
        "soak-epoch": SoakEpochRules,
        "soak-summary": SoakSummaryRules,
        "labelled-reply": LabelRules,
        "rag-benchmark": QuestionRules,
        "rag-result": RagResultRules,
        "rag-answered": RagResultRules,
        "rag-judgement": RagJudgementRules,
        "rag-judge-controls": RunRules,
        "rag-summary": RagSummaryRules,
    }
)
MAX_QUESTIONS_BYTES: Final = 64 * 1024 * 1024
"""The largest file of questions that is read, in bytes."""

_BOM: Final = b"\xef\xbb\xbf"
_BOM_MESSAGE: Final = "the file begins with a byte order mark, which JSON does not allow"
_OF_LABELS: Final = frozenset({"risk_tags", "contradiction", "compliance", "forbidden_hits", "rubric"})
_OF_DIALOGUES: Final = frozenset({"dialog_id", "turns", "profile_gt"})
_QUESTION_KEY: Final = re.compile(rb'"(?:benchmark_type|questions)"\s*:')
_DIALOGUE_KEY: Final = re.compile(rb'"(?:dialog_id|turns|profile_gt)"\s*:')
_HEAD_BYTES: Final = 64 * 1024
_MAY_BE_EMPTY: Final = frozenset({"judgement", "rag-judgement"})


class _Located(NamedTuple):
    line: int
    violation: Violation


def validate_file(path: str | Path, kind: str | None = None) -> Iterator[Finding]:
    """Yield every finding in one file, as it is read.

    The file is an artefact of a run when it is named as one, a file of labelled replies or of questions
    when it is named or begins as one, otherwise a dataset; ``kind``, a name of ``memfin schema``, says it
    outright. Files that people write may begin with a byte order mark; all may end lines in CRLF.
    Names of the older draft are no findings.

    Raises:
        UsageError: when the file cannot be read, or no file follows the contract ``kind``.
    """
    entry = contract_of_file(path) if kind is None else contract(kind)
    if kind is None and holds_questions(path):
        entry = QUESTIONS
    elif kind is None and entry is DATASET and _begins_with_labels(path):
        entry = LABELS
    if entry.file_format is None:
        raise UsageError(f"no file holds {entry.name!r} records alone; it is a part of others")
    if entry is DATASET:
        yield from _findings(path, _dataset(path))
    else:
        yield from validate_artefact(path, entry, RULES[entry.name]())


def validate_artefact(
    path: str | Path, entry: Contract, rules: RunRules, *, may_be_empty: bool = False
) -> Iterator[Finding]:
    """Yield every finding in an artefact, with rules that may know other files of its run.

    Raises:
        UsageError: when the file cannot be read.
    """
    may_be_empty = may_be_empty or entry.name in _MAY_BE_EMPTY
    check = _document if entry.file_format == "json" else _lines
    yield from _findings(path, check(path, entry, rules, may_be_empty=may_be_empty))


def _findings(path: str | Path, located: Iterator[_Located]) -> Iterator[Finding]:
    name = file_text(path)
    try:
        for line, (steps, message) in located:
            yield Finding(file=name, line=line, path=path_text(steps), message=message)
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem


def _dataset(path: str | Path) -> Iterator[_Located]:
    rules = DatasetRules()
    empty = True
    with open_input(path) as file:
        for line in iter_lines(file, MAX_LINE_BYTES):
            empty = False
            try:
                value, of_text = _parsed(line, MAX_LINE_BYTES)
            except NotJsonError as problem:
                reason = "line_too_long" if line.too_long else "invalid_json"
                yield _Located(line.number, Violation((), f"{problem} (skip_reason {reason})"))
                continue
            for violation in rules.check_line(line, value, of_text):
                yield _Located(line.number, violation)
    if empty:
        yield _Located(1, Violation((), "the file is empty"))


def _lines(path: str | Path, entry: Contract, rules: RunRules, *, may_be_empty: bool) -> Iterator[_Located]:
    empty = True
    limit = MAX_LINE_BYTES if entry is LABELS else MAX_RECORD_BYTES
    with open_input(path) as file:
        for line in iter_lines(file, limit):
            empty = False
            if line.had_bom and entry is not LABELS:
                yield _Located(line.number, Violation((), _BOM_MESSAGE))
            try:
                value, of_text = _parsed(line, limit)
            except NotJsonError as problem:
                yield _Located(line.number, Violation((), str(problem)))
                continue
            for violation in _record(value, of_text, entry, rules):
                yield _Located(line.number, violation)
    if empty and not may_be_empty:
        yield _Located(1, Violation((), "the file is empty"))


def holds_questions(path: str | Path) -> bool:
    """Say whether a file is meant to hold questions: a JSON file that stands among such or begins as one."""
    place = Path(path)
    if place.suffix.lower() != ".json":
        return False
    if place.parent.name == "questions":
        return True
    if contract_of_file(path) is not DATASET:
        return False
    with open_input(path) as file, suppress(OSError):
        head = file.read(_HEAD_BYTES)
        return _QUESTION_KEY.search(head) is not None and _DIALOGUE_KEY.search(head) is None
    return False  # what is wrong with the file is for its check to say


def _begins_with_labels(path: str | Path) -> bool:
    """Say whether the first line is a labelled reply and nothing like a dialogue."""
    with open_input(path) as file, suppress(OSError, NotJsonError):
        line = next(iter_lines(file, MAX_LINE_BYTES), None)
        value = None if line is None else parse(line.data)[0]
        return (
            isinstance(value, dict)
            and {"id", "text"} <= value.keys()
            and not _OF_LABELS.isdisjoint(value)
            and _OF_DIALOGUES.isdisjoint(value)
        )
    return False  # what is wrong with the file is for its check to say


def _document(
    path: str | Path, entry: Contract, rules: RunRules, *, may_be_empty: bool
) -> Iterator[_Located]:
    limit = MAX_QUESTIONS_BYTES if entry is QUESTIONS else MAX_DOCUMENT_BYTES
    with open_input(path) as file:
        data = read_document(file, limit)
    if len(data) > limit:
        yield _Located(1, Violation((), f"the file is larger than {limit} bytes"))
        return
    if data.startswith(_BOM) and entry is not QUESTIONS:
        yield _Located(1, Violation((), _BOM_MESSAGE))
    data = data.removeprefix(_BOM)
    if not data.strip():
        if not may_be_empty:
            yield _Located(1, Violation((), "the file is empty"))
        return
    try:
        value, of_text = parse(data)
    except NotJsonError as problem:
        yield _Located(problem.line, Violation((), str(problem)))
        return
    locator: Locator | None = None
    for violation in _record(value, of_text, entry, rules):
        locator = locator or Locator(data.decode())
        yield _Located(locator.line(violation.steps), violation)


def _parsed(line: Line, limit: int) -> tuple[object, list[Violation]]:
    if line.too_long:
        raise NotJsonError(f"the line is longer than {limit} bytes")
    return parse(line.data)


def _record(value: Any, of_text: list[Violation], entry: Contract, rules: RunRules) -> Iterator[Violation]:
    """Yield the violations of one record; what it means is judged only when its form is sound."""
    yield from of_text
    known = {violation.steps for violation in of_text}
    if (unsupported := _unsupported_version(value, entry)) is not None:
        yield unsupported
        return
    record, of_structure = convert_or_violations(upgrade(value, entry.type), entry.type)
    yield from (violation for violation in of_structure if violation.steps not in known)
    if not of_text and not of_structure:
        yield from rules.check(record)


def _unsupported_version(value: object, entry: Contract) -> Violation | None:
    """Another major version has other fields, so it is the one thing to say about its record."""
    if "trace_version" not in getattr(entry.type, "__struct_fields__", ()) or not isinstance(value, dict):
        return None
    steps: Steps = ("trace_version",)
    try:
        if isinstance(version := value.get("trace_version"), str):
            check_trace_version(version)
    except UnsupportedTraceVersion as problem:
        return Violation(steps, str(problem).removeprefix("$.trace_version: "))
    return None
