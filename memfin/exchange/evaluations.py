"""Turns of a run with times, deterministic ids, recalls, tool calls and evaluation results, for exporters."""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from memfin.contracts import DialogTrace, RunManifest, TurnEvalRow, TurnTrace
from memfin.contracts.reading import read_json
from memfin.contracts.turn_eval import met_risk_tags
from memfin.errors import UsageError
from memfin.metrics import MetricsState
from memfin.report.reader import MANIFEST
from memfin.results import Results

_MS: Final = 1_000_000  # nanoseconds
_BINARY: Final = frozenset(
    {"strict_key_hit_rate", "contradiction_rate", "strict_risk_coverage_rate"}
    | {"compliance_label_acc", "severe_violation_rate", "forbidden_hit_rate"}
)
"""Values that are 0 or 1 in a turn."""


class Evaluation(NamedTuple):
    """A value of a metric, or a label, in a turn or a dialogue; ``is_binary`` is True if it is 0 or 1."""

    name: str
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    is_binary: bool = False


class Step(NamedTuple):
    """A recall from one source, or a tool call; ``name`` is that of the source or the tool."""

    kind: Literal["search_memory", "execute_tool"]
    name: str | None
    start: int
    end: int
    input: Any
    output: Any
    error: str | None = None


class TimedTurn(NamedTuple):
    """A turn with its start and end in nanoseconds since 1970."""

    trace: TurnTrace
    start: int
    end: int
    span_id: str
    steps: list[tuple[str, Step]]
    evaluations: list[Evaluation]


class TimedDialog(NamedTuple):
    """A dialogue with its turns and the evaluations of the whole."""

    trace: DialogTrace
    trace_id: str
    turns: list[TimedTurn]
    evaluations: list[Evaluation]


def timed_dialogs(run: Results[Any]) -> Iterator[TimedDialog]:
    """Yield the dialogues that have turns, one after the other from the start of the run.

    Traces have durations and no times: turns follow each other within a dialogue, and so do dialogues.

    Raises:
        UsageError: it is no run of dialogues.
    """
    if run.suite != "dialogues":
        raise UsageError(f"{run.directory}: only runs of dialogues have turns to export; use csv or parquet")
    started = read_json(run.directory / MANIFEST, RunManifest).started_at
    time = int(datetime.fromisoformat(started).timestamp() * 1000) * _MS
    state, profile = MetricsState(), run.summary.metrics["m2_profile_accuracy"]
    for trace, rows in ((each.trace, {row.turn_pair_id: row for row in each.rows}) for each in run.dialogs()):
        turns: list[TimedTurn] = []
        for turn in trace.turns if trace.valid_dialog else ():
            key, row = (trace, turn.turn_pair_id), rows.get(turn.turn_pair_id)
            end = time + round((turn.latency_ms or 0) * _MS)
            steps = [(digest(16, *key, number), step) for number, step in enumerate(_steps(turn, time))]
            found = [] if row is None else list(_evaluations(row, state))
            turns.append(TimedTurn(turn, time, end, digest(16, *key), steps, found))
            time = end + _MS
        if turns:
            measured = [
                Evaluation(f"{profile.metric_name}.{name}", value)
                for name, value in profile.by_dialog.get(trace.dialog_id, {}).items()
                if name not in profile.not_measured
            ]
            yield TimedDialog(trace, digest(32, trace), turns, measured)


def digest(length: int, trace: DialogTrace, *parts: object) -> str:
    """Return a hexadecimal id of a part of a dialogue, the same for every export of the run."""
    words = (trace.run_id, trace.dataset_index, trace.dialog_id, *parts)
    return hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()[:length]


def _steps(turn: TurnTrace, start: int) -> Iterator[Step]:
    """Yield recalls at the start of the turn, then tools from there on, a nanosecond after one another."""
    recall = turn.recall
    groups = groupby(recall.items, lambda item: item.source) if recall else ()
    recalls = [(source, list(items)) for source, items in groups]
    for source, items in recalls or [(None, [])] if recall else ():
        records = [{"id": item.item_id, "content": item.content, "score": item.score} for item in items]
        yield Step("search_memory", source, start, start, recall.query if recall else "", records)
    for number, tool in enumerate(turn.tools, start):
        end = number + round((tool.latency_ms or 0) * _MS)
        yield Step("execute_tool", tool.tool_name, number, end, tool.args, tool.result_excerpt, tool.error)


def _evaluations(row: TurnEvalRow, state: MetricsState) -> Iterator[Evaluation]:
    """Yield the values that a turn adds to the metrics, then its compliance label."""
    for metric in state.row_states(row):
        for share, hits, of in metric.units(row):
            name, value, is_binary = f"{metric.name}.{share.name}", hits / of, share.name in _BINARY
            label = "pass" if (value == share.low) is share.lower_is_better else "fail"
            about = _explanation(share.name, row)
            yield Evaluation(name, value, label if is_binary else None, about, is_binary)
    if row.pred_compliance_label is not None:
        about = _explanation("severe_violation_rate", row)
        yield Evaluation("m4_compliance.label", label=row.pred_compliance_label, explanation=about)


def _explanation(name: str, row: TurnEvalRow) -> str | None:
    """Return what a value is about; None where nothing is missing and nothing was found."""
    missing: list[str] = []
    found: list[str] = []
    if name in {"key_coverage", "strict_key_hit_rate"}:
        keys = [key.key for key in row.resolved_keys if key.resolvable]
        missing = [key for key, hit in zip(keys, row.key_hit_flags, strict=False) if not hit]
    elif name in {"risk_coverage", "strict_risk_coverage_rate"}:
        met = met_risk_tags(row.risk_required_tags, row.risk_pred_tags)
        missing = [tag for tag in row.risk_required_tags if tag not in met]
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
    words = ", ".join(dict.fromkeys(missing or found))
    return f"missing: {words}" if missing else words or None
