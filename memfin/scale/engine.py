"""Engine of a run in shards: starts a worker per shard, retries those that die, merges what they have done."""

from collections.abc import Callable
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

from memfin.scale.worker import WorkerEvent, WorkerTask
from memfin.shards import Shard


class Ending(NamedTuple):
    """End of an attempt at a shard.

    ``code`` is the exit code of the worker, the negative number of the signal that ended it, or None where there
    is neither, such as after the loss of a machine; ``cause`` says in words why it ended early, if that is known.
    """

    code: int | None
    cause: str | None = None


class Attempt(NamedTuple):
    """An attempt at a shard: what a launcher is asked for.

    ``on_event`` gets the worker's progress events, ``on_line`` the lines of its standard error, both on the loop.
    """

    shard: Shard
    task: WorkerTask
    on_event: Callable[[WorkerEvent], None]
    on_line: Callable[[str], None]


class Launcher(Protocol):
    """Place where workers run. Entered before the first attempt, left after the last one."""

    async def __aenter__(self) -> Self:
        """Get ready.

        Raises:
            UsageError: an option of the place is unusable.
            RunFault: the place cannot be reached.
        """
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release everything; workers that still run are ended."""
        ...

    async def attempt(self, attempt: Attempt, /) -> Ending:
        """Run a worker to its end; the shard's run directory then is where the task has it."""
        ...

    def drain(self) -> None:
        """Have all workers end in order; `attempt` begins no other. Returns at once."""
        ...

    def kill(self) -> None:
        """End all workers at once. May be called from any thread, before the process itself ends."""
        ...


StateName = Literal["waiting", "running", "retrying", "complete", "failed", "stopped"]
