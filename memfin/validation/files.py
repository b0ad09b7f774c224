"""Validation of files, and of the directories of runs, soaks and benchmarks."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

import msgspec

from memfin.contracts import Counters, EvalSummary, RagBenchmark, RunManifest, catalog, reading
from memfin.contracts.catalog import CONTRACTS, DATASET, LABELS, QUESTIONS, Contract
from memfin.contracts.rag import read_sums
from memfin.contracts.soak import SoakEpoch, SoakSummary, rounded
from memfin.errors import UsageError
from memfin.journal import COMMITS, JournalDamaged
from memfin.journal.artifacts import NOT_AS_WRITTEN, changed_artifacts
from memfin.journal.checkpoints import TURNS, turn_records
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine
from memfin.validation import rag
from memfin.validation.findings import Finding, Violation, file_text, finding
from memfin.validation.rules import RUN_RULES, DialogTraceRules, RunRules, SoakEpochRules, TurnEvalRules
from memfin.validation.text import Locator, NotJsonError, parse

RULES: Final = MappingProxyType({**RUN_RULES, **rag.RAG_RULES})
"""The rules of each kind of artifact, by the name of its contract."""
_BOM: Final = b"\xef\xbb\xbf"
_OF_LABELS: Final = frozenset({"risk_tags", "contradiction", "compliance", "forbidden_hits", "rubric"})
_OF_DIALOGUES: Final = frozenset({"turns", "profile_gt"})
_QUESTION_KEY: Final = re.compile(
    rb'"(?:benchmark_type|questions)"\s*:|"type"\s*:\s*"(?:fact_exact|evidence_set|conflict_gap)"'
)
_DIALOGUE_KEY: Final = re.compile(rb'"(?:dialog_id|turns|profile_gt)"\s*:')
_HEAD_BYTES: Final = 64 * 1024
_PIECE: Final = 1 << 20
_ORDER: Final = tuple(CONTRACTS)  # the manifest and the trace stand before the rows, which depend on them
_OF_EVERY_RUN: Final = {
    "dialog": ("dialog-trace", "turn-eval", "metrics-summary"),
    "rag": ("rag-result", "rag-summary"),
}


def validate_path(path: str | Path, kind: str | None = None) -> Iterator[Finding]:
    """Yield every finding in a file, or in all artifacts of the directory of a run, a soak or a benchmark.

    Raises:
        UsageError: when something cannot be read, or a directory is given together with a kind.
    """
    if not Path(path).is_dir():
        yield from validate_file(path, kind)
    elif kind is not None:
        raise UsageError(f"{path} is a directory, whose files have their kinds by name; leave the kind out")
    elif rag.is_benchmark(path):
        yield from validate_benchmark(path)
    elif (Path(path) / str(CONTRACTS["soak-summary"].file_name)).is_file():
        yield from validate_soak(path)
    else:
        yield from validate_run(path)


# ---- files


def validate_file(path: str | Path, kind: str | None = None) -> Iterator[Finding]:
    """Yield every finding in one file, as it is read.

    The file is an artifact of a run when it is named as one, a trace or a file of labelled replies or of
    questions when it is named or begins as one, otherwise a dataset; ``kind``, a name of ``memfin schema``,
    overrides this. Files that people write may begin with a byte order mark; all may end lines in CRLF.
    Names of the older draft are no findings.

    Raises:
        UsageError: when the file cannot be read, or no file follows the contract ``kind``.
    """
    entry = catalog.contract_of_file(path) if kind is None else catalog.contract(kind)
    if kind is None and holds_questions(path):
        entry = QUESTIONS
    elif kind is None and entry is DATASET:
        entry = _contract_of_first_line(path)
    if entry.file_format is None:
        raise UsageError(f"no file holds {entry.name!r} records alone; it is a part of others")
    if entry is QUESTIONS:
        yield from validate_benchmark(path)
    else:
        yield from validate_artifact(path, entry, RULES[entry.name]())


def validate_artifact(
    path: str | Path, entry: Contract, rules: RunRules, *, may_be_empty: bool = False
) -> Iterator[Finding]:
    """Yield every finding in an artifact, with rules that may depend on other files of its run.

    Raises:
        UsageError: when the file cannot be read.
    """
    rules.path = Path(path)
    empty = entry.name not in ("judgement", "rag-judgement") and not may_be_empty
    try:
        for line in _lines(path, entry):
            empty = False
            for number, violation in _violations(line, entry, rules):
                yield finding(path, violation.message, violation.steps, number)
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem
    if empty:
        yield finding(path, "the file is empty")
    elif not may_be_empty and (message := rules.of_file()) is not None:
        yield finding(path, message)


def _limit(entry: Contract) -> int:
    if entry.file_format == "json":
        return rag.MAX_QUESTIONS_BYTES if entry is QUESTIONS else reading.MAX_DOCUMENT_BYTES
    return reading.MAX_LINE_BYTES if entry in (DATASET, LABELS) else reading.MAX_RECORD_BYTES


def _lines(path: str | Path, entry: Contract) -> Iterator[reading.Line]:
    """Yield the lines of a JSONL file that are not blank, or a JSON document as one line."""
    limit = _limit(entry)
    with reading.open_input(path) as file:
        if entry.file_format != "json":
            yield from reading.iter_lines(file, limit)
            return
        data = reading.read_document(file, limit)
    text = data.removeprefix(_BOM)
    if len(data) > limit:
        yield reading.Line(1, b"", too_long=True)
    elif text.strip():
        yield reading.Line(1, text, had_bom=len(text) < len(data))


def _violations(line: reading.Line, entry: Contract, rules: RunRules) -> Iterator[tuple[int, Violation]]:
    """Yield the violations of a line, each with its own line in the file."""
    is_document = entry.file_format == "json"
    if line.had_bom and entry not in (DATASET, LABELS, QUESTIONS):
        message = "the file begins with a byte order mark, which JSON does not allow"
        yield line.number, Violation((), message)
    try:
        if line.too_long:
            words = "file is larger" if is_document else "line is longer"
            raise NotJsonError(f"the {words} than {_limit(entry)} bytes")  # noqa: TRY301 - one handler
        value, of_text = parse(line.data)
    except NotJsonError as problem:
        reason = "line_too_long" if line.too_long else "invalid_json"
        suffix = f" (skip_reason {reason})" if entry is DATASET else ""
        yield line.number + problem.line - 1, Violation((), f"{problem}{suffix}")
        return
    locator: Locator | None = None
    for violation in rules.violations(line, value, of_text, entry.type):
        if is_document:
            locator = locator or Locator(line.data.decode())
        yield locator.line(violation.steps) if locator else line.number, violation


def holds_questions(path: str | Path) -> bool:
    """Return True if a file of JSON or JSON Lines is in a folder of question files, or begins as one."""
    place = Path(path)
    if place.suffix.lower() not in (".json", *rag.JSON_LINES):
        return False
    if place.parent.name == rag.FOLDER:
        return True
    if catalog.contract_of_file(path) is not DATASET:
        return False
    with reading.open_input(path) as file, suppress(OSError):
        head = file.read(_HEAD_BYTES)
        return _QUESTION_KEY.search(head) is not None and _DIALOGUE_KEY.search(head) is None
    return False  # its check reports the problem


def _contract_of_first_line(path: str | Path) -> Contract:
    """Return the contract of traces or labelled replies if the first line is one, else that of datasets."""
    with reading.open_input(path) as file, suppress(OSError, NotJsonError):
        line = next(reading.iter_lines(file, reading.MAX_LINE_BYTES), None)
        value = None if line is None else parse(line.data)[0]
        if not isinstance(value, dict):
            return DATASET
        if {"trace_version", "dialog_id", "dialog_status"} <= value.keys():
            return CONTRACTS["dialog-trace"]
        labelled = {"id", "text"} <= value.keys() and not _OF_LABELS.isdisjoint(value)
        return LABELS if labelled and _OF_DIALOGUES.isdisjoint(value) else DATASET
    return DATASET  # its check reports the problem


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
    for file in rag.question_files(path):
        rules = rag.QuestionRules(file_text(file), seen)
        if file.suffix.lower() in rag.JSON_LINES:
            with reading.open_input(file) as lines:
                yield from validate_questions(file, lines, rules, take)
            continue
        yield from validate_artifact(file, QUESTIONS, rules)
        if take is not None and rules.record is not None:
            take(file, rules.record)


def validate_questions(
    path: Path,
    lines: BinaryIO,
    rules: rag.QuestionRules,
    take: Callable[[Path, RagBenchmark], None] | None = None,
) -> Iterator[Finding]:
    """Yield every finding in a JSONL file of questions, as `validate_benchmark`.

    Raises:
        UsageError: when the file cannot be read, or holds no question.
    """
    rules.path, empty = path, True
    try:
        for line, alone in rag.question_lines(lines):
            rules.record, empty = None, False
            for _, violation in _violations(line, QUESTIONS, rules):
                steps = violation.steps[len(alone) :] if violation.steps[: len(alone)] == alone else ()
                yield finding(path, violation.message, steps, line.number)
            if take is not None and rules.record is not None:
                take(path, rules.record)
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem
    if empty:
        yield finding(path, "the file is empty")


# ---- runs


class _Artifacts(dict[str, RunRules]):
    """The rules of a run's artifacts after validation, by the names of their contracts."""

    def record(self, name: str) -> Any:
        """Return the content of a document; None if it is missing or unsound."""
        return self[name].record if name in self else None

    def ended(self, *, default: bool = False) -> bool:
        """Return True if the manifest has an end; files of other runs may be empty."""
        manifest: RunManifest | None = self.record("run-manifest")
        return default if manifest is None else manifest.ended_at is not None


def validate_run(directory: str | Path) -> Iterator[Finding]:
    """Yield every finding in the artifacts of a run, its progress log beside the directory included.

    Raises:
        UsageError: when the directory holds no artifact or one cannot be read.
    """
    root = Path(directory)
    named = _Artifacts()
    first: RunRules | None = None
    of_other_runs: list[Finding] = []
    for path in run_files(root):
        entry = catalog.contract_of_file(path)
        rules, may_be_empty = RULES[entry.name](), not named.ended(default=True)
        trace = named.get("dialog-trace")
        if entry.name == "turn-eval" and isinstance(trace, DialogTraceRules):
            rules, may_be_empty = TurnEvalRules(trace), may_be_empty or trace.pairs == 0
        if path.name == entry.file_name:
            named[entry.name] = rules
        yield from validate_artifact(path, entry, rules, may_be_empty=may_be_empty)
        if rules.run_id is not None:
            first = first or rules
            of_other_runs += _same_run(rules, first.run_id, first.path.name)
    yield from of_other_runs
    if "run-manifest" not in named:
        yield finding(root, f"{CONTRACTS['run-manifest'].file_name} is missing")
    if named.ended():
        manifest = named["run-manifest"]
        for name in _OF_EVERY_RUN[manifest.record.suite or "dialog"]:
            if name not in named:
                message = f"the run has ended, but {CONTRACTS[name].file_name} is missing"
                yield finding(manifest.path, message, ("ended_at",))
    yield from _agreement(named)
    ended = "run-manifest" in named and named.ended(default=True)
    yield from _committed(root, ended=ended)
    yield from _turns_under_way(root / TURNS)


def run_files(root: Path) -> list[Path]:
    """Return the artifacts of a run in the order of the catalogue.

    Raises:
        UsageError: when there is none, or the directory cannot be read.
    """
    names = [root.resolve().name]
    with suppress(UsageError):  # an epoch of a soak has another id than its directory's name
        names.append(reading.read_json(root / "run_manifest.json", RunManifest).run_id)
    logs = [root.parent / "logs" / f"progress_{name}.jsonl" for name in names]
    logs.append(root.parent.parent / "logs" / f"progress_{names[-1]}.{names[0]}.jsonl")  # of a shard
    try:
        paths = [path for path in root.iterdir() if path.is_file()]
    except OSError as problem:
        raise UsageError(f"cannot read {root}: {problem.strerror or problem}") from None
    paths = [path for path in paths if catalog.contract_of_file(path) is not DATASET]
    if not paths:
        raise UsageError(f"{root} holds no artifact of a run, such as run_manifest.json or turn_eval.jsonl")
    paths += [log for log in logs if log.is_file()][:1]
    return sorted(paths, key=lambda path: (_ORDER.index(catalog.contract_of_file(path).name), path.name))


def _same_run(rules: RunRules, run_id: str | None, source: str) -> Iterator[Finding]:
    if rules.run_id not in (None, run_id):
        message = f"{rules.run_id!r} differs from {run_id!r}, the run of {source}"
        yield finding(rules.path, message, ("run_id",))


def _agreement(named: _Artifacts) -> Iterator[Finding]:
    """Compare counters, results and fingerprints of the artifacts of one run."""
    documents = ["run-manifest"] if named.ended() else []
    documents += ["metrics-summary"] if named.record("metrics-summary") is not None else []
    for source in (named.get("rag-result"), named.get("dialog-trace")):
        if isinstance(source, DialogTraceRules | rag.RagResultRules):
            for name in documents:
                yield from _counters(named[name], source.counters(), source.path.name)
    results, answers = named.get("rag-result"), named.get("rag-answered")
    if isinstance(results, rag.RagResultRules):
        if isinstance(answers, rag.RagResultRules):
            yield from rag.results_against_answers(results.path, results.scores, answers.scores)
        if (summary := named.record("rag-summary")) is not None:
            yield from rag.summary_against_results(named["rag-summary"].path, summary, results.scores)
    yield from _corrected(named)
    config = named.record("config")
    for name in ("metrics-summary", "rag-summary"):
        summary = named.record(name)
        stated = None if None in (config, summary) else summary.config_fingerprint
        if stated not in (None, config and config.config_fingerprint):
            yield finding(named[name].path, "differs from that of config.json", ("config_fingerprint",))


def _corrected(named: _Artifacts) -> Iterator[Finding]:
    """Compare the corrected rates of a summary with those of the run, and these with its rows."""
    summary, found = named.record("metrics-summary"), named.record("corrections")
    if summary is None or not summary.corrected:
        return
    values = {} if found is None else {name: rate for name, rate in found.values.items() if rate is not None}
    if summary.corrected != values:
        message = f"differs from {CONTRACTS['corrections'].file_name}; memfin correct --write makes both anew"
        yield finding(named["metrics-summary"].path, message, ("corrected",))
    elif found is not None and (rows := named.get("turn-eval")) is not None:
        with rows.path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != found.turn_eval_sha256:
                message = f"is of other rows than {rows.path.name}; memfin correct --write makes it anew"
                yield finding(named["metrics-summary"].path, message, ("corrected",))


def _counters(rules: RunRules, counted: Counters, source: str) -> Iterator[Finding]:
    """Compare the counters of a document with those of dialogues or questions."""
    for name, here in dict(rules.record.counters).items():
        there = counted[name]
        # A failed dialogue may lack some of its turn pairs.
        lacking = name == "total_turn_pairs" and counted.failed_dialogs and here >= there
        if msgspec.UNSET not in (here, there) and here != there and not lacking:
            yield finding(rules.path, f"{here}, but {source} amounts to {there}", ("counters", name))


def _committed(root: Path, *, ended: bool) -> Iterator[Finding]:
    """Compare the rows with the commit log, where there is one."""
    if not (root / COMMITS).is_file():
        return
    try:
        committed, cuts = examine(Disk(), root)
        changed = changed_artifacts(Disk(), root, committed.artifacts)
    except JournalDamaged as problem:
        path = Path(problem.where)
        yield finding(path, problem.what, line=_line_at(path, problem.offset))
        return
    except OSError as problem:
        raise UsageError(f"cannot read {root}: {problem.strerror or problem}") from problem
    for name in changed:
        yield finding(root / name, NOT_AS_WRITTEN)
    for cut in cuts if ended else ():
        path = root / cut.file
        message = f"offset {cut.keep}: {cut.size - cut.keep} bytes that were never committed"
        yield finding(path, message, line=_line_at(path, cut.keep))


def _turns_under_way(path: Path) -> Iterator[Finding]:
    """Compare the records of dialogues under way with their checksums."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, (_, _, record) in enumerate(turn_records(Disk(), file.fileno()), 1):
            if record is None:
                message = "the line is not as it was written; its dialogue continues from an earlier turn"
                yield finding(path, message, line=number)


def _line_at(path: Path, offset: int) -> int:
    """Return the number of the line that holds an offset; 1 for a file that is missing."""
    line = 1
    with suppress(FileNotFoundError), path.open("rb") as file:
        while offset and (piece := file.read(min(offset, _PIECE))):
            line += piece.count(b"\n")
            offset -= len(piece)
    return line


# ---- soaks


def validate_soak(directory: str | Path) -> Iterator[Finding]:
    """Yield every finding in the artifacts of a soak and in its epochs, progress logs included.

    Raises:
        UsageError: when something cannot be read.
    """
    root = Path(directory)
    lines, summary_rules = SoakEpochRules(), RULES["soak-summary"]()
    for name, rules in (("soak-summary", summary_rules), ("soak-epoch", lines), ("config", RunRules())):
        path = root / str(CONTRACTS[name].file_name)
        if path.is_file() or rules is summary_rules:
            yield from validate_artifact(path, CONTRACTS[name], rules, may_be_empty=rules is lines)
    summary: SoakSummary | None = summary_rules.record
    if summary is None:
        return
    source = root / str(CONTRACTS["soak-epoch"].file_name)
    behind = lines.epochs - summary.epochs
    under_way = behind == 1 and summary.state == "running"  # the line is written before the summary
    for name in () if under_way else ("epochs",) if behind else ("turns", "dialogs"):
        if summary[name] != (counted := getattr(lines, name)):
            verb = "holds" if behind else "amounts to"
            message = f"{summary[name]}, but {source.name} {verb} {counted}"
            yield finding(summary_rules.path, message, (name,))
    yield from _same_run(lines, summary.run_id, summary_rules.path.name)
    kind = _OF_EVERY_RUN[summary.suite or "dialog"][-1]
    keep = summary.limits.keep_epochs  # its directory is removed before the summary says so
    pruned = max(summary.pruned_epochs, 0 if keep is None else lines.epochs - keep)
    for number in range(pruned + 1, lines.epochs + 1):
        directory = root / "epochs" / f"{number:06}"
        if directory.is_dir():
            yield from validate_run(directory)
        else:
            yield finding(source, f"the directory of epoch {number} is missing", ("epoch",), number)
    if source.is_file():
        yield from _epoch_values(source, kind)


def _epoch_values(source: Path, summary: str) -> Iterator[Finding]:
    """Compare the values of every line with the summary of its epoch."""
    read = {"metrics-summary": _dialog_values, "rag-summary": _rag_values}[summary]

    def known(line: int, problem: reading.InvalidRecord) -> None:
        """Ignore a line that is a finding already."""

    # A summary that is no record is a finding already.
    with suppress(UsageError):
        for number, epoch in reading.iter_jsonl(source, SoakEpoch, on_error=known):
            path = source.parent / "epochs" / f"{epoch.epoch:06}" / str(CONTRACTS[summary].file_name)
            recorded = epoch.headline_values
            found, optional = read(path) if path.is_file() else (recorded, ())
            for name in sorted({*found, *recorded}):
                value, true = recorded.get(name), found.get(name)
                if value is None and name in optional:
                    continue
                if value != true and (true is None or value != rounded(true)):
                    message = f"{value}, but the epoch's summary says {true}"
                    yield finding(source, message, ("metrics", name), number)


def _dialog_values(path: Path) -> tuple[Mapping[str, float], Collection[str]]:
    """Return the values of a summary, and the names of those that were not measured."""
    summary = reading.read_json(path, EvalSummary)
    found: dict[str, float] = {}
    optional: list[str] = []
    for metric, result in summary.metrics.items():
        for prefix, values in (("", result.micro), ("macro.", result.macro)):
            found |= {f"{metric}.{prefix}{name}": value for name, value in values.items()}
            optional += [f"{metric}.{prefix}{name}" for name in result.not_measured]
    return found, optional


def _rag_values(path: Path) -> tuple[Mapping[str, float], Collection[str]]:
    summary = read_sums(path)
    values = {"overall_percentage": summary.overall_percentage, "pass_rate": summary.pass_rate}
    for kind, group in summary.by_type.items():
        if group.count:
            share = group.total_score / group.max_score if group.max_score else 0.0
            values |= {f"{kind}.percentage": 100 * share, f"{kind}.pass_rate": group.passed / group.count}
    if summary.judge is not msgspec.UNSET:
        means = {mark: summary.judge[mark].mean for mark in rag.MARKS}
        values |= {f"judge.{mark}": mean for mark, mean in means.items() if mean is not None}
    return {f"rag.{name}": value for name, value in values.items()}, ()
