"""Import of the records of mem0 and of LangGraph stores, by the command."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from memfin.contracts.memory import ConsentScopes, MemoryItem
from memfin.errors import RunFault
from memfin.memory import MemoryStore
from memfin.memory.errors import ConsentRequired
from memfin.memory.foreign import import_items
from memfin.memory.items import MAX_ITEMS
from tests.commands import run_command
from tests.memory.memory_disks import UnsyncedFiles
from tests.memory.memory_world import EVERYTHING, open_store

CARD = "card 6222 0212 3456 7890 128"
RAW_ID = "0b5f1c52-6f0e-4b1c-9a55-3f1c8e4d2a10"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    with MemoryStore(root, files=UnsyncedFiles()) as store:
        for user in ("ada", "bob"):
            store.grant_consent(user, EVERYTHING)
    return root


def of_mem0(text: str, user: str | None = "ada", **more: Any) -> dict[str, Any]:
    """Return a record as ``get_all`` of mem0 has it."""
    return {
        "id": f"id of {text}",
        "memory": text,
        "hash": "5d41402abc4b2a76b9719d911017c592",
        "metadata": None,
        "created_at": "2025-11-03T10:12:09.204110-08:00",
        "updated_at": None,
        "user_id": user,
        **more,
    }


def of_store(text: str, *namespace: str, key: str = RAW_ID) -> dict[str, Any]:
    """Return a record as ``Item.dict()`` of LangGraph has it."""
    return {
        "namespace": list(namespace or ("memories", "ada")),
        "key": key,
        "value": {"content": text, "topic": "drinks"},
        "created_at": "2025-11-03T10:12:09.204110+00:00",
        "updated_at": "2025-11-04T08:00:00+00:00",
    }


def run(data: Path, records: object, *words: str) -> CompletedProcess[str]:
    file = data.parent / "memories.json"
    text = records if isinstance(records, str) else json.dumps(records, ensure_ascii=False)
    file.write_text(text, encoding="utf-8")
    return run_command(
        "memory", "import-items", file.name, "--data", data, "--user", "ada", *words, cwd=data.parent
    )


def items(data: Path, user: str = "ada") -> list[MemoryItem]:
    with MemoryStore(data, files=UnsyncedFiles()) as store:
        return store.items.all(user)


def texts(data: Path) -> list[str]:
    return [each.text for each in items(data)]


@pytest.mark.parametrize(
    "records",
    [
        {"results": [of_mem0("likes tea"), of_mem0("不用杠杆")], "relations": []},
        {"count": 2, "next": None, "previous": None, "results": [of_mem0("likes tea"), of_mem0("不用杠杆")]},
        [of_mem0("likes tea"), of_mem0("不用杠杆", None)],
        "\ufeff" + "\n\n".join(json.dumps(of_mem0(text)) for text in ("likes tea", "不用杠杆")),
        "\n".join(json.dumps({"results": [of_mem0(text)]}) for text in ("likes tea", "不用杠杆")),
        [of_store("likes tea", key="k1"), of_store("不用杠杆", key="k2")],
        {"items": [of_store("likes tea"), of_store("不用杠杆", "other", "ada")]},
        [
            {"prefix": "memories.ada", "key": f"k{text}", "value": {"text": text}}
            for text in ("likes tea", "不用杠杆")
        ],
    ],
)
def test_exports_are_read_by_their_fields(data: Path, records: object) -> None:
    done = run(data, records)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "memfin: user ada: 2 items added, 0 known before, 0 of other users\n"
    assert texts(data) == ["likes tea", "不用杠杆"]


def test_an_import_can_be_repeated_also_after_corrections(data: Path) -> None:
    records = [
        of_mem0("likes tea"),
        of_mem0("likes tea", id="other"),
        of_store("no debt"),
        of_store("no debt", "x", "ada"),
    ]
    assert "2 items added, 2 known before" in run(data, records).stderr
    with MemoryStore(data, files=UnsyncedFiles()) as store:
        store.items.update("ada", items(data)[0].item_id, "likes coffee")
    again = run(data, [*records, of_mem0("likes maps")])
    assert (again.returncode, again.stderr.count("1 item added, 4 known before")) == (0, 1)
    assert texts(data) == ["likes coffee", "no debt", "likes maps"]


def test_ids_dates_and_other_fields_are_kept_as_metadata(data: Path) -> None:
    run(data, [of_mem0("likes tea", metadata={"category": "drinks"}, agent_id="a1"), of_store("no debt")])
    tea, debt = items(data)
    assert tea.metadata == {
        "imported_id": "id of likes tea",
        "imported_created_at": "2025-11-03T10:12:09.204110-08:00",
        "field": "memory",
        "value": {"metadata": {"category": "drinks"}, "agent_id": "a1"},
    }
    assert debt.metadata == {
        "imported_id": RAW_ID,
        "imported_namespace": ["memories"],
        "imported_created_at": "2025-11-03T10:12:09.204110+00:00",
        "imported_updated_at": "2025-11-04T08:00:00+00:00",
        "field": "content",
        "value": {"topic": "drinks"},
    }


def test_records_of_others_stay_out(data: Path) -> None:
    others = [
        of_mem0("likes gin", "bob"),
        of_store("likes rum", "memories", "bob"),
        of_store("likes ale", "docs"),
    ]
    done = run(data, [*others, of_mem0("likes tea")])
    assert (done.returncode, "1 item added, 0 known before, 3 of other users" in done.stderr) == (0, True)
    assert (texts(data), items(data, "bob")) == (["likes tea"], [])
    done = run(data, others)
    assert done.returncode == 2
    assert "holds nothing of user ada to import: 3 of other users (--from-user gives the name" in done.stderr


def test_the_user_may_have_another_name_in_the_file(data: Path) -> None:
    mine = [of_mem0("likes tea", "ada@example.com"), of_store("no debt", "memories", "ada@example.com")]
    done = run(data, [*mine, of_mem0("likes gin")], "--from-user", "ada@example.com", "--kind", "constraint")
    assert "2 items added, 0 known before, 1 of other users" in done.stderr
    assert [each.kind for each in items(data)] == ["constraint", "constraint"]
    assert not any(b"example.com" in path.read_bytes() for path in data.rglob("*") if path.is_file())


def test_what_is_refused_is_listed_without_its_words(data: Path) -> None:
    records = [
        of_mem0("likes tea"),
        of_mem0(CARD, id="m2"),
        of_mem0("likes maps", metadata={"ref": CARD}),
        {"note": "zebra"},
        "zebra",
        of_mem0("zebra" * 1000, id="m6"),
        {**of_store("no debt"), "value": {"zebra": 1}},
        of_mem0("likes gin", "bob"),
    ]
    done = run(data, records)
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert [line.rpartition("memories.json: ")[2].partition(":")[0] for line in lines[:-1]] == list("234567")
    assert [
        part in line
        for part, line in zip(
            ("sensitive", "sensitive", "memory", "memory", "4000", "no text"), lines, strict=False
        )
    ] == [True] * 6
    assert lines[-1] == (
        "memfin: user ada: 1 item added, 0 known before, 1 of other users; 6 of memories.json not taken in"
    )
    assert not any(word in done.stderr for word in ("zebra", "6222", "likes"))
    assert texts(data) == ["likes tea"]


def test_consent_is_checked_before_anything_is_read_or_written(data: Path) -> None:
    with MemoryStore(data, files=UnsyncedFiles()) as store:
        store.revoke_consent("ada")
    before = {path: path.read_bytes() for path in data.rglob("*.json")}
    done = run(data, "no JSON")
    assert done.returncode == 2
    assert "consent to save_to_profile" in done.stderr
    assert {path: path.read_bytes() for path in data.rglob("*.json")} == before


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ("", "holds nothing of user ada"),
        ("[]", "holds nothing of user ada"),
        ("{\n", "memories.json:1: no JSON"),
        ('{"memory": "x"}\n[1,', "memories.json:2: no JSON"),
        ("[" * 100_000, "memories.json:1: no JSON"),
        ('[{"memory": 3}]', "1 that cannot be read (number 1: value: has no text"),
        ([of_mem0(f"text {number}") for number in range(MAX_ITEMS + 1)], f"would make {MAX_ITEMS + 1} items"),
    ],
    ids=["empty", "none", "torn", "line", "deep", "text", "many"],
)
def test_a_file_that_cannot_be_taken_in_is_one_line(data: Path, records: object, words: str) -> None:
    done = run(data, records)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert words in line
    assert texts(data) == []


def test_a_missing_file_or_store_is_one_line(data: Path, tmp_path: Path) -> None:
    done = run_command("memory", "import-items", "none.json", "--data", data, "--user", "ada", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n"), "none.json" in done.stderr) == (2, 1, True)
    done = run_command("memory", "import-items", "none.json", "--data", "no", "--user", "ada", cwd=tmp_path)
    assert (done.returncode, "no such directory" in done.stderr) == (2, True)
    assert not (tmp_path / "no").exists()


def test_profile_consent_alone_counts(tmp_path: Path) -> None:
    with open_store(tmp_path / "data") as store:
        store.grant_consent(
            "ada",
            ConsentScopes(
                create_task=True, save_to_profile=False, save_to_thread=True, training_use_allowed=True
            ),
        )
        (tmp_path / "m.json").write_text(json.dumps([of_mem0("likes tea")]))
        with pytest.raises(ConsentRequired):
            import_items(store, "ada", tmp_path / "m.json")


def test_an_interrupted_import_is_completed_by_another(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps([of_mem0(text) for text in ("likes tea", "likes maps", "likes art")]))

    def failing(value: object, _: str) -> None:
        if "likes maps" in str(value):
            raise RunFault("the disk is full")

    with MemoryStore(tmp_path / "data", gate=failing, files=UnsyncedFiles()) as store:
        store.grant_consent("ada", EVERYTHING)
        with pytest.raises(RunFault):
            import_items(store, "ada", file)
    assert texts(tmp_path / "data") == ["likes tea"]
    with open_store(tmp_path / "data") as store:
        assert import_items(store, "ada", file)[:3] == (2, 1, 0)
    assert texts(tmp_path / "data") == ["likes tea", "likes maps", "likes art"]
