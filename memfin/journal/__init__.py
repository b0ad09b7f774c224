"""The run directory: the one place where a run's rows and files are written, and the authority on them."""

from memfin.journal.commits import (
    COMMITS,
    DIALOG_TRACE,
    JUDGEMENTS,
    TURN_EVAL,
    Entry,
    JournalDamaged,
)
from memfin.journal.index import CommitIndex, CommittedDialog, CommittedLines
from memfin.journal.run_directory import JUDGE_CONTROLS, RunDirectory, progress_path

__all__ = [
    "COMMITS",
    "DIALOG_TRACE",
    "JUDGEMENTS",
    "JUDGE_CONTROLS",
    "TURN_EVAL",
    "CommitIndex",
    "CommittedDialog",
    "CommittedLines",
    "Entry",
    "JournalDamaged",
    "RunDirectory",
    "progress_path",
]
