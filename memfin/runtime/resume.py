"""Going on with an interrupted run: its settings, held against what they stand for now."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from memfin.actors.measuring import MetricLike
from memfin.agents.registry import AgentLike
from memfin.contracts import ConfigFile, DialogStatus, RunManifest
from memfin.contracts.reading import read_json, shown
from memfin.contracts.run import Suite
from memfin.errors import UsageError
from memfin.journal import COMMITS, DATASET, RAG_RESULTS
from memfin.journal.artifacts import FIRST_ARTIFACTS, NOT_AS_WRITTEN, changed_artifacts, logged_checks
from memfin.journal.disk import Disk, refuse_links
from memfin.judges.registry import JudgeLike
from memfin.runtime.pipeline import Plan, Resumed
from memfin.runtime.plan import ObserverFactory, RunPlan, make_plan
from memfin.shards import SHARDS

F = TypeVar("F", bound=ConfigFile)
P = TypeVar("P", bound=Plan[Any])

RETRIED: Final[frozenset[DialogStatus]] = frozenset({"failed", "partial"})


def make_resume_plan(
    run_dir: str | Path,
    *,
    force: bool = False,
    retry_failed: bool = False,
    agent: AgentLike | None = None,
    judge: JudgeLike = None,
    observer_factory: ObserverFactory | None = None,
    metrics: Sequence[MetricLike] | None = None,
) -> RunPlan:
    """Return the plan that goes on with the run in a directory, under the settings it began with.

    Args:
        run_dir: the run directory.
        force: go on although something that the metrics depend on is another than it was.
        retry_failed: replay failed and partial dialogues again, and judge again the others in which a
            judgement failed.
        agent: the factory, where the run was started with one instead of a reference.
        judge: likewise.
        observer_factory: as for `make_plan`; it is no part of the recorded settings.
        metrics: the custom metrics, where the run was started with objects that no reference names.

    Raises:
        UsageError: there is no run to go on with, something that it needs is unusable, or the dataset,
            agent, lexicon or prompt is another than when it began and ``force`` is not set.
    """
    return resumed(
        lambda dataset, **settings: make_plan(
            dataset, observer_factory=observer_factory, metrics=metrics, **settings
        ),
        Path(run_dir),
        ConfigFile,
        system=agent,
        judge=judge,
        force=force,
        retry_failed=retry_failed,
    )


def is_bench(run_dir: str | Path) -> bool:
    """Return True if a directory is that of a benchmark run, complete or not."""
    return (Path(run_dir) / RAG_RESULTS).is_file()


def _name_options(directory: Path) -> str:
    """Return the options that name a run directory, or that of a shard."""
    parent, (index, _, count) = directory.absolute().parent.name, directory.name.partition("-of-")
    if parent.endswith(SHARDS) and count:
        return f"--run-id {parent.removesuffix(SHARDS)} --shard {index}/{count}"
    return f"--run-id {directory.name}"


def read_artifacts(
    directory: Path, kind: type[F], suite: Suite | msgspec.UnsetType = msgspec.UNSET
) -> tuple[F, RunManifest]:
    """Return the settings and the manifest of a run of a suite that is to go on.

    Raises:
        UsageError: there is no such run, or not enough of it.
    """
    if not directory.is_dir():
        raise UsageError(f"run {directory}: no such directory")
    if not (directory / COMMITS).is_file():
        if directory.absolute().name.endswith(SHARDS):
            raise UsageError(
                f"run {directory}: holds the shards of a run; resume those that are not finished, "
                "and memfin merge makes one run of all"
            )
        raise UsageError(
            f"run {directory}: has no {COMMITS}, so that nothing says how far it came; start a new run"
        )
    refuse_links(directory)
    for name in FIRST_ARTIFACTS:
        if not (directory / name).is_file():
            command = "run" if suite is msgspec.UNSET else "bench"
            raise UsageError(
                f"run {directory}: has no {name}: it ended before it began; memfin {command} "
                f"{_name_options(directory)} takes its place"
            )
    disk = Disk()
    for name in changed_artifacts(disk, directory, logged_checks(disk, directory)):
        raise UsageError(f"run {directory}: {name} {NOT_AS_WRITTEN}; put it back, or start a new run")
    manifest = read_json(directory / "run_manifest.json", RunManifest)
    if manifest.suite != suite:
        asked = "of questions" if suite is msgspec.UNSET else "of dialogues"
        raise UsageError(f"run {directory}: is one {asked}, which memfin resume goes on with")
    config = read_config(directory / "config.json", kind)
    if not manifest.run_id == config.run_id == config.settings.run_id:
        raise UsageError(
            f"run {directory}: config.json is of run {shown(config.run_id)}, run_manifest.json of "
            f"{shown(manifest.run_id)}; put back the one that belongs here"
        )
    if "trace_sha256" in config.fingerprint_inputs:
        raise UsageError(f"run {directory}: was made by memfin score; score again into a new directory")
    return config, manifest


def read_config(path: Path, kind: type[F]) -> F:
    """Return the settings of a run or a soak that is to go on.

    Raises:
        UsageError: the file cannot be read, is none, or holds a setting that this release does not know.
    """
    config = read_json(path, kind)
    written = read_json(path, _Written).settings
    unknown = sorted(written.keys() - set(config.settings.__struct_fields__))
    if unknown:
        raise UsageError(
            f"{path}: unknown setting {shown(unknown[0])}; was it changed, or written by another release?"
        )
    return config


class _Written(msgspec.Struct):
    settings: dict[str, msgspec.Raw]


def resumed(
    make: Callable[..., P],
    directory: Path,
    kind: type[ConfigFile],
    suite: Suite | msgspec.UnsetType = msgspec.UNSET,
    *,
    system: object,
    judge: JudgeLike,
    force: bool,
    retry_failed: bool,
) -> P:
    """Return the plan that goes on with the run in a directory, made of its recorded settings.

    ``system`` and ``judge`` take the place of the recorded references where they are given.

    Raises:
        UsageError: there is no run to go on with, or something that the results depend on is another than
            when it began, and ``force`` is not set.
    """
    recorded, manifest = read_artifacts(directory, kind, suite)
    settings = {name: recorded.settings[name] for name in recorded.settings if name != "dataset"}
    if directory.parent.name == f"{recorded.run_id}{SHARDS}":  # its rates pause where it has begun
        settings["runs_dir"] = str(directory.parent.parent)
    settings |= {} if system is None else {"agent": system}
    settings |= {} if judge is None else {"judge": judge}
    own = directory / DATASET
    plan = make(str(own) if own.is_file() else recorded.settings.dataset, **settings)
    plan.dataset_path = manifest.dataset_path
    changed = accepted_changes(directory, recorded, plan.config_file(), force=force)
    plan.place(directory.absolute())
    plan.directory = directory
    drop = RETRIED if retry_failed else frozenset[DialogStatus]()
    plan.resumed = Resumed(manifest.started_at, changed, drop, rejudge=retry_failed)
    if changed:
        plan.config = plan.config.replace(notes=_noted(manifest.notes, changed))
    return plan


def changed_inputs(recorded: ConfigFile, now: ConfigFile) -> tuple[str, ...]:
    """Return the inputs of the fingerprint whose values differ."""
    if recorded.config_fingerprint == now.config_fingerprint:
        return ()
    before, after = recorded.fingerprint_inputs, now.fingerprint_inputs
    return tuple(sorted(name for name in {*before, *after} if before.get(name) != after.get(name)))


def accepted_changes(
    directory: Path, recorded: ConfigFile, now: ConfigFile, *, force: bool
) -> tuple[str, ...]:
    """Return the inputs of the fingerprint that have changed; raise `UsageError` unless that is forced."""
    changed = changed_inputs(recorded, now)
    if changed and not force:
        raise UsageError(
            f"run {directory}: not as it was when the run began: {', '.join(changed)}; start a new run, or "
            "mix both with --force"
        )
    return changed


def _noted(notes: str | None, changed: tuple[str, ...]) -> str:
    note = f"resumed with --force, changed since it began: {', '.join(changed)}"
    return f"{notes}; {note}" if notes else note
