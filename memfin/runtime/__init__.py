"""Evaluations: from settings to a run, its end and its files."""

from memfin.agents.replay import build_turn_trace
from memfin.runtime.aggregation import aggregate_rows
from memfin.runtime.api import (
    Evaluation,
    evaluate,
    evaluate_dialog_task,
    run_dialog_replay,
    run_eval_parallel,
)
from memfin.runtime.outputs import write_eval_outputs
from memfin.runtime.plan import make_plan

__all__ = [
    "Evaluation",
    "aggregate_rows",
    "build_turn_trace",
    "evaluate",
    "evaluate_dialog_task",
    "make_plan",
    "run_dialog_replay",
    "run_eval_parallel",
    "write_eval_outputs",
]
