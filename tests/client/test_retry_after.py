"""Retry-After in all its forms, sensible or not."""

import math
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from memfin.client.retry_after import ABSURD, MOST, retry_after_seconds
from tests.support import each_case

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@each_case(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("1", 1.0),
        ("  7 ", 7.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("+3", 3.0),
        ("59", 59.0),
        ("61", MOST),
        ("3600", MOST),
        ("86400", MOST),
        ("86401", None),
        ("9" * 15, None),
        ("9" * 5000, None),
        ("-" + "9" * 5000, None),
        ("nan", None),
        ("NaN", None),
        ("inf", None),
        ("-inf", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("٣", None),
        ("1,5", None),
        ("", None),
        (" ", None),
        ("soon", None),
        ("5 seconds", None),
        ("Sun, 01 Mar 2026 12:00:09 GMT", 9.0),
        ("Sunday, 01-Mar-26 12:00:09 GMT", 9.0),
        ("Sun Mar  1 12:00:09 2026", 9.0),
        ("Sun, 01 Mar 2026 12:00:09 -0000", 9.0),
        ("Sun, 01 Mar 2026 13:00:09 +0100", 9.0),
        ("Sun, 01 Mar 2026 13:00:00 GMT", MOST),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 01 Jan 9999 00:00:00 GMT", None),
        ("Sun, 99 Mar 2026 12:00:09 GMT", None),
        ("Sun, 01 Mar 2026 12:00:09 +9999999999", None),
    ],
)
def test_forms(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, NOW) == seconds


@given(st.text(max_size=80) | st.text(alphabet="0123456789+-.eE :,GMTJanSu", max_size=40))
def test_garbage_is_bounded(header: str) -> None:
    seconds = retry_after_seconds(header, NOW)
    assert seconds is None or (math.isfinite(seconds) and 0 <= seconds <= MOST)


@given(st.integers(-(10**18), 10**18))
def test_whole_seconds(value: int) -> None:
    seconds = retry_after_seconds(str(value), NOW)
    if abs(value) >= 10**15 or value > ABSURD:
        assert seconds is None
    else:
        assert seconds == min(max(value, 0), MOST)


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(9990, 1, 1)))  # noqa: DTZ001 - naive
def test_dates(date: datetime) -> None:
    date = date.replace(microsecond=0, tzinfo=UTC)
    ahead = (date - NOW).total_seconds()
    expected = None if ahead > ABSURD else min(max(ahead, 0.0), MOST)
    assert retry_after_seconds(format_datetime(date, usegmt=True), NOW) == expected


@given(st.integers(-100_000, 100_000), st.integers(-14, 14))
def test_dates_of_other_zones(seconds: int, hours: int) -> None:
    date = (NOW + timedelta(seconds=seconds)).astimezone(timezone(timedelta(hours=hours)))
    expected = None if seconds > ABSURD else min(max(seconds, 0), MOST)
    assert retry_after_seconds(format_datetime(date), NOW) == expected
