"""Tools of a user's memory for models that call tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfin.memory import MemoryStore
from memfin.memory.errors import InvalidInput, NotFound
from memfin.memory.tools import MemoryTools
from tests.memory.memory_world import EVERYTHING


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path) as opened:
        opened.grant_consent("ada", EVERYTHING)
        yield opened


def called(tools: MemoryTools, name: str, **arguments: Any) -> Any:
    return json.loads(tools.call(name, json.dumps(arguments)))


def test_a_model_remembers_finds_corrects_and_forgets(store: MemoryStore) -> None:
    tools = MemoryTools(store, "ada")
    made = called(tools, "remember", text="不用杠杆", kind="constraint")
    called(tools, "remember", text="prefers letters to calls")
    found = called(tools, "search_memory", query="杠杆", limit=1)
    assert [each["item_id"] for each in found["items"]] == [made["item_id"]]
    assert (
        called(tools, "update_memory", item_id=made["item_id"], text="杠杆不超过一成")["text"]
        == "杠杆不超过一成"
    )
    assert [each["text"] for each in called(tools, "list_memory", kind="constraint")["items"]] == [
        "杠杆不超过一成"
    ]
    assert [each.text for each in store.items.history("ada", made["item_id"])] == [
        "不用杠杆",
        "杠杆不超过一成",
    ]
    assert called(tools, "forget_memory", item_id=made["item_id"]) == {"forgotten": made["item_id"]}
    assert [each["kind"] for each in called(tools, "list_memory")["items"]] == ["note"]


def test_what_a_model_remembers_reaches_the_next_task(store: MemoryStore) -> None:
    called(MemoryTools(store, "ada"), "remember", text="no leverage", kind="constraint")
    task = store.start_task("ada", "pre_execution")
    assert 'constraints: ["no leverage"]' in task.memory.block.text


def test_offers_have_the_shape_of_a_chat_completions_request(store: MemoryStore) -> None:
    offers = {each["function"]["name"]: each for each in MemoryTools(store, "ada").offers()}
    assert list(offers) == [*MemoryTools(store, "ada")]
    assert all(each["type"] == "function" and each["function"]["description"] for each in offers.values())
    remember = offers["remember"]["function"]["parameters"]
    assert remember["type"] == "object"
    assert remember["required"] == ["text"]
    assert remember["properties"]["kind"]["enum"] == ["constraint", "note", "position"]
    assert remember["additionalProperties"] is False
    assert "user" not in json.dumps(list(remember["properties"]))


def test_a_route_hides_what_it_may_not_read(store: MemoryStore) -> None:
    free = called(MemoryTools(store, "ada"), "remember", text="no leverage", kind="constraint")
    tools = MemoryTools(store, "ada", route="snapshot")
    assert called(tools, "list_memory") == called(tools, "search_memory", query="leverage") == {"items": []}
    assert "do not read note" in called(tools, "remember", text="likes gold")["error"]
    for name, others in (("forget_memory", {}), ("update_memory", {"text": "any leverage"})):
        assert "none with that id" in called(tools, name, item_id=free["item_id"], **others)["error"]
    assert store.items.get("ada", free["item_id"]).text == "no leverage"


def test_consent_and_the_gate_hold_for_a_model(store: MemoryStore) -> None:
    tools = MemoryTools(store, "ada")
    made = called(tools, "remember", text="likes gold")
    assert "error" in called(tools, "remember", text="card 6222 0212 3456 7890 128")
    store.revoke_consent("ada")
    assert called(tools, "list_memory") == {"items": []}
    assert "consent" in called(tools, "remember", text="likes silver")["error"]
    assert "error" in called(tools, "update_memory", item_id=made["item_id"], text="likes silver")


def test_another_users_items_are_unknown(store: MemoryStore) -> None:
    made = called(MemoryTools(store, "ada"), "remember", text="likes gold")
    store.grant_consent("bob", EVERYTHING)
    tools = MemoryTools(store, "bob")
    for item_id in (made["item_id"], "item_20261128T000000Z_000000"):
        with pytest.raises(NotFound, match="none with that id"):
            tools.invoke("forget_memory", {"item_id": item_id})
    assert called(tools, "list_memory") == {"items": []}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("recall", "{}", "'recall': unknown; known tools: remember,"),
        ("remember", "{", "no JSON object"),
        ("remember", "[1]", "arguments: Expected `object`"),
        ("remember", '{"text": "a", "user_id": "bob"}', "unknown field `user_id`"),
        ("remember", '{"text": ""}', "text: "),
        ("search_memory", '{"query": "a", "limit": 100}', "limit: "),
    ],
)
def test_arguments_that_do_not_fit_are_one_line(
    store: MemoryStore, name: str, arguments: str, words: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        MemoryTools(store, "ada").invoke(name, arguments)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_thread_is_searched_with_the_rest_and_added_to(store: MemoryStore) -> None:
    called(MemoryTools(store, "ada"), "remember", text="likes gold")
    thread = store.save_thread("ada", "s1", "Metals", {})
    tools = MemoryTools(store, "ada", thread_id=thread.thread_id)
    made = called(tools, "remember", text="sells gold in May")
    assert store.items.get("ada", made["item_id"]).thread_id == thread.thread_id
    assert {each["text"] for each in called(tools, "list_memory")["items"]} == {
        "likes gold",
        "sells gold in May",
    }
    assert called(MemoryTools(store, "ada"), "list_memory")["items"][0]["text"] == "likes gold"


def test_tools_of_an_unknown_route_or_user_are_refused_when_they_are_made(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="route: unknown; known routes: snapshot"):
        MemoryTools(store, "ada", route="snap")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="user id: must be"):
        MemoryTools(store, "ada/bob")


@pytest.mark.parametrize("name", [None, 5, [], {}, "remember it"])
def test_an_unknown_name_is_refused_whatever_its_type(store: MemoryStore, name: Any) -> None:
    assert "unknown; known tools: " in json.loads(MemoryTools(store, "ada").call(name, "{}"))["error"]


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"text": "\ud800"}', "\ud800", "1e999", "null", "{"])
def test_arguments_that_cannot_be_read_are_refused(store: MemoryStore, arguments: str) -> None:
    assert json.loads(MemoryTools(store, "ada").call("remember", arguments))["error"].startswith(
        "arguments: "
    )
