"""What the runtime asks of a suite: a plan of what is evaluated, and a pipeline of actors that does it.

Dialogues are one suite (`memfin.runtime.plan`), the questions of a benchmark another
(`memfin.runtime.bench_plan`). A run, its directory, its supervision, its end and its artifacts know no other
difference between them than what stands here.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from memfin.actors.aggregator import Aggregator
from memfin.actors.base import Actor, EventSender
from memfin.actors.trace_writer import TraceWriter
from memfin.contracts import (
    ConfigFile,
    Counters,
    DialogStatus,
    ModelUsage,
    ParameterChange,
    Record,
    RunConfig,
    RunStats,
)
from memfin.contracts.run import Suite
from memfin.journal import DIALOGUES, Artifact, Layout, RunDirectory
from memfin.version import __version__

S = TypeVar("S", bound=Record)
"""The summary of a suite's run."""


class Resumed(NamedTuple):
    """The beginning of a run that goes on.

    ``changed`` names the inputs of the fingerprint that are others now; ``drop`` are the statuses of
    dialogues or questions to do again; with ``rejudge`` those are judged again in which a judgement failed.
    """

    started_at: str
    changed: tuple[str, ...] = ()
    drop: frozenset[DialogStatus] = frozenset()
    rejudge: bool = False


class Measured(NamedTuple):
    """What `RunStats` holds of every run, whatever its suite.

    ``usage`` is what this process knows that models took; None where it knows nothing.
    """

    run_id: str
    wall_seconds: float
    actors: dict[str, dict[str, Any]]
    usage: ModelUsage | None
    agent_parameters: list[ParameterChange]


class Pipeline(ABC, Generic[S]):
    """The actors of a suite between its input and its totals, wired and not yet started.

    Attributes:
        producers: those that read and ask; a run that ends early gives them up first.
        judges: those that judge answers; none in a suite without judges.
        scorer: what comes before the judges.
        writer, aggregator: the actors that are the same in all suites.
    """

    producers: Sequence[Actor[Any]]
    judges: Sequence[Actor[Any]] = ()
    scorer: Actor[Any]
    writer: TraceWriter[Any, Any]
    aggregator: Aggregator[Any]

    @property
    def workers(self) -> Sequence[Actor[Any]]:
        """All actors in the order of their start, receivers before senders."""
        return (self.aggregator, self.writer, *self.judges, self.scorer, *self.producers)

    def on_given_up(self, tell: Callable[[str], None]) -> None:
        """Have ``tell`` called with the reason when a judge is given up as down."""

    @property
    def no_agent(self) -> str | None:
        """The error with which no agent at all could be created, so that nothing was answered."""
        return None

    @property
    @abstractmethod
    def counters(self) -> Counters:
        """What is committed so far; a question counts as a dialogue of one turn."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many scored rows are committed."""

    @abstractmethod
    def summary(self) -> S:
        """Return what the complete run amounts to.

        Raises:
            UsageError: there was nothing to evaluate.
        """

    @abstractmethod
    def stats(self, measured: Measured) -> RunStats:
        """Return what depends on time."""

    @abstractmethod
    def artifacts(self, summary: S) -> Mapping[str, Artifact]:
        """Return the suite's own files of a complete run, by name."""


class Plan(ABC, Generic[S]):
    """What an evaluation works on, resolved and checked; the subclass knows where answers come from.

    Attributes:
        suite: what the manifest calls the suite; dialogues are the one it does not name.
        layout: the files of the run directory, as the suite has them.
        config: the resolved settings.
        run_id: the name of the run in every row.
        source: what is read, for error messages.
        dataset_path: what the artefacts call it.
        dialogs: how many dialogues or questions there are at most.
        model_name: what the manifest calls the system under test.
        directory, progress: where the artefacts and the progress log go.
        fingerprint: digest of ``fingerprint_inputs``, everything the results depend on.
        warnings: what a user should know before anything is asked.
        resumed: what is known of the run's beginning, where it goes on.
        part_of: the directory of the soak that the run is an epoch of.
    """

    suite: ClassVar[Suite | msgspec.UnsetType] = msgspec.UNSET
    layout: Layout = DIALOGUES

    config: RunConfig
    run_id: str
    source: str
    dataset_path: str
    dialogs: int
    model_name: str
    directory: Path
    progress: Path
    fingerprint_inputs: dict[str, Any]

    warnings: Sequence[str] = ()
    resumed: Resumed | None = None
    part_of: Path | None = None

    @abstractmethod
    def pipeline(self, directory: RunDirectory, events: EventSender) -> Pipeline[S]:
        """Return the actors of the run; they get clones of the end."""

    def listen(self, on_notice: Callable[[str], None]) -> None:
        """Have ``on_notice`` called, on the loop, with what a user should know while the run goes on."""

    @property
    def advice(self) -> str:
        """What a user can do after a fault has stopped the run."""
        return f"free the cause, then {self.after_stop}"

    @property
    def when_back(self) -> str:
        """What a user can do once a judge that was down is back."""
        return f"memfin resume {self.directory} finishes the run once it is back"

    @property
    def after_stop(self) -> str:
        """What there is once the run was stopped on purpose."""
        return f"memfin resume {self.part_of or self.directory} goes on"

    @property
    def usage(self) -> ModelUsage | None:
        """What the language models behind the system under test took so far, where that is known."""
        return None

    @property
    def agent_parameters(self) -> list[ParameterChange]:
        """Which parameters the model behind the system under test has refused so far."""
        return []

    async def close(self) -> None:
        """Let go of what the judge and the system under test hold."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of what the run depends on (spec section 4)."""
        canonical = msgspec.json.encode(self.fingerprint_inputs, order="deterministic")
        return hashlib.sha256(canonical).hexdigest()

    def config_file(self) -> ConfigFile:
        """Return ``config.json``: the resolved settings and what the fingerprint was made of."""
        return ConfigFile(
            run_id=self.run_id,
            config_fingerprint=self.fingerprint,
            settings=self.config.replace(run_id=self.run_id),
            fingerprint_inputs=self.fingerprint_inputs,
            memfin_version=__version__,
        )
