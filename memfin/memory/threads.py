"""Threads: headers, contexts, which are only ever added to, and refreshes (memory design §5.3, §5.4)."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from memfin.contracts.memory import (
    ChangeSummary,
    ContextFields,
    ThreadHeader,
    ThreadRefresh,
    UserContext,
    WatchQuestionUpdate,
)
from memfin.memory.errors import ConsentRequired, NotFound, ThreadClosed
from memfin.memory.files import Files
from memfin.memory.paths import Paths
from memfin.memory.records import load, load_all

_TICK: Final = timedelta(microseconds=1)


class Threads:
    """The threads of a data root, for reading; unknown ones and those of others look the same."""

    def __init__(self, files: Files, paths: Paths) -> None:
        self._files = files
        self._paths = paths

    def header(self, user_id: str, thread_id: str) -> ThreadHeader:
        """Return a thread.

        Raises:
            NotFound: the user has none of that id.
        """
        found = load(self._files, self._paths.thread(user_id, thread_id), ThreadHeader)
        if found is None or (found.user_id, found.thread_id) != (user_id, thread_id):
            raise NotFound("thread: there is none of that id")
        return found

    def headers(self, user_id: str) -> list[ThreadHeader]:
        """Return the threads of a user, the one touched last first."""
        found = load_all(self._files, self._paths.threads(user_id), ThreadHeader)
        return sorted(found, key=lambda header: (header.updated_at, header.thread_id), reverse=True)

    def contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the contexts of a thread, blocked ones too, oldest first."""
        return _in_order(load_all(self._files, self._paths.thread_contexts(user_id, thread_id), UserContext))

    def refreshes(self, user_id: str, thread_id: str) -> list[ThreadRefresh]:
        """Return the refreshes of a thread, oldest first."""
        found = load_all(self._files, self._paths.refreshes(user_id, thread_id), ThreadRefresh)
        return sorted(found, key=lambda refresh: (refresh.created_at, refresh.refresh_id))


def saved(
    user_id: str,
    thread_id: str,
    snapshot_id: str,
    title: str,
    cognition_object: Mapping[str, Any],
    now: datetime,
) -> ThreadHeader:
    """Return the header of a new thread."""
    return ThreadHeader(
        thread_id=thread_id,
        user_id=user_id,
        snapshot_id=snapshot_id,
        title=title,
        cognition_object=dict(cognition_object),
        created_at=now,
        updated_at=now,
    )


def context(
    header: ThreadHeader, context_id: str, fields: ContextFields, consent_version: int, now: datetime
) -> UserContext:
    """Return another context of a thread; those before it stay as they are."""
    return UserContext(
        context_id=context_id,
        user_id=header.user_id,
        scope="thread",
        created_at=now,
        updated_at=now,
        consent_version=consent_version,
        thread_id=header.thread_id,
        **msgspec.structs.asdict(fields),
    )


def refresh(
    header: ThreadHeader,
    refresh_id: str,
    now: datetime,
    *,
    main_thesis: str | None = None,
    change_summary: ChangeSummary | None = None,
    watch_question_updates: Iterable[WatchQuestionUpdate] = (),
    context_id: str | None = None,
) -> ThreadRefresh:
    """Return the record of a refresh."""
    return ThreadRefresh(
        refresh_id=refresh_id,
        thread_id=header.thread_id,
        created_at=now,
        main_thesis=main_thesis,
        change_summary=change_summary or ChangeSummary(),
        watch_question_updates=list(watch_question_updates),
        context_id=context_id,
    )


def refreshable(header: ThreadHeader, *, with_context: bool) -> None:
    """Return when a thread can be refreshed.

    Raises:
        ThreadClosed: it is closed.
        ConsentRequired: its person had its preferences forgotten, and the refresh brings new ones.
    """
    if header.status == "closed":
        raise ThreadClosed("thread: is closed; it can be read, not changed")
    if with_context and header.consent_blocked:
        raise ConsentRequired(
            "thread: its preferences were forgotten, so no others are saved; save a new thread for them",
            ["save_to_thread"],
        )


def later(now: datetime, others: Iterable[ThreadRefresh | UserContext | ThreadHeader]) -> datetime:
    """Return now, or the moment after the last of the others where the clock has not come so far.

    The order of what is added to a thread is thus that of its moments, also under a clock that
    stands still or is set back.
    """
    return max([now, *(other.created_at + _TICK for other in others)])


def said_nothing(fields: ContextFields) -> bool:
    """Say whether a caller gave no field of a context."""
    return fields == ContextFields()


def _in_order(contexts: Iterable[UserContext]) -> list[UserContext]:
    return sorted(contexts, key=lambda each: (each.created_at, each.context_id))
