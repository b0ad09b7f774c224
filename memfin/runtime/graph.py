"""The actor graph of an evaluation: who sends what to whom, over channels of which size."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import anyio

from memfin.actors.aggregator import Aggregator
from memfin.actors.base import Actor, ActorStatistics, EventSender
from memfin.actors.judge_pool import JudgePool
from memfin.actors.messages import DialogCommitted, DialogJudged, DialogReplayed, DialogScored
from memfin.actors.progress_log import OnEvent, ProgressLog
from memfin.actors.scorer import Scorer
from memfin.actors.trace_writer import BATCH, TraceWriter
from memfin.contracts import ProgressEvent
from memfin.journal import RunDirectory
from memfin.runtime.plan import Plan

DIALOGS: Final = 4
"""Dialogues that wait between two actors at most, besides those being worked on."""

EVENTS: Final = 2048
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


def build_graph(plan: Plan, directory: RunDirectory, on_event: OnEvent | None) -> Graph:
    """Create all actors of a run and the channels between them."""
    config, run_id = plan.config, plan.run_id
    replayed_in, replayed_out = anyio.create_memory_object_stream[DialogReplayed](DIALOGS)
    scored_in, scored_out = anyio.create_memory_object_stream[DialogScored](DIALOGS)
    judged_in, judged_out = anyio.create_memory_object_stream[DialogJudged](BATCH)
    committed_in, committed_out = anyio.create_memory_object_stream[DialogCommitted](DIALOGS)
    event_in, event_out = anyio.create_memory_object_stream[ProgressEvent](EVENTS)
    producers = plan.producers(replayed_in, event_in)
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
        workers=(*producers, scorer, judges, writer),
        aggregator=Aggregator(inbox=committed_out),
        progress_log=ProgressLog(directory, inbox=event_out, on_event=on_event),
        events=event_in,
    )
