"""Every threshold of the drift detectors, at one unit or one second on either side."""

import inspect
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.contracts.memory import (
    ChangeSummary,
    DriftRecord,
    Feedback,
    ThreadHeader,
    ThreadRefresh,
    WatchQuestionUpdate,
    WatchStatus,
)
from memfin.errors import UsageError
from memfin.memory import drift
from memfin.memory.drift import (
    DriftIndexLine,
    feedback_conflicts,
    grade_reversals,
    jaccard,
    keywords,
    load_thresholds,
    reopened_questions,
    shipped_thresholds,
    stance_flips,
    warnings_of,
)
from tests.support import each_case

START = datetime(2026, 5, 18, 8, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LIMITS = shipped_thresholds()
SOL: dict[str, Any] = {"asset": "SOL", "note": "x"}


def said(
    number: int, after: timedelta, rating: str = "unsure", comment: str | None = None, ref: str = "snapshot:s"
) -> Feedback:
    return Feedback(
        feedback_id=f"feedback_{number}",
        related_object_ref=ref,
        cognition_object=SOL,
        rating=rating,
        created_at=START + after,
        comment=comment,
    )


THREAD = ThreadHeader(
    thread_id="thread_1",
    user_id="li",
    snapshot_id="s",
    title="t",
    cognition_object=SOL,
    created_at=START,
    updated_at=START,
)


def refreshed(
    number: int,
    after: timedelta,
    thesis: str | None = None,
    changed: int = 0,
    updates: Sequence[tuple[str, WatchStatus]] = (),
) -> ThreadRefresh:
    return ThreadRefresh(
        refresh_id=f"refresh_{number}",
        thread_id="thread_1",
        created_at=START + after,
        main_thesis=thesis,
        change_summary=ChangeSummary(changed_inferences=[str(each) for each in range(changed)]),
        watch_question_updates=[
            WatchQuestionUpdate(question_id=question, status=status) for question, status in updates
        ],
    )


# Grade reversal.


@each_case(
    ("after", "found"),
    [(SECOND, 1), (14 * DAY - SECOND, 1), (14 * DAY, 1), (14 * DAY + SECOND, 0)],
    ids=["soon", "just_before", "at_the_limit", "just_after"],
)
@each_case("ratings", [("thumbs_up", "not_helpful"), ("not_helpful", "thumbs_up")])
def test_the_opposite_grade_within_fourteen_days_is_a_reversal(
    after: timedelta, found: int, ratings: tuple[str, str]
) -> None:
    history = [said(1, 0 * DAY, ratings[0]), said(2, after, ratings[1])]
    assert len(list(grade_reversals(history, LIMITS))) == found


def test_a_reversal_tells_both_grades_when_and_where() -> None:
    history = [said(2, 12 * DAY, "not_helpful"), said(1, 0 * DAY, "thumbs_up")]
    (signal,) = grade_reversals(history, LIMITS)
    assert signal.object_ref == "snapshot:s"
    assert signal.cognition_object == {"asset": "SOL"}
    assert (signal.prior_signal.value, signal.prior_signal.captured_in_object_ref) == (
        "thumbs_up",
        "feedback:feedback_1",
    )
    assert (signal.current_signal.value, signal.current_signal.captured_at) == (
        "not_helpful",
        START + 12 * DAY,
    )
    assert signal.delta_summary == "2026-05-18: graded SOL thumbs_up; 2026-05-30: graded it not_helpful"


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ([("thumbs_up", "snapshot:s"), ("thumbs_up", "snapshot:s")], 0),
        ([("thumbs_up", "snapshot:s"), ("not_helpful", "snapshot:other")], 0),
        ([("thumbs_up", "snapshot:s"), ("unsure", "snapshot:s"), ("not_helpful", "snapshot:s")], 1),
        ([("thumbs_up", "snapshot:s"), ("not_helpful", "snapshot:s"), ("not_helpful", "snapshot:s")], 1),
        ([("thumbs_up", "snapshot:s"), ("not_helpful", "snapshot:s"), ("agree", "snapshot:s")], 2),
    ],
    ids=["same", "other_object", "neither_between", "once", "there_and_back"],
)
def test_grades_are_compared_with_the_last_one_on_the_same_object(
    history: list[tuple[str, str]], found: int
) -> None:
    feedback = [said(at, at * DAY, rating, ref=ref) for at, (rating, ref) in enumerate(history)]
    assert len(list(grade_reversals(feedback, LIMITS))) == found


# Feedback conflict.


@each_case(
    ("comments", "found"),
    [
        (["对"], 0),
        (["对", "错"], 0),
        (["对", "错", "错"], 1),
        (["对", "错", "对"], 1),
        (["对", "错", "对", "错"], 2),
        (["对，有用", "不对，没用"], 1),
        (["错", "错", "错"], 0),
        (["看多", "我之前的判断错了", "I was wrong again"], 1),
        (["我之前的判断错了"], 0),
        (["看多", "不对", "没用"], 0),
        ([None, "对", None, "错", "嗯", "错"], 1),
    ],
    ids=range(11),
)
def test_comments_conflict_from_the_second_contrary_word_on(comments: list[str | None], found: int) -> None:
    history = [said(at, at * DAY, comment=comment) for at, comment in enumerate(comments)]
    assert len(list(feedback_conflicts(history, LIMITS))) == found


def test_a_conflict_tells_words_of_the_dictionary_and_nothing_else() -> None:
    history = [
        said(at, at * DAY, comment=f"秘密{word}秘密") for at, word in enumerate(["看多", "看空", "看多"])
    ]
    (signal,) = feedback_conflicts(history, LIMITS)
    assert (signal.prior_signal.value, signal.current_signal.value) == ("看空", "看多")
    assert "秘密" not in repr(signal)


def test_objects_are_told_apart_by_what_names_them() -> None:
    history = [said(0, 0 * DAY, comment="对"), said(1, DAY, comment="错"), said(2, 2 * DAY, comment="错")]
    other = [each.replace(cognition_object={"asset": "BTC"}) for each in history[1:]]
    same = [each.replace(cognition_object={"asset": "SOL", "note": "y"}) for each in history[1:]]
    assert not list(feedback_conflicts([history[0], *other], LIMITS))
    assert list(feedback_conflicts([history[0], *same], LIMITS))


# Stance flip.

OLD = "央行降息利好成长股"
NEW = "通胀回升压制估值"


@pytest.mark.parametrize(("changed", "found"), [(5, 0), (6, 1), (7, 1)])
def test_a_flip_needs_more_than_five_changed_inferences(changed: int, found: int) -> None:
    history = [refreshed(1, 0 * DAY, OLD), refreshed(2, 14 * DAY, NEW, changed)]
    assert len(list(stance_flips(THREAD, history, LIMITS))) == found


def words(first: int, last: int) -> str:
    return " ".join(f"w{number}" for number in range(first, last))


@pytest.mark.parametrize(
    ("theses", "found"),
    [((words(0, 10), words(8, 18)), 1), ((words(0, 6), words(4, 10)), 0), ((words(0, 6), words(3, 9)), 0)],
    ids=["2_of_18", "exactly_a_fifth", "more"],
)
def test_a_flip_needs_less_than_a_fifth_of_the_keywords_in_common(
    theses: tuple[str, str], found: int
) -> None:
    history = [refreshed(1, 0 * DAY, theses[0]), refreshed(2, 14 * DAY, theses[1], 6)]
    assert len(list(stance_flips(THREAD, history, LIMITS))) == found


@pytest.mark.parametrize(
    ("after", "found"),
    [(14 * DAY - SECOND, 0), (14 * DAY, 1), (14 * DAY + SECOND, 1)],
    ids=["just_before", "at_the_limit", "just_after"],
)
def test_the_thesis_of_fourteen_days_before_is_the_one_compared(after: timedelta, found: int) -> None:
    # The thesis before the second one was the same as the third.
    history = [refreshed(1, -30 * DAY, OLD), refreshed(2, 0 * DAY, NEW), refreshed(3, after, OLD, 6)]
    assert len(list(stance_flips(THREAD, history, LIMITS))) == found


def test_a_young_thread_is_compared_with_its_first_thesis() -> None:
    history = [refreshed(1, 0 * DAY, OLD), refreshed(2, SECOND), refreshed(3, DAY, NEW, 6)]
    (signal,) = stance_flips(THREAD, history, LIMITS)
    assert signal.object_ref == "thread:thread_1"
    assert signal.prior_signal.captured_in_object_ref == "refresh:refresh_1"
    assert (signal.prior_signal.value, signal.current_signal.value) == (OLD, NEW)


def test_without_a_thesis_before_or_now_there_is_no_flip() -> None:
    assert not list(stance_flips(THREAD, [refreshed(1, 0 * DAY, NEW, 9)], LIMITS))
    assert not list(stance_flips(THREAD, [refreshed(1, 0 * DAY, OLD), refreshed(2, DAY, None, 9)], LIMITS))
    assert not list(stance_flips(THREAD, [refreshed(1, 0 * DAY, "……"), refreshed(2, DAY, "！", 9)], LIMITS))


def test_long_theses_are_quoted_in_part() -> None:
    history = [refreshed(1, 0 * DAY, "甲" * 4000), refreshed(2, DAY, "乙丙" * 2000, 9)]
    (signal,) = stance_flips(THREAD, history, LIMITS)
    assert len(signal.prior_signal.value) == 200
    assert len(signal.delta_summary) < 1000


# Watch questions.


def status_at(
    *updates: tuple[timedelta, WatchStatus], now: timedelta
) -> tuple[list[DriftRecord], datetime | None]:
    history = [refreshed(at, after, updates=[("q1", status)]) for at, (after, status) in enumerate(updates)]
    return reopened_questions(THREAD, history, START + now, LIMITS)


@pytest.mark.parametrize(
    ("after", "found"),
    [(14 * DAY - SECOND, 1), (14 * DAY, 1), (14 * DAY + SECOND, 0)],
    ids=["just_before", "at_the_limit", "just_after"],
)
def test_a_question_reopened_within_fourteen_days_is_a_signal(after: timedelta, found: int) -> None:
    signals, due = status_at((0 * DAY, "resolved"), (after, "reopened"), now=30 * DAY)
    assert len(signals) == found
    assert due is None


@pytest.mark.parametrize(
    ("now", "found"),
    [(HOUR - SECOND, 0), (HOUR, 1), (HOUR + SECOND, 1)],
    ids=["just_before", "at_the_limit", "just_after"],
)
def test_a_resolution_is_looked_at_an_hour_after_it(now: timedelta, found: int) -> None:
    signals, due = status_at((0 * DAY, "resolved"), (SECOND, "reopened"), now=now)
    assert len(signals) == found
    assert due == (None if found else START + HOUR)


@pytest.mark.parametrize(
    ("again", "found"),
    [(HOUR - SECOND, 0), (HOUR, 1), (HOUR + SECOND, 1)],
    ids=["just_before", "at_the_limit", "just_after"],
)
def test_a_question_reopened_by_mistake_and_resolved_within_the_hour_is_none(
    again: timedelta, found: int
) -> None:
    updates: list[tuple[timedelta, WatchStatus]] = [
        (0 * DAY, "resolved"),
        (SECOND, "reopened"),
        (again, "resolved"),
    ]
    assert len(status_at(*updates, now=DAY)[0]) == found


def test_only_what_was_resolved_can_be_reopened_and_questions_are_told_apart() -> None:
    assert status_at((0 * DAY, "open"), (DAY, "reopened"), now=9 * DAY) == ([], None)
    assert status_at((0 * DAY, "resolved"), now=9 * DAY) == ([], None)
    history = [
        refreshed(1, 0 * DAY, updates=[("a", "resolved"), ("b", "open")]),
        refreshed(2, DAY, updates=[("b", "reopened")]),
    ]
    assert reopened_questions(THREAD, history, START + 9 * DAY, LIMITS) == ([], None)


def test_every_reopening_of_a_question_is_a_signal() -> None:
    updates: list[tuple[timedelta, WatchStatus]] = [
        (0 * DAY, "resolved"),
        (DAY, "reopened"),
        (2 * DAY, "resolved"),
        (3 * DAY, "open"),
        (4 * DAY, "reopened"),
    ]
    signals, _ = status_at(*updates, now=9 * DAY)
    assert [each.current_signal.captured_at for each in signals] == [START + DAY, START + 4 * DAY]
    assert signals[0].delta_summary == "2026-05-18: question q1 was resolved; 2026-05-19: it was reopened"


# Warnings.


def line(after: timedelta, kind: Any = "grade_reversal") -> DriftIndexLine:
    return DriftIndexLine(
        drift_id="drift_1",
        signal_kind=kind,
        object_ref="thread:t",
        triggers_alert=True,
        recorded_at=START + after,
    )


@pytest.mark.parametrize(
    ("first", "count"),
    [(DAY - SECOND, 3), (DAY, 3), (DAY + SECOND, None)],
    ids=["just_before", "at_the_limit", "just_after"],
)
def test_three_signals_within_a_day_are_warned_of(first: timedelta, count: int | None) -> None:
    now = first
    found = warnings_of([line(0 * DAY), line(SECOND * 2)], [line(now)], START + now, LIMITS)
    assert found == ([f"{count} signals within the time of a burst"] if count else [])


def test_two_signals_within_a_day_are_not_warned_of() -> None:
    assert warnings_of([line(0 * DAY)], [line(SECOND)], START + SECOND, LIMITS) == []


@pytest.mark.parametrize(("before", "count"), [(3, None), (4, 5), (5, 6)])
def test_five_conflicts_in_all_are_warned_of(before: int, count: int | None) -> None:
    log = [line(at * 10 * DAY, "feedback_conflict") for at in range(before)]
    found = warnings_of(log, [line(900 * DAY, "feedback_conflict")], START + 900 * DAY, LIMITS)
    assert found == ([f"{count} feedback conflicts in all"] if count else [])
    assert warnings_of(log, [line(900 * DAY)], START + 900 * DAY, LIMITS) == []


def test_a_stance_flip_is_warned_of_at_once_and_nothing_new_never() -> None:
    flip = line(0 * DAY, "refresh_stance_flip")
    assert warnings_of([], [flip], START, LIMITS) == ["1 stance flips found at once"]
    assert warnings_of([flip] * 9, [], START, LIMITS) == []


# Keywords and thresholds.


def test_chinese_is_cut_into_pairs_of_characters_and_latin_into_words() -> None:
    assert keywords("降息利好，A股ETF 2026", ["a"]) == {"降息", "息利", "利好", "股", "etf", "2026"}
    assert keywords("ＡＢＣ abc") == {"abc"}
    assert keywords("The rate of a bank", ["the", "of", "a"]) == {"rate", "bank"}


@settings(max_examples=25)
@given(one=st.frozensets(st.text(max_size=3)), other=st.frozensets(st.text(max_size=3)))
def test_likeness_is_a_share_and_the_same_both_ways(one: frozenset[str], other: frozenset[str]) -> None:
    assert 0 <= jaccard(one, other) == jaccard(other, one) <= 1
    assert jaccard(one, one) == 1


def test_thresholds_can_be_given_in_a_file(tmp_path: Path) -> None:
    shipped = Path(drift.__file__).parents[1] / "data" / "memory" / "drift_thresholds.toml"
    own = tmp_path / "own.toml"
    own.write_text(shipped.read_text("utf-8").replace("jaccard_below = 0.2", "jaccard_below = 0.4"), "utf-8")
    history = [refreshed(1, 0 * DAY, words(0, 6)), refreshed(2, DAY, words(4, 10), 6)]
    assert not list(stance_flips(THREAD, history, LIMITS))
    assert list(stance_flips(THREAD, history, load_thresholds(own)))


@pytest.mark.parametrize(
    "text", ["x = ", "[grade_reversal]\nwithin_days = -1", "\xff"], ids=["toml", "value", "utf8"]
)
def test_thresholds_that_cannot_be_used_are_told_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"drift thresholds .*own\.toml: ") as refused:
        load_thresholds(path)
    assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match="No such file"):
        load_thresholds(tmp_path / "none.toml")


def test_nothing_in_the_package_takes_or_gives_a_profile() -> None:
    functions = [
        each
        for each in vars(drift).values()
        if inspect.isfunction(each) and each.__module__ == drift.__name__
    ]
    assert len(functions) >= 8
    for function in functions:
        signature = str(inspect.signature(function))
        assert not any(
            word in signature for word in ("UserContext", "Preferences", "ProfileConsent", "Store")
        )
