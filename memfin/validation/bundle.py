"""Evidence bundles: reproducible zip archives with a manifest of hashes and a checksum at the end."""

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import IO, Annotated, Final

import msgspec

from memfin.contracts.base import Count, Record
from memfin.errors import RunFault, UsageError

MANIFEST: Final = "MANIFEST.json"
FORMAT: Final = 1
MAX_FILES: Final = 1000
MAX_BYTES: Final = 2_000_000_000
"""Maximum size of a bundle's files together, and of the archive; larger ones need other headers."""

MAX_RATIO: Final = 200
FREE_BYTES: Final = 64 << 20
"""Maximum ratio of the files' sizes to that of the archive, above so many bytes."""

Content = bytes | Path

_COMMENT: Final = b"memfin-bundle sha256:"
_END: Final = 22
"""Size of the record at the end of an archive, without the comment after it."""

_TAIL: Final = _END + len(_COMMENT) + 64
_HEADER: Final = 30
_NAME: Final = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,159}/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,159}")
_PIECE: Final = 1 << 20
_MAX_MANIFEST: Final = 4 << 20


class BundledFile(Record):
    """A file of a bundle."""

    name: str
    bytes: Count
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class BundleManifest(Record):
    """``MANIFEST.json``: the files of a bundle by name, without the manifest, and what it lacks."""

    format: int
    run_id: str
    memfin_version: str
    files: list[BundledFile]
    missing: list[str] = []


def write_bundle(
    path: Path,
    contents: Mapping[str, Content],
    *,
    run_id: str,
    version: str,
    missing: list[str],
    force: bool = False,
) -> str:
    """Write a bundle at once and return the SHA-256 of the file; the same contents give the same bytes.

    Raises:
        UsageError: the file exists, without ``force``; or the contents are too large.
        RunFault: a file cannot be read or written.
    """
    if path.is_dir() or (path.exists() and not force):
        raise UsageError(f"{path}: exists already; --force replaces a file, --out names another")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}")
    partial: Path | None = None
    try:
        with NamedTemporaryFile("w+b", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            partial = Path(file.name)
            files = []
            with zipfile.ZipFile(file, "w", allowZip64=False) as archive:
                for name, content in sorted(contents.items()):
                    files.append(_add(archive, name, content))
                manifest = BundleManifest(
                    format=FORMAT, run_id=run_id, memfin_version=version, files=files, missing=missing
                )
                _add(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
                archive.comment = _COMMENT + b"0" * 64
            size = file.seek(0, os.SEEK_END)
            _check_size(path, len(files), sum(each.bytes for each in files), size)
            file.seek(size - 64)
            file.write(_checksum(file, size).encode())
            file.flush()
            os.fsync(file.fileno())
        with partial.open("rb") as written:
            found = hashlib.file_digest(written, "sha256").hexdigest()
        partial.chmod(0o644 & path.parent.stat().st_mode)
        partial.replace(path)
    except zipfile.LargeZipFile:
        raise UsageError(f"{path}: a bundle has at most {MAX_BYTES:,} bytes") from None
    except OSError as problem:
        raise RunFault(f"{problem.filename or path}: {problem.strerror or problem}") from problem
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
    return found


def _add(archive: zipfile.ZipFile, name: str, content: Content) -> BundledFile:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3  # Unix
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    digest = hashlib.sha256()
    if isinstance(content, Path):
        info.file_size = content.stat().st_size
        with content.open("rb") as source, archive.open(info, "w") as target:
            while piece := source.read(_PIECE):
                digest.update(piece)
                target.write(piece)
    else:
        digest.update(content)
        archive.writestr(info, content)
    return BundledFile(name=name, bytes=info.file_size, sha256=digest.hexdigest())


def _checksum(file: IO[bytes], size: int) -> str:
    """Return the SHA-256 of a bundle up to its last 64 bytes, which are to be that, and move there."""
    digest, left = hashlib.sha256(), size - 64
    file.seek(0)
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()


def _check_size(path: Path, count: int, total: int, size: int) -> None:
    if count > MAX_FILES or total > MAX_BYTES:
        raise UsageError(
            f"{path}: {count} files of {total:,} bytes; a bundle has at most {MAX_FILES} of {MAX_BYTES:,}"
        )
    if total > max(FREE_BYTES, MAX_RATIO * size):
        raise UsageError(f"{path}: {size:,} bytes that claim to be {total:,}; no bundle is so dense")


def extract_bundle(path: Path, directory: Path) -> tuple[BundleManifest, list[str]]:
    """Extract a bundle into an empty directory; return its manifest, and a line for every difference to it.

    Nothing is written outside of the directory, and nothing beyond `MAX_BYTES`.

    Raises:
        UsageError: the file is no bundle, is truncated, or holds what no bundle has.
        RunFault: the directory cannot be written.
    """
    if path.exists() and not path.is_file():  # opening a pipe may wait for ever
        raise UsageError(f"{path}: cannot be read: it is not a regular file")
    try:
        with path.open("rb") as file:
            size = _check_end(path, file)
            with zipfile.ZipFile(file) as archive:
                infos = _check_entries(path, archive, size)
                intact = _checksum(file, size) == archive.comment[-64:].decode("latin-1")
                lines = [] if intact else ["the archive is not as it was written: its checksum differs"]
                digests: dict[str, tuple[int, str]] = {}
                for info in infos:
                    try:
                        digests[info.filename] = _extract(archive, info, directory)
                    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as problem:
                        lines.append(f"{info.filename}: cannot be read: {problem}")
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as problem:
        raise UsageError(f"{path}: cannot be read as a bundle: {problem}") from None
    except OSError as problem:
        raise UsageError(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    if MANIFEST not in digests:
        raise UsageError(f"{path}: {'; '.join(lines) or f'it has no {MANIFEST}'}")
    try:
        manifest = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=BundleManifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{path}: {MANIFEST} is not that of a bundle: {problem}") from None
    if manifest.format != FORMAT:
        raise UsageError(f"{path}: is of format {manifest.format}, this version reads {FORMAT}")
    return manifest, [*lines, *_differences(manifest, digests)]


def _check_end(path: Path, file: IO[bytes]) -> int:
    """Return the size of a bundle, checked for its end before the list of entries is read."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    if not (tail.startswith(b"PK\x05\x06") and tail[_END:-64] == _COMMENT):
        raise UsageError(f"{path}: is no bundle of memfin, or is truncated: it lacks the checksum at its end")
    count, length = int.from_bytes(tail[10:12], "little"), int.from_bytes(tail[12:16], "little")
    if count > MAX_FILES + 1 or length > MAX_FILES << 10 or size > MAX_BYTES:
        raise UsageError(
            f"{path}: {count} files, a list of {length:,} bytes; a bundle has at most {MAX_FILES}"
        )
    return size


def _check_entries(path: Path, archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """Return the entries in their order, checked for what no bundle has."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    _check_size(path, len(infos) - 1, sum(info.file_size for info in infos), size)
    seen: set[str] = set()
    end = 0
    for info in infos:
        name = info.orig_filename  # the other one ends at a NUL
        kind = stat.S_IFMT(info.external_attr >> 16)
        problem = (
            "is encrypted"
            if info.flag_bits & 1
            else "is a name that no bundle has"
            if not _NAME.fullmatch(name)
            else "occurs twice"
            if name.casefold() in seen
            else "is a link or another special file"
            if kind not in (0, stat.S_IFREG)
            else "is too long"
            if name == MANIFEST and info.file_size > _MAX_MANIFEST
            else "has bytes in front that belong to no file"
            if info.header_offset != end or info.extra
            else None
        )
        if problem is not None:
            raise UsageError(f"{path}: {name[:200]!r} {problem}")
        seen.add(name.casefold())
        end = info.header_offset + _HEADER + len(name) + info.compress_size
    if end != archive.start_dir:
        raise UsageError(f"{path}: there are bytes behind the last file that belong to none")
    return infos


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, directory: Path) -> tuple[int, str]:
    target = directory / info.filename
    target.parent.mkdir(exist_ok=True)
    with archive.open(info) as source, target.open("xb") as file:
        copyfileobj(source, file, _PIECE)  # ends at the size in the list, with a check of the CRC
    with target.open("rb") as file:
        return target.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _differences(manifest: BundleManifest, found: Mapping[str, tuple[int, str]]) -> Iterator[str]:
    listed = {each.name: each for each in manifest.files}
    if list(listed) != sorted(each.name for each in manifest.files):
        yield f"{MANIFEST}: the names are not in order, or one occurs twice"
    for name in sorted(found.keys() - listed.keys() - {MANIFEST}):
        yield f"{name}: was added: the manifest does not list it"
    for name, each in listed.items():
        if name not in found:
            yield f"{name}: is missing or unreadable"
        elif found[name] != (each.bytes, each.sha256):
            yield f"{name}: was changed: its SHA-256 is {found[name][1]}, the manifest says {each.sha256}"
