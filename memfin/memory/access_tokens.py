"""Bearer tokens of the memory service: each acts for one user, and only its hash is kept."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec
from filelock import FileLock

from memfin.contracts.base import Record
from memfin.errors import RunFault, UsageError
from memfin.memory.files import Files, temporary
from memfin.memory.paths import folded, is_id

TOKENS_FILE: Final = "tokens.json"
PREFIX: Final = "mft"
_FORM: Final = re.compile(rf"{PREFIX}_(?P<id>[0-9a-f]{{12}})_(?P<secret>[A-Za-z0-9_-]{{43}})\Z")
_NO_TOKEN: Final = hashlib.sha256(b"").hexdigest()


class AccessToken(Record):
    """Stored token: its id in the clear, its user, and a hash of the secret, which has 256 random bits."""

    token_id: str
    user_id: str
    sha256: str
    created_at: datetime


class _Content(Record):
    schema_version: Literal["1.0"] = "1.0"
    tokens: tuple[AccessToken, ...] = ()


class TokenFile:
    """The tokens of a data root, in a file that only its owner may read.

    Changes are serialised over processes by a lock and replace the whole file; readers take no lock. Every
    method raises `UsageError` if the file is not a token file or others may read it.
    """

    def __init__(self, path: Path) -> None:
        """Name the file; it need not exist before the first token is added."""
        self._path = path
        self._files = Files()
        self._known: tuple[object, dict[str, AccessToken]] = (None, {})

    @property
    def exists(self) -> bool:
        """True once any token was added."""
        return self._path.exists()

    def add(self, user_id: str) -> tuple[AccessToken, str]:
        """Add a token for a user; return its record and the token, which cannot be retrieved again."""
        if not is_id(user_id):
            raise UsageError(f"user id {user_id!r}: expected 1 to 64 of A-Z, a-z, 0-9, _ and -")
        with self._changing() as tokens:
            users = {token.user_id for token in tokens.values()} - {user_id}
            if alike := [other for other in users if folded(other) == folded(user_id)]:
                raise UsageError(f"user id {user_id!r}: there is {alike[0]!r}, which differs only in case")
            while (token_id := secrets.token_hex(6)) in tokens:
                pass
            shown = f"{PREFIX}_{token_id}_{secrets.token_urlsafe(32)}"
            now = datetime.now(UTC)
            added = AccessToken(token_id=token_id, user_id=user_id, sha256=_digest(shown), created_at=now)
            tokens[token_id] = added
        return added, shown

    def revoke(self, token_id: str) -> bool:
        """Revoke a token; return False when there is none of that id."""
        return self._remove(lambda token: token.token_id == token_id) > 0

    def forget_user(self, user_id: str) -> int:
        """Revoke all tokens of a user and return their number."""
        return self._remove(lambda token: token.user_id == user_id)

    def all(self) -> tuple[AccessToken, ...]:
        """Return all tokens in the order in which they were added."""
        return tuple(self._current().values())

    def user_of(self, shown: str) -> str | None:
        """Return the user of a token, or None for an unknown one, in constant time."""
        form = _FORM.match(shown)
        token = self._current().get(form["id"]) if form else None
        kept = token.sha256 if token is not None else _NO_TOKEN
        right = hmac.compare_digest(_digest(shown), kept)
        return token.user_id if token is not None and right else None

    def holds(self, token_id: str) -> bool:
        """Return True while a token of that id exists."""
        return token_id in self._current()

    def _current(self) -> dict[str, AccessToken]:
        """Return the tokens by id; the file is read again once it was replaced."""
        try:
            state = self._path.stat()
            version = (state.st_ino, state.st_size, state.st_mtime_ns, state.st_mode)
            if self._known[0] == version:
                return self._known[1]
            if state.st_mode & 0o077:
                raise UsageError(f"{self._path}: others can read it; run chmod 600 {self._path}")
            content = msgspec.json.decode(self._path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise RunFault(f"{self._path}: {problem.strerror or problem}") from problem
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise UsageError(f"{self._path}: not a token file: {problem}") from problem
        self._known = (version, {token.token_id: token for token in content.tokens})
        return self._known[1]

    def _remove(self, which: Callable[[AccessToken], bool]) -> int:
        if not self.exists:
            return 0
        with self._changing() as tokens:
            found = [token.token_id for token in tokens.values() if which(token)]
            for token_id in found:
                del tokens[token_id]
        return len(found)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, AccessToken]]:
        """Yield the tokens for changing, under the lock, and write them; an error writes nothing."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_name(f".{TOKENS_FILE}.lock"), mode=0o600):
                before = self._current()
                tokens = dict(before)
                yield tokens
                if tokens != before:
                    data = msgspec.json.encode(_Content(tokens=tuple(tokens.values())))
                    self._files.unlink(temporary(self._path))  # of a process that died, with any mode
                    self._files.save(self._path, msgspec.json.format(data, indent=1) + b"\n")
        except OSError as problem:
            raise RunFault(f"{problem.filename or self._path}: {problem.strerror or problem}") from problem


def _digest(shown: str) -> str:
    return hashlib.sha256(shown.encode("utf-8", "surrogateescape")).hexdigest()
