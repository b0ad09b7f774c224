"""Export packages: manifest, reading a directory or a zip archive, verification (memory design §11.1)."""

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Annotated, BinaryIO, Final

import msgspec

from memfin.contracts.base import Count, Record
from memfin.errors import UsageError
from memfin.text.lines import printable

MANIFEST: Final = "manifest.yaml"
SCHEMA_VERSION: Final = "1.0"
MAX_MANIFEST: Final = 16 << 20
MAX_FILES: Final = 50_000
MAX_PACKAGE: Final = 256 << 20  # bytes of all files together; one user's memory is a few megabytes
_PIECE: Final = 1 << 20
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_REGULAR: Final = (stat.S_IFREG | 0o600) << 16
_UNIX: Final = 3
_ENCRYPTED: Final = 1
_END: Final = b"PK\x05\x06"  # begins the 22 bytes, and a comment, at the end of an archive
_MAX_END: Final = 22 + 0xFFFF
_MAX_DIRECTORY: Final = 32 << 20

_PATH: Final = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]{0,159}/){0,7}[A-Za-z0-9_-][A-Za-z0-9_.-]{0,159}")
_AT_TOP: Final = re.compile(rf"[A-Za-z0-9_-]+/{re.escape(MANIFEST)}")
_HEAD: Final = re.compile(
    rf'schema_version: "{re.escape(SCHEMA_VERSION)}"\n'
    r'user_id: "(?P<user_id>[A-Za-z0-9_-]{1,64})"\n'
    r'exported_at: "(?P<exported_at>[0-9TZ:.+-]{1,40})"\n'
    r"files:(?: \[\])?\n"
)
_FILE: Final = re.compile(
    rf'  - path: "(?P<path>{_PATH.pattern})"\n'
    r"    size: (?P<size>[0-9]{1,15})\n"
    r'    sha256: "(?P<sha256>[0-9a-f]{64})"\n'
)
_FOREIGN_KIND: Final = "neither a file nor a directory of a package"
_FOREIGN_NAME: Final = "a name that no export writes"


class FileEntry(Record):
    """One file of a package: its path below the package's directory, its bytes, their checksum."""

    path: str
    size: Count
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Manifest(Record, kw_only=True):
    """The list of the files of a package, but for the manifest itself, by path."""

    schema_version: str = SCHEMA_VERSION
    user_id: str
    exported_at: str
    files: tuple[FileEntry, ...]


def manifest_of(user_id: str, exported_at: str, files: Mapping[str, bytes]) -> Manifest:
    """Return the manifest of a package with these files, path to content."""
    entries = (
        FileEntry(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in sorted(files.items())
    )
    return Manifest(user_id=user_id, exported_at=exported_at, files=tuple(entries))


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the one form in which a manifest is written: YAML, with its own checksum in the last line."""
    text = (
        f'schema_version: "{manifest.schema_version}"\n'
        f'user_id: "{manifest.user_id}"\n'
        f'exported_at: "{manifest.exported_at}"\n'
        f"files:{'' if manifest.files else ' []'}\n"
    ) + "".join(
        f'  - path: "{entry.path}"\n    size: {entry.size}\n    sha256: "{entry.sha256}"\n'
        for entry in manifest.files
    )
    return text.encode("ascii") + _own_checksum(text.encode("ascii"))


def decode_manifest(data: bytes) -> Manifest:
    """Return the content of a manifest, in the one form that `encode_manifest` writes.

    No general parser of YAML meets a stranger's text: libyaml's overflows the stack on deep nesting.
    """
    if len(data) > MAX_MANIFEST:
        raise UsageError(f"{MANIFEST}: longer than {MAX_MANIFEST} bytes")
    body = data[: data.rfind(b"\n", 0, -1) + 1]
    if data != body + _own_checksum(body):
        raise UsageError(f"{MANIFEST}: damaged: its last line is not the checksum of the lines before it")
    text = body.decode("latin-1")
    head = _HEAD.match(text)
    if head is None:
        raise UsageError(
            f"{MANIFEST}: does not begin with schema_version {SCHEMA_VERSION}, user_id, exported_at, files"
        )
    entries = tuple(
        FileEntry(path=path, size=int(size), sha256=sha256)
        for path, size, sha256 in _FILE.findall(text, head.end())
    )
    manifest = Manifest(user_id=head["user_id"], exported_at=head["exported_at"], files=entries)
    if encode_manifest(manifest) != data:
        raise UsageError(f"{MANIFEST}: written in another form than an export's")
    paths = [entry.path for entry in entries]
    folded = {path.casefold() for path in paths}
    if paths != sorted(paths) or len(folded) != len(paths) or MANIFEST in folded:
        raise UsageError(f"{MANIFEST}: the paths are not in order, or one is there twice")
    return manifest


def _own_checksum(body: bytes) -> bytes:
    return f"# sha256 of the lines above: {hashlib.sha256(body).hexdigest()}\n".encode()


class Package:
    """An open package: its regular files, path to opener, and foreign entries, path to problem."""

    def __init__(self) -> None:
        self.files: dict[str, Callable[[], IO[bytes]]] = {}
        self.foreign: dict[str, str] = {}

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the content of a file piece by piece; raise UsageError when it cannot be read."""
        try:
            with self.files[path]() as file:
                while piece := file.read(_PIECE):
                    yield piece
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as problem:
            raise UsageError(f"{path}: {getattr(problem, 'strerror', None) or problem}") from problem

    def content(self, path: str, limit: int) -> bytes:
        """Return the content of a file; raise UsageError when it is longer, or cannot be read."""
        data = bytearray()
        for piece in self.pieces(path):
            data += piece
            if len(data) > limit:
                raise UsageError(f"{path}: longer than {limit} bytes")
        return bytes(data)


@contextmanager
def open_package(path: Path) -> Iterator[Package]:
    """Open a package: its directory, the directory around it, or the zip archive of it."""
    package = Package()
    with ExitStack() as stack:
        try:
            if path.is_dir():
                _add_directory(package, str(_package_directory(path)), "")
            else:
                archive = stack.enter_context(path.open("rb"))
                _check_end(archive, path)
                _add_archive(package, zipfile.ZipFile(archive), path)
        except OSError as problem:
            raise UsageError(f"{problem.filename or path}: {problem.strerror or problem}") from problem
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as problem:
            raise UsageError(f"{path}: no zip archive of an export: {problem}") from problem
        yield package


def _package_directory(path: Path) -> Path:
    """Return the directory with the manifest: this one, or the only one in it."""
    if (path / MANIFEST).exists():
        return path
    inner = list(path.iterdir())
    if len(inner) == 1 and not inner[0].is_symlink() and (inner[0] / MANIFEST).exists():
        return inner[0]
    raise UsageError(f"{path}: no export package: there is no {MANIFEST} in it")


def _add_directory(package: Package, directory: str, below: str) -> None:
    """Add the files of a directory; links are never followed."""
    with os.scandir(directory) as entries:
        for entry in entries:
            path = below + printable(entry.name)
            if entry.is_dir(follow_symlinks=False) and _PATH.fullmatch(path):
                _add_directory(package, entry.path, f"{path}/")
            elif not entry.is_file(follow_symlinks=False):
                package.foreign[path] = _FOREIGN_KIND
            elif _PATH.fullmatch(path):
                package.files[path] = partial(_opened, entry.path)
            else:
                package.foreign[path] = _FOREIGN_NAME


def _opened(path: str) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0)


def _check_end(archive: BinaryIO, path: Path) -> None:
    """Look at the end of an archive before its directory is loaded, which may claim to be gigabytes."""
    size = archive.seek(0, os.SEEK_END)
    if size > 2 * MAX_PACKAGE:
        raise UsageError(f"{path}: {size} bytes; an export has at most {MAX_PACKAGE}")
    archive.seek(max(0, size - _MAX_END), os.SEEK_SET)
    tail = archive.read(_MAX_END)
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _MAX_END - 0xFFFF:
        raise UsageError(f"{path}: neither a directory nor a zip archive")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > _MAX_DIRECTORY:
        raise UsageError(f"{path}: its list of files is too long for an export")


def _add_archive(package: Package, archive: zipfile.ZipFile, where: Path) -> None:
    """Add the files of an archive: one directory, named after the user, with the files in it."""
    infos = archive.infolist()
    if len(infos) > MAX_FILES:
        raise UsageError(f"{where}: {len(infos)} files; an export has at most {MAX_FILES}")
    around = (info.filename for info in infos if _AT_TOP.fullmatch(info.filename))
    top = next(around, "/").removesuffix(MANIFEST)
    for info in infos:
        name = info.orig_filename  # the other one ends at a NUL
        path = printable(name.removeprefix(top))
        kind = stat.S_IFMT(info.external_attr >> 16)
        plain = name.startswith(top) and not name.startswith("/")
        if info.flag_bits & _ENCRYPTED:
            raise UsageError(f"{where}: encrypted; an export is not")
        if path in package.files or path in package.foreign:
            raise UsageError(f"{where}: {path} is there twice")
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            package.foreign[path] = _FOREIGN_KIND
        elif not plain or not _PATH.fullmatch(path.removesuffix("/") or "_"):
            package.foreign[printable(name)] = _FOREIGN_NAME
        elif not path.endswith("/") and path:
            package.files[path] = partial(archive.open, info)
        elif info.file_size:
            package.foreign[path] = _FOREIGN_KIND


def zipped(user_id: str, files: Mapping[str, bytes]) -> bytes:
    """Return the zip archive of a package, uncompressed and without times: equal bytes on every machine."""
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path, data in sorted(files.items()):
            info = zipfile.ZipInfo(f"{user_id}/{path}", _EPOCH)
            info.create_system = _UNIX
            info.external_attr = _REGULAR
            archive.writestr(info, data)
    return target.getvalue()


class Discrepancy(Record):
    """One difference between a package and its manifest: the path of the file, and the problem."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class Verified(Record):
    """The result of a verification; the manifest is None when it is unusable."""

    manifest: Manifest | None
    discrepancies: tuple[Discrepancy, ...]


def verify_package(path: Path) -> Verified:
    """Compare every byte of a package, a directory or a zip archive, with its manifest."""
    with open_package(path) as package:
        verified = verify_opened(package)
        manifest = verified.manifest
        if path.is_dir() or manifest is None or verified.discrepancies:
            return verified
        files = {entry.path: package.content(entry.path, entry.size) for entry in manifest.files}
        if path.read_bytes() == zipped(manifest.user_id, files | {MANIFEST: encode_manifest(manifest)}):
            return verified
        problem = "not byte for byte as an export writes it; the files in it are"
        return verified.replace(discrepancies=(Discrepancy(path="the archive", problem=problem),))


def verify_opened(package: Package) -> Verified:
    """Compare the files of an opened package with its manifest."""
    if MANIFEST not in package.files:
        return Verified(manifest=None, discrepancies=(Discrepancy(path=MANIFEST, problem="missing"),))
    try:
        manifest = decode_manifest(package.content(MANIFEST, MAX_MANIFEST))
    except UsageError as problem:
        detail = str(problem).removeprefix(f"{MANIFEST}: ")
        return Verified(manifest=None, discrepancies=(Discrepancy(path=MANIFEST, problem=detail),))
    found = (Discrepancy(path=path, problem=detail) for path, detail in _differences(package, manifest))
    return Verified(manifest=manifest, discrepancies=tuple(sorted(found, key=str)))


def _differences(package: Package, manifest: Manifest) -> Iterator[tuple[str, str]]:
    listed = {entry.path: entry for entry in manifest.files}
    for path, problem in package.foreign.items():
        yield path, f"added: {problem}"
    for path in package.files.keys() - listed.keys() - {MANIFEST}:
        yield path, "added: the manifest does not list it"
    total = sum(entry.size for entry in manifest.files)
    if total > MAX_PACKAGE:
        yield MANIFEST, f"lists {total} bytes; a package has at most {MAX_PACKAGE}"
        return
    for path, entry in listed.items():
        if path not in package.files:
            yield path, "missing"
        elif (change := _change(package, entry)) is not None:
            yield path, change


def _change(package: Package, entry: FileEntry) -> str | None:
    """Return the change of a file against its entry; no more of it is read than it should have."""
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
