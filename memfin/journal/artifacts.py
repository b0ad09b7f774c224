"""Checksums of a run's settings and manifest, recorded in the commit log to detect later changes."""

import os
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from memfin.journal.commits import COMMITS, decode_line, digest
from memfin.journal.disk import Disk
from memfin.journal.recovery import log_lines

CONFIG: Final = "config.json"
MANIFEST: Final = "run_manifest.json"
FIRST_ARTIFACTS: Final = (CONFIG, MANIFEST)
"""Files that a run writes first and needs to resume; all others follow from them and from its rows."""

NOT_AS_WRITTEN: Final = "is not as it was written: commits.log holds another checksum"

_LASTING: Final = (
    "trace_version",
    "run_id",
    "dataset_path",
    "started_at",
    "model_name",
    "workers_dialog",
    "workers_judge",
    "suite",
)
"""Fields of the manifest that are the same at the end of a run as at its beginning."""

_OPENED: Final = b'"kind":"opened"'
_BEGINNING: Final = 80
"""Number of bytes at the beginning of a log line that contain its kind."""


def artifact_checks(artifacts: Mapping[str, bytes]) -> dict[str, str]:
    """Return the checksums of settings and manifest by name, of the latter without what changes in a run."""
    return {
        name: digest(_lasting(artifacts[name]) if name == MANIFEST else artifacts[name])
        for name in FIRST_ARTIFACTS
        if name in artifacts
    }


def _lasting(manifest: bytes) -> bytes:
    try:
        fields = msgspec.json.decode(manifest, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return manifest
    return msgspec.json.encode({name: fields[name] for name in _LASTING if name in fields})


def artifacts_on_disk(disk: Disk, directory: Path) -> dict[str, bytes]:
    """Return settings and manifest of a run by name, as far as they exist.

    Raises:
        OSError: one cannot be read, or is a symbolic link.
    """
    found: dict[str, bytes] = {}
    for name in FIRST_ARTIFACTS:
        with suppress(FileNotFoundError), disk.opening(directory / name, os.O_RDONLY) as file:
            found[name] = disk.read(file, disk.size(file), 0)
    return found


def changed_artifacts(disk: Disk, directory: Path, known: Mapping[str, Container[str]]) -> list[str]:
    """Return the names of settings and manifest that differ from their checksums.

    ``known`` are the checksums that the log holds; a log of an earlier release holds none.

    Raises:
        OSError: one cannot be read.
    """
    checks = artifact_checks(artifacts_on_disk(disk, directory))
    return [name for name, check in checks.items() if name in known and check not in known[name]]


def logged_checks(disk: Disk, directory: Path) -> dict[str, set[str]]:
    """Return the checksums of artifacts in a commit log by name; other lines are ignored.

    Raises:
        OSError: the log cannot be read.
    """
    known: dict[str, set[str]] = {}
    with disk.opening(directory / COMMITS, os.O_RDONLY) as file:
        for line in log_lines(disk, file):
            record = decode_line(line) if _OPENED in line[:_BEGINNING] else None
            for name, check in record.artifacts.items() if record is not None else ():
                known.setdefault(name, set()).add(check)
    return known
