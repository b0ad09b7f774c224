"""Whether an export package is, byte for byte, what was exported (memory design §11.1)."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memfin.contracts.base import Record
from memfin.errors import UsageError
from memfin.memory.manifest import (
    LARGEST_MANIFEST,
    MANIFEST,
    FileEntry,
    Manifest,
    decode_manifest,
    encode_manifest,
)
from memfin.memory.package import LARGEST_PACKAGE, Package, open_package, zipped

_ARCHIVE: Final = "the archive"


class Discrepancy(Record):
    """One way in which a package differs from what its manifest says.

    Attributes:
        path: of the file, below the package's directory.
        problem: what is wrong with it.
    """

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class Verified(Record):
    """A package that was looked through.

    Attributes:
        manifest: what it says to hold; None when the manifest itself is unusable.
        discrepancies: all differences, by path; none for a package that is whole.
    """

    manifest: Manifest | None
    discrepancies: tuple[Discrepancy, ...]


def verify_package(path: Path) -> Verified:
    """Compare every byte of a package, a directory or a zip archive, with its manifest.

    Raises:
        UsageError: there is no package at the path, or it cannot be read as one.
    """
    with open_package(path) as package:
        verified = verify_opened(package)
        if path.is_dir() or verified.manifest is None or verified.discrepancies:
            return verified
        found = (
            ()
            if _is_canonical(path, package, verified.manifest)
            else (
                Discrepancy(
                    path=_ARCHIVE, problem="not byte for byte as an export writes it; the files in it are"
                ),
            )
        )
        return verified.replace(discrepancies=found)


def verify_opened(package: Package) -> Verified:
    """Compare the files of an opened package with its manifest."""
    if MANIFEST not in package.paths:
        return Verified(manifest=None, discrepancies=(Discrepancy(path=MANIFEST, problem="missing"),))
    try:
        manifest = decode_manifest(content(package, MANIFEST, LARGEST_MANIFEST))
    except UsageError as problem:
        detail = str(problem).removeprefix(f"{MANIFEST}: ")
        return Verified(manifest=None, discrepancies=(Discrepancy(path=MANIFEST, problem=detail),))
    return Verified(manifest=manifest, discrepancies=tuple(sorted(_differences(package, manifest), key=str)))


def content(package: Package, path: str, most: int) -> bytes:
    """Return the content of a file of at most that many bytes.

    Raises:
        UsageError: it is longer, or cannot be read.
    """
    data = bytearray()
    for piece in package.pieces(path):
        data += piece
        if len(data) > most:
            raise UsageError(f"{path}: longer than {most} bytes")
    return bytes(data)


def _differences(package: Package, manifest: Manifest) -> Iterator[Discrepancy]:
    listed = {entry.path: entry for entry in manifest.files}
    for path, what in package.foreign.items():
        yield Discrepancy(path=path, problem=f"added: {what}")
    for path in package.paths - listed.keys() - {MANIFEST}:
        yield Discrepancy(path=path, problem="added: the manifest does not list it")
    total = sum(entry.size for entry in manifest.files)
    if total > LARGEST_PACKAGE:
        yield Discrepancy(
            path=MANIFEST, problem=f"lists {total} bytes; a package has at most {LARGEST_PACKAGE}"
        )
        return
    for path, entry in listed.items():
        if path not in package.paths:
            yield Discrepancy(path=path, problem="missing")
        elif problem := _change(package, entry):
            yield Discrepancy(path=path, problem=problem)


def _change(package: Package, entry: FileEntry) -> str | None:
    """Return how a file differs from its entry; no more of it is read than it should have."""
    digest, size = hashlib.sha256(), 0
    try:
        for piece in package.pieces(entry.path):
            size += len(piece)
            if size > entry.size:
                return f"changed: longer than the {entry.size} bytes listed"
            digest.update(piece)
    except UsageError as problem:
        return f"unreadable: {problem}"
    if size < entry.size:
        return f"changed: {size} bytes instead of the {entry.size} listed"
    return None if digest.hexdigest() == entry.sha256 else "changed: another content than listed"


def _is_canonical(path: Path, package: Package, manifest: Manifest) -> bool:
    files = {entry.path: content(package, entry.path, entry.size) for entry in manifest.files}
    return path.read_bytes() == zipped(manifest.user_id, files | {MANIFEST: encode_manifest(manifest)})
