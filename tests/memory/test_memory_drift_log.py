import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memfin.contracts.memory import ChangeSummary, ThreadHeader, WatchQuestionUpdate, WatchStatus
from memfin.memory import MemoryStore
from memfin.memory.drift import shipped_thresholds
from memfin.memory.telemetry import MemoryTelemetry
from tests.memory.memory_world import EVERYTHING, SECOND, Clock, preferences

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SOL = {"asset": "SOL"}


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path, clock=clock) as store:
        store.grant_consent("li", EVERYTHING, preferences("想了解养老"))
        yield store


def revoke(store: MemoryStore) -> None:
    consent = store.consent_on_file("li").in_force
    assert consent is not None
    store.revoke_consent("li", consent.consent_id)


def thread_of(store: MemoryStore) -> str:
    return store.save_thread("li", "snap_1", "SOL", SOL).thread_id


def reverse(store: MemoryStore, clock: Clock, times: int = 1) -> None:
    ratings = ["thumbs_up", "not_helpful"]
    store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up")
    for number in range(times):
        clock.now += SECOND
        store.record_feedback("li", "snapshot:snap_1", SOL, ratings[(number + 1) % 2])


def ask(store: MemoryStore, thread_id: str, status: WatchStatus) -> None:
    update = WatchQuestionUpdate(question_id="q1", status=status)
    store.refresh_thread("li", thread_id, watch_question_updates=[update])


def reopen(store: MemoryStore, user_id: str, thread_id: str) -> None:
    statuses: tuple[WatchStatus, ...] = ("resolved", "reopened")
    for status in statuses:
        update = WatchQuestionUpdate(question_id="q1", status=status)
        store.refresh_thread(user_id, thread_id, watch_question_updates=[update])


def kinds(store: MemoryStore) -> list[str]:
    return [each.signal_kind for each in store.drift_log("li")]


def index(store: MemoryStore) -> list[dict[str, object]]:
    path = store.root / "persona_drift" / "li" / "_index.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_reversal_is_recorded_in_a_file_and_in_the_index(store: MemoryStore, clock: Clock) -> None:
    reverse(store, clock)
    (record,) = store.drift_log("li")
    assert record.drift_id.startswith("drift_20261122T093001Z_")
    assert len(record.drift_id) == len("drift_20261122T093001Z_") + 6
    assert record.triggers_alert
    assert (store.root / "persona_drift" / "li" / f"{record.drift_id}.json").is_file()
    assert index(store) == [
        {
            "drift_id": record.drift_id,
            "signal_kind": "grade_reversal",
            "object_ref": "snapshot:snap_1",
            "triggers_alert": True,
            "recorded_at": "2026-11-22T09:30:01Z",
        }
    ]


def test_a_signal_is_recorded_once(store: MemoryStore, clock: Clock) -> None:
    reverse(store, clock)
    before = (store.root / "persona_drift" / "li" / "_index.jsonl").read_bytes()
    clock.now += SECOND
    store.record_feedback("li", "snapshot:snap_1", SOL, "not_helpful")
    assert kinds(store) == ["grade_reversal"]
    assert (store.root / "persona_drift" / "li" / "_index.jsonl").read_bytes() == before


def test_the_log_only_grows(store: MemoryStore, clock: Clock) -> None:
    reverse(store, clock, 1)
    directory = store.root / "persona_drift" / "li"
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    reverse(store, clock, 2)
    after = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert len(after) > len(before)
    assert all(after[name].startswith(data) for name, data in before.items())


def test_two_signals_of_one_moment_have_two_ids(store: MemoryStore, clock: Clock) -> None:
    store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up", "对，有用")
    clock.now += SECOND
    store.record_feedback("li", "snapshot:snap_1", SOL, "not_helpful", "不对，没用")
    assert sorted(kinds(store)) == ["feedback_conflict", "grade_reversal"]
    alerts = {each.signal_kind: each.triggers_alert for each in store.drift_log("li")}
    assert alerts == {"feedback_conflict": False, "grade_reversal": True}


def test_what_an_interruption_kept_out_is_recorded_at_the_next_occasion(
    store: MemoryStore, clock: Clock
) -> None:
    reverse(store, clock)
    directory = store.root / "persona_drift" / "li"
    for path in directory.iterdir():
        path.unlink()
    clock.now += SECOND
    store.record_feedback("li", "snapshot:other", SOL, "agree")
    assert kinds(store) == ["grade_reversal"]
    (directory / "_index.jsonl").write_text("damaged\n")
    clock.now += SECOND
    store.record_feedback("li", "snapshot:other", SOL, "agree")
    assert (directory / "_index.jsonl").read_text().count("grade_reversal") == 1


def test_a_refresh_that_turns_a_thesis_round_is_recorded(store: MemoryStore, clock: Clock) -> None:
    thread_id = thread_of(store)
    store.refresh_thread("li", thread_id, main_thesis="央行降息利好成长股")
    clock.now += 14 * DAY
    summary = ChangeSummary(changed_inferences=list("abcdef"))
    store.refresh_thread("li", thread_id, main_thesis="通胀回升压制估值", change_summary=summary)
    (record,) = store.drift_log("li")
    assert record.signal_kind == "refresh_stance_flip"
    assert record.object_ref == f"thread:{thread_id}"


@pytest.mark.parametrize(
    ("after", "found"), [(HOUR - SECOND, 0), (HOUR, 1)], ids=["just_before", "at_the_hour"]
)
def test_a_reopened_question_is_recorded_by_the_scan_an_hour_later(
    store: MemoryStore, clock: Clock, after: timedelta, found: int
) -> None:
    thread_id = thread_of(store)
    start = clock.now
    ask(store, thread_id, "resolved")
    resolved = store.threads.refreshes("li", thread_id)[-1].created_at
    clock.now += SECOND
    ask(store, thread_id, "reopened")
    assert store.scan_drift() == 0
    assert kinds(store) == []
    clock.now = resolved + after
    assert clock.now > start
    assert store.scan_drift() == found
    assert len(kinds(store)) == found


def test_a_scan_that_is_done_is_not_done_again(store: MemoryStore, clock: Clock) -> None:
    thread_id = thread_of(store)
    ask(store, thread_id, "resolved")
    clock.now += SECOND
    ask(store, thread_id, "reopened")
    clock.now += 2 * HOUR
    assert store.scan_drift() == 1
    assert sorted(path.suffix for path in (store.root / "persona_drift" / "li").iterdir()) == [
        ".json",
        ".jsonl",
    ]
    assert store.scan_drift() == 0


def test_a_refresh_looks_at_questions_whose_hour_is_over(store: MemoryStore, clock: Clock) -> None:
    thread_id = thread_of(store)
    ask(store, thread_id, "resolved")
    clock.now += DAY
    ask(store, thread_id, "reopened")
    assert kinds(store) == ["watch_question_resolved_then_reopened"]


def test_a_scan_after_a_revocation_records_nothing(store: MemoryStore, clock: Clock) -> None:
    thread_id = thread_of(store)
    ask(store, thread_id, "resolved")
    clock.now += SECOND
    ask(store, thread_id, "reopened")
    revoke(store)
    (store.root / "persona_drift" / "li").mkdir()
    (store.root / "persona_drift" / "li" / "_due").touch()
    clock.now += DAY
    assert store.scan_drift() == 0
    assert store.drift_log("li") == []


def test_revoking_purges_the_log(store: MemoryStore, clock: Clock) -> None:
    reverse(store, clock)
    revoke(store)
    assert not (store.root / "persona_drift" / "li").exists()
    assert store.drift_log("li") == []


def test_drift_never_changes_what_is_remembered(store: MemoryStore, clock: Clock) -> None:
    contexts = store.root / "user_contexts"
    before = {path: path.read_bytes() for path in contexts.rglob("*.json")}
    consent = (store.root / "consents" / "li.yaml").read_bytes()
    memory = store.load_memory_slices("li", "snapshot")
    reverse(store, clock, 6)
    assert len(kinds(store)) == 6
    assert {path: path.read_bytes() for path in contexts.rglob("*.json")} == before
    assert (store.root / "consents" / "li.yaml").read_bytes() == consent
    assert store.load_memory_slices("li", "snapshot") == memory


def test_operators_are_warned_in_words_that_name_nobody(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="memfin.memory"):
        reverse(store, clock, 2)
        assert caplog.messages == []
        reverse(store, clock, 1)
    assert caplog.messages == ["persona drift: 3 signals within the time of a burst"] * len(caplog.messages)
    assert caplog.messages
    assert not any("li" in record.getMessage().split() for record in caplog.records)


def test_a_log_is_counted_in_metrics_by_kind_and_alert(tmp_path: Path, clock: Clock) -> None:
    telemetry = MemoryTelemetry()
    with MemoryStore(tmp_path / "data", clock=clock, telemetry=telemetry) as store:
        store.grant_consent("li", EVERYTHING, None)
        reverse(store, clock)
    labels = {"signal_kind": "grade_reversal", "triggers_alert": "true"}
    assert telemetry.registry.get_sample_value("persona_drift_total", labels) == 1


def test_what_a_stricter_gate_refuses_is_not_copied_into_the_log(tmp_path: Path, clock: Clock) -> None:
    lenient = MemoryStore(tmp_path, clock=clock, gate=lambda value, field: None)
    lenient.grant_consent("li", EVERYTHING, None)
    thread_id = thread_of(lenient)
    lenient.refresh_thread("li", thread_id, main_thesis="问13912345678这个人")
    lenient.close()
    clock.now += DAY
    summary = ChangeSummary(changed_inferences=list("abcdef"))
    with MemoryStore(tmp_path, clock=clock) as strict:
        strict.refresh_thread("li", thread_id, main_thesis="通胀回升压制估值", change_summary=summary)
        assert strict.drift_log("li") == []


def test_the_same_events_leave_the_same_log(tmp_path: Path) -> None:
    def logged(root: Path) -> dict[str, bytes]:
        clock = Clock()
        with MemoryStore(root, clock=clock) as store:
            store.grant_consent("li", EVERYTHING, None)
            reverse(store, clock, 4)
        return {path.name: path.read_bytes() for path in (root / "persona_drift" / "li").iterdir()}

    assert logged(tmp_path / "one") == logged(tmp_path / "other")


def test_a_store_takes_thresholds_of_its_own(tmp_path: Path, clock: Clock) -> None:
    shipped = shipped_thresholds()
    longer = shipped.replace(grade_reversal=shipped.grade_reversal.replace(within_days=30))
    found = {}
    for name, thresholds in (("shipped", None), ("longer", longer)):
        with MemoryStore(tmp_path / name, clock=clock, thresholds=thresholds) as store:
            store.grant_consent("li", EVERYTHING, preferences("想了解养老"))
            store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up")
            clock.now += 14 * DAY + SECOND
            store.record_feedback("li", "snapshot:snap_1", SOL, "not_helpful")
            found[name] = kinds(store)
    assert found == {"shipped": [], "longer": ["grade_reversal"]}


def test_a_scan_passes_over_a_person_whose_threads_cannot_be_read(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store.grant_consent("aaron", EVERYTHING, preferences("first in order"))
    spoilt = store.save_thread("aaron", "snap_1", "SOL", SOL).thread_id
    whole = thread_of(store)
    for user_id, thread_id in (("aaron", spoilt), ("li", whole)):
        reopen(store, user_id, thread_id)
    store.workspace.paths.thread("aaron", spoilt).write_text("{")
    clock.now += 2 * HOUR
    assert store.scan_drift() == 1
    assert kinds(store) == ["watch_question_resolved_then_reopened"]
    assert "aaron" not in caplog.text
    assert "cannot be read" in caplog.text


def test_a_scan_passes_over_a_person_who_is_deleted_meanwhile(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MemoryStore(tmp_path, clock=clock) as store:
        for user_id in ("aaron", "li"):
            store.grant_consent(user_id, EVERYTHING, preferences("x"))
            thread_id = store.save_thread(user_id, "snap_1", "SOL", SOL).thread_id
            reopen(store, user_id, thread_id)
        clock.now += 2 * HOUR
        looked_for = store.workspace.files.exists

        def exists(path: Path) -> bool:
            there = looked_for(path)
            if there and path.parent.name == "aaron" and path.name == "_due":
                monkeypatch.undo()
                store.delete_user("aaron")
            return there

        monkeypatch.setattr(store.workspace.files, "exists", exists)
        assert store.scan_drift() == 1
        assert kinds(store) == ["watch_question_resolved_then_reopened"]


def test_a_scan_passes_over_a_person_whose_files_the_system_refuses(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.grant_consent("mo", EVERYTHING)
    for user_id in ("li", "mo"):
        thread = store.save_thread(user_id, "snap_1", "SOL", SOL)
        reopen(store, user_id, thread.thread_id)
    clock.now += HOUR + SECOND
    headers = store.drift._threads.headers

    def refused(user_id: str) -> list[ThreadHeader]:
        if user_id == "li":
            raise OSError(5, "Input/output error")
        return headers(user_id)

    monkeypatch.setattr(store.drift._threads, "headers", refused)
    assert store.scan_drift() == 1
    assert len(store.drift_log("mo")) == 1


@pytest.mark.parametrize("back", [SECOND, DAY, 400 * DAY], ids=["second", "day", "year"])
def test_a_clock_set_back_behind_the_consent_keeps_no_drift_out_of_the_log(
    back: timedelta, store: MemoryStore, clock: Clock
) -> None:
    granted_at = clock.now
    clock.now -= back
    reverse(store, clock)
    thread_id = thread_of(store)
    ask(store, thread_id, "resolved")
    ask(store, thread_id, "reopened")
    clock.now = granted_at + HOUR + SECOND
    assert store.scan_drift() == 1
    kinds = sorted(record.signal_kind for record in store.drift_log("li"))
    assert kinds == ["grade_reversal", "watch_question_resolved_then_reopened"]


def test_a_clock_set_back_brings_nothing_from_before_a_consent_into_its_log(
    store: MemoryStore, clock: Clock
) -> None:
    thread_id = thread_of(store)
    clock.now += DAY
    store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up")
    ask(store, thread_id, "resolved")
    said_at = clock.now
    clock.now -= 2 * DAY
    revoke(store)
    again = store.grant_consent("li", EVERYTHING)
    assert again.granted_at > said_at
    versions = [store.consent_on_file("li").consent, again]
    assert all(version is not None and version.updated_at >= version.granted_at for version in versions)
    store.record_feedback("li", "snapshot:snap_1", SOL, "not_helpful")
    assert store.drift_log("li") == []
    store.record_feedback("li", "snapshot:snap_1", SOL, "thumbs_up")
    assert [record.signal_kind for record in store.drift_log("li")] == ["grade_reversal"]


def test_versions_of_a_consent_follow_each_other_under_a_clock_set_back(
    store: MemoryStore, clock: Clock
) -> None:
    granted = store.consent_on_file("li").in_force
    clock.now -= DAY
    assert granted is not None
    assert store.grant_consent("li", EVERYTHING).updated_at == granted.updated_at
    assert store.revoke_consent("li").revoked_at == granted.updated_at
