"""The gate before the lock: long texts are looked through before their user's other writers have to wait."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from memfin.memory.errors import MemoryRefusal
from memfin.memory.records import LARGEST, Gate

_UNREADABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


class _Verdict(NamedTuple):
    """A field that was read: its value, as it was then, and why it is refused, if it is."""

    value: Any
    refusal: MemoryRefusal | None


class EarlyGate:
    """A gate that remembers, for the time of one operation, what it found before that took a lock.

    Refusals are told when the gate is asked, not before: so an operation fails for the same reason as if
    nothing had been read early. What was read must be exactly what is asked about; all else is read then.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._here = threading.local()

    @contextmanager
    def reading(self, said: Mapping[str, Any]) -> Iterator[None]:
        """Read what somebody said, by the names that it will have in records; remember that within."""
        self._here.verdicts = dict(self._verdicts(said))
        try:
            yield
        finally:
            self._here.verdicts = {}

    def __call__(self, texts: Any, field: str) -> None:
        """Return when there is nothing in the texts that is never saved.

        Raises:
            SensitiveInput, InvalidInput: as the gate itself.
        """
        verdicts: Mapping[str, _Verdict] = getattr(self._here, "verdicts", {})
        if field or not verdicts or not isinstance(texts, Mapping):
            self._gate(texts, field)
            return
        unread: dict[str, Any] = {}
        for name, value in texts.items():
            verdict = verdicts.get(name)
            if verdict is None or verdict.value != value:
                unread[name] = value
            elif verdict.refusal is not None:
                raise verdict.refusal
        if unread:
            self._gate(unread, field)

    def _verdicts(self, said: Mapping[str, Any]) -> Iterator[tuple[str, _Verdict]]:
        for name, value in said.items():
            try:
                plain = msgspec.to_builtins(value)  # a copy, which nobody changes meanwhile
                if len(msgspec.json.encode(plain)) > LARGEST:
                    continue  # refused for its size, unread
            except _UNREADABLE:
                continue  # refused for what it is, unread
            yield name, _Verdict(plain, self._refusal(name, plain))

    def _refusal(self, name: str, plain: Any) -> MemoryRefusal | None:
        try:
            self._gate({name: plain}, "")
        except MemoryRefusal as refusal:
            return refusal
        return None
