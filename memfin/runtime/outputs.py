"""Writing a run's files from values in hand, for programs that did the replay themselves."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from memfin.contracts import DialogTrace, EvalSummary, Record, RunManifest, TurnEvalRow, non_finite_path
from memfin.contracts.reading import InvalidRecord, convert
from memfin.journal import DIALOG_TRACE, TURN_EVAL
from memfin.journal.disk import PRIVATE, Disk
from memfin.metrics.aggregate import encode_summary

R = TypeVar("R", bound=Record)


def write_eval_outputs(
    output_dir: str | os.PathLike[str],
    manifest: RunManifest | Mapping[str, Any],
    dialog_traces: Iterable[DialogTrace | Mapping[str, Any]],
    turn_rows: Iterable[TurnEvalRow | Mapping[str, Any]],
    summary: EvalSummary | Mapping[str, Any],
) -> None:
    """Write manifest, traces, rows and summary of a run into a directory (metrics contract section 7).

    Everything is held against the contract before the first file is written; plain mappings are
    taken too. Each file appears complete or not at all. ``memfin report`` can read the result.

    Raises:
        InvalidRecord: a value breaks the contract; the message begins with its path.
        OSError: the directory cannot be written.
    """
    files = {
        "run_manifest.json": pretty_json(_held(manifest, RunManifest)),
        DIALOG_TRACE: _lines(dialog_traces, DialogTrace),
        TURN_EVAL: _lines(turn_rows, TurnEvalRow),
        "metrics_summary.json": encode_summary(_held(summary, EvalSummary)),
    }
    directory = Path(output_dir)
    directory.mkdir(PRIVATE, parents=True, exist_ok=True)
    disk = Disk()
    for name, data in files.items():
        disk.write_whole(directory / name, data)


def pretty_json(value: object) -> bytes:
    """Return the value as indented UTF-8 JSON with a line end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _held(value: R | Mapping[str, Any], kind: type[R]) -> R:
    plain = msgspec.to_builtins(value)
    if path := non_finite_path(plain):
        raise InvalidRecord(f"{path}: the number is not finite")
    return convert(plain, kind)


def _lines(values: Iterable[R | Mapping[str, Any]], kind: type[R]) -> bytes:
    return b"".join(msgspec.json.encode(_held(value, kind)) + b"\n" for value in values)
