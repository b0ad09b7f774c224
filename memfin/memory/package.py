"""Export packages: manifest, reading a directory or a zip archive, verification (memory design §11.1)."""

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Protocol

import msgspec

from memfin.contracts.base import Count, Record
from memfin.errors import UsageError
from memfin.text.lines import printable

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


MOST_FILES: Final = 50_000
LARGEST_PACKAGE: Final = 256 << 20
"""Bytes of all files of a package together; one user's memory is a few megabytes."""

_PIECE: Final = 1 << 20
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_REGULAR: Final = (stat.S_IFREG | 0o600) << 16
_UNIX: Final = 3
_ENCRYPTED: Final = 1
_END: Final = b"PK\x05\x06"
_END_SIZE: Final = 22
_LONGEST_END: Final = _END_SIZE + 0xFFFF
_LARGEST_DIRECTORY: Final = 32 << 20
_AT_TOP: Final = re.compile(rf"[A-Za-z0-9_-]+/{re.escape(MANIFEST)}\Z")

_NO_FILE: Final = "neither a file nor a directory of a package"
_NO_NAME: Final = "a name that no export writes"


class Package(Protocol):
    """A package opened for reading.

    Attributes:
        paths: its regular files, by path below the package's directory, the manifest included.
        foreign: what else is there, path to what it is: links, devices, names that no export writes.
    """

    paths: frozenset[str]
    foreign: dict[str, str]

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the content of a file; raise UsageError when it cannot be read."""
        ...


@contextmanager
def open_package(path: Path) -> Iterator[Package]:
    """Open a package: its directory, the directory around it, or the zip archive of it.

    Raises:
        UsageError: there is no package, or its archive is broken, encrypted or too large.
    """
    if path.is_dir():
        yield DirectoryPackage(_package_directory(path))
        return
    try:
        archive = path.open("rb")
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror or problem}") from problem
    with archive:
        try:
            _check_end(archive, path)
            package = ZipPackage(zipfile.ZipFile(archive), path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as problem:
            raise UsageError(f"{path}: no zip archive of an export: {problem}") from problem
        yield package


class DirectoryPackage:
    """A package as a directory; links in it are never followed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        found: set[str] = set()
        self.foreign: dict[str, str] = {}
        try:
            self._look(str(root), "", found)
        except OSError as problem:
            raise UsageError(f"{problem.filename or root}: {problem.strerror or problem}") from problem
        self.paths = frozenset(found)

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the content of a file."""
        try:
            descriptor = os.open(self._root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - an open descriptor
                while piece := file.read(_PIECE):
                    yield piece
        except OSError as problem:
            raise UsageError(f"{self._root / path}: {problem.strerror or problem}") from problem

    def _look(self, directory: str, below: str, found: set[str]) -> None:
        with os.scandir(directory) as entries:
            for entry in entries:
                path = below + printable(entry.name)
                if entry.is_dir(follow_symlinks=False) and is_package_path(path):
                    self._look(entry.path, f"{path}/", found)
                elif not entry.is_file(follow_symlinks=False):
                    self.foreign[path] = _NO_FILE
                elif is_package_path(path):
                    found.add(path)
                else:
                    self.foreign[path] = _NO_NAME


class ZipPackage:
    """A package as a zip archive: one directory, named after the user, with the files in it."""

    def __init__(self, archive: zipfile.ZipFile, where: Path) -> None:
        """Look at the directory of an archive.

        Raises:
            UsageError: it has too many files, is encrypted, or has a file twice.
        """
        self._archive = archive
        self._where = where
        self._infos: dict[str, zipfile.ZipInfo] = {}
        self.foreign: dict[str, str] = {}
        infos = archive.infolist()
        if len(infos) > MOST_FILES:
            raise UsageError(f"{where}: {len(infos)} files; an export has at most {MOST_FILES}")
        around = [info.filename.removesuffix(MANIFEST) for info in infos if _AT_TOP.match(info.filename)]
        for info in infos:
            self._take(info, around[0] if around else "/")
        self.paths = frozenset(self._infos)

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the content of a file, decompressed piece by piece."""
        try:
            with self._archive.open(self._infos[path]) as file:
                while piece := file.read(_PIECE):
                    yield piece
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as problem:
            raise UsageError(f"{self._where}: {path}: {problem}") from problem

    def _take(self, info: zipfile.ZipInfo, top: str) -> None:
        name = info.orig_filename  # the other one ends at a NUL
        path = printable(name.removeprefix(top))
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.flag_bits & _ENCRYPTED:
            raise UsageError(f"{self._where}: encrypted; an export is not")
        if path in self._infos or path in self.foreign:
            raise UsageError(f"{self._where}: {path} is there twice")
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            self.foreign[path] = _NO_FILE
        elif (
            not name.startswith(top)
            or name.startswith("/")
            or not is_package_path(path.removesuffix("/") or "_")
        ):
            self.foreign[printable(name)] = _NO_NAME
        elif not path.endswith("/") and path:
            self._infos[path] = info
        elif info.file_size:
            self.foreign[path] = _NO_FILE


def zipped(user_id: str, files: Mapping[str, bytes]) -> bytes:
    """Return the zip archive of a package: the same files make the same bytes, on every machine.

    Nothing is compressed, as compressors differ in what they write, and no time is in it.
    """
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path, data in sorted(files.items()):
            info = zipfile.ZipInfo(f"{user_id}/{path}", _EPOCH)
            info.create_system = _UNIX
            info.external_attr = _REGULAR
            archive.writestr(info, data)
    return target.getvalue()


def _package_directory(path: Path) -> Path:
    """Return the directory with the manifest: this one, or the only one in it."""
    if (path / MANIFEST).exists():
        return path
    inner = list(path.iterdir())
    if len(inner) == 1 and not inner[0].is_symlink() and (inner[0] / MANIFEST).exists():
        return inner[0]
    raise UsageError(f"{path}: no export package: there is no {MANIFEST} in it")


def _check_end(archive: BinaryIO, path: Path) -> None:
    """Look at the end of an archive before its directory is loaded, which may claim to be gigabytes."""
    size = archive.seek(0, os.SEEK_END)
    if size > 2 * LARGEST_PACKAGE:
        raise UsageError(f"{path}: {size} bytes; an export has at most {LARGEST_PACKAGE}")
    archive.seek(max(0, size - _LONGEST_END), os.SEEK_SET)
    tail = archive.read(_LONGEST_END)
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise UsageError(f"{path}: neither a directory nor a zip archive")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > _LARGEST_DIRECTORY:
        raise UsageError(f"{path}: its list of files is too long for an export")


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
