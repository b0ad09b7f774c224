"""Plans of soaks: from settings to a soak, and to each of its epochs."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple

import msgspec

from memfin.agents.registry import AgentLike
from memfin.contracts import NO_JUDGE, ConfigFile, EvalSummary, RunConfig, SoakLimits, SoakSummary
from memfin.contracts.reading import read_json, shown
from memfin.contracts.run import Suite as SuiteName
from memfin.contracts.settings import MAX_REPEATS, check_settings
from memfin.dataset import DatasetLike, SpooledDataset, named_dataset
from memfin.errors import UsageError
from memfin.journal import DATASET, progress_path
from memfin.journal.commits import digest
from memfin.journal.disk import refuse_links
from memfin.journal.run_directory import LOGS
from memfin.judges.registry import JudgeLike
from memfin.runtime.gates import (
    custom_directions,
    gates_of,
    headline_values,
    judge_gates_failed_by,
    summary_values,
    turn_gates,
    unmeasured_values,
    value_directions,
    value_gates,
)
from memfin.runtime.judging import CACHE
from memfin.runtime.pipeline import Plan, S
from memfin.runtime.plan import ObserverFactory, make_plan, spooled
from memfin.runtime.resume import changed_inputs, make_resume_plan, read_config
from memfin.runtime.settings import make_config, new_run_id
from memfin.runtime.soak_directory import (
    CONFIG,
    EPOCHS,
    SUMMARY,
    epoch_name,
    epoch_run_id,
    is_soak,
    read_summary,
)
from memfin.runtime.soak_stats import SoakStats

MAX_ID: Final = 120
"""Characters of a soak's run id at most: those of its epochs are longer."""

OF_THE_SOAK: Final = frozenset(
    {"dataset", "agent", "judge", "document", "run_id"}
    | {"fail_under", "fail_over", "gate", "fail_on_error", "fail_on_judge_error", "fail_on_regression"}
)
"""Settings that epochs do not take over as they are; gates are for the soak as a whole."""

FILES: Final = ("agent_system", "document", "tag_map")
"""Settings that are paths of files to read."""

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_SECONDS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}


def parse_duration(text: str) -> float:
    """Return the seconds of ``8h``, ``30m``, ``90s``, ``1d12h`` or ``1h30m``.

    Raises:
        UsageError: the text has another form.
    """
    compact = text.strip().lower()
    if not compact or _PART.sub("", compact):
        raise UsageError(f"--duration {text!r}: expected a number with d, h, m or s, such as 8h, 30m or 90s")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(compact))
    if not 0 < seconds <= 1e9:  # noqa: PLR2004 - the bound of SoakLimits
        raise UsageError(f"--duration {text!r}: must be more than 0 and at most 1e9 seconds")
    return seconds


class SoakBeginning(NamedTuple):
    """State of a soak that goes on: its summary, and what is another now that ``--force`` accepts."""

    summary: SoakSummary
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class SoakSuite(Generic[S]):
    """A suite as a soak repeats it: each epoch has a plan, a system and a judge of its own.

    Attributes:
        make: makes the plan of a new run of a dataset under settings.
        resume: makes the plan that goes on with the run in a directory.
        config_file: the record of its settings.
        system: the argument of both that is the system under test.
        values: headline values of an epoch's summary, by name.
        reasons: why values of an epoch's summary were not measured, by name.
        gates: makes of the settings what returns a line per failed gate, from a soak's statistics and the
            directory of its last epoch.
        name: what the soak's summary calls the suite; dialogues are the one it does not name.
    """

    make: Callable[..., Plan[S]]
    resume: Callable[..., Plan[S]]
    config_file: type[ConfigFile]
    system: str
    values: Callable[[S], dict[str, float]]
    gates: Callable[[Any], Callable[[SoakStats, Path], list[str]]]
    name: SuiteName | msgspec.UnsetType = msgspec.UNSET
    reasons: Callable[[S], dict[str, str]] = lambda summary: {}  # noqa: ARG005 - nothing is missing


class SoakPlan:
    """A soak, resolved and checked.

    Paths are made absolute when the plan is made, since a system under test may change the working directory.
    ``config`` are the settings of the soak; those of its epochs differ in where they write. ``resumed`` is
    what an earlier process left, where it goes on.
    """

    def __init__(
        self,
        suite: SoakSuite[Any],
        config: RunConfig,
        limits: SoakLimits,
        directory: Path,
        system: Mapping[str, Any],
        *,
        begins_at: int = 1,
        force: bool = False,
        spool: SpooledDataset | None = None,
    ) -> None:
        """Resolve and check the first epoch to come, ``begins_at``; raises `UsageError` as its plan.

        ``system`` are the arguments of the suite's plans for the system under test and the judge.
        """
        self.limits = limits
        self.run_id = str(config.run_id)
        self.directory = directory
        self.suite = suite
        self.failed_gates = suite.gates(config)
        self.resumed: SoakBeginning | None = None
        self._system = system
        self._force = force
        self._epochs = directory.absolute() / EPOCHS
        self._seed = config.seed
        self._shown_dataset = config.dataset
        self.spool = spool
        self._dataset = spool or _absolute(config.dataset)
        self._settings = {name: config[name] for name in config if name not in OF_THE_SOAK} | {
            "runs_dir": str(self._epochs),
            "judge_cache_dir": _absolute(config.judge_cache_dir or str(Path(config.runs_dir) / CACHE)),
            **{name: _absolute(config[name]) for name in FILES if name in config and config[name] != "none"},
        }
        first = self._made(begins_at)
        self._first: Plan[Any] | None = first
        self.layout = first.layout
        self.config = config.replace(agent=first.config.agent, judge=first.config.judge)
        self.config_file = self._of_the_soak(first).replace(run_id=self.run_id, settings=self.config)

    def _made(self, number: int, *, begun: bool = False) -> Plan[Any]:
        directory = self._epochs / epoch_name(number)
        if begun:
            plan = self.suite.resume(directory, force=self._force, **self._system)
        else:
            settings = {**self._settings, "run_id": epoch_run_id(self.run_id, number)}
            if self.limits.vary_seed:
                settings["seed"] = self._seed + number - 1
            plan = self.suite.make(self._dataset, **settings, **self._system)
        plan.directory = directory
        plan.progress = progress_path(self._epochs, plan.run_id)
        if self._shown_dataset is not None:
            plan.dataset_path = self._shown_dataset
        plan.part_of = self.directory
        return plan

    def _of_the_soak(self, epoch: Plan[Any]) -> ConfigFile:
        """Return ``config.json`` of an epoch with the seed of the soak, which epochs may vary."""
        if self.limits.vary_seed:
            epoch = copy(epoch)
            epoch.fingerprint_inputs = _reseeded(epoch.fingerprint_inputs, epoch.config.seed, self._seed)
        return epoch.config_file()

    @property
    def after_stop(self) -> str:
        """State once the soak was stopped on purpose."""
        return f"memfin resume {self.directory} goes on"

    @property
    def pause(self) -> float:
        """Seconds between two epochs, which could exceed the limits together without a window."""
        config = self.config
        if config.rate_lease_address is not None:
            return 0.0
        rpms, tpm = [config.agent_rpm], None
        if config.judge not in (NO_JUDGE, "heuristic"):
            rpms, tpm = [*rpms, config.judge_rpm], config.judge_tpm
        return 1.1 * max(*(max(1.0, 60 / rpm) if rpm else 0.0 for rpm in rpms), 60.0 if tpm else 0.0)

    def epoch(self, number: int, *, begun: bool) -> Plan[Any]:
        """Return the plan of an epoch; ``begun`` goes on with one that was interrupted. Blocks.

        Raises:
            UsageError: something that it needs is unusable now, or is another than when the soak began.
        """
        plan, self._first = self._first, None
        if begun or plan is None or plan.run_id != epoch_run_id(self.run_id, number):
            plan = self._made(number, begun=begun)
        changed = changed_inputs(self.config_file, self._of_the_soak(plan))
        if changed:
            raise UsageError(
                f"soak {self.directory}: not as it was when the soak began: {', '.join(changed)}; "
                "its epochs could not be compared; start a new soak, or mix both with memfin resume --force"
            )
        return plan


def make_soak_plan(
    dataset: DatasetLike | None = None,
    *,
    limits: SoakLimits,
    agent: AgentLike = "builtin",
    judge: JudgeLike = "heuristic",
    observer_factory: ObserverFactory | None = None,
    **settings: Any,
) -> SoakPlan:
    """Resolve and check everything a soak needs; ``settings`` are as for `make_plan`.

    Raises:
        UsageError: neither a duration nor a number of epochs is set, or a setting, the dataset, the agent
            or the judge is unusable.
    """
    dataset = named_dataset(dataset)
    named = dataset is None or isinstance(dataset, str | os.PathLike)
    config = make_config({**settings, "dataset": dataset if named else None})
    system = {"agent": agent, "judge": judge, "observer_factory": observer_factory}
    return new_soak(DIALOGS, config, limits, None if named else dataset, **system)


def make_soak_resume_plan(
    directory: str | Path,
    *,
    force: bool = False,
    metrics_port: int | None = None,
    agent: AgentLike | None = None,
    judge: JudgeLike = None,
    observer_factory: ObserverFactory | None = None,
) -> SoakPlan:
    """Return the plan that goes on with the soak in a directory, under the settings it began with.

    ``metrics_port`` is one for this process; the others are as for `make_resume_plan`.

    Raises:
        UsageError: there is no soak to go on with, something that it needs is unusable, or it is another
            than when the soak began and ``force`` is not set.
    """
    system = {"agent": agent, "judge": judge, "observer_factory": observer_factory}
    return resumed_soak(DIALOGS, Path(directory), force=force, metrics_port=metrics_port, **system)


def dialog_gates(stats: SoakStats, last: Path, config: RunConfig) -> list[str]:
    """Return a line per failed gate of a soak of dialogues: means of values, turns of all epochs.

    Intervals, and what was not measured, are those of the last epoch.
    """
    errors, failed = stats.errors, stats.errors.failed_turns
    problems = turn_gates({"ok": stats.turns - failed, "failed": failed}, config.fail_on_error)
    if config.gate or config.fail_under or config.fail_over:
        means, summary = stats.means(), read_json(last / "metrics_summary.json", EvalSummary)
        gates = gates_of(config, value_directions(custom_directions(summary.metrics)))
        found = summary_values(summary, last)
        values = {name: each._replace(value=means.get(name, each.value)) for name, each in found.items()}
        problems += value_gates(gates, values)
    judged = errors.judged_turns, errors.judge_failures
    return [*problems, *judge_gates_failed_by(*judged, config.fail_on_judge_error)]


DIALOGS: Final = SoakSuite[EvalSummary](
    make=make_plan,
    resume=make_resume_plan,
    config_file=ConfigFile,
    system="agent",
    values=lambda summary: headline_values(summary.metrics),
    reasons=lambda summary: unmeasured_values(summary.metrics),
    gates=lambda config: lambda stats, last: dialog_gates(stats, last, config),
)


def _reseeded(inputs: Mapping[str, Any], before: int, after: int) -> dict[str, Any]:
    """Return inputs of a fingerprint with another seed, also in the settings of agent and judge."""
    return {
        name: _reseeded(value, before, after)
        if isinstance(value, Mapping)
        else after
        if (name, value) == ("seed", before)
        else value
        for name, value in inputs.items()
    }


def _absolute(path: str | None) -> str | None:
    """Return a path from the root, None for none."""
    return None if path is None else str(Path(path).absolute())


def new_soak(
    suite: SoakSuite[Any],
    config: RunConfig,
    limits: SoakLimits,
    dataset: DatasetLike | None = None,
    **system: Any,
) -> SoakPlan:
    """Return the plan of a soak that begins, which has a name; raise `UsageError` where it cannot.

    A ``dataset`` that is no path is spooled once, and kept in the soak's directory.
    """
    if config.shard is not None:
        raise UsageError(f"shard {config.shard}: soaks and repeats of a run have no shards")
    if config.perturb is not None:
        raise UsageError(
            "perturb: not for soaks and repeats of a run; give them a file of memfin dataset perturb"
        )
    config = config.replace(run_id=config.run_id or new_run_id())
    if len(str(config.run_id)) > MAX_ID:
        raise UsageError(f"run id {config.run_id!r}: that of a soak has at most {MAX_ID} characters")
    directory = Path(config.runs_dir) / str(config.run_id)
    limits = checked_limits(limits)
    if dataset is None:
        return SoakPlan(suite, config, limits, directory, system)
    config, spool = spooled(dataset, config)
    try:
        return SoakPlan(suite, config, limits, directory, system, spool=spool)
    except BaseException:
        spool.close()
        raise


def _recorded(path: Path, suite: SoakSuite[Any]) -> tuple[ConfigFile, SoakSummary]:
    """Return the settings and the summary of a soak of a suite; raise `UsageError` where there is none."""
    if not is_soak(path):
        raise UsageError(f"soak {path}: no such soak")
    for directory in (path, path / EPOCHS, path / EPOCHS / LOGS):
        if directory.is_dir():
            refuse_links(directory)
    summary = read_summary(path)
    if summary.suite != suite.name:
        repeated = "a benchmark" if suite.name is msgspec.UNSET else "dialogues"
        raise UsageError(f"soak {path}: repeats {repeated}, which memfin resume goes on with")
    content = b""
    with suppress(OSError):
        content = (path / CONFIG).read_bytes()
    if summary.config_digest not in (msgspec.UNSET, digest(content)):
        raise UsageError(
            f"soak {path}: {CONFIG} is not as it was written: {SUMMARY} holds another checksum; "
            "put it back, or start a new soak"
        )
    config = read_config(path / CONFIG, suite.config_file)
    if not summary.run_id == config.run_id == config.settings.run_id:
        raise UsageError(
            f"soak {path}: {CONFIG} is of soak {shown(config.run_id)}, {SUMMARY} of {shown(summary.run_id)}; "
            "put back the one that belongs here"
        )
    return config, summary


def resumed_soak(
    suite: SoakSuite[Any], path: Path, *, force: bool, metrics_port: int | None, **system: Any
) -> SoakPlan:
    """Return the plan that goes on with a soak, as `make_soak_resume_plan`.

    ``system`` replaces what its settings name.
    """
    recorded, summary = _recorded(path, suite)
    config = recorded.settings.replace(run_id=recorded.run_id)
    if (path / DATASET).is_file():
        config = config.replace(dataset=str(path / DATASET))
    limits = summary.limits if metrics_port is None else summary.limits.replace(metrics_port=metrics_port)
    given = {name: value for name, value in system.items() if value is not None}
    system = {suite.system: config.agent, "judge": config.judge, **given}
    begins_at = summary.epochs + 1
    plan = SoakPlan(suite, config, checked_limits(limits), path, system, begins_at=begins_at, force=force)
    changed = changed_inputs(recorded, plan.config_file)
    if changed and not force:
        raise UsageError(
            f"soak {path}: not as it was when the soak began: {', '.join(changed)}; start a new one, or mix "
            "both with --force"
        )
    plan.resumed = SoakBeginning(summary, changed)
    return plan


def checked_limits(limits: SoakLimits) -> SoakLimits:
    """Return the limits; raise `UsageError` where they never end a soak, or are out of range."""
    if limits.duration_seconds is None and limits.epochs is None:
        raise UsageError("soak: give --duration, such as 8h, or --epochs N")
    if limits.vary_seed and (limits.epochs is None or limits.epochs > MAX_REPEATS):
        raise UsageError(f"setting vary_seed: give epochs, at most {MAX_REPEATS}")
    try:
        return check_settings(SoakLimits, msgspec.to_builtins(limits))
    except UsageError as problem:
        raise UsageError(f"setting {problem}") from problem
