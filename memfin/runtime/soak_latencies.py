"""Latencies of a finished epoch, read from its artifacts."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from memfin.contracts.reading import MAX_RECORD_BYTES, iter_lines


class _Turn(msgspec.Struct):
    turn_status: str
    latency_ms: float | None = None


class _Replay(msgspec.Struct):
    turns: list[_Turn] = []


def recorded_latencies(trace: Path) -> Iterator[float]:
    """Yield the latency of every answered turn in a ``dialog_trace.jsonl``, which is read as it is used.

    Raises:
        OSError: the file cannot be read.
        msgspec.DecodeError: a line is no trace.
    """
    decode = msgspec.json.Decoder(_Replay).decode
    with trace.open("rb") as file:
        for line in iter_lines(file, MAX_RECORD_BYTES):
            for turn in decode(line.data).turns:
                if turn.turn_status == "ok" and turn.latency_ms is not None:
                    yield turn.latency_ms


class _Answer(msgspec.Struct):
    error: str | None = None
    latency_ms: float | None = None


def answer_latencies(results: Path) -> Iterator[float]:
    """Yield the latency of every answer in a ``rag_results.jsonl``; raises as `recorded_latencies`."""
    decode = msgspec.json.Decoder(_Answer).decode
    with results.open("rb") as file:
        for line in iter_lines(file, MAX_RECORD_BYTES):
            answer = decode(line.data)
            if answer.error is None and answer.latency_ms is not None:
                yield answer.latency_ms
