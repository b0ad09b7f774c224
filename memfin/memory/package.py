"""Export packages: manifest, verification, export and import (memory design §11.1).

Packages carry the consent and the records it allows; an import is checked whole before a byte is written.
"""

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Annotated, BinaryIO, Final, NamedTuple

import msgspec
import yaml

from memfin.contracts.base import Count, Record
from memfin.contracts.memory import (
    DriftRecord,
    Feedback,
    MemoryItem,
    ProfileConsent,
    ThreadHeader,
    ThreadRefresh,
    TrainingAssetCandidate,
    UserContext,
)
from memfin.errors import UsageError
from memfin.memory.drift import DriftIndexLine, index_line
from memfin.memory.errors import MemoryRefusal, NotFound
from memfin.memory.files import Files, stage
from memfin.memory.items import MAX_ITEMS
from memfin.memory.paths import Paths, check_id
from memfin.memory.records import MAX_RECORD, Gate, RecordDamaged, decode, encode
from memfin.memory.workspace import Workspace, allows
from memfin.text.lines import printable

MANIFEST: Final = "manifest.yaml"
SCHEMA_VERSION: Final = "1.0"
MAX_MANIFEST: Final = 16 << 20
MAX_FILES: Final = 50_000
MAX_PACKAGE: Final = 256 << 20  # bytes of all files together; one user's memory is a few megabytes
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
TASKS_KEPT: Final = timedelta(days=7)  # maximum age of an exported task context; most are gone after a day
DRIFT_INDEX: Final = "persona_drift/_index.jsonl"
MAX_FILE: Final = 16 << 20  # bytes; a record has at most 64 KiB, the index of a drift log is longer
_HISTORY: Final = "consents/_history"
# The kind of each file of a package by its path, which is that of the data root without the user's directory,
# and the field that holds the last id of the path.
_KINDS: Final[tuple[tuple[re.Pattern[str], type[Record], str], ...]] = tuple(
    (re.compile(pattern.replace("ID", "([A-Za-z0-9_-]{1,64})") + r"\Z"), kind, own)
    for pattern, kind, own in (
        (rf"{_HISTORY}/([1-9][0-9]{{0,8}})\.yaml", ProfileConsent, "version"),
        (r"user_contexts/_profile/ID\.json", UserContext, "context_id"),
        (r"user_contexts/_thread/ID/ID\.json", UserContext, "context_id"),
        (r"user_contexts/_task/ID\.json", UserContext, "context_id"),
        (r"user_contexts/_items/ID\.json", MemoryItem, "item_id"),
        (r"user_contexts/_thread/ID/_items/ID\.json", MemoryItem, "item_id"),
        (r"persona_drift/_index\.jsonl", Record, ""),
        (r"persona_drift/ID\.json", DriftRecord, "drift_id"),
        (r"training_candidates/ID\.json", TrainingAssetCandidate, "candidate_id"),
        (r"threads/ID\.json", ThreadHeader, "thread_id"),
        (r"threads/ID/ID\.json", ThreadRefresh, "refresh_id"),
        (r"feedback/ID\.json", Feedback, "feedback_id"),
    )
)
_LINE: Final = msgspec.json.Decoder(DriftIndexLine)
# Aliases, merges, tags and brackets: what makes a small YAML file a large or a deep one.
_UNLIKE_A_CONSENT: Final = re.compile(rb"[^A-Za-z0-9_:.+' \n-]")


class FileEntry(Record):
    """One file of a package: its path below the package's directory, its size, and its checksum."""

    path: str
    size: Count
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Manifest(Record, kw_only=True):
    """Manifest of a package: its files by path, without the manifest itself."""

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
    """Encode a manifest in its canonical form: YAML, with its own checksum in the last line."""
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
    """Decode a manifest in the canonical form of `encode_manifest`.

    No general YAML parser reads untrusted text: libyaml overflows the stack on deep nesting.
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
        raise UsageError(f"{MANIFEST}: not in the form that an export writes")
    paths = [entry.path for entry in entries]
    folded = {path.casefold() for path in paths}
    if paths != sorted(paths) or len(folded) != len(paths) or MANIFEST in folded:
        raise UsageError(f"{MANIFEST}: the paths are not in order, or one occurs twice")
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
                while piece := file.read(1 << 20):
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
            elif path.exists() and not path.is_file():  # a pipe would be waited for
                raise UsageError(f"{path}: neither a directory nor a zip archive")
            else:
                archive = stack.enter_context(path.open("rb"))
                _check_end(archive, path)
                _add_archive(package, zipfile.ZipFile(archive), path)
        except OSError as problem:
            raise UsageError(f"{problem.filename or path}: {problem.strerror or problem}") from problem
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as problem:
            raise UsageError(f"{path}: not a zip archive of an export: {problem}") from problem
        yield package


def _package_directory(path: Path) -> Path:
    """Return the directory with the manifest: the given one, or the only one in it."""
    if (path / MANIFEST).exists():
        return path
    inner = list(path.iterdir())
    if len(inner) == 1 and not inner[0].is_symlink() and (inner[0] / MANIFEST).exists():
        return inner[0]
    raise UsageError(f"{path}: not an export package: it has no {MANIFEST}")


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
    """Check the end of an archive before its directory is loaded, which may claim to be gigabytes."""
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
        if info.flag_bits & 1:
            raise UsageError(f"{where}: encrypted; an export is not")
        if path in package.files or path in package.foreign:
            raise UsageError(f"{where}: {path} occurs twice")
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            package.foreign[path] = _FOREIGN_KIND
        elif not plain or not _PATH.fullmatch(path.removesuffix("/") or "_"):
            package.foreign[printable(name)] = _FOREIGN_NAME
        elif not path.endswith("/") and path:
            package.files[path] = partial(archive.open, info)
        elif info.file_size:
            package.foreign[path] = _FOREIGN_KIND


def zipped(user_id: str, files: Mapping[str, bytes]) -> bytes:
    """Return the zip archive of a package, uncompressed and without times: the same bytes everywhere."""
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path, data in sorted(files.items()):
            info = zipfile.ZipInfo(f"{user_id}/{path}", (1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # Unix
            info.external_attr = (stat.S_IFREG | 0o600) << 16
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


def verify_package(path: str | Path) -> Verified:
    """Compare every byte of a package, a directory or a zip archive, with its manifest."""
    path = Path(path)
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
    """Return the change of a file against its entry; at most the listed size is read."""
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
    return None if digest.hexdigest() == entry.sha256 else "changed: the content differs from the one listed"


class Imported(Record):
    """The result of an import: the user, and the number of files."""

    user_id: str
    files: Count


class Packages:
    """Service of export and import."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def export_user(self, user_id: str) -> dict[str, bytes]:
        """Export a user's package, path to content; the same data and time give the same bytes."""
        workspace = self._workspace
        with workspace.writing(user_id):
            consent = workspace.consent_on_file(user_id).consent
            return package_of(workspace.files, workspace.paths, user_id, consent, workspace.now())

    def export_to(self, user_id: str, out: str | Path, *, as_zip: bool = False) -> Path:
        """Write a user's package atomically and return its path: ``out/user_id``, or a zip."""
        package = self.export_user(user_id)
        files = self._workspace.files
        out = Path(out)
        target = out / (f"{user_id}.zip" if as_zip else user_id)
        if target.exists() or target.is_symlink():
            raise UsageError(f"{target}: exists already; name another directory with --out, or move it away")
        with self._workspace.faults():
            if as_zip:
                files.save(target, zipped(user_id, package))
                return target
            # The directory appears with its last file; the next export removes an interrupted one.
            unfinished = out / f".{user_id}.tmp"
            files.remove_tree(unfinished)
            for path, data in sorted(package.items()):
                files.save(unfinished / path, data)
            files.replace(unfinished, target)
            files.fsync_directory(out)
            return target

    def import_package(self, path: str | Path) -> Imported:
        """Import a package of an unknown user, completely checked before the first write.

        Once the last file is staged, the import is finished after any interruption.
        """
        workspace = self._workspace
        user_id, contents, tasks = read_import(Path(path), workspace.paths, workspace.gate)
        with workspace.writing(user_id):
            if workspace.has_files(user_id):
                raise UsageError(
                    f"user {user_id}: exists already; only a user without any data can be imported"
                )
            workspace.admit(user_id)
            workspace.mark(user_id)
            stage(workspace.files, workspace.paths, user_id, contents)
            for context in tasks:
                expires_at = context.expires_at or context.created_at
                workspace.index.expect(user_id, context.context_id, expires_at)
            workspace.finish(user_id)
        return Imported(user_id=user_id, files=len(contents))


class Placed(NamedTuple):
    """A file of a package: its path in the data root, its record type, and the ids in its package path."""

    path: Path
    kind: type[Record]
    ids: tuple[str, ...] = ()
    own: str = ""  # the field with the last id


def current_consent(user_id: str) -> str:
    """Return the path of the consent in force in a package."""
    return f"consents/{user_id}.yaml"


def placed(paths: Paths, user_id: str, path: str) -> Placed | None:
    """Return the place of a file of a user's package, or None for a foreign file."""
    if path == current_consent(user_id):
        return Placed(paths.consent(user_id), ProfileConsent)
    for pattern, kind, own in _KINDS:
        if form := pattern.match(path):
            tree = _HISTORY if path.startswith(_HISTORY) else path.partition("/")[0]
            below = path.removeprefix(f"{tree}/")
            return Placed(paths.root / tree / check_id(user_id) / below, kind, form.groups(), own)
    return None


def _files_below(files: Files, directory: Path, path: str) -> Iterator[str]:
    for name in files.entries(directory):
        if name.endswith((".json", ".jsonl", ".yaml")):
            yield f"{path}/{name}"
        else:
            yield from _files_below(files, directory / name, f"{path}/{name}")


def package_of(
    files: Files, paths: Paths, user_id: str, consent: ProfileConsent | None, now: datetime
) -> dict[str, bytes]:
    """Return a package, path to content, without forbidden records; call under the user's lock."""
    found: dict[str, bytes] = {}
    own = [
        (each, each.parent.relative_to(paths.root).as_posix())
        for each in (paths.history(user_id), *paths.trees(user_id))
    ]
    below = (path for directory, tree in own for path in _files_below(files, directory, tree))
    for path in (current_consent(user_id), *below):
        place = placed(paths, user_id, path)
        data = None if place is None else files.load(place.path)
        if data is not None and _is_exported(path, data, consent, now):
            found[path] = data
    if not found:
        raise NotFound(f"user {user_id}: there is nothing to export")
    exported_at = now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    manifest = manifest_of(user_id, exported_at, found)
    return found | {MANIFEST: encode_manifest(manifest)}


def _is_exported(path: str, data: bytes, consent: ProfileConsent | None, now: datetime) -> bool:
    directory, _, name = path.rpartition("/")
    match directory:
        case "user_contexts/_profile":
            return name.removesuffix(".json") == _profile_in_force(consent)
        case "user_contexts/_items":
            return allows(consent, "save_to_profile")
        case "persona_drift":
            return consent is not None and consent.revoked_at is None
        case "user_contexts/_task":
            with suppress(RecordDamaged):
                return now - decode(data, Path(path), UserContext).created_at <= TASKS_KEPT
    return True


def _profile_in_force(consent: ProfileConsent | None) -> str | None:
    return consent.profile_context_id if consent and allows(consent, "save_to_profile") else None


def read_import(path: Path, paths: Paths, gate: Gate) -> tuple[str, dict[Path, bytes], list[UserContext]]:
    """Read and check a package; return its user, content by path under the data root, and task contexts.

    Every byte is compared with the manifest, every record with its contract, path, user and gate, and all of
    them with the consent.
    """
    targets: dict[Path, bytes] = {}
    records: dict[str, list[Record]] = {}
    with open_package(path) as package:
        verified = verify_opened(package)
        if verified.manifest is None or verified.discrepancies:
            first, *others = verified.discrepancies
            more = f", and {len(others)} more; memfin memory verify {path} lists them" if others else ""
            raise UsageError(f"{path}: changed since its export: {first}{more}")
        user_id = check_id(verified.manifest.user_id)
        for entry in verified.manifest.files:
            place = placed(paths, user_id, entry.path)
            if place is None:
                raise UsageError(f"{entry.path}: not a file of an export of user {user_id}")
            data = targets[place.path] = package.content(entry.path, min(entry.size, MAX_FILE))
            records[entry.path] = _checked(place, user_id, entry.path, data, gate)
    held = [record for found in records.values() for record in found]
    _agree(user_id, records, held)
    tasks = [each for each in held if isinstance(each, UserContext) and each.scope == "task"]
    return user_id, targets, tasks


def _checked(place: Placed, user_id: str, name: str, data: bytes, gate: Gate) -> list[Record]:
    """Return the records of a file, checked for their user and the canonical form."""
    if name == DRIFT_INDEX:
        return _index_lines(data, name)
    try:
        record = _consent(data, name) if name.endswith(".yaml") else decode(data, Path(name), place.kind)
        as_written = encode(record, Path(name), gate)
    except (RecordDamaged, MemoryRefusal) as problem:
        detail = str(problem)
        raise UsageError(detail if detail.startswith(name) else f"{name}: {detail}") from problem
    if as_written != data:
        raise UsageError(f"{name}: not in the form of a {place.kind.__name__} written by the memory layer")
    _names_itself(user_id, name, place, record)
    return [record]


def _index_lines(data: bytes, name: str) -> list[Record]:
    try:
        lines: list[Record] = [_LINE.decode(line) for line in data.split(b"\n")[:-1]]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{name}: is not an index of a drift log") from problem
    if b"".join(msgspec.json.encode(line) + b"\n" for line in lines) != data:
        raise UsageError(f"{name}: not in the form of an index written by the memory layer")
    return lines


def _consent(data: bytes, name: str) -> ProfileConsent:
    """Parse an untrusted consent, without any parser in C."""
    if len(data) > MAX_RECORD or _UNLIKE_A_CONSENT.search(data):
        raise RecordDamaged(f"{name}: is not a readable ProfileConsent")
    try:
        plain = yaml.load(data.decode(), Loader=yaml.SafeLoader)
        return msgspec.convert(plain, ProfileConsent)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise RecordDamaged(f"{name}: is not a readable ProfileConsent") from problem


def _names_itself(user_id: str, name: str, place: Placed, record: Record) -> None:
    if record.get("user_id", user_id) != user_id:
        raise UsageError(f"{name}: belongs to another user")
    of_another_thread = len(place.ids) > 1 and record.get("thread_id") != place.ids[0]
    if of_another_thread or (place.own and place.ids[-1:] != (str(record[place.own]),)):
        raise UsageError(f"{name}: its id differs from its file name")
    if isinstance(record, MemoryItem) and (record.thread_id is None) != (len(place.ids) == 1):
        raise UsageError(f"{name}: its thread differs from its file name")
    if isinstance(record, UserContext) and f"user_contexts/_{record.scope}/" not in name:
        raise UsageError(f"{name}: its scope differs from its file name")


def _agree(user_id: str, records: Mapping[str, list[Record]], held: Iterable[Record]) -> None:
    """Check that the records are consistent and allowed by the consent."""
    versions = sorted(each.version for each in held if isinstance(each, ProfileConsent))
    if versions != list(range(1, len(versions) + 1)):
        raise UsageError("consents: the versions are not 1, 2, 3 and so on without a gap")
    current = next(iter(records.get(current_consent(user_id), ())), None)
    consent = current if isinstance(current, ProfileConsent) else None
    if (consent.version if consent else 0) != len(versions):
        raise UsageError(f"{current_consent(user_id)}: is not the last version of the consent")
    profiles = {each.context_id for each in held if isinstance(each, UserContext) and each.scope == "profile"}
    if profiles - {_profile_in_force(consent)}:
        raise UsageError("user_contexts/_profile: the consent does not allow the profile")
    items = [each for each in held if isinstance(each, MemoryItem) and each.thread_id is None]
    if items and not allows(consent, "save_to_profile"):
        raise UsageError("user_contexts/_items: the consent does not allow items")
    every = [each.item_id for each in held if isinstance(each, MemoryItem)]
    if len(every) > min(MAX_ITEMS, len(set(every))):
        raise UsageError(f"user_contexts: more than {MAX_ITEMS} items, or two of one id")
    drifted = [index_line(each) for each in held if isinstance(each, DriftRecord)]
    if any(line not in drifted for line in records.get(DRIFT_INDEX, ())):
        raise UsageError(f"{DRIFT_INDEX}: has a line without a record in the drift log")
    if drifted and (consent is None or consent.revoked_at is not None):
        raise UsageError("persona_drift: there is a drift log without consent")
    if not allows(consent, "save_to_thread") and any(map(_is_open_thread, held)):
        raise UsageError("threads: one has a context that is readable without consent")


def _is_open_thread(record: Record) -> bool:
    if isinstance(record, MemoryItem):
        return record.thread_id is not None and not record.consent_blocked
    of_thread = isinstance(record, ThreadHeader) or record.get("scope") == "thread"
    return of_thread and not record["consent_blocked"]
