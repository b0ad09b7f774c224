"""The actor graph of an evaluation: who sends what to whom, over channels of which size."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.aggregator import Aggregator
from memfin.actors.base import Actor, ActorStatistics, EventSender
from memfin.actors.judge_pool import JudgePool
from memfin.actors.messages import DialogCommitted, DialogScored, ToScorer, ToWriter
from memfin.actors.progress_log import OnEvent, ProgressLog
from memfin.actors.scorer import Scorer
from memfin.actors.trace_writer import INBOX, TraceWriter
from memfin.contracts import ProgressEvent
from memfin.journal import RunDirectory
from memfin.runtime.plan import Plan

DIALOGS: Final = 4
"""Dialogues that wait between two actors at most, besides those being worked on."""

TURNS: Final = 256
"""Answered turns that wait for the scorer at most."""

EVENTS: Final = 2048
"""Progress events that wait for the log at most."""


class Graph(NamedTuple):
    """The actors of one evaluation, wired and not yet started.

    They start in the order of ``actors``, receivers before senders. The run is complete when every
    actor but the progress log has finished: a channel's end alone does not tell an actor that is
    done from one that has failed. ``events`` is the evaluation's own end of the progress channel;
    the log ends when it and the actors' ends are closed.
    """

    progress_log: ProgressLog
    producers: Sequence[Actor[Any]]
    scorer: Scorer
    writer: TraceWriter
    aggregator: Aggregator
    judges: JudgePool
    events: EventSender

    @property
    def workers(self) -> Sequence[Actor[Any]]:
        """All actors but the progress log."""
        return (self.aggregator, self.writer, self.judges, self.scorer, *self.producers)

    @property
    def actors(self) -> Sequence[Actor[Any]]:
        """All actors in the order of their start."""
        return (self.progress_log, *self.workers)

    def close(self) -> None:
        """Close every end that an actor holds: one that was cancelled before it ran has closed none."""
        for actor in self.actors:
            for end in vars(actor).values():
                if isinstance(end, MemoryObjectSendStream | MemoryObjectReceiveStream):
                    end.close()

    def statistics(self) -> list[ActorStatistics]:
        """Return the statistics of every actor."""
        return [actor.statistics() for actor in self.actors]


def build_graph(plan: Plan, directory: RunDirectory, on_event: OnEvent | None) -> Graph:
    """Create all actors of a run and the channels between them."""
    config, run_id = plan.config, plan.run_id
    replayed_in, replayed_out = anyio.create_memory_object_stream[ToScorer](TURNS)
    scored_in, scored_out = anyio.create_memory_object_stream[DialogScored](DIALOGS)
    judged_in, judged_out = anyio.create_memory_object_stream[ToWriter](INBOX)
    committed_in, committed_out = anyio.create_memory_object_stream[DialogCommitted](DIALOGS)
    event_in, event_out = anyio.create_memory_object_stream[ProgressEvent](EVENTS)
    producers = plan.producers(replayed_in, event_in, judged_in, committed_in, directory)
    replayed_in.close()
    scorer = Scorer(
        run_id=run_id,
        trace_version=config.trace_version,
        history=config.history,
        inbox=replayed_out,
        outbox=scored_in,
        events=event_in.clone(),
    )
    judges = JudgePool(
        plan.judge,
        config.workers_judge,
        run_id,
        scope=config.judge_scope,
        notices=plan.notices,
        controls=plan.controls,
        inbox=scored_out,
        outbox=judged_in,
        events=event_in.clone(),
    )
    writer = TraceWriter(
        directory,
        run_id,
        interval=config.fsync_interval,
        size=config.fsync_turns,
        inbox=judged_out,
        outbox=committed_in,
        events=event_in.clone(),
    )
    aggregator = Aggregator(inbox=committed_out)
    log = ProgressLog(directory, inbox=event_out, on_event=on_event)
    return Graph(
        progress_log=log,
        producers=producers,
        scorer=scorer,
        writer=writer,
        aggregator=aggregator,
        judges=judges,
        events=event_in,
    )
