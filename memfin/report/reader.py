"""Streaming access to the files of a run directory, in the parts a report needs.

The structs here are views of the contract's. They leave out everything that a report does not show, so that
recalled contexts, by far the largest part of a trace, are never built.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sys import intern
from types import GenericAlias
from typing import Any, Final, TypeVar

import msgspec

from memfin.contracts import (
    ComplianceTrace,
    CorrectedValue,
    Corrections,
    Counters,
    DetectorResult,
    MetricResult,
    RecallTrace,
)
from memfin.contracts.pressure import Perturbation
from memfin.contracts.reading import InvalidRecord, decode, iter_jsonl, read_json
from memfin.contracts.validity import LABELS
from memfin.errors import UsageError

MANIFEST: Final = "run_manifest.json"
SUMMARY: Final = "metrics_summary.json"
ROWS: Final = "turn_eval.jsonl"
TRACES: Final = "dialog_trace.jsonl"
STATS: Final = "run_stats.json"
CONTROLS: Final = "judge_controls.json"
JUDGEMENTS: Final = "judgements.jsonl"
CONFIG: Final = "config.json"
CORRECTIONS: Final = "corrections.json"

_REQUIRED: Final = (MANIFEST, SUMMARY, ROWS, TRACES)
_LINE_LIMIT: Final = 256 * 1024 * 1024
"""The bound on a line of the trace: a dialogue with everything that was recalled at each of its turns."""

T = TypeVar("T")


class SummaryMetric(msgspec.Struct, kw_only=True):
    """A metric of the summary with ``by_dialog`` still in JSON: it alone grows with the run."""

    micro: dict[str, float]
    macro: dict[str, float]
    counts: dict[str, int]
    by_dialog: msgspec.Raw = msgspec.Raw(b"{}")
    ci95: dict[str, tuple[float, float]] = {}
    not_measured: dict[str, str] = {}
    lower_is_better: bool | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    groups: dict[str, dict[str, tuple[int, int]]] | msgspec.UnsetType = msgspec.UNSET


Figures = MetricResult | SummaryMetric
"""The values and counts of a metric."""

DialogValues = Mapping[str, Mapping[str, float]]
"""The first value of each metric by its name, and there by dialogue."""


class SummaryFile(msgspec.Struct, kw_only=True):
    """``metrics_summary.json`` without its by_dialog tables decoded; ``corrected`` is from `CORRECTIONS`."""

    run_id: str
    trace_version: str
    dataset_path: str
    metrics: dict[str, SummaryMetric]
    counters: Counters
    config_fingerprint: str | None = None
    detectors: dict[str, DetectorResult] = {}
    corrected: dict[str, CorrectedValue | None] = {}


class ScannedTurn(msgspec.Struct, kw_only=True):
    """The part of a turn trace that a report counts."""

    turn_pair_id: int
    user_text: str
    gt_assistant_text: str = ""
    turn_status: str | None = None
    status: str | None = None
    pred_assistant_text: str | None = None
    latency_ms: float | None = None
    error: str | None = None
    observation_error: str | None = None

    @property
    def outcome(self) -> str:
        """Return the turn's status under its present or its older name."""
        return self.turn_status or self.status or "error"


class ScannedDialog(msgspec.Struct, kw_only=True):
    """The part of a dialogue trace that a report counts."""

    trace_version: str = "v1"
    dialog_id: str
    valid_dialog: bool
    dialog_status: str | None = None
    scenario_type: str | None = None
    difficulty: str | None = None
    language: str | None = None
    skip_reason: str | None = None
    dialog_error: str | None = None
    turns: list[ScannedTurn] = []
    history_mode: str | None = None
    judge: str | None = None
    perturbation: Perturbation | None = None


class TurnText(ScannedTurn, kw_only=True):
    """The texts of one turn that a report quotes."""

    recall: RecallTrace | None = None
    compliance: ComplianceTrace | None = None


class _DialogTexts(msgspec.Struct):
    dialog_id: str
    valid_dialog: bool
    turns: msgspec.Raw = msgspec.Raw(b"[]")


class Reason(msgspec.Struct):
    """The part of a judge's verdict that a report quotes."""

    score: float
    reason: str = ""


class _JudgedTurn(msgspec.Struct):
    dialog_id: str
    turn_pair_id: int
    verdict: Reason | None = None
    probe: str = ""


def require_run_directory(run_dir: Path) -> None:
    """Check that a directory holds a finished run.

    Raises:
        UsageError: it does not exist, is no directory, or lacks a file that a report needs.
    """
    if not run_dir.is_dir():
        state = "not a directory" if run_dir.exists() else "no such directory"
        raise UsageError(f"{run_dir}: {state}; give the directory of a run, such as runs/RUN_ID")
    missing = [name for name in _REQUIRED if not (run_dir / name).is_file()]
    if MANIFEST in missing and len(missing) == len(_REQUIRED):
        raise UsageError(f"{run_dir}: not a run directory; it holds no {MANIFEST}")
    if missing == [SUMMARY]:
        raise UsageError(
            f"{run_dir}: {SUMMARY} is missing, the run has not finished; "
            f"memfin resume {run_dir} goes on with it"
        )
    if missing:
        raise UsageError(f"{run_dir}: {', '.join(missing)} missing; a report needs {', '.join(_REQUIRED)}")


def by_dialog(run_dir: Path, name: str, key: str, metric: SummaryMetric) -> dict[str, float]:
    """Decode one value of a metric's by_dialog table; raise UsageError when it is malformed."""
    path = run_dir / SUMMARY
    # The other values are never built, and all metrics share the names of the dialogues.
    entry = msgspec.defstruct("Entry", [("value", float | None, msgspec.field(name=key, default=None))])
    kind: Any = GenericAlias(dict, (str, entry))
    with _reading(path, f"{path}: metrics.{name}.by_dialog: "):
        found: dict[str, Any] = decode(bytes(metric.by_dialog), kind)
    return {intern(dialog): each.value for dialog, each in found.items() if each.value is not None}


def fetch_turns(run_dir: Path, wanted: Mapping[str, set[int]]) -> dict[tuple[str, int], TurnText]:
    """Return the texts of the wanted turns (dialogue id to turn pair ids) that the trace holds."""
    left = dict(wanted)
    found: dict[tuple[str, int], TurnText] = {}
    for dialog in scan(run_dir / TRACES, _DialogTexts) if left else ():
        if dialog.valid_dialog and (pairs := left.pop(dialog.dialog_id, None)) is not None:
            turns = decode(bytes(dialog.turns), list[TurnText])
            known = {turn.turn_pair_id: turn for turn in turns}
            found |= {(dialog.dialog_id, pair): known[pair] for pair in pairs & known.keys()}
        if not left:
            break
    return found


def fetch_reasons(run_dir: Path, wanted: Mapping[str, set[int]]) -> dict[tuple[str, int], list[Reason]]:
    """Return the reasons that a language model as the judge gave for the wanted turns, one per vote."""
    found: defaultdict[tuple[str, int], list[Reason]] = defaultdict(list)
    path = run_dir / JUDGEMENTS
    for vote in scan(path, _JudgedTurn) if wanted and path.is_file() else ():
        of_reply = not vote.probe and vote.turn_pair_id in wanted.get(vote.dialog_id, ())
        if of_reply and vote.verdict and vote.verdict.reason:
            found[vote.dialog_id, vote.turn_pair_id].append(vote.verdict)
    return found


def scan(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the records of a JSONL file one at a time; raise UsageError at a bad line."""
    with _reading(path):
        for _, record in iter_jsonl(path, kind, limit=_LINE_LIMIT):
            yield record


def read(path: Path, kind: type[T]) -> T:
    """Read a JSON file; raise UsageError when it does not fit its contract."""
    with _reading(path):
        return read_json(path, kind)


def read_optional(path: Path, kind: type[T]) -> T | None:
    """Read a JSON file as `read` does, or return None when there is none."""
    return read(path, kind) if path.is_file() else None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with _reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def rows_sha256(run_dir: Path) -> str:
    """Return the SHA-256 of the rows of a run."""
    return sha256_of(run_dir / ROWS)


def label_files(run_dir: Path, given: Iterable[Path] = ()) -> list[Path]:
    """Return the given files of labels; if none is given the run's own, where it has one.

    A directory or pipe in its place is returned too; reading it fails.
    """
    own = run_dir / LABELS
    has_own = os.path.lexists(own) and not (own.is_file() and own.stat().st_size == 0)
    return [*given] or ([own] if has_own else [])


def read_corrections(run_dir: Path) -> tuple[Corrections | None, bool]:
    """Return the corrected rates of a run, if there are any, and False where they have to be made anew.

    They are of the present rows and, where the run has labels, of these.
    """
    found, labels = read_optional(run_dir / CORRECTIONS, Corrections), label_files(run_dir)
    if found is None:
        return None, not labels
    current = found.turn_eval_sha256 == rows_sha256(run_dir)
    return found, current and (not labels or found.labels_sha256 == sha256_of(labels[0]))


@contextmanager
def _reading(path: Path, prefix: str = "") -> Iterator[None]:
    try:
        yield
    except InvalidRecord as problem:
        advice = f"; to see everything that is wrong: memfin validate {path}"
        raise UsageError(f"{prefix}{problem}{advice}") from None
    except OSError as problem:
        raise UsageError(f"{path}: cannot be read: {problem.strerror}") from None
