"""Judges: protocol, offline heuristic, and judges by reference."""

from memfin.judges.heuristic import HeuristicJudge
from memfin.judges.protocol import DialogJudge, Judge, JudgeError
from memfin.judges.registry import JudgeSetup, resolve_judge

__all__ = ["DialogJudge", "HeuristicJudge", "Judge", "JudgeError", "JudgeSetup", "resolve_judge"]
