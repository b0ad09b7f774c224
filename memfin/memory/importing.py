"""Taking an export in again: what strangers packed is checked to the last record before a byte is written."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import yaml

from memfin.contracts.base import Record
from memfin.contracts.memory import DriftRecord, ProfileConsent, ThreadHeader, UserContext
from memfin.errors import UsageError
from memfin.memory.consent import allows
from memfin.memory.drift.log import DriftIndexLine, index_line
from memfin.memory.errors import MemoryRefusal
from memfin.memory.ids import check_id
from memfin.memory.layout import DRIFT_INDEX, Placed, current_consent, placed
from memfin.memory.package import open_package
from memfin.memory.paths import Paths
from memfin.memory.records import LARGEST, Gate, RecordDamaged, decode, encode
from memfin.memory.verify import content, verify_opened

LARGEST_FILE: Final = 16 << 20
"""Bytes; a record has at most 64 KiB, the index of a drift log is longer."""

_OWN_ID: Final[Mapping[str, str]] = {
    "UserContext": "context_id",
    "DriftRecord": "drift_id",
    "TrainingAssetCandidate": "candidate_id",
    "ThreadHeader": "thread_id",
    "ThreadRefresh": "refresh_id",
    "Feedback": "feedback_id",
}
_LINE: Final = msgspec.json.Decoder(DriftIndexLine)
_UNLIKE_A_CONSENT: Final = re.compile(rb"[^A-Za-z0-9_:.+' \n-]")
"""Aliases, merges, tags and brackets: what makes a small YAML file a large or a deep one."""


class Admitted(NamedTuple):
    """A package that may be taken in.

    Attributes:
        user_id: whose it is.
        files: content by path under the data root.
        tasks: the task contexts, which expire.
    """

    user_id: str
    files: Mapping[Path, bytes]
    tasks: tuple[UserContext, ...]


def admit(path: Path, paths: Paths, gate: Gate) -> Admitted:
    """Read and check a package, a directory or a zip archive.

    The manifest is compared with every byte, then every record with its contract, its path, its user and
    the sensitive-input gate, then all of them with the consent: nothing comes in that the layer itself
    would not have written.

    Raises:
        UsageError: there is no package, or something in it is not as an export has it; names the file.
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
            entry.path: content(package, entry.path, min(entry.size, LARGEST_FILE))
            for entry in verified.manifest.files
        }
    return check_id(verified.manifest.user_id), contents


def _place(paths: Paths, user_id: str, name: str) -> Placed:
    place = placed(paths, user_id, name)
    if place is None:
        raise UsageError(f"{name}: no file of an export of user {user_id}")
    return place


def _checked(paths: Paths, user_id: str, name: str, data: bytes, gate: Gate) -> list[Record]:
    """Return the records of a file, which are hers, and in the form in which the layer writes them."""
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
    if len(data) > LARGEST or _UNLIKE_A_CONSENT.search(data):
        raise RecordDamaged(f"{name}: is no readable ProfileConsent")
    try:
        plain = yaml.load(data.decode(), Loader=yaml.SafeLoader)
        return msgspec.convert(plain, ProfileConsent)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise RecordDamaged(f"{name}: is no readable ProfileConsent") from problem


def _names_itself(user_id: str, name: str, place: Placed, record: Record) -> None:
    if record.get("user_id", user_id) != user_id:
        raise UsageError(f"{name}: belongs to another user")
    own = _OWN_ID.get(type(record).__name__)
    ids = (*place.ids[:-1], str(record[own])) if own else place.ids
    if isinstance(record, ProfileConsent):
        ids = (str(record.version),) if place.ids else ()
    if ids != place.ids or (len(ids) > 1 and record.get("thread_id") != ids[0]):
        raise UsageError(f"{name}: its content has another id than its name")
    if isinstance(record, UserContext) and f"user_contexts/_{record.scope}/" not in name:
        raise UsageError(f"{name}: its content is of another scope than its name")


def _agree(user_id: str, records: Mapping[str, list[Record]], held: Iterable[Record]) -> None:
    """Check that the records fit each other: what is there is what the consent allows to be there."""
    versions = sorted(each.version for each in held if isinstance(each, ProfileConsent))
    if versions != list(range(1, len(versions) + 1)):
        raise UsageError("consents: the versions are not 1, 2, 3 and so on without a gap")
    current = next(iter(records.get(current_consent(user_id), ())), None)
    consent = current if isinstance(current, ProfileConsent) else None
    if (consent.version if consent else 0) != len(versions):
        raise UsageError(f"{current_consent(user_id)}: is not the last version of the consent")
    profiles = {each.context_id for each in held if isinstance(each, UserContext) and each.scope == "profile"}
    if profiles - {consent.profile_context_id if consent and allows(consent, "save_to_profile") else None}:
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
