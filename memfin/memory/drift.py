"""Persona drift: detectors, thresholds, feedback, and the drift log (memory design §5.5, §9).

Detectors are functions of the whole history on file and are given no profile. No model reads the words of
feedback: ``memfin/data/memory/feedback_keywords.toml`` gives them their meaning. The log is kept under
``save_to_profile``, the scope that it is read under; interrupted signals are recorded at the next occasion.
"""

import json
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from memfin.contracts.base import Count, Record
from memfin.contracts.memory import (
    DriftRecord,
    DriftSignal,
    Feedback,
    Identifier,
    Moment,
    ObjectRef,
    ProfileConsent,
    SignalKind,
    ThreadHeader,
    ThreadRefresh,
)
from memfin.contracts.reading import read_toml
from memfin.errors import RunFault, UsageError
from memfin.memory import consent as rules
from memfin.memory.contexts import ThreadFiles, later
from memfin.memory.deletions import DeletedDrift, signal_of
from memfin.memory.errors import AccountDeleted, MemoryRefusal
from memfin.memory.paths import is_id, new_id
from memfin.memory.records import Append, Checked, Put, by_age, given_object, load_lines, load_sound
from memfin.memory.tables import load_table
from memfin.memory.workspace import Workspace, allows

Sign = Literal[-1, 1]
RecordT = TypeVar("RecordT", Feedback, ThreadRefresh)


class Word(NamedTuple):
    """A word of a comment, its topic, and its side of that."""

    topic: str
    sign: Sign
    word: str


class Reading(NamedTuple):
    """Content of a comment: at most one word per topic, and the words that retract an earlier view."""

    words: tuple[Word, ...]
    retraction: str | None


class _Sides(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    positive: list[str]
    negative: list[str]


class Dictionary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words of comments and ratings, as their data file holds them."""

    ratings: _Sides
    topics: dict[str, _Sides]
    other: dict[Literal["words"], list[str]]
    retractions: dict[Literal["words"], list[str]]


@cache
def load_dictionary() -> Dictionary:
    """Read the dictionary, once per process."""
    return load_table("feedback_keywords.toml", Dictionary)


def polarity(rating: str) -> Sign | None:
    """Return 1 for a positive rating, -1 for a negative one, else None."""
    ratings = load_dictionary().ratings
    if rating in ratings.positive:
        return 1
    return -1 if rating in ratings.negative else None


def read(comment: str | None) -> Reading:
    """Read a comment by the dictionary; topics with words of both sides are left out."""
    if not comment:
        return Reading((), None)
    retraction = None
    sides: dict[str, dict[Sign, str]] = {}
    for match in _pattern().finditer(" ".join(comment.lower().split())):
        word = match[0]
        meaning = _meanings()[word]
        if meaning is None:
            retraction = retraction or (word if word in load_dictionary().retractions["words"] else None)
        else:
            topic, sign = meaning
            sides.setdefault(topic, {}).setdefault(sign, word)
    words = [
        Word(topic, *next(iter(found.items()))) for topic, found in sorted(sides.items()) if len(found) == 1
    ]
    return Reading(tuple(words), retraction)


@cache
def _meanings() -> Mapping[str, tuple[str, Sign] | None]:
    """Return each word's topic and side; None for words without."""
    dictionary = load_dictionary()
    meanings: dict[str, tuple[str, Sign] | None] = {}
    for topic, sides in dictionary.topics.items():
        meanings.update(dict.fromkeys(sides.positive, (topic, 1)))
        meanings.update(dict.fromkeys(sides.negative, (topic, -1)))
    return meanings | dict.fromkeys([*dictionary.other["words"], *dictionary.retractions["words"]])


_LETTER: Final = "[a-z_']"


@cache
def _pattern() -> re.Pattern[str]:
    words = sorted(_meanings(), key=lambda word: (-len(word), word))
    return re.compile(
        "|".join(
            rf"(?<!{_LETTER}){re.escape(word)}(?!{_LETTER})" if word.isascii() else re.escape(word)
            for word in words
        )
    )


_LOG: Final = logging.getLogger("memfin.memory")
_DUE: Final = "_due"  # the empty file in a user's drift log that says that a scan is to come
_NAMES: Final = ("type", "kind", "id", "name", "symbol", "asset", "theme", "event")
_TITLES: Final = ("asset", "theme", "event", "symbol", "name", "id")
_MAX_LENGTH: Final = 200  # characters of a thesis that a signal quotes
_HAN: Final = r"㐀-䶿一-鿿豈-﫿"
_TOKEN: Final = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+")
Positive = Annotated[float, msgspec.Meta(gt=0, le=36_500)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class _GradeReversal(Record, forbid_unknown_fields=True):
    within_days: Positive


class _FeedbackConflict(Record, forbid_unknown_fields=True):
    least_contrary: AtLeastOne


class _StanceFlip(Record, forbid_unknown_fields=True):
    more_inferences_than: Count
    jaccard_below: Share
    compared_with_days: Positive


class _Reopened(Record, forbid_unknown_fields=True):
    within_days: Positive
    scan_delay_hours: Positive


class _Downstream(Record, forbid_unknown_fields=True):
    burst_hours: Positive
    burst_signals: AtLeastOne
    conflicts_in_all: AtLeastOne
    alerting: list[SignalKind]


class _Keywords(Record, forbid_unknown_fields=True):
    ignored: list[str]


class Thresholds(Record, forbid_unknown_fields=True):
    """The thresholds of the detectors, as their file holds and explains them (memory design §9.1)."""

    grade_reversal: _GradeReversal
    feedback_conflict: _FeedbackConflict
    refresh_stance_flip: _StanceFlip
    watch_question_resolved_then_reopened: _Reopened
    downstream: _Downstream
    keywords: _Keywords


def load_thresholds(path: Path) -> Thresholds:
    """Read thresholds from a file of the form of ``memfin/data/memory/drift_thresholds.toml``."""
    try:
        return msgspec.convert(read_toml(path), Thresholds)
    except (UsageError, msgspec.ValidationError) as problem:
        raise UsageError(f"drift thresholds {path}: {problem}") from problem


@cache
def shipped_thresholds() -> Thresholds:
    """Return the thresholds that ship with MemFin, read once per process."""
    return load_table("drift_thresholds.toml", Thresholds)


def keywords(text: str, ignored: Collection[str] = ()) -> frozenset[str]:
    """Return the words of a text in one width and case; for Chinese, pairs of neighbouring characters."""
    found: set[str] = set()
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not token.isascii() and re.match(f"[{_HAN}]", token) and len(token) > 1:
            found.update(token[at : at + 2] for at in range(len(token) - 1))
        elif token not in ignored:
            found.add(token)
    return frozenset(found)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets; 1 if both are empty."""
    everything = one | other
    return len(one & other) / len(everything) if everything else 1.0


class _Side(NamedTuple):
    """One side of a contradiction: the record, the value in it, and the words of the summary."""

    source: Feedback | ThreadRefresh
    value: str
    words: str

    @property
    def signal(self) -> DriftSignal:
        source = self.source
        reference = (
            f"feedback:{source.feedback_id}"
            if isinstance(source, Feedback)
            else f"refresh:{source.refresh_id}"
        )
        return DriftSignal(value=self.value, captured_at=source.created_at, captured_in_object_ref=reference)


def grade_reversals(history: Iterable[Feedback], thresholds: Thresholds) -> Iterator[DriftRecord]:
    """Yield ratings that reverse the last one of the same object within the time limit."""
    last: dict[str, Feedback] = {}
    for each in by_age(history):
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
    """Yield comments that contradict earlier ones on the same cognition object, from a minimum number on.

    A word contradicts the other side of its topic; a retraction contradicts the comment before it.
    """
    contrary = Counter[str]()
    words: dict[tuple[str, str, int], tuple[Feedback, str]] = {}
    last: dict[str, tuple[Feedback, str]] = {}
    for each in by_age(history):
        about = json.dumps(simplified(each.cognition_object), sort_keys=True, ensure_ascii=False)
        reading = read(each.comment)
        opposites = ((words.get((about, word.topic, -word.sign)), word.word) for word in reading.words)
        found = [(*earlier, word) for earlier, word in opposites if earlier is not None]
        if reading.retraction is not None and about in last:
            found.append((*last[about], reading.retraction))
        contrary[about] += len(found)
        if found and contrary[about] >= thresholds.feedback_conflict.least_contrary:
            before, said, word = found[0]
            prior = _Side(before, said, f"said {said!r} of {_title(each)}")
            yield _signal("feedback_conflict", each, prior, _Side(each, word, f"said {word!r}"))
        words |= {(about, word.topic, word.sign): (each, word.word) for word in reading.words}
        last[about] = each, reading.words[0].word if reading.words else each.rating


def stance_flips(
    thread: ThreadHeader, refreshes: Iterable[ThreadRefresh], thresholds: Thresholds
) -> Iterator[DriftRecord]:
    """Yield refreshes that change many inferences and replace the thesis by one without shared keywords.

    The old thesis is the one that was current 14 days before, or the first of a younger thread.
    """
    limits = thresholds.refresh_stance_flip
    ignored = frozenset(thresholds.keywords.ignored)
    earlier: list[tuple[ThreadRefresh, str]] = []
    for each in by_age(refreshes):
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
    """Return watch questions that were resolved and soon reopened, and the time of the next check, if any.

    A resolution is checked after an hour; a question resolved again by then was reopened by mistake.
    """
    limits = thresholds.watch_question_resolved_then_reopened
    delay = timedelta(hours=limits.scan_delay_hours)
    signals: list[DriftRecord] = []
    waiting: list[datetime] = []
    by_question: dict[str, list[tuple[ThreadRefresh, str]]] = {}
    for refresh in by_age(refreshes):
        for update in refresh.watch_question_updates:
            by_question.setdefault(update.question_id, []).append((refresh, update.status))
    for question_id, updates in sorted(by_question.items()):
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


def simplified(cognition_object: Mapping[str, Any]) -> dict[str, Any]:
    """Return the asset, theme or event of a cognition object, or all of it without any of these."""
    named = {name: cognition_object[name] for name in _NAMES if name in cognition_object}
    return named or dict(cognition_object)


def _title(feedback: Feedback) -> str:
    named = (feedback.cognition_object.get(name) for name in _TITLES)
    return next((_cut(each) for each in named if isinstance(each, str) and each), feedback.related_object_ref)


def _signal(kind: SignalKind, about: Feedback | ThreadHeader, prior: _Side, current: _Side) -> DriftRecord:
    """Return the record of two sides, without an id, about the object of feedback or of a thread."""
    sides = (prior, current)
    return DriftRecord(
        drift_id="",
        object_ref=about.related_object_ref if isinstance(about, Feedback) else f"thread:{about.thread_id}",
        cognition_object=simplified(about.cognition_object),
        signal_kind=kind,
        prior_signal=prior.signal,
        current_signal=current.signal,
        delta_summary="; ".join(f"{side.source.created_at.date()}: {side.words}" for side in sides),
        triggers_alert=False,
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


class DriftIndexLine(Record):
    """A line of the index: one record of the log without its texts."""

    drift_id: Identifier
    signal_kind: SignalKind
    object_ref: ObjectRef
    triggers_alert: bool
    recorded_at: Moment


def index_line(record: DriftRecord) -> DriftIndexLine:
    """Return the index line of a record; ids made by MemFin contain the time of recording."""
    try:
        moment = datetime.strptime(record.drift_id[:-7], "drift_%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
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
    """Yield the signals that are not in the log; two with the same values in the same objects are one."""

    def identity(record: DriftRecord) -> tuple[SignalKind, DriftSignal, DriftSignal]:
        return record.signal_kind, record.prior_signal, record.current_signal

    held = {identity(each) for each in log}
    for signal in signals:
        if identity(signal) not in held:
            held.add(identity(signal))
            yield signal


def warnings_of(
    log: Sequence[DriftIndexLine], new: Sequence[DriftIndexLine], now: datetime, thresholds: Thresholds
) -> list[str]:
    """Return the warnings to operators about new lines of a user's log: counts, without names."""
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


class DriftLog:
    """Service of feedback, and of the drift log that feedback and refreshes fill."""

    def __init__(self, workspace: Workspace, thresholds: Thresholds) -> None:
        self._workspace = workspace
        self._thresholds = thresholds
        self._threads = ThreadFiles(workspace)

    def record_feedback(
        self,
        user_id: str,
        related_object_ref: str,
        cognition_object: Mapping[str, Any],
        rating: str,
        comment: str | None = None,
    ) -> Feedback:
        """Add feedback to the review queue, and the drift it shows to the log (memory design §5.5).

        Feedback needs ``create_task`` and is removed with it; the log needs ``save_to_profile``.
        """
        workspace = self._workspace
        given: dict[str, Any] = {
            "related_object_ref": related_object_ref,
            "cognition_object": given_object(cognition_object, "cognition_object"),
            "rating": rating,
            "comment": comment,
        }
        with workspace.writing(user_id, given):
            consent = rules.require(workspace.consent_on_file(user_id), "create_task")
            directory = workspace.paths.feedback(user_id)
            history = list(load_sound(workspace.files, directory, Feedback))
            # No feedback is older than its consent, whatever the clock says.
            now = later(rules.not_before(consent, workspace.now()), history)
            feedback_id = workspace.id_for("feedback", user_id, directory, now)
            received = Feedback(feedback_id=feedback_id, created_at=now, **given)
            path = workspace.paths.feedback_item(user_id, received.feedback_id)
            checked = workspace.check([Put(path, received)])
            known = self._known(consent, [*history, received])
            reversals = grade_reversals(known, self._thresholds)
            conflicts = feedback_conflicts(known, self._thresholds)
            checked += self._steps(user_id, [*reversals, *conflicts], now)
            workspace.do(user_id, checked)
            return received

    def drift_log(self, user_id: str) -> list[DriftRecord]:
        """Return the drift log of a user, oldest first; it is empty without ``save_to_profile``."""
        return self._workspace.consistently(
            user_id, lambda consent: self._log_of(user_id) if allows(consent, "save_to_profile") else []
        )

    def scan_drift(self) -> int:
        """Record watch questions whose hour has passed (§9.2) for readable users; return the count."""
        workspace = self._workspace
        found = 0
        with workspace.faults():
            users = workspace.files.names(workspace.paths.root / "persona_drift", "")
        for user_id in filter(is_id, users):
            if not workspace.files.exists(self._due(user_id)):
                continue
            try:
                with workspace.writing(user_id):
                    found += self._scan(user_id, workspace.now())
            except RunFault:  # damaged, or refused by the system
                _LOG.warning(
                    "persona drift: the threads of one person cannot be read, so they are not scanned"
                )
            except AccountDeleted:
                continue
        return found

    def refresh_steps(
        self, consent: ProfileConsent, header: ThreadHeader, refreshes: Iterable[ThreadRefresh], now: datetime
    ) -> Checked:
        """Return the checked steps that record drift of the current refresh; call under the user's lock."""
        known = self._known(consent, refreshes)
        reopened, due = reopened_questions(header, known, now, self._thresholds)
        if due is not None:
            self._workspace.files.save(self._due(consent.user_id), b"")
        flips = stance_flips(header, known, self._thresholds)
        return self._steps(consent.user_id, [*flips, *reopened], now)

    def _scan(self, user_id: str, now: datetime) -> int:
        consent = self._workspace.consent_on_file(user_id).in_force
        if consent is None:
            return 0
        signals: list[DriftRecord] = []
        waiting = False
        for header in self._threads.headers(user_id):
            known = self._known(consent, self._threads.refreshes(user_id, header.thread_id))
            found, due = reopened_questions(header, known, now, self._thresholds)
            signals += found
            waiting = waiting or due is not None
        checked = self._steps(user_id, signals, now)
        self._workspace.do(user_id, checked)
        if not waiting:
            self._workspace.files.remove(self._due(user_id))
        return sum(isinstance(step, Put) for step, _ in checked)

    def _known(self, consent: ProfileConsent, history: Iterable[RecordT]) -> list[RecordT]:
        """Return the records that drift may be found in: those since ``save_to_profile`` was given."""
        if not allows(consent, "save_to_profile"):
            return []
        since = self._workspace.allowed_since(consent, "save_to_profile")
        return [each for each in history if each.created_at >= since]

    def _steps(self, user_id: str, signals: Iterable[DriftRecord], now: datetime) -> Checked:
        """Return the steps that add signals to the log and update its index."""
        workspace, paths = self._workspace, self._workspace.paths
        log = self._log_of(user_id)
        deleted = list(load_lines(workspace.files, paths.deleted_drift(user_id), DeletedDrift))
        taken = {record.drift_id for record in log} | {each.drift_id for each in deleted}
        known = {each.signal for each in deleted}
        new: list[DriftRecord] = []
        checked: Checked = []
        for signal in unrecorded((each for each in signals if signal_of(each) not in known), log):
            drift_id = new_id("drift", user_id, now, taken.__contains__)
            alerts = signal.signal_kind in self._thresholds.downstream.alerting
            record = signal.replace(drift_id=drift_id, triggers_alert=alerts)
            # Text from before the gate became stricter stays where it is and is not copied.
            with suppress(MemoryRefusal):
                checked += workspace.check([Put(paths.drift_record(user_id, drift_id), record)])
                taken.add(drift_id)
                new.append(record)
        lines = list(load_lines(workspace.files, paths.drift_index(user_id), DriftIndexLine))
        indexed = {line.drift_id for line in lines}
        added = [index_line(each) for each in [*log, *new] if each.drift_id not in indexed]
        checked += workspace.check(Append(paths.drift_index(user_id), line) for line in added)
        for warning in warnings_of(lines, added, now, self._thresholds):
            _LOG.warning("persona drift: %s", warning)
        return checked

    def _log_of(self, user_id: str) -> list[DriftRecord]:
        return list(load_sound(self._workspace.files, self._workspace.paths.drift(user_id), DriftRecord))

    def _due(self, user_id: str) -> Path:
        return self._workspace.paths.drift(user_id) / _DUE
