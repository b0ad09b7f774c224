"""Operations that must be all or nothing, and the states before and after them."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from memfin.contracts.memory import UserContext
from memfin.memory import MemoryStore
from memfin.memory.files import Files
from tests.memory.memory_disks import laid_out, tree
from tests.memory.memory_world import (
    EVERYTHING,
    NOTHING_KEPT,
    SECOND,
    START,
    Clock,
    open_store,
    preferences,
    settle_in,
)
from tests.support import LONG, length

USER = "u1"
OTHER = "u2"
LATER = START + timedelta(hours=1)


def first_item(store: MemoryStore) -> str:
    return store.items.everything(USER)[0].item_id


Change = Callable[[MemoryStore], object]

CHANGES: Mapping[str, Change] = MappingProxyType(
    {
        "first-grant": lambda store: store.grant_consent("u3", EVERYTHING, preferences("new")),
        "grant-anew": lambda store: store.grant_consent(USER, EVERYTHING, preferences("new")),
        "grant-less": lambda store: store.grant_consent(USER, NOTHING_KEPT),
        "revoke": lambda store: store.revoke_consent(USER),
        "revoke-profile": lambda store: store.revoke_consent(USER, scope="save_to_profile"),
        "revoke-training": lambda store: store.revoke_consent(USER, scope="training_use_allowed"),
        "delete": lambda store: store.delete_user(USER),
        "delete-thread": lambda store: store.delete_thread(USER, store.list_threads(USER)[0].thread_id),
        "delete-feedback": lambda store: store.delete_feedback(
            USER, store.list_feedback(USER)[0].feedback_id
        ),
        "add-item": lambda store: store.items.add(USER, "one more"),
        "update-item": lambda store: store.items.update(USER, first_item(store), "changed"),
        "forget-item": lambda store: store.items.forget(USER, first_item(store)),
        "delete-drift": lambda store: store.delete_drift(USER),
        "delete-task": lambda store: store.delete_task(USER, str(store.list_tasks(USER)[0].task_id)),
    }
)

EXPORTS: Mapping[str, Change] = MappingProxyType(
    {
        "export": lambda store: store.export_to(USER, store.root / "out"),
        "export-zip": lambda store: store.export_to(USER, store.root / "out", as_zip=True),
    }
)
"""They change nothing of what they export; the package lies within the root, to be looked at with it."""

KILLED: Mapping[str, Change] = MappingProxyType(
    {
        name: change
        for name, change in {**CHANGES, **EXPORTS}.items()
        if LONG or name in ("grant-less", "revoke", "delete", "delete-thread", *EXPORTS)
    }
)
"""What is killed at each of its steps; of the others, each step is refused, and the power lost at each."""


class State(NamedTuple):
    """A legal state: the files, and the profiles that readers get."""

    files: dict[str, bytes]
    profiles: tuple[UserContext | None, ...]


def begun(root: Path) -> dict[str, bytes]:
    """Return the files of a world in which one person has left something everywhere, another one little."""
    with open_store(root, Clock(pace=SECOND)) as store:
        settle_in(store, USER, "one")
        (thread,) = store.list_threads(USER)
        for rating in ("thumbs_up", "thumbs_down"):
            store.record_feedback(USER, f"thread:{thread.thread_id}", {"asset": "one-asset"}, rating, "one")
        store.grant_consent(OTHER, EVERYTHING, preferences("two"))
    return tree(root, state=True)


def tried(total: int) -> range:
    """Return the numbers of the steps of a change that are tested: each with ``TESTS_LONG=1``."""
    return range(1, total + 1, length(5, 1))


def changed(root: Path, change: Change, files: Files | None = None) -> None:
    """Open the store of a root and make a change, at a fixed time."""
    store = open_store(root, Clock(LATER), files)
    try:
        change(store)
    finally:
        store.close()


def state_of(root: Path, store: MemoryStore) -> State:
    """Return what is in a root, without packages that are no packages yet, and what readers get of it."""
    files = {name: data for name, data in tree(root).items() if not name.startswith("out/.")}
    return State(files, tuple(store.read_profile(user_id) for user_id in (USER, OTHER, "u3")))


def legal_states(room: Path, start: dict[str, bytes], change: Change) -> tuple[State, State]:
    """Return the states before and after a change."""
    states = []
    for name, made in (("before", lambda _: None), ("after", change)):
        root = laid_out(room / name, start)
        changed(root, made)
        with open_store(root, Clock(LATER)) as store:
            states.append(state_of(root, store))
    return states[0], states[1]
