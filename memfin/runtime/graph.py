"""The actor graph of an evaluation: who sends what to whom, over channels of which size."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.aggregator import Aggregator
from memfin.actors.base import Actor, ActorStatistics, EventSender
from memfin.actors.judge_pool import JudgePool
from memfin.actors.messages import DialogCommitted, DialogJudged, DialogReplayed, DialogScored, DialogTask
from memfin.actors.progress_log import OnEvent, ProgressLog
from memfin.actors.replayer import Replayer
from memfin.actors.scorer import Scorer
from memfin.actors.source import Source
from memfin.actors.trace_writer import TraceWriter
from memfin.contracts import ProgressEvent
from memfin.journal import RunDirectory
from memfin.runtime.plan import RunPlan

Message = TypeVar("Message")

DIALOGS: Final = 4
"""Dialogues that wait between two actors at most, besides those being worked on."""

EVENTS: Final = 512
"""Progress events that wait for the log at most."""


class Graph(NamedTuple):
    """The actors of one evaluation, wired and not yet started.

    ``events`` is the evaluation's own end of the progress channel; the log ends when it and the
    actors' ends are closed.
    """

    workers: Sequence[Actor[Any]]
    aggregator: Aggregator
    progress_log: ProgressLog
    events: EventSender

    def statistics(self) -> list[ActorStatistics]:
        """Return the statistics of every actor."""
        return [actor.statistics() for actor in (*self.workers, self.aggregator, self.progress_log)]


def build_graph(plan: RunPlan, directory: RunDirectory, on_event: OnEvent | None) -> Graph:
    """Create all actors of a run and the channels between them."""
    config, run_id = plan.config, plan.run_id
    task_in, task_out = _channel(DialogTask, min(config.workers_dialog, 64))
    replayed_in, replayed_out = _channel(DialogReplayed, DIALOGS)
    scored_in, scored_out = _channel(DialogScored, DIALOGS)
    judged_in, judged_out = _channel(DialogJudged, DIALOGS * 4)
    committed_in, committed_out = _channel(DialogCommitted, DIALOGS)
    event_in, event_out = _channel(ProgressEvent, EVENTS)
    source = Source(
        plan.dataset,
        run_id=run_id,
        trace_version=config.trace_version,
        limit=config.limit,
        tasks=task_in,
        skipped=replayed_in.clone(),
    )
    replayers = [
        Replayer(
            worker_id,
            plan.agents,
            plan.replay_options,
            inbox=task_out.clone(),
            outbox=replayed_in.clone(),
            events=event_in.clone(),
        )
        for worker_id in range(config.workers_dialog)
    ]
    task_out.close()
    replayed_in.close()
    scorer = Scorer(history=config.history, inbox=replayed_out, outbox=scored_in)
    judges = JudgePool(
        plan.judge,
        config.workers_judge,
        run_id,
        inbox=scored_out,
        outbox=judged_in,
        events=event_in.clone(),
    )
    writer = TraceWriter(directory, run_id, inbox=judged_out, outbox=committed_in, events=event_in.clone())
    return Graph(
        workers=(source, *replayers, scorer, judges, writer),
        aggregator=Aggregator(inbox=committed_out),
        progress_log=ProgressLog(directory, inbox=event_out, on_event=on_event),
        events=event_in,
    )


def _channel(
    kind: type[Message], size: float
) -> tuple[MemoryObjectSendStream[Message], MemoryObjectReceiveStream[Message]]:
    """Return both ends of a bounded channel for one kind of message."""
    del kind  # it only tells the type checker what passes through
    if size <= 0 or size == math.inf:
        raise ValueError("a channel has a bound of at least one message")
    return anyio.create_memory_object_stream[Message](size)
