"""Validates the directory of a run: each artefact, and whether they tell the same story."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from memfin.contracts import Counters, RunManifest
from memfin.contracts.catalog import CONTRACTS, DATASET, contract_of_file
from memfin.contracts.reading import read_json
from memfin.errors import UsageError
from memfin.journal import COMMITS, JournalDamaged
from memfin.journal.artifacts import NOT_AS_WRITTEN, changed_artifacts
from memfin.journal.checkpoints import TURNS, turn_records
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine
from memfin.validation.files import RULES, validate_artefact
from memfin.validation.findings import Finding, file_text
from memfin.validation.rag_results import (
    RagResultRules,
    RagSummaryRules,
    results_against_answers,
    summary_against_results,
)
from memfin.validation.rules import (
    ConfigRules,
    DialogTraceRules,
    ManifestRules,
    RunRules,
    SummaryRules,
    TurnEvalRules,
)

_OF_EVERY_RUN: Final = {
    "dialog": ("dialog-trace", "turn-eval", "metrics-summary"),
    "rag": ("rag-result", "rag-summary"),
}
_PIECE: Final = 1 << 20
_ORDER: Final = tuple(CONTRACTS)  # the manifest and the trace stand before the rows, which depend on them


def validate_run(directory: str | Path) -> Iterator[Finding]:
    """Yield every finding in the artefacts of a run, its progress log beside the directory included.

    Raises:
        UsageError: when the directory holds no artefact or one cannot be read.
    """
    root = Path(directory)
    paths = run_files(root)
    manifest: ManifestRules | None = None
    traced: DialogTraceRules | None = None
    rules_of: dict[Path, RunRules] = {}
    for path in paths:
        entry = contract_of_file(path)
        rules = TurnEvalRules(traced) if entry.name == "turn-eval" else RULES[entry.name]()
        rules_of[path] = rules
        if isinstance(rules, DialogTraceRules) and path.name == entry.file_name:
            traced = rules
        if isinstance(rules, ManifestRules) and path.name == entry.file_name:
            manifest = rules
        no_turns = isinstance(rules, TurnEvalRules) and traced is not None and traced.pairs == 0
        yield from validate_artefact(path, entry, rules, may_be_empty=no_turns or _goes_on(manifest))
    yield from _across(root, rules_of)
    yield from _committed(root, ended=manifest is not None and not _goes_on(manifest))
    yield from _begun(root / TURNS)


def _committed(root: Path, *, ended: bool) -> Iterator[Finding]:
    """Hold the rows against the commit log, where there is one."""
    if not (root / COMMITS).is_file():
        return
    try:
        committed, cuts = examine(Disk(), root)
        changed = changed_artifacts(Disk(), root, committed.artifacts)
    except JournalDamaged as problem:
        path = Path(problem.where)
        yield Finding(
            file=file_text(path), line=_line_at(path, problem.offset), path="$", message=problem.what
        )
        return
    except OSError as problem:
        raise UsageError(f"cannot read {root}: {problem.strerror or problem}") from problem
    for name in changed:
        yield Finding(file=file_text(root / name), line=1, path="$", message=NOT_AS_WRITTEN)
    for cut in cuts if ended else ():
        path = root / cut.file
        message = f"offset {cut.keep}: {cut.size - cut.keep} bytes that were never committed"
        yield Finding(file=file_text(path), line=_line_at(path, cut.keep), path="$", message=message)


def _begun(path: Path) -> Iterator[Finding]:
    """Hold what is recorded of dialogues under way against its checksums."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, (_, _, record) in enumerate(turn_records(Disk(), file.fileno()), 1):
            if record is None:
                message = "the line is not as it was written; its dialogue goes on from an earlier turn"
                yield Finding(file=file_text(path), line=number, path="$", message=message)


def _line_at(path: Path, offset: int) -> int:
    """Return the number of the line that holds an offset; 1 for a file that is missing."""
    line = 1
    with suppress(FileNotFoundError), path.open("rb") as file:
        while offset and (piece := file.read(min(offset, _PIECE))):
            line += piece.count(b"\n")
            offset -= len(piece)
    return line


def _goes_on(manifest: ManifestRules | None) -> bool:
    """Say whether the run is under way or was interrupted, which leaves files that nothing reached."""
    return manifest is not None and manifest.manifest is not None and manifest.manifest.ended_at is None


def run_files(root: Path) -> list[Path]:
    """Return the artefacts of a run in the order of the catalogue.

    Raises:
        UsageError: when there is none, or the directory cannot be read.
    """
    logs = [root.parent / "logs" / f"progress_{name}.jsonl" for name in _names(root)]
    try:
        paths = [path for path in root.iterdir() if contract_of_file(path) is not DATASET and path.is_file()]
    except OSError as problem:
        raise UsageError(f"cannot read {root}: {problem.strerror or problem}") from None
    if not paths:
        raise UsageError(f"{root} holds no artefact of a run, such as run_manifest.json or turn_eval.jsonl")
    paths += [log for log in logs if log.is_file()][:1]
    return sorted(paths, key=lambda path: (_ORDER.index(contract_of_file(path).name), path.name))


def _names(root: Path) -> Iterator[str]:
    """Yield what the run may be called: its directory's name, and the id in its manifest.

    An epoch of a soak has another id than its directory's name.
    """
    yield root.resolve().name
    with suppress(UsageError):
        yield read_json(root / "run_manifest.json", RunManifest).run_id


def _across(root: Path, rules_of: dict[Path, RunRules]) -> Iterator[Finding]:
    """Compare the artefacts of the run with each other."""
    named = {
        contract_of_file(path).name: (path, rules)
        for path, rules in rules_of.items()
        if contract_of_file(path).file_name == path.name
    }
    yield from _one_run(rules_of)
    if "run-manifest" not in named:
        name = CONTRACTS["run-manifest"].file_name
        yield Finding(file=file_text(root), line=1, path="$", message=f"{name} is missing")
    path, rules = named.get("run-manifest", (root, None))
    manifest = rules.manifest if isinstance(rules, ManifestRules) else None
    ended: _Ended = None
    if manifest is not None and manifest.ended_at is not None:
        ended = path, manifest
        for name in _OF_EVERY_RUN[manifest.suite or "dialog"]:
            if name not in named:
                message = f"the run has ended, but {CONTRACTS[name].file_name} is missing"
                yield Finding(file=file_text(path), line=1, path="$.ended_at", message=message)
    config = named.get("config", (root, None))[1]
    stated = config.fingerprint if isinstance(config, ConfigRules) else None
    yield from _of_dialogues(named, ended, stated)
    yield from _of_questions(named, ended, stated)


_Named = dict[str, tuple[Path, RunRules]]
_Ended = tuple[Path, RunManifest] | None
"""The artefacts of a run by the names of their contracts; the manifest of one that has ended."""


def _of_dialogues(named: _Named, ended: _Ended, fingerprint: str | None) -> Iterator[Finding]:
    counted: Counters | None = None
    if "dialog-trace" in named:
        path, rules = named["dialog-trace"]
        counted = rules.counters() if isinstance(rules, DialogTraceRules) else None
        if ended is not None and counted is not None:
            yield from _counters(ended[0], ended[1].counters, counted, path.name)
    if "metrics-summary" not in named:
        return
    path, rules = named["metrics-summary"]
    if isinstance(rules, SummaryRules) and rules.summary is not None:
        if counted is not None:
            yield from _counters(path, rules.summary.counters, counted, "dialog_trace.jsonl")
        yield from _fingerprints(path, rules.summary.config_fingerprint, fingerprint)


def _of_questions(named: _Named, ended: _Ended, fingerprint: str | None) -> Iterator[Finding]:
    results: RagResultRules | None = None
    if "rag-result" in named:
        path, rules = named["rag-result"]
        results = rules if isinstance(rules, RagResultRules) else None
        if ended is not None and results is not None:
            yield from _counters(ended[0], ended[1].counters, results.counters(), path.name)
        answered = named["rag-answered"][1] if "rag-answered" in named else None
        if isinstance(answered, RagResultRules) and results is not None:
            yield from results_against_answers(path, results.scores, answered.scores)
    if "rag-summary" not in named:
        return
    path, rules = named["rag-summary"]
    if isinstance(rules, RagSummaryRules) and rules.summary is not None:
        if results is not None:
            yield from summary_against_results(path, rules.summary, results.scores)
        yield from _fingerprints(path, rules.summary.config_fingerprint, fingerprint)


def _fingerprints(path: Path, here: str | None, stated: str | None) -> Iterator[Finding]:
    if stated is not None and here not in (None, stated):
        message = "differs from that of config.json"
        yield Finding(file=file_text(path), line=1, path="$.config_fingerprint", message=message)


def _one_run(rules_of: dict[Path, RunRules]) -> Iterator[Finding]:
    first: tuple[Path, str] | None = None
    for path, rules in rules_of.items():
        if rules.run_id is None:
            continue
        if first is None:
            first = (path, rules.run_id)
        elif rules.run_id != first[1]:
            message = f"{rules.run_id!r} differs from {first[1]!r}, the run of {first[0].name}"
            yield Finding(file=file_text(path), line=1, path="$.run_id", message=message)


def _counters(path: Path, stated: Counters, counted: Counters, source: str) -> Iterator[Finding]:
    """Compare counters with the dialogues; a failed dialogue may lack some of its turn pairs."""
    for name in stated:
        there, here = counted[name], stated[name]
        if name == "total_turn_pairs" and counted.failed_dialogs and here >= there:
            continue
        if here != there:
            message = f"{here}, but {source} amounts to {there}"
            yield Finding(file=file_text(path), line=1, path=f"$.counters.{name}", message=message)
