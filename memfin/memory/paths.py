"""Ids, and the paths of a data root (memory design §3.2, §3.3, §10.4).

Every part of a path that is an id is checked, so no path can leave the root or its user.
"""

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from memfin.memory.errors import InvalidId

Prefix = Literal["ctx", "consent", "thread", "task", "refresh", "feedback", "drift", "cand", "item"]
STATE: Final = ".memfin"  # the directory of locks, markers of unfinished work, and the index
# The directories that hold one directory per user; a hard delete removes the user's from each
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
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGITS: Final = 6


def is_id(value: str) -> bool:
    """Return True if a string is an id: 1 to 64 ASCII letters, digits, ``_`` and ``-``."""
    return _ID.fullmatch(value) is not None


def check_id(value: object, what: str = "user id") -> str:
    """Return an id unchanged; raise `InvalidId` for an invalid one."""
    if isinstance(value, str) and is_id(value):
        return value
    raise InvalidId(f"{what}: must be 1 to 64 ASCII letters, digits, '_' or '-'")


def folded(user_id: str) -> str:
    """Return an id folded, for comparing ids without regard to case."""
    return user_id.lower()


def stamp(moment: datetime) -> str:
    """Return a time in the form of ids: ``20261122T051100Z``."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def new_id(prefix: Prefix, user_id: str, moment: datetime, taken: Callable[[str], bool]) -> str:
    """Return the next free id of a user: prefix, moment, six hexadecimal digits (memory design §3.3.1).

    The same events on the same clock get the same ids. ``taken`` must look under the user's lock.
    """
    head = f"{prefix}_{stamp(moment)}"
    number = 0
    while True:
        digest = hashlib.sha256(f"{user_id}\n{head}\n{number}".encode()).hexdigest()[:_DIGITS]
        if not taken(found := f"{head}_{digest}"):
            return found
        number += 1


def with_prefix(prefix: Prefix, other: str) -> str:
    """Return an id with another prefix, as a task and its context share the rest."""
    return f"{prefix}_{other.partition('_')[2]}"


class Directory(NamedTuple):
    """One directory per user below a directory of all users, and the records in it."""

    root: Path
    below: str = ""
    what: str = ""

    def __call__(self, user_id: str) -> Path:
        """Return the directory of a user."""
        return self.root / check_id(user_id) / self.below

    def record(self, user_id: str, record_id: str) -> Path:
        """Return the file of a record."""
        return _file(self(user_id), record_id, self.what)

    def of_thread(self, user_id: str, thread_id: str) -> Path:
        """Return the directory of one of the user's threads."""
        return self(user_id) / check_id(thread_id, "thread id")


class Paths:
    """Paths of a data root; those of a user's records by user id and record ids."""

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

        # Directories by user.
        contexts = root / "user_contexts"
        self.history = Directory(self.consents / "_history")
        self.marker = Directory(self.pending)  # an empty file: an operation is not finished
        self.profiles = Directory(contexts, "_profile", "context id")
        self.tasks = Directory(contexts, "_task", "context id")
        self.all_thread_contexts = Directory(contexts, "_thread")
        self.items = Directory(contexts, "_items", "item id")  # those of no thread
        self.threads = Directory(root / "threads", what="thread id")
        self.feedback = Directory(root / "feedback", what="feedback id")
        self.drift = Directory(root / "persona_drift", what="drift id")
        self.candidates = Directory(root / "training_candidates", what="candidate id")

        # Directories by user and thread.
        self.thread_contexts = self.all_thread_contexts.of_thread
        self.refreshes = self.threads.of_thread

        # Records by user and id.
        self.profile = self.profiles.record
        self.task = self.tasks.record
        self.thread = self.threads.record
        self.feedback_item = self.feedback.record
        self.drift_record = self.drift.record
        self.candidate = self.candidates.record

    def consent(self, user_id: str) -> Path:
        """Return the consent in force."""
        return self.consents / f"{check_id(user_id)}.yaml"

    def version(self, user_id: str, version: int) -> Path:
        """Return a superseded version of a consent."""
        return self.history(user_id) / f"{version}.yaml"

    def stub(self, user_id: str) -> Path:
        """Return the stub of a deleted account."""
        return self.stubs / f"{check_id(user_id)}.yaml"

    def thread_context(self, user_id: str, thread_id: str, context_id: str) -> Path:
        """Return a thread context."""
        return _file(self.thread_contexts(user_id, thread_id), context_id, "context id")

    def thread_items(self, user_id: str, thread_id: str) -> Path:
        """Return the directory of a thread's items."""
        return self.thread_contexts(user_id, thread_id) / "_items"

    def refresh(self, user_id: str, thread_id: str, refresh_id: str) -> Path:
        """Return a refresh of a thread."""
        return _file(self.refreshes(user_id, thread_id), refresh_id, "refresh id")

    def drift_index(self, user_id: str) -> Path:
        """Return the index of a user's drift log, one line per record."""
        return self.drift(user_id) / "_index.jsonl"

    def deleted_drift(self, user_id: str) -> Path:
        """Return the list of a user's deleted drift records, one line per record."""
        return self.drift(user_id) / "_deleted.jsonl"

    def tree(self, name: str, user_id: str) -> Path:
        """Return the directory of a user in one of `TREES`."""
        return self._tops[name] / check_id(user_id)

    def trees(self, user_id: str) -> tuple[Path, ...]:
        """Return all directories of a user."""
        return tuple(self.tree(name, user_id) for name in TREES)

    def shared(self) -> tuple[Path, ...]:
        """Return the directories that exist before the first user; only users' own are created later."""
        consents = (self.consents, self.consents / "_history", self.stubs)
        return (self.locks, self.pending, *consents, *self._tops.values())

    def is_profile(self, path: Path) -> bool:
        """Return True for the path of a profile context."""
        parts = path.relative_to(self.root).parts
        return len(parts) > 2 and parts[0] == "user_contexts" and parts[2] == "_profile"  # noqa: PLR2004


def _file(directory: Path, name: str, what: str) -> Path:
    return directory / f"{check_id(name, what)}.json"
