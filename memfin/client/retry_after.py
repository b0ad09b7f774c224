"""Reads a Retry-After header in all its forms, sensible or not (RFC 9110 section 10.2.3)."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MOST: Final = 60.0
"""Seconds that a server can make a run wait for at a time; what it asks beyond that is cut."""

ABSURD: Final = 86_400.0
"""Seconds beyond which a value is a mistake and not a wish; it is ignored."""

_SECONDS: Final = re.compile(r"([+-]?)([0-9]{1,15})(?:\.[0-9]{0,15})?")


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Return how many seconds a header asks to wait, between 0.0 and `MOST`; None where it says nothing.

    Seconds may have a fraction; dates have any of the three forms of HTTP, and one without a zone is
    UTC. Times that are over, and negative seconds, are 0.0. Values beyond `ABSURD` and everything
    that is neither say nothing. ``now`` knows its zone.
    """
    if header is None:
        return None
    text = header.strip()
    if match := _SECONDS.fullmatch(text):
        seconds = float(text)
        if match[1] == "-":
            return 0.0
    else:
        try:
            date = parsedate_to_datetime(text)
            seconds = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return None if seconds > ABSURD else min(max(seconds, 0.0), MOST)
