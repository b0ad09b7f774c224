"""Ledgers: what the messages of a suite are to the journal, and what comes of them once they are on disk."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from memfin.contracts import DialogCheckpoint, ProgressEvent
from memfin.journal import Entry

M = TypeVar("M")
C = TypeVar("C")


class MessageSize(NamedTuple):
    """What a message takes of a group: answered turns or questions, and bytes of agents' snapshots."""

    turns: int
    snapshot: int = 0


class CommitEncoder(ABC, Generic[M, C]):
    """Turns messages to the trace writer (``M``) into commits, and what they complete into news."""

    @abstractmethod
    def weigh(self, message: M) -> MessageSize:
        """Return what the message takes of its group."""

    @abstractmethod
    def write(self, group: Sequence[M]) -> tuple[list[Entry], list[DialogCheckpoint]]:
        """Return the group's commits, and how far dialogues are that none of them completes."""

    @abstractmethod
    def answered(self, message: M) -> int:
        """Return how many answers the message has brought to disk; a run that has any is kept."""

    @abstractmethod
    def completed(self, message: M) -> tuple[ProgressEvent, C] | None:
        """Return the news of what the message has completed, and what the aggregator gets; else None."""
