"""Directories of runs, soaks and benchmarks: each artifact, and their agreement with each other."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts import Counters, EvalSummary, RagBenchmark, RunManifest
from memfin.contracts.catalog import CONTRACTS, DATASET, QUESTIONS, contract_of_file
from memfin.contracts.rag import read_sums
from memfin.contracts.reading import InvalidRecord, iter_jsonl, read_json
from memfin.contracts.soak import SoakEpoch, SoakSummary
from memfin.errors import UsageError
from memfin.journal import COMMITS, JournalDamaged
from memfin.journal.artifacts import NOT_AS_WRITTEN, changed_artifacts
from memfin.journal.checkpoints import TURNS, turn_records
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine
from memfin.validation.files import RULES, validate_artifact
from memfin.validation.findings import Finding, file_text, finding
from memfin.validation.rag import (
    MARKS,
    QuestionRules,
    RagResultRules,
    question_files,
    results_against_answers,
    summary_against_results,
)
from memfin.validation.rules import DialogTraceRules, RunRules, SoakEpochRules, TurnEvalRules

SOAK_SUMMARY: Final = "soak_summary.json"
SOAK_LINES: Final = "soak.jsonl"

_OF_EVERY_RUN: Final = {
    "dialog": ("dialog-trace", "turn-eval", "metrics-summary"),
    "rag": ("rag-result", "rag-summary"),
}
_PIECE: Final = 1 << 20
_ORDER: Final = tuple(CONTRACTS)  # the manifest and the trace stand before the rows, which depend on them


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
        yield from validate_artifact(file, QUESTIONS, rules)
        if take is not None and rules.record is not None:
            take(file, rules.record)


# ---- runs


class _Artifacts(dict[str, tuple[Path, RunRules]]):
    """The artifacts of a run and their rules after validation, by the names of their contracts."""

    def record(self, name: str) -> Any:
        """Return the content of a document; None if it is missing or unsound."""
        return self[name][1].record if name in self else None

    def goes_on(self) -> bool:
        """Return True if the run is under way or was interrupted: files may be empty."""
        manifest = self.record("run-manifest")
        return manifest is not None and manifest.ended_at is None


def validate_run(directory: str | Path) -> Iterator[Finding]:
    """Yield every finding in the artifacts of a run, its progress log beside the directory included.

    Raises:
        UsageError: when the directory holds no artifact or one cannot be read.
    """
    root = Path(directory)
    named = _Artifacts()
    run_ids: list[tuple[Path, str]] = []
    for path in run_files(root):
        entry = contract_of_file(path)
        rules, may_be_empty = RULES[entry.name](), named.goes_on()
        trace = named.get("dialog-trace", (root, None))[1]
        if entry.name == "turn-eval" and isinstance(trace, DialogTraceRules):
            rules, may_be_empty = TurnEvalRules(trace), may_be_empty or trace.pairs == 0
        if path.name == entry.file_name:
            named[entry.name] = (path, rules)
        yield from validate_artifact(path, entry, rules, may_be_empty=may_be_empty)
        if rules.run_id is not None:
            run_ids.append((path, rules.run_id))
    for path, run_id in run_ids:
        if run_id != run_ids[0][1]:
            message = f"{run_id!r} differs from {run_ids[0][1]!r}, the run of {run_ids[0][0].name}"
            yield finding(path, message, ("run_id",))
    yield from _presence(root, named)
    yield from _agreement(named)
    yield from _committed(root, ended="run-manifest" in named and not named.goes_on())
    yield from _turns_under_way(root / TURNS)


def run_files(root: Path) -> list[Path]:
    """Return the artifacts of a run in the order of the catalogue.

    Raises:
        UsageError: when there is none, or the directory cannot be read.
    """
    names = [root.resolve().name]
    with suppress(UsageError):  # an epoch of a soak has another id than its directory's name
        names.append(read_json(root / "run_manifest.json", RunManifest).run_id)
    logs = [root.parent / "logs" / f"progress_{name}.jsonl" for name in names]
    try:
        paths = [path for path in root.iterdir() if contract_of_file(path) is not DATASET and path.is_file()]
    except OSError as problem:
        raise UsageError(f"cannot read {root}: {problem.strerror or problem}") from None
    if not paths:
        raise UsageError(f"{root} holds no artifact of a run, such as run_manifest.json or turn_eval.jsonl")
    paths += [log for log in logs if log.is_file()][:1]
    return sorted(paths, key=lambda path: (_ORDER.index(contract_of_file(path).name), path.name))


def _presence(root: Path, named: _Artifacts) -> Iterator[Finding]:
    if "run-manifest" not in named:
        yield finding(root, f"{CONTRACTS['run-manifest'].file_name} is missing")
    manifest = named.record("run-manifest")
    if manifest is not None and manifest.ended_at is not None:
        for name in _OF_EVERY_RUN[manifest.suite or "dialog"]:
            if name not in named:
                message = f"the run has ended, but {CONTRACTS[name].file_name} is missing"
                yield finding(named["run-manifest"][0], message, ("ended_at",))


def _agreement(named: _Artifacts) -> Iterator[Finding]:
    """Compare counters, results and fingerprints of the artifacts of one run."""
    stated: list[tuple[Path, Counters]] = []
    manifest, summary = named.record("run-manifest"), named.record("metrics-summary")
    if manifest is not None and manifest.ended_at is not None:
        stated.append((named["run-manifest"][0], manifest.counters))
    path, results = named.get("rag-result", (Path(), None))
    if isinstance(results, RagResultRules):
        for place, counters in stated:
            yield from _counters(place, counters, results.counters(), path.name)
        answered = named.get("rag-answered", (Path(), None))[1]
        if isinstance(answered, RagResultRules):
            yield from results_against_answers(path, results.scores, answered.scores)
        if (rag_summary := named.record("rag-summary")) is not None:
            yield from summary_against_results(named["rag-summary"][0], rag_summary, results.scores)
    if summary is not None:
        stated.append((named["metrics-summary"][0], summary.counters))
    path, trace = named.get("dialog-trace", (Path(), None))
    if isinstance(trace, DialogTraceRules):
        for place, counters in stated:
            yield from _counters(place, counters, trace.counters(), path.name)
    yield from _fingerprints(named)


def _fingerprints(named: _Artifacts) -> Iterator[Finding]:
    config = named.record("config")
    stated = None if config is None else config.config_fingerprint
    for name in ("metrics-summary", "rag-summary"):
        summary = named.record(name)
        if None not in (stated, summary) and summary.config_fingerprint not in (None, stated):
            yield finding(named[name][0], "differs from that of config.json", ("config_fingerprint",))


def _counters(path: Path, stated: Counters, counted: Counters, source: str) -> Iterator[Finding]:
    """Compare counters with the dialogues; a failed dialogue may lack some of its turn pairs."""
    for name in stated:
        there, here = counted[name], stated[name]
        if name == "total_turn_pairs" and counted.failed_dialogs and here >= there:
            continue
        if here != there:
            yield finding(path, f"{here}, but {source} amounts to {there}", ("counters", name))


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
                message = "the line is not as it was written; its dialogue goes on from an earlier turn"
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


def is_soak(directory: str | Path) -> bool:
    """Return True if a directory is that of a soak."""
    return (Path(directory) / SOAK_SUMMARY).is_file()


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
    behind = lines.epochs - summary.epochs
    under_way = behind == 1 and summary.state == "running"  # the line is written before the summary
    for name in () if under_way else ("epochs",) if behind else ("turns", "dialogs"):
        if summary[name] != (counted := getattr(lines, name)):
            verb = "holds" if behind else "amounts to"
            message = f"{summary[name]}, but {SOAK_LINES} {verb} {counted}"
            yield finding(root / SOAK_SUMMARY, message, (name,))
    if lines.run_id not in (None, summary.run_id):
        message = f"{lines.run_id!r} differs from {summary.run_id!r}, the run of {SOAK_SUMMARY}"
        yield finding(root / SOAK_LINES, message, ("run_id",))
    yield from _epochs(
        root, _OF_EVERY_RUN[summary.suite or "dialog"][-1], summary.pruned_epochs, lines.epochs
    )


def _epochs(root: Path, summary: str, pruned: int, complete: int) -> Iterator[Finding]:
    """Check the run directory of every epoch: all of it, or the artifacts that pruning has left."""
    for number in range(1, complete + 1):
        directory = root / "epochs" / f"{number:06}"
        if not directory.is_dir():
            message = f"the directory of epoch {number} is missing"
            yield finding(root / SOAK_LINES, message, ("epoch",), number)
        elif number > pruned:
            yield from validate_run(directory)
        else:
            for name in ("run-manifest", summary, "run-stats"):
                path = directory / str(CONTRACTS[name].file_name)
                if path.is_file():
                    yield from validate_artifact(path, CONTRACTS[name], RunRules())
                else:
                    yield finding(path, "the file is missing")
    if (root / SOAK_LINES).is_file():
        yield from _epoch_values(root, summary)


def _epoch_values(root: Path, summary: str) -> Iterator[Finding]:
    """Compare the values of every line with the summary of its epoch."""
    read = {"metrics-summary": _dialog_values, "rag-summary": _rag_values}[summary]

    def known(line: int, problem: InvalidRecord) -> None:
        """Ignore a line that is a finding already."""

    # A summary that is no record is a finding already.
    with suppress(UsageError):
        for number, epoch in iter_jsonl(root / SOAK_LINES, SoakEpoch, on_error=known):
            path = root / "epochs" / f"{epoch.epoch:06}" / str(CONTRACTS[summary].file_name)
            found = read(path) if path.is_file() else epoch.metrics
            for name in sorted({*found, *epoch.metrics}):
                if found.get(name) != epoch.metrics.get(name):
                    message = f"{epoch.metrics.get(name)}, but the epoch's summary says {found.get(name)}"
                    yield finding(root / SOAK_LINES, message, ("metrics", name), number)


def _dialog_values(path: Path) -> Mapping[str, float]:
    summary = read_json(path, EvalSummary)
    return {
        f"{metric}.{prefix}{name}": value
        for metric, result in summary.metrics.items()
        for prefix, values in (("", result.micro), ("macro.", result.macro))
        for name, value in values.items()
    }


def _rag_values(path: Path) -> Mapping[str, float]:
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
