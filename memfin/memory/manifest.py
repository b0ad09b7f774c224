"""The manifest of an export: every file with its size and checksum, and a checksum of its own."""

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from memfin.contracts.base import Count, Record
from memfin.errors import UsageError

MANIFEST: Final = "manifest.yaml"
SCHEMA_VERSION: Final = "1.0"
LARGEST_MANIFEST: Final = 16 << 20
"""Bytes; what one user's memory lists is far below it."""

Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""SHA-256 in lower-case hexadecimal digits."""


class FileEntry(Record):
    """One file of a package.

    Attributes:
        path: below the package's directory, with slashes.
        size: bytes.
        sha256: of its content.
    """

    path: str
    size: Count
    sha256: Digest


class Manifest(Record, frozen=True, kw_only=True):
    """What an export package holds (memory design §11.1).

    Attributes:
        schema_version: of the package's layout.
        user_id: whose memory it is.
        exported_at: when, as RFC 3339 in UTC.
        files: all files but the manifest, by path.
    """

    schema_version: str = SCHEMA_VERSION
    user_id: str
    exported_at: str
    files: tuple[FileEntry, ...]


_PATH: Final = r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]{0,159}/){0,7}[A-Za-z0-9_-][A-Za-z0-9_.-]{0,159}"
_HEAD: Final = re.compile(
    rf'schema_version: "{re.escape(SCHEMA_VERSION)}"\n'
    r'user_id: "(?P<user_id>[A-Za-z0-9_-]{1,64})"\n'
    r'exported_at: "(?P<exported_at>[0-9TZ:.+-]{1,40})"\n'
    r"files:(?: \[\])?\n"
)
_FILE: Final = re.compile(
    rf'  - path: "(?P<path>{_PATH})"\n'
    r"    size: (?P<size>[0-9]{1,15})\n"
    r'    sha256: "(?P<sha256>[0-9a-f]{64})"\n'
)
_WHOLE_PATH: Final = re.compile(rf"{_PATH}\Z")


def manifest_of(user_id: str, exported_at: str, files: Mapping[str, bytes]) -> Manifest:
    """Return the manifest of a package with these files, path to content."""
    entries = (
        FileEntry(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in sorted(files.items())
    )
    return Manifest(user_id=user_id, exported_at=exported_at, files=tuple(entries))


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the one form in which a manifest is written: YAML, with its own checksum in the last line."""
    lines = [
        f'schema_version: "{manifest.schema_version}"',
        f'user_id: "{manifest.user_id}"',
        f'exported_at: "{manifest.exported_at}"',
        "files:" if manifest.files else "files: []",
    ]
    for entry in manifest.files:
        lines += [
            f'  - path: "{entry.path}"',
            f"    size: {entry.size}",
            f'    sha256: "{entry.sha256}"',
        ]
    text = "".join(f"{line}\n" for line in lines).encode("ascii")
    return text + _own_checksum(text)


def decode_manifest(data: bytes) -> Manifest:
    """Return what a manifest says.

    Only the form that `encode_manifest` writes is taken, so that every byte of it counts, and no
    general parser of YAML meets what a stranger wrote: libyaml's overflows the stack on deep nesting.

    Raises:
        UsageError: it is damaged, in another form, or lists a path that is no plain one or is there twice.
    """
    if len(data) > LARGEST_MANIFEST:
        raise UsageError(f"{MANIFEST}: longer than {LARGEST_MANIFEST} bytes")
    body = data[: data.rfind(b"\n", 0, -1) + 1]
    if data != body + _own_checksum(body):
        raise UsageError(f"{MANIFEST}: damaged: its last line is not the checksum of the lines before it")
    manifest = _parsed(body.decode("latin-1"))
    if encode_manifest(manifest) != data:
        raise UsageError(f"{MANIFEST}: written in another form than an export's")
    paths = [entry.path for entry in manifest.files]
    folded = {path.casefold() for path in paths}
    if paths != sorted(paths) or len(folded) != len(paths) or MANIFEST in folded:
        raise UsageError(f"{MANIFEST}: the paths are not in order, or one is there twice")
    return manifest


def is_package_path(path: str) -> bool:
    """Say whether a file of a package may have that path: plain names, and none that leads elsewhere."""
    return _WHOLE_PATH.match(path) is not None


def _parsed(text: str) -> Manifest:
    head = _HEAD.match(text)
    if head is None:
        raise UsageError(
            f"{MANIFEST}: does not begin with schema_version {SCHEMA_VERSION}, user_id, exported_at, files"
        )
    entries: list[FileEntry] = []
    at = head.end()
    while at < len(text):
        entry = _FILE.match(text, at)
        if entry is None:
            line = text.count("\n", 0, at) + 1
            raise UsageError(f"{MANIFEST}: line {line}: no entry of path, size and sha256 begins here")
        entries.append(FileEntry(path=entry["path"], size=int(entry["size"]), sha256=entry["sha256"]))
        at = entry.end()
    return Manifest(user_id=head["user_id"], exported_at=head["exported_at"], files=tuple(entries))


def _own_checksum(body: bytes) -> bytes:
    return f"# sha256 of the lines above: {hashlib.sha256(body).hexdigest()}\n".encode()
