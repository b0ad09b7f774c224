"""The run directory: the one place where a run's rows and files are written."""

from memfin.journal.run_directory import DIALOG_TRACE, TURN_EVAL, RunDirectory, progress_path

__all__ = ["DIALOG_TRACE", "TURN_EVAL", "RunDirectory", "progress_path"]
