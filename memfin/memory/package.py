"""An export package as a directory or a zip archive: reading what strangers made, writing our own."""

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from memfin.errors import UsageError
from memfin.memory.manifest import MANIFEST, is_package_path
from memfin.text.lines import printable

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
