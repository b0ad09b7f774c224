"""Run directories as tar archives, for machines that share no file system."""

import re
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Protocol, cast

from memfin.errors import RunFault, UsageError
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine

PIECE: Final = 8 << 20
"""Maximum bytes of an archive that are in memory, or travel, at a time."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
MAX_FILES: Final = 100


class SupportsRead(Protocol):
    """A file, as far as it is read from its beginning to its end."""

    def read(self, size: int = -1, /) -> bytes | None:
        """Return the next bytes, none at the end."""
        ...


def pack_run(directory: Path, archive: Path) -> int:
    """Write the files of a run directory as a tar archive and return its size in bytes.

    Links, directories and hidden files, such as the lock, are left out.

    Raises:
        OSError: a file cannot be read or written.
    """
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(directory.iterdir()):
            if path.is_file() and not path.is_symlink() and _NAME.fullmatch(path.name):
                tar.add(path, path.name, recursive=False, filter=_plain)
    return archive.stat().st_size


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def unpack_run(archive: SupportsRead, directory: Path) -> None:
    """Put a run directory there from an archive, with its journal checked; replaces one that is there.

    Only plain files without a path are taken. The directory is the old one or the new one at any time, but
    for the moment between two renamings.

    Raises:
        UsageError: the archive is none of a run, or the journal in it is damaged.
        RunFault: the directory cannot be written.
    """
    incoming, old = (directory.with_name(f".{directory.name}.{word}") for word in ("incoming", "old"))
    try:
        for path in (incoming, old):
            shutil.rmtree(path, ignore_errors=True)
        incoming.mkdir(mode=0o700, parents=True)
        _extract(archive, incoming)
        examine(Disk(), incoming)
        with suppress(FileNotFoundError):
            directory.rename(old)
        incoming.rename(directory)
    except (tarfile.TarError, EOFError) as problem:
        raise UsageError(f"archive of {directory.name}: cannot be read: {problem}") from None
    except OSError as problem:
        raise RunFault(f"{problem.filename or directory}: {problem.strerror or problem}") from problem
    finally:
        for path in (incoming, old):
            shutil.rmtree(path, ignore_errors=True)


def _extract(archive: SupportsRead, directory: Path) -> None:
    with tarfile.open(fileobj=cast("IO[bytes]", archive), mode="r|") as tar:
        for count, info in enumerate(tar):
            source = tar.extractfile(info) if info.isreg() else None
            if source is None or not _NAME.fullmatch(info.name) or count == MAX_FILES:
                raise UsageError(f"archive of {directory.name}: holds {info.name[:200]!r}, which no run has")
            with (directory / info.name).open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
