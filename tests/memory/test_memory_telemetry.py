"""Counters and spans of the memory layer: what happened, never to whom and never what was said."""

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.exposition import generate_latest

from memfin.contracts.memory import ContextFields, Preferences
from memfin.memory import MemoryStore
from memfin.memory.telemetry import MemoryTelemetry
from tests.memory.memory_world import EVERYTHING


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(exporter: InMemorySpanExporter) -> MemoryTelemetry:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return MemoryTelemetry(provider=provider)


def drifting(store: MemoryStore) -> None:
    """Do a bit of everything, with a change of mind among it."""
    preferences = Preferences(language_preference="zh", user_focus_reason="半导体周期")
    consent = store.grant_consent("alice", EVERYTHING, preferences)
    thread = store.save_thread(
        "alice",
        "snap_1",
        "光伏产业链",
        {"type": "theme"},
        save_user_context=True,
        consent_id=consent.consent_id,
        context=ContextFields(research_style="先看估值"),
    )
    for rating in ("thumbs_up", "not_helpful"):
        store.record_feedback("alice", f"thread:{thread.thread_id}", {"type": "theme"}, rating)
    store.load_memory_slices("alice", "snapshot")
    store.revoke_consent("alice")


def spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def value(telemetry: MemoryTelemetry, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, labels)


def test_writes_deletions_grants_and_drift_are_counted(tmp_path: Path, telemetry: MemoryTelemetry) -> None:
    with MemoryStore(tmp_path, telemetry=telemetry) as store:
        drifting(store)
    assert value(telemetry, "profile_consent_granted_total") == 1
    assert value(telemetry, "memory_op_total", op="write", scope="profile") == 1
    assert value(telemetry, "memory_op_total", op="delete", scope="profile") == 1
    assert value(telemetry, "memory_op_total", op="write", scope="feedback") == 2
    assert value(telemetry, "memory_op_total", op="delete", scope="drift") == 1
    drift = {"signal_kind": "grade_reversal", "triggers_alert": "true"}
    assert value(telemetry, "persona_drift_total", **drift) == 1


def test_what_was_not_there_is_not_counted_as_deleted(tmp_path: Path, telemetry: MemoryTelemetry) -> None:
    with MemoryStore(tmp_path, telemetry=telemetry) as store:
        store.grant_consent("alice", EVERYTHING.replace(save_to_profile=False))
        store.revoke_consent("alice")
    assert value(telemetry, "memory_op_total", op="delete", scope="profile") is None
    assert value(telemetry, "memory_op_total", op="delete", scope="drift") is None


def test_an_account_and_expired_tasks_are_counted_as_deleted(
    tmp_path: Path, telemetry: MemoryTelemetry
) -> None:
    with MemoryStore(tmp_path, telemetry=telemetry) as store:
        drifting(store)
        telemetry.expired(0)
        telemetry.expired(3)
        store.delete_user("alice")
    assert value(telemetry, "memory_op_total", op="delete", scope="task") == 3
    assert value(telemetry, "memory_op_total", op="delete", scope="user") == 1
    assert value(telemetry, "memory_op_total", op="write", scope="consent") == 4


def test_spans_have_the_attributes_of_the_design(
    tmp_path: Path, telemetry: MemoryTelemetry, exporter: InMemorySpanExporter
) -> None:
    with MemoryStore(tmp_path, telemetry=telemetry) as store:
        drifting(store)
    (built,) = spans(exporter, "context_built")
    attributes = dict(built.attributes or {})
    assert attributes.pop("total_memory_tokens_estimated")
    assert attributes.pop("slices_loaded") == ("S1", "S2", "S3")
    consent_id = attributes.pop("consent_id_ref")
    nothing = ("slices_skipped_missing", "slices_blocked_by_consent", "slices_given_unread")
    assert attributes == dict.fromkeys(nothing, ())
    (granted,) = spans(exporter, "profile_consent_grant")
    assert (granted.attributes or {})["consent_id_ref"] == consent_id
    (drifted,) = spans(exporter, "persona_drift_detected")
    assert set(drifted.attributes or {}) == {"drift_id", "signal_kind", "consent_id_ref"}
    for name in ("memory_write", "memory_delete"):
        assert spans(exporter, name)
        for span in spans(exporter, name):
            assert set(span.attributes or {}) == {"scope", "slice_id", "consent_id_ref"}


def test_every_span_refers_to_the_persons_consent(
    tmp_path: Path, telemetry: MemoryTelemetry, exporter: InMemorySpanExporter
) -> None:
    with MemoryStore(tmp_path, telemetry=telemetry) as store:
        consents = {store.grant_consent(user, EVERYTHING).consent_id: user for user in ("bob", "carol")}
        for user in consents.values():
            task = store.start_task(user, "pre_execution", fields={"constraints": ["不用杠杆"]}).context
            store.end_task(user, str(task.task_id))
            store.review_profile(user, {"time_horizon": "三年"})
            store.items.add(user, "note")
            store.record_feedback(user, "snapshot:snap_1", {}, "agree")
        drifting(store)
        alices = spans(exporter, "profile_consent_grant")[-1].attributes or {}
        store.delete_user("alice")
    references = [(span.attributes or {})["consent_id_ref"] for span in exporter.get_finished_spans()]
    assert set(references) == {*consents, str(alices["consent_id_ref"])}
    exporter.clear()
    with MemoryStore(tmp_path, telemetry=telemetry) as store:
        store.load_memory_slices("nobody", "snapshot")
        telemetry.expired(2)
    assert [(span.attributes or {})["consent_id_ref"] for span in exporter.get_finished_spans()] == ["", ""]


def test_nobody_and_nothing_said_is_in_it(
    tmp_path: Path,
    telemetry: MemoryTelemetry,
    exporter: InMemorySpanExporter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    with MemoryStore(tmp_path, telemetry=telemetry) as store:
        drifting(store)
        store.delete_user("alice")
    told = generate_latest(telemetry.registry).decode()
    told += "".join(span.to_json() for span in exporter.get_finished_spans()) + caplog.text
    told += "".join(str(vars(record)) for record in caplog.records)
    assert "memory_write" in caplog.text
    assert not [word for word in ("alice", "光伏", "半导体", "先看估值", "snap_1") if word in told]
