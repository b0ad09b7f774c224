"""A person's memory as a package to take away: every file of hers, a manifest, nothing of anybody else's.

Packages carry what exists (memory design §11.1): all versions of the consent, the profile in force,
thread contexts, task contexts of the last seven days, the drift log, the metadata of training candidates,
and the threads and feedback that the others refer to.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from memfin.contracts.memory import ProfileConsent, UserContext
from memfin.errors import UsageError
from memfin.memory.consent import allows
from memfin.memory.errors import NotFound
from memfin.memory.files import Files
from memfin.memory.layout import files_of, placed
from memfin.memory.manifest import MANIFEST, encode_manifest, manifest_of
from memfin.memory.package import zipped
from memfin.memory.paths import Paths
from memfin.memory.records import RecordDamaged, decode

TASKS_KEPT: Final = timedelta(days=7)
"""How old a task context may be to be exported; most are gone after a day."""


def package_of(
    files: Files, paths: Paths, user_id: str, consent: ProfileConsent | None, now: datetime
) -> dict[str, bytes]:
    """Return the files of a user's package, path to content, the manifest among them.

    The caller holds the user's lock. What the consent no longer allows is not in it, even where a purge
    that was interrupted has left it on the disk.

    Args:
        files: the file system.
        paths: of the data root.
        user_id: whose memory.
        consent: the last version of the consent; None where there is none that can be read.
        now: the time that the manifest bears.

    Raises:
        NotFound: there is nothing of that user.
    """
    found: dict[str, bytes] = {}
    for path in files_of(files, paths, user_id):
        place = placed(paths, user_id, path)
        data = None if place is None else files.load(place.path)
        if data is not None and _is_exported(path, data, consent, now):
            found[path] = data
    if not found:
        raise NotFound(f"user {user_id}: there is nothing to export")
    exported_at = now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    manifest = manifest_of(user_id, exported_at, found)
    return found | {MANIFEST: encode_manifest(manifest)}


def write_package(files: Files, out: Path, user_id: str, package: Mapping[str, bytes]) -> Path:
    """Write a package as the directory ``out/user_id`` and return it.

    The directory appears with its last file: what an interruption leaves has another name, and the next
    export removes it.

    Raises:
        UsageError: there is one already.
        OSError: the file system refused.
    """
    target = _free(out / user_id)
    unfinished = out / f".{user_id}.tmp"
    files.remove_tree(unfinished)
    for path, data in sorted(package.items()):
        files.save(unfinished / path, data)
    files.replace(unfinished, target)
    files.fsync_directory(out)
    return target


def write_archive(files: Files, out: Path, user_id: str, package: Mapping[str, bytes]) -> Path:
    """Write a package as the file ``out/user_id.zip`` and return it.

    Raises:
        UsageError: there is one already.
        OSError: the file system refused.
    """
    target = _free(out / f"{user_id}.zip")
    files.save(target, zipped(user_id, package))
    return target


def _free(target: Path) -> Path:
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target}: exists already; name another directory with --out, or move it away")
    return target


def _is_exported(path: str, data: bytes, consent: ProfileConsent | None, now: datetime) -> bool:
    kind, _, name = path.rpartition("/")
    if kind == "user_contexts/_profile":
        return (
            consent is not None
            and allows(consent, "save_to_profile")
            and name == f"{consent.profile_context_id}.json"
        )
    if kind == "persona_drift":
        return consent is not None and consent.revoked_at is None
    if kind == "user_contexts/_task":
        try:
            return now - decode(data, Path(path), UserContext).created_at <= TASKS_KEPT
        except RecordDamaged:
            return True
    return True
