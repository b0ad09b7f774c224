"""Validation of one file: lines of a JSONL file, or the values of a JSON document."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

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
from memfin.validation.findings import Finding, Steps, Violation, finding
from memfin.validation.rag import FOLDER, RAG_RULES
from memfin.validation.rules import RUN_RULES, RunRules
from memfin.validation.structure import convert_or_violations
from memfin.validation.text import Locator, NotJsonError, parse

RULES: Final = MappingProxyType({**RUN_RULES, **RAG_RULES})
"""The rules of each kind of artifact, by the name of its contract."""
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


def validate_file(path: str | Path, kind: str | None = None) -> Iterator[Finding]:
    """Yield every finding in one file, as it is read.

    The file is an artifact of a run when it is named as one, a file of labelled replies or of questions
    when it is named or begins as one, otherwise a dataset; ``kind``, a name of ``memfin schema``, overrides
    this. Files that people write may begin with a byte order mark; all may end lines in CRLF.
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
    yield from validate_artifact(path, entry, DatasetRules() if entry is DATASET else RULES[entry.name]())


def validate_artifact(
    path: str | Path, entry: Contract, rules: RunRules | DatasetRules, *, may_be_empty: bool = False
) -> Iterator[Finding]:
    """Yield every finding in an artifact, with rules that may depend on other files of its run.

    Raises:
        UsageError: when the file cannot be read.
    """
    if entry.file_format == "json" and isinstance(rules, RunRules):
        located = _document(path, entry, rules)
    else:
        located = _lines(path, entry, rules)
    empty = True
    try:
        for line, violation in located:
            empty = False
            if violation is not None:
                yield finding(path, violation.message, violation.steps, line)
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem
    if empty and not may_be_empty and entry.name not in _MAY_BE_EMPTY:
        yield finding(path, "the file is empty")


_Located = Iterator[tuple[int, Violation | None]]
"""Violations and their lines; None stands for a record, so that a file without any is known as empty."""


def _lines(path: str | Path, entry: Contract, rules: RunRules | DatasetRules) -> _Located:
    by_hand = entry in (DATASET, LABELS)
    limit = MAX_LINE_BYTES if by_hand else MAX_RECORD_BYTES
    with open_input(path) as file:
        for line in iter_lines(file, limit):
            yield line.number, None
            if line.had_bom and not by_hand:
                yield line.number, Violation((), _BOM_MESSAGE)
            try:
                value, of_text = _parsed(line, limit)
            except NotJsonError as problem:
                reason = "line_too_long" if line.too_long else "invalid_json"
                suffix = f" (skip_reason {reason})" if entry is DATASET else ""
                yield line.number, Violation((), f"{problem}{suffix}")
                continue
            if isinstance(rules, DatasetRules):
                violations = rules.check_line(line, value, of_text)
            else:
                violations = _record(value, of_text, entry, rules)
            for violation in violations:
                yield line.number, violation


def _parsed(line: Line, limit: int) -> tuple[object, list[Violation]]:
    if line.too_long:
        raise NotJsonError(f"the line is longer than {limit} bytes")
    return parse(line.data)


def _document(path: str | Path, entry: Contract, rules: RunRules) -> _Located:
    limit = MAX_QUESTIONS_BYTES if entry is QUESTIONS else MAX_DOCUMENT_BYTES
    with open_input(path) as file:
        data = read_document(file, limit)
    if len(data) > limit:
        yield 1, Violation((), f"the file is larger than {limit} bytes")
        return
    if data.startswith(_BOM) and entry is not QUESTIONS:
        yield 1, Violation((), _BOM_MESSAGE)
    data = data.removeprefix(_BOM)
    if not data.strip():
        return
    yield 1, None
    try:
        value, of_text = parse(data)
    except NotJsonError as problem:
        yield problem.line, Violation((), str(problem))
        return
    locator: Locator | None = None
    for violation in _record(value, of_text, entry, rules):
        locator = locator or Locator(data.decode())
        yield locator.line(violation.steps), violation


def holds_questions(path: str | Path) -> bool:
    """Return True if a JSON file is in a folder of question files, or begins as one."""
    place = Path(path)
    if place.suffix.lower() != ".json":
        return False
    if place.parent.name == FOLDER:
        return True
    if contract_of_file(path) is not DATASET:
        return False
    with open_input(path) as file, suppress(OSError):
        head = file.read(_HEAD_BYTES)
        return _QUESTION_KEY.search(head) is not None and _DIALOGUE_KEY.search(head) is None
    return False  # its check reports the problem


def _begins_with_labels(path: str | Path) -> bool:
    """Return True if the first line is a labelled reply and nothing like a dialogue."""
    with open_input(path) as file, suppress(OSError, NotJsonError):
        line = next(iter_lines(file, MAX_LINE_BYTES), None)
        value = None if line is None else parse(line.data)[0]
        return (
            isinstance(value, dict)
            and {"id", "text"} <= value.keys()
            and not _OF_LABELS.isdisjoint(value)
            and _OF_DIALOGUES.isdisjoint(value)
        )
    return False  # its check reports the problem


def _record(value: Any, of_text: list[Violation], entry: Contract, rules: RunRules) -> Iterator[Violation]:
    """Yield the violations of one record; the rules see only structurally sound ones."""
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
    """Return the violation of another major version, which has other fields and is not checked further."""
    if "trace_version" not in getattr(entry.type, "__struct_fields__", ()) or not isinstance(value, dict):
        return None
    steps: Steps = ("trace_version",)
    try:
        if isinstance(version := value.get("trace_version"), str):
            check_trace_version(version)
    except UnsupportedTraceVersion as problem:
        return Violation(steps, str(problem).removeprefix("$.trace_version: "))
    return None
