"""Upload of a finished run to an address of fsspec, and its download, verified by SHA-256."""

import hashlib
import importlib
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from memfin.contracts import Record, RunManifest
from memfin.contracts.reading import InvalidRecord, decode, read_json
from memfin.contracts.run import RUN_ID
from memfin.contracts.upload import FILE_NAME, INDEX, StoredFile, StoredRun
from memfin.errors import MemfinError, RunFault, UsageError
from memfin.journal.artifacts import CONFIG, MANIFEST
from memfin.journal.disk import CREATE, PRIVATE, Disk, refuse_links
from memfin.journal.layout import DIALOGUES, QUESTIONS
from memfin.journal.lock import LOCK, is_locked
from memfin.runtime.outputs import pretty_json
from memfin.runtime.soak_directory import is_soak
from memfin.sandbox.references import describe
from memfin.secrets import Scrubber, url_credentials
from memfin.version import __version__

R = TypeVar("R", bound=Record)

PIECE: Final = 1 << 20
"""Bytes that are read and written at a time."""

MAX_INDEX: Final = 1 << 24
"""Maximum bytes of an index and of a manifest that are read from a store."""

_BLOCK: Final = 8 << 20
_MAX_BLOCKS: Final = 9_000
"""Blocks of an upload in parts: a store takes 10,000, so those of larger files are larger."""

_REFUSED: Final = (
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ValueError,
)
"""Errors that mean a wrong address or no rights there, not a fault of the machine."""


class Transfer(NamedTuple):
    """Progress of a transfer: the file, and bytes done of all; an upload counts reading back, too."""

    name: str
    done: int
    total: int


class UploadResult(NamedTuple):
    """Result of an upload: its address without credentials, and how much was sent.

    ``files`` counts all files, ``sent`` those that were not there yet. ``left_out`` names entries of the
    directory that are no files of a run, such as folders.
    """

    url: str
    files: int
    sent: int
    sent_bytes: int
    left_out: tuple[str, ...]


OnTransfer = Callable[[Transfer], None]


def shown_address(url: str) -> str:
    """Return an address without the credentials in it."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if not separator:
        return url
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}".partition("?")[0].rstrip("/")


class _Store(NamedTuple):
    """A directory of a back end. Its errors name addresses without credentials."""

    fs: Any
    path: str
    shown: str
    scrubber: Scrubber

    def below(self, name: str) -> "_Store":
        """Return the directory of that name in this one."""
        return self._replace(path=f"{self.path}/{name}", shown=f"{self.shown}/{name}")

    @property
    def _is_local(self) -> bool:
        return "file" in (self.fs.protocol, *self.fs.protocol)

    def _line(self, problem: BaseException) -> str:
        return self.scrubber.scrub(describe(problem))

    @contextmanager
    def _access(self, name: str) -> Iterator[str]:
        """Give the path of a file; errors of the back end but `FileNotFoundError` become ours."""
        try:
            yield f"{self.path}/{name}"
        except (MemfinError, FileNotFoundError):
            raise
        except NotImplementedError:
            raise UsageError(f"{self.shown}: its back end cannot do that, such as write files") from None
        except Exception as problem:  # noqa: BLE001 - a back end is foreign code
            kind = UsageError if isinstance(problem, _REFUSED) else RunFault
            raise kind(f"{self.shown}/{name}: {self._line(problem)}") from None

    def make(self) -> None:
        """Create the directory where the store has directories.

        Where a path begins with a bucket, nothing is created: a misspelt bucket is an error.
        """
        try:
            with self._access(""):
                if self._is_local:
                    Path(self.path).mkdir(PRIVATE, parents=True, exist_ok=True)
                elif self.path.startswith("/"):
                    self.fs.makedirs(self.path, exist_ok=True)
        except FileNotFoundError as problem:
            raise UsageError(f"{self.shown}: cannot be created: {self._line(problem)}") from None

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if there is none of that name."""
        try:
            with self._access(name) as path:
                return int(self.fs.info(path)["size"] or 0)
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(FileNotFoundError), self._access(name) as path:
            self.fs.rm_file(path)

    def write(self, name: str, pieces: Iterator[bytes], size: int) -> str:
        """Write a file of about that size and return the SHA-256 of what was written."""
        digest = hashlib.sha256()
        block = max(_BLOCK, -(-size // (_MAX_BLOCKS * PIECE)) * PIECE)
        try:
            with self._access(name) as path, self.fs.open(path, "wb", block_size=block) as file:
                for piece in pieces:
                    digest.update(piece)
                    file.write(piece)
        except FileNotFoundError as problem:
            raise UsageError(f"{self.shown}: cannot be written: {self._line(problem)}") from None
        return digest.hexdigest()

    def read(self, name: str, limit: int) -> Iterator[bytes]:
        """Yield a file in pieces, up to ``limit`` bytes.

        Raises:
            FileNotFoundError: it is not there.
            RunFault: the store refuses.
        """
        with self._access(name) as path, self.fs.open(path, "rb", block_size=_BLOCK) as file:
            while limit and (piece := file.read(min(PIECE, limit))):
                limit -= len(piece)
                yield piece

    def read_record(self, name: str, kind: type[R]) -> R | None:
        """Return a small file; None where there is none.

        Raises:
            InvalidRecord: it is damaged, or something else.
        """
        try:
            data = b"".join(self.read(name, MAX_INDEX))
        except FileNotFoundError:
            return None
        return decode(data, kind)

    def probe(self) -> None:
        """Write, read and delete a small file."""
        name, data = f"memfin-probe-{secrets.token_hex(8)}", b"memfin\n"
        self.write(name, iter((data,)), len(data))
        try:
            found = b"".join(self.read(name, len(data) + 1))
        except FileNotFoundError:
            found = b""
        finally:
            self.remove(name)
        if found != data:
            raise UsageError(f"{self.shown}: a file that was written there is not read back as it was")

    def refuse_own(self, directory: Path) -> None:
        """Refuse to write into the run directory itself, or any other."""
        inside = self._is_local and Path(self.path).resolve().is_relative_to(directory.resolve())
        if inside or self.size(LOCK) is not None:
            raise UsageError(f"{self.shown}: is a run directory; upload to another place")


def _store_at(url: str) -> _Store:
    """Find the back end of an address.

    Raises:
        UsageError: it is no address, or the package that it needs is not installed.
    """
    shown, scrubber = shown_address(url), Scrubber(url_credentials(url))
    scheme, separator, _ = url.partition("://")
    if not url.strip() or "::" in url or (separator and "?" in url):
        raise UsageError(f"address {shown!r}: must be SCHEME://PLACE/PATH or a path, without ? and ::")
    try:
        core, registry = (importlib.import_module(f"fsspec.{name}") for name in ("core", "registry"))
    except ImportError:
        raise UsageError(f"{shown}: uploads need the extra: pip install 'memfin[upload]'") from None
    try:
        fs, path = core.url_to_fs(url, skip_instance_cache=True)
    except ImportError as problem:
        package = registry.known_implementations[scheme]["class"].partition(".")[0]
        advice = describe(problem) if package == "fsspec" else f"pip install {package}"
        raise UsageError(f"{shown}: {scheme}:// needs a package that is not installed: {advice}") from None
    except Exception as problem:  # noqa: BLE001 - a back end is foreign code
        raise UsageError(f"{shown}: {scrubber.scrub(describe(problem))}") from None
    return _Store(fs, str(path).rstrip("/"), shown, scrubber)


# ---- uploads


def check_target(url: str, directory: Path | None = None) -> None:
    """Write, read and delete a small file at an address, so that a wrong one is found before a run.

    ``directory`` is the run directory to come, which must not be the target itself, nor be there already.

    Raises:
        UsageError: the address is wrong, cannot be written, or needs a package that is not installed.
        RunFault: the store fails.
    """
    store = _store_at(url)
    if directory is not None:
        target = store.below(directory.name)
        target.refuse_own(directory)
        if not directory.exists() and any(target.size(name) is not None for name in (INDEX, MANIFEST)):
            raise UsageError(f"{target.shown}: another run is there; choose another name or address")
    store.make()
    store.probe()


def upload_run(directory: Path, url: str, on_transfer: OnTransfer | None = None) -> UploadResult:
    """Copy the files of a finished run to ``url/RUN_ID``, read each back, then write ``artefacts.json``.

    Files that an earlier upload of the run has left with the same digest are not sent again. While files are
    sent there is no ``artefacts.json``: without it the upload is incomplete, and is simply repeated.

    Raises:
        UsageError: no finished run, or one in use; a wrong address; another run of that name is there.
        RunFault: the store fails, a file is not read back as it was sent, or one changed meanwhile.
    """
    manifest = _finished(directory)
    store = _store_at(url).below(manifest.run_id)
    store.refuse_own(directory)
    names, left_out = _file_names(directory)
    states = {name: _state(directory / name) for name in names}
    known = _known(store, manifest)
    index = {each.name: each for each in known.files} if known is not None else {}
    progress = _Progress(on_transfer, 2 * sum(size for size, _ in states.values()))
    stored: list[StoredFile] = []
    sent: list[StoredFile] = []
    store.make()
    for name in names:
        path, size = directory / name, states[name][0]
        if (
            (file := index.get(name)) is not None
            and file == _sum(name, progress.of(name, _pieces(path)))
            and store.size(name) == size
        ):
            progress.skip(size)
            stored.append(file)
            continue
        if not sent:
            store.remove(INDEX)
        file = StoredFile(
            name=name, size=size, sha256=store.write(name, progress.of(name, _pieces(path)), size)
        )
        found = _read_back(store, name, size, progress)
        if found != file:
            raise RunFault(
                f"{store.shown}/{name}: was not read back as it was sent ({found.size} of {size} bytes, "
                f"SHA-256 {found.sha256} for {file.sha256}); {directory} is untouched"
            )
        stored.append(file)
        sent.append(file)
    if changed := [name for name in names if _state(directory / name) != states[name]]:
        raise RunFault(f"{directory}: {', '.join(changed)} changed during the upload")
    complete = StoredRun(
        format=1,
        run_id=manifest.run_id,
        started_at=manifest.started_at,
        memfin_version=__version__,
        files=stored,
    )
    if known is None or sent or known.files != stored:
        data = pretty_json(complete)
        store.write(INDEX, iter((data,)), len(data))
        if b"".join(store.read(INDEX, len(data) + 1)) != data:
            store.remove(INDEX)
            raise RunFault(f"{store.shown}/{INDEX}: was not read back as it was sent")
    return UploadResult(store.shown, len(stored), len(sent), sum(file.size for file in sent), left_out)


def _finished(directory: Path) -> RunManifest:
    """Return the manifest of a finished run that nothing writes to."""
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory; give the directory of a run, such as runs/RUN_ID")
    if is_soak(directory):
        one = directory / "epochs" / "000001"
        raise UsageError(f"{directory}: is a soak; upload the runs that are its epochs, such as {one}")
    if is_locked(directory / LOCK):
        raise UsageError(f"{directory}: is in use by a run; upload it when it has ended")
    refuse_links(directory)
    manifest = read_json(directory / MANIFEST, RunManifest)
    ends = any(all((directory / name).is_file() for name in suite.ends) for suite in (DIALOGUES, QUESTIONS))
    if manifest.ended_at is None or not ends:
        raise UsageError(f"{directory}: the run has not finished; memfin resume {directory} goes on with it")
    if (shard := _shard_of(directory)) is not None:
        raise UsageError(f"{directory}: is shard {shard} of a run; memfin merge makes one run of all shards")
    if not RUN_ID.match(manifest.run_id):
        raise UsageError(f"{directory / MANIFEST}: run_id {manifest.run_id!r} is no name of a run")
    return manifest


def _shard_of(directory: Path) -> str | None:
    """Return the shard that a run directory holds, None for a whole run."""
    config = directory / CONFIG
    settings = read_json(config, dict[str, Any]).get("settings") if config.is_file() else None
    return settings.get("shard") if isinstance(settings, dict) else None


def _file_names(directory: Path) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of the files to upload, the manifest first, and what is left out but hidden files."""
    names: list[str] = []
    left_out: list[str] = []
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path.name == INDEX:
            continue
        (names if path.is_file() and FILE_NAME.match(path.name) else left_out).append(path.name)
    return sorted(names, key=lambda name: (name != MANIFEST, name)), tuple(left_out)


def _known(store: _Store, manifest: RunManifest) -> StoredRun | None:
    """Return the index of an earlier upload of the same run, None where there is none or it is torn.

    Raises:
        UsageError: another run is there.
    """
    index: StoredRun | None = None
    found: StoredRun | RunManifest | None = None
    with suppress(InvalidRecord):
        found = index = store.read_record(INDEX, StoredRun)
    with suppress(InvalidRecord):
        found = found or store.read_record(MANIFEST, RunManifest)
    if found is not None and (found.run_id, found.started_at) != (manifest.run_id, manifest.started_at):
        raise UsageError(
            f"{store.shown}: holds another run of that name, which started at {found.started_at}; "
            "upload to another address"
        )
    return index


class _Progress:
    """Counts bytes for whoever watches."""

    def __init__(self, on_transfer: OnTransfer | None, total: int) -> None:
        self._on_transfer = on_transfer
        self._done = 0
        self._total = total

    def of(self, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._done += len(piece)
            if self._on_transfer is not None:
                self._on_transfer(Transfer(name, min(self._done, self._total), self._total))
            yield piece

    def skip(self, size: int) -> None:
        self._done += size


def _state(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError as problem:
        raise RunFault(f"{path}: {problem.strerror or problem}") from problem
    return state.st_size, state.st_mtime_ns


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
    except OSError as problem:
        raise RunFault(f"{path}: {problem.strerror or problem}") from problem


def _sum(name: str, pieces: Iterator[bytes]) -> StoredFile:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return StoredFile(name=name, size=size, sha256=digest.hexdigest())


def _read_back(store: _Store, name: str, size: int, progress: _Progress) -> StoredFile:
    try:
        return _sum(name, progress.of(name, store.read(name, size + 1)))
    except FileNotFoundError:
        raise RunFault(f"{store.shown}/{name}: is not there after it was sent") from None


# ---- downloads


def download_run(url: str, out: Path, on_transfer: OnTransfer | None = None) -> StoredRun:
    """Copy an uploaded run from its address to a new directory, which appears when every digest fits.

    Raises:
        UsageError: no complete upload is there, or ``out`` exists.
        RunFault: the store or the disk fails, or a file is not the one that was uploaded.
    """
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out}: exists already; choose another name")
    store = _store_at(url)
    try:
        index = store.read_record(INDEX, StoredRun)
    except InvalidRecord as problem:
        raise UsageError(f"{store.shown}/{INDEX}: {problem}") from None
    if index is None:
        raise UsageError(
            f"{store.shown}: has no {INDEX}: it is no upload of a run, or an incomplete one; "
            "give the address of a run, such as s3://bucket/runs/RUN_ID"
        )
    if not RUN_ID.match(index.run_id):
        raise UsageError(f"{store.shown}/{INDEX}: run_id {index.run_id!r} is no name of a run")
    if len({file.name for file in index.files}) < len(index.files):
        raise UsageError(f"{store.shown}/{INDEX}: lists a file twice")
    progress = _Progress(on_transfer, sum(file.size for file in index.files))
    disk = Disk()
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(8)}.tmp")
    try:
        out.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        disk.mkdir(temporary)
        for file in index.files:
            _fetch(store, file, temporary / file.name, disk, progress)
        disk.fsync_directory(temporary)
        temporary.rename(out)
        disk.fsync_directory(out.parent)
    except OSError as problem:
        raise RunFault(f"{out}: {problem.strerror or problem}") from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return index


def _fetch(store: _Store, file: StoredFile, path: Path, disk: Disk, progress: _Progress) -> None:
    """Write one file of a store to the disk.

    Raises:
        RunFault: it is not the one that was uploaded.
        OSError: the disk refuses.
    """
    with disk.opening(path, CREATE) as descriptor:

        def written(pieces: Iterator[bytes]) -> Iterator[bytes]:
            for piece in pieces:
                disk.write_all(descriptor, piece)
                yield piece

        try:
            pieces = store.read(file.name, file.size + 1)
            found = _sum(file.name, written(progress.of(file.name, pieces)))
        except FileNotFoundError:
            raise RunFault(f"{store.shown}/{file.name}: is not there any more") from None
        disk.fsync(descriptor)
    if found != file:
        raise RunFault(
            f"{store.shown}/{file.name}: is not as it was uploaded ({found.size} of {file.size} bytes, "
            f"SHA-256 {found.sha256} for {file.sha256})"
        )
