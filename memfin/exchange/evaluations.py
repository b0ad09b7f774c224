"""Turns of a run with their times, deterministic ids and evaluation results, as exporters write them."""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from memfin.contracts import DialogTrace, RunManifest, TurnEvalRow, TurnTrace
from memfin.contracts.reading import read_json
from memfin.contracts.turn_eval import met_risk_tags
from memfin.errors import UsageError
from memfin.metrics import MetricsState
from memfin.report.reader import MANIFEST
from memfin.results import Results

MS: Final = 1_000_000
"""Nanoseconds of a millisecond."""

_GAP: Final = MS  # between turns, which keeps their order
_BINARY: Final = frozenset(
    {
        "strict_key_hit_rate",
        "contradiction_rate",
        "strict_risk_coverage_rate",
        "compliance_label_acc",
        "severe_violation_rate",
        "forbidden_hit_rate",
    }
)
"""Values that are 0 or 1 in a turn."""


class Evaluation(NamedTuple):
    """A value of a metric, or a label, in a turn or a dialogue; ``passed`` is None unless it is 0 or 1."""

    name: str
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    passed: bool | None = None


class TimedTurn(NamedTuple):
    """A turn with its evaluations, its start and its end in nanoseconds since 1970, and its id."""

    trace: TurnTrace
    evaluations: list[Evaluation]
    start: int
    end: int
    span_id: str


class TimedDialog(NamedTuple):
    """A dialogue with its turns and the evaluations of the whole."""

    trace: DialogTrace
    evaluations: list[Evaluation]
    turns: list[TimedTurn]
    trace_id: str


def timed_dialogs(run: Results[Any]) -> Iterator[TimedDialog]:
    """Yield the dialogues that have turns, one after the other from the start of the run.

    Traces have durations and no times: turns follow each other within a dialogue, and so do dialogues.

    Raises:
        UsageError: it is no run of dialogues.
    """
    if run.suite != "dialogues":
        raise UsageError(f"{run.directory}: only runs of dialogues have turns to export; use csv or parquet")
    manifest = read_json(run.directory / MANIFEST, RunManifest)
    time = int(datetime.fromisoformat(manifest.started_at).timestamp() * 1000) * MS
    metrics, state = run.summary.metrics, MetricsState()
    profile = metrics.get("m2_profile_accuracy")
    for trace, rows in ((each.trace, each.rows) for each in run.dialogs()):
        if not (trace.valid_dialog and trace.turns):
            continue
        by_turn = {row.turn_pair_id: row for row in rows}
        turns: list[TimedTurn] = []
        for turn in trace.turns:
            end = time + round((turn.latency_ms or 0) * MS)
            row = by_turn.get(turn.turn_pair_id)
            found = [] if row is None else list(_evaluations(row, state))
            turns.append(TimedTurn(turn, found, time, end, digest(16, trace, turn.turn_pair_id)))
            time = end + _GAP
        values = {} if profile is None else profile.by_dialog.get(trace.dialog_id, {})
        measured = [
            Evaluation(f"m2_profile_accuracy.{name}", value)
            for name, value in values.items()
            if profile is not None and name not in profile.not_measured
        ]
        yield TimedDialog(trace, measured, turns, digest(32, trace))


def digest(length: int, trace: DialogTrace, *parts: object) -> str:
    """Return a hexadecimal id of a part of a dialogue, the same for every export of the run."""
    words = (trace.run_id, trace.dataset_index, trace.dialog_id, *parts)
    return hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()[:length]


def _evaluations(row: TurnEvalRow, state: MetricsState) -> Iterator[Evaluation]:
    """Yield the values that a turn adds to the metrics, then its compliance label."""
    for metric in state.row_states(row):
        for share, hits, of in metric.units(row):
            value = hits / of
            passed = (value == share.low) is share.lower_is_better if share.name in _BINARY else None
            label = None if passed is None else "pass" if passed else "fail"
            yield Evaluation(
                f"{metric.name}.{share.name}", value, label, _explanation(share.name, row), passed
            )
    if row.pred_compliance_label is not None:
        found = _explanation("severe_violation_rate", row)
        yield Evaluation("m4_compliance.label", label=row.pred_compliance_label, explanation=found)


def _explanation(name: str, row: TurnEvalRow) -> str | None:
    """Return what a value is about; None where nothing is missing and nothing was found."""
    missing: list[str] = []
    found: list[str] = []
    if name in {"key_coverage", "strict_key_hit_rate"}:
        keys = [key.key for key in row.resolved_keys if key.resolvable]
        missing = [key for key, hit in zip(keys, row.key_hit_flags, strict=False) if not hit]
    elif name in {"risk_coverage", "strict_risk_coverage_rate"}:
        met = met_risk_tags(row.risk_required_tags, row.risk_pred_tags)
        missing = [tag for tag in dict.fromkeys(row.risk_required_tags) if tag not in met]
    elif name == "rubric_hit_rate":
        missing = [item for item in row.rubric_required if item not in row.rubric_hit_items]
    elif name == "contradiction_rate":
        found = row.contradicted_constraints
    elif name == "severe_violation_rate":
        found = [each.value for each in row.findings if each.field == "compliance"]
    elif name == "forbidden_hit_rate":
        found = row.forbidden_hits
    elif name == "compliance_label_acc":
        found = [f"{row.pred_compliance_label}, reference {row.gt_compliance_label}"]
    return f"missing: {', '.join(missing)}" if missing else ", ".join(dict.fromkeys(found)) or None
