"""Index of ids and expiries in SQLite, derived from the files and rebuilt from them when lost.

A row is written before its file and removed after it, so every file has its row after any interruption.
Bytes that are deleted are overwritten.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from memfin.memory.files import Files
from memfin.memory.paths import folded

# The version of the tables, set once they are filled; an index of another version is rebuilt
LAYOUT: Final = 1
_PATIENCE: Final = 60.0  # seconds to wait for another process's transaction
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS users (folded TEXT PRIMARY KEY, user_id TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS tasks (
    user_id TEXT NOT NULL, context_id TEXT NOT NULL, expires_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, context_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS tasks_by_expiry ON tasks (expires_at, user_id, context_id)",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
TaskRow = tuple[str, str, datetime]  # user, context, expiry


class Index:
    """Open index of a data root, for several threads; methods raise `sqlite3.Error`."""

    def __init__(self, path: Path, files: Files) -> None:
        self._files = files
        self._turn = threading.Lock()
        self._connection = _connected(path, files)

    def close(self) -> None:
        """Close the database."""
        with self._turn:
            self._connection.close()

    def is_built(self) -> bool:
        """Return True if the tables exist in this layout."""
        return self._rows("PRAGMA user_version") == [(LAYOUT,)]

    def build(self, users: Iterable[str], tasks: Iterable[TaskRow]) -> None:
        """Fill the index in one transaction; entries of other processes stay."""
        with self._changing() as connection:
            rows = ((folded(user_id), user_id) for user_id in users)
            connection.executemany("INSERT OR IGNORE INTO users VALUES (?, ?)", rows)
            connection.executemany(
                "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)",
                ((user, context, _number(at)) for user, context, at in tasks),
            )
            connection.execute(f"PRAGMA user_version = {LAYOUT}")

    def namesake(self, user_id: str) -> str | None:
        """Return the claimed id that equals this one apart from case, or None."""
        rows = self._rows("SELECT user_id FROM users WHERE folded = ?", folded(user_id))
        return rows[0][0] if rows else None

    def claim(self, user_id: str) -> None:
        """Claim an id for a user, replacing an earlier claim."""
        self._change("INSERT OR REPLACE INTO users VALUES (?, ?)", [(folded(user_id), user_id)])

    def users(self) -> list[str]:
        """Return all ids that were claimed, sorted."""
        return [user_id for (user_id,) in self._rows("SELECT user_id FROM users ORDER BY user_id")]

    def expect(self, user_id: str, context_id: str, expires_at: datetime) -> None:
        """Record the expiry of a task context."""
        self._change(
            "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", [(user_id, context_id, _number(expires_at))]
        )

    def expired(self, now: datetime) -> dict[str, list[str]]:
        """Return the expired task contexts by user."""
        found: dict[str, list[str]] = {}
        query = "SELECT user_id, context_id FROM tasks WHERE expires_at <= ? ORDER BY user_id, context_id"
        for user_id, context_id in self._rows(query, _number(now)):
            found.setdefault(user_id, []).append(context_id)
        return found

    def still_expired(self, user_id: str, context_ids: Sequence[str], now: datetime) -> list[str]:
        """Return a user's contexts that are still expired; call under the user's lock."""
        query = "SELECT context_id FROM tasks WHERE user_id = ? AND +expires_at <= ?"
        due = {context_id for (context_id,) in self._rows(query, user_id, _number(now))}
        return [context_id for context_id in context_ids if context_id in due]

    def forget(self, contexts: Iterable[tuple[str, str]], now: datetime) -> None:
        """Remove contexts, by user and id, whose files are gone, unless they were written again since."""
        self._change(
            "DELETE FROM tasks WHERE user_id = ? AND context_id = ? AND expires_at <= ?",
            ((*context, _number(now)) for context in contexts),
        )

    def drop(self, user_id: str, context_id: str) -> None:
        """Remove a context whose file is gone."""
        self._change("DELETE FROM tasks WHERE user_id = ? AND context_id = ?", [(user_id, context_id)])

    def forget_user(self, user_id: str) -> None:
        """Remove all contexts of a user; the id stays claimed."""
        self._change("DELETE FROM tasks WHERE user_id = ?", [(user_id,)])

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._turn:
            return self._connection.execute(query, values).fetchall()

    def _change(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with self._changing() as connection:
            connection.executemany(statement, rows)

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._turn:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._files.commit(self._connection)
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _connected(path: Path, files: Files) -> sqlite3.Connection:
    """Return a connection; a database that is unreadable or of another layout is created again."""
    try:
        return _tried(files.database(path))
    except sqlite3.DatabaseError as problem:
        if isinstance(problem, sqlite3.OperationalError):
            raise
        files.unlink(path)
        files.unlink(path.with_name(f"{path.name}-journal"))
        return _tried(files.database(path))


def _tried(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        (layout,) = connection.execute("PRAGMA user_version").fetchone()
        if layout not in {0, LAYOUT}:
            raise sqlite3.DatabaseError("another layout")
        if layout != LAYOUT:
            for statement in _TABLES:
                connection.execute(statement)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _number(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
