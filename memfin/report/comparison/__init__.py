"""Comparing two runs: what is better, what is worse, and how sure that is."""

from memfin.report.comparison.load import compare_runs

__all__ = ["compare_runs"]
