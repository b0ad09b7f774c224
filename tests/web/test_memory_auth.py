"""Who may ask what, and under which name: tokens, users, hosts."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memfin.hosting import HostCheck, is_loopback
from memfin.web.memory.calls import ROUTES
from memfin.web.memory.routes import Route
from tests.web.memory_service import FEEDBACK, PREFERENCES, SCOPES, THREAD, Answer, Service, serving

BODIES: dict[str, dict[str, Any]] = {
    "grantConsent": {"scopes": SCOPES, "preferences": PREFERENCES},
    "reviewProfile": {"research_depth": "quick"},
    "saveAsThread": THREAD,
    "refreshThread": {"main_thesis": "需求见底"},
    "changeThread": {"consent_blocked": True},
    "giveFeedback": FEEDBACK,
    "beginTask": {"route": "snapshot"},
    "endTask": {"status": "finished"},
}
OTHER_HOSTS = (
    "evil.example",
    "evil.example:80",
    "localhost.evil.example",
    "127.0.0.1.evil",
    "10.0.0.1",
    "localhost.",
    "local host",
    "[::2]",
    "user@localhost",
    "",
)
IDS = {name for route in ROUTES for name in re.findall(r"\{(\w+)\}", route.path)}
NAMED = {route.name: route for route in ROUTES}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with serving(tmp_path / "data") as running:
        yield running


def filled(route: Route, ids: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], route.path)


def visible(answer: Answer) -> tuple[int, bytes, dict[str, str]]:
    """Return what a caller can see, but for the time."""
    return answer.status, answer.body, {name: each for name, each in answer.headers.items() if name != "Date"}


def test_every_call_has_a_body_here_if_it_takes_one() -> None:
    assert {route.name for route in ROUTES if route.body} == set(BODIES)


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer x", "Bearer mft_0123456789ab_" + "A" * 43, "Basic YTpi", "{token}"],
    ids=["none", "empty", "no-token", "short", "unknown", "basic", "no-scheme"],
)
async def test_nothing_is_answered_without_a_token(service: Service, authorization: str | None) -> None:
    ids = dict.fromkeys(IDS, "x") | {"user_id": "alice"}
    shown = (
        {}
        if authorization is None
        else {"Authorization": authorization.format(token=service.tokens["alice"])}
    )
    for name, route in NAMED.items():
        refused = await service.ask(
            route.method, filled(route, ids), BODIES.get(name), user=None, headers=shown
        )
        assert (refused.status, refused.code) == (401, "unauthorized"), name
        assert refused.headers["WWW-Authenticate"] == "Bearer"


async def test_a_token_that_was_taken_back_is_refused_at_once(service: Service) -> None:
    assert (await service.ask("GET", "/api/threads")).status == 200
    service.token_file.revoke(service.tokens["alice"].split("_")[1])
    assert (await service.ask("GET", "/api/threads")).status == 401
    assert (await service.ask("GET", "/api/threads", user="bob")).status == 200


async def test_two_authorizations_are_none(service: Service) -> None:
    token = service.tokens["alice"]
    answer = await service.client.get(
        f"{service.url}/api/threads",
        headers=[("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")],
    )
    assert answer.status == 401


async def test_every_call_of_another_user_looks_like_one_of_nobody(service: Service) -> None:
    """Two users, every route: bob asks for what is alice's, and for what nobody has."""
    consent_id = await service.grant("alice")
    await service.grant("bob")
    task = (await service.ask("POST", "/api/tasks", {"route": "snapshot"})).json
    for rating in ("thumbs_up", "thumbs_down"):
        feedback = (await service.ask("POST", "/api/feedback", FEEDBACK | {"rating": rating})).json
    thread_id = await service.save_thread(consent_id)
    own = {
        "user_id": "alice",
        "consent_id": consent_id,
        "thread_id": thread_id,
        "context_id": service.store.thread_contexts("alice", thread_id)[0].context_id,
        "snapshot_id": "snap_1",
        "task_id": task["task_id"],
        "feedback_id": feedback["feedback_id"],
        "item_id": service.store.items.add("alice", "note to self", kind="note").item_id,
        "drift_id": service.store.drift_log("alice")[0].drift_id,
    }
    assert set(own) == IDS
    nobodys = {name: f"nobody{number}" for number, name in enumerate(own)} | {"snapshot_id": "snap_1"}
    everything = service.store.export_user("alice")
    seen = set()
    for route in ROUTES:
        body = BODIES.get(route.name)
        theirs = await service.ask(route.method, filled(route, own), body, user="bob")
        if not set(re.findall(r"\{(\w+)\}", route.path)) - {"snapshot_id"}:
            assert not any(each.encode() in theirs.body for each in own.values() if each != "snap_1"), (
                route.name
            )
            continue
        missing = await service.ask(route.method, filled(route, nobodys), body, user="bob")
        assert visible(theirs) == visible(missing), route.name
        assert (theirs.status, theirs.code) == (404, "not_found"), route.name
        seen.add(visible(theirs)[1])
        if "{user_id}" in route.path:
            broken = await service.ask(
                route.method,
                filled(route, own) + "?x=y",
                user="bob",
                data=b"{",
                headers={"Content-Type": "text/x"},
            )
            assert visible(broken) == visible(missing), route.name
    for thread_id in (own["thread_id"], "nobody"):
        task_body = {"route": "thread_refresh", "thread_id": thread_id}
        seen.add((await service.ask("POST", "/api/tasks", task_body, user="bob")).body)
    assert len(seen) == 1
    assert (await service.ask("GET", "/api/nowhere", user="bob")).body in seen
    after = service.store.export_user("alice")
    assert {path: data for path, data in after.items() if path != "manifest.yaml"} == {
        path: data for path, data in everything.items() if path != "manifest.yaml"
    }


@pytest.mark.parametrize("user", ["Alice", "alice%2f", "..", "%2e%2e", "alice%00", "a" * 65, "élice", "me"])
async def test_ids_that_are_not_the_callers_are_not_there(service: Service, user: str) -> None:
    answer = await service.ask("GET", f"/api/users/{user}/profile")
    assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize("thread", ["..", "%2e%2e%2fbob", "a%00", "x" * 65, "线"])
async def test_ids_that_are_none_are_not_there(service: Service, thread: str) -> None:
    answer = await service.ask("POST", f"/api/threads/{thread}/refresh", {})
    assert (answer.status, answer.code) == (404, "not_found")


async def test_a_token_in_the_address_or_a_cookie_is_none(service: Service) -> None:
    token = service.tokens["alice"]
    assert (await service.ask("GET", f"/api/threads?token={token}", user=None)).status == 401
    for cookie in ("memfin_session", "token", "Authorization"):
        answer = await service.ask("GET", "/api/threads", user=None, headers={"Cookie": f"{cookie}={token}"})
        assert answer.status == 401


async def test_another_host_gets_no_answer(service: Service) -> None:
    for host in OTHER_HOSTS:
        for path in ("/healthz", "/metrics", "/openapi.json", "/api/threads", "/nowhere"):
            refused = await service.ask("GET", path, headers={"Host": host})
            assert (refused.status, refused.code) == (421, "unknown_host"), (host, path)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8766", "127.0.0.1:9"])
async def test_the_names_of_loopback_are_answered(service: Service, host: str) -> None:
    assert (await service.ask("GET", "/api/threads", headers={"Host": host})).status == 200


async def test_the_request_line_may_name_no_other_host(service: Service) -> None:

    for target, status in ((b"http://evil.example/healthz", b"421"), (b"http://localhost/healthz", b"200")):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
        writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).split()[1] == status
        await reader.read()
        writer.close()


def test_which_names_a_service_has() -> None:
    assert HostCheck("192.0.2.1").allows("192.0.2.1:8766")
    assert not HostCheck("192.0.2.1").allows("localhost")
    assert not HostCheck("192.0.2.1").allows("192.0.2.2")
    assert HostCheck("2001:db8::1").allows("[2001:db8::1]:1")
    for everything in ("0.0.0.0", "::"):  # noqa: S104 - compared
        check = HostCheck(everything, ["Memory.Example"])
        assert all(map(check.allows, ("192.0.2.2", "[2001:db8::1]:1", "memory.example:443")))
        assert not any(map(check.allows, ("evil.example", "192.0.2.2.evil.example", "1.2.3")))
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("::", "192.0.2.1", "memory.example")] == [False] * 3
