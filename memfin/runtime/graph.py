"""The actor graph of an evaluation: the pipeline of its suite and the progress log that hears them all."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple

import anyio

from memfin.actors.base import Actor, ActorStatistics, EventSender
from memfin.actors.progress_log import OnEvent, ProgressLog
from memfin.contracts import ProgressEvent
from memfin.journal import RunDirectory
from memfin.runtime.suite import Pipeline, Plan, S

EVENTS: Final = 2048
"""Progress events that wait for the log at most."""


class Graph(NamedTuple, Generic[S]):
    """The actors of one evaluation, wired and not yet started.

    They start in the order of ``actors``, receivers before senders. The run is complete when every
    actor but the progress log has finished: a channel's end alone does not tell an actor that is
    done from one that has failed. ``events`` is the evaluation's own end of the progress channel;
    the log ends when it and the actors' ends are closed.
    """

    progress_log: ProgressLog
    pipeline: Pipeline[S]
    events: EventSender

    @property
    def workers(self) -> Sequence[Actor[Any]]:
        """All actors but the progress log."""
        return self.pipeline.workers

    @property
    def actors(self) -> Sequence[Actor[Any]]:
        """All actors in the order of their start."""
        return (self.progress_log, *self.workers)

    def close(self) -> None:
        """Close the channels of all actors: one that was cancelled before it ran has closed none."""
        for actor in self.actors:
            actor.close()

    def statistics(self) -> list[ActorStatistics]:
        """Return the statistics of every actor."""
        return [actor.statistics() for actor in self.actors]


def build_graph(
    plan: Plan[S],
    directory: RunDirectory,
    on_event: OnEvent,
    late: Callable[[], Sequence[ProgressEvent]],
) -> Graph[S]:
    """Create all actors of a run and the channels between them; `ProgressLog` says what the calls are for."""
    event_in, event_out = anyio.create_memory_object_stream[ProgressEvent](EVENTS)
    pipeline = plan.pipeline(directory, event_in)
    log = ProgressLog(directory, inbox=event_out, on_event=on_event, late=late)
    return Graph(progress_log=log, pipeline=pipeline, events=event_in)
