"""Items: single texts with ids, earlier values and search, behind the consent of their scope."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts.memory import ItemKind, MemoryItem
from memfin.errors import UsageError
from memfin.memory import MemoryStore, items, package
from memfin.memory.errors import (
    ConsentRequired,
    InvalidId,
    InvalidInput,
    MemoryRefusal,
    NotFound,
    SensitiveInput,
    ThreadClosed,
)
from memfin.memory.items import BATCH
from memfin.memory.package import verify_package
from tests.memory.memory_disks import UnsyncedFiles, tree
from tests.memory.memory_world import EVERYTHING, NOTHING_KEPT, SECOND, START, Clock, open_store


def thread_of(store: MemoryStore, user_id: str) -> str:
    return store.save_thread(user_id, "snap_1", "债券", {"type": "asset"}).thread_id


def all_bytes(root: Path) -> bytes:
    return b"".join(tree(root, state=True).values())


def texts(found: list[MemoryItem]) -> list[str]:
    return [each.text for each in found]


def test_an_item_is_added_read_changed_and_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        store.grant_consent("ann", EVERYTHING)
        first = store.items.add("ann", " 不用杠杆 ", kind="constraint", metadata={"from": "call"})
        clock.now += SECOND
        note = store.items.add("ann", "Prefers mornings")
        assert (first.text, first.kind, first.metadata, first.created_at) == (
            "不用杠杆", "constraint", {"from": "call"}, START
        )  # fmt: skip
        assert store.items.get("ann", first.item_id) == first
        assert texts(store.items.all("ann")) == ["不用杠杆", "Prefers mornings"]
        assert store.items.all("ann", kind="note") == [note]

        changed = store.items.update("ann", first.item_id, "杠杆不超过1.2倍")
        assert store.items.update("ann", first.item_id, "杠杆不超过1.2倍") == changed
        assert [(each.text, each.at) for each in store.items.history("ann", first.item_id)] == [
            ("不用杠杆", START), ("杠杆不超过1.2倍", START + SECOND)
        ]  # fmt: skip
        store.items.forget("ann", first.item_id)
        assert store.items.all("ann") == [note]
        assert "杠杆".encode() not in all_bytes(tmp_path)
        for call in (store.items.get, store.items.history, store.items.forget):
            with pytest.raises(NotFound, match="item: there is none with that id"):
                call("ann", first.item_id)


def test_a_key_names_one_item_of_a_kind_in_its_place(tmp_path: Path) -> None:
    clock = Clock(pace=SECOND)
    with open_store(tmp_path, clock) as store:
        store.grant_consent("ann", EVERYTHING)
        first = store.items.add("ann", "likes tea", key="k", metadata={"a": 1})
        other = store.items.add("ann", "likes tea", key="l")
        rule = store.items.add("ann", "no debt", key="k", kind="constraint")
        assert len({first.item_id, other.item_id, rule.item_id}) == 3
        changed = store.items.add("ann", "likes coffee", key="k", kind="note", metadata={"b": 2})
        assert (changed.item_id, changed.created_at) == (first.item_id, first.created_at)
        assert changed.metadata == {"a": 1, "b": 2, "key": "k"}
        assert [each.text for each in changed.versions] == ["likes tea"]
        assert store.items.add("ann", "likes coffee", key="k", kind="note", metadata={"b": 2}) == changed
        more = store.items.add("ann", "likes coffee", key="k", kind="note", metadata={"b": 3})
        assert (more.versions, more.metadata["b"]) == (changed.versions, 3)
        by_id = store.items.add("ann", "likes maps", key=store.items.add("ann", "likes art").item_id)
        assert [each.text for each in by_id.versions] == ["likes art"]
        with pytest.raises(InvalidInput, match="metadata"):
            store.items.add("ann", "x", key="k", metadata=["a"])  # type: ignore[arg-type]


def test_an_equal_text_of_a_kind_is_one_item_in_its_place(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        added = store.items.add("ann", "no leverage")
        assert store.items.add("ann", "no leverage ", metadata={"again": True}) == added
        other = store.items.add("ann", "no leverage", kind="constraint")
        inside = store.items.add("ann", "no leverage", thread_id=thread_id)
        assert len({added.item_id, other.item_id, inside.item_id}) == 3
        assert store.items.all("ann", thread_id=thread_id) == [inside]
        assert store.items.everything("ann") == [added, other, inside]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "  "}, "text: "),
        ({"text": "x" * 4001}, "text: "),
        ({"text": 5}, "text: "),
        ({"kind": "fact"}, "kind: "),
        ({"metadata": {str(number): 1 for number in range(17)}}, "metadata: "),
        ({"metadata": "x"}, "metadata: "),
        ({"metadata": {"x": float("nan")}}, "metadata.x: is not a finite number"),
        ({"metadata": {"x": "y" * (64 << 10)}}, "MemoryItem: is larger than"),
    ],
)
def test_what_is_no_item_is_refused_in_one_line(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        with pytest.raises(InvalidInput, match=f"^{message}"):
            store.items.add("ann", **{"text": "a", **given})
        assert store.items.all("ann") == []
        with pytest.raises(InvalidInput, match="kind: unknown; known kinds: position, constraint, note"):
            store.items.all("ann", kind="fact")  # type: ignore[arg-type]


def test_keys_queries_and_limits_of_other_types_are_refused(tmp_path: Path) -> None:
    bad: Any = 5
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        for call, message in (
            (lambda: store.items.add("ann", "tea", key=bad), "key: must be a str"),
            (lambda: store.items.search("ann", bad), "query: must be a str"),
            (lambda: store.items.search("ann", "tea", limit="5"), "limit: must be at least 1, as an int"),  # type: ignore[arg-type]
            (lambda: store.items.add_all("ann", "tea"), "texts: give a list of texts"),
            (lambda: store.items.add_all("ann", ["tea"], metadata=[]), "metadata: has 0 entries for 1 texts"),
            (lambda: store.items.add_all("ann", ["tea"], kind=bad), "kind: unknown; known kinds: "),
        ):
            with pytest.raises(InvalidInput, match=f"^{message}"):
                call()
        assert store.items.all("ann") == []


class CountingFiles(UnsyncedFiles):
    """Files that count the loads of items."""

    loads = 0

    def load(self, path: Path) -> bytes | None:
        self.loads += path.name.startswith("item_")
        return super().load(path)


def test_many_texts_are_added_with_one_read_of_the_items_per_batch(tmp_path: Path) -> None:
    files = CountingFiles()
    with MemoryStore(tmp_path, clock=Clock(pace=SECOND), files=files) as store:
        store.grant_consent("ann", EVERYTHING)
        tea = store.items.add("ann", "tea")
        texts = ["tea", "my card is 6222 0212 3456 7890 128", "ale ", "ale", *map(str, range(BATCH))]
        extras = [{"number": at} for at in range(len(texts))]
        files.loads = 0
        done = store.items.add_all("ann", texts, metadata=extras)
        assert files.loads <= 2 * len(texts)  # one read per batch, and one of the new file
        assert done[0] == tea
        assert isinstance(done[1], SensitiveInput)
        assert done[2] == done[3]
        assert [each.text for each in store.items.all("ann")] == ["tea", "ale", *map(str, range(BATCH))]
        assert store.items.all("ann")[-1].metadata == extras[-1]
        store.revoke_consent("ann", scope="save_to_profile")
        with pytest.raises(ConsentRequired):
            store.items.add_all("ann", ["gin"])


def test_sensitive_text_is_refused_before_any_write(tmp_path: Path) -> None:
    with MemoryStore(tmp_path, clock=Clock()) as store:
        store.grant_consent("ann", EVERYTHING)
        item = store.items.add("ann", "looks at funds")
        before = all_bytes(tmp_path)
        attempts: list[Any] = [
            lambda: store.items.add("ann", "my card is 4111 1111 1111 1111"),
            lambda: store.items.add("ann", "a", metadata={"phone": "13800138000"}),
            lambda: store.items.update("ann", item.item_id, "身份证 11010519491231002X"),
        ]
        for attempt in attempts:
            with pytest.raises(SensitiveInput):
                attempt()
        assert all_bytes(tmp_path) == before


def test_history_keeps_the_newest_values_that_fit_into_a_record(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        short = store.items.add("ann", "0")
        for number in range(1, 41):
            store.items.update("ann", short.item_id, str(number))
        kept = store.items.history("ann", short.item_id)
        assert [each.text for each in kept] == [str(number) for number in range(8, 41)]
        assert all(earlier.at < later.at for earlier, later in pairwise(kept))

        long = store.items.add("ann", "债" * 4000)
        for sign in "股基金现货币票":
            store.items.update("ann", long.item_id, sign * 4000)
        kept = store.items.history("ann", long.item_id)
        assert [each.text[0] for each in kept] == list("金现货币票")


def test_a_person_has_at_most_so_many_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MAX_ITEMS", 3)
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        added = [store.items.add("ann", "a"), store.items.add("ann", "b", thread_id=thread_id)]
        store.items.add("ann", "c")
        with pytest.raises(InvalidInput, match="items: a person has at most 3; forget some of them first"):
            store.items.add("ann", "d", thread_id=thread_id)
        assert store.items.add("ann", "a") == added[0]
        store.items.forget("ann", added[0].item_id)
        store.items.add("ann", "d")


def test_nothing_is_added_without_the_consent_of_its_scope(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        with pytest.raises(ConsentRequired, match="save_to_profile"):
            store.items.add("ann", "a")
        store.grant_consent("ann", NOTHING_KEPT)
        thread_id = thread_of(store, "ann")
        with pytest.raises(ConsentRequired, match="save_to_profile"):
            store.items.add("ann", "a")
        with pytest.raises(ConsentRequired, match="save_to_thread"):
            store.items.add("ann", "a", thread_id=thread_id)
        assert not store.items.all("ann")
        assert not store.items.search("ann", "a")


@pytest.mark.parametrize("scope", ["save_to_profile", "save_to_thread", None])
def test_a_revocation_removes_items_and_blocks_those_of_threads(scope: Any, tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        own = store.items.add("ann", "own-secret")
        kept = store.items.add("ann", "kept-secret", thread_id=thread_id)
        store.revoke_consent("ann", scope=scope)

        gone, blocked = scope != "save_to_thread", scope != "save_to_profile"
        for _ in range(2):  # a new grant brings nothing back
            assert store.items.all("ann") == ([] if gone else [own])
            assert store.items.all("ann", thread_id=thread_id) == ([] if blocked else [kept])
            found = [each.item for each in store.items.search("ann", "secret", thread_id=thread_id)]
            assert found == ([] if gone else [own]) + ([] if blocked else [kept])
            assert (b"own-secret" in all_bytes(tmp_path)) is not gone
            everything = [] if gone else [own]
            assert store.items.everything("ann") == [*everything, kept.replace(consent_blocked=blocked)]
            for item, shut in ((own, gone), (kept, blocked)):
                if shut:
                    with pytest.raises(NotFound):
                        store.items.get("ann", item.item_id)
                    with pytest.raises(MemoryRefusal):
                        store.items.update("ann", item.item_id, "b")
            store.grant_consent("ann", EVERYTHING)
        store.items.forget("ann", kept.item_id)
        assert b"kept-secret" not in all_bytes(tmp_path)


def test_items_of_a_thread_end_with_its_preferences_and_its_writing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        forgotten, closed = thread_of(store, "ann"), thread_of(store, "ann")
        item = store.items.add("ann", "a", thread_id=forgotten)
        store.patch_thread("ann", forgotten, consent_blocked=True)
        assert store.items.all("ann", thread_id=forgotten) == []
        assert store.items.everything("ann") == [item.replace(consent_blocked=True)]
        with pytest.raises(ConsentRequired, match="no longer used"):
            store.items.add("ann", "b", thread_id=forgotten)

        item = store.items.add("ann", "a", thread_id=closed)
        store.patch_thread("ann", closed, status="closed")
        assert store.items.all("ann", thread_id=closed) == [item]
        with pytest.raises(ThreadClosed):
            store.items.add("ann", "b", thread_id=closed)
        with pytest.raises(ThreadClosed):
            store.items.update("ann", item.item_id, "b")
        store.items.forget("ann", item.item_id)
        with pytest.raises(NotFound):
            store.items.add("ann", "b", thread_id="thread_of_nobody")


def test_items_go_with_their_thread(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        store.items.add("ann", "kept-secret", thread_id=thread_id)
        store.delete_thread("ann", thread_id)
        assert store.items.everything("ann") == []
        assert b"secret" not in all_bytes(tmp_path)


def test_search_finds_words_and_chinese_pairs(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        for text in (
            "持有中国国债五年期",
            "不买房地产股票",
            "Never uses leverage",
            "Asks about treasury bonds and leverage before every trade of the quarter",
            "喜欢早上看报告",
        ):
            store.items.add("ann", text)

        def found(query: str, **options: Any) -> list[str]:
            return texts([each.item for each in store.items.search("ann", query, **options)])

        assert found("国债")[0] == "持有中国国债五年期"
        assert found("债") == ["持有中国国债五年期"]
        assert found("leverage")[0] == "Never uses leverage"
        assert len(found("LEVERAGE")) == 2
        assert found("leverage", limit=1) == ["Never uses leverage"]
        assert found("房地产的报告") == ["不买房地产股票", "喜欢早上看报告"]
        assert found("lever") == found("gold") == found("") == []
        scores = [each.score for each in store.items.search("ann", "treasury leverage")]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[1] > 0
        with pytest.raises(InvalidInput, match="limit: must be at least 1"):
            found("a", limit=0)


def test_equal_scores_put_exact_words_first_then_newer_items(tmp_path: Path) -> None:
    clock = Clock(pace=timedelta(seconds=1))
    with open_store(tmp_path, clock) as store:
        store.grant_consent("ann", EVERYTHING)
        for text in ("c++ fund", "c fund", "d fund"):
            store.items.add("ann", text)
        best = store.items.search("ann", "c++")
        assert texts([each.item for each in best]) == ["c++ fund", "c fund"]
        assert best[0].score == best[1].score
        newer = store.items.search("ann", "fund")
        assert texts([each.item for each in newer]) == ["d fund", "c fund", "c++ fund"]


KINDS: list[ItemKind] = ["constraint", "position", "note"]


def test_a_route_restricts_the_kinds(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        for kind in KINDS:
            store.items.add("ann", f"gold {kind}", kind=kind)
        assert store.items.search("ann", "gold", route="snapshot") == []
        for route in (None, "pre_execution"):
            assert len(store.items.search("ann", "gold", route=route)) == 3
        with pytest.raises(InvalidInput, match="route: unknown"):
            store.items.search("ann", "gold", route="nowhere")  # type: ignore[arg-type]


def test_old_items_are_found_among_many_with_the_same_word(tmp_path: Path) -> None:
    with open_store(tmp_path, files=UnsyncedFiles()) as store:
        store.grant_consent("ann", EVERYTHING)
        store.items.add("ann", "gold in the cellar")
        store.items.add_all("ann", [f"gold {number}" for number in range(120)])
        assert len(store.items.search("ann", "gold", limit=200)) == 121
        assert store.items.search("ann", "gold cellar")[0].item.text == "gold in the cellar"


def test_a_search_reads_the_items_of_its_thread_and_of_no_other(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        one, two = thread_of(store, "ann"), thread_of(store, "ann")
        own = store.items.add("ann", "gold")
        inside = store.items.add("ann", "gold coin", thread_id=one)
        store.items.add("ann", "gold bar", thread_id=two)
        assert [each.item for each in store.items.search("ann", "gold")] == [own]
        found = [each.item.text for each in store.items.search("ann", "gold", thread_id=one)]
        assert sorted(found) == [own.text, inside.text]


def test_items_of_another_person_are_none(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for user_id in ("ann", "bob"):
            store.grant_consent(user_id, EVERYTHING)
        item = store.items.add("ann", "a")
        thread_id = thread_of(store, "ann")
        for attempt in (
            lambda: store.items.get("bob", item.item_id),
            lambda: store.items.update("bob", item.item_id, "b"),
            lambda: store.items.forget("bob", item.item_id),
            lambda: store.items.history("bob", item.item_id),
            lambda: store.items.add("bob", "b", thread_id=thread_id),
        ):
            with pytest.raises(NotFound):
                attempt()
        assert not store.items.all("bob", thread_id=thread_id)
        assert not store.items.search("bob", "a")
        with pytest.raises(InvalidId):
            store.items.get("bob", f"../../ann/_items/{item.item_id}")


def test_items_leave_and_come_back_with_the_person(tmp_path: Path) -> None:
    with open_store(tmp_path / "one", Clock(pace=SECOND)) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        store.items.add("ann", "own-secret")
        item = store.items.add("ann", "kept-secret", thread_id=thread_id)
        store.items.update("ann", item.item_id, "new-secret")
        there = store.items.everything("ann")
        package = store.export_to("ann", tmp_path)
        store.delete_user("ann")
        assert b"secret" not in all_bytes(tmp_path / "one")
    assert not verify_package(package).discrepancies
    with open_store(tmp_path / "two") as store:
        store.import_package(package)
        assert store.items.everything("ann") == there
        assert store.items.all("ann", thread_id=thread_id) == there[1:]


def test_a_task_reads_constraints_and_positions_after_those_of_contexts(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        store.review_profile("ann", {"constraints": ["no leverage"]})
        store.items.add("ann", "no gold", kind="constraint")
        store.items.add("ann", "no leverage", kind="constraint")
        store.items.add("ann", "no shorting", kind="constraint", thread_id=thread_id)
        store.items.add("ann", "holds bonds", kind="position")
        store.items.add("ann", "holds cash", kind="position")

        def memory(route: Any = "pre_execution", thread_id: str | None = None) -> Any:
            return store.start_task("ann", route, thread_id=thread_id).memory

        assert memory().value("S8") == ("no leverage", "no gold")
        assert memory().value("S7") == "holds cash; holds bonds"
        assert memory(thread_id=thread_id).value("S8") == ("no leverage", "no shorting", "no gold")
        store.review_profile("ann", {"user_stated_position_context": "holds funds"})
        assert memory().value("S7") == "holds funds"
        assert memory("snapshot", thread_id).block.text.count("holds") == 0
        store.patch_thread("ann", thread_id, consent_blocked=True)
        assert memory(thread_id=thread_id).value("S8") == ("no leverage", "no gold")
        store.revoke_consent("ann", scope="save_to_profile")
        left = memory(thread_id=thread_id)
        assert not {"S7", "S8", "S11"} & set(left.attributes.slices_loaded)
        assert {"S7", "S8", "S11"} <= set(left.attributes.slices_blocked_by_consent)


def test_a_task_reads_the_notes_that_match_its_prompt_else_the_newest(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        for text in ("asked about gold", "reads in the morning", "has two children", "买房计划在明年"):
            store.items.add("ann", text)
        store.items.add("ann", "gold for the thread", thread_id=thread_id)

        def notes(prompt: str, thread_id: str | None = None) -> Any:
            return store.start_task("ann", "pre_execution", prompt=prompt, thread_id=thread_id).memory.value(
                "S11"
            )

        assert notes("Buy GOLD now?") == ("asked about gold",)
        assert notes("明年的买房首付") == ("买房计划在明年",)
        assert notes("xyz") == notes("") == ("买房计划在明年", "has two children", "reads in the morning")
        assert notes("gold", thread_id) == ("gold for the thread", "asked about gold")


@pytest.mark.parametrize("text", [b"13800138000", bytearray(b"x"), None, 7, "\ud800"])
def test_a_text_of_another_type_is_refused_in_one_line(tmp_path: Path, text: Any) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        item = store.items.add("ann", "no gold")
        calls: list[Callable[[], object]] = [
            lambda: store.items.add("ann", text),
            lambda: store.items.update("ann", item.item_id, text),
            lambda: store.items.add("ann", "a", metadata={"a": [text], "b": float("inf")}),
            lambda: store.items.add("ann", "a", metadata={"a": {"b": text}, "c": b"x"}),
            lambda: store.save_thread("ann", "snap_1", text, {}),
        ]
        for call in calls:
            with pytest.raises(InvalidInput, match=r"\A.{10,100}\Z"):
                call()
        assert store.items.everything("ann") == [item]


def test_arguments_of_other_types_are_refused(tmp_path: Path) -> None:
    values: list[Any] = [[], {}, 1.5, b"x"]
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        calls: dict[str, Callable[[Any], object]] = {
            "query": lambda value: store.items.search("ann", value),
            "limit": lambda value: store.items.search("ann", "a", limit=value),
            "route": lambda value: store.items.search("ann", "a", route=value),
            "thread id": lambda value: store.items.search("ann", "a", thread_id=value),
            "kind": lambda value: store.items.all("ann", kind=value),
        }
        for name, call in calls.items():
            for value in values:
                with pytest.raises(InvalidInput, match=f"^{name}: "):
                    call(value)


def test_the_last_moment_of_all_and_a_foreign_name_stop_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = store.save_thread("ann", "snap_1", "Gold", {"type": "asset"}).thread_id
        inside = store.items.add("ann", "no gold", thread_id=thread_id)
        item = store.items.add("ann", "no leverage")
        path = store.workspace.paths.items("ann") / f"{item.item_id}.json"
        stored = json.loads(path.read_bytes())
        end = dict.fromkeys(("created_at", "updated_at"), "9999-12-31T23:59:59.999999Z")
        path.write_text(json.dumps(stored | end), encoding="utf-8")
        store.workspace.paths.all_thread_contexts("ann").joinpath("a name.txt").touch()
        store.workspace.paths.threads("ann").joinpath("a name.gone").touch()
        assert store.items.update("ann", item.item_id, "any leverage").text == "any leverage"
        assert store.items.add("ann", "later").created_at > inside.created_at
        assert store.items.get("ann", inside.item_id) == inside
        store.revoke_consent("ann")
        assert [each.consent_blocked for each in store.items.everything("ann")] == [True]
        store.delete_thread("ann", thread_id)
        assert store.items.everything("ann") == []


def test_an_item_under_the_name_of_another_is_unknown(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        item = store.items.add("ann", "no leverage")
        path = store.workspace.paths.items("ann") / f"{item.item_id}.json"
        path.with_name("item_1.json").write_bytes(path.read_bytes())
        with pytest.raises(NotFound):
            store.items.update("ann", "item_1", "any leverage")
        assert store.items.get("ann", item.item_id) == item


def test_a_long_prompt_of_many_words_is_ranked_soon(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        item = store.items.add("ann", "gold " * 700)
    begun = time.perf_counter()
    assert items.ranked([item] * 200, "gold " + " ".join(map(str, range(15_000))))
    assert time.perf_counter() - begun < 10


def test_an_import_has_no_two_items_of_one_id_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "one") as store:
        store.grant_consent("ann", EVERYTHING)
        item = store.items.add("ann", "no gold", thread_id=thread_of(store, "ann"))
        files = store.export_user("ann")
    del files[package.MANIFEST]
    (path,) = (name for name in files if "_items" in name)
    twin = files[path].replace(f'"{item.thread_id}"'.encode(), b"null")
    files[f"user_contexts/_items/{item.item_id}.json"] = twin
    manifest = package.encode_manifest(package.manifest_of("ann", "2026-05-16T00:00:00Z", files))
    (tmp_path / "x.zip").write_bytes(package.zipped("ann", files | {package.MANIFEST: manifest}))
    with open_store(tmp_path / "other") as store:
        with pytest.raises(UsageError, match="two of one id"):
            store.import_package(tmp_path / "x.zip")
        monkeypatch.setattr(package, "MAX_ITEMS", 1)
        with pytest.raises(UsageError, match="more than 1 items"):
            store.import_package(tmp_path / "x.zip")
        assert tree(tmp_path / "other") == {}


def test_an_interrupted_end_of_a_threads_use_is_finished(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = thread_of(store, "ann")
        store.items.add("ann", "no gold", thread_id=thread_id)
        header = store.patch_thread("ann", thread_id, status="closed").replace(consent_blocked=True)
        path = store.workspace.paths.thread("ann", thread_id)
        path.write_bytes(json.dumps(msgspec.to_builtins(header)).encode())
        store.workspace.mark("ann")
    with open_store(tmp_path) as store:
        assert [each.consent_blocked for each in store.items.everything("ann")] == [True]
