"""LangGraph store over a memory store: items of people by namespace and key, behind their consent.

A graph, and LangMem's memory tools, use it as any other store::

    from memfin.memory import MemoryStore
    from memfin.memory.langgraph import GovernedStore
    graph = builder.compile(store=GovernedStore(MemoryStore("data")))
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, cast

from memfin.contracts.memory import ItemKind, MemoryItem
from memfin.memory.asynchronous import run_whole
from memfin.memory.errors import InvalidInput, NotFound
from memfin.memory.foreign import joined, split
from memfin.memory.items import key_of, ranked
from memfin.memory.store import MemoryStore

try:
    from langgraph.store import base
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        f"{problem}; the LangGraph store needs the extra: pip install 'memfin[langgraph]'"
    ) from problem

NAMESPACE: Final = ("memories", "{user_id}")
_PLACES: Final = {"{user_id}": "user_id", "{thread_id}": "thread_id", "{kind}": "kind"}
_OPERATORS: Final[Mapping[str, Any]] = {"$eq": eq, "$ne": ne, "$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


class GovernedStore(base.BaseStore):
    """LangGraph store whose items are those of a memory store.

    Without consent, writes raise `ConsentRequired` and reads find nothing; deletions need none. The text of a
    value, a str as ``content``, ``text`` or ``memory``, becomes that of the item; the rest comes back
    unchanged. Queries find items by their words, so ``index`` has no effect; ``ttl`` is refused. Every
    operation names a user; a batch is checked for its namespaces and texts before it begins.

    Args:
        store: the memory store, which its owner closes.
        namespace: labels, one of them ``{user_id}``. With ``{thread_id}``, items are of threads, otherwise of
            none. ``{kind}`` separates the kinds of items; otherwise all are found, and new ones are notes.
    """

    def __init__(self, store: MemoryStore, *, namespace: Sequence[str] = NAMESPACE) -> None:
        self._store = store
        self._namespace = tuple(namespace)
        places = [label for label in self._namespace if "{" in label]
        if "{user_id}" not in places or len({*places}) < len(places) or not {*places} <= _PLACES.keys():
            raise InvalidInput(
                f"namespace: must have {{user_id}}, and each of {', '.join(_PLACES)} at most once"
            )

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Carry out operations in their order, and return their results."""
        return [work() for work in [self._prepared(op) for op in ops]]

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Carry out operations in their order in a worker thread, and return their results."""
        return await run_whole(partial(self.batch, list(ops)))

    def _prepared(self, op: base.Op) -> Callable[[], base.Result]:
        """Return the work of an operation; raise `InvalidInput` for one that this store cannot carry out."""
        match op:
            case base.GetOp():
                return partial(self._get, self._place(op.namespace), op.key)
            case base.PutOp(value=None):
                return partial(self._delete, self._place(op.namespace), op.key)
            case base.PutOp():
                if op.ttl is not None:
                    raise InvalidInput("ttl: is not supported; an item is kept until it is forgotten")
                return partial(self._put, self._place(op.namespace), op.key, *split(op.value))
            case base.SearchOp():
                return partial(self._search, self._place(op.namespace_prefix, is_prefix=True), op)
            case base.ListNamespacesOp():
                prefixes = [each.path for each in op.match_conditions or () if each.match_type == "prefix"]
                place = self._place(prefixes[0] if prefixes else (), is_prefix=True)
                return partial(self._namespaces, place, op)
        raise InvalidInput(f"operation: {type(op).__name__} is unknown")

    def _place(self, labels: Sequence[str], *, is_prefix: bool = False) -> dict[str, str]:
        """Return the ids and the kind in a namespace, or in a prefix with its user; ``*`` is any label."""
        pairs = [
            each for each in zip(self._namespace, labels, strict=False) if not is_prefix or each[1] != "*"
        ]
        place = {_PLACES[form]: label for form, label in pairs if form in _PLACES}
        fits = all(form in (*_PLACES, label) for form, label in pairs) and "user_id" in place
        longest = len(self._namespace)
        if not fits or not (is_prefix or len(labels) == longest) or len(labels) > longest:
            part = ", up to the user at least" if is_prefix else ""
            raise InvalidInput(f"namespace: must have the form {self._namespace}{part}")
        return place

    def _labels(self, item: MemoryItem) -> tuple[str, ...]:
        known = {form: str(item[field]) for form, field in _PLACES.items()}
        return tuple(known.get(label, label) for label in self._namespace)

    def _readable(self, place: Mapping[str, str]) -> list[MemoryItem]:
        """Return the items of a place that consent allows to read, the last changed first."""
        user_id, kind = place["user_id"], cast("ItemKind | None", place.get("kind"))
        threads: list[str | None] = [place.get("thread_id")]
        if threads == [None] and "{thread_id}" in self._namespace:
            threads = [each.thread_id for each in self._store.list_threads(user_id)]
        all_of = partial(self._store.items.all, user_id, kind=kind)
        found = [each for thread_id in threads for each in all_of(thread_id=thread_id)]
        return sorted(found, key=lambda each: (each.updated_at, each.item_id), reverse=True)

    def _get(self, place: Mapping[str, str], key: str) -> base.Item | None:
        found = next((each for each in self._readable(place) if key_of(each) == key), None)
        return None if found is None else base.Item(**self._fields(found))

    def _put(self, place: Mapping[str, str], key: str, text: str, metadata: Mapping[str, Any]) -> None:
        kind, thread_id = cast("ItemKind | None", place.get("kind")), place.get("thread_id")
        add = partial(self._store.items.add, place["user_id"], text, metadata=metadata, key=key)
        add(kind=kind, thread_id=thread_id)

    def _delete(self, place: Mapping[str, str], key: str) -> None:
        for each in self._store.items.everything(place["user_id"]):
            is_there = each.thread_id == place.get("thread_id") and place.get("kind") in (None, each.kind)
            if is_there and key_of(each) == key:
                with suppress(NotFound):  # it was forgotten meanwhile
                    self._store.items.forget(each.user_id, each.item_id)

    def _search(self, place: Mapping[str, str], op: base.SearchOp) -> list[base.SearchItem]:
        items = self._readable(place)
        found: list[tuple[MemoryItem, float | None]] = [(each, None) for each in items]
        if op.query:
            found = [(each.item, each.score) for each in ranked(items, op.query)]
        kept = [
            base.SearchItem(**self._fields(item), score=score)
            for item, score in found
            if not op.filter or _fits(joined(item), op.filter)
        ]
        return kept[op.offset :][: op.limit]

    def _namespaces(self, place: Mapping[str, str], op: base.ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = {self._labels(each) for each in self._readable(place)}
        kept = {each[: op.max_depth] for each in found if all(_matches(each, one) for one in conditions)}
        return sorted(kept)[op.offset :][: op.limit]

    def _fields(self, item: MemoryItem) -> dict[str, Any]:
        return {
            "namespace": self._labels(item),
            "key": key_of(item),
            "value": joined(item),
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        }


def _matches(labels: tuple[str, ...], condition: base.MatchCondition) -> bool:
    path = tuple(condition.path)
    part = labels[: len(path)] if condition.match_type == "prefix" else labels[len(labels) - len(path) :]
    return len(part) == len(path) and all(one in ("*", label) for label, one in zip(part, path, strict=True))


def _fits(value: Any, wanted: Any) -> bool:
    """Return True if a value has what a filter asks for: an equal value, operators, or fields that fit."""
    if isinstance(wanted, tuple):
        wanted = list(wanted)
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if not any(str(name).startswith("$") for name in wanted):
        return isinstance(value, Mapping) and all(
            _fits(value.get(name), each) for name, each in wanted.items()
        )
    if unknown := wanted.keys() - _OPERATORS.keys():
        raise InvalidInput(
            f"filter: unknown operator {min(unknown)}; known operators: {', '.join(_OPERATORS)}"
        )
    try:
        return all(_OPERATORS[name](value, each) for name, each in wanted.items())
    except TypeError:  # no order between the two
        return False
