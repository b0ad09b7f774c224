"""The bearer tokens of the memory service: who may act for whom; only their hashes are kept."""

import base64
import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from memfin.contracts.base import Record
from memfin.errors import RunFault, UsageError

TOKENS_FILE: Final = "tokens.json"
PREFIX: Final = "mft"

_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(rf"{PREFIX}_(?P<id>[0-9a-f]{{12}})_(?P<secret>[A-Za-z0-9_-]{{43}})\Z")
_USER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_PRIVATE: Final = 0o600
_NOBODYS_HASH: Final = hashlib.sha256(b"").hexdigest()


class AccessToken(Record):
    """A token, as it is kept.

    Attributes:
        token_id: names it in the clear; part of the token.
        user_id: the one user for whom it acts.
        sha256: of the whole token. Its secret has 256 random bits, so a plain hash is enough.
        created_at: when it was made.
    """

    token_id: str
    user_id: str
    sha256: str
    created_at: datetime


class _TokenFile(Record):
    schema_version: Literal["1.0"] = "1.0"
    tokens: tuple[AccessToken, ...] = ()


_DECODER: Final = msgspec.json.Decoder(_TokenFile)


class TokenFile:
    """The tokens of a data root, in a file that only its owner may read.

    Changes are serialised over processes by a lock and replace the whole file; readers take no lock and
    see the file before or after a change. A server sees changes with the next look-up.

    Raises:
        UsageError: from every method, when the file is no token file or others may read it.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Name the file; it need not exist before the first token is added."""
        self._path = path
        self._clock = clock
        self._entropy = entropy
        self._known: tuple[object, dict[str, AccessToken]] = (None, {})

    @property
    def exists(self) -> bool:
        """Whether any token was ever added."""
        return self._path.exists()

    def add(self, user_id: str) -> tuple[AccessToken, str]:
        """Make a token for a user and return its record and, for the only time, the token itself.

        Raises:
            UsageError: the user's id is none, or differs from another user's only in case.
        """
        if _USER.match(user_id) is None:
            raise UsageError(f"user id {user_id!r}: expected 1 to 64 of A-Z, a-z, 0-9, _ and -")
        with self._changing() as tokens:
            alike = {each.user_id for each in tokens if each.user_id.lower() == user_id.lower()} - {user_id}
            if alike:
                raise UsageError(f"user id {user_id!r}: there is {alike.pop()!r}, which differs only in case")
            token_id = self._entropy(_ID_BYTES).hex()
            while token_id in {each.token_id for each in tokens}:
                token_id = self._entropy(_ID_BYTES).hex()
            secret = _urlsafe(self._entropy(_SECRET_BYTES))
            shown = f"{PREFIX}_{token_id}_{secret}"
            added = AccessToken(
                token_id=token_id,
                user_id=user_id,
                sha256=_digest(shown),
                created_at=self._clock().astimezone(UTC),
            )
            tokens.append(added)
        return added, shown

    def revoke(self, token_id: str) -> bool:
        """Take a token back; return False when there is none of that id."""
        return self._remove(lambda token: token.token_id == token_id) > 0

    def forget_user(self, user_id: str) -> int:
        """Take all tokens of a user back and return how many there were."""
        return self._remove(lambda token: token.user_id == user_id)

    def all(self) -> tuple[AccessToken, ...]:
        """Return all tokens in the order in which they were added."""
        return tuple(self._current().values())

    def user_of(self, shown: str) -> str | None:
        """Return the user for whom a token acts, or None for one that is not known.

        How long it takes does not tell how much of a token's secret is right.
        """
        form = _FORM.match(shown)
        token = self._current().get(form["id"]) if form else None
        kept = token.sha256 if token is not None else _NOBODYS_HASH
        right = hmac.compare_digest(_digest(shown), kept)
        return token.user_id if token is not None and right else None

    def holds(self, token_id: str) -> bool:
        """Say whether a token of that id is known, still."""
        return token_id in self._current()

    def _current(self) -> dict[str, AccessToken]:
        """Return the tokens by id, read again when the file is another one than last time."""
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise RunFault(f"{self._path}: {problem.strerror or problem}") from problem
        version = (state.st_ino, state.st_size, state.st_mtime_ns)
        known, tokens = self._known
        if known != version:
            tokens = {token.token_id: token for token in self._read()}
            self._known = (version, tokens)
        return tokens

    def _read(self) -> tuple[AccessToken, ...]:
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise UsageError(f"{self._path}: others can read it; run chmod 600 {self._path}")
                data = file.read()
        except FileNotFoundError:
            return ()
        except OSError as problem:
            raise RunFault(f"{self._path}: {problem.strerror or problem}") from problem
        try:
            return _DECODER.decode(data).tokens
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise UsageError(f"{self._path}: not a token file: {problem}") from problem

    def _remove(self, which: Callable[[AccessToken], bool]) -> int:
        if not self.exists:
            return 0
        with self._changing() as tokens:
            kept = [token for token in tokens if not which(token)]
            removed = len(tokens) - len(kept)
            tokens[:] = kept
        return removed

    @contextmanager
    def _changing(self) -> Iterator[list[AccessToken]]:
        """Hold the lock, yield the tokens for changing and write them; nothing is written on an error."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(
                self._path.with_name(f".{TOKENS_FILE}.lock"), os.O_RDWR | os.O_CREAT, _PRIVATE
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                before = self._read()
                tokens = list(before)
                yield tokens
                if tuple(tokens) != before:
                    self._write(tuple(tokens))
            finally:
                os.close(descriptor)
        except OSError as problem:
            raise RunFault(f"{problem.filename or self._path}: {problem.strerror or problem}") from problem

    def _write(self, tokens: tuple[AccessToken, ...]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_TokenFile(tokens=tokens)), indent=1) + b"\n"
        temporary = self._path.with_name(f".{TOKENS_FILE}.tmp")
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()  # of a process that died; its mode may be anything
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - an open descriptor
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _digest(shown: str) -> str:
    return hashlib.sha256(shown.encode("utf-8", "surrogateescape")).hexdigest()
