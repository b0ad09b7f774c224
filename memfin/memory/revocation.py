"""What follows from consent: what may no longer be there, or be read (memory design §10.1, §10.4).

The version of the consent is the authority, and its rename the moment of a revocation. What has to go is
read off the consent and the files alone, so it is found again, and finished, after any interruption.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from memfin.contracts.memory import ProfileConsent, ThreadHeader, TrainingAssetCandidate, UserContext
from memfin.memory.candidates import withdrawn
from memfin.memory.consent import ConsentOnFile, allows
from memfin.memory.files import Files, temporary
from memfin.memory.paths import Paths
from memfin.memory.plans import Put, Remove, RemoveTree, Step
from memfin.memory.records import load_sound

PURGED_WITHIN: Final = timedelta(hours=48)
"""How long after a revocation its purge must be done; it is done at once, unless something stops it."""


def is_overdue(consent: ProfileConsent | None, now: datetime) -> bool:
    """Say whether a purge that is not finished should have been."""
    return consent is not None and consent.revoked_at is not None and now - consent.revoked_at > PURGED_WITHIN


def consequences(files: Files, paths: Paths, user_id: str, on_file: ConsentOnFile) -> Iterator[Step]:
    """Yield the steps that make a user's files what the consent on file allows; none when they are.

    They depend on nothing else, so it does not show afterwards whether there was an interruption. While
    a consent cannot be read, nothing is read under it, and nothing is removed for it, either.
    """
    if on_file.data is not None and on_file.consent is None:
        return
    consent = on_file.consent
    yield from _profiles(files, paths, user_id, consent)
    if on_file.in_force is None:
        yield RemoveTree(paths.drift(user_id))
    if not allows(consent, "save_to_thread"):
        yield from _threads(files, paths, user_id)
    if not allows(consent, "training_use_allowed"):
        yield from _candidates(files, paths, user_id, consent)


def strays(files: Files, paths: Paths, user_id: str) -> Iterator[Step]:
    """Yield the steps that remove what killed writers of single files left in a user's own directories."""
    for tree in paths.trees(user_id):
        yield from map(Remove, files.strays(tree))


def leftovers(files: Files, paths: Paths, user_id: str, on_file: ConsentOnFile) -> Iterator[Step]:
    """Yield the steps that remove what an operation of several steps left behind unfinished.

    The history of a consent, which only grows, is looked through here and not at every change of it.
    """
    strays = list(files.strays(paths.history(user_id)))
    strays += [temporary(paths.consent(user_id)), temporary(paths.stub(user_id))]
    if on_file.consent is not None:  # a version that was to be superseded, and was not
        strays.append(paths.version(user_id, on_file.consent.version))
    yield from (Remove(stray) for stray in strays if files.exists(stray))


def blocked(files: Files, directory: Path) -> Iterator[Step]:
    """Yield the steps that block the contexts of a thread: they stay, and are read for no answer."""
    for context in load_sound(files, directory, UserContext):
        if not context.consent_blocked:
            yield Put(directory / f"{context.context_id}.json", context.replace(consent_blocked=True))


def _profiles(files: Files, paths: Paths, user_id: str, consent: ProfileConsent | None) -> Iterator[Step]:
    """Remove every profile but the one in force: revoked, replaced, or of a grant that never came to be."""
    directory = paths.profiles(user_id)
    kept = consent.profile_context_id if consent is not None and allows(consent, "save_to_profile") else None
    if kept is None:
        yield RemoveTree(directory)
        return
    for name in files.entries(directory):
        if name != f"{kept}.json":
            yield Remove(directory / name)


def _threads(files: Files, paths: Paths, user_id: str) -> Iterator[Step]:
    for thread_id in files.names(paths.all_thread_contexts(user_id), ""):
        yield from blocked(files, paths.thread_contexts(user_id, thread_id))
    directory = paths.threads(user_id)
    for header in load_sound(files, directory, ThreadHeader):
        if not header.consent_blocked:
            yield Put(directory / f"{header.thread_id}.json", header.replace(consent_blocked=True))


def _candidates(files: Files, paths: Paths, user_id: str, consent: ProfileConsent | None) -> Iterator[Step]:
    directory = paths.candidates(user_id)
    for found in load_sound(files, directory, TrainingAssetCandidate):
        if found.withdrawal_status == "active":
            moment = found.created_at if consent is None else consent.updated_at
            yield Put(directory / f"{found.candidate_id}.json", withdrawn(found, moment))
