"""The REST calls of the memory service, over real connections on loopback."""

import asyncio
import io
import json
import threading
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from memfin.memory.package import verify_package
from memfin.memory.reading import load_skills
from tests.docs.pages import ROOT, blocks
from tests.web.memory_service import FEEDBACK, PREFERENCES, SCOPES, THREAD, Service, serving

LASTING = {
    "research_style": "先看估值",
    "user_stated_position_context": "持有指数基金",
    "time_horizon": "五年",
    "constraints": ["不用杠杆"],
}
PROFILE = PREFERENCES | LASTING


def everything_on(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with serving(tmp_path / "data") as running:
        yield running


async def test_a_consent_is_given_again_and_taken_back(service: Service) -> None:
    path = "/api/users/alice/profile-consent"
    first = (await service.ask("POST", path, {"scopes": SCOPES, "preferences": PREFERENCES})).json
    second = (await service.ask("POST", path, {"scopes": SCOPES | {"training_use_allowed": False}})).json
    assert (first["version"], second["version"]) == (1, 2)
    assert first["consent_id"] == second["consent_id"]
    state = (await service.ask("GET", path)).json
    assert (state["scopes"]["training_use_allowed"], state["revoked_at"]) == (False, None)
    revoked = await service.ask("DELETE", f"{path}/{first['consent_id']}")
    assert (revoked.status, list(revoked.json)) == (200, ["revoked_at"])
    assert (await service.ask("GET", path)).json["revoked_at"] == revoked.json["revoked_at"]
    assert (await service.ask("DELETE", f"{path}/{first['consent_id']}")).json == revoked.json


async def test_one_scope_is_taken_back_alone(service: Service) -> None:
    consent_id = await service.grant()
    path = f"/api/users/alice/profile-consent/{consent_id}"
    assert (await service.ask("DELETE", f"{path}?scope=save_to_profile")).status == 200
    state = (await service.ask("GET", "/api/users/alice/profile-consent")).json
    assert [name for name, given in state["scopes"].items() if not given] == ["save_to_profile"]
    assert state["revoked_at"] is None
    for query in ("scope=all", "scope=save_to_profile&scope=create_task", "scopes=save_to_profile", "x=1"):
        refused = await service.ask("DELETE", f"{path}?{query}")
        assert (refused.status, refused.code) == (400, "invalid_input"), query


async def test_the_profile_is_read_and_reviewed(service: Service) -> None:
    path = "/api/users/alice/profile"
    nothing = await service.ask("GET", path)
    assert nothing.json == dict.fromkeys(PROFILE) | {"constraints": []}
    refused = await service.ask("PATCH", path, {"research_depth": "quick"})
    assert (refused.status, refused.code) == (403, "profile_consent_required")
    consent_id = await service.grant()
    assert (await service.ask("GET", path)).json == nothing.json | PREFERENCES
    changes = {"research_depth": "quick", "user_focus_reason": None, **LASTING}
    edited = await service.ask("PATCH", path, changes)
    assert edited.json == PREFERENCES | changes
    assert (await service.ask("GET", path)).json == edited.json
    ended = (await service.ask("PATCH", path, dict.fromkeys(LASTING))).json
    assert ended == nothing.json | PREFERENCES | {"research_depth": "quick", "user_focus_reason": None}
    for unknown in ({"horizon": "5y"}, {"constraints": "不用杠杆"}, {"task_id": "task_x"}):
        refused = await service.ask("PATCH", path, unknown)
        assert (refused.status, refused.code) == (400, "invalid_input")
    await service.ask("DELETE", f"/api/users/alice/profile-consent/{consent_id}")
    assert (await service.ask("GET", path)).body == nothing.body


async def test_a_thread_is_shown_and_deleted(service: Service) -> None:
    consent_id = await service.grant()
    body = THREAD | LASTING | {"consent_ack": {"consent_id": consent_id}}
    saved = await service.ask("POST", "/api/snapshots/snap_1/save-as-thread", body)
    path = f"/api/threads/{saved.json['thread_id']}"
    await service.ask("POST", f"{path}/refresh", {"main_thesis": "需求见底"})
    shown = (await service.ask("GET", path)).json
    assert shown.keys() == {"header", "contexts", "refreshes"}
    assert shown["header"]["title"] == THREAD["title"]
    assert [each["main_thesis"] for each in shown["refreshes"]] == ["需求见底"]
    (context,) = shown["contexts"]
    assert {name: context[name] for name in LASTING} == LASTING
    deleted = await service.ask("DELETE", f"{path}/contexts/{context['context_id']}")
    assert (deleted.status, deleted.body, deleted.headers["Cache-Control"]) == (204, b"", "no-store")
    assert (await service.ask("GET", path)).json["contexts"] == []
    assert (await service.ask("DELETE", path)).status == 204
    for method in ("GET", "DELETE"):
        missing = await service.ask(method, path)
        assert (missing.status, missing.code) == (404, "not_found")
    assert (await service.ask("GET", "/api/threads")).json == {"threads": []}
    assert "需求见底".encode() not in everything_on(service.store.root)


async def test_tasks_feedback_and_drift_are_listed_and_deleted(service: Service) -> None:
    await service.grant()
    for rating in ("thumbs_up", "thumbs_down"):
        await service.ask("POST", "/api/feedback", FEEDBACK | {"rating": rating, "comment": "光伏"})
    task = (await service.ask("POST", "/api/tasks", {"route": "snapshot", "constraints": ["不加杠杆"]})).json
    (listed,) = (await service.ask("GET", "/api/tasks")).json["tasks"]
    assert (listed["task_id"], listed["constraints"]) == (task["task_id"], ["不加杠杆"])
    assert (await service.ask("DELETE", f"/api/tasks/{task['task_id']}")).status == 204
    assert (await service.ask("GET", "/api/tasks")).json == {"tasks": []}
    item_id = service.store.items.add("alice", "光伏第一", kind="note").item_id
    (item,) = (await service.ask("GET", "/api/items")).json["items"]
    assert (item["item_id"], item["text"]) == (item_id, "光伏第一")
    assert (await service.ask("DELETE", f"/api/items/{item_id}")).status == 204
    assert (await service.ask("GET", "/api/items")).json == {"items": []}
    (drift,) = (await service.ask("GET", "/api/drift")).json["drift"]
    assert drift["signal_kind"] == "grade_reversal"
    given = (await service.ask("GET", "/api/feedback")).json["feedback"]
    assert [each["rating"] for each in given] == ["thumbs_down", "thumbs_up"]
    assert (await service.ask("DELETE", f"/api/drift/{drift['drift_id']}")).status == 204
    for each in given:
        assert (await service.ask("DELETE", f"/api/feedback/{each['feedback_id']}")).status == 204
    assert (await service.ask("GET", "/api/feedback")).json == {"feedback": []}
    assert (await service.ask("GET", "/api/drift")).json == {"drift": []}
    assert (await service.ask("DELETE", "/api/drift")).status == 204  # of what is there
    assert "光伏".encode() not in everything_on(service.store.root)


async def test_an_account_is_deleted_with_its_tokens_once_confirmed(service: Service) -> None:
    await service.save_thread(await service.grant())
    await service.grant("bob")
    for query, status, code in (
        ("", 400, "invalid_input"),
        ("?confirm=yes", 409, "not_confirmed"),
        ("?confirm=bob", 409, "not_confirmed"),
        ("?confirm=alice&confirm=alice", 400, "invalid_input"),
    ):
        refused = await service.ask("DELETE", f"/api/users/me{query}")
        assert (refused.status, refused.code) == (status, code), query
    stub = await service.ask("DELETE", "/api/users/me?confirm=alice")
    assert (stub.status, stub.json.keys()) == (200, {"deleted_at", "consent_version_at_deletion"})
    assert (await service.ask("GET", "/api/threads")).status == 401
    assert "半导体".encode() not in everything_on(service.store.root / "user_contexts" / "alice")
    assert (await service.ask("GET", "/api/users/bob/profile", user="bob")).json["research_depth"] == "deep"


async def test_skills_are_recommended_by_the_latest_threads(tmp_path: Path) -> None:
    (example,) = (each for each in blocks(ROOT / "docs" / "memory-service.md") if each.language == "toml")
    (tmp_path / "skills.toml").write_text(example.text, "utf-8")
    in_order = ["bond-ladder", "solar-supply-chain"]
    async with serving(tmp_path / "data", skills=load_skills(tmp_path / "skills.toml")) as service:
        consent_id = await service.grant()
        for saved, expected in ((False, in_order), (True, in_order[::-1])):
            if saved:
                await service.save_thread(consent_id)
            suggested = (await service.ask("GET", "/api/tasks/suggestions")).json
            assert suggested["skills"] == expected
        bobs = (await service.ask("GET", "/api/tasks/suggestions", user="bob")).json
        assert bobs["skills"] == in_order


async def test_a_thread_is_saved_refreshed_blocked_and_closed(service: Service) -> None:
    consent_id = await service.grant()
    thread_id = await service.save_thread(consent_id)
    body = {
        "user_supplied_context": {"research_style": "先看估值"},
        "main_thesis": "需求见底",
        "change_summary": {"changed_inferences": ["价格"]},
        "watch_question_updates": [{"question_id": "q1", "status": "open"}],
    }
    refreshed = (await service.ask("POST", f"/api/threads/{thread_id}/refresh", body)).json
    assert (refreshed["thread_id"], refreshed["context_id"][:4]) == (thread_id, "ctx_")
    assert (await service.ask("POST", f"/api/threads/{thread_id}/refresh", {})).json["context_id"] is None
    listed = (await service.ask("GET", "/api/threads")).json["threads"]
    assert [each["title"] for each in listed] == [THREAD["title"]]
    for nothing in ({}, {"consent_blocked": False}):
        same = await service.ask("PATCH", f"/api/threads/{thread_id}", nothing)
        assert same.json == (await service.ask("GET", "/api/threads")).json["threads"][0]
    changed = await service.ask("PATCH", f"/api/threads/{thread_id}", {"consent_blocked": True})
    assert changed.json["consent_blocked"] is True
    assert all(each.consent_blocked for each in service.store.thread_contexts("alice", thread_id))
    back = await service.ask("PATCH", f"/api/threads/{thread_id}", {"consent_blocked": False})
    assert (back.status, back.code) == (409, "thread_blocked")
    closed = await service.ask("PATCH", f"/api/threads/{thread_id}", {"status": "closed"})
    assert closed.json["status"] == "closed"
    back = await service.ask("PATCH", f"/api/threads/{thread_id}", {"status": "active"})
    assert (back.status, back.code) == (409, "thread_closed")
    refused = await service.ask("POST", f"/api/threads/{thread_id}/refresh", {})
    assert (refused.status, refused.code) == (409, "thread_closed")


@pytest.mark.parametrize("change", [{"consent_blocked": None}, {"status": "open"}, {"title": "x"}], ids=str)
async def test_other_changes_of_a_thread_are_refused(service: Service, change: dict[str, Any]) -> None:
    thread_id = await service.save_thread(await service.grant())
    refused = await service.ask("PATCH", f"/api/threads/{thread_id}", change)
    assert (refused.status, refused.code) == (400, "invalid_input")


async def test_threads_need_consent_and_the_one_in_force(service: Service) -> None:
    path = "/api/snapshots/snap_1/save-as-thread"
    refused = await service.ask("POST", path, THREAD | {"consent_ack": {"consent_id": "consent_x"}})
    assert (refused.status, refused.json["error"]["details"]) == (
        403,
        {"required_scopes": ["save_to_thread"]},
    )
    consent_id = await service.grant(save_to_thread=False)
    refused = await service.ask("POST", path, THREAD | {"consent_ack": {"consent_id": consent_id}})
    assert (refused.status, refused.code) == (403, "profile_consent_required")
    await service.grant()
    for ack in ({"consent_ack": {"consent_id": "consent_x"}}, {}):
        refused = await service.ask("POST", path, THREAD | ack)
        assert (refused.status, refused.code) == (403, "consent_not_in_force")
    saved = await service.ask("POST", path, THREAD | {"save_user_context": False})
    assert saved.status == 201


async def test_feedback_is_taken_down(service: Service) -> None:
    assert (await service.ask("POST", "/api/feedback", FEEDBACK)).status == 403
    await service.grant()
    taken = await service.ask("POST", "/api/feedback", FEEDBACK | {"comment": "有用"})
    assert (taken.status, taken.json["feedback_id"][:9]) == (201, "feedback_")


async def test_a_task_needs_consent_and_gets_its_context(service: Service) -> None:
    body = {"route": "snapshot", "prompt": "沪深300怎么样"}
    refused = await service.ask("POST", "/api/tasks", body)
    assert (refused.status, refused.code) == (403, "profile_consent_required")
    assert refused.json["error"]["details"] == {"required_scopes": ["create_task"]}
    await service.grant()
    task = (await service.ask("POST", "/api/tasks", body)).json
    assert task.keys() == {"task_id", "user_context", "attributes", "advisor_order"}
    assert task["user_context"].startswith("<user_context>\n")
    assert task["attributes"]["slices_loaded"] == ["S1", "S2", "S3"]
    assert task["advisor_order"][0] == "risk"
    overridden = body | {"user_context_overrides": {"research_depth": "quick"}}
    assert "quick" in (await service.ask("POST", "/api/tasks", overridden)).json["user_context"]


async def test_what_a_task_says_of_itself_goes_into_its_context(service: Service) -> None:
    await service.grant()
    body = {
        "route": "pre_execution",
        "user_stated_position_context": "持有指数基金",
        "constraints": ["不加杠杆"],
    }
    task = (await service.ask("POST", "/api/tasks", body)).json
    assert {"S7", "S8"} <= set(task["attributes"]["slices_loaded"])
    assert task["attributes"]["slices_given_unread"] == []
    elsewhere = (await service.ask("POST", "/api/tasks", body | {"route": "risk_challenge"})).json
    assert elsewhere["attributes"]["slices_given_unread"] == ["S7", "S8"]  # its prompt has neither
    overridden = body | {"user_context_overrides": {"constraints": ["不做空"]}}
    again = (await service.ask("POST", "/api/tasks", overridden)).json["user_context"]
    assert again == task["user_context"].replace('["不加杠杆"]', '["不加杠杆","不做空"]')
    del overridden["constraints"]
    assert "不做空" in (await service.ask("POST", "/api/tasks", overridden)).json["user_context"]


async def test_a_context_of_a_thread_is_saved_left_out_or_refused(service: Service) -> None:
    ack = {"consent_ack": {"consent_id": await service.grant()}, "constraints": ["不加杠杆"]}
    path = "/api/snapshots/snap_1/save-as-thread"
    body = {name: value for name, value in THREAD.items() if name != "save_user_context"} | ack
    refused = await service.ask("POST", path, body)
    assert (refused.status, refused.code) == (400, "invalid_input")
    assert refused.json["error"]["message"].startswith("save_user_context: ")
    for saving in (True, False):
        thread = await service.ask("POST", path, body | {"save_user_context": saving})
        shown = await service.ask("GET", f"/api/threads/{thread.json['thread_id']}")
        assert [each["constraints"] for each in shown.json["contexts"]] == [["不加杠杆"]] * saving


async def test_an_unknown_field_of_a_query_is_named(service: Service) -> None:
    await service.grant()
    for path, message in (
        ("/api/users/alice/profile?x=1", "query: unknown field 'x'; this call takes none"),
        ("/api/users/me?x=1&confirm=alice", "query: unknown field 'x'; known fields: confirm"),
    ):
        refused = await service.ask("DELETE" if "confirm" in path else "GET", path)
        assert (refused.status, refused.json["error"]["message"]) == (400, message)


async def test_kinds_of_task_are_suggested_and_to_others_what_everybody_is(service: Service) -> None:
    await service.grant()
    assert (await service.ask("POST", "/api/tasks", {"route": "evidence_audit"})).status == 201
    mine = await service.ask("GET", "/api/tasks/suggestions")
    assert (mine.status, mine.json["task_types"]) == (200, ["evidence_audit", "snapshot", "thread_refresh"])
    assert mine.json["refresh_conditions"]["event"] == ["event_outcome", "date_reached", "policy_change"]
    assert "沪深300" in mine.json["example_question"]
    bobs = await service.ask("GET", "/api/tasks/suggestions", user="bob")
    assert bobs.json["task_types"] == ["snapshot", "thread_refresh", "risk_challenge"]
    consent = (await service.ask("GET", "/api/users/alice/profile-consent")).json["consent_id"]
    await service.ask("DELETE", f"/api/users/alice/profile-consent/{consent}")
    assert (await service.ask("GET", "/api/tasks/suggestions")).body == bobs.body


async def test_a_task_ends_with_at_most_one_hint(service: Service) -> None:
    consent_id = await service.grant()
    hints = []
    await service.ask("DELETE", f"/api/users/alice/profile-consent/{consent_id}")
    for _ in range(2):
        task = (await service.ask("POST", "/api/tasks", {"route": "snapshot"})).json
        ended = await service.ask("POST", f"/api/tasks/{task['task_id']}/end", {"status": "failed"})
        assert (ended.status, ended.json["task_id"]) == (200, task["task_id"])
        hints.append(ended.json["hint"])
    assert hints == ["renew_consent", None]
    assert (await service.ask("POST", "/api/tasks/task_x/end", {})).code == "not_found"


async def test_the_export_is_a_whole_package(service: Service, tmp_path: Path) -> None:
    assert (await service.ask("GET", "/api/users/me/export")).code == "not_found"
    await service.save_thread(await service.grant())
    exported = await service.ask("GET", "/api/users/me/export")
    assert exported.headers["Content-Type"] == "application/zip"
    assert exported.headers["Content-Disposition"] == 'attachment; filename="alice.zip"'
    (tmp_path / "alice.zip").write_bytes(exported.body)
    verified = verify_package(tmp_path / "alice.zip")
    assert not verified.discrepancies
    with zipfile.ZipFile(io.BytesIO(exported.body)) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"alice"}


async def test_sensitive_text_is_refused_and_not_repeated(service: Service) -> None:
    await service.grant()
    address = "someone@example.com"
    for method, path, body in (
        ("PATCH", "/api/users/alice/profile", {"user_focus_reason": f"写信给{address}"}),
        ("POST", "/api/feedback", FEEDBACK | {"comment": address}),
        ("POST", "/api/tasks", {"route": "pre_execution", "constraints": [address]}),
    ):
        refused = await service.ask(method, path, body)
        assert (refused.status, refused.code) == (422, "sensitive_input"), path
        assert address.encode() not in refused.body
    assert address.encode() not in everything_on(service.store.root)


async def test_an_account_that_was_deleted_is_gone(service: Service) -> None:
    await service.grant()
    service.store.delete_user("alice")
    refused = await service.ask("POST", "/api/users/alice/profile-consent", {"scopes": SCOPES})
    assert (refused.status, refused.code) == (410, "account_deleted")


BAD_BODIES: dict[str, tuple[bytes, int, str]] = {
    "empty": (b"", 400, "invalid_json"),
    "cut": (b'{"scopes":', 400, "invalid_json"),
    "mark": (b"\xef\xbb\xbf{}", 400, "invalid_json"),
    "no-utf8": (b'{"scopes": "\xff"}', 400, "invalid_json"),
    "surrogate": (b'{"scopes": "\\ud800x"}', 400, "invalid_json"),
    "list": (b"[]", 400, "invalid_input"),
    "missing": (b"{}", 400, "invalid_input"),
    "unknown": (json.dumps({"scopes": SCOPES, "extra": 1}).encode(), 400, "invalid_input"),
    "unknown-scope": (json.dumps({"scopes": SCOPES | {"all": True}}).encode(), 400, "invalid_input"),
    "no-bool": (json.dumps({"scopes": SCOPES | {"create_task": 1}}).encode(), 400, "invalid_input"),
    "number": (b'{"scopes": 1e999}', 400, "invalid_json"),
    "deep": (b'{"scopes":' * 40 + b"1" + b"}" * 40, 400, "too_deep"),
    "bottomless": (b"[" * 200_000, 400, "too_deep"),
    "large": (b'"' + b"x" * (1 << 20) + b'"', 413, "too_large"),
}


@pytest.mark.parametrize("case", BAD_BODIES)
async def test_a_bad_body_is_one_error(service: Service, case: str) -> None:
    body, status, code = BAD_BODIES[case]
    refused = await service.ask(
        "POST",
        "/api/users/alice/profile-consent",
        data=io.BytesIO(body),
        headers={"Content-Type": "application/json"},
    )
    assert (refused.status, refused.code) == (status, code)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": ""},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
    ids=["text", "none", "gzip"],
)
async def test_a_body_that_is_not_plain_json_is_refused(service: Service, headers: dict[str, str]) -> None:
    refused = await service.ask("POST", "/api/feedback", data=b"{}", headers=headers)
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


async def test_a_body_that_never_comes_is_not_waited_for(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.hosting.MAX_WAIT", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
    writer.write(
        b"POST /api/feedback HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + service.tokens["alice"].encode() + b"\r\nContent-Length: 9\r\n\r\n{"
    )
    assert b" 408 " in await reader.readline()
    writer.close()


async def test_what_is_not_there_and_what_is_not_allowed(service: Service) -> None:
    for path in (
        "/api",
        "/api/users",
        "/api/users/alice",
        "/api/users/me/profile/x",
        "/api//threads",
        "/%00",
    ):
        missing = await service.ask("GET", path)
        assert (missing.status, missing.code) == (404, "not_found"), path
    wrong = await service.ask("PUT", "/api/threads")
    assert (wrong.status, wrong.code, wrong.headers["Allow"]) == (405, "method_not_allowed", "GET")
    expecting = await service.ask("POST", "/api/feedback", {}, headers={"Expect": "chocolate"})
    assert (expecting.status, expecting.code) == (417, "expectation_failed")


async def test_faults_are_told_without_what_they_say(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(problem: Exception) -> Any:
        def raising(*_: object) -> None:
            raise problem

        return raising

    for problem, status, code in (
        (OSError(28, "No space left: 光伏"), 503, "storage_failed"),
        (ValueError("光伏"), 500, "internal"),
    ):
        monkeypatch.setattr(service.store, "list_threads", fails(problem))
        answer = await service.ask("GET", "/api/threads")
        assert (answer.status, answer.code) == (status, code)
        assert "光伏" not in answer.body.decode() + caplog.text
    assert "in raising" in caplog.text


async def test_the_loop_goes_on_while_the_store_waits(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    def waiting(*_: object) -> list[Any]:
        assert waits.wait(30)
        return []

    monkeypatch.setattr(service.store, "list_threads", waiting)
    slow = asyncio.create_task(service.ask("GET", "/api/threads"))
    assert (await service.ask("GET", "/healthz", user=None)).status == 200
    assert (await service.ask("GET", "/api/users/alice/profile")).status == 200
    assert not slow.done()
    waits.set()
    assert (await slow).json == {"threads": []}


async def test_health_and_metrics_need_no_token_and_name_nobody(service: Service) -> None:
    health = await service.ask("GET", "/healthz", user=None)
    assert health.json["status"] == "ok"
    await service.save_thread(await service.grant())
    await service.ask("GET", "/nowhere")
    metrics = (await service.ask("GET", "/metrics", user=None)).body.decode()
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
    }
    assert values["profile_consent_granted_total",] == 1
    assert values["memory_op_total", ("op", "write"), ("scope", "thread")] == 1
    assert values["memory_op_total", ("op", "write"), ("scope", "profile")] == 1
    calls = {key[1:]: value for key, value in values.items() if key[0] == "memfin_memory_http_requests_total"}
    assert calls[("operation", "grantConsent"), ("status", "201")] == 1
    assert calls[("operation", "none"), ("status", "404")] == 1
    assert not any(word in metrics for word in ("alice", "bob", "snap_1", "thread_2", "光伏"))
