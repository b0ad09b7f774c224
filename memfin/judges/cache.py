"""Cache of answers on disk by the SHA-256 of the request, safe to share between processes.

An entry is one file, ``ab/abcdef....json`` by the key's digits, that appears whole or not at all
(written aside, then renamed), so any number of runs and processes may use one directory. It holds the
raw answer with a checksum, and is decoded as strictly as an answer from the wire.
"""

import asyncio
import hashlib
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import anyio
import msgspec

from memfin.contracts import Record
from memfin.sandbox.calls import CallFailed
from memfin.sandbox.thread import CallThread

T = TypeVar("T")

CacheMode = Literal["off", "read", "write"]

FORMAT: Final = 1
"""Version of an entry's form, part of every key: entries of another form are never found."""

MAX_BYTES: Final = 1024 * 1024
"""Maximum size of an entry in bytes."""

WAIT: Final = 10.0
"""Seconds that the file system may take for one job."""

MAX_WRITTEN: Final = 64
"""Maximum number of entries written at a time."""


_INVALID: Final = (ValueError, msgspec.DecodeError, CallFailed)
"""Errors of the decoders of answers."""


class CachedAnswer(Record):
    """A cached answer, never a failure. Only answers of models have a format and tokens."""

    raw_answer: str
    response_format: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Entry(Record):
    key: str
    checksum: str
    answer: CachedAnswer


class AnswerCache:
    """Answers by key; ``on_warning`` is called once for every way in which the cache fails.

    A file system that does not answer within ``wait`` seconds is not used again: every look-up misses from
    then on, and nothing more is kept. Only regular files are entries.

    Attributes:
        reads: True if there are look-ups at all.
        hits, misses: look-ups that found an answer and that did not.
        damaged: entries that were invalid; they count as misses, too.
    """

    def __init__(
        self, directory: Path, mode: CacheMode, on_warning: Callable[[str], None], wait: float = WAIT
    ) -> None:
        self._directory = directory
        self.reads = mode != "off"
        self._writes = mode == "write"
        self._notify = on_warning
        self._reported: set[str] = set()
        self._under_way: dict[str, anyio.Event] = {}
        self._wait = wait
        self._hangs = False
        self._reading, self._writer = _threads()  # look-ups do not wait for writes
        self._unwritten: dict[str, CachedAnswer] = {}
        self._writing: asyncio.Task[None] | None = None
        self.hits = 0
        self.misses = 0
        self.damaged = 0

    async def claim(self, key: str, read: Callable[[CachedAnswer], T]) -> T | None:
        """Return the answer of a key, decoded by ``read``, or None to the one caller that has to obtain it.

        Other callers for the same key wait meanwhile, so that one question is not paid twice; the
        caller that got None calls `release` in the end, even after an error. An answer that ``read``
        refuses counts as damaged.
        """
        if not self.reads:
            return None
        while (other := self._under_way.get(key)) is not None:
            await other.wait()
        self._under_way[key] = anyio.Event()
        found: T | None = None
        try:
            answer = self._unwritten.get(key)
            if answer is None:
                answer = await self._in_time(self._reading, partial(self._read, key))
            if answer is not None:
                found = read(answer)
        except _INVALID as problem:
            self._damaged(self._path(key), str(problem))
        except BaseException:
            self.release(key)
            raise
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            self.release(key)
        return found

    def release(self, key: str) -> None:
        """Wake the callers that wait for the key."""
        if (event := self._under_way.pop(key, None)) is not None:
            event.set()

    def keep(self, key: str, answer: CachedAnswer) -> None:
        """Store an answer under its key; a failed write is only reported.

        It is found at once and on disk soon, at the latest when the cache is closed.
        """
        if self._writes and not self._hangs:
            self._unwritten[key] = answer
            if self._writing is None or self._writing.done():
                self._writing = asyncio.ensure_future(self._write_all())

    async def _write_all(self) -> None:
        def write() -> None:
            for key, answer in batch:
                self._write(key, answer)

        while self._unwritten:
            batch = list(islice(self._unwritten.items(), MAX_WRITTEN))
            await self._in_time(self._writer, write)
            if self._hangs:
                self._unwritten.clear()
            for key, answer in batch:
                if self._unwritten.get(key) is answer:
                    del self._unwritten[key]

    async def _in_time(self, thread: CallThread, job: Callable[[], T]) -> T | None:
        """Return the result of a job; None if the file system hangs."""
        if self._hangs:
            return None
        try:
            with anyio.fail_after(self._wait):
                return await thread.call(job)
        except TimeoutError:
            self._hangs = True
            text = f"has not answered for {self._wait:g} s; it is not used any more"
            self._report("hangs", f"the judge cache {self._directory} {text}")
            return None

    async def close(self) -> None:
        """Write the remaining answers and end the threads; a later use starts new ones."""
        try:
            if self._writing is not None:
                await asyncio.shield(self._writing)
        finally:
            self._reading.stop()
            self._writer.stop()
            self._reading, self._writer = _threads()

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key}.json"

    def _read(self, key: str) -> CachedAnswer | None:
        path = self._path(key)
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would hang
                self._damaged(path, "it is not a regular file")
                return None
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as problem:
            self._report("read", f"the judge cache {self._directory} cannot be read: {problem.strerror}")
            return None
        try:
            entry = msgspec.json.decode(data, type=_Entry)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._damaged(path, "it is not an entry")
            return None
        if entry.key != key or entry.checksum != _checksum(key, entry.answer):
            self._damaged(path, "its checksum does not fit")
            return None
        return entry.answer

    def _damaged(self, path: Path, why: str) -> None:
        self.damaged += 1
        self._report(
            "damaged",
            f"the judge cache holds a damaged entry, {path}: {why}; it is ignored, and so are others like it",
        )

    def _write(self, key: str, answer: CachedAnswer) -> None:
        path = self._path(key)
        data = msgspec.json.encode(_Entry(key=key, checksum=_checksum(key, answer), answer=answer))
        # A random name: other caches of this process and other hosts write here, too.
        temporary = path.with_name(f".{key[:8]}.{secrets.token_hex(8)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                temporary.touch(0o600, exist_ok=False)
                temporary.write_bytes(data)  # not synchronised: the checksum reveals one torn by a crash
                temporary.replace(path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        except OSError as problem:
            self._report("write", f"the judge cache {self._directory} cannot be written: {problem.strerror}")

    def _report(self, kind: str, text: str) -> None:
        if kind not in self._reported:
            self._reported.add(kind)
            self._notify(text)


def _threads() -> tuple[CallThread, CallThread]:
    return CallThread("memfin-judge-cache-read"), CallThread("memfin-judge-cache-write")


def cache_key(parts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything an answer depends on, in hexadecimal."""
    canonical = msgspec.json.encode({"format": FORMAT, **parts}, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()


def _checksum(key: str, answer: CachedAnswer) -> str:
    return hashlib.sha256(key.encode() + b"\n" + msgspec.json.encode(answer)).hexdigest()
