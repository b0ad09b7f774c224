"""Workspace of a data root: files, locks, index and recovery, shared by all services of a store.

The consent is the authority, and its rename the moment of a revocation. Records that have to go are found by
consent and files alone, so they are found again after any interruption. An operation of more than one step
marks its user meanwhile; the next writer of that user, the next process, or ``expire`` finishes it.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from memfin.contracts.base import Count, Record
from memfin.contracts.memory import (
    ConsentScope,
    MemoryItem,
    ProfileConsent,
    ThreadHeader,
    TrainingAssetCandidate,
    UserContext,
)
from memfin.errors import RunFault
from memfin.memory.deletions import prune_drift_index, remaining_steps
from memfin.memory.errors import AccountDeleted, InvalidId, InvalidInput, MemoryRefusal
from memfin.memory.files import Files, Locks, Reserve, is_full, move_in, temporary
from memfin.memory.index import Index, TaskRow
from memfin.memory.paths import TREES, Paths, Prefix, check_id, is_id, new_id
from memfin.memory.records import (
    Checked,
    EarlyGate,
    Gate,
    Observer,
    Put,
    RecordDamaged,
    Remove,
    RemoveTree,
    Step,
    Writer,
    decode,
    load,
    load_sound,
)

Clock = Callable[[], datetime]
_LOG: Final = logging.getLogger("memfin.memory")
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TEXTS: Final[Mapping[str, Any]] = {}
PURGED_WITHIN: Final = timedelta(hours=48)  # of a revocation; the purge is done at once if nothing stops it
_TICK: Final = timedelta(microseconds=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
ValueT = TypeVar("ValueT")
Blockable = UserContext | MemoryItem | ThreadHeader


class ConsentOnFile(NamedTuple):
    """Bytes of a user's consent file, None without a file, and the consent if readable."""

    data: bytes | None
    consent: ProfileConsent | None

    @property
    def in_force(self) -> ProfileConsent | None:
        """The consent, unless it is missing or revoked."""
        return self.consent if self.consent is not None and self.consent.revoked_at is None else None


@lru_cache(maxsize=1024)
def _consent_of(data: bytes) -> ProfileConsent | None:
    """Parse a consent file, cached: it is read for every answer, and YAML is slow."""
    try:
        return decode(data, Path("consent.yaml"), ProfileConsent)
    except RecordDamaged:
        return None


def allows(consent: ProfileConsent | None, scope: ConsentScope) -> bool:
    """Return True if a consent allows a scope; a revoked or missing one allows nothing."""
    return consent is not None and consent.revoked_at is None and bool(consent.scopes[scope])


def is_overdue(consent: ProfileConsent | None, now: datetime) -> bool:
    """Return True if an unfinished purge is past its deadline."""
    return consent is not None and consent.revoked_at is not None and now - consent.revoked_at > PURGED_WITHIN


def after(moment: datetime) -> datetime:
    """Return the next moment; of the last one there is, itself."""
    return moment + min(_TICK, _LAST - moment)


class Sweep(Record):
    """Counts of a sweep: task contexts removed and failed, interrupted operations finished and failed.

    Overdue operations are revocations finished after more than 48 hours.
    """

    task_contexts: Count = 0
    finished: Count = 0
    overdue: Count = 0
    failed: Count = 0
    refused: Count = 0


class Workspace:
    """Open data root for reading and writing; see `memfin.memory.MemoryStore` for the arguments."""

    def __init__(
        self, root: Path, clock: Clock, gate: Gate, files: Files, observer: Observer | None = None
    ) -> None:
        self.root = root
        self.paths = Paths(root)
        self.files = files
        self._clock = clock
        self.gate = EarlyGate(gate)
        self._observed = observer is not None
        self._writer = Writer(files, self.paths, self.gate, observer)
        self.check = self._writer.check
        self.locks = Locks(files, self.paths.locks)
        with self.faults():
            for directory in self.paths.shared():
                files.make(directory)
            self.reserve = Reserve(files, self.paths.reserve)
            self.index = Index(self.paths.index, files)
            self._recover()
            self.reserve.keep()

    def close(self) -> None:
        """Close the index."""
        self.index.close()

    def now(self) -> datetime:
        """Return the current UTC time."""
        moment = self._clock()
        if moment.tzinfo is None:
            raise InvalidInput("the clock of a memory store must give times with their zone")
        return moment.astimezone(UTC)

    # Reading takes no lock.

    def consent_on_file(self, user_id: str) -> ConsentOnFile:
        """Read the consent of a user; a damaged one, or another user's, is None."""
        with self.faults():
            data = self.files.load(self.paths.consent(user_id))
        consent = None if data is None else _consent_of(data)
        return ConsentOnFile(data, consent if consent is not None and consent.user_id == user_id else None)

    def consistently(self, user_id: str, read: Callable[[ProfileConsent | None], ValueT]) -> ValueT:
        """Return the result of ``read`` for the consent in force, None without one.

        It reads again if another version appears meanwhile, so a revocation is never missed.
        """
        while True:
            before = self.consent_on_file(user_id)
            with self.faults():
                value = read(before.in_force)
                if self.files.load(self.paths.consent(user_id)) == before.data:
                    return value

    def profile_of(self, consent: ProfileConsent | None) -> UserContext | None:
        """Return the profile that a consent allows; None without one, or if it cannot be read."""
        if consent is None or not consent.scopes.save_to_profile or consent.profile_context_id is None:
            return None
        path = self.paths.profile(consent.user_id, consent.profile_context_id)
        with suppress(RecordDamaged):
            found = load(self.files, path, UserContext)
            if found is not None and found.user_id == consent.user_id:
                return found
        return None

    # Writing happens under the user's lock.

    @contextmanager
    def writing(self, user_id: str, texts: Mapping[str, Any] = _NO_TEXTS) -> Iterator[None]:
        """Hold the user's lock, after finishing interrupted operations.

        Texts of the person, by the names of their fields, pass the gate before the lock is taken.
        """
        check_id(user_id)
        with self.gate.reading(texts), self.faults(), self.locks.of_user(user_id):
            if self.files.exists(self.paths.marker(user_id)):
                self.finish(user_id)
            if self.files.exists(self.paths.stub(user_id)):
                raise AccountDeleted("user: the account was deleted, and its id is not reused")
            yield

    def despite_full_disk(self, work: Callable[[], ValueT]) -> ValueT:
        """Return the result of repeatable work; on a full disk it is repeated in the reserve's space."""
        try:
            return work()
        except RunFault as fault:
            if not is_full(fault.__cause__):
                raise
        try:
            with self.faults():
                self.reserve.give_up()
            return work()
        finally:
            self.reserve.keep()

    def erase(self, user_id: str, work: Callable[[], ValueT]) -> ValueT:
        """Return the result of repeatable work under the user's lock, done on a full disk too."""

        def locked() -> ValueT:
            with self.writing(user_id):
                return work()

        return self.despite_full_disk(locked)

    def remove(self, user_id: str, path: Path) -> None:
        """Remove a record of a user, on a full disk too."""
        self.erase(user_id, lambda: self.do(user_id, self.check([Remove(path)])))

    def do(self, user_id: str, checked: Checked, *, settle: bool = False, marked: bool = False) -> None:
        """Execute checked steps in order, under the user's lock; with ``settle``, those of consent too.

        With ``marked``, even a single step is marked, so that nothing of it stays when the process is killed.
        """
        several = settle or marked or len(checked) > 1
        if several:
            self.mark(user_id)
        self._execute(user_id, checked)
        if settle:
            self._settle(user_id)
        if several:
            self.files.unlink(self.paths.marker(user_id))

    def _execute(self, user_id: str, checked: Checked) -> None:
        """Execute checked steps; the observer gets the id of the consent granted by them, or on file."""
        consent_id = ""
        if checked and self._observed:
            records = (step.record for step, _ in checked if isinstance(step, Put))
            on_file = self.consent_on_file(user_id).consent
            consent = next((each for each in records if isinstance(each, ProfileConsent)), on_file)
            consent_id = "" if consent is None else consent.consent_id
        self._writer.do(checked, consent_id)

    def mark(self, user_id: str) -> None:
        """Mark a user's operation as in progress; the mark of an interrupted one stays."""
        marker = self.paths.marker(user_id)
        self.files.touch(marker)
        self.files.fsync_directory(marker.parent)

    def _settle(self, user_id: str) -> None:
        """Make a user's files match the stored consent (memory design §10.4)."""
        for tree in self.paths.trees(user_id):
            self._execute(user_id, self.check(map(Remove, self.files.strays(tree))))
        self._execute(user_id, self.check(self._purge_steps(user_id)))

    def _purge_steps(self, user_id: str) -> Iterator[Step]:
        """Yield the steps that remove records without consent; none while the consent is unreadable."""
        files, paths = self.files, self.paths
        on_file = self.consent_on_file(user_id)
        consent = on_file.consent
        if on_file.data is not None and consent is None:
            return
        # 1. Every profile but the one in force: revoked, replaced, or of a grant that never came to be.
        #    With the last one, the drift log and the items.
        profiles = paths.profiles(user_id)
        if consent is not None and allows(consent, "save_to_profile"):
            kept = f"{consent.profile_context_id}.json"
            yield from (Remove(profiles / name) for name in files.entries(profiles) if name != kept)
        else:
            yield from map(RemoveTree, (profiles, paths.drift(user_id), paths.items(user_id)))
        # 2. Feedback.
        if not allows(consent, "create_task"):
            yield RemoveTree(paths.feedback(user_id))
        # 3. Threads and their contexts: blocked for answers.
        yield from self._blocked_thread_steps(user_id, consent)
        # 4. Training candidates: withdrawn.
        if not allows(consent, "training_use_allowed"):
            for found in load_sound(files, paths.candidates(user_id), TrainingAssetCandidate):
                if found.withdrawal_status == "active":
                    moment = found.created_at if consent is None else consent.updated_at
                    withdrawn = found.replace(withdrawal_status="revoked", withdrawn_at=moment)
                    yield Put(paths.candidate(user_id, found.candidate_id), withdrawn)

    def _blocked_thread_steps(self, user_id: str, consent: ProfileConsent | None) -> Iterator[Step]:
        """Yield the steps that block all threads without consent, otherwise what is left of blocked ones."""
        files, paths = self.files, self.paths
        if not allows(consent, "save_to_thread"):
            for thread_id in filter(is_id, files.names(paths.all_thread_contexts(user_id), "")):
                yield from self.block_thread_steps(user_id, thread_id)
            yield from self.block_steps(paths.threads(user_id), ThreadHeader)
            return
        for header in load_sound(files, paths.threads(user_id), ThreadHeader):
            if header.consent_blocked:
                yield from self.block_thread_steps(user_id, header.thread_id)

    def block_thread_steps(self, user_id: str, thread_id: str) -> Iterator[Step]:
        """Yield the steps that block the contexts and items of a thread."""
        yield from self.block_steps(self.paths.thread_contexts(user_id, thread_id), UserContext)
        yield from self.block_steps(self.paths.thread_items(user_id, thread_id), MemoryItem)

    def block_steps(self, directory: Path, kind: type[Blockable]) -> Iterator[Step]:
        """Yield the steps that block the records of a directory: they stay, but no answer reads them."""
        for found in load_sound(self.files, directory, kind):
            if not found.consent_blocked:
                name = found[kind.__struct_fields__[0]]  # the id
                yield Put(directory / f"{name}.json", found.replace(consent_blocked=True))

    def allowed_since(self, consent: ProfileConsent, scope: ConsentScope) -> datetime:
        """Return the time from which a consent in force has allowed a scope without a break."""
        since = consent.updated_at
        for version in range(consent.version - 1, 0, -1):
            data = self.files.load(self.paths.version(consent.user_id, version))
            earlier = None if data is None else _consent_of(data)
            if not allows(earlier, scope) or earlier is None:
                break
            since = earlier.updated_at
        return since

    def has_files(self, user_id: str) -> bool:
        """Return True if a user has any file but a stub."""
        return any(map(self.files.exists, self._places(user_id)))

    def _places(self, user_id: str) -> tuple[Path, ...]:
        paths = self.paths
        return (paths.consent(user_id), paths.history(user_id), *paths.trees(user_id))

    def version_on_file(self, user_id: str) -> int:
        """Return the number of the last version of a consent, readable or not; 0 where there is none."""
        on_file = self.consent_on_file(user_id)
        if on_file.consent is not None:
            return on_file.consent.version
        last = max(self.consent_versions(user_id), default=0)
        superseded = self.files.load(self.paths.version(user_id, last)) if last else None
        return last if on_file.data == superseded else last + 1

    def consent_versions(self, user_id: str) -> list[int]:
        """Return the numbers of the superseded versions of a user's consent, in order."""
        names = self.files.names(self.paths.history(user_id), ".yaml")
        return sorted(int(name) for name in names if name.isdecimal())

    def id_for(self, prefix: Prefix, user_id: str, directory: Path, now: datetime) -> str:
        """Return the next free id in a directory; call under the user's lock."""
        return new_id(prefix, user_id, now, lambda name: self.files.exists(directory / f"{name}.json"))

    def admit(self, user_id: str) -> None:
        """Claim the id of a user who consents for the first time."""
        namesake = self.index.namesake(user_id)
        if namesake == user_id:
            return
        if namesake is not None and (
            self.files.exists(self.paths.stub(namesake)) or self.has_files(namesake)
        ):
            raise InvalidId("user id: differs from that of another user only in case; choose another one")
        self.index.claim(user_id)

    # Recovery.

    def rebuild_index(self) -> None:
        """Finish interrupted operations of all users, and rebuild the index from the files."""
        with self.faults():
            users = self._users_on_file()
            for user_id in users:
                with self.locks.of_user(user_id):
                    self.finish(user_id)
            self.index.build(users, self._tasks_on_file(users))

    def _recover(self) -> None:
        if not self.index.is_built():
            with self.locks.of_index():
                if not self.index.is_built():
                    self.rebuild_index()
        self.finish_marked()

    def finish_marked(self, now: datetime | None = None) -> Sweep:
        """Finish interrupted operations, each by itself; overdue ones are counted when a time is given."""
        done = Sweep()
        for user_id in filter(is_id, self.files.names(self.paths.pending, "")):
            try:
                with self.faults(), self.locks.of_user(user_id):
                    if not self.files.exists(self.paths.marker(user_id)):
                        continue
                    late = now and is_overdue(self.consent_on_file(user_id).consent, now)
                    self.finish(user_id)
            except (RunFault, MemoryRefusal) as problem:
                # The reason without the path, which names the person.
                reason = getattr(problem.__cause__, "strerror", None) or type(problem).__name__
                _LOG.error("memory: an interrupted operation cannot be finished: %s", reason)
                done = done.replace(failed=done.failed + 1)
            else:
                done = done.replace(finished=done.finished + 1, overdue=done.overdue + bool(late))
        return done

    def finish(self, user_id: str) -> None:
        """Finish an interrupted operation, under the user's lock: a deletion, an import or a revocation."""
        paths = self.paths
        if self.files.exists(paths.stub(user_id)):
            # The consent first, so that nothing is read from then on.
            in_force, *trees = self._places(user_id)
            self._execute(user_id, self.check([Remove(in_force), *map(RemoveTree, trees)]))
            self.index.forget_user(user_id)
        else:
            move_in(self.files, paths, user_id)
            strays = list(self.files.strays(paths.history(user_id)))
            strays += [temporary(paths.consent(user_id)), temporary(paths.stub(user_id))]
            consent = self.consent_on_file(user_id).consent
            if consent is not None:  # a version that was to be superseded, and was not
                strays.append(paths.version(user_id, consent.version))
            there = [Remove(stray) for stray in strays if self.files.exists(stray)]
            self._execute(user_id, self.check(there))
            self._execute(user_id, self.check(remaining_steps(self.files, paths, user_id, self.now())))
            prune_drift_index(self.files, paths, user_id)
            self._settle(user_id)
        self.files.unlink(self.paths.marker(user_id))

    def _users_on_file(self) -> list[str]:
        found = set(self.files.names(self.paths.pending, ""))
        for directory in (self.paths.consents, self.paths.stubs):
            found.update(self.files.names(directory, ".yaml"))
        for directory in map(self.root.joinpath, TREES):
            found.update(self.files.names(directory, ""))
        return sorted(filter(is_id, found))

    def _tasks_on_file(self, users: Iterable[str]) -> Iterator[TaskRow]:
        for user_id in users:
            directory = self.paths.tasks(user_id)
            for context_id in self.files.names(directory):
                expires_at = _LONG_AGO
                with suppress(RecordDamaged):
                    found = load(self.files, directory / f"{context_id}.json", UserContext)
                    expires_at = (found and found.expires_at) or _LONG_AGO
                yield user_id, context_id, expires_at

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Translate errors of the system into one-line faults."""
        try:
            yield
        except OSError as problem:
            where = problem.filename or self.root
            raise RunFault(f"memory {self.root}: {where}: {problem.strerror}") from problem
        except sqlite3.Error as problem:
            raise RunFault(f"memory {self.root}: {self.paths.index}: {problem}") from problem
