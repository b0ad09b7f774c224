"""Which file of an export is which record, and where that lies in a data root (memory design §3.2, §11.1)."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from memfin.contracts.base import Record
from memfin.contracts.memory import (
    DriftRecord,
    Feedback,
    ProfileConsent,
    ThreadHeader,
    ThreadRefresh,
    TrainingAssetCandidate,
    UserContext,
)
from memfin.memory.files import Files
from memfin.memory.paths import Paths

DRIFT_INDEX: Final = "persona_drift/_index.jsonl"

_ID: Final = r"([A-Za-z0-9_-]{1,64})"


class Placed(NamedTuple):
    """A file of a package.

    Attributes:
        path: where it lies under the data root.
        kind: what it holds; one such record a line in the index of the drift log.
        ids: the ids that its path in the package names.
    """

    path: Path
    kind: type[Record]
    ids: tuple[str, ...]


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    kind: type[Record]
    place: Callable[..., Path]


def _rule(pattern: str, kind: type[Record], place: Callable[..., Path]) -> _Rule:
    return _Rule(re.compile(pattern.replace("ID", _ID) + r"\Z"), kind, place)


_RULES: Final = (
    _rule(r"consents/_history/([1-9][0-9]{0,8})\.yaml", ProfileConsent, Paths.version),
    _rule(r"user_contexts/_profile/ID\.json", UserContext, Paths.profile),
    _rule(r"user_contexts/_thread/ID/ID\.json", UserContext, Paths.thread_context),
    _rule(r"user_contexts/_task/ID\.json", UserContext, Paths.task),
    _rule(r"persona_drift/_index\.jsonl", Record, Paths.drift_index),
    _rule(r"persona_drift/ID\.json", DriftRecord, Paths.drift_record),
    _rule(r"training_candidates/ID\.json", TrainingAssetCandidate, Paths.candidate),
    _rule(r"threads/ID\.json", ThreadHeader, Paths.thread),
    _rule(r"threads/ID/ID\.json", ThreadRefresh, Paths.refresh),
    _rule(r"feedback/ID\.json", Feedback, Paths.feedback_item),
)


def current_consent(user_id: str) -> str:
    """Return the path of the consent in force in a package."""
    return f"consents/{user_id}.yaml"


def placed(paths: Paths, user_id: str, path: str) -> Placed | None:
    """Return what a file of a user's package is, or None for a file that is none of hers."""
    if path == current_consent(user_id):
        return Placed(paths.consent(user_id), ProfileConsent, ())
    for rule in _RULES:
        if form := rule.pattern.match(path):
            ids = form.groups()
            given = (int(ids[0]),) if rule.place is Paths.version else ids
            return Placed(rule.place(paths, user_id, *given), rule.kind, ids)
    return None


def files_of(files: Files, paths: Paths, user_id: str) -> Iterator[str]:
    """Yield the package's path of every file that there is of a user's memory."""
    yield current_consent(user_id)
    yield DRIFT_INDEX
    for kind, directory, suffix in _FLAT:
        for name in files.names(directory(paths, user_id), suffix):
            yield f"{kind}/{name}{suffix}"
    for kind, outer in _NESTED:
        directory_of = outer(paths, user_id)
        for thread_id in files.names(directory_of, ""):
            for name in files.names(directory_of / thread_id):
                yield f"{kind}/{thread_id}/{name}.json"


_FLAT: Final = (
    ("consents/_history", Paths.history, ".yaml"),
    ("user_contexts/_profile", Paths.profiles, ".json"),
    ("user_contexts/_task", Paths.tasks, ".json"),
    ("persona_drift", Paths.drift, ".json"),
    ("training_candidates", Paths.candidates, ".json"),
    ("threads", Paths.threads, ".json"),
    ("feedback", Paths.feedback, ".json"),
)
_NESTED: Final = (
    ("user_contexts/_thread", Paths.all_thread_contexts),
    ("threads", Paths.threads),
)
