"""Distributions of times that can be merged: t-digests, and what of them goes into the artifacts.

docs/adr/0011-latency-percentiles.md says why this one. Percentiles of a whole soak come from
the merged digests of its epochs; an average of percentiles is the percentile of nothing.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from fastdigest import TDigest

from memfin.contracts.reading import MAX_RECORD_BYTES, iter_lines
from memfin.contracts.soak import Distribution

CENTROIDS: Final = 200
_BATCH: Final = 4096


class Digest:
    """A t-digest of times in milliseconds, of bounded size."""

    def __init__(self) -> None:
        self._digest = TDigest(max_centroids=CENTROIDS)
        self._held: list[float] = []

    def add(self, value: float) -> None:
        """Add one time."""
        self._held.append(value)
        if len(self._held) >= _BATCH:
            self._settle()

    def add_all(self, values: Iterable[float]) -> None:
        """Add many times without holding them all."""
        stream = iter(values)
        while batch := list(islice(stream, _BATCH)):
            self._held += batch
            self._settle()

    def merge(self, other: Distribution) -> None:
        """Take in a distribution with its centroids."""
        if not other.count:
            return
        self._settle()
        self._digest = self._digest.merge(
            TDigest.from_dict(
                {
                    "max_centroids": CENTROIDS,
                    "n_values": other.count,
                    "mass": float(other.count),
                    "sum": other.mean * other.count,
                    "min": other.min,
                    "max": other.max,
                    "centroids": [{"m": mean, "c": weight} for mean, weight in other.centroids],
                }
            )
        )

    def distribution(self, *, centroids: bool = True) -> Distribution:
        """Return the figures so far; without ``centroids`` they cannot be merged any more."""
        self._settle()
        digest = self._digest
        if not digest.n_values:
            return Distribution()
        return Distribution(
            count=digest.n_values,
            mean=digest.sum() / digest.n_values,
            min=digest.min(),
            p50=digest.quantile(0.50),
            p90=digest.quantile(0.90),
            p99=digest.quantile(0.99),
            max=digest.max(),
            centroids=list(digest.centroids) if centroids else [],
        )

    def _settle(self) -> None:
        if self._held:
            self._digest.batch_update(self._held)
            self._held = []


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
