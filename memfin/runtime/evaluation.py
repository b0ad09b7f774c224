"""The name that a run had before it was called one; goes away with the last module that uses it."""

from memfin.runtime.run import Run as Evaluation

__all__ = ["Evaluation"]
