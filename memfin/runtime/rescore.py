"""Scoring of a recorded trace: rows and metrics anew, no agent asked (spec section 8, ``score``)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from memfin.actors.dialog_scoring import scoring_workers
from memfin.actors.dialogs import TraceSource, traces_of_run
from memfin.actors.measuring import resolve_metrics
from memfin.actors.messages import WarningBoard
from memfin.contracts import ConfigFile, DialogTrace, HistoryMode, RunManifest
from memfin.contracts.reading import decode
from memfin.dataset import digest_dataset
from memfin.errors import UsageError
from memfin.judges.registry import JudgeLike
from memfin.pressure.expand import is_expanded
from memfin.runtime.judging import judge_controls, judge_name, make_judge
from memfin.runtime.plan import RunPlan, scoring_inputs, scoring_rules
from memfin.runtime.settings import make_config
from memfin.scoring.rows import prepare_scoring
from memfin.sessions import DatasetIndex

R = TypeVar("R")

NO_DATASET: Final = "none"
"""The dataset in the artifacts of a trace that is scored without one."""


@dataclass(kw_only=True, eq=False)
class RescorePlan(RunPlan):
    """A recorded trace scored, against its dataset where there is one.

    Attributes:
        history_known: false where nothing says with which history the trace was made, so that ``free`` is
            assumed; true without a dataset, as no memory key is looked for then.
    """

    history_known: bool

    @property
    def advice(self) -> str:
        """Advice to a user after a fault has stopped the scoring."""
        return f"fix the cause, remove {self.directory} and score again"

    @property
    def after_stop(self) -> str:
        """State once the scoring was stopped on purpose."""
        return f"{self.directory} holds what was done"

    @property
    def when_back(self) -> str:
        """Advice to a user for when a judge that was down is back."""
        return f"once it is back, remove {self.directory} and score again"


def make_rescore_plan(
    dialog_trace: Path,
    dataset: Path | None,
    out: Path,
    *,
    judge: JudgeLike = "heuristic",
    history: HistoryMode | None = None,
    **settings: Any,
) -> RescorePlan:
    """Read what identifies a trace, and hold every dialogue of it against the dataset.

    Without a dataset the labels are those of the trace itself, if it has any; what has none is not measured.

    The run id is the trace's own; the model's name comes from a run manifest beside the trace, the history
    mode from ``history``, else from the trace (v1.1) or the run's ``config.json``. ``settings`` are those of
    `RunConfig` that speak of the judge.

    Raises:
        UsageError: an input is unusable, or the trace was made from other data.
    """
    recorded = _beside(dialog_trace.with_name("config.json"), ConfigFile)
    limit = None if recorded is None else recorded.settings.limit
    index = None if dataset is None else DatasetIndex(dataset, limit)
    first: DialogTrace | None = None
    for trace, _ in traces_of_run(dialog_trace, index):
        first = first or trace
    if first is None:
        raise UsageError(f"trace {dialog_trace}: holds no dialogue")
    known = _history(recorded, first)
    metrics = resolve_metrics(settings.get("metric", ()))
    config = make_config(
        {
            **settings,
            "dataset": None if dataset is None else str(dataset),
            "agent": "recorded",
            "history": history or known or "free",
            "trace_version": "v1" if first.trace_version == "v1" else "v1.1",
        },
        metrics,
    )
    rules = scoring_rules(config)
    if scoring_workers(config) == 0:
        prepare_scoring()
    board = WarningBoard()
    resolved = make_judge(judge, config, board.warn)
    config = config.replace(judge=judge_name(resolved), run_id=first.run_id)
    manifest = _beside(dialog_trace.with_name("run_manifest.json"), RunManifest)
    trace_sha256, lines = digest_dataset(dialog_trace)
    plan = RescorePlan(
        config=config,
        source=f"trace {dialog_trace}",
        dataset_path=NO_DATASET if dataset is None else str(dataset),
        dialogs=lines,
        model_name="recorded" if manifest is None else manifest.model_name,
        judge=resolved,
        **rules,
        metrics=metrics,
        controls=[] if dataset is None else judge_controls(resolved, dataset, config),
        system=None,
        board=board,
        fingerprint_inputs={
            "dataset_sha256": None if dataset is None else digest_dataset(dataset)[0],
            "trace_sha256": trace_sha256,
            "history": config.history,
            **scoring_inputs(resolved, config, metrics, **rules),
        },
        read=lambda wires: TraceSource(dialog_trace, index, wires),
        pressure=dataset is not None and is_expanded(dataset),
        history_known=dataset is None or history is not None or known is not None,
    )
    plan.directory, plan.progress = out, out / "progress.jsonl"
    return plan


def _history(recorded: ConfigFile | None, first: DialogTrace) -> HistoryMode | None:
    """Return the history mode of the recorded run: the trace says it (v1.1), or the run's config.json."""
    if first.history_mode is not msgspec.UNSET:
        return first.history_mode
    return None if recorded is None else recorded.settings.history


def _beside(path: Path, kind: type[R]) -> R | None:
    """Return a record that may stand beside the trace; None where there is none that can be read."""
    try:
        return decode(path.read_bytes(), kind) if path.is_file() else None
    except (OSError, UsageError):
        return None
