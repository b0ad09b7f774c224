"""Judges: protocol, offline heuristic, and judges by reference."""

from memfin.judges.protocol import DialogJudge, Judge, JudgeError, JudgeSetup
from memfin.judges.registry import resolve_judge
from memfin.judges.reply_grading import HeuristicJudge

__all__ = ["DialogJudge", "HeuristicJudge", "Judge", "JudgeError", "JudgeSetup", "resolve_judge"]
