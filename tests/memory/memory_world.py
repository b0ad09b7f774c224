"""A small world for tests of the memory layer: a clock that is told the time, people, and what they say."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memfin.contracts.memory import ConsentScopes, ContextFields, Preferences, ProfileConsent
from memfin.memory import MemoryStore
from memfin.memory.files import Files
from tests.memory.memory_disks import UnsyncedFiles

START = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
EVERYTHING = ConsentScopes(
    create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=True
)
NOTHING_KEPT = ConsentScopes(
    create_task=True, save_to_profile=False, save_to_thread=False, training_use_allowed=False
)
SECOND = timedelta(seconds=1)


class Clock:
    """Shows the time that it was set to; moves on by ``pace`` at each look."""

    def __init__(self, now: datetime = START, pace: timedelta = timedelta()) -> None:
        self.now = now
        self.pace = pace

    def __call__(self) -> datetime:
        self.now += self.pace
        return self.now


def open_store(root: Path, clock: Clock | None = None, files: Files | None = None) -> MemoryStore:
    """Open a store that looks for nothing sensitive."""
    return MemoryStore(
        root, clock=clock or Clock(), gate=lambda value, field: None, files=files or UnsyncedFiles()
    )


def words(mark: str) -> Iterator[str]:
    """Yield distinct texts that all contain a mark."""
    number = 0
    while True:
        number += 1
        yield f"{mark}-{number}"


def preferences(mark: str) -> Preferences:
    """Return preferences whose text is a mark."""
    return Preferences(language_preference="zh", research_depth="deep", user_focus_reason=mark)


def everything_said(mark: str) -> ContextFields:
    """Return a context that says something in every field, a mark in each that holds text."""
    said = words(mark)
    return ContextFields(
        language_preference="en",
        research_depth="quick",
        risk_prompt_preference="risk_first",
        user_focus_reason=next(said),
        research_style=next(said),
        user_stated_position_context=next(said),
        time_horizon=next(said),
        constraints=[next(said), next(said)],
    )


def settle_in(store: MemoryStore, user_id: str, mark: str) -> ProfileConsent:
    """Have a user consent to everything and leave a mark in every field of every scope."""
    consent = store.grant_consent(user_id, EVERYTHING, preferences(f"{mark}-profile"))
    store.review_profile(
        user_id,
        {
            "research_style": f"{mark}-style",
            "user_stated_position_context": f"{mark}-position",
            "time_horizon": f"{mark}-horizon",
            "constraints": [f"{mark}-constraint"],
        },
    )
    thread = store.save_thread(
        user_id,
        f"{mark}-snapshot",
        f"{mark}-title",
        {"asset": f"{mark}-asset", f"{mark}-key": [f"{mark}-deep"]},
        save_user_context=True,
        consent_id=consent.consent_id,
        context=everything_said(f"{mark}-thread"),
    )
    store.refresh_thread(
        user_id,
        thread.thread_id,
        user_supplied_context=everything_said(f"{mark}-refresh"),
        main_thesis=f"{mark}-thesis",
    )
    store.items.add(user_id, f"{mark}-constraint-item", kind="constraint", metadata={f"{mark}-key": mark})
    item = store.items.add(user_id, f"{mark}-earlier-note", thread_id=thread.thread_id)
    store.items.update(user_id, item.item_id, f"{mark}-note")
    task = store.begin_task(
        user_id, "thread_refresh", fields=everything_said(f"{mark}-task"), thread_id=thread.thread_id
    )
    assert task.task_id is not None
    store.end_task(user_id, task.task_id)
    store.begin_task(user_id, "snapshot", fields=everything_said(f"{mark}-running"))
    return consent
