"""Latencies of a finished epoch, read from its artifacts."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from memfin.contracts.reading import MAX_RECORD_BYTES, iter_lines


class _Turn(msgspec.Struct):
    turn_status: str
    latency_ms: float | None = None


class Replay(msgspec.Struct):
    """A line of ``dialog_trace.jsonl``."""

    turns: list[_Turn] = []

    def latencies(self) -> list[float | None]:
        """Return the latencies of the answered turns."""
        return [turn.latency_ms for turn in self.turns if turn.turn_status == "ok"]


class Answer(msgspec.Struct):
    """A line of ``rag_results.jsonl``."""

    error: str | None = None
    latency_ms: float | None = None

    def latencies(self) -> list[float | None]:
        """Return the latency of the answer."""
        return [self.latency_ms] if self.error is None else []


def recorded_latencies(rows: Path, kind: type[Replay | Answer] = Replay) -> Iterator[float]:
    """Yield the latency of every answer in a file of rows, which is read as it is used.

    Raises:
        OSError: the file cannot be read.
        msgspec.DecodeError: a line is no such row.
    """
    decode = msgspec.json.Decoder(kind).decode
    with rows.open("rb") as file:
        for line in iter_lines(file, MAX_RECORD_BYTES):
            yield from (latency for latency in decode(line.data).latencies() if latency is not None)
