"""The pages without a browser: what they show, what their forms do, and whom they let in."""

import html
import io
import re
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar
from yarl import URL

from memfin.web.memory.pages.sessions import Sessions
from memfin.web.memory.pages.texts import texts
from tests.web.memory_service import Answer, Service, serving

EN, ZH = texts("en"), texts("zh")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 5, 16, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Visitor:
    """A browser without JavaScript: keeps cookies, sends the forms that it was shown."""

    def __init__(self, service: Service, client: ClientSession) -> None:
        self._service = service
        self._client = client
        self.page = ""

    async def ask(self, method: str, path: str, data: Any = None, **options: Any) -> Answer:
        async with self._client.request(
            method, self._service.url + path, data=data, allow_redirects=False, **options
        ) as response:
            answer = Answer(response.status, dict(response.headers), await response.read())
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            self.page = answer.body.decode()
        return answer

    async def get(self, path: str, **options: Any) -> Answer:
        answer = await self.ask("GET", f"/memory/{path}", **options)
        assert answer.status == 200, answer
        return answer

    async def send(self, action: str, **fields: str) -> Answer:
        """Send the form of the page that has this action, filled in."""
        form = re.search(rf'<form[^>]*action="/memory/{re.escape(action)}".*?</form>', self.page, re.DOTALL)
        assert form is not None, f"no form for {action}"
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)">', form[0]))
        answer = await self.ask("POST", f"/memory/{action}", hidden | fields)
        if answer.status == 303:
            await self.ask("GET", answer.headers["Location"])
        return answer

    async def sign_in(self, user: str = "alice") -> None:
        await self.get("sign-in?lang=en")
        answer = await self.send("sign-in", token=self._service.tokens[user])
        assert (answer.status, answer.headers["Location"]) == (303, "/memory/settings")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def service(tmp_path: Path, clock: Clock) -> AsyncIterator[Service]:
    async with serving(tmp_path / "data", clock=clock) as running:
        yield running


@pytest.fixture
async def visitor(service: Service) -> AsyncIterator[Visitor]:
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        yield Visitor(service, client)


def names(table: Any, path: str = "") -> set[str]:
    if not isinstance(table, dict):
        return {path}
    return set().union(*(names(value, f"{path}.{name}") for name, value in table.items()))


def test_both_languages_have_the_same_words() -> None:
    assert names(EN) == names(ZH)
    assert not [path for path in names(EN) if not path]


async def test_nobody_is_let_in_without_a_token(service: Service, visitor: Visitor) -> None:
    for path in ("settings", "consent", "export", ""):
        answer = await visitor.ask("GET", f"/memory/{path}")
        assert answer.status == 303
        assert answer.headers["Location"].startswith("/memory/s")
    await visitor.get("sign-in?lang=en")
    wrong = await visitor.send("sign-in", token="mft_0123456789ab_" + "A" * 43)
    assert wrong.status == 401
    assert EN["problems"]["unknown_token"] in visitor.page
    assert (await visitor.ask("GET", "/memory/settings")).status == 303


async def test_a_session_is_a_cookie_that_scripts_and_other_sites_never_see(
    service: Service, visitor: Visitor
) -> None:
    await visitor.get("sign-in")
    answer = await visitor.send("sign-in", token=service.tokens["alice"])
    cookie = answer.headers["Set-Cookie"]
    assert re.match(r"memfin_session=[A-Za-z0-9_-]{43}; ", cookie)
    assert {"HttpOnly", "SameSite=Strict", "Path=/memory"} <= set(cookie.split("; "))
    assert service.tokens["alice"] not in cookie


async def test_every_page_forbids_scripts_frames_and_keeping(visitor: Visitor) -> None:
    pages = [await visitor.get("sign-in")]
    await visitor.sign_in()
    pages += [await visitor.get(path) for path in ("settings", "consent", "style.css")]
    pages.append(await visitor.ask("GET", "/memory/nowhere"))
    for page in pages:
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert (page.headers["Cache-Control"], page.headers["X-Frame-Options"]) == ("no-store", "DENY")
        assert not re.search(rb"<script|\son\w+=|style=", page.body)


async def test_consent_is_given_seen_and_taken_back_on_the_pages(service: Service, visitor: Visitor) -> None:
    await visitor.sign_in()
    assert EN["consent"]["none"] in html.unescape(visitor.page)
    await visitor.get("consent")
    await visitor.send(
        "consent",
        create_task="yes",
        save_to_profile="yes",
        language_preference="zh",
        research_depth="",
        risk_prompt_preference="risk_first",
        user_focus_reason="半导体\r\n周期",
    )
    assert EN["done"]["consent"] in visitor.page
    saved = service.store.read_profile("alice")
    assert saved is not None
    assert (saved.language_preference, saved.research_depth, saved.user_focus_reason) == (
        "zh",
        None,
        "半导体\n周期",
    )
    await visitor.get("consent")
    assert re.findall(r'id="(\w+)" name="\w+" value="yes"[^>]* checked', visitor.page) == [
        "create_task",
        "save_to_profile",
    ]
    await visitor.get("settings")
    await visitor.send("scopes/save_to_profile/revoke")
    assert EN["done"]["scope"] in visitor.page
    assert service.store.read_profile("alice") is None
    refused = await visitor.send("revoke")
    assert refused.status == 400
    await visitor.get("settings")
    await visitor.send("revoke", confirm="yes")
    assert EN["done"]["revoked"] in visitor.page
    assert service.store.consent_state("alice") == "revoked"
    assert 'action="/memory/revoke"' not in visitor.page


async def test_each_preference_is_seen_changed_and_deleted(service: Service, visitor: Visitor) -> None:
    await service.grant()
    await visitor.sign_in()
    assert '<option value="deep" selected>' in visitor.page
    await visitor.send("preferences/research_depth", research_depth="quick")
    assert EN["done"]["changed"] in visitor.page
    for name in ("language_preference", "research_depth", "risk_prompt_preference", "user_focus_reason"):
        await visitor.send(f"preferences/{name}/delete")
        assert EN["done"]["deleted"] in visitor.page
        assert f"preferences/{name}/delete" not in visitor.page
    profile = service.store.read_profile("alice")
    assert profile is not None
    assert profile.user_focus_reason is None
    assert EN["settings"]["saved_none"] in visitor.page
    await visitor.send("preferences/user_focus_reason", user_focus_reason="")
    assert (
        await visitor.ask("POST", "/memory/preferences/user_id", {"form_secret": secret(visitor)})
    ).status == 404


def ticked(visitor: Visitor) -> list[str]:
    return re.findall(r'name="(\w+)" value="yes"[^>]* checked', visitor.page)


def secret(visitor: Visitor) -> str:
    found = re.search(r'name="form_secret" value="([^"]+)"', visitor.page)
    assert found
    return found[1]


async def test_sensitive_text_is_refused_beside_its_field_and_not_lost(
    service: Service, visitor: Visitor
) -> None:
    await service.grant()
    await visitor.sign_in()
    refused = await visitor.send(
        "preferences/user_focus_reason", user_focus_reason="写信给 someone@example.com"
    )
    assert refused.status == 422
    assert EN["problems"]["sensitive_input"] in html.unescape(visitor.page)
    assert "someone@example.com</textarea>" in visitor.page
    assert 'aria-invalid="true"' in visitor.page
    await visitor.get("consent")
    refused = await visitor.send("consent", save_to_profile="yes", user_focus_reason="someone@example.com")
    assert refused.status == 422
    assert ticked(visitor) == ["save_to_profile"]
    for fields, status in (({}, 400), ({"create_task": "yes", "research_depth": "bottomless"}, 400)):
        assert (await visitor.send("consent", **fields)).status == status
        assert 'role="alert"' in visitor.page
    assert service.store.consent_on_file("alice").consent.version == 1  # type: ignore[union-attr]


def uncompressed(package: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        return b"".join(map(opened.read, opened.namelist()))


async def test_a_thread_is_forgotten_and_the_export_downloaded(service: Service, visitor: Visitor) -> None:
    thread_id = await service.save_thread(await service.grant())
    await visitor.sign_in()
    assert "光伏产业链" in visitor.page
    exported = await visitor.get("export")
    assert exported.body.startswith(b"PK")
    assert exported.headers["Content-Disposition"] == 'attachment; filename="alice.zip"'
    await visitor.send(f"threads/{thread_id}/forget")
    assert EN["done"]["forgotten"] in visitor.page
    assert "its words stay" in EN["done"]["forgotten"]  # which the export shows
    assert "需求见底".encode() in uncompressed((await visitor.get("export")).body)
    await visitor.get("settings")
    assert service.store.list_threads("alice")[0].consent_blocked
    assert f"threads/{thread_id}/forget" not in visitor.page


async def test_nobody_touches_what_is_anothers(service: Service, visitor: Visitor) -> None:
    thread_id = await service.save_thread(await service.grant())
    await visitor.sign_in("bob")
    assert "光伏" not in visitor.page
    theirs = await visitor.ask(
        "POST", f"/memory/threads/{thread_id}/forget", {"form_secret": secret(visitor)}
    )
    nobodys = (
        await visitor.ask("POST", "/memory/threads/nobody/forget", {"form_secret": secret(visitor)})
        if "form_secret" in visitor.page
        else None
    )
    assert theirs.status == 404
    del nobodys
    assert not service.store.list_threads("alice")[0].consent_blocked


async def test_what_people_wrote_is_text_and_never_markup(service: Service, visitor: Visitor) -> None:
    hostile = '<script>alert(1)</script>"><img src=x onerror=alert(1)>{{ 7*7 }}{name}'
    consent_id = await service.grant()
    await service.ask("PATCH", "/api/users/alice/profile", {"user_focus_reason": f"</textarea>{hostile}"})
    body = {
        "title": hostile,
        "cognition_object": {},
        "save_user_context": True,
        "consent_ack": {"consent_id": consent_id},
    }
    assert (await service.ask("POST", "/api/snapshots/s/save-as-thread", body)).status == 201
    await visitor.sign_in()
    assert "<script" not in visitor.page
    assert "<img" not in visitor.page
    assert visitor.page.count(html.escape(hostile).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")) == 3


@pytest.mark.parametrize(
    "action",
    [
        "consent",
        "revoke",
        "sign-out",
        "preferences/research_depth",
        "scopes/create_task/revoke",
        "threads/x/forget",
    ],
)
async def test_forms_of_other_sites_do_nothing(service: Service, visitor: Visitor, action: str) -> None:
    await service.grant()
    await visitor.sign_in()
    right = {"form_secret": secret(visitor), "confirm": "yes", "research_depth": "quick"}
    before = service.store.export_user("alice").keys()
    for fields, options in (
        ({**right, "form_secret": "x"}, {}),
        ({name: value for name, value in right.items() if name != "form_secret"}, {}),
        (right, {"headers": {"Sec-Fetch-Site": "cross-site"}}),
    ):
        refused = await visitor.ask("POST", f"/memory/{action}", fields, **options)
        assert refused.status == 403, fields
        assert EN["problems"]["form_expired"] in visitor.page
    assert (
        await visitor.ask("POST", f"/memory/{action}", headers={"Content-Type": "application/json"})
    ).status == 415
    assert service.store.export_user("alice").keys() == before
    assert service.store.consent_state("alice") == "granted"
    await visitor.get("settings")


async def test_signing_in_takes_a_form_of_this_page(service: Service, visitor: Visitor) -> None:
    await visitor.get("sign-in")
    refused = await visitor.ask(
        "POST", "/memory/sign-in", {"form_secret": "x", "token": service.tokens["bob"]}
    )
    assert refused.status == 403
    chosen = await service.ask(  # by somebody who can set cookies for this host
        "POST",
        "/memory/sign-in",
        user=None,
        data={"form_secret": "x", "token": service.tokens["bob"]},
        headers={"Cookie": "memfin_form=x"},
        allow_redirects=False,
    )
    assert chosen.status == 403


async def test_a_session_ends_with_time_its_token_and_on_request(
    service: Service, visitor: Visitor, clock: Clock
) -> None:
    await visitor.sign_in()
    for _ in range(15):
        clock.now += timedelta(minutes=30) - timedelta(seconds=1)
        await visitor.get("settings")
    clock.now += timedelta(minutes=30) - timedelta(seconds=1)
    assert (await visitor.ask("GET", "/memory/settings")).status == 200  # 8 hours less 16 seconds
    clock.now += timedelta(seconds=16)
    assert (await visitor.ask("GET", "/memory/settings")).status == 303
    await visitor.sign_in()
    clock.now += timedelta(minutes=30)
    assert (await visitor.ask("GET", "/memory/settings")).status == 303
    await visitor.sign_in()
    assert (await visitor.ask("GET", "/memory/sign-in")).status == 303
    await visitor.send("sign-out")
    assert (await visitor.ask("GET", "/memory/settings")).status == 303
    await visitor.sign_in()
    service.token_file.revoke(service.tokens["alice"].split("_")[1])
    assert (await visitor.ask("GET", "/memory/settings")).status == 303


def test_one_person_signs_nobody_else_out(clock: Clock) -> None:
    sessions = Sessions(clock)
    other = sessions.begin("bob", "b")
    keys = [sessions.begin("alice", "a") for _ in range(25)]
    assert [sessions.find(key) is not None for key in keys] == [False] * 5 + [True] * 20
    assert sessions.find(other) is not None


async def test_cookies_behind_a_proxy_are_for_tls_and_this_host_alone(tmp_path: Path, clock: Clock) -> None:
    async with serving(tmp_path / "data", clock=clock, secure_cookies=True) as service:
        jar = CookieJar(unsafe=True, treat_as_secure_origin=URL(service.url))
        async with ClientSession(cookie_jar=jar) as client:
            visitor = Visitor(service, client)
            cookies = {(await visitor.get("sign-in?lang=en")).headers["Set-Cookie"]}
            await visitor.sign_in()
            cookies |= {each.OutputString() for each in jar}
            assert {each["path"] for each in jar if each.key.startswith("__Host-")} == {"/"}
            await visitor.get("settings")
            await visitor.send("sign-out")
            assert (await visitor.ask("GET", "/memory/settings")).status == 303
    named = [each for each in cookies if "memfin_session" in each or "memfin_form" in each]
    assert named
    for each in named:
        assert each.startswith("__Host-memfin_")
        assert "; Secure" in each
        assert "Path=/;" in each


def test_there_are_only_so_many_sessions(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr("memfin.web.memory.pages.sessions.MAX_SESSIONS", 2)
    sessions = Sessions(clock)
    keys = [sessions.begin("alice", str(number)) for number in range(3)]
    assert [sessions.find(key) is not None for key in keys] == [False, True, True]
    clock.now += timedelta(hours=1)
    assert sessions.find(sessions.begin("bob", "b")) is not None
    assert len(sessions._sessions) == 1


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"),
        ("en-GB,zh", "en"),
        ("fr", "en"),
        ("fr,zh-TW", "zh-Hans"),
        ("", "en"),
    ],
)
async def test_the_language_is_the_browsers_until_another_is_chosen(
    visitor: Visitor, accepted: str, language: str
) -> None:
    await visitor.get("sign-in", headers={"Accept-Language": accepted})
    assert f'<html lang="{language}">' in visitor.page
    for chosen, shown in (("zh", "zh-Hans"), ("en", "en")):
        await visitor.get(f"sign-in?lang={chosen}")
        await visitor.get("sign-in", headers={"Accept-Language": accepted})
        assert f'<html lang="{shown}">' in visitor.page


async def test_all_pages_speak_both_languages(service: Service, visitor: Visitor) -> None:
    await service.save_thread(await service.grant())
    await visitor.sign_in()
    for page in ("settings", "consent"):
        await visitor.get(f"{page}?lang=zh")
        assert html.escape(ZH[page]["title"]) in visitor.page
        assert ZH["app"] in visitor.page
        assert EN["app"] not in visitor.page


@pytest.mark.parametrize("page", ["sign-in", "settings", "consent"])
async def test_every_field_has_a_label_and_every_page_a_heading(
    service: Service, visitor: Visitor, page: str
) -> None:
    await service.save_thread(await service.grant())
    if page != "sign-in":
        await visitor.sign_in()
    await visitor.get(page)
    fields = re.findall(
        r"<(?:input|select|textarea)\b(?![^>]*type=\"hidden\")[^>]*\bid=\"([^\"]+)\"", visitor.page
    )
    assert fields
    assert [field for field in fields if f'<label for="{field}"' not in visitor.page] == []
    ids = re.findall(r'\bid="([^"]+)"', visitor.page)
    assert len(ids) == len(set(ids))
    references = {
        each
        for group in re.findall(r'aria-(?:describedby|labelledby)="([^"]+)"', visitor.page)
        for each in group.split()
    }
    assert references <= set(ids)
    assert len(re.findall(r"<h1>", visitor.page)) == 1


async def test_pages_that_are_not_there_are_pages(visitor: Visitor) -> None:
    missing = await visitor.ask("GET", "/memory/nowhere", headers={"Accept-Language": "zh"})
    assert missing.status == 404
    assert ZH["problems"]["not_found"] in visitor.page
    assert (await visitor.ask("PUT", "/memory/settings")).status == 405
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    large = await visitor.ask("POST", "/memory/sign-in", io.BytesIO(b"x" * ((1 << 20) + 1)), headers=form)
    assert large.status == 413
    await visitor.ask("GET", "/")


async def test_a_consent_that_cannot_be_read_can_be_taken_back(service: Service, visitor: Visitor) -> None:
    await service.grant()
    service.store.workspace.paths.consent("alice").write_bytes(b"damaged")
    await visitor.sign_in()
    refused = await visitor.get("consent")
    assert refused.status == 200
    assert (await visitor.send("consent", create_task="yes")).status == 403
    assert EN["problems"]["consent_unreadable"] in visitor.page
    await visitor.get("settings")
    await visitor.send("revoke", confirm="yes")
    assert service.store.consent_state("alice") == "revoked"
