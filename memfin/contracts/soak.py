"""A soak's artifacts: one line per epoch, and the summary of all of them (spec section 8, ``soak``)."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from memfin.contracts.base import Count, Finite, Record
from memfin.contracts.run import Suite
from memfin.contracts.settings import SoakLimits

SoakState = Literal["running", "finished", "interrupted", "failed"]
HeadlineValue = Annotated[list[Finite], msgspec.Meta(min_length=1, max_length=2)]
"""A micro value, and the macro value where there is one."""


class Distribution(Record):
    """A distribution of times in milliseconds.

    ``centroids`` are those of a t-digest, as mean and weight; two distributions can be merged by them.
    All values are 0 where nothing was measured.
    """

    count: Count = 0
    mean: Finite = 0.0
    min: Finite = 0.0
    p50: Finite = 0.0
    p90: Finite = 0.0
    p99: Finite = 0.0
    max: Finite = 0.0
    centroids: list[tuple[Finite, Finite]] = []


class SoakErrors(Record):
    """Counts of failures: turns, time-outs, dialogues, retries, judgements, abandoned calls.

    ``failed_turns`` includes ``timeouts``. ``skipped_dialogs`` are lines of the dataset that hold no valid
    dialogue. ``judge_failures`` are of the ``judged_turns`` that were put to the judge.
    """

    failed_turns: Count = 0
    timeouts: Count = 0
    failed_dialogs: Count = 0
    partial_dialogs: Count = 0
    skipped_dialogs: Count = 0
    turn_retries: Count = 0
    judged_turns: Count = 0
    judge_failures: Count = 0
    abandoned_calls: Count = 0


class ProcessSample(Record):
    """Resources of the process at a moment; ``tasks`` are those of the event loop."""

    rss_bytes: Count = 0
    open_files: Count = 0
    threads: Count = 0
    tasks: Count = 0


class SoakEpoch(Record):
    """One line of ``soak.jsonl``: an epoch that is complete.

    ``epoch`` counts from 1; ``epoch_run_id`` names its run. ``process`` counts the processes that worked
    on the soak, and ``resumed`` says that an earlier one began this epoch. ``wall_seconds`` is the time
    that the last process took for it. ``metrics`` holds the headline values of each metric by their names;
    lines of earlier releases hold those of `headline_values` in it. ``resources`` are taken after the
    epoch, ``peak`` is the most that was seen while it went on.
    """

    run_id: str
    epoch: Annotated[int, msgspec.Meta(ge=1)]
    epoch_run_id: str
    process: Annotated[int, msgspec.Meta(ge=1)]
    started_at: str
    ended_at: str
    wall_seconds: Finite
    dialogs: Count
    turns: Count
    metrics: dict[str, Finite | dict[str, HeadlineValue]]
    turn_latency_ms: Distribution
    loop_lag_ms: Distribution
    errors: SoakErrors
    resources: ProcessSample
    peak: ProcessSample
    resumed: bool = False

    @property
    def headline_values(self) -> dict[str, float]:
        """The headline values by ``metric.value`` and ``metric.macro.value``."""
        found: dict[str, float] = {}
        for metric, values in self.metrics.items():
            if not isinstance(values, dict):
                found[metric] = values
                continue
            for name, value in values.items():
                found |= zip((f"{metric}.{name}", f"{metric}.macro.{name}"), value, strict=False)
        return found


def rounded(value: float) -> float:
    """Return a number with the 6 significant digits that a line of ``soak.jsonl`` has."""
    return float(f"{value:.6g}")


def values_by_metric(values: Mapping[str, float]) -> dict[str, Finite | dict[str, HeadlineValue]]:
    """Return `SoakEpoch.metrics` of the headline values by ``metric.value`` and ``metric.macro.value``."""
    found: dict[str, dict[str, HeadlineValue]] = {}
    for path, value in values.items():
        metric, _, name = path.partition(".")
        if not name.startswith("macro."):
            macro = values.get(f"{metric}.macro.{name}")
            both = [rounded(value)] if macro is None else [rounded(value), rounded(macro)]
            found.setdefault(metric, {})[name] = both
    return dict(found)


class Drift(Record):
    """A value over epochs, and its trend.

    ``slope`` is the change per epoch (Sen's estimator), ``ci95`` its 95 % interval, None while there are
    too few epochs. ``drifting`` is true if the interval excludes 0 and the change over the soak is material
    (docs/soak.md). ``epochs`` is how many epochs the slope is over.
    """

    first: Finite
    last: Finite
    mean: Finite
    min: Finite
    max: Finite
    epochs: Count
    slope: Finite = 0.0
    ci95: tuple[Finite, Finite] | None = None
    drifting: bool = False


class PassK(Record):
    """Estimate of pass^k: the probability that ``k`` repeats of a dialogue, or a question, all pass.

    ``ci95`` is its 95 % interval with the dialogue as sampling unit, None below two dialogues.
    """

    k: Annotated[int, msgspec.Meta(ge=1)]
    value: Finite
    ci95: tuple[Finite, Finite] | None = None


class Reliability(Record):
    """Results of all repeats: pass^k for k from 1 to ``repeats``, and the repeats that each dialogue passes.

    ``passes`` are by dialogue or question; one that is not in every repeat is left out.
    """

    repeats: Count
    pass_k: list[PassK] = []
    passes: dict[str, Count] = {}


class SoakSummary(Record):
    """``soak_summary.json``: the state of a soak, rewritten while the soak runs.

    ``elapsed_seconds`` is the time spent by all ``processes``. ``pruned_epochs`` is the last epoch whose
    directory is removed. ``metrics`` and ``operation`` hold the drift of headline values, and of what
    describes the runtime and the machine. ``rss_bytes_per_100k_turns`` is the growth of resident
    memory in the last process with its interval, None before 10,000 turns. ``gates`` are the thresholds
    that the soak does not pass, once it is finished; ``reason`` is what ended it early; ``changed`` names
    what ``--force`` went on in spite of. ``suite`` is left out where dialogues are replayed; with ``rag`` a
    question counts as a dialogue of one turn. ``config_digest`` is the checksum of ``config.json``.
    ``reliability`` is there once a soak that varies the seed is finished, with all its epochs kept.
    ``not_measured`` gives the reasons of the last epoch for values that are not in its line.
    """

    run_id: str
    state: SoakState
    started_at: str
    updated_at: str
    memfin_version: str
    limits: SoakLimits
    epochs: Count = 0
    processes: Count = 1
    pruned_epochs: Count = 0
    elapsed_seconds: Finite = 0.0
    dialogs: Count = 0
    turns: Count = 0
    errors: SoakErrors = SoakErrors()
    error_rate: Finite = 0.0
    turn_latency_ms: Distribution = Distribution()
    loop_lag_ms: Distribution = Distribution()
    metrics: dict[str, Drift] = {}
    operation: dict[str, Drift] = {}
    rss_bytes_per_100k_turns: Finite | None = None
    rss_ci95: tuple[Finite, Finite] | None = None
    gates: list[str] = []
    reason: str | None = None
    changed: list[str] = []
    suite: Suite | msgspec.UnsetType = msgspec.UNSET
    config_digest: str | msgspec.UnsetType = msgspec.UNSET
    reliability: Reliability | msgspec.UnsetType = msgspec.UNSET
    not_measured: dict[str, str] = {}
