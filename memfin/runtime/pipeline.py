"""Plan, suite and pipeline of a run: source, workers, scorer, judge pool, trace writer and aggregator.

A pipeline is a chain of supervised stages with bounded channels between them. Dialogues are one suite
(`memfin.runtime.plan`), the questions of a benchmark another (`memfin.runtime.bench_plan`); a suite is data.
"""

import asyncio
import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

import anyio
import msgspec

from memfin.actors.aggregator import Aggregator, Totals
from memfin.actors.base import Actor, ActorStatistics
from memfin.actors.channels import Wires
from memfin.actors.judge_pool import JudgePool, Judging
from memfin.actors.messages import WarningBoard
from memfin.actors.writers import OnEvent, ProgressLog, TraceWriter
from memfin.client.limiter import StartLimiter
from memfin.contracts import (
    ConfigFile,
    DialogStatus,
    ModelUsage,
    ParameterChange,
    ProgressEvent,
    Record,
    RunConfig,
    RunStats,
)
from memfin.contracts.run import Suite as SuiteName
from memfin.dataset import SpooledDataset
from memfin.errors import MemfinError
from memfin.journal import DIALOGUES, Artifact, Layout, RunDirectory, progress_path
from memfin.judges.protocol import Judge
from memfin.runtime.judging import judge_endpoint
from memfin.runtime.outputs import pretty_json
from memfin.runtime.settings import new_run_id, run_path
from memfin.shards import Shard
from memfin.version import __version__

S = TypeVar("S", bound=Record)
"""The summary of a suite's run."""

AnyWires = Wires[Any, Any, Any]

DRAIN_LIMIT: Final = 5.0
"""Seconds that a run has to end in order."""

REPLAYS: Final = 0.6
JUDGEMENTS: Final = 0.72
SCORES: Final = 0.84
ALL: Final = 0.9
"""Shares of the time after which turns that are being asked are given up, then judgements, then
messages that still wait for the trace writer; and after which the run is cancelled."""


@dataclass(frozen=True)
class Suite(Generic[S]):
    """A kind of evaluation as data: the parts of its pipeline, and what its complete runs write.

    Attributes:
        source: makes the stage that reads what is evaluated.
        workers: makes the stages between source and scorer; none where answers are recorded.
        scorer: makes the stage before the judges.
        judging: requests to the judge, and commits of its results.
        totals: sums of what is committed.
        summary: makes the summary of a complete run; raises `UsageError` where there was nothing to evaluate.
        files: makes the whole files of a complete run in a directory, by name.
        controls_file: name of the file with what an LLM judge made of its controls.
        room: messages that wait between two stages at most.
        tasks: messages that wait for a worker at most, however many workers there are.
    """

    source: Callable[[AnyWires], Actor[Any]]
    workers: Callable[[AnyWires], Sequence[Actor[Any]]]
    scorer: Callable[[AnyWires], Actor[Any]]
    judging: Judging[Any, Any, Any]
    totals: Totals[Any]
    summary: Callable[[], S]
    files: Callable[[S, Path], Mapping[str, Artifact]]
    controls_file: str
    room: int
    tasks: int


class UnderTest(Protocol):
    """The system under test, as far as a run knows it: agents, or what answers questions."""

    @property
    def usage(self) -> ModelUsage | None:
        """Usage of the language models behind it so far, where that is known."""
        ...

    @property
    def parameter_changes(self) -> list[ParameterChange]:
        """Parameters that the model behind it has refused so far."""
        ...

    def listen(self, warn: Callable[[str], None], /) -> None:
        """Take who wants to be warned of what happens in its calls."""

    async def close(self) -> None:
        """Release its resources."""


class Resumed(NamedTuple):
    """The beginning of a run that goes on.

    ``changed`` names the inputs of the fingerprint that are others now; ``drop`` are the statuses of
    dialogues or questions to do again; with ``rejudge`` those are judged again in which a judgement failed.
    """

    started_at: str
    changed: tuple[str, ...] = ()
    drop: frozenset[DialogStatus] = frozenset()
    rejudge: bool = False


@dataclass(kw_only=True, eq=False)
class Plan(ABC, Generic[S]):
    """An evaluation, resolved and checked.

    Attributes:
        suite_name: name of the suite in the manifest; unset for dialogues.
        under_test: name of the system under test in errors.
        layout: the files of the run directory, as the suite has them.
        config: the resolved settings, which name the run.
        source: name of the input in error messages.
        dataset_path: its path in the artifacts.
        dialogs: maximum number of dialogues or questions.
        model_name: name of the system under test in the manifest.
        judge: the judge of the answers; None where messages pass the judge pool as they are.
        controls: cases whose right verdict is known, for a judge that is a model.
        starts: limit of the requests to the system under test.
        system: the system under test, closed at the end; None where nothing is asked.
        directory, progress: where the artifacts and the progress log go.
        shard: the part of the dataset that is evaluated; None for all of it.
        fingerprint_inputs: everything the results depend on.
        board: takes warnings of the judge and the system under test for the run.
        warnings: warnings to the user before anything is asked.
        resumed: the beginning of a run that goes on.
        part_of: the directory of the soak that the run is an epoch of, or that of the shards.
        spool: a dataset that was given as objects, which the run or its soak keeps in its directory.
    """

    suite_name: ClassVar[SuiteName | msgspec.UnsetType] = msgspec.UNSET
    under_test: ClassVar[str] = "agent"

    config: RunConfig
    source: str
    dataset_path: str
    dialogs: int
    model_name: str
    judge: Judge[Any, Any] | None
    system: UnderTest | None
    board: WarningBoard
    fingerprint_inputs: dict[str, Any]
    controls: Sequence[Any] = ()
    starts: StartLimiter | None = None
    layout: Layout = DIALOGUES
    warnings: Sequence[str] = ()
    resumed: Resumed | None = None
    part_of: Path | None = None
    spool: SpooledDataset | None = None

    def __post_init__(self) -> None:
        """Place the run among the others; a run that has no name gets one."""
        self.config = self.config.replace(run_id=self.config.run_id or new_run_id())
        self.shard = None if self.config.shard is None else Shard.parse(self.config.shard)
        self.place(run_path(self.config))
        if self.system is not None:
            self.system.listen(self.board.warn)

    def place(self, directory: Path) -> None:
        """Put the run into a directory; its progress log is in ``logs`` beside the runs."""
        self.directory = directory
        if self.shard is None:
            self.progress = progress_path(directory.parent, self.run_id)
        else:
            self.progress = progress_path(directory.parent.parent, f"{self.run_id}.{self.shard.name}")

    @property
    def run_id(self) -> str:
        """The name of the run in every row."""
        return str(self.config.run_id)

    @abstractmethod
    def suite(self) -> Suite[S]:
        """Return the parts of the run's pipeline."""

    def failed_gates(self, summary: S, stats: RunStats, directory: Path) -> list[str]:
        """Return one line for every gate of the settings that the complete run does not pass."""
        del summary, stats, directory
        return []

    @property
    def advice(self) -> str:
        """Advice to a user after a fault has stopped the run."""
        return f"fix the cause, then {self.after_stop}"

    @property
    def when_back(self) -> str:
        """Advice to a user for when a judge or an agent that was down is back."""
        return f"memfin resume {self.part_of or self.directory} finishes the run once it is back"

    @property
    def after_stop(self) -> str:
        """State once the run was stopped on purpose."""
        return f"memfin resume {self.part_of or self.directory} goes on"

    @property
    def abandoned(self) -> int:
        """Calls that the system under test has left behind, besides those that replays count."""
        return 0

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
            settings=self.config,
            fingerprint_inputs=self.fingerprint_inputs,
            memfin_version=__version__,
            judge_endpoint=judge_endpoint(self.judge),
            agent_file_sha256=source_sha256(str(self.fingerprint_inputs.get("agent"))),
        )

    async def close(self) -> None:
        """Release the resources of the system under test and the judge."""
        if self.spool is not None:
            self.spool.close()
        try:
            if self.starts is not None:
                await self.starts.close()
            if self.system is not None:
                await self.system.close()
        finally:
            if self.judge is not None:
                await self.judge.close()


class Pipeline(Generic[S]):
    """The stages of one run, wired and not yet started.

    They start in the order of ``stages``, receivers before senders. The run is complete when every stage but
    the progress log has finished. ``events`` is the run's own end of the progress channel; the log ends when
    it and those of the stages are closed.
    """

    def __init__(
        self,
        plan: Plan[S],
        directory: RunDirectory,
        on_event: OnEvent,
        wants: Callable[[type[ProgressEvent]], bool],
    ) -> None:
        suite, config = plan.suite(), plan.config
        tasks = min(config.workers_dialog, suite.tasks)
        wires = AnyWires(plan.run_id, directory, plan.board, room=suite.room, tasks=tasks, wants=wants)
        self.plan = plan
        self.suite = suite
        self.directory = directory
        self.progress_log = ProgressLog(wires, on_event)
        self.aggregator = Aggregator(suite.totals, wires)
        self.writer = TraceWriter(config, wires)
        self.judges = JudgePool(plan.judge, suite.judging, config.workers_judge, wires)
        self.scorer = suite.scorer(wires)
        self.producers = (suite.source(wires), *suite.workers(wires))
        self.events = wires.events.sender()
        wires.close()
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def working(self) -> Sequence[Actor[Any]]:
        """All stages but the progress log."""
        return (self.aggregator, self.writer, self.judges, self.scorer, *self.producers)

    @property
    def stages(self) -> Sequence[Actor[Any]]:
        """All stages in the order of their start."""
        return (self.progress_log, *self.working)

    def stats(self, wall_seconds: float) -> RunStats:
        """Return what depends on time, and what the judge did."""
        plan, totals = self.plan, self.suite.totals
        usage = plan.system.usage if plan.system is not None else None
        return RunStats(
            run_id=plan.run_id,
            wall_seconds=wall_seconds,
            turn_latency_ms=totals.latency(),
            turns_by_status=dict(sorted(totals.turns.items())),
            dialogs_by_status=dict(sorted(totals.dialogs.items())),
            skips_by_reason=dict(sorted(totals.skips.items())),
            judged_turns=totals.judged.turns,
            judge_failures=totals.judged.failed,
            judge_declined=dict(sorted(totals.judged.declined.items())),
            judge_failure_reasons=totals.judged.reasons(),
            turn_retries=totals.retries,
            abandoned_calls=totals.abandoned + plan.abandoned,
            judge=self.judges.judge_statistics(totals.judge),
            actors={entry.name: dict(entry) for entry in self.statistics()},
            usage=totals.usage_of_run(usage),
            agent_parameters=plan.system.parameter_changes if plan.system is not None else [],
        )

    def files(self, summary: S) -> dict[str, Artifact]:
        """Return the suite's own files of a complete run, by name."""
        controls = self.judges.controls
        report = {} if controls is None else {self.suite.controls_file: pretty_json(controls)}
        return {**report, **self.suite.files(summary, self.directory.path)}

    def statistics(self) -> list[ActorStatistics]:
        """Return the statistics of every stage."""
        return [stage.statistics() for stage in self.stages]

    def drain(self, within: float, cancel: Callable[[], None]) -> None:
        """Begin nothing new and end within ``within`` seconds; running turns and judgements may end."""
        self.stop_timers()
        for stage in self.working:
            stage.drain()
        halts = [(REPLAYS, stage.halt) for stage in self.producers]
        halts += [(JUDGEMENTS, self.judges.halt), (SCORES, self.scorer.halt), (ALL, cancel)]
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(share * within, halt) for share, halt in halts]

    def stop_timers(self) -> None:
        """Cancel the timers of `drain`."""
        for timer in self._timers:
            timer.cancel()

    def close(self) -> None:
        """Close the channels of all stages: one that was cancelled before it ran has closed none."""
        self.stop_timers()
        for stage in self.stages:
            stage.close()


def source_sha256(reference: str) -> str | msgspec.UnsetType:
    """Return the SHA-256 of the source file of an agent ``module:name``; UNSET for other agents."""
    module, _, name = reference.partition(":")
    file = getattr(sys.modules.get(module), "__file__", None)
    if not name or module == "openai" or not file or not Path(file).is_file():
        return msgspec.UNSET
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception of a task group that caused the others.

    MemFin's own errors go first, then any other; that a receiver has gone is a consequence of those.
    """

    def rank(error: BaseException) -> int:
        return 0 if isinstance(error, MemfinError) else 1 + isinstance(error, anyio.BrokenResourceError)

    return min(_leaves(group), key=rank)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
