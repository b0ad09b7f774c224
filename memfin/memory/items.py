"""Memory items: single texts with ids, earlier values and search, behind the consent of their scope.

Items of no thread need ``save_to_profile``, and a revocation removes them; items of a thread need
``save_to_thread``, and a revocation blocks them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.memory import (
    ConsentScope,
    ItemKind,
    ItemVersion,
    MemoryItem,
    ProfileConsent,
    Route,
    SliceName,
)
from memfin.memory import consent as rules
from memfin.memory.contexts import ThreadFiles, later
from memfin.memory.errors import (
    ConsentRequired,
    InvalidInput,
    MemoryRefusal,
    NotFound,
    SensitiveInput,
    ThreadClosed,
)
from memfin.memory.paths import check_id, is_id, new_id
from memfin.memory.records import MAX_RECORD, Put, RecordDamaged, by_age, load, load_sound
from memfin.memory.slices import MATRIX, SLICES, wanted_slices
from memfin.memory.workspace import Workspace, after, allows
from memfin.text.bm25 import IncrementalBM25, terms

MAX_ITEMS: Final = 1000  # of a user, those of threads included
BATCH: Final = 100  # items that `Items.add_all` adds at a time, under one lock
MAX_VERSIONS: Final = 32  # earlier values of an item that are kept
SLICE_OF: Final[dict[ItemKind, SliceName]] = {form.kind: name for name, form in SLICES.items() if form.kind}
NOTES_MATCHED: Final = 5  # notes of a prompt: those that match it best
NOTES_NEWEST: Final = 3  # notes of a prompt that matches none: the newest
MAX_WORDS: Final = 64  # of a query that are looked up as they are, too
KEY: Final = "key"  # in the metadata: the key of `Items.add`
IMPORTED_ID: Final = "imported_id"  # in the metadata: the id in the memory that an item comes from
_UNKNOWN: Final = "item: there is none with that id"


class ItemMatch(Record):
    """An item that a search found, and its BM25 score; 0 where only part of a word matches."""

    item: MemoryItem
    score: float


class Items:
    """Service of items: add, read, update, search and forget single texts of a person."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._threads = ThreadFiles(workspace)

    def add(
        self,
        user_id: str,
        text: str,
        *,
        kind: ItemKind | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> MemoryItem:
        """Remember a text, a note by default, and return its item.

        An equal text of the kind in the same place stays one item. With a key, the item of that key, and of
        the kind if one is given, gets the text, and the metadata besides its own. Sensitive text is refused
        before anything is written, as is an item beyond `MAX_ITEMS`.
        """
        text = _stripped(text)
        given: Any = dict(metadata) if isinstance(metadata, Mapping) else metadata or {}
        _check_kind(kind)
        if key is not None and not isinstance(key, str):
            raise InvalidInput("key: must be a str")
        if key is not None and isinstance(given, dict):
            given[KEY] = key

        def is_same(each: MemoryItem) -> bool:
            return isinstance(given, dict) and key_of(each) == key and kind in (None, each.kind)

        with self._workspace.writing(user_id, {"text": text, "metadata": given}):
            place = self._opened(user_id, thread_id)
            if key is not None and (same := next(filter(is_same, place.held), None)):
                return self._replace(place.consent, same, text, {**same.metadata, **given})
            return self._added(place, text, kind or "note", given, again=key is not None)

    def add_all(
        self,
        user_id: str,
        texts: Iterable[str],
        *,
        kind: ItemKind | None = None,
        thread_id: str | None = None,
        metadata: Iterable[Mapping[str, Any]] | None = None,
    ) -> list[MemoryItem | MemoryRefusal]:
        """Remember texts as `add` does, and return the item or the refusal of each, in order.

        The items on file are read once per `BATCH` of texts. ``metadata`` has as many entries as there are
        texts. A refused text stops no other; missing consent refuses the call, and items added before stay.
        """
        _check_kind(kind)
        if isinstance(texts, str):
            raise InvalidInput("texts: give a list of texts; add takes a single one")
        given = list(texts)
        extras: list[Any] = [{} for _ in given] if metadata is None else list(metadata)
        if len(extras) != len(given):
            raise InvalidInput(f"metadata: has {len(extras)} entries for {len(given)} texts")
        done: list[MemoryItem | MemoryRefusal] = []
        while len(done) < len(given):
            batch = slice(len(done), len(done) + BATCH)
            with self._workspace.writing(user_id):
                place = self._opened(user_id, thread_id)
                for text, extra in zip(given[batch], extras[batch], strict=True):
                    try:
                        done.append(self._added(place, _stripped(text), kind or "note", extra))
                    except (InvalidInput, SensitiveInput) as refusal:
                        done.append(refusal)
        return done

    def _opened(self, user_id: str, thread_id: str | None) -> "_Place":
        """Read the items of a thread, or of none, to add some; call under the user's lock."""
        workspace = self._workspace
        consent = self._require(user_id, thread_id)
        places = self._places(user_id)
        directory = self._directory(user_id, thread_id)
        held = list(load_sound(workspace.files, directory, MemoryItem))
        count = sum(len(workspace.files.names(place)) for place in places)
        return _Place(consent, thread_id, directory, places, held, count)

    def _added(
        self, place: "_Place", text: str, kind: ItemKind, metadata: Any, *, again: bool = False
    ) -> MemoryItem:
        """Write an item, or return the one with its text unless it is to be there again."""
        workspace, user_id = self._workspace, place.consent.user_id
        if not again and (same := place.known.get((kind, text))):
            return same
        if place.count >= MAX_ITEMS:
            raise InvalidInput(f"items: a person has at most {MAX_ITEMS}; forget some of them first")
        now = later(rules.not_before(place.consent, workspace.now()), place.last)

        def taken(name: str) -> bool:
            return any(workspace.files.exists(each / f"{name}.json") for each in place.places)

        item = MemoryItem(
            item_id=new_id("item", user_id, now, taken),
            user_id=user_id,
            kind=kind,
            text=text,
            thread_id=place.thread_id,
            created_at=now,
            updated_at=now,
            consent_version=place.consent.version,
            metadata=metadata,
        )
        checked = workspace.check([Put(place.directory / f"{item.item_id}.json", item)])
        workspace.do(user_id, checked, marked=True)
        place.count += 1
        place.last = [item]
        place.known[kind, text] = item
        return item

    def get(self, user_id: str, item_id: str) -> MemoryItem:
        """Return an item; raise `NotFound` for one that consent does not allow to read."""

        def read(consent: ProfileConsent | None) -> MemoryItem:
            item = self._load(user_id, self._path(user_id, item_id))
            if item.consent_blocked or not self._is_open(user_id, consent, item.thread_id):
                raise NotFound(_UNKNOWN)
            return item

        return self._workspace.consistently(user_id, read)

    def all(
        self, user_id: str, *, thread_id: str | None = None, kind: ItemKind | None = None
    ) -> list[MemoryItem]:
        """Return the items of a thread, or those of no thread, oldest first; none without consent."""
        _check_kind(kind)
        found = self._workspace.consistently(
            user_id, lambda consent: self.readable(user_id, consent, thread_id)
        )
        return [each for each in found if kind in (None, each.kind)]

    def everything(self, user_id: str) -> list[MemoryItem]:
        """Return all items for their owner, those of threads and blocked ones too, oldest first."""
        with self._workspace.faults():
            of_none = self.all(user_id)
            kept = [each for place in self._places(user_id)[1:] for each in self._sound(user_id, place)]
        return by_age([*of_none, *kept])

    def update(self, user_id: str, item_id: str, text: str) -> MemoryItem:
        """Replace the text of an item; the value before joins its history, which keeps the newest values."""
        text = _stripped(text)
        workspace = self._workspace
        with workspace.writing(user_id, {"text": text}):
            item = self._load(user_id, self._path(user_id, item_id))
            consent = self._require(user_id, item.thread_id)
            if item.consent_blocked:
                raise NotFound(_UNKNOWN)
            return self._replace(consent, item, text, item.metadata)

    def _replace(
        self, consent: ProfileConsent, item: MemoryItem, text: str, metadata: dict[str, Any]
    ) -> MemoryItem:
        """Write the new text and metadata of an item, under the user's lock, unless they are the same."""
        if (item.text, item.metadata) == (text, metadata):
            return item
        workspace = self._workspace
        now = max(rules.not_before(consent, workspace.now()), after(item.updated_at))
        before = [] if item.text == text else [ItemVersion(text=item.text, at=item.updated_at)]
        changed = item.replace(
            text=text,
            metadata=metadata,
            updated_at=now,
            consent_version=consent.version,
            versions=[*item.versions, *before][-MAX_VERSIONS:],
        )
        while changed.versions and _size(changed) >= MAX_RECORD:
            changed = changed.replace(versions=changed.versions[1:])
        path = self._directory(item.user_id, item.thread_id) / f"{item.item_id}.json"
        workspace.do(item.user_id, workspace.check([Put(path, changed)]), marked=True)
        return changed

    def history(self, user_id: str, item_id: str) -> list[ItemVersion]:
        """Return the values of an item and since when each was valid, oldest first, the current one last."""
        item = self.get(user_id, item_id)
        return [*item.versions, ItemVersion(text=item.text, at=item.updated_at)]

    def forget(self, user_id: str, item_id: str) -> None:
        """Remove an item and its history physically; needs no consent."""
        with self._workspace.faults():
            path = self._path(user_id, item_id)
        self._workspace.remove(user_id, path)

    def search(
        self,
        user_id: str,
        query: str,
        *,
        limit: int = 5,
        route: Route | None = None,
        thread_id: str | None = None,
    ) -> list[ItemMatch]:
        """Return the items that match a query best, as a task of the thread, or of none, may read them.

        A route restricts them to the kinds whose slice it may read. Without consent, nothing is found.
        """
        if not isinstance(limit, int) or limit < 1:
            raise InvalidInput("limit: must be at least 1, as an int")
        kinds = kinds_of(route, of_thread=thread_id is not None)

        def read(consent: ProfileConsent | None) -> list[MemoryItem]:
            return [
                each
                for place in (None, thread_id)[: 1 + (thread_id is not None)]
                for each in self.readable(user_id, consent, place)
                if each.kind in kinds
            ]

        return ranked(self._workspace.consistently(user_id, read), query)[:limit]

    def readable(
        self, user_id: str, consent: ProfileConsent | None, thread_id: str | None = None
    ) -> list[MemoryItem]:
        """Return the items of a thread, or of no thread, that a consent allows to read, oldest first."""
        directory = self._directory(user_id, thread_id)
        if not self._is_open(user_id, consent, thread_id):
            return []
        return by_age(each for each in self._sound(user_id, directory) if not each.consent_blocked)

    def _sound(self, user_id: str, directory: Path) -> Iterator[MemoryItem]:
        found = load_sound(self._workspace.files, directory, MemoryItem)
        return (each for each in found if each.user_id == user_id)

    def _is_open(self, user_id: str, consent: ProfileConsent | None, thread_id: str | None) -> bool:
        """Return True if a consent allows to read the items of a thread, or of no thread."""
        if not allows(consent, _scope(thread_id)):
            return False
        try:
            return thread_id is None or not self._threads.header(user_id, thread_id).consent_blocked
        except (NotFound, RecordDamaged):
            return False

    def _require(self, user_id: str, thread_id: str | None) -> ProfileConsent:
        """Return the consent that allows to write items of a thread, or of no thread."""
        header = None if thread_id is None else self._threads.header(user_id, thread_id)
        consent = rules.require(self._workspace.consent_on_file(user_id), _scope(thread_id))
        if header is not None and header.status == "closed":
            raise ThreadClosed("thread: is closed; it can be read, not changed")
        if header is not None and header.consent_blocked:
            raise ConsentRequired(
                "thread: its preferences are no longer used, so it takes no items; save a new thread",
                ["save_to_thread"],
            )
        return consent

    def _directory(self, user_id: str, thread_id: str | None) -> Path:
        paths = self._workspace.paths
        return paths.items(user_id) if thread_id is None else paths.thread_items(user_id, thread_id)

    def _places(self, user_id: str) -> list[Path]:
        """Return the directories of a user's items: that of no thread, and those of the threads."""
        workspace = self._workspace
        names = workspace.files.names(workspace.paths.all_thread_contexts(user_id), "")
        return [self._directory(user_id, each) for each in (None, *filter(is_id, names))]

    def _path(self, user_id: str, item_id: str) -> Path:
        """Return the file of an item; raise `NotFound` when the user has none with that id."""
        name = f"{check_id(item_id, 'item id')}.json"
        for place in self._places(user_id):
            if self._workspace.files.exists(place / name):
                return place / name
        raise NotFound(_UNKNOWN)

    def _load(self, user_id: str, path: Path) -> MemoryItem:
        found = load(self._workspace.files, path, MemoryItem)
        if found is None or (found.user_id, found.item_id) != (user_id, path.stem):
            raise NotFound(_UNKNOWN)
        return found


@dataclass
class _Place:
    """The items of a thread, or of no thread, on file before some are added, under the user's lock."""

    consent: ProfileConsent
    thread_id: str | None
    directory: Path
    places: Sequence[Path]  # those of all items of the user, which are counted
    held: Sequence[MemoryItem]
    count: int

    def __post_init__(self) -> None:
        self.known = {(each.kind, each.text): each for each in reversed(self.held)}
        self.last = self.held  # a new item is dated after these


def ranked(items: Sequence[MemoryItem], query: str) -> list[ItemMatch]:
    """Return the matching items by falling BM25 score; among equals, exact words first, then newer ones."""
    if not isinstance(query, str):
        raise InvalidInput(f"query: must be a str, not {type(query).__name__}")
    index = IncrementalBM25(newest=len(items) + 1)
    for each in items:
        index.add(Counter(terms(each.text)))
    scores = dict(index.search(terms(query), len(items)))
    words = list(dict.fromkeys(query.casefold().split()))[:MAX_WORDS]
    found: list[tuple[float, int, datetime, str, MemoryItem]] = []
    for number, item in enumerate(items):
        score = round(scores.get(number, 0.0), 6)
        text = item.text.casefold()
        exact = [word for word in words if word in text]
        # A single Chinese character is no term of a longer word, so it is looked up as it is.
        if score or any(not word.isascii() for word in exact):
            found.append((score, len(exact), item.updated_at, item.item_id, item))
    found.sort(key=lambda each: each[:4], reverse=True)
    return [ItemMatch(item=each[4], score=each[0]) for each in found]


def remembered(items: Sequence[MemoryItem], prompt: str) -> list[MemoryItem]:
    """Return the items for a task's prompt: all but the notes, and the notes that match it best."""
    notes = [each for each in items if each.kind == "note"]
    matched = [each.item for each in ranked(notes, prompt)[:NOTES_MATCHED]]
    newest = by_age(notes)[::-1][:NOTES_NEWEST]
    return [*(each for each in items if each.kind != "note"), *(matched or newest)]


def key_of(item: MemoryItem) -> str:
    """Return the key of an item in a store of keys: its caller's, else that of its import, else its id."""
    return str(item.metadata.get(KEY, item.metadata.get(IMPORTED_ID, item.item_id)))


def _scope(thread_id: str | None) -> ConsentScope:
    return "save_to_profile" if thread_id is None else "save_to_thread"


def _check_kind(kind: ItemKind | None) -> None:
    if kind not in (None, *SLICE_OF):
        raise InvalidInput(f"kind: unknown; known kinds: {', '.join(SLICE_OF)}")


def _size(item: MemoryItem) -> int:
    """Return the bytes of an item; 0 for one that cannot be written."""
    with suppress(TypeError, ValueError, OverflowError, RecursionError):
        return len(msgspec.json.encode(item))
    return 0


def _stripped(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"text: must be a str, not {type(text).__name__}")
    return text.strip()


def kinds_of(route: Route | None, *, of_thread: bool) -> Collection[ItemKind]:
    """Return the kinds of items that a route may read; all without a route."""
    if route is None:
        return SLICE_OF.keys()
    if route not in tuple(MATRIX):
        raise InvalidInput(f"route: unknown; known routes: {', '.join(MATRIX)}")
    wanted = wanted_slices(route, of_thread=of_thread)
    return [kind for kind, name in SLICE_OF.items() if name in wanted]
