"""Ids: what counts as one, and how new ones are made without chance (spec §10)."""

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

from memfin.memory.errors import InvalidId

Prefix = Literal["ctx", "consent", "thread", "task", "refresh", "feedback", "drift", "cand"]

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGITS: Final = 6


def is_id(value: str) -> bool:
    """Say whether a string is an id."""
    return _ID.fullmatch(value) is not None


def check_id(value: object, what: str = "user id") -> str:
    """Return an id as it is.

    Raises:
        InvalidId: it is no string of 1 to 64 ASCII letters, digits, ``_`` and ``-``.
    """
    if isinstance(value, str) and is_id(value):
        return value
    raise InvalidId(f"{what}: must be 1 to 64 ASCII letters, digits, '_' or '-'")


def folded(user_id: str) -> str:
    """Return the form in which ids that differ only in case are equal."""
    return user_id.lower()


def stamp(moment: datetime) -> str:
    """Return a moment as it stands in ids: ``20261122T051100Z``."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def new_id(prefix: Prefix, user_id: str, moment: datetime, taken: Callable[[str], bool]) -> str:
    """Return the next free id of a user: prefix, moment, six hexadecimal digits (memory design §3.3.1).

    The digits follow from the other parts and from how many such ids are taken, so the same events
    on the same clock get the same ids. ``taken`` must look under the user's lock.
    """
    head = f"{prefix}_{stamp(moment)}"
    number = 0
    while True:
        digest = hashlib.sha256(f"{user_id}\n{head}\n{number}".encode()).hexdigest()[:_DIGITS]
        if not taken(found := f"{head}_{digest}"):
            return found
        number += 1


def with_prefix(prefix: Prefix, other: str) -> str:
    """Return the id that shares all but its prefix with another one, as a task and its context do."""
    return f"{prefix}_{other.partition('_')[2]}"
