"""Ids, and the paths of a data root (memory design §3.2, §3.3, §10.4).

Every part of a path that is an id is checked, so no path can leave the root or its user.
"""

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from memfin.memory.errors import InvalidId

Prefix = Literal["ctx", "consent", "thread", "task", "refresh", "feedback", "drift", "cand"]

STATE: Final = ".memfin"
"""The directory of locks, markers of unfinished work, and the index."""

TREES: Final = (
    "user_contexts",
    "persona_drift",
    "training_candidates",
    "threads",
    "feedback",
    "hints",
    "sensitive",
    "imports",
)
"""The directories that hold one directory per user; a hard delete removes the user's from each."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGITS: Final = 6


def is_id(value: str) -> bool:
    """Return whether a string is an id."""
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


class Paths:
    """The paths of a data root; of a user's records, by user id and the ids of the records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.consents = root / "consents"
        self.stubs = self.consents / "_deleted"
        self.state = root / STATE
        self.locks = self.state / "locks"
        self.pending = self.state / "pending"
        self.index = self.state / "index.sqlite"
        self.reserve = self.state / "reserve"
        self._tops = {name: root / name for name in TREES}

    def consent(self, user_id: str) -> Path:
        """Return the consent in force."""
        return self.consents / f"{check_id(user_id)}.yaml"

    def history(self, user_id: str) -> Path:
        """Return the directory of the superseded versions of a consent."""
        return self.consents / "_history" / check_id(user_id)

    def version(self, user_id: str, version: int) -> Path:
        """Return a superseded version of a consent."""
        return self.history(user_id) / f"{version}.yaml"

    def stub(self, user_id: str) -> Path:
        """Return the stub of a deleted account."""
        return self.stubs / f"{check_id(user_id)}.yaml"

    def marker(self, user_id: str) -> Path:
        """Return the empty file that marks an operation on a user as not finished."""
        return self.pending / check_id(user_id)

    def profiles(self, user_id: str) -> Path:
        """Return the directory of a user's profile contexts."""
        return self.tree("user_contexts", user_id) / "_profile"

    def profile(self, user_id: str, context_id: str) -> Path:
        """Return a profile context."""
        return _file(self.profiles(user_id), context_id, "context id")

    def tasks(self, user_id: str) -> Path:
        """Return the directory of a user's task contexts."""
        return self.tree("user_contexts", user_id) / "_task"

    def task(self, user_id: str, context_id: str) -> Path:
        """Return a task context."""
        return _file(self.tasks(user_id), context_id, "context id")

    def all_thread_contexts(self, user_id: str) -> Path:
        """Return the directory that holds a directory of contexts per thread."""
        return self.tree("user_contexts", user_id) / "_thread"

    def thread_contexts(self, user_id: str, thread_id: str) -> Path:
        """Return the directory of a thread's contexts."""
        return self.all_thread_contexts(user_id) / check_id(thread_id, "thread id")

    def thread_context(self, user_id: str, thread_id: str, context_id: str) -> Path:
        """Return a thread context."""
        return _file(self.thread_contexts(user_id, thread_id), context_id, "context id")

    def threads(self, user_id: str) -> Path:
        """Return the directory of a user's thread headers."""
        return self.tree("threads", user_id)

    def thread(self, user_id: str, thread_id: str) -> Path:
        """Return a thread header."""
        return _file(self.threads(user_id), thread_id, "thread id")

    def refreshes(self, user_id: str, thread_id: str) -> Path:
        """Return the directory of a thread's refreshes."""
        return self.threads(user_id) / check_id(thread_id, "thread id")

    def refresh(self, user_id: str, thread_id: str, refresh_id: str) -> Path:
        """Return a refresh of a thread."""
        return _file(self.refreshes(user_id, thread_id), refresh_id, "refresh id")

    def feedback(self, user_id: str) -> Path:
        """Return the directory of a user's feedback."""
        return self.tree("feedback", user_id)

    def feedback_item(self, user_id: str, feedback_id: str) -> Path:
        """Return one piece of feedback."""
        return _file(self.feedback(user_id), feedback_id, "feedback id")

    def drift(self, user_id: str) -> Path:
        """Return the directory of a user's drift log."""
        return self.tree("persona_drift", user_id)

    def drift_record(self, user_id: str, drift_id: str) -> Path:
        """Return a drift record."""
        return _file(self.drift(user_id), drift_id, "drift id")

    def drift_index(self, user_id: str) -> Path:
        """Return the index of a user's drift log, one line per record."""
        return self.drift(user_id) / "_index.jsonl"

    def candidates(self, user_id: str) -> Path:
        """Return the directory of a user's training candidates."""
        return self.tree("training_candidates", user_id)

    def candidate(self, user_id: str, candidate_id: str) -> Path:
        """Return a training candidate."""
        return _file(self.candidates(user_id), candidate_id, "candidate id")

    def tree(self, name: str, user_id: str) -> Path:
        """Return the directory of a user in one of `TREES`."""
        return self._tops[name] / check_id(user_id)

    def trees(self, user_id: str) -> tuple[Path, ...]:
        """Return every directory that is a user's own."""
        return tuple(self.tree(name, user_id) for name in TREES)

    def shared(self) -> tuple[Path, ...]:
        """Return the directories that are there before any user is; only users' own are made later."""
        consents = (self.consents, self.consents / "_history", self.stubs)
        return (self.locks, self.pending, *consents, *self._tops.values())

    def is_profile(self, path: Path) -> bool:
        """Return whether a path is that of a profile context."""
        parts = path.relative_to(self.root).parts
        return len(parts) > 2 and parts[0] == "user_contexts" and parts[2] == "_profile"  # noqa: PLR2004


def _file(directory: Path, name: str, what: str) -> Path:
    return directory / f"{check_id(name, what)}.json"
