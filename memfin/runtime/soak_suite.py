"""What a soak asks of a suite: the plan of every epoch, and what its artifacts say of it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec

from memfin.contracts import Record, RunConfig, RunStats
from memfin.contracts.run import Suite
from memfin.journal import DIALOGUES, Layout, progress_path
from memfin.runtime.soak_directory import EPOCHS, epoch_name, epoch_run_id
from memfin.runtime.soak_tally import SoakTally
from memfin.runtime.suite import Plan

S = TypeVar("S", bound=Record)
"""The summary of an epoch."""


class SoakSuite(ABC, Generic[S]):
    """A suite as a soak knows it: makes the plan of every epoch anew, and reads what the epoch was worth.

    What is asked, and all connections, belong to one epoch alone. Paths are made absolute when the object
    is created, since a system under test may change the working directory.

    Attributes:
        suite: what the soak's summary calls it; dialogues are the one it does not name.
        layout: the files of an epoch's directory.
    """

    suite: ClassVar[Suite | msgspec.UnsetType] = msgspec.UNSET
    layout: Layout = DIALOGUES

    def __init__(self, config: RunConfig, directory: Path, *, force: bool = False) -> None:
        """Prepare for the soak in a directory; ``force`` goes on with epochs whose inputs are others now."""
        self._force = force
        self._run_id = str(config.run_id)
        self._epochs = directory.absolute() / EPOCHS
        self._shown_dataset = config.dataset
        self._dataset = absolute(config.dataset)

    def plan(self, number: int) -> Plan[S]:
        """Return the plan of a new epoch; raises `UsageError` where something that it needs is unusable."""
        return self._placed(self._new(epoch_run_id(self._run_id, number)), number)

    def resumed(self, number: int) -> Plan[S]:
        """Return the plan of an epoch that was interrupted; raises `UsageError` as the suite's resuming."""
        return self._placed(self._again(self._directory(number)), number)

    @abstractmethod
    def _new(self, run_id: str) -> Plan[S]:
        """Return the plan of a run of that name under the soak's settings."""

    @abstractmethod
    def _again(self, directory: Path) -> Plan[S]:
        """Return the plan that goes on with the run in a directory."""

    @abstractmethod
    def values(self, summary: S) -> dict[str, float]:
        """Return the headline values of an epoch by name."""

    @abstractmethod
    def latencies(self, directory: Path) -> Iterator[float]:
        """Yield the latency of everything that was answered in an epoch, in milliseconds."""

    @abstractmethod
    def dialogs(self, stats: RunStats) -> Mapping[str, int]:
        """Return how many dialogues of an epoch, or what counts as such, ended with which status."""

    @abstractmethod
    def failed_gates(self, tally: SoakTally, last: Path) -> list[str]:
        """Return one line for every gate that a finished soak does not pass.

        ``last`` is the directory of its last epoch.
        """

    def _directory(self, number: int) -> Path:
        return self._epochs / epoch_name(number)

    def _placed(self, plan: Plan[S], number: int) -> Plan[S]:
        plan.directory = self._directory(number)
        plan.progress = progress_path(self._epochs, plan.run_id)
        if self._shown_dataset is not None:
            plan.dataset_path = self._shown_dataset
        return plan


def absolute(path: str | None) -> str | None:
    """Return a path from the root, None for none."""
    return None if path is None else str(Path(path).absolute())
