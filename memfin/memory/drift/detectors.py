"""The four detectors (memory design §9.1): functions of what is on file, the thresholds and the time.

Each looks at a whole history and yields every signal in it, so that it does not matter what was looked at
before, or what was interrupted; what is in the log already is told apart by `log.unrecorded`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from memfin.contracts.memory import DriftSignal, Feedback, SignalKind, ThreadHeader, ThreadRefresh
from memfin.memory.drift.keywords import jaccard, keywords
from memfin.memory.drift.thresholds import Thresholds
from memfin.memory.feedback import Word, polarity, read

_NAMES: Final = ("type", "kind", "id", "name", "symbol", "asset", "theme", "event")
_TITLES: Final = ("asset", "theme", "event", "symbol", "name", "id")
_LONGEST: Final = 200
"""Characters of a thesis that a signal quotes."""


class Signal(NamedTuple):
    """A contradiction that was observed, not yet in the log."""

    kind: SignalKind
    object_ref: str
    cognition_object: dict[str, Any]
    prior: DriftSignal
    current: DriftSignal
    summary: str


def grade_reversals(history: Iterable[Feedback], thresholds: Thresholds) -> Iterator[Signal]:
    """Yield ratings that are the opposite of the one before on the same object, soon enough after it.

    Ratings that are neither for nor against are passed over.
    """
    last: dict[str, Feedback] = {}
    for each in _in_order(history):
        sign = polarity(each.rating)
        if sign is None:
            continue
        before = last.get(each.related_object_ref)
        last[each.related_object_ref] = each
        if before is None or polarity(before.rating) == sign:
            continue
        if each.created_at - before.created_at <= thresholds.grade_reversal.within:
            title = _title(each)
            yield Signal(
                "grade_reversal",
                each.related_object_ref,
                simplified(each.cognition_object),
                _said(before, before.rating),
                _said(each, each.rating),
                f"{_day(before.created_at)}: graded {title} {before.rating};"
                f" {_day(each.created_at)}: graded it {each.rating}",
            )


def feedback_conflicts(history: Iterable[Feedback], thresholds: Thresholds) -> Iterator[Signal]:
    """Yield comments that contradict earlier ones on the same cognition object, once there are enough.

    A word contradicts when an earlier comment took the other side of its topic; words that take an
    earlier view back contradict whatever was said last.
    """
    comments: dict[str, _Comments] = {}
    for each in _in_order(history):
        before = comments.setdefault(_key(each.cognition_object), _Comments())
        contrary = before.contradicted_by(each)
        if contrary and before.contrary >= thresholds.feedback_conflict.least_contrary:
            earlier, said, word = contrary[0]
            yield Signal(
                "feedback_conflict",
                each.related_object_ref,
                simplified(each.cognition_object),
                _said(earlier, said),
                _said(each, word),
                f"{_day(earlier.created_at)}: said {said!r} of {_title(each)};"
                f" {_day(each.created_at)}: said {word!r}",
            )


class _Comments:
    """What was said of one cognition object so far."""

    def __init__(self) -> None:
        self.contrary = 0
        self._words: dict[tuple[str, int], tuple[Feedback, str]] = {}
        self._last: tuple[Feedback, str] | None = None

    def contradicted_by(self, feedback: Feedback) -> list[tuple[Feedback, str, str]]:
        """Take note of feedback; return what it contradicts: earlier feedback, its word, the word now."""
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
) -> Iterator[Signal]:
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
            then = each.created_at - limits.compared_with
            before, old = next((pair for pair in reversed(earlier) if pair[0].created_at <= then), earlier[0])
            if jaccard(keywords(old, ignored), keywords(thesis, ignored)) < limits.jaccard_below:
                yield Signal(
                    "refresh_stance_flip",
                    f"thread:{thread.thread_id}",
                    simplified(thread.cognition_object),
                    _found(before, _cut(old)),
                    _found(each, _cut(thesis)),
                    f"{_day(before.created_at)}: the thesis was {_cut(old)!r};"
                    f" {_day(each.created_at)}: it is {_cut(thesis)!r}",
                )
        earlier.append((each, thesis))


def reopened_questions(
    thread: ThreadHeader, refreshes: Iterable[ThreadRefresh], now: datetime, thresholds: Thresholds
) -> tuple[list[Signal], datetime | None]:
    """Return the watch questions that were resolved and soon reopened, and when to look again, if ever.

    A resolution is looked at an hour after it. A question that is by then resolved again was reopened by
    mistake and is no signal.
    """
    limits = thresholds.watch_question_resolved_then_reopened
    signals: list[Signal] = []
    waiting: list[datetime] = []
    for question_id, updates in _by_question(refreshes).items():
        for at, (resolved, status) in enumerate(updates):
            follower = next((each for each in updates[at + 1 :] if each[1] != "open"), None)
            if status != "resolved" or follower is None or follower[1] != "reopened":
                continue
            reopened, looked_at = follower[0], resolved.created_at + limits.delay
            if reopened.created_at - resolved.created_at > limits.within:
                continue
            if now < looked_at:
                waiting.append(looked_at)
                continue
            soon = [state for refresh, state in updates[at + 1 :] if refresh.created_at < looked_at]
            if soon and soon[-1] == "resolved":
                continue
            signals.append(_reopening(thread, question_id, resolved, reopened))
    return signals, min(waiting, default=None)


def _by_question(refreshes: Iterable[ThreadRefresh]) -> Mapping[str, list[tuple[ThreadRefresh, str]]]:
    found: dict[str, list[tuple[ThreadRefresh, str]]] = {}
    for each in sorted(refreshes, key=lambda refresh: (refresh.created_at, refresh.refresh_id)):
        for update in each.watch_question_updates:
            found.setdefault(update.question_id, []).append((each, update.status))
    return dict(sorted(found.items()))


def _reopening(
    thread: ThreadHeader, question_id: str, resolved: ThreadRefresh, reopened: ThreadRefresh
) -> Signal:
    return Signal(
        "watch_question_resolved_then_reopened",
        f"thread:{thread.thread_id}",
        simplified(thread.cognition_object),
        _found(resolved, f"{question_id}: resolved"),
        _found(reopened, f"{question_id}: reopened"),
        f"{_day(resolved.created_at)}: question {question_id} was resolved;"
        f" {_day(reopened.created_at)}: it was reopened",
    )


def simplified(cognition_object: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names a cognition object: asset, theme or event; all of it when nothing does."""
    named = {name: cognition_object[name] for name in _NAMES if name in cognition_object}
    return named or dict(cognition_object)


def _key(cognition_object: Mapping[str, Any]) -> str:
    return json.dumps(simplified(cognition_object), sort_keys=True, ensure_ascii=False)


def _title(feedback: Feedback) -> str:
    named = (feedback.cognition_object.get(name) for name in _TITLES)
    return next((_cut(each) for each in named if isinstance(each, str) and each), feedback.related_object_ref)


def _said(feedback: Feedback, value: str) -> DriftSignal:
    return _signal(value, feedback.created_at, f"feedback:{feedback.feedback_id}")


def _found(refresh: ThreadRefresh, value: str) -> DriftSignal:
    return _signal(value, refresh.created_at, f"refresh:{refresh.refresh_id}")


def _signal(value: str, moment: datetime, reference: str) -> DriftSignal:
    return DriftSignal(value=value, captured_at=moment, captured_in_object_ref=reference)


def _in_order(history: Iterable[Feedback]) -> list[Feedback]:
    return sorted(history, key=lambda each: (each.created_at, each.feedback_id))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _day(moment: datetime) -> str:
    return moment.date().isoformat()
