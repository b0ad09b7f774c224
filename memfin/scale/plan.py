"""Plan of a run in shards, and the record of it that lets the run go on: ``RUN_ID.shards/engine.json``."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memfin.actors.dialog_scoring import scoring_workers
from memfin.client.coordinator import RateLease
from memfin.client.leases import RateLimits
from memfin.contracts import RunConfig, RunManifest
from memfin.contracts.reading import read_json
from memfin.contracts.settings import EngineFile, EngineSettings
from memfin.errors import RunFault, UsageError
from memfin.journal import progress_path
from memfin.journal.artifacts import MANIFEST
from memfin.journal.disk import PRIVATE, Disk, refuse_links
from memfin.journal.lock import LOCK, RunLock
from memfin.runtime.outputs import pretty_json
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.resume import accepted_changes, read_config
from memfin.runtime.settings import run_path
from memfin.scale.worker import WorkerTask
from memfin.shards import SHARDS, Shard

ENGINE_FILE: Final = "engine.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class EnginePlan:
    """A run in shards, resolved and checked.

    Attributes:
        run: the plan of the whole run; it is never run itself.
        engine: the engine and its options, the number of workers resolved.
        directory: the directory of the shards.
        config: the settings of the run as they were given, with its name.
        resumed, force, retry_failed: whether the run goes on, and the options of ``memfin resume``.
    """

    run: RunPlan
    engine: EngineSettings
    directory: Path
    config: RunConfig
    resumed: bool = False
    force: bool = False
    retry_failed: bool = False

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.run.run_id

    @property
    def out(self) -> Path:
        """The run directory that the shards are merged into."""
        return self.directory.parent / self.run_id

    @property
    def after_stop(self) -> str:
        """Advice once the run was stopped."""
        return f"memfin resume {self.directory} goes on"

    @property
    def shards(self) -> list[Shard]:
        """All shards of the run."""
        count = self.engine.engine_workers or 1
        return [Shard(index, count) for index in range(count)]

    def complete_shards(self) -> dict[Shard, int]:
        """Return the number of dialogues of the shards in which nothing is left to do.

        With ``force`` there are none: what has changed is recorded in all shards, or they are not of one run.
        """
        if not self.resumed or self.retry_failed or self.force:
            return {}
        found = {shard: self.dialogs_of(shard) for shard in self.shards}
        return {shard: dialogs for shard, dialogs in found.items() if dialogs is not None}

    def dialogs_of(self, shard: Shard) -> int | None:
        """Return the number of dialogues of a shard, None while something is left to do in it."""
        path = self.directory / shard.name / MANIFEST
        manifest = read_json(path, RunManifest) if path.is_file() else None
        return None if manifest is None or manifest.ended_at is None else manifest.counters.total_dialogs

    def task(self, shard: Shard, lease: RateLease | None = None) -> WorkerTask:
        """Return the task of a shard's worker; it has its share of what runs at the same time.

        ``lease`` is that of the coordinator of rates, where there is one.
        """
        config, path = self.config, self.directory / shard.name
        scoring = scoring_workers(config)

        def share(total: int) -> int:
            return max(1, total // shard.count + (shard.index < total % shard.count))

        return WorkerTask(
            settings=config.replace(
                runs_dir=str(self.directory.parent),
                shard=str(shard),
                workers_dialog=share(config.workers_dialog),
                workers_judge=share(config.workers_judge),
                workers_score=share(scoring) if scoring else 0,
                rate_lease_address=config.rate_lease_address if lease is None else lease.address,
            ),
            directory=str(path),
            dataset_path=self.run.dataset_path,
            force=self.force,
            retry_failed=self.retry_failed,
            rate_token=None if lease is None else lease.token,
        )

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Create the directory of the shards, or take it over; it is locked within the block.

        Raises:
            UsageError: the directory is there already, is in use, or cannot be created.
            RunFault: the file system refuses.
        """
        disk = Disk()
        lock = RunLock(self.directory, disk)
        try:
            if not self.resumed:
                self._create(disk)
            lock.acquire()
        except OSError as problem:
            raise RunFault(f"run {self.directory}: {problem.strerror or problem}") from problem
        try:
            yield
        except UsageError:
            self._remove_if_empty()
            raise
        finally:
            lock.release()

    def _create(self, disk: Disk) -> None:
        for taken in (self.out, self.directory):
            if taken.exists():
                advice = (
                    f"; {self.after_stop}" if (taken / ENGINE_FILE).is_file() else "; choose another name"
                )
                raise UsageError(f"run {taken}: exists already{advice}")
        self.directory.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        self.directory.mkdir(PRIVATE)
        whole = dict(self.run.config_file())
        record = EngineFile(**whole | {"settings": self.config, "engine": self.engine})
        disk.write_whole(self.directory / ENGINE_FILE, pretty_json(record))

    def _remove_if_empty(self) -> None:
        """Leave nothing of a run that could not begin."""
        with suppress(OSError):
            names = {each.name for each in self.directory.iterdir()}
            if not self.resumed and names <= {ENGINE_FILE, LOCK}:
                self.remove()

    def remove(self) -> None:
        """Remove the shards and their progress logs.

        Raises:
            OSError: the file system refuses.
        """
        removed = self.directory.with_name(f".{self.directory.name}.removed")
        shutil.rmtree(removed, ignore_errors=True)
        self.directory.rename(removed)  # so that nothing goes on with a part of the shards
        shutil.rmtree(removed)
        for shard in self.shards:
            progress_path(self.directory.parent, f"{self.run_id}.{shard.name}").unlink(missing_ok=True)


def make_engine_plan(dataset: str | None, engine: EngineSettings, **settings: Any) -> EnginePlan:
    """Resolve and check everything that a run in shards needs; reads the dataset once for its hash.

    Raises:
        UsageError: as `make_plan`.
    """
    if settings.get("shard") is not None:
        raise UsageError(f"--shard: not together with --engine {engine.engine}, which works on all shards")
    run = make_plan(dataset, **settings)
    if engine.rate_lease and RateLimits.of(run.config) == RateLimits():
        raise UsageError(
            "--rate-lease: there is no rate to lease; set --judge-rpm, --judge-tpm or --agent-rpm"
        )
    if engine.rate_lease and run.config.rate_lease_address is not None:
        raise UsageError("--rate-lease: not together with --rate-lease-address; give one of them")
    workers = engine.engine_workers or len(os.sched_getaffinity(0))
    engine = engine.replace(engine_workers=min(workers, max(1, run.dialogs)))
    config = run.config.replace(dataset=dataset, limit=settings.get("limit"))
    return EnginePlan(run=run, engine=engine, directory=shards_path(config), config=config)


def make_engine_resume_plan(
    directory: Path, *, force: bool = False, retry_failed: bool = False
) -> EnginePlan:
    """Return the plan that goes on with the shards in a directory.

    Raises:
        UsageError: there are none, or something that the results depend on has changed and ``force`` is not
            set.
    """
    if directory.name in ("", ".."):  # the run belongs beside it, not into it
        directory = directory.resolve()
    refuse_links(directory)
    recorded = read_config(directory / ENGINE_FILE, EngineFile)
    if any(f"{name}{SHARDS}" != directory.name for name in (recorded.run_id, recorded.settings.run_id)):
        raise UsageError(f"run {directory}: holds the shards of {recorded.run_id}; give it its name again")
    if recorded.engine.engine == "local":
        raise UsageError(f"{directory / ENGINE_FILE}: $.engine.engine: 'local' has no shards")
    settings = {name: recorded.settings[name] for name in recorded.settings}
    settings["runs_dir"] = str(directory.parent)
    run = make_plan(settings.pop("dataset"), **settings)
    accepted_changes(directory, recorded, run.config_file(), force=force)
    return EnginePlan(
        run=run,
        engine=recorded.engine,
        directory=directory,
        config=recorded.settings,
        resumed=True,
        force=force,
        retry_failed=retry_failed,
    )


def is_engine_run(directory: Path) -> bool:
    """Return True if a directory holds the shards of an engine."""
    return (directory / ENGINE_FILE).is_file()


def shards_path(config: RunConfig) -> Path:
    """Return the directory of the shards of a run that has a name."""
    return run_path(config.replace(shard="0/1")).parent
