"""The journal: durable writes, commits and recovery of a run directory."""

from memfin.journal.commits import COMMITS, Entry, JournalDamaged
from memfin.journal.disk import Artifact
from memfin.journal.index import CommitIndex, CommittedDialog, CommittedLines
from memfin.journal.layout import (
    DATASET,
    DIALOG_TRACE,
    DIALOGUES,
    JUDGE_CONTROLS,
    JUDGED_QUESTIONS,
    JUDGEMENTS,
    QUESTIONS,
    RAG_ANSWERS,
    RAG_JUDGE_CONTROLS,
    RAG_JUDGEMENTS,
    RAG_RESULTS,
    TURN_EVAL,
    Layout,
)
from memfin.journal.run_directory import RunDirectory, progress_path

__all__ = [
    "COMMITS",
    "DATASET",
    "DIALOGUES",
    "DIALOG_TRACE",
    "JUDGED_QUESTIONS",
    "JUDGEMENTS",
    "JUDGE_CONTROLS",
    "QUESTIONS",
    "RAG_ANSWERS",
    "RAG_JUDGEMENTS",
    "RAG_JUDGE_CONTROLS",
    "RAG_RESULTS",
    "TURN_EVAL",
    "Artifact",
    "CommitIndex",
    "CommittedDialog",
    "CommittedLines",
    "Entry",
    "JournalDamaged",
    "Layout",
    "RunDirectory",
    "progress_path",
]
