"""Persona drift: detectors, thresholds and the records of the log (memory design §4, §9).

Detectors are functions of the whole history on file; nothing here writes or is given a profile.
"""

import json
import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from memfin.contracts.base import Count, Record
from memfin.contracts.memory import (
    DriftRecord,
    DriftSignal,
    Feedback,
    Identifier,
    Moment,
    ObjectRef,
    SignalKind,
    ThreadHeader,
    ThreadRefresh,
)
from memfin.contracts.reading import read_toml
from memfin.errors import UsageError
from memfin.memory.feedback import Word, polarity, read

Positive = Annotated[float, msgspec.Meta(gt=0, le=36_500)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class GradeReversal(Record, forbid_unknown_fields=True):
    """The time in which the opposite of a rating counts as a reversal."""

    within_days: Positive


class FeedbackConflict(Record, forbid_unknown_fields=True):
    """The number of comments that contradict earlier ones from which on they count."""

    least_contrary: AtLeastOne


class StanceFlip(Record, forbid_unknown_fields=True):
    """Changes that a refresh needs, and the likeness that the theses must stay below."""

    more_inferences_than: Count
    jaccard_below: Share
    compared_with_days: Positive


class Reopened(Record, forbid_unknown_fields=True):
    """The time in which a resolved question may be reopened, and the delay of looking at it."""

    within_days: Positive
    scan_delay_hours: Positive


class Downstream(Record, forbid_unknown_fields=True):
    """The limits of warnings to operators, and the kinds of signal that raise an alert."""

    burst_hours: Positive
    burst_signals: AtLeastOne
    conflicts_in_all: AtLeastOne
    alerting: list[SignalKind]


class Keywords(Record, forbid_unknown_fields=True):
    """Words that do not count for the likeness of theses."""

    ignored: list[str]


class Thresholds(Record, forbid_unknown_fields=True):
    """The thresholds of the detectors, as their file holds them (memory design §9.1)."""

    grade_reversal: GradeReversal
    feedback_conflict: FeedbackConflict
    refresh_stance_flip: StanceFlip
    watch_question_resolved_then_reopened: Reopened
    downstream: Downstream
    keywords: Keywords


def load_thresholds(path: Path | None = None) -> Thresholds:
    """Read thresholds: those that ship with MemFin, or a file of the same form."""
    shipped = files("memfin").joinpath("data", "memory", "drift_thresholds.toml")
    try:
        content = tomllib.loads(shipped.read_text("utf-8")) if path is None else read_toml(path)
        return msgspec.convert(content, Thresholds)
    except (UsageError, msgspec.ValidationError) as problem:
        raise UsageError(f"drift thresholds {path}: {problem}") from problem


@cache
def shipped_thresholds() -> Thresholds:
    """Return the thresholds that ship with MemFin, read once per process."""
    return load_thresholds()


_HAN: Final = r"㐀-䶿一-鿿豈-﫿"
_TOKEN: Final = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+")


def keywords(text: str, ignored: Collection[str] = ()) -> frozenset[str]:
    """Return the words of a text, for Chinese pairs of neighbouring characters, folding width and case."""
    found: set[str] = set()
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not token.isascii() and re.match(f"[{_HAN}]", token) and len(token) > 1:
            found.update(token[at : at + 2] for at in range(len(token) - 1))
        elif token not in ignored:
            found.add(token)
    return frozenset(found)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how many of two sets' members are in both, as a share of all; 1 where there are none at all."""
    everything = one | other
    return len(one & other) / len(everything) if everything else 1.0


_NAMES: Final = ("type", "kind", "id", "name", "symbol", "asset", "theme", "event")
_TITLES: Final = ("asset", "theme", "event", "symbol", "name", "id")
_MAX_LENGTH: Final = 200  # characters of a thesis that a signal quotes


class _Side(NamedTuple):
    """One side of a contradiction: the record, the value in it, and the words of the summary."""

    source: Feedback | ThreadRefresh
    value: str
    words: str


def grade_reversals(history: Iterable[Feedback], thresholds: Thresholds) -> Iterator[DriftRecord]:
    """Yield ratings that are the opposite of the last one on the same object, soon enough after it."""
    last: dict[str, Feedback] = {}
    for each in _in_order(history):
        sign = polarity(each.rating)
        if sign is None:
            continue
        before = last.get(each.related_object_ref)
        last[each.related_object_ref] = each
        if before is None or polarity(before.rating) == sign:
            continue
        if each.created_at - before.created_at <= timedelta(days=thresholds.grade_reversal.within_days):
            prior = _Side(before, before.rating, f"graded {_title(each)} {before.rating}")
            current = _Side(each, each.rating, f"graded it {each.rating}")
            yield _signal("grade_reversal", each, prior, current)


def feedback_conflicts(history: Iterable[Feedback], thresholds: Thresholds) -> Iterator[DriftRecord]:
    """Yield comments that contradict earlier ones on the same cognition object, once there are enough.

    A word contradicts the other side of its topic; a retraction contradicts the comment before it.
    """
    comments: dict[str, _Comments] = {}
    for each in _in_order(history):
        before = comments.setdefault(_key(each.cognition_object), _Comments())
        contrary = before.contradicted_by(each)
        if contrary and before.contrary >= thresholds.feedback_conflict.least_contrary:
            earlier, said, word = contrary[0]
            prior = _Side(earlier, said, f"said {said!r} of {_title(each)}")
            yield _signal("feedback_conflict", each, prior, _Side(each, word, f"said {word!r}"))


class _Comments:
    """The comments on one cognition object so far."""

    def __init__(self) -> None:
        self.contrary = 0
        self._words: dict[tuple[str, int], tuple[Feedback, str]] = {}
        self._last: tuple[Feedback, str] | None = None

    def contradicted_by(self, feedback: Feedback) -> list[tuple[Feedback, str, str]]:
        """Note feedback; return its contradictions: earlier feedback, its word, the word now."""
        reading = read(feedback.comment)
        contrary = [
            (*self._words[opposite], word.word)
            for word in reading.words
            if (opposite := (word.topic, -word.sign)) in self._words
        ]
        if reading.retraction is not None and self._last is not None:
            contrary.append((*self._last, reading.retraction))
        self.contrary += len(contrary)
        self._note(feedback, reading.words)
        return contrary

    def _note(self, feedback: Feedback, words: Sequence[Word]) -> None:
        for word in words:
            self._words[word.topic, word.sign] = feedback, word.word
        self._last = feedback, words[0].word if words else feedback.rating


def stance_flips(
    thread: ThreadHeader, refreshes: Iterable[ThreadRefresh], thresholds: Thresholds
) -> Iterator[DriftRecord]:
    """Yield refreshes that change many inferences and leave a thesis that shares no keywords with the old.

    The old thesis is the one that was current 14 days before, or the first of a younger thread.
    """
    limits = thresholds.refresh_stance_flip
    ignored = frozenset(thresholds.keywords.ignored)
    earlier: list[tuple[ThreadRefresh, str]] = []
    for each in sorted(refreshes, key=lambda refresh: (refresh.created_at, refresh.refresh_id)):
        thesis = each.main_thesis
        if thesis is None:
            continue
        if earlier and len(each.change_summary.changed_inferences) > limits.more_inferences_than:
            then = each.created_at - timedelta(days=limits.compared_with_days)
            before, old = next((pair for pair in reversed(earlier) if pair[0].created_at <= then), earlier[0])
            if jaccard(keywords(old, ignored), keywords(thesis, ignored)) < limits.jaccard_below:
                prior = _Side(before, _cut(old), f"the thesis was {_cut(old)!r}")
                current = _Side(each, _cut(thesis), f"it is {_cut(thesis)!r}")
                yield _signal("refresh_stance_flip", thread, prior, current)
        earlier.append((each, thesis))


def reopened_questions(
    thread: ThreadHeader, refreshes: Iterable[ThreadRefresh], now: datetime, thresholds: Thresholds
) -> tuple[list[DriftRecord], datetime | None]:
    """Return the watch questions that were resolved and soon reopened, and when to look again, if ever.

    A resolution is looked at an hour after it; a question by then resolved again was reopened by mistake.
    """
    limits = thresholds.watch_question_resolved_then_reopened
    delay = timedelta(hours=limits.scan_delay_hours)
    signals: list[DriftRecord] = []
    waiting: list[datetime] = []
    for question_id, updates in _by_question(refreshes).items():
        for at, (resolved, status) in enumerate(updates):
            follower = next((each for each in updates[at + 1 :] if each[1] != "open"), None)
            if status != "resolved" or follower is None or follower[1] != "reopened":
                continue
            reopened, looked_at = follower[0], resolved.created_at + delay
            if reopened.created_at - resolved.created_at > timedelta(days=limits.within_days):
                continue
            if now < looked_at:
                waiting.append(looked_at)
                continue
            soon = [state for refresh, state in updates[at + 1 :] if refresh.created_at < looked_at]
            if soon and soon[-1] == "resolved":
                continue
            prior = _Side(resolved, f"{question_id}: resolved", f"question {question_id} was resolved")
            current = _Side(reopened, f"{question_id}: reopened", "it was reopened")
            signals.append(_signal("watch_question_resolved_then_reopened", thread, prior, current))
    return signals, min(waiting, default=None)


def _by_question(refreshes: Iterable[ThreadRefresh]) -> Mapping[str, list[tuple[ThreadRefresh, str]]]:
    found: dict[str, list[tuple[ThreadRefresh, str]]] = {}
    for each in sorted(refreshes, key=lambda refresh: (refresh.created_at, refresh.refresh_id)):
        for update in each.watch_question_updates:
            found.setdefault(update.question_id, []).append((each, update.status))
    return dict(sorted(found.items()))


def simplified(cognition_object: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names a cognition object: asset, theme or event; all of it when nothing does."""
    named = {name: cognition_object[name] for name in _NAMES if name in cognition_object}
    return named or dict(cognition_object)


def _key(cognition_object: Mapping[str, Any]) -> str:
    return json.dumps(simplified(cognition_object), sort_keys=True, ensure_ascii=False)


def _title(feedback: Feedback) -> str:
    named = (feedback.cognition_object.get(name) for name in _TITLES)
    return next((_cut(each) for each in named if isinstance(each, str) and each), feedback.related_object_ref)


def _signal(kind: SignalKind, about: Feedback | ThreadHeader, prior: _Side, current: _Side) -> DriftRecord:
    """Return the record of two sides, without an id, about the object of feedback or of a thread."""
    return DriftRecord(
        drift_id="",
        object_ref=about.related_object_ref if isinstance(about, Feedback) else f"thread:{about.thread_id}",
        cognition_object=simplified(about.cognition_object),
        signal_kind=kind,
        prior_signal=_drift_signal(prior),
        current_signal=_drift_signal(current),
        delta_summary="; ".join(
            f"{side.source.created_at.date()}: {side.words}" for side in (prior, current)
        ),
        triggers_alert=False,
    )


def _drift_signal(side: _Side) -> DriftSignal:
    source = side.source
    if isinstance(source, Feedback):
        reference = f"feedback:{source.feedback_id}"
    else:
        reference = f"refresh:{source.refresh_id}"
    return DriftSignal(value=side.value, captured_at=source.created_at, captured_in_object_ref=reference)


def _in_order(history: Iterable[Feedback]) -> list[Feedback]:
    return sorted(history, key=lambda each: (each.created_at, each.feedback_id))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


_STAMP: Final = "drift_%Y%m%dT%H%M%SZ"


class DriftIndexLine(Record):
    """A line of the index: what there is in the log, without what was said."""

    drift_id: Identifier
    signal_kind: SignalKind
    object_ref: ObjectRef
    triggers_alert: bool
    recorded_at: Moment


def index_line(record: DriftRecord) -> DriftIndexLine:
    """Return the index's line for a record; when it was recorded stands in its id, if MemFin made that."""
    try:
        moment = datetime.strptime(record.drift_id[:-7], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        moment = record.current_signal.captured_at
    return DriftIndexLine(
        drift_id=record.drift_id,
        signal_kind=record.signal_kind,
        object_ref=record.object_ref,
        triggers_alert=record.triggers_alert,
        recorded_at=moment,
    )


def unrecorded(signals: Iterable[DriftRecord], log: Iterable[DriftRecord]) -> Iterator[DriftRecord]:
    """Yield the signals that the log does not hold: the same two things said in the same two places."""
    held = {_identity(each) for each in log}
    for signal in signals:
        if (identity := _identity(signal)) not in held:
            held.add(identity)
            yield signal


def _identity(record: DriftRecord) -> tuple[str, ...]:
    prior, current = record.prior_signal, record.current_signal
    places = prior.captured_in_object_ref, current.captured_in_object_ref
    return (record.signal_kind, *places, prior.value, current.value)


def warnings_of(
    log: Sequence[DriftIndexLine], new: Sequence[DriftIndexLine], now: datetime, thresholds: Thresholds
) -> list[str]:
    """Return the warnings to operators that new lines of a person's log raise: counts, without names."""
    if not new:
        return []
    limits = thresholds.downstream
    lines = [*log, *new]
    found: list[str] = []
    recent = sum(now - line.recorded_at <= timedelta(hours=limits.burst_hours) for line in lines)
    if recent >= limits.burst_signals:
        found.append(f"{recent} signals within the time of a burst")
    conflicts = _count(lines, "feedback_conflict")
    if conflicts >= limits.conflicts_in_all and _count(new, "feedback_conflict"):
        found.append(f"{conflicts} feedback conflicts in all")
    if flips := _count(new, "refresh_stance_flip"):
        found.append(f"{flips} stance flips found at once")
    return found


def _count(lines: Sequence[DriftIndexLine], kind: str) -> int:
    return sum(line.signal_kind == kind for line in lines)
