"""What must hold of sound records beyond their structure, within a record and across a file.

One object of rules accompanies one file. What it has learnt (run, counters, dialogues) serves the
checks across the files of a run. It keeps a digest a dialogue, not the records.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memfin.contracts import (
    ConfigFile,
    Counters,
    DialogTrace,
    EvalSummary,
    Judgement,
    MetricResult,
    ProgressEvent,
    RunManifest,
    RunStats,
    TurnEvalRow,
)
from memfin.contracts.reading import UnsupportedTraceVersion, check_trace_version, shown
from memfin.validation.findings import Steps, Violation
from memfin.validation.rows import row_violations

Digest = bytes


def digest(dialog_id: str) -> Digest:
    """Return a short stand-in for an id; two ids share one with a probability of 2**-128."""
    return hashlib.blake2b(dialog_id.encode(), digest_size=16).digest()


class RunRules:
    """What holds in every artefact: all records are of one run, in a version that is read."""

    def __init__(self) -> None:
        self.run_id: str | None = None

    def check(self, record: Any) -> Iterator[Violation]:
        """Yield the violations of one structurally sound record, given in the order of the file."""
        if self.run_id is None:
            self.run_id = record.run_id
        elif record.run_id != self.run_id:
            yield Violation(
                ("run_id",), f"{shown(record.run_id)} differs from {shown(self.run_id)}, the run of the file"
            )
        version = getattr(record, "trace_version", None)
        if version is not None:
            try:
                check_trace_version(version)
            except UnsupportedTraceVersion as problem:
                yield Violation(("trace_version",), str(problem).removeprefix("$.trace_version: "))


class DialogTraceRules(RunRules):
    """``dialog_trace.jsonl``: status, turns and skips agree; a valid dialogue stands once."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: dict[Digest, int] = {}
        self.statuses: Counter[str] = Counter()
        self.pairs = 0

    def check(self, record: DialogTrace) -> Iterator[Violation]:
        """Check one dialogue."""
        yield from super().check(record)
        self.statuses[record.dialog_status] += 1
        if record.dataset_index < 1:
            yield Violation(
                ("dataset_index",), f"{record.dataset_index} is no line number; lines count from 1"
            )
        if record.valid_dialog:
            key = digest(record.dialog_id)
            if key in self.turns:
                yield Violation(("dialog_id",), f"{shown(record.dialog_id)} stands on an earlier line too")
            self.turns[key] = len(record.turns)
            self.pairs += len(record.turns)
        yield from self._skip(record)
        yield from self._status(record)
        previous = 0
        for index, turn in enumerate(record.turns):
            yield from _next_pair(turn.turn_pair_id, previous, ("turns", index, "turn_pair_id"))
            previous = turn.turn_pair_id
            yield from _not_negative(turn.latency_ms, ("turns", index, "latency_ms"))

    def counters(self) -> Counters:
        """Return the counters that the dialogues seen so far amount to."""
        total = sum(self.statuses.values())
        return Counters(
            total_dialogs=total,
            valid_dialogs=total - self.statuses["skipped"],
            skipped_dialogs=self.statuses["skipped"],
            failed_dialogs=self.statuses["failed"],
            total_turn_pairs=self.pairs,
        )

    def _skip(self, record: DialogTrace) -> Iterator[Violation]:
        skipped = record.dialog_status == "skipped"
        if skipped == record.valid_dialog:
            yield Violation(
                ("valid_dialog",),
                f"{str(record.valid_dialog).lower()} contradicts dialog_status {record.dialog_status!r}",
            )
        if skipped and record.skip_reason is None:
            yield Violation(("skip_reason",), "missing, though dialog_status is 'skipped'")
        if not skipped and record.skip_reason is not None:
            yield Violation(("skip_reason",), f"set, though dialog_status is {record.dialog_status!r}")
        if skipped and record.turns:
            yield Violation(("turns",), "a skipped dialogue has no turns")

    def _status(self, record: DialogTrace) -> Iterator[Violation]:
        if not record.turns or record.dialog_status == "skipped":
            return  # turns are optional; nothing to compare with
        ok = sum(turn.turn_status == "ok" for turn in record.turns)
        agrees = {
            "ok": ok == len(record.turns),
            "partial": 0 < ok < len(record.turns),
            "failed": ok == 0 or record.dialog_error is not None,
        }
        if not agrees[record.dialog_status]:
            yield Violation(
                ("dialog_status",),
                f"{record.dialog_status!r} contradicts the turns: {ok} of {len(record.turns)} are ok",
            )


class TurnEvalRules(RunRules):
    """``turn_eval.jsonl``: flags, hits and eligibility agree; a turn stands once."""

    def __init__(self, traced: DialogTraceRules | None = None) -> None:
        super().__init__()
        self._traced = traced
        self._last_pair: dict[Digest, int] = {}

    def check(self, record: TurnEvalRow) -> Iterator[Violation]:
        """Check one row."""
        yield from super().check(record)
        key = digest(record.dialog_id)
        yield from _next_pair(
            record.turn_pair_id, self._last_pair.get(key, 0), ("turn_pair_id",), first_must_be_one=False
        )
        self._last_pair[key] = record.turn_pair_id
        if self._traced is not None and key not in self._traced.turns:
            yield Violation(
                ("dialog_id",), f"{shown(record.dialog_id)} is no valid dialogue of dialog_trace.jsonl"
            )
        yield from row_violations(record)


class SummaryRules(RunRules):
    """``metrics_summary.json``: values within their scales, counts that can be."""

    def __init__(self) -> None:
        super().__init__()
        self.summary: EvalSummary | None = None

    def check(self, record: EvalSummary) -> Iterator[Violation]:
        """Check the summary."""
        yield from super().check(record)
        self.summary = record
        yield from _counter_violations(record.counters)
        for name, metric in record.metrics.items():
            steps: Steps = ("metrics", name)
            if metric.metric_name != name:
                yield Violation(
                    (*steps, "metric_name"), f"{shown(metric.metric_name)} stands under {shown(name)}"
                )
            yield from _metric_violations(metric, steps)


def _metric_violations(metric: MetricResult, steps: Steps) -> Iterator[Violation]:
    for name in ("eligible_count", "skipped_count", "failed_count"):
        if name not in metric.counts:
            yield Violation((*steps, "counts", name), "missing")
    for name, count in metric.counts.items():
        yield from _not_negative(count, (*steps, "counts", name))
    for group in ("micro", "macro"):
        for name, value in metric[group].items():
            yield from _scale_violations(name, value, (*steps, group, name))
    for dialog_id, values in metric.by_dialog.items():
        for name, value in values.items():
            yield from _scale_violations(name, value, (*steps, "by_dialog", dialog_id, name))
    for name, (low, high) in metric.ci95.items():
        if low > high:
            yield Violation((*steps, "ci95", name), f"the lower bound {low} is above the upper bound {high}")


def _scale_violations(name: str, value: float, steps: Steps) -> Iterator[Violation]:
    """Rates lie between 0 and 1; a judge's score between 1 and 5, or is 0 when nothing was scored."""
    if name.startswith("judge_score"):
        if value != 0 and not 1 <= value <= 5:  # noqa: PLR2004 - the judge's scale
            yield Violation(steps, f"{value} is neither 0 nor between 1 and 5")
    elif not 0 <= value <= 1:
        yield Violation(steps, f"{value} is not between 0 and 1")


class ManifestRules(RunRules):
    """``run_manifest.json``: times in UTC, counters that add up once the run has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.manifest: RunManifest | None = None

    def check(self, record: RunManifest) -> Iterator[Violation]:
        """Check the manifest."""
        yield from super().check(record)
        self.manifest = record
        yield from _time_violations(record.started_at, "started_at")
        if record.ended_at is not None:
            yield from _time_violations(record.ended_at, "ended_at")
            yield from _counter_violations(record.counters)


class ProgressRules(RunRules):
    """``progress_{run_id}.jsonl``: times in UTC."""

    def check(self, record: ProgressEvent) -> Iterator[Violation]:
        """Check one event."""
        yield from super().check(record)
        yield from _time_violations(record.ts, "ts")


class JudgementRules(RunRules):
    """``judgements.jsonl``: a verdict or an error, once a vote on a turn."""

    def __init__(self) -> None:
        super().__init__()
        self._judged: set[Digest] = set()

    def check(self, record: Judgement) -> Iterator[Violation]:
        """Check one judgement."""
        yield from super().check(record)
        if record.turn_pair_id < 1:
            yield Violation(("turn_pair_id",), f"{record.turn_pair_id} is less than 1")
        if record.vote < 1:
            yield Violation(("vote",), f"{record.vote} is less than 1")
        if (record.verdict is None) == (record.error is None):
            both = "both are set" if record.verdict else "neither is"
            yield Violation(("verdict",), f"a judgement has a verdict or an error; {both}")
        key = digest(f"{record.turn_pair_id} {record.vote} {record.dialog_id}")
        if key in self._judged:
            yield Violation(("turn_pair_id",), "this vote on the turn stands on an earlier line too")
        self._judged.add(key)


class ConfigRules(RunRules):
    """``config.json``; remembers the fingerprint."""

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint: str | None = None

    def check(self, record: ConfigFile) -> Iterator[Violation]:
        """Check the configuration."""
        yield from super().check(record)
        self.fingerprint = record.config_fingerprint


class StatsRules(RunRules):
    """``run_stats.json``: nothing is negative."""

    def check(self, record: RunStats) -> Iterator[Violation]:
        """Check the statistics."""
        yield from super().check(record)
        yield from _not_negative(record.wall_seconds, ("wall_seconds",))
        for group in ("turns_by_status", "dialogs_by_status", "skips_by_reason"):
            for name, count in record[group].items():
                yield from _not_negative(count, (group, name))


def _next_pair(
    number: int, previous: int, steps: Steps, *, first_must_be_one: bool = True
) -> Iterator[Violation]:
    """Turn pairs of a dialogue are numbered from 1, upwards."""
    if number < 1:
        yield Violation(steps, f"{number} is less than 1")
    elif number == previous:
        yield Violation(steps, f"the turn pair {number} stands twice")
    elif number < previous:
        yield Violation(steps, f"{number} comes after {previous}; turn pairs stand in their order")
    elif first_must_be_one and previous == 0 and number != 1:
        yield Violation(steps, f"the first turn pair is number 1, not {number}")


def _not_negative(value: float | None, steps: Steps) -> Iterator[Violation]:
    if value is not None and value < 0:
        yield Violation(steps, f"{value} is less than 0")


def _counter_violations(counters: Counters) -> Iterator[Violation]:
    if counters.valid_dialogs + counters.skipped_dialogs != counters.total_dialogs:
        yield Violation(
            ("counters", "total_dialogs"),
            f"{counters.total_dialogs} is not the sum of {counters.valid_dialogs} valid "
            f"and {counters.skipped_dialogs} skipped dialogues",
        )
    if counters.failed_dialogs > counters.valid_dialogs:
        yield Violation(("counters", "failed_dialogs"), "more dialogues failed than were valid")


def _time_violations(text: str, name: str) -> Iterator[Violation]:
    """Times are UTC in ISO 8601 with ``Z`` (spec section 4)."""
    try:
        sound = text.endswith("Z") and "T" in text and datetime.fromisoformat(text) is not None
    except ValueError:
        sound = False
    if not sound:
        yield Violation((name,), f"{shown(text)} is no UTC time in ISO 8601 with Z")
