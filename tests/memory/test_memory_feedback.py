import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memfin.memory import MemoryStore
from memfin.memory.drift import load_dictionary, polarity, read
from memfin.memory.errors import ConsentRequired, ConsentUnreadable, InvalidInput, SensitiveInput
from tests.memory.memory_world import EVERYTHING, SECOND, START, Clock, preferences
from tests.support import each_case

SOL = {"asset": "SOL"}


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[MemoryStore]:
    """Yield a store with the real gate and one user who consents to everything."""
    with MemoryStore(tmp_path, clock=clock) as store:
        store.grant_consent("li", EVERYTHING, preferences("想了解养老"))
        yield store


def revoke(store: MemoryStore) -> None:
    consent = store.consent_on_file("li").in_force
    assert consent is not None
    store.revoke_consent("li", consent.consent_id)


def queue(store: MemoryStore, user_id: str = "li") -> list[Path]:
    return sorted((store.root / "feedback" / user_id).glob("*.json"))


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".memfin" not in path.parts
    }


def test_feedback_goes_to_the_review_queue(store: MemoryStore) -> None:
    said = store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up", "说得准")
    (path,) = queue(store)
    assert path.name == f"{said.feedback_id}.json"
    assert json.loads(path.read_text()) == {
        "feedback_id": said.feedback_id,
        "related_object_ref": "snapshot:snap_1",
        "cognition_object": {"asset": "SOL"},
        "rating": "thumbs_up",
        "created_at": "2026-11-22T09:30:00Z",
        "comment": "说得准",
        "schema_version": "1.0",
    }


def test_feedback_never_changes_a_profile(store: MemoryStore, clock: Clock) -> None:
    profiles = store.root / "user_contexts" / "li" / "_profile"
    before = tree(profiles)
    assert before
    for rating, comment in (
        ("thumbs_up", "看多"),
        ("not_helpful", "看空，我之前的判断错了"),
        ("agree", "看多"),
    ) * 4:
        clock.now += timedelta(hours=1)
        store.record_feedback("li", "snapshot:snap_1", SOL, rating, comment)
    assert store.drift_log("li")
    assert tree(profiles) == before


@pytest.mark.parametrize(
    ("cognition_object", "comment"),
    [(SOL, "打13912345678给我"), ({"asset": "SOL", "owner": "li@qq.com"}, "好")],
    ids=["comment", "cognition_object"],
)
def test_sensitive_feedback_is_refused_and_leaves_nothing(
    store: MemoryStore, cognition_object: dict[str, str], comment: str
) -> None:
    before = tree(store.root)
    with pytest.raises(SensitiveInput):
        store.record_feedback("li", "snapshot:snap_1", cognition_object, "thumbs_up", comment)
    assert tree(store.root) == before


@pytest.mark.parametrize(
    ("reference", "rating"),
    [("snapshot", "thumbs_up"), ("snapshot:a/b", "thumbs_up"), ("snapshot:a", "Thumbs up")],
)
def test_feedback_that_does_not_fit_the_contract_is_refused(
    store: MemoryStore, reference: str, rating: str
) -> None:
    with pytest.raises(InvalidInput):
        store.record_feedback("li", reference, SOL, rating)
    assert queue(store) == []


def test_who_never_consented_gives_no_feedback(store: MemoryStore) -> None:
    with pytest.raises(ConsentRequired) as refused:
        store.record_feedback("new", "snapshot:snap_1", SOL, "thumbs_up")
    assert refused.value.details == {"required_scopes": ["create_task"]}
    assert queue(store, "new") == []


def test_an_unreadable_consent_allows_no_feedback(store: MemoryStore) -> None:
    (store.root / "consents" / "li.yaml").write_text("{")
    with pytest.raises(ConsentUnreadable):
        store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up")


@pytest.mark.parametrize("scope", [None, "create_task"])
def test_feedback_ends_with_the_consent_to_tasks(store: MemoryStore, scope: Any) -> None:
    store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up", "只在这里出现")
    store.revoke_consent("li", scope=scope)
    before = tree(store.root)
    assert not [
        path for path, data in before.items() if "feedback" in path or "只在这里出现".encode() in data
    ]
    with pytest.raises(ConsentRequired, match="consent to create_task; ask for it first"):
        store.record_feedback("li", "snapshot:snap_1", SOL, "not_helpful")
    assert tree(store.root) == before


def test_drift_is_kept_under_the_consent_to_a_profile_and_does_not_come_back(
    store: MemoryStore, clock: Clock
) -> None:
    def rated(*ratings: str) -> int:
        for rating in ratings:
            clock.now += SECOND
            store.record_feedback("li", "snapshot:snap_1", SOL, rating)
        return len(store.drift_log("li"))

    assert rated("thumbs_up", "not_helpful") == 1
    store.revoke_consent("li", scope="save_to_profile")
    assert not (store.root / "persona_drift" / "li").exists()
    assert rated("thumbs_up", "not_helpful") == 0
    assert not (store.root / "persona_drift" / "li").exists()
    assert len(queue(store)) == 4
    store.grant_consent("li", EVERYTHING)
    assert rated("thumbs_up") == 0
    assert rated("not_helpful") == 1


def test_what_was_said_before_a_revocation_is_not_held_against_a_later_consent(
    store: MemoryStore, clock: Clock
) -> None:
    store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up")
    clock.now += SECOND
    revoke(store)
    clock.now += SECOND
    store.grant_consent("li", EVERYTHING, None)
    store.record_feedback("li", "snapshot:snap_1", SOL, "not_helpful")
    assert store.drift_log("li") == []
    clock.now += SECOND
    store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up")
    assert [each.signal_kind for each in store.drift_log("li")] == ["grade_reversal"]


def test_feedback_keeps_its_order_under_a_clock_that_stands_still(store: MemoryStore) -> None:
    said = [store.record_feedback("li", "snapshot:s", SOL, "agree", str(number)) for number in range(3)]
    moments = [each.created_at for each in said]
    assert moments == sorted(set(moments))
    assert moments[0] == START
    assert len({each.feedback_id for each in said}) == 3


def test_ratings_are_for_or_against_or_neither() -> None:
    assert [polarity(each) for each in ("thumbs_up", "not_helpful", "unsure")] == [1, -1, None]


@each_case(
    ("comment", "words"),
    [
        (None, []),
        ("今天天气不错", []),
        ("这个判断是对的", [("right", 1)]),
        ("不对", [("right", -1)]),
        ("没错，有帮助", [("right", 1), ("useful", 1)]),
        ("面对这种行情，对冲很重要", []),
        ("I don't agree, it is NOT   helpful", [("agreement", -1), ("useful", -1)]),
        ("We went right away", []),
        ("有的地方对，有的地方错", []),
        ("先看多，现在看空", []),
        ("not_helpful", [("useful", -1)]),
        ("bright copyrights", []),
    ],
    ids=range(12),
)
def test_words_take_a_side_of_a_topic(comment: str | None, words: list[tuple[str, int]]) -> None:
    assert [(each.topic, each.sign) for each in read(comment).words] == words


@pytest.mark.parametrize("comment", ["我之前的判断错了", "嗯，I was wrong about it"])
def test_taking_back_is_told_from_taking_a_side(comment: str) -> None:
    reading = read(comment)
    assert reading.retraction is not None
    assert reading.words == ()


def test_no_word_of_the_dictionary_stands_in_two_places() -> None:
    dictionary = load_dictionary()
    words = [word for sides in dictionary.topics.values() for word in [*sides.positive, *sides.negative]]
    words += [*dictionary.other["words"], *dictionary.retractions["words"]]
    assert len(words) == len(set(words))
    assert all(word == word.lower() for word in words)
