"""LangGraph store over the items of a memory store, as graphs and LangMem's tools use it."""

import asyncio
import importlib
import json
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="the extra memfin[langgraph] is not installed")

from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp

from memfin.contracts.memory import ItemKind
from memfin.memory import MemoryStore
from memfin.memory.errors import ConsentRequired, InvalidInput, MemoryRefusal, SensitiveInput
from memfin.memory.foreign import import_items
from memfin.memory.langgraph import GovernedStore
from tests.memory.memory_disks import UnsyncedFiles
from tests.memory.memory_world import EVERYTHING, SECOND, Clock
from tests.support import each_case

ADA, BOB = ("memories", "ada"), ("memories", "bob")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path, clock=Clock(pace=SECOND), files=UnsyncedFiles()) as opened:
        for user in ("ada", "bob"):
            opened.grant_consent(user, EVERYTHING)
        yield opened


@pytest.fixture
def store(memory: MemoryStore) -> GovernedStore:
    return GovernedStore(memory)


def keys(found: Any) -> list[str]:
    return [each.key for each in found]


@each_case(
    "value",
    [
        {"content": "不用杠杆"},
        {"text": "no leverage", "topic": "risk", "tags": ["a", {"b": 1.5}], "key": "x", "field": None},
        {"memory": "no leverage", "value": {"n": 1}},
        {"kind": "Memory", "content": {"content": "no leverage", "certainty": 3}},
    ],
)
def test_a_value_comes_back_unchanged(store: GovernedStore, value: dict[str, Any]) -> None:
    store.put(ADA, "k1", value)
    found = store.get(ADA, "k1")
    assert found is not None
    assert (found.namespace, found.key, found.value) == (ADA, "k1", value)
    assert [each.dict() for each in store.search(ADA)] == [{**found.dict(), "score": None}]


def test_a_key_has_one_item_with_its_first_date_and_its_history(
    store: GovernedStore, memory: MemoryStore
) -> None:
    store.put(ADA, "k1", {"content": "no leverage", "topic": "risk"})
    store.put(ADA, "k2", {"content": "no leverage"})  # another key is another item
    before = store.get(ADA, "k1")
    store.put(ADA, "k1", {"content": "leverage up to ten percent"})
    after = store.get(ADA, "k1")
    assert before is not None
    assert after is not None
    assert after.value == {"content": "leverage up to ten percent"}
    assert after.created_at == before.created_at
    assert after.updated_at - before.updated_at >= timedelta(seconds=1)
    (item,) = (each for each in memory.items.all("ada") if each.metadata["key"] == "k1")
    assert [each.text for each in item.versions] == ["no leverage"]
    store.put(ADA, "k1", {"content": "leverage up to ten percent", "topic": "debt"})
    assert keys(store.search(ADA, filter={"topic": "debt"})) == ["k1"]


def test_concurrent_writers_of_a_new_key_make_one_item(store: GovernedStore, memory: MemoryStore) -> None:
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        store.put(ADA, "k1", {"content": f"text {number}"})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    (item,) = memory.items.all("ada")
    assert len(item.versions) == 3


def test_deletion_is_physical_and_of_an_unknown_key_nothing(
    store: GovernedStore, memory: MemoryStore
) -> None:
    store.put(ADA, "k1", {"content": "no leverage"})
    store.delete(ADA, "k2")
    store.delete(BOB, "k1")
    assert keys(store.search(ADA)) == ["k1"]
    store.delete(ADA, "k1")
    assert store.get(ADA, "k1") is None
    assert not any(b"leverage" in path.read_bytes() for path in memory.root.rglob("*") if path.is_file())


def test_what_else_is_remembered_is_found_by_the_id_of_its_item(
    store: GovernedStore, memory: MemoryStore
) -> None:
    made = memory.items.add("ada", "no leverage", kind="constraint", metadata={"source": "chat"})
    (found,) = store.search(ADA, query="leverage")
    assert (found.key, found.value) == (made.item_id, {"content": "no leverage", "source": "chat"})
    store.put(ADA, made.item_id, {"content": "no debt"})
    (item,) = memory.items.all("ada")
    assert (item.item_id, item.kind, item.text) == (made.item_id, "constraint", "no debt")


def test_what_a_graph_remembers_reaches_the_next_task(store: GovernedStore, memory: MemoryStore) -> None:
    GovernedStore(memory, namespace=("{kind}", "{user_id}")).put(
        ("constraint", "ada"), "k1", {"content": "no leverage"}
    )
    assert 'constraints: ["no leverage"]' in memory.start_task("ada", "pre_execution").memory.block.text
    assert keys(store.search(ADA)) == ["k1"]


def test_search_ranks_by_words_filters_and_pages(store: GovernedStore) -> None:
    for number, text in enumerate(("gold and silver", "gold, gold only", "平安银行", "bonds")):
        store.put(ADA, f"k{number}", {"content": text, "size": number, "day": f"2026-01-0{number + 1}"})
    assert keys(store.search(ADA, query="gold")) == ["k1", "k0"]
    assert keys(store.search(ADA, query="平安")) == ["k2"]
    assert keys(store.search(ADA)) == ["k3", "k2", "k1", "k0"]
    assert keys(store.search(ADA, limit=2, offset=1)) == ["k2", "k1"]
    scores = [each.score for each in store.search(ADA, query="gold")]
    assert scores == sorted((score for score in scores if score), reverse=True)


@each_case(
    ("wanted", "found"),
    [
        ({"size": 1}, ["b"]),
        ({"size": {"$eq": 1}}, ["b"]),
        ({"size": {"$ne": 1}}, ["c", "a"]),
        ({"size": {"$gt": 0, "$lt": 2}}, ["b"]),
        ({"size": {"$gte": 1}, "topic": "x"}, ["b"]),
        ({"size": {"$lte": 0}}, ["a"]),
        ({"day": {"$gt": "2026-01-01"}}, ["c", "b"]),
        ({"day": {"$gt": 3}}, []),
        ({"deep": {"n": 2}}, ["c"]),
        ({"tags": ("t", "u")}, ["c"]),
        ({"content": "one"}, ["b"]),
        ({"absent": None}, ["c", "b", "a"]),
    ],
)
def test_filters_have_the_operators_of_langgraph(
    store: GovernedStore, wanted: dict[str, Any], found: list[str]
) -> None:
    for number, (key, text) in enumerate((("a", "zero"), ("b", "one"), ("c", "two"))):
        value = {"content": text, "size": number, "day": f"2026-01-0{number + 1}", "topic": "yxy"[number]}
        store.put(ADA, key, {**value, "deep": {"n": number, "m": 0}, "tags": ["t", "u"][:number]})
    assert keys(store.search(ADA, filter=wanted)) == found


def test_two_users_never_see_each_other(store: GovernedStore) -> None:
    store.put(ADA, "k1", {"content": "gold"})
    store.put(BOB, "k1", {"content": "silver"})
    assert [each.value["content"] for each in store.search(ADA)] == ["gold"]
    assert store.search(ADA, query="silver") == []
    assert store.list_namespaces(prefix=BOB) == [BOB]
    store.delete(BOB, "k1")
    assert store.get(BOB, "k1") is None
    assert store.get(ADA, "k1") is not None


def test_without_consent_writes_are_refused_and_reads_find_nothing(
    store: GovernedStore, memory: MemoryStore
) -> None:
    store.put(ADA, "k1", {"content": "gold"})
    memory.revoke_consent("ada")
    for user in (ADA, ("memories", "stranger")):
        assert store.get(user, "k1") is None
        assert (
            store.search(user) == store.search(user, query="gold") == store.list_namespaces(prefix=user) == []
        )
        with pytest.raises(ConsentRequired):
            store.put(user, "k1", {"content": "silver"})
        store.delete(user, "k1")


@each_case(
    ("place", "value", "words"),
    [
        (("memories",), {"content": "x"}, r"namespace: must have the form \('memories', '{user_id}'\)"),
        (("memories", "ada", "more"), {"content": "x"}, "namespace: must have the form"),
        (("others", "ada"), {"content": "x"}, "namespace: must have the form"),
        (("memories", "*"), {"content": "x"}, "user id: must be"),
        (ADA, {"data": "x"}, "value: has no text; give an object with a str as content, text, memory"),
        (ADA, {"content": ["x"]}, "value: has no text"),
        (ADA, {"content": "x", "other": object()}, "JSON"),
        (ADA, {"content": " "}, "text: "),
        (ADA, {"content": "x" * 4001}, "text: "),
        (ADA, {"content": "card 6222 0212 3456 7890 128"}, "sensitive"),
        (ADA, {"content": "x", "card": "6222 0212 3456 7890 128"}, "sensitive"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    store: GovernedStore, memory: MemoryStore, place: tuple[str, ...], value: dict[str, Any], words: str
) -> None:
    with pytest.raises(MemoryRefusal, match=words) as refusal:
        store.put(place, "k1", value)
    assert "\n" not in str(refusal.value)
    assert memory.items.all("ada") == []


def test_searches_name_their_user(store: GovernedStore) -> None:
    for prefix in ((), ("memories",), ("memories", "*"), ("other", "ada"), (*ADA, "more")):
        with pytest.raises(InvalidInput, match="up to the user at least"):
            store.batch([SearchOp(prefix)])
        with pytest.raises(InvalidInput, match="up to the user at least"):
            store.list_namespaces(prefix=prefix)
    store.put(ADA, "k1", {"content": "x"})
    with pytest.raises(InvalidInput, match=r"filter: unknown operator \$in"):
        store.search(ADA, filter={"content": {"$in": ["x"]}})


def test_expiry_is_refused(store: GovernedStore) -> None:
    assert not store.supports_ttl
    with pytest.raises(NotImplementedError):
        store.put(ADA, "k1", {"content": "x"}, ttl=5)
    with pytest.raises(InvalidInput, match="ttl: is not supported"):
        store.batch([PutOp(ADA, "k1", {"content": "x"}, ttl=5)])


def test_a_batch_with_an_operation_that_does_not_fit_is_not_begun(
    store: GovernedStore, memory: MemoryStore
) -> None:
    with pytest.raises(InvalidInput, match="value"):
        store.batch([PutOp(ADA, "k1", {"content": "x"}), PutOp(ADA, "k2", {})])
    assert memory.items.all("ada") == []
    put, got, found = store.batch([PutOp(ADA, "k1", {"content": "x"}), GetOp(ADA, "k1"), SearchOp(ADA)])
    assert put is None
    assert [got.key if got else None, *keys(found)] == ["k1", "k1"]  # type: ignore[union-attr]


@each_case(
    "namespace", [(), ("memories",), ("{user}", "{user_id}"), ("{user_id}", "{user_id}"), ("u-{user_id}",)]
)
def test_a_form_of_namespaces_without_one_user_is_refused(
    memory: MemoryStore, namespace: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput, match=r"namespace: must have \{user_id\}"):
        GovernedStore(memory, namespace=namespace)


def test_namespaces_of_threads_and_kinds(memory: MemoryStore) -> None:
    store = GovernedStore(memory, namespace=("{user_id}", "{thread_id}", "{kind}"))
    saved = [
        memory.save_thread("ada", f"snap_{name}", name, {"kind": "asset", "name": name})
        for name in ("gold", "silver")
    ]
    first, second = sorted(each.thread_id for each in saved)
    kinds: tuple[ItemKind, ...] = ("note", "constraint")
    for thread in (first, second):
        for kind in kinds:
            store.put(("ada", thread, kind), "k1", {"content": f"{kind} of {thread}"})
    assert store.list_namespaces(prefix=("ada",)) == [
        ("ada", thread, kind) for thread in (first, second) for kind in sorted(kinds)
    ]
    assert store.list_namespaces(prefix=("ada", "*", "note"), max_depth=2) == [
        ("ada", first),
        ("ada", second),
    ]
    assert store.list_namespaces(prefix=("ada",), suffix=("note",), limit=1, offset=1) == [
        ("ada", second, "note")
    ]
    assert len(store.search(("ada",))) == 4
    assert len(store.search(("ada", first))) == 2
    store.delete(("ada", first, "note"), "k1")
    assert store.get(("ada", first, "note"), "k1") is None
    assert store.get(("ada", first, "constraint"), "k1") is not None
    memory.patch_thread("ada", first, consent_blocked=True)
    assert store.search(("ada", first)) == []
    with pytest.raises(ConsentRequired):
        store.put(("ada", first, "note"), "k1", {"content": "x"})
    with pytest.raises(MemoryRefusal):
        store.put(("ada", second, "rule"), "k1", {"content": "x"})


def test_a_graph_remembers_across_threads_of_a_user(store: GovernedStore, memory: MemoryStore) -> None:
    async def advise(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
        assert isinstance(runtime.store, BaseStore)
        known = await runtime.store.asearch(ADA, query=str(state["messages"][-1].content))
        await runtime.store.aput(ADA, "k1", {"content": str(state["messages"][-1].content)})
        return {"messages": [("ai", "; ".join(each.value["content"] for each in known) or "noted")]}

    builder = StateGraph(MessagesState)
    builder.add_node("advise", advise)
    builder.add_edge(START, "advise")
    builder.add_edge("advise", END)
    graph = builder.compile(store=store)

    async def main() -> list[str]:
        asked = ("no leverage please", "may I use leverage?")
        return [
            (await graph.ainvoke(MessagesState(messages=[HumanMessage(text)])))["messages"][-1].content
            for text in asked
        ]

    assert asyncio.run(main()) == ["noted", "no leverage please"]
    memory.revoke_consent("ada")
    with pytest.raises(ConsentRequired):
        asyncio.run(main())


async def test_the_loop_is_free_while_a_batch_waits(store: GovernedStore, memory: MemoryStore) -> None:
    with memory.workspace.locks.of_user("ada"):
        writing = asyncio.create_task(store.aput(ADA, "k1", {"content": "gold"}))
        await asyncio.sleep(0)
        found = await store.asearch(BOB)
        assert (found, writing.done()) == ([], False)
    await writing
    assert keys(await store.asearch(ADA)) == ["k1"]
    await store.adelete(ADA, "k1")
    with pytest.raises(SensitiveInput):
        await store.aput(ADA, "k1", {"content": "card 6222 0212 3456 7890 128"})


def test_imported_records_are_found_by_their_keys_and_stay_known(
    store: GovernedStore, memory: MemoryStore, tmp_path: Path
) -> None:
    record = {"namespace": list(ADA), "key": "k1", "value": {"content": "no debt", "topic": "debt"}}
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps([record]))
    assert import_items(memory, "ada", dump).added == 1
    found = store.get(ADA, "k1")
    assert found is not None
    assert found.value == record["value"]
    store.put(ADA, "k1", {"content": "little debt"})
    assert import_items(memory, "ada", dump)[:2] == (0, 1)
    assert [each.value for each in store.search(ADA)] == [{"content": "little debt"}]


def test_without_the_extra_the_line_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.store", None)
    monkeypatch.delitem(sys.modules, "memfin.memory.langgraph")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'memfin\[langgraph\]'"):
        importlib.import_module("memfin.memory.langgraph")
