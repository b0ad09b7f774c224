"""Import of records of other memories: exports of mem0, and dumps of LangGraph stores, LangMem's too."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts.memory import ItemKind, MemoryItem
from memfin.contracts.reading import BOM, open_input
from memfin.errors import UsageError
from memfin.memory import consent
from memfin.memory.errors import InvalidInput, MemoryRefusal
from memfin.memory.items import IMPORTED_ID, MAX_ITEMS
from memfin.memory.store import MemoryStore

TEXTS: Final = ("content", "text", "memory")  # fields of a value that may hold its text, the first one counts
# Fields of the metadata of items that come from another memory
FIELD: Final = "field"  # the path of the text in the value
VALUE: Final = "value"  # the rest of the value
NAMESPACE: Final = "imported_namespace"
_PAGES: Final = ("results", "memories", "items")  # fields of a document that hold its records
_DATES: Final = ("created_at", "updated_at")
# Fields of a mem0 record that are no part of its value
_HEAD: Final = frozenset(("id", "hash", "user_id", "score", *_DATES))


class Imported(NamedTuple):
    """Counts of an import, and the records that were not imported: their numbers in the file, and why."""

    added: int
    known: int
    of_others: int
    left: list[tuple[int, str]]


def split(value: object) -> tuple[str, dict[str, Any]]:
    """Return the text of a store's value, and metadata from which `joined` makes the value again.

    The text may be one level deeper, in an object ``content``, as LangMem's memory managers write it.
    """
    outer = value if isinstance(value, Mapping) else {}
    for path, holder in (("", outer), ("content.", outer.get("content"))):
        if isinstance(holder, Mapping):
            for name in TEXTS:
                if isinstance(text := holder.get(name), str):
                    rest = {field: each for field, each in holder.items() if field != name}
                    return text, {FIELD: path + name, VALUE: {**outer, "content": rest} if path else rest}
    raise InvalidInput(f"value: has no text; give an object with a str as {', '.join(TEXTS)}")


def joined(item: MemoryItem) -> dict[str, Any]:
    """Return the value of an item; of one that has none, its metadata and the text as ``content``."""
    field, rest = item.metadata.get(FIELD), item.metadata.get(VALUE)
    if not isinstance(field, str) or not isinstance(rest, dict):
        return {**item.metadata, "content": item.text}
    if field.startswith("content.") and isinstance(inner := rest.get("content"), dict):
        return {**rest, "content": {**inner, field.removeprefix("content."): item.text}}
    return {**rest, field: item.text}


def import_items(
    store: MemoryStore, user_id: str, path: str | Path, *, kind: ItemKind = "note", name: str | None = None
) -> Imported:
    """Add the records of a user in an export as items, and return how many there are of each outcome.

    Records of other users are left out; ``name`` is the user's in the file, the user id by default. A record
    with the id or the text of an item is not added again, so an interrupted import can be repeated.

    Raises:
        UsageError: the file cannot be read or holds no record of the user; nothing was written.
        MemoryRefusal: the consent in force does not allow it.
    """
    consent.require(store.consent_on_file(user_id), "save_to_profile")
    name = name or user_id
    held = store.items.all(user_id)
    ids = {_identity(each.metadata) for each in held}
    texts = {each.text for each in held if each.kind == kind}
    new: list[tuple[int, str, dict[str, Any]]] = []
    left: list[tuple[int, str]] = []
    known = of_others = 0
    for number, record in enumerate(_records(Path(path)), start=1):
        try:
            owners, value, metadata = _parts(record, name)
            if owners and name not in owners:
                of_others += 1
                continue
            text, rest = split(value)
        except InvalidInput as refusal:
            left.append((number, str(refusal)))
            continue
        identity = _identity(metadata)
        if text.strip() in texts or (identity[1] is not None and identity in ids):
            known += 1
        else:
            new.append((number, text, metadata | rest))
        ids.add(identity)
        texts.add(text.strip())
    if not new and not known:
        raise UsageError(
            f"{path}: holds nothing of user {name} to import: {of_others} of other users"
            f"{' (--from-user gives the name of this user in the file)' if of_others else ''}, "
            f"{len(left)} that cannot be read{f' (number {left[0][0]}: {left[0][1]})' if left else ''}"
        )
    if (total := len(store.items.everything(user_id)) + len(new)) > MAX_ITEMS:
        raise UsageError(f"{path}: would make {total} items of user {user_id}; {MAX_ITEMS} are allowed")
    numbers, given, metadatas = zip(*new, strict=True) if new else ((), (), ())
    done = store.items.add_all(user_id, given, kind=kind, metadata=metadatas)
    pairs = zip(numbers, done, strict=True)
    refused = [(number, str(each)) for number, each in pairs if isinstance(each, MemoryRefusal)]
    return Imported(len(new) - len(refused), known, of_others, sorted([*left, *refused]))


def _identity(metadata: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the namespace and the id that a record had in the other memory."""
    found = metadata.get(IMPORTED_ID)
    return str(metadata.get(NAMESPACE)), None if found is None else str(found)


def _parts(record: object, name: str) -> tuple[Sequence[object], object, dict[str, Any]]:
    """Return the names of which one may be the user's, the value of a record, and its other metadata."""
    fields = record if isinstance(record, dict) else {}
    dates = {f"imported_{each}": fields[each] for each in _DATES if isinstance(fields.get(each), str)}
    labels = fields.get("namespace") or fields.get("prefix")  # a row of a store's table has the latter
    labels = labels.split(".") if isinstance(labels, str) else labels
    if "key" in fields and "value" in fields and isinstance(labels, list):
        place = [each for each in labels if each != name]
        return labels, fields["value"], {IMPORTED_ID: fields["key"], NAMESPACE: place, **dates}
    if "memory" in fields:
        value = {each: fields[each] for each in fields.keys() - _HEAD if fields[each] is not None}
        owner = fields.get("user_id")
        return [] if owner is None else [owner], value, {IMPORTED_ID: fields.get("id"), **dates}
    raise InvalidInput("record: has neither memory, as mem0 has it, nor namespace, key and value")


def _records(path: Path) -> Iterator[object]:
    """Yield the records of a JSON document or of JSON Lines, those of pages one by one."""
    with open_input(path) as file:
        data = file.read().removeprefix(BOM)
    try:
        documents = [msgspec.json.decode(data)]
    except (ValueError, RecursionError):  # a DecodeError is a ValueError
        documents = []
        for number, line in enumerate(data.split(b"\n"), start=1):
            try:
                documents += [msgspec.json.decode(line)] if line.strip() else []
            except (ValueError, RecursionError) as problem:
                raise UsageError(f"{path}:{number}: no JSON: {problem or 'nested too deeply'}") from None
    for document in documents:
        pages = [document[name] for name in _PAGES if isinstance(document, dict) and name in document]
        found = pages[0] if pages else document
        yield from found if isinstance(found, list) else [found]
