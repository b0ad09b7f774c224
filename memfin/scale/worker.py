"""Protocol between an engine and its workers, and the plan of a worker.

A worker is a process, ``python -m memfin.cli.worker``, that evaluates one shard.

1. The first line of its standard input is a `WorkerTask` in JSON. When standard input ends, the worker drains
   as at SIGTERM: so it does not outlive its engine.
2. Its standard output has a progress event in JSON per line, and a `WorkerFailed` before an exit code other
   than 0. What agents print goes to standard error.
3. Its exit codes are those of ``memfin run``; it applies no gates and writes no reports.
"""

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts import AnyProgressEvent, ConfigFile, Record, RunConfig
from memfin.journal import COMMITS
from memfin.journal.artifacts import FIRST_ARTIFACTS
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.resume import resumed

DRAIN_SECONDS: Final = 4.2
"""Seconds that a worker has to end in order, within those that its engine has."""


class WorkerTask(Record):
    """Task of a worker: a shard and its settings.

    Attributes:
        settings: those of the run, with ``shard`` and ``run_id``.
        directory: the shard's run directory.
        dataset_path: the name of the dataset in the artifacts.
        dataset: where the dataset is, if not where the settings say.
        rate_token: the secret of the coordinator of rates, if there is one.
        force, retry_failed: as for ``memfin resume``.
    """

    settings: RunConfig
    directory: str
    dataset_path: str
    dataset: str | None = None
    rate_token: str | None = None
    force: bool = False
    retry_failed: bool = False

    def line(self) -> bytes:
        """Return the task as the first line of a worker's standard input."""
        return msgspec.json.encode(self) + b"\n"


class WorkerFailed(Record, tag_field="event", tag="worker_failed"):
    """The worker ends early; ``message`` is the line that a command would print."""

    message: str


WorkerEvent = AnyProgressEvent | WorkerFailed
WORKER_EVENTS: Final = msgspec.json.Decoder(WorkerEvent)
"""Decoder of the lines of a worker's standard output."""


def worker_command() -> list[str]:
    """Return the command that starts a worker with the interpreter of this process."""
    return [sys.executable, "-m", "memfin.cli.worker"]


def worker_plan(task: WorkerTask) -> RunPlan:
    """Return the plan of a worker: it goes on with the shard if something is there, else begins it.

    Raises:
        UsageError: something that the shard needs is unusable, or has changed since it began.
    """
    directory = Path(task.directory)
    if all((directory / name).is_file() for name in (COMMITS, *FIRST_ARTIFACTS)):
        # The coordinator of rates is another one than when the shard began.
        here: dict[str, Any] = {"rate_lease_address": task.settings.rate_lease_address}
        plan = resumed(
            lambda dataset, **recorded: make_plan(task.dataset or dataset, **recorded | here),
            directory,
            ConfigFile,
            system=None,
            judge=None,
            force=task.force,
            retry_failed=task.retry_failed,
        )
    else:
        settings = {name: task.settings[name] for name in task.settings}
        dataset = settings.pop("dataset")
        plan = make_plan(task.dataset or dataset, **settings)
        if task.dataset is not None:
            plan.config = plan.config.replace(dataset=dataset)
        plan.dataset_path = task.dataset_path
        plan.place(directory)
    plan.part_of = directory.parent
    return plan
