"""Content of a report before any format: one immutable value that every renderer reads.

All strings that came out of a run are already `visible` and cut; they are still untrusted markup.
"""

from dataclasses import dataclass, field
from typing import Literal

from memfin.contracts import Counters, LatencyStats
from memfin.report.excerpt import Segment
from memfin.report.glossary import MetricText, is_measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many dialogues have a value in each of ten equal bins of 0 to 1 (the last includes 1)."""

    counts: tuple[int, ...]
    dialogs: int
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricView:
    """One metric of the summary with the words for it."""

    text: MetricText
    micro: dict[str, float]
    macro: dict[str, float]
    counts: dict[str, int]
    ci95: dict[str, tuple[float, float]]
    histogram: Histogram | None = None

    @property
    def eligible(self) -> bool:
        """Say whether anything entered the denominator of the headline value."""
        return self.counts.get("eligible_count", 0) > 0

    def measured(self, key: str) -> bool:
        """Say whether a value had anything to be divided by; otherwise it is a bare 0."""
        return is_measured(key, self.counts)

    @property
    def remark(self) -> str:
        """Return a sentence that belongs beside the values; most metrics have none."""
        undecided = self.counts.get("contradiction_undecided", 0)
        if undecided:
            of = self.counts.get("contradiction_turns", 0)
            return (
                f"In {undecided} of {of} turns a proposal bears on a constraint and could not be decided; "
                "they count as no contradiction."
            )
        labelled = self.counts.get("severe_turns", 0)
        if labelled and not self.eligible:
            return (
                "No turn has a reference label: agreement is not measured. The severe rate is over all "
                f"{labelled} replies that were read."
            )
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """The values of one group; a value whose denominator is empty is None."""

    label: str
    dialogs: int
    turns: int
    values: dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable:
    """Metrics by a property of the dialogues; ``note`` says how the property was known."""

    title: str
    rows: tuple[GroupRow, ...]
    note: str = ""
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogRow:
    """One dialogue with its headline values."""

    dialog_id: str
    scenario: str
    difficulty: str
    turns: int
    values: dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCase:
    """A required memory key of a turn: what had to be recalled and which sources held it."""

    key: str
    target: str | None
    hit: bool | None
    sources: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCase:
    """A detector's finding with the words it fired on and a little of their surroundings."""

    field: str
    value: str
    rule: str
    before: str
    span: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCase:
    """A turn worth looking at; ``anchor`` is its place in the report."""

    anchor: str
    dialog_id: str
    turn_pair_id: int
    scenario: str
    difficulty: str
    language: str
    user_text: str
    reply: tuple[Segment, ...]
    reply_length: int
    keys: tuple[KeyCase, ...]
    risk_missed: tuple[str, ...]
    risk_met: tuple[str, ...]
    predicted_label: str | None
    reference_label: str | None
    forbidden: tuple[str, ...]
    contradicted: bool
    constraints: tuple[str, ...]
    rubric_missed: tuple[str, ...]
    judge_score: float | None
    judge_error: str | None
    findings: tuple[FindingCase, ...]
    recall: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstList:
    """The worst turns by one criterion; ``total`` turns meet it, the worst few are listed.

    ``cases`` pairs a turn with the words for what is wrong with it.
    """

    title: str
    total: int
    cases: tuple[tuple[TurnCase, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failures with the same message, numbers aside; ``example`` tells where the first one was."""

    kind: str
    message: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """Something that limits what the numbers mean."""

    level: Literal["warning", "note"]
    title: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Latency, wall time and what the agent's model took; ``source`` tells where the figures come from.

    ``usage`` holds rows of words and figures, ready to show.
    """

    latency: LatencyStats | None
    wall_seconds: float | None
    source: str
    turns_by_status: dict[str, int] = field(default_factory=dict)
    turn_retries: int = 0
    abandoned_calls: int = 0
    judge_failures: int = 0
    usage: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeView:
    """What a language model did as the judge; rows are words, ready to show.

    ``agreement`` rows are kind, units, share of equal pairs, alpha; ``controls`` rows are kind, how
    many were judged, mean score, rubric items found, and the score they ought to have.
    """

    facts: tuple[tuple[str, str], ...]
    agreement: tuple[tuple[str, str, str, str], ...]
    controls: tuple[tuple[str, str, str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportModel:
    """Everything a report shows. A summary alone fills the first part, a run directory all of it."""

    run_id: str
    trace_version: str
    dataset_path: str
    counters: Counters
    metrics: tuple[MetricView, ...]
    cautions: tuple[Caution, ...]
    fingerprint: str | None = None
    model_name: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    notes: str | None = None
    groups: tuple[GroupTable, ...] = ()
    dialogs: tuple[DialogRow, ...] = ()
    dialogs_omitted: int = 0
    worst: tuple[WorstList, ...] = ()
    failures: tuple[FailureGroup, ...] = ()
    skips: tuple[tuple[str, int], ...] = ()
    timing: Timing | None = None
    settings: tuple[tuple[str, str], ...] = ()
    fingerprint_inputs: tuple[tuple[str, str], ...] = ()
    history_mode: str | None = None
    judge: str | None = None
    judging: JudgeView | None = None
    memfin_version: str | None = None
