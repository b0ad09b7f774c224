"""Rules for the records of artifacts beyond their structure: within a record and across a file.

Rules are written as tables: generators of `Row`, each a predicate, a field and a message. One `RunRules`
accompanies one file; its state (run, counters, ids) serves the comparison of the files of a run.

`memfin.dataset` accepts or rejects a dialogue and stops at its first defect. `dialogue_violations` finds all
of them, each with its ``skip_reason``, and also those that a run tolerates: values outside the dataset's
wordings, profiles that leave the denominator of M2 (spec section 3).
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts.base import SkipReason
from memfin.contracts.catalog import DIFFICULTIES, HORIZONS, LIQUIDITY_NEEDS, RISK_LEVELS
from memfin.contracts.dataset import Dialog, ProfileTruth, TurnTags
from memfin.contracts.progress import ProgressEvent
from memfin.contracts.reading import Line, UnsupportedTraceVersion, check_trace_version, shown, upgrade
from memfin.contracts.run import RUN_ID, Counters, EvalSummary, MetricResult, RunManifest, RunStats
from memfin.contracts.soak import SoakEpoch, SoakSummary
from memfin.contracts.trace import DialogTrace
from memfin.contracts.turn_eval import TurnEvalRow, met_risk_tags
from memfin.contracts.validity import LabelledReply
from memfin.dataset import align_turn_pairs, read_entry
from memfin.metrics import M1State, M3State, M4State, M5State
from memfin.metrics.custom import custom_states
from memfin.metrics.m5_explainability import HIGHEST_SCORE, LOWEST_SCORE
from memfin.metrics.state import RowState
from memfin.scoring.compliance import CATEGORIES
from memfin.scoring.risk import canonical_risk_tag
from memfin.validation.findings import (
    Steps,
    Violation,
    convert_or_violations,
    described,
    structure_violations,
)

Row = tuple[object, str | Steps, str]
"""A rule applied to a record: true where it is broken; the field, or the steps to it; the message."""

Check = Callable[[Any], Iterable[Row]]
"""The rules of one structurally sound record."""

_METRICS: Final[tuple[type[RowState[Any]], ...]] = (M1State, M3State, M4State, M5State)
_ELIGIBLE: Final = ("eligible_m1", "eligible_m2", "eligible_m3", "eligible_m4", "eligible_m5")


def at(steps: Steps, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of a part as those of its record."""
    for is_broken, field, message in rows:
        yield is_broken, (*steps, *((field,) if isinstance(field, str) else field)), message


def digest(text: str) -> bytes:
    """Return a short stand-in for an id; two ids share one with a probability of 2**-128."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class RunRules:
    """The rules of one file: the checks of each record, and one run in all of them.

    ``path`` is the file; ``record`` the last structurally sound record: of a document, its content.
    """

    def __init__(self, *checks: Check) -> None:
        self.path = Path()
        self.run_id: str | None = None
        self.record: Any = None
        self._checks = checks
        self._seen: set[bytes] = set()

    def violations(self, line: Line, value: Any, of_text: list[Violation], kind: Any) -> Iterator[Violation]:
        """Yield the violations of a line, given with its plain data and the violations of its text."""
        del line
        yield from of_text
        version = value.get("trace_version") if isinstance(value, dict) else None
        if isinstance(version, str) and "trace_version" in getattr(kind, "__struct_fields__", ()):
            try:
                check_trace_version(version)
            except UnsupportedTraceVersion as problem:  # other fields, which are not checked further
                yield Violation(("trace_version",), str(problem).removeprefix("$.trace_version: "))
                return
        known = {violation.steps for violation in of_text}
        record, of_structure = convert_or_violations(upgrade(value, kind), kind)
        yield from (violation for violation in of_structure if violation.steps not in known)
        if not of_text and not of_structure:
            yield from self.check(record)

    def of_file(self) -> str | None:
        """Return what is wrong with the file as a whole, once all its records are checked."""
        return None

    def check(self, record: Any) -> Iterator[Violation]:
        """Yield the violations of one structurally sound record, given in the order of the file."""
        self.record = record
        run_id = getattr(record, "run_id", None)
        self.run_id = run_id if self.run_id is None else self.run_id
        if run_id != self.run_id:
            message = f"{shown(run_id)} differs from {shown(self.run_id)}, the run of the file"
            yield Violation(("run_id",), message)
        for check in self._checks:
            for is_broken, field, message in check(record):
                if is_broken:
                    yield Violation((field,) if isinstance(field, str) else field, message)

    def is_new(self, key: str) -> bool:
        """Return True for a key that no earlier record had."""
        if self.knows(key):
            return False
        self._seen.add(digest(key))
        return True

    def knows(self, key: str) -> bool:
        """Return True for a key that a record had."""
        return digest(key) in self._seen

    def twice(self, field: str, key: str) -> Row:
        """Return the rule that a key stands once in the file."""
        return not self.is_new(key), field, f"{shown(key)} stands on an earlier line too"


def _negative(field: str | Steps, value: float | None, words: str = "less than 0") -> Row:
    return (value or 0) < 0, field, f"{value} is {words}"


def _not_utc(field: str, text: str) -> Row:
    """Return the rule that times are UTC in ISO 8601 with ``Z`` (spec section 4)."""
    try:
        sound = text.endswith("Z") and "T" in text and datetime.fromisoformat(text) is not None
    except ValueError:
        sound = False
    return not sound, field, f"{shown(text)} is no UTC time in ISO 8601 with Z"


# ---- the trace, its rows and its judgements


class DialogTraceRules(RunRules):
    """``dialog_trace.jsonl``: status, turns and skips agree; a valid dialogue stands once."""

    def __init__(self) -> None:
        super().__init__(_trace, self._rows)
        self.statuses: Counter[str] = Counter()
        self._skips: Counter[str] = Counter()
        self.pairs = 0

    def _rows(self, record: DialogTrace) -> Iterator[Row]:
        self.statuses[record.dialog_status] += 1
        if record.skip_reason is not None:
            self._skips[record.skip_reason] += 1
        if record.valid_dialog:
            yield self.twice("dialog_id", record.dialog_id)
            self.pairs += len(record.turns)

    def of_file(self) -> str | None:
        """Return the finding of a trace of which nothing can be scored."""
        if not self.statuses or self.statuses.total() > self.statuses["skipped"]:
            return None
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(self._skips.items()))
        return f"no valid dialogue ({reasons}); nothing can be scored"

    def counters(self) -> Counters:
        """Return the counters that the dialogues so far amount to."""
        total = sum(self.statuses.values())
        return Counters(
            total_dialogs=total,
            valid_dialogs=total - self.statuses["skipped"],
            skipped_dialogs=self.statuses["skipped"],
            failed_dialogs=self.statuses["failed"],
            total_turn_pairs=self.pairs,
        )


def _trace(record: DialogTrace) -> Iterator[Row]:
    status, reason, index = record.dialog_status, record.skip_reason, record.dataset_index
    skipped, valid = status == "skipped", str(record.valid_dialog).lower()
    ok, turns = sum(turn.turn_status == "ok" for turn in record.turns), len(record.turns)
    agrees = {
        "ok": ok == turns,
        "partial": 0 < ok < turns,
        "failed": ok == 0 or record.dialog_error is not None,
        "skipped": True,
    }
    yield index < 1, "dataset_index", f"{index} is no line number; lines count from 1"
    yield skipped == record.valid_dialog, "valid_dialog", f"{valid} contradicts dialog_status {status!r}"
    yield skipped and reason is None, "skip_reason", "missing, though dialog_status is 'skipped'"
    yield not skipped and reason is not None, "skip_reason", f"set, though dialog_status is {status!r}"
    yield skipped and turns, "turns", "a skipped dialogue has no turns"
    wrong = turns and not agrees[status]  # turns are optional: without them there is nothing to compare
    yield wrong, "dialog_status", f"{status!r} contradicts the turns: {ok} of {turns} are ok"
    previous = 0
    for place, turn in enumerate(record.turns):
        number = turn.turn_pair_id
        message = f"the first turn pair is number 1, not {number}"
        yield previous == 0 and number > 1, ("turns", place, "turn_pair_id"), message
        yield from at(("turns", place), _next_pair(number, previous))
        yield _negative(("turns", place, "latency_ms"), turn.latency_ms)
        previous = number


def _next_pair(number: int, previous: int) -> Iterator[Row]:
    """Check that the turn pairs of a dialogue are numbered upwards from 1."""
    field = "turn_pair_id"
    yield number < 1, field, f"{number} is less than 1"
    yield 1 <= number == previous, field, f"the turn pair {number} stands twice"
    yield 1 <= number < previous, field, f"{number} comes after {previous}; turn pairs stand in their order"


class TurnEvalRules(RunRules):
    """``turn_eval.jsonl``: flags, hits and eligibility agree; a turn stands once."""

    def __init__(self, trace: DialogTraceRules | None = None) -> None:
        super().__init__(self._rows)
        self._trace = trace
        self._last_pair: dict[bytes, int] = {}

    def _rows(self, record: TurnEvalRow) -> Iterator[Row]:
        key = digest(record.dialog_id)
        yield from _next_pair(record.turn_pair_id, self._last_pair.get(key, 0))
        self._last_pair[key] = record.turn_pair_id
        if self._trace is not None and not self._trace.knows(record.dialog_id):
            message = f"{shown(record.dialog_id)} is no valid dialogue of dialog_trace.jsonl"
            yield True, "dialog_id", message
        found = [row for check in (_eligibility, _keys, _hits) for row in check(record) if row[0]]
        yield from found
        # The metrics decide: a row that one of them would count as bad is a finding whatever the rules say.
        fields = {field if isinstance(field, str) else field[0] for _, field, _ in found}
        for metric in (*(each() for each in _METRICS), *custom_states(record, {})):
            problem = metric.objection(record)
            if problem is not None:
                yield problem.field not in fields, problem.field, str(problem)


def _eligibility(row: TurnEvalRow) -> Iterator[Row]:
    """Compare eligibility with missing data and failures (trace schema section 7)."""
    for name, need, state in (
        ("eligible_m1", "required_keys_raw", "empty"),
        ("eligible_m3", "risk_required_tags", "empty"),
        ("eligible_m4", "gt_compliance_label", "missing"),
        ("eligible_m5", "rubric_required", "empty"),
    ):
        yield row[name] and not row[need], name, f"true, though {need} is {state}"
    failed = row.turn_status not in (None, "ok")
    if failed or row.scoring_error is not None:
        reason = f"turn_status is {row.turn_status!r}" if failed else "scoring_error is set"
        for name in _ELIGIBLE:
            yield row[name], name, f"true, though {reason}"


def _keys(row: TurnEvalRow) -> Iterator[Row]:
    """Compare the lists of keys with the resolvable keys, and with each other."""
    resolvable = sum(key.resolvable for key in row.resolved_keys)
    flags, by_key = row.key_hit_flags, row.key_hit_sources
    lists: tuple[tuple[str, list[Any] | None, str], ...] = (
        ("key_hit_flags", flags if row.eligible_m1 or flags else None, "flags"),
        ("key_hit_guarded", row.key_hit_guarded, "flags"),
        ("key_recoverability", row.key_recoverability, "entries"),
    )
    for name, entries, noun in lists:
        if entries is not None:
            message = f"{len(entries)} {noun} for {resolvable} resolvable keys of resolved_keys"
            yield len(entries) != resolvable, name, message
    message = f"{len(by_key)} entries for {len(flags)} key_hit_flags"
    yield by_key and len(by_key) != len(flags), "key_hit_sources", message
    for index, (flag, sources) in enumerate(zip(flags, by_key, strict=False)):
        message = f"{flag} contradicts key_hit_sources[{index}]"
        yield flag != bool(sources), ("key_hit_flags", index), message
    for index, sources in enumerate(by_key):
        yield len(set(sources)) < len(sources), ("key_hit_sources", index), "a source stands twice"
    named = Counter[str](source for sources in by_key for source in sources)
    keys = max(len(flags), resolvable)
    for name in row.m1_source_hits:
        hits, steps = row.m1_source_hits[name], ("m1_source_hits", name)
        yield not by_key and hits > keys, steps, f"{hits}, but there are {keys} resolvable keys"
        yield by_key and hits != named[name], steps, f"{hits}, but key_hit_sources amounts to {named[name]}"


def _hits(row: TurnEvalRow) -> Iterator[Row]:
    """Compare risk tags, rubric items and the judge's score with what is possible."""
    hits, required = row.risk_tag_hits, len(set(row.risk_required_tags))
    met = len(met_risk_tags(row.risk_required_tags, row.risk_pred_tags))
    differs = row.eligible_m3 and hits != met
    yield differs, "risk_tag_hits", f"{hits}, but {met} required tags are predicted"
    yield not differs and hits > required, "risk_tag_hits", f"{hits}, but {required} tags are required"
    for index, item in enumerate(row.rubric_hit_items):
        if item not in row.rubric_required:
            yield True, ("rubric_hit_items", index), f"{shown(item)} is not among rubric_required"
    score = row.judge_score_1_5
    off_scale = score is not None and not LOWEST_SCORE <= score <= HIGHEST_SCORE
    yield off_scale, "judge_score_1_5", f"{score} is not between 1 and 5"


class JudgementRules(RunRules):
    """Judgements: a verdict or an error, once for each vote on what ``fields`` name."""

    def __init__(self, fields: tuple[str, ...], subject: str) -> None:
        super().__init__(self._rows)
        self._fields = fields
        self._subject = subject

    def _rows(self, record: Any) -> Iterator[Row]:
        field = self._fields[0]
        for name in (field, "vote"):
            yield record[name] < 1, name, f"{record[name]} is less than 1"
        both = "both are set" if record.verdict else "neither is"
        message = f"a judgement has a verdict or an error; {both}"
        yield (record.verdict is None) == (record.error is None), "verdict", message
        key = " ".join(str(record[name]) for name in ("vote", *self._fields))
        yield not self.is_new(key), field, f"this vote on the {self._subject} stands on an earlier line too"


# ---- documents of a run


class ManifestRules(RunRules):
    """``run_manifest.json``: a legal name, workers, times in order, the counters of a run that ended."""

    def __init__(self) -> None:
        super().__init__(_manifest)

    def violations(self, line: Line, value: Any, of_text: list[Violation], kind: Any) -> Iterator[Violation]:
        """Yield the violations of the document; a counter that is missing is 0 in the record."""
        yield from super().violations(line, value, of_text, kind)
        if self.record is not None and self.record.ended_at is not None:
            for name, default in dict(Counters()).items():
                if default is not msgspec.UNSET and name not in value["counters"]:
                    yield Violation(("counters", name), "missing, though the run has ended")


def _manifest(record: RunManifest) -> Iterator[Row]:
    message = f"{shown(record.run_id)} is no run id: 1 to 128 of the characters A-Z a-z 0-9 . _ -"
    yield not RUN_ID.match(record.run_id), "run_id", message
    for name in ("workers_dialog", "workers_judge"):
        yield record[name] < 1, name, f"{record[name]} is less than 1"
    started = _not_utc("started_at", record.started_at)
    yield started
    if record.ended_at is not None:
        ended = _not_utc("ended_at", record.ended_at)
        yield ended
        if not started[0] and not ended[0]:
            first, last = map(datetime.fromisoformat, (record.started_at, record.ended_at))
            yield last < first, "ended_at", f"{record.ended_at} is before started_at, {record.started_at}"
        yield from _counters(record)


def _progress(record: ProgressEvent) -> Iterator[Row]:
    yield _not_utc("ts", record.ts)


def _counters(record: RunManifest | EvalSummary) -> Iterator[Row]:
    total, valid = record.counters.total_dialogs, record.counters.valid_dialogs
    skipped, failed = record.counters.skipped_dialogs, record.counters.failed_dialogs
    message = f"{total} is not the sum of {valid} valid and {skipped} skipped dialogues"
    yield valid + skipped != total, ("counters", "total_dialogs"), message
    yield failed > valid, ("counters", "failed_dialogs"), "more dialogues failed than were valid"


def _metrics(record: EvalSummary) -> Iterator[Row]:
    for name, metric in record.metrics.items():
        message = f"{shown(metric.metric_name)} stands under {shown(name)}"
        yield metric.metric_name != name, ("metrics", name, "metric_name"), message
        yield from at(("metrics", name), _metric(metric))


def _metric(metric: MetricResult) -> Iterator[Row]:
    """Check that values are within their scales and that counts are possible."""
    for name in ("eligible_count", "skipped_count", "failed_count"):
        yield name not in metric.counts, ("counts", name), "missing"
    for name, count in metric.counts.items():
        yield _negative(("counts", name), count)
    groups: list[tuple[Steps, Mapping[str, float]]] = [(("micro",), metric.micro), (("macro",), metric.macro)]
    groups += [(("by_dialog", dialog_id), values) for dialog_id, values in metric.by_dialog.items()]
    for steps, values in groups:
        for name, value in values.items():
            # A judge's score is 0 where nothing was scored; every other value is a rate.
            if name.startswith("judge_score"):
                off_scale = value != 0 and not LOWEST_SCORE <= value <= HIGHEST_SCORE
                yield off_scale, (*steps, name), f"{value} is neither 0 nor between 1 and 5"
            elif not (metric.lower_is_better is not msgspec.UNSET and name.endswith("mean")):
                yield not 0 <= value <= 1, (*steps, name), f"{value} is not between 0 and 1"
    for name, (low, high) in metric.ci95.items():
        yield low > high, ("ci95", name), f"the lower bound {low} is above the upper bound {high}"


def _stats(record: RunStats) -> Iterator[Row]:
    yield _negative("wall_seconds", record.wall_seconds)
    for group in ("turns_by_status", "dialogs_by_status", "skips_by_reason"):
        for name, count in record[group].items():
            yield _negative((group, name), count)


# ---- labelled replies


class LabelRules(RunRules):
    """Labelled replies: each stands once, and no label contradicts another.

    ``count`` is that of the replies; ``categories`` are the known forbidden categories that some label names.
    """

    def __init__(self) -> None:
        super().__init__(self._rows)
        self.count = 0
        self.categories: Final[set[str]] = set()

    def _rows(self, record: LabelledReply) -> Iterator[Row]:
        self.count += 1
        self.categories.update(name for name in record.forbidden_hits or () if name in CATEGORIES)
        yield not record.id.strip(), "id", "the id is blank"
        yield record.dialog_id is not None and not record.dialog_id.strip(), "dialog_id", "the id is blank"
        yield self.twice("id", f"{record.id} of {record.reader}" if record.reader else record.id)
        drawn = 1.0 if record.probability is None else record.probability
        yield not 0 <= drawn <= 1, "probability", f"{drawn:g} is not from 0 to 1"
        by_tag: dict[str, tuple[str, bool]] = {}
        for name, label in (record.risk_tags or {}).items():
            tag = canonical_risk_tag(name)
            if tag is not None and label is not None:
                first, other = by_tag.setdefault(tag, (name, label))
                message = f"says the contrary of {shown(first)}, the same tag"
                yield label != other, ("risk_tags", name), message
        for number, mark in enumerate(record.marks or ()):
            outside = not mark.start <= mark.end <= len(record.text)
            yield outside, ("marks", number), "its characters are not in the text"


# ---- soaks


def _soak(record: SoakEpoch | SoakSummary) -> Iterator[Row]:
    failed, timeouts, turns = record.errors.failed_turns, record.errors.timeouts, record.turns
    yield failed > turns, ("errors", "failed_turns"), f"{failed} of {turns} turns"
    yield timeouts > failed, ("errors", "timeouts"), f"{timeouts} of {failed} turns that failed"
    for name in ("turn_latency_ms", "loop_lag_ms"):
        order = [record[name][each] for each in ("min", "p50", "p90", "p99", "max")]
        unordered = any(after < before for before, after in pairwise(order))
        yield unordered, name, "min, p50, p90, p99 and max are not in this order"


class SoakEpochRules(RunRules):
    """``soak.jsonl``: epochs stand in their order; sums what the other artifacts must agree with."""

    def __init__(self) -> None:
        super().__init__(_soak, self._rows)
        self.epochs = self.turns = self.dialogs = 0

    def _rows(self, record: SoakEpoch) -> Iterator[Row]:
        self.epochs += 1
        self.turns += record.turns
        self.dialogs += record.dialogs
        yield record.epoch != self.epochs, "epoch", f"{record.epoch} stands where {self.epochs} belongs"
        yield _negative("wall_seconds", record.wall_seconds, "negative")
        for name in ("turn_latency_ms", "loop_lag_ms"):
            weight, count = sum(weight for _, weight in record[name].centroids), record[name].count
            message = f"weigh {weight:g}, where {count} belongs"
            yield round(weight) != count, (name, "centroids"), message


def _soak_summary(record: SoakSummary) -> Iterator[Row]:
    yield _negative("elapsed_seconds", record.elapsed_seconds, "negative")
    pruned, epochs = record.pruned_epochs, record.epochs
    yield pruned > epochs, "pruned_epochs", f"{pruned} of {epochs} epochs"
    for group in ("metrics", "operation"):
        for name, drift in record[group].items():
            low, mean, high = drift.min, drift.mean, drift.max
            yield not low <= mean <= high, (group, name, "mean"), f"{mean} is outside {low} to {high}"
            outside = drift.ci95 is not None and not drift.ci95[0] <= drift.slope <= drift.ci95[1]
            yield outside, (group, name, "ci95"), f"leaves out the slope {drift.slope}"


# ---- datasets


class _Held(NamedTuple):
    """A session of a client: its place in the order, its line, its ``session_index`` and ``session_time``."""

    place: int
    line: int
    given: int | None
    time: str | None


class DatasetRules(RunRules):
    """A dataset: every defect of a dialogue; a valid dialogue stands once, and sessions are in order."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[bytes, list[_Held]] = {}

    def violations(self, line: Line, value: Any, of_text: list[Violation], kind: Any) -> Iterator[Violation]:
        """Yield the violations of one line."""
        del kind
        entry = read_entry(line)
        if entry.skip_reason == "invalid_json":
            yield from (_skipped(item.steps, item.message, "invalid_json") for item in of_text)
            return
        yield from of_text
        found = list(dialogue_violations(value))
        yield from found
        suffix = f"(skip_reason {entry.skip_reason})"
        if entry.skip_reason and not any(suffix in item.message for item in found):
            yield _skipped((), str(entry.detail), entry.skip_reason)
        if entry.dialog is not None and not self.is_new(entry.dialog_id):
            message = f"{shown(entry.dialog_id)} stands on an earlier line too"
            yield _skipped(("dialog_id",), message, "duplicate_dialog_id")
        elif entry.dialog is not None:
            yield from self._session(line.number, entry.dialog)

    def _session(self, line: int, dialog: Dialog) -> Iterator[Violation]:
        """Yield contradictions to the order of the client's sessions on earlier lines."""
        pairs = len(align_turn_pairs(dialog)) if dialog.probes else 0
        for place, probe in enumerate(dialog.probes if dialog.turns else ()):
            if probe.after > pairs:
                message = f"{probe.after} is past the last turn pair, {pairs}; the probe fails"
                yield Violation(("probes", place, "after"), message)
        index, user = dialog.session_index, dialog.user_id
        if user is None:
            if index is not None:
                yield Violation(("session_index",), "without user_id, so that the dialogue is no session")
            return
        held = self._sessions.setdefault(digest(user), [])
        if index is not None and (same := [each.line for each in held if each.given == index]):
            message = f"{index} stands on line {same[0]} too; a run keeps to the order of the lines"
            yield Violation(("session_index",), message)
        last = max(held, key=lambda each: each.line, default=None)
        place = index if index is not None else last.place if last is not None else 0
        this = _Held(place, line, index, dialog.session_time)
        held.append(this)
        dated = sorted(each for each in held if each.time is not None)
        for first, second in pairwise(dated):
            if this in (first, second) and _is_later(str(first.time), str(second.time)):
                message = f"{second.time} comes after {first.time} (lines {second.line} and {first.line})"
                yield Violation(("session_time",), f"goes back in the order of the sessions: {message}")


def _is_later(one: str, other: str) -> bool:
    """Return True if a time is later than another, by day unless both are times of one kind."""
    first, second = datetime.fromisoformat(one), datetime.fromisoformat(other)
    if _DAY in (len(one), len(other)) or (first.tzinfo is None) != (second.tzinfo is None):
        return first.date() > second.date()
    return first > second


_DAY: Final = len("2026-03-31")

_UNSCORED: Final = "(its turn pair is not scored)"


def dialogue_violations(value: object) -> Iterator[Violation]:
    """Yield every violation of one line of a dataset, given as plain data."""
    if not isinstance(value, dict):
        yield _skipped((), f"expected an object, got {described(value)}", "not_an_object")
        return
    identity = value.get("dialog_id")
    if not isinstance(identity, str) or not identity.strip():
        state = "missing" if identity is None else f"{described(identity)} is no id"
        yield Violation(("dialog_id",), f"{state} (a run names the dialogue after its line)")
    if value.get("turns") or value.get("client") is None:
        yield from _turns(value.get("turns"))
    yield from _profile(value.get("profile_gt"))
    difficulty = value.get("difficulty")
    if difficulty is not None and difficulty not in DIFFICULTIES:
        yield _outside(("difficulty",), difficulty, DIFFICULTIES)
    rest = ("scenario_type", "language", "events", "seed_source", "seed_data", "blueprint")
    given = {name: value[name] for name in rest if value.get(name) is not None}
    if isinstance(blueprint := given.get("blueprint"), dict):
        given["blueprint"] = _given(blueprint)
    yield from (item for item in structure_violations(given, Dialog) if item.steps[0] in given)


def _turns(turns: object) -> Iterator[Violation]:
    if not isinstance(turns, list) or not turns:
        state = "the list is empty" if turns == [] else _absent_or("a list of turns", turns)
        yield _skipped(("turns",), state, "missing_turns")
        return
    for index, turn in enumerate(turns):
        steps: Steps = ("turns", index)
        if isinstance(turn, dict):
            yield from _turn(turn, steps)
        else:
            yield _skipped(steps, f"expected an object, got {described(turn)}", "invalid_turn_sequence")
    roles = [turn.get("role") if isinstance(turn, dict) else None for turn in turns]
    tags = {
        index: list(_struct(turns[index].get("turn_tags"), TurnTags, ("turns", index, "turn_tags")))
        for index in range(1, len(turns))
        if (roles[index - 1], roles[index]) == ("user", "assistant")
    }
    nothing_left = all(tags.values())
    for index, role in enumerate(roles):
        if role == "user" and (index + 1 == len(roles) or roles[index + 1] == "user"):
            yield Violation(("turns", index), f"the user turn has no assistant turn {_UNSCORED}")
        elif (
            role == "assistant" and (index == 0 or roles[index - 1] == role) and turns[index].get("turn_tags")
        ):
            yield Violation(("turns", index), f"the assistant turn has no user turn {_UNSCORED}")
        for item in tags.get(index, ()):
            absent = turns[index].get("turn_tags") is None
            reason: SkipReason = "missing_gt_tags" if absent else "invalid_gt_tags"
            lost = Violation(item.steps, f"{item.message} {_UNSCORED}")
            yield _skipped(*item, reason) if nothing_left else lost
    if not tags:
        last: Steps = ("turns", len(turns) - 1)
        yield _skipped(last, "no user turn is followed by an assistant turn", "invalid_turn_sequence")


def _turn(turn: dict[str, Any], steps: Steps) -> Iterator[Violation]:
    role = turn.get("role")
    if role not in ("user", "assistant"):
        state = _absent_or("'user' or 'assistant'", role)
        yield _skipped((*steps, "role"), state, "invalid_turn_sequence")
    field = "text" if "text" in turn or "content" not in turn else "content"
    words = turn.get(field)
    if not isinstance(words, str):
        yield _skipped((*steps, field), _absent_or("a string", words), "invalid_turn_sequence")
    elif role == "user" and not words.strip():
        yield _skipped((*steps, field), "the user turn is blank", "invalid_turn_sequence")


def _struct(value: object, kind: Any, steps: Steps) -> Iterator[Violation]:
    if isinstance(value, dict):
        yield from structure_violations(upgrade(_given(value), kind), kind, steps)
    else:
        yield Violation(steps, _absent_or("an object", value))


def _profile(profile: object) -> Iterator[Violation]:
    for item in _struct(profile, ProfileTruth, ("profile_gt",)):
        yield _skipped(item.steps, item.message, "missing_profile_gt")
    if not isinstance(profile, dict):
        return
    levels = {"risk_level_gt": RISK_LEVELS, "horizon_gt": HORIZONS, "liquidity_need_gt": LIQUIDITY_NEEDS}
    for name, allowed in levels.items():
        level = profile.get(name)
        if level is None:
            yield Violation(("profile_gt", name), "missing (the dialogue leaves the denominator of M2)")
        elif isinstance(level, str) and level not in allowed:
            yield _outside(("profile_gt", name), level, allowed)


def _given(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if item is not None}


def _absent_or(expected: str, value: object) -> str:
    return "missing" if value is None else f"expected {expected}, got {described(value)}"


def _outside(steps: Steps, value: object, allowed: tuple[str, ...]) -> Violation:
    return Violation(steps, f"{described(value)} is none of {', '.join(map(repr, allowed))}")


def _skipped(steps: Steps, message: str, reason: SkipReason) -> Violation:
    return Violation(steps, f"{message} (skip_reason {reason})")


RUN_RULES: Final[Mapping[str, Callable[[], RunRules]]] = MappingProxyType(
    {
        "run-manifest": ManifestRules,
        "dialog-trace": DialogTraceRules,
        "turn-eval": TurnEvalRules,
        "metrics-summary": partial(RunRules, _counters, _metrics),
        "progress": partial(RunRules, _progress),
        "config": RunRules,
        "run-stats": partial(RunRules, _stats),
        "judgement": partial(JudgementRules, ("turn_pair_id", "dialog_id"), "turn"),
        "judge-controls": RunRules,
        "corrections": RunRules,
        "soak-epoch": SoakEpochRules,
        "soak-summary": partial(RunRules, _soak, _soak_summary),
        "labelled-reply": LabelRules,
        "dataset": DatasetRules,
    }
)
"""The rules of each contract, by its name; `memfin.validation.rag` has those of benchmarks."""
