"""Artifacts of a run: manifest, summary and statistics; and the comparison of two runs."""

import re
from typing import Annotated, Any, Final, Literal

import msgspec

from memfin.contracts.base import Count, Finite, Record
from memfin.contracts.judgement import JudgeStats, ParameterChange
from memfin.contracts.trace import ModelUsage
from memfin.contracts.validity import CorrectedValue

MetricName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
"""Name of a metric: ``m1_`` to ``m5_`` and a word, or the identifier of a custom metric."""

Suite = Literal["dialog", "rag"]
"""The kind of evaluation of a run."""

RUN_ID: Final = re.compile(r"(?![.-])(?!logs\Z)[A-Za-z0-9._-]{1,128}\Z")
"""The names that a run may have."""


class Counters(Record):
    """Counts of the dataset's dialogues and turn pairs; a turn pair counts when its dialogue is valid.

    ``unscored_turn_pairs`` counts those without ground truth and user turns without a reply, if any.
    """

    total_dialogs: Count = 0
    valid_dialogs: Count = 0
    skipped_dialogs: Count = 0
    failed_dialogs: Count = 0
    total_turn_pairs: Count = 0
    unscored_turn_pairs: Count | msgspec.UnsetType = msgspec.UNSET


class RunManifest(Record):
    """``run_manifest.json``: identity of a run (trace schema section 4.1).

    ``suite`` is left out where dialogues were replayed. In a run of the RAG suite the dataset is the
    benchmark, and a question counts as a dialogue of one turn.
    """

    trace_version: str
    run_id: str
    dataset_path: str
    started_at: str
    model_name: str
    workers_dialog: int
    workers_judge: int
    counters: Counters
    ended_at: str | None = None
    notes: str | None = None
    suite: Suite | msgspec.UnsetType = msgspec.UNSET


class MetricResult(Record):
    """One metric's values; every value is finite and a zero denominator gives 0.0.

    ``ci95`` maps a headline value to the bounds of its 95 % confidence interval, clustered by dialogue,
    or by client where dialogues are sessions; a value that too few dialogues carry has no interval. In
    ``by_dialog`` dialogues with equal values may share one dictionary. ``not_measured`` gives the reason
    of each value whose 0.0 says nothing about the agent. Custom metrics have ``lower_is_better`` and
    ``description``. ``groups`` of the metric ``memory`` are the hits and the denominator of a value by
    group, such as ``days:8-30``.
    """

    metric_name: str
    micro: dict[str, Finite]
    macro: dict[str, Finite]
    counts: dict[str, int]
    by_dialog: dict[str, dict[str, Finite]]
    ci95: dict[str, tuple[Finite, Finite]] = {}
    not_measured: dict[str, str] = {}
    lower_is_better: bool | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    groups: dict[str, dict[str, tuple[int, int]]] | msgspec.UnsetType = msgspec.UNSET


class DetectorResult(Record):
    """Results of a user's detector: replies read, those with findings, findings, replies where it failed.

    ``rate`` is ``fired`` divided by ``replies``; ``ci95`` is its interval, left out below two dialogues.
    """

    replies: Count
    fired: Count
    findings: Count
    failed: Count
    rate: Finite
    ci95: tuple[Finite, Finite] | msgspec.UnsetType = msgspec.UNSET


class EvalSummary(Record):
    """``metrics_summary.json``: the same bytes for the same inputs (spec section 4).

    ``detectors`` are users' detectors by the field of their findings. ``corrected`` are the rates of
    ``corrections.json``, for a run with labels.
    """

    run_id: str
    trace_version: str
    dataset_path: str
    metrics: dict[str, MetricResult]
    counters: Counters
    config_fingerprint: str | None = None
    detectors: dict[str, DetectorResult] | msgspec.UnsetType = msgspec.UNSET
    corrected: dict[str, CorrectedValue] | msgspec.UnsetType = msgspec.UNSET


class LatencyStats(Record):
    """Latency of the turns that were answered, in milliseconds."""

    count: Count = 0
    mean: Finite = 0.0
    p50: Finite = 0.0
    p90: Finite = 0.0
    p99: Finite = 0.0
    max: Finite = 0.0


class RunStats(Record):
    """``run_stats.json``: the values of a run that depend on time; ``judge`` is for an LLM judge.

    ``judged_turns`` were put to the judge and ``judge_failures`` of them got no verdict, for the reasons in
    ``judge_failure_reasons``, the most frequent first; ``judge_declined`` counts those that were
    ``too_long`` for it and those it ``refused``.
    ``usage`` is what the language models behind the agents took: in this process all of it, in earlier ones
    that of the replies that were committed. ``agent_parameters`` and ``wall_seconds`` are of this process.
    """

    run_id: str
    wall_seconds: Finite
    turn_latency_ms: LatencyStats
    turns_by_status: dict[str, int]
    dialogs_by_status: dict[str, int]
    skips_by_reason: dict[str, int]
    judged_turns: Count = 0
    judge_failures: Count = 0
    judge_declined: dict[str, int] = {}
    judge_failure_reasons: dict[str, int] = {}
    turn_retries: Count = 0
    abandoned_calls: Count = 0
    judge: JudgeStats | None = None
    actors: dict[str, dict[str, Any]] = {}
    usage: ModelUsage | None = None
    agent_parameters: list[ParameterChange] = []


MAX_FAILED_SHARE: Final = 0.05
"""Share of failed turns, or of questions without an answer, above which there is a warning."""


def many_failed(failed: int, total: int) -> bool:
    """Return True if more turns failed than `MAX_FAILED_SHARE` of all."""
    return failed > MAX_FAILED_SHARE * total


Outcome = Literal["better", "worse", "no_difference", "unknown"]
"""``better`` and ``worse`` only where the test finds a difference at 5 % and the interval excludes 0.

``unknown`` where so few dialogues or questions show no difference, however large.
"""


class CorrectedDifference(Record):
    """A rate in two runs as labels of both correct it; ``difference`` is b - a, ``ci95`` its interval."""

    a: CorrectedValue
    b: CorrectedValue
    difference: Finite
    ci95: tuple[Finite, Finite]


class PairedValue(Record):
    """A value in two runs, over the turns or questions that carry it in both.

    ``a`` and ``b`` are the values over those ``units`` of ``pairs`` dialogues alone, so they may differ from
    the summaries'. ``difference`` is b - a, ``ci95`` its 95 % confidence interval, None below two pairs.
    ``improved`` and ``worsened`` count the units that changed; ``higher_is_better`` says which direction is
    good. ``p_value`` is that of the exact test that exchanges the runs in whole dialogues; ``p_adjusted`` is
    Holm's, over the headline values, None for the others. ``smallest`` is the smallest difference that such
    data shows in four of five comparisons, None where there is no such difference. ``non_inferior`` tells
    whether b is worse by less than the ``margin``, where one was given. ``corrected`` is of runs with labels;
    the verdict is not.
    """

    a: Finite
    b: Finite
    difference: Finite
    verdict: Outcome
    pairs: Count
    ci95: tuple[Finite, Finite] | None = None
    higher_is_better: bool = True
    units: Count = 0
    improved: Count = 0
    worsened: Count = 0
    p_value: Finite = 1.0
    p_adjusted: Finite | None = None
    smallest: Finite | None = None
    margin: Finite | None = None
    non_inferior: bool | None = None
    corrected: CorrectedDifference | msgspec.UnsetType = msgspec.UNSET


class ChangedCase(Record):
    """A dialogue, or a question, whose value changed; ``change`` above 0 says by how much b is better.

    ``turn`` is the first turn in which it changed, from 1; None for a value of the whole dialogue. Of soaks
    and repeats ``epoch`` is that of the turn among those that are kept, from 1.
    """

    id: str
    value: str
    a: Finite
    b: Finite
    change: Finite
    turn: Count | None = None
    epoch: Count = 1


class Comparison(Record):
    """Two runs compared, ``b`` against ``a``.

    ``pairs`` counts the dialogues or questions in both runs; ``only_a`` and ``only_b`` those in one, which
    are left out. ``inputs_changed`` names what the two runs did not share besides what was to be compared.
    ``values`` holds every value by ``metric.value``, the share of failed turns first; ``changed`` the cases
    that changed most, worst first. ``warnings`` say of a run why its values should not be believed,
    ``not_measured`` in which run a value was not measured, and why. ``repeats`` is the k of ``pass_k``, for
    two soaks. The suite ``samples`` compares logs of inspect_ai, whose samples stand for dialogues and whose
    values are named after their scorers.
    """

    a: str
    b: str
    suite: Literal["dialogues", "rag", "samples"]
    pairs: Count
    only_a: Count
    only_b: Count
    inputs_changed: list[str]
    values: dict[str, PairedValue]
    changed: list[ChangedCase] = []
    warnings: list[str] = []
    not_measured: dict[str, str] = {}
    repeats: Count | msgspec.UnsetType = msgspec.UNSET
