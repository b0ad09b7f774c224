"""Export and import of a person's memory (memory design §11.1).

Packages carry the consent and the records it allows; an import is checked whole before a byte is written.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import yaml

from memfin.contracts.base import Count, Record
from memfin.contracts.memory import (
    DriftRecord,
    Feedback,
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
from memfin.memory.package import (
    MANIFEST,
    encode_manifest,
    manifest_of,
    open_package,
    verify_opened,
    zipped,
)
from memfin.memory.paths import Paths, check_id
from memfin.memory.records import MAX_RECORD, Gate, RecordDamaged, decode, encode
from memfin.memory.workspace import Workspace, allows

TASKS_KEPT: Final = timedelta(days=7)  # maximum age of an exported task context; most are gone after a day


class Imported(Record):
    """The result of an import: the user, and the number of files."""

    user_id: str
    files: Count


class Packages:
    """The service of export and import."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def export_user(self, user_id: str) -> dict[str, bytes]:
        """Return a user's package at one moment, path to content; equal memory and clock make equal bytes."""
        workspace = self._workspace
        with workspace.writing(user_id):
            consent = workspace.consent_on_file(user_id).consent
            return package_of(workspace.files, workspace.paths, user_id, consent, workspace.now())

    def export_to(self, user_id: str, out: Path, *, as_zip: bool = False) -> Path:
        """Write a user's package, whole or not at all, and return its path: ``out/user_id``, or a zip."""
        package = self.export_user(user_id)
        files = self._workspace.files
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

    def import_package(self, path: Path) -> Imported:
        """Take in an export, checked whole before any write, of a user who is not known here.

        Once the last file is staged, the import is finished whatever interrupts it.
        """
        workspace = self._workspace
        user_id, contents, tasks = read_import(path, workspace.paths, workspace.gate)
        with workspace.writing(user_id):
            if workspace.has_files(user_id):
                raise UsageError(
                    f"user {user_id}: is known here already; an import is for a user of whom there is nothing"
                )
            workspace.admit(user_id)
            workspace.mark(user_id)
            stage(workspace.files, workspace.paths, user_id, contents)
            for context in tasks:
                expires_at = context.expires_at or context.created_at
                workspace.index.expect(user_id, context.context_id, expires_at)
            workspace.finish(user_id)
        return Imported(user_id=user_id, files=len(contents))


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


class Placed(NamedTuple):
    """A file of a package: its path in the data root, its kind of record, the ids in its package path."""

    path: Path
    kind: type[Record]
    ids: tuple[str, ...] = ()
    own: str = ""  # the field with the last id


def current_consent(user_id: str) -> str:
    """Return the path of the consent in force in a package."""
    return f"consents/{user_id}.yaml"


def placed(paths: Paths, user_id: str, path: str) -> Placed | None:
    """Return the place of a file of a user's package, or None for a file that is none of theirs."""
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
        case "persona_drift":
            return consent is not None and consent.revoked_at is None
        case "user_contexts/_task":
            with suppress(RecordDamaged):
                return now - decode(data, Path(path), UserContext).created_at <= TASKS_KEPT
    return True


def _profile_in_force(consent: ProfileConsent | None) -> str | None:
    return consent.profile_context_id if consent and allows(consent, "save_to_profile") else None


class Admitted(NamedTuple):
    """A package that may be taken in: its user, content by path under the data root, task contexts."""

    user_id: str
    files: Mapping[Path, bytes]
    tasks: tuple[UserContext, ...]


def read_import(path: Path, paths: Paths, gate: Gate) -> Admitted:
    """Read and check a package, a directory or a zip archive.

    Every byte is compared with the manifest, every record with its contract, path, user and gate, and all of
    them with the consent.
    """
    user_id, contents = _verified(path)
    records = {name: _checked(paths, user_id, name, data, gate) for name, data in contents.items()}
    held = [record for found in records.values() for record in found]
    _agree(user_id, records, held)
    targets = {_place(paths, user_id, name).path: data for name, data in contents.items()}
    tasks = tuple(each for each in held if isinstance(each, UserContext) and each.scope == "task")
    return Admitted(user_id, targets, tasks)


def _verified(path: Path) -> tuple[str, dict[str, bytes]]:
    with open_package(path) as package:
        verified = verify_opened(package)
        if verified.manifest is None or verified.discrepancies:
            first, *others = verified.discrepancies
            more = f", and {len(others)} more; memfin memory verify {path} lists them" if others else ""
            raise UsageError(f"{path}: not as it was exported: {first}{more}")
        contents = {
            entry.path: package.content(entry.path, min(entry.size, MAX_FILE))
            for entry in verified.manifest.files
        }
    return check_id(verified.manifest.user_id), contents


def _place(paths: Paths, user_id: str, name: str) -> Placed:
    place = placed(paths, user_id, name)
    if place is None:
        raise UsageError(f"{name}: no file of an export of user {user_id}")
    return place


def _checked(paths: Paths, user_id: str, name: str, data: bytes, gate: Gate) -> list[Record]:
    """Return the records of a file, if they are the user's and in the form that the layer writes."""
    place = _place(paths, user_id, name)
    if name == DRIFT_INDEX:
        return _index_lines(data, name)
    try:
        record = _consent(data, name) if name.endswith(".yaml") else decode(data, Path(name), place.kind)
        as_written = encode(record, Path(name), gate)
    except (RecordDamaged, MemoryRefusal) as problem:
        detail = str(problem)
        raise UsageError(detail if detail.startswith(name) else f"{name}: {detail}") from problem
    if as_written != data:
        raise UsageError(f"{name}: not in the form in which the memory layer writes a {place.kind.__name__}")
    _names_itself(user_id, name, place, record)
    return [record]


def _index_lines(data: bytes, name: str) -> list[Record]:
    """Return the lines of the index of a drift log."""
    try:
        lines: list[Record] = [_LINE.decode(line) for line in data.split(b"\n")[:-1]]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{name}: is no index of a drift log") from problem
    if b"".join(msgspec.json.encode(line) + b"\n" for line in lines) != data:
        raise UsageError(f"{name}: not in the form in which the memory layer writes an index")
    return lines


def _consent(data: bytes, name: str) -> ProfileConsent:
    """Return a consent of a stranger's making, which no parser in C is given."""
    if len(data) > MAX_RECORD or _UNLIKE_A_CONSENT.search(data):
        raise RecordDamaged(f"{name}: is no readable ProfileConsent")
    try:
        plain = yaml.load(data.decode(), Loader=yaml.SafeLoader)
        return msgspec.convert(plain, ProfileConsent)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise RecordDamaged(f"{name}: is no readable ProfileConsent") from problem


def _names_itself(user_id: str, name: str, place: Placed, record: Record) -> None:
    if record.get("user_id", user_id) != user_id:
        raise UsageError(f"{name}: belongs to another user")
    of_another_thread = len(place.ids) > 1 and record.get("thread_id") != place.ids[0]
    if of_another_thread or (place.own and str(record[place.own]) != place.ids[-1]):
        raise UsageError(f"{name}: its content has another id than its name")
    if isinstance(record, UserContext) and f"user_contexts/_{record.scope}/" not in name:
        raise UsageError(f"{name}: its content is of another scope than its name")


def _agree(user_id: str, records: Mapping[str, list[Record]], held: Iterable[Record]) -> None:
    """Check that the records fit each other, and that the consent allows them."""
    versions = sorted(each.version for each in held if isinstance(each, ProfileConsent))
    if versions != list(range(1, len(versions) + 1)):
        raise UsageError("consents: the versions are not 1, 2, 3 and so on without a gap")
    current = next(iter(records.get(current_consent(user_id), ())), None)
    consent = current if isinstance(current, ProfileConsent) else None
    if (consent.version if consent else 0) != len(versions):
        raise UsageError(f"{current_consent(user_id)}: is not the last version of the consent")
    profiles = {each.context_id for each in held if isinstance(each, UserContext) and each.scope == "profile"}
    if profiles - {_profile_in_force(consent)}:
        raise UsageError("user_contexts/_profile: there is a profile that the consent does not put in force")
    drifted = [index_line(each) for each in held if isinstance(each, DriftRecord)]
    if any(line not in drifted for line in records.get(DRIFT_INDEX, ())):
        raise UsageError(f"{DRIFT_INDEX}: has a line that no record of the drift log stands behind")
    if drifted and (consent is None or consent.revoked_at is not None):
        raise UsageError("persona_drift: there is a drift log without a consent")
    if not allows(consent, "save_to_thread") and any(_is_open_thread(each) for each in held):
        raise UsageError("threads: there is one whose context may be read without a consent")


def _is_open_thread(record: Record) -> bool:
    if isinstance(record, UserContext) and record.scope != "thread":
        return False
    return isinstance(record, UserContext | ThreadHeader) and not record.consent_blocked
