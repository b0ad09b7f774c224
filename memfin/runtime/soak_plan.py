"""From settings to the plan of a soak, and of each of its epochs."""

import re
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from memfin.contracts import NO_JUDGE, ConfigFile, RunConfig, SoakLimits, SoakSummary
from memfin.contracts.reading import shown
from memfin.contracts.run import Suite
from memfin.contracts.settings import check_settings
from memfin.errors import UsageError
from memfin.journal.entries import refuse_links
from memfin.journal.run_directory import LOGS
from memfin.runtime.judging import JudgeLike
from memfin.runtime.plan import AgentLike, ObserverFactory
from memfin.runtime.resume import changed_inputs, read_config
from memfin.runtime.settings import make_config, new_run_id
from memfin.runtime.soak_dialogs import SoakedDialogs
from memfin.runtime.soak_directory import CONFIG, EPOCHS, SUMMARY, epoch_run_id, is_soak, read_summary
from memfin.runtime.soak_suite import SoakSuite
from memfin.runtime.suite import Plan

C = TypeVar("C", bound=RunConfig)
F = TypeVar("F", bound=ConfigFile)

LONGEST_ID: Final = 120
"""Characters of a soak's run id at most: those of its epochs are longer."""

_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)([dhms]))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_SECONDS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}


def parse_duration(text: str) -> float:
    """Return the seconds of ``8h``, ``30m``, ``90s``, ``1d12h`` or ``1h30m``.

    Raises:
        UsageError: the text has another form.
    """
    compact = text.strip().lower()
    if not _DURATION.fullmatch(compact):
        raise UsageError(f"--duration {text!r}: expected a number with d, h, m or s, such as 8h, 30m or 90s")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(compact))
    if not 0 < seconds <= 1e9:  # noqa: PLR2004 - the bound of SoakLimits
        raise UsageError(f"--duration {text!r}: must be more than 0 and at most 1e9 seconds")
    return seconds


class SoakBeginning(NamedTuple):
    """What an earlier process left: its summary, and what is another now that ``--force`` accepts."""

    summary: SoakSummary
    changed: tuple[str, ...] = ()


class SoakPlan:
    """What a soak works on, resolved and checked.

    Attributes:
        config: the settings of the soak; those of its epochs differ in where they write.
        limits: when it ends.
        run_id: its name.
        directory: where its artifacts go.
        suite: what its epochs are.
        resumed: what an earlier process left, where it goes on.
    """

    def __init__(
        self,
        config: RunConfig,
        limits: SoakLimits,
        directory: Path,
        suite: SoakSuite[Any],
        *,
        begins_at: int = 1,
    ) -> None:
        """Resolve and check the first epoch to come, ``begins_at``; raises `UsageError` as its plan."""
        first = suite.plan(begins_at)
        self.config = config.replace(agent=first.config.agent, judge=first.config.judge)
        self.limits = limits
        self.run_id = str(config.run_id)
        self.directory = directory
        self.suite = suite
        self.resumed: SoakBeginning | None = None
        self._first: Plan[Any] | None = first
        self.config_file = first.config_file().replace(run_id=self.run_id, settings=self.config)

    @property
    def after_stop(self) -> str:
        """What there is once the soak was stopped on purpose."""
        return f"memfin resume {self.directory} goes on"

    @property
    def pause(self) -> float:
        """Seconds between two epochs.

        Every epoch has a judge of its own, whose limits begin anew; a window has to pass before,
        or two epochs together could exceed them.
        """
        config = self.config
        if config.judge in (NO_JUDGE, "heuristic"):
            return 0.0
        of_requests = max(1.0, 60 / config.judge_rpm) if config.judge_rpm else 0.0
        return 1.1 * max(of_requests, 60.0 if config.judge_tpm else 0.0)

    def epoch(self, number: int, *, begun: bool) -> Plan[Any]:
        """Return the plan of an epoch; ``begun`` goes on with one that was interrupted. Blocks.

        Raises:
            UsageError: something that it needs is unusable now, or is another than when the soak began.
        """
        plan, self._first = self._first, None
        if begun:
            plan = self.suite.resumed(number)
        elif plan is None or plan.run_id != epoch_run_id(self.run_id, number):
            plan = self.suite.plan(number)
        plan.part_of = self.directory
        changed = changed_inputs(self.config_file, plan.config_file())
        if changed:
            raise UsageError(
                f"soak {self.directory}: not as it was when the soak began: {', '.join(changed)}; "
                "its epochs could not be compared; start a new soak, or mix both with memfin resume --force"
            )
        return plan


def make_soak_plan(
    dataset: str | Path | None = None,
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
    config = soak_config(make_config({**settings, "dataset": None if dataset is None else str(dataset)}))
    limits = checked_limits(limits)
    directory = Path(config.runs_dir) / str(config.run_id)
    suite = SoakedDialogs(config, directory, agent, judge, observer_factory)
    return SoakPlan(config, limits, directory, suite)


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
    path = Path(directory)
    recorded, summary = began(path, ConfigFile)
    config = recorded.settings.replace(run_id=recorded.run_id)
    suite = SoakedDialogs(
        config,
        path,
        recorded.settings.agent if agent is None else agent,
        recorded.settings.judge if judge is None else judge,
        observer_factory,
        force=force,
    )
    return going_on(path, recorded, summary, suite, force=force, metrics_port=metrics_port)


def soak_config(config: C) -> C:
    """Return the settings of a new soak, which has a name; raise `UsageError` where that is too long."""
    config = config.replace(run_id=config.run_id or new_run_id())
    if len(str(config.run_id)) > LONGEST_ID:
        raise UsageError(f"run id {config.run_id!r}: that of a soak has at most {LONGEST_ID} characters")
    return config


def began(
    path: Path, kind: type[F], suite: Suite | msgspec.UnsetType = msgspec.UNSET
) -> tuple[F, SoakSummary]:
    """Return the settings and the summary of a soak of a suite that is to go on.

    Raises:
        UsageError: there is no such soak.
    """
    if not is_soak(path):
        raise UsageError(f"soak {path}: no such soak")
    for directory in (path, path / EPOCHS, path / EPOCHS / LOGS):
        if directory.is_dir():
            refuse_links(directory)
    summary = read_summary(path)
    if summary.suite != suite:
        repeated = "a benchmark" if suite is msgspec.UNSET else "dialogues"
        raise UsageError(f"soak {path}: repeats {repeated}, which memfin resume goes on with")
    config = read_config(path / CONFIG, kind)
    if not summary.run_id == config.run_id == config.settings.run_id:
        raise UsageError(
            f"soak {path}: {CONFIG} is of soak {shown(config.run_id)}, {SUMMARY} of {shown(summary.run_id)}; "
            "put back the one that belongs here"
        )
    return config, summary


def going_on(
    path: Path,
    recorded: ConfigFile,
    summary: SoakSummary,
    suite: SoakSuite[Any],
    *,
    force: bool,
    metrics_port: int | None,
) -> SoakPlan:
    """Return the plan of a soak that goes on with what `began` has found.

    Raises:
        UsageError: something that it needs is unusable, or it is another than when the soak began and
            ``force`` is not set.
    """
    limits = summary.limits if metrics_port is None else summary.limits.replace(metrics_port=metrics_port)
    config = recorded.settings.replace(run_id=recorded.run_id)
    plan = SoakPlan(config, checked_limits(limits), path, suite, begins_at=summary.epochs + 1)
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
    try:
        return check_settings(SoakLimits, msgspec.to_builtins(limits))
    except UsageError as problem:
        raise UsageError(f"setting {problem}") from problem
