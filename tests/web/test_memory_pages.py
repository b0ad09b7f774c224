"""The pages without a browser: what they show, what their forms do, and whom they let in."""

import html
import io
import random
import re
import sys
import zipfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from aiohttp import ClientSession, CookieJar
from yarl import URL

from memfin.contracts.memory import ContextFields, ItemKind, Route, SignalKind, WatchStatus
from memfin.memory.consent import SCOPES
from memfin.memory.drift import load_dictionary
from memfin.memory.records import REVIEWABLE
from memfin.web.memory.pages.confirmations import CONFIRMATIONS, MAX_SHOWN
from memfin.web.memory.pages.sessions import Sessions
from memfin.web.memory.pages.texts import texts
from tests.memory.memory_disks import FailingFiles, tree
from tests.memory.memory_world import Clock
from tests.support import length
from tests.web.memory_service import FEEDBACK, Answer, Service, serving

EN, ZH = texts("en"), texts("zh")


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

    async def sign_in(self, user: str = "alice", page: str = "settings") -> None:
        await self.get("sign-in?lang=en")
        answer = await self.send("sign-in", token=self._service.tokens[user])
        assert answer.status == 303
        await self.get(page)


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
    for path in (
        "settings",
        "consent",
        "export",
        "",
        "remembered",
        "revoke",
        "account/delete",
        "tasks/t/delete",
    ):
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


async def test_every_page_forbids_scripts_frames_and_keeping(service: Service, visitor: Visitor) -> None:
    await service.grant()
    pages = [await visitor.get("sign-in")]
    await visitor.sign_in()
    pages += [
        await visitor.get(path) for path in ("settings", "consent", "remembered", "revoke", "style.css")
    ]
    pages.append(await visitor.ask("GET", "/memory/nowhere"))
    for page in pages:
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert (page.headers["Cache-Control"], page.headers["X-Frame-Options"]) == ("no-store", "DENY")
        assert not re.search(rb"<script|\son\w+=|style=", page.body)


async def test_consent_is_given_seen_and_taken_back_on_the_pages(service: Service, visitor: Visitor) -> None:
    await visitor.get("sign-in?lang=en")
    answer = await visitor.send("sign-in", token=service.tokens["alice"])
    assert answer.headers["Location"] == "/memory/consent"
    assert EN["consent"]["none"] in html.unescape(visitor.page)
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
    assert (saved.language_preference, saved.research_depth) == ("zh", None)
    assert saved.user_focus_reason == "半导体\n周期"
    await visitor.get("consent")
    assert ticked(visitor) == ["create_task", "save_to_profile"]
    await visitor.get("scopes/save_to_profile/revoke")
    assert "半导体\n周期" in visitor.page
    await visitor.send("scopes/save_to_profile/revoke")
    assert EN["done"]["scope"] in visitor.page
    assert service.store.read_profile("alice") is None
    await visitor.get("revoke")
    await visitor.send("revoke")
    assert EN["done"]["revoke"] in visitor.page
    assert service.store.consent_state("alice") == "revoked"
    assert "/memory/revoke" not in visitor.page
    for scope in ("create_task", "nothing"):
        assert (await visitor.ask("GET", f"/memory/scopes/{scope}/revoke")).status == 404


async def test_a_permission_that_loses_nothing_is_taken_back_at_once(
    service: Service, visitor: Visitor
) -> None:
    await service.grant(save_to_profile=False, save_to_thread=False)
    await visitor.sign_in()
    assert 'href="/memory/scopes/create_task/revoke"' in visitor.page
    await visitor.send("scopes/training_use_allowed/revoke")
    assert EN["done"]["scope"] in visitor.page
    assert 'href="/memory/scopes/create_task/revoke"' in visitor.page  # the last one: the whole consent
    await visitor.get("scopes/create_task/revoke")
    assert html.escape(EN["confirmations"]["revoke"]["title"]) in visitor.page


async def test_a_choice_that_loses_something_is_asked_about(service: Service, visitor: Visitor) -> None:
    await service.grant()
    service.store.review_profile("alice", {"time_horizon": "3年", "constraints": ["不用杠杆"]})
    await visitor.sign_in(page="consent")
    both = {"create_task": "yes", "save_to_profile": "yes"}
    await visitor.send("consent", **both, save_to_thread="yes")
    saved = service.store.read_profile("alice")
    assert saved is not None
    assert (saved.time_horizon, saved.constraints) == (
        "3年",
        ["不用杠杆"],
    )  # which the dialogue does not ask for
    await visitor.get("consent")
    asked = await visitor.send("consent", create_task="yes", save_to_thread="yes")
    assert asked.status == 200
    assert "不用杠杆" in visitor.page
    assert service.store.read_profile("alice") is not None
    await visitor.send("consent")
    assert service.store.read_profile("alice") is None
    consent = service.store.consent_on_file("alice").in_force
    assert consent is not None
    assert (consent.scopes.create_task, consent.scopes.save_to_thread) == (True, True)


async def test_notes_of_a_thread_are_lost_with_it_and_not_with_the_settings(
    service: Service, visitor: Visitor
) -> None:
    thread_id = await service.save_thread(await service.grant())
    service.store.items.add("alice", "outside", kind="constraint")
    service.store.items.add("alice", "inside", thread_id=thread_id)
    await visitor.sign_in()
    await visitor.get("scopes/save_to_thread/revoke")
    assert "需求见底" in visitor.page  # which is no longer used
    assert EN["remembered"]["unused"] in visitor.page
    for path, lost, kept in (
        ("scopes/save_to_profile/revoke", "outside", "inside"),
        (f"threads/{thread_id}/delete", "inside", "outside"),
    ):
        await visitor.get(path)
        assert f">{lost}<" in visitor.page
        assert f">{kept}<" not in visitor.page
        await visitor.send(path)
        left = [each.text for each in service.store.items.everything("alice")]
        assert lost not in left
    assert left == []


async def test_one_form_saves_and_clears_every_lasting_field(service: Service, visitor: Visitor) -> None:
    await service.grant()
    await visitor.sign_in()
    assert '<option value="deep" selected>' in visitor.page
    said = {
        "language_preference": "en",
        "research_depth": "quick",
        "risk_prompt_preference": "balanced",
        "user_focus_reason": "光伏",
        "research_style": "figures first",
        "user_stated_position_context": "bond funds",
        "time_horizon": "3 years",
        "constraints": " no leverage \r\n\r\nno single shares\r\nno leverage",
    }
    assert {*said} == {*REVIEWABLE}
    await visitor.send("profile", **said)
    assert EN["done"]["saved"] in visitor.page
    profile = service.store.read_profile("alice")
    assert profile is not None
    wanted = said | {"constraints": ["no leverage", "no single shares"]}
    assert {name: profile[name] for name in said} == wanted
    assert "no leverage\nno single shares</textarea>" in visitor.page
    await visitor.send("profile", **dict.fromkeys(said, ""))
    profile = service.store.read_profile("alice")
    assert profile is not None
    assert not any(profile[name] for name in said)


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
    mail = "写信给 someone@example.com"
    refused = await visitor.send(
        "profile", time_horizon="3年", research_depth="quick", constraints=f"a\n{mail}"
    )
    assert refused.status == 422
    words = f"{EN['fields']['constraints']}: {EN['problems']['sensitive_input']}"
    assert words in html.unescape(visitor.page)
    assert re.findall(r'id="(\w+)"[^>]* aria-invalid="true"', visitor.page) == ["constraints"]
    for kept in ("a\n写信给 someone@example.com</textarea>", "3年</textarea>", '"quick" selected'):
        assert kept in visitor.page
    assert (await visitor.send("profile", time_horizon="x" * 4001)).status == 400
    assert (await visitor.send("profile", research_depth="bottomless")).status == 400
    await service.grant(save_to_profile=False, save_to_thread=False)
    await visitor.get("consent")
    refused = await visitor.send(
        "consent", create_task="yes", save_to_profile="yes", user_focus_reason="someone@example.com"
    )
    assert refused.status == 422
    assert ticked(visitor) == ["create_task", "save_to_profile"]
    unsaved = {"create_task": "yes", "training_use_allowed": "yes", "research_depth": "deep"}
    for fields, status in (({}, 400), (unsaved, 400), (unsaved | {"research_depth": "bottomless"}, 400)):
        assert (await visitor.send("consent", **fields)).status == status
        assert 'role="alert"' in visitor.page
    assert service.store.consent_on_file("alice").consent.version == 2  # type: ignore[union-attr]


async def test_a_form_that_cannot_be_saved_is_not_lost(tmp_path: Path) -> None:
    files = FailingFiles(sys.maxsize, for_good=True)
    async with (
        serving(tmp_path / "data", store={"files": files}) as service,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as client,
    ):
        visitor = Visitor(service, client)
        await visitor.sign_in(page="consent")
        files.fail_at = 1
        refused = await visitor.send("consent", save_to_profile="yes", user_focus_reason="光伏")
        assert (refused.status, ticked(visitor)) == (503, ["save_to_profile"])
        assert "光伏</textarea>" in visitor.page
        files.fail_at = sys.maxsize
        await visitor.send("consent", save_to_profile="yes")
        files.fail_at = 1
        assert (await visitor.send("profile", time_horizon="3年")).status == 503
        assert EN["problems"]["storage_failed"] in visitor.page
        assert "3年</textarea>" in visitor.page


def test_every_rating_and_kind_of_task_has_words() -> None:
    ratings = load_dictionary().ratings
    for words in (EN, ZH):
        assert {*ratings.positive, *ratings.negative} <= words["ratings"].keys()
        assert {*get_args(Route)} == words["routes"].keys()
        assert {*get_args(SignalKind)} == words["drift"].keys()
        assert {*get_args(ItemKind)} == words["kinds"].keys()
        assert {*get_args(WatchStatus)} == words["watch"].keys()
        assert {*REVIEWABLE} == words["fields"].keys()


def uncompressed(package: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        return b"".join(map(opened.read, opened.namelist()))


async def test_a_thread_is_forgotten_deleted_and_exported(service: Service, visitor: Visitor) -> None:
    thread_id = await service.save_thread(await service.grant())
    await visitor.sign_in(page="remembered")
    assert "光伏产业链" in visitor.page
    assert "需求见底" in visitor.page
    exported = await visitor.get("export")
    assert exported.body.startswith(b"PK")
    assert exported.headers["Content-Disposition"] == 'attachment; filename="alice.zip"'
    await visitor.get(f"threads/{thread_id}/forget")
    await visitor.send(f"threads/{thread_id}/forget")
    assert EN["done"]["forget"] in visitor.page
    assert EN["remembered"]["unused"] in visitor.page
    assert "需求见底".encode() in uncompressed((await visitor.get("export")).body)
    assert service.store.list_threads("alice")[0].consent_blocked
    await visitor.get("remembered")
    assert f"threads/{thread_id}/forget" not in visitor.page
    await visitor.get(f"threads/{thread_id}/delete")
    await visitor.send(f"threads/{thread_id}/delete")
    assert EN["done"]["thread"] in visitor.page
    assert "光伏" not in visitor.page
    assert "需求见底".encode() not in uncompressed((await visitor.get("export")).body)


async def fill(service: Service, user: str) -> dict[str, str]:
    """Save one of everything for a user, with the user's mark in it; return the pages that end it."""
    mark = f"mark of {user}"
    await service.grant(user)
    service.store.review_profile(user, {"time_horizon": mark})
    consent = service.store.consent_on_file(user).in_force
    assert consent is not None
    context = ContextFields(user_stated_position_context=mark)
    thread = service.store.save_thread(
        user,
        "snap_1",
        mark,
        {"name": mark},
        save_user_context=True,
        consent_id=consent.consent_id,
        context=context,
    ).thread_id
    task = service.store.start_task(user, "snapshot", fields=context).context.task_id
    for rating in ("thumbs_up", "thumbs_down"):
        given = service.store.record_feedback(user, "snapshot:snap_1", {"name": mark}, rating, mark)
    item = service.store.items.add(user, mark, kind="note")
    service.store.items.update(user, item.item_id, f"{mark} still")
    context_id = service.store.thread_contexts(user, thread)[0].context_id
    return {
        "forget": f"threads/{thread}/forget",
        "context": f"threads/{thread}/contexts/{context_id}/delete",
        "thread": f"threads/{thread}/delete",
        "item": f"items/{item.item_id}/delete",
        "task": f"tasks/{task}/delete",
        "drift": f"drift/{service.store.drift_log(user)[0].drift_id}/delete",
        "feedback": f"feedback/{given.feedback_id}/delete",
    }


async def test_everything_remembered_is_shown_and_ends_once_confirmed(
    service: Service, visitor: Visitor
) -> None:
    paths = await fill(service, "alice")
    assert {*paths, "scope", "revoke"} == {each.name for each in CONFIRMATIONS}
    await visitor.sign_in(page="remembered")
    for name, path in paths.items():
        await visitor.get("remembered")
        assert f'href="/memory/{path}"' in visitor.page
        await visitor.get(path)
        assert "mark of alice" in visitor.page.partition("<main")[2]
        assert html.escape(EN["confirmations"][name]["title"]) in visitor.page
        await visitor.get("remembered")
        assert f'href="/memory/{path}"' in visitor.page  # asking alone ends nothing
        await visitor.get(path)
        await visitor.send(path)
        assert EN["done"][name] in visitor.page
        assert f'href="/memory/{path}"' not in visitor.page
        if name != "forget":
            assert (await visitor.ask("GET", f"/memory/{path}")).status == 404
    await visitor.get("remembered")
    assert visitor.page.count(EN["remembered"]["none"]) == 4  # the other feedback is left


async def test_long_lists_are_cut_until_all_is_asked_for(service: Service, visitor: Visitor) -> None:
    await service.grant()
    for _ in range(MAX_SHOWN + 2):
        service.store.begin_task("alice", "snapshot")
    await visitor.sign_in(page="remembered")
    assert visitor.page.count('href="/memory/tasks/') == MAX_SHOWN
    assert EN["remembered"]["more"].format(number=MAX_SHOWN + 2) in visitor.page
    await visitor.get("remembered?all=yes")
    assert visitor.page.count('href="/memory/tasks/') == MAX_SHOWN + 2


async def test_an_account_is_deleted_once_its_id_is_typed(service: Service, visitor: Visitor) -> None:
    await fill(service, "alice")
    await visitor.sign_in(page="account/delete")
    assert 'href="/memory/export"' in visitor.page
    refused = await visitor.send("account/delete", user_id="bob")
    assert refused.status == 400
    assert EN["problems"]["other_user_id"] in visitor.page
    assert service.store.read_profile("alice") is not None
    done = await visitor.send("account/delete", user_id=" alice ")
    assert done.status == 200
    assert EN["account"]["gone_text"] in visitor.page
    assert (await visitor.ask("GET", "/memory/settings")).status == 303
    left = [name for name in tree(service.store.root) if "alice" in name]
    assert left == ["consents/_deleted/alice.yaml"]
    assert b"mark of alice" not in b"".join(tree(service.store.root).values())
    assert {token.user_id for token in service.token_file.all()} == {"bob"}
    await visitor.get("sign-in")
    assert (await visitor.send("sign-in", token=service.tokens["alice"])).status == 401
    await visitor.sign_in("bob", "account/delete")  # of whom nothing is saved
    await visitor.send("account/delete", user_id="bob")
    assert EN["account"]["gone_text"] in visitor.page


def files_of(service: Service, user: str) -> dict[str, bytes]:
    return {name: data for name, data in tree(service.store.root).items() if user in name}


async def test_nobody_touches_what_is_anothers(service: Service, visitor: Visitor) -> None:
    theirs, _ = await fill(service, "alice"), await fill(service, "bob")
    before = files_of(service, "alice")
    await visitor.sign_in("bob")
    form = {"form_secret": secret(visitor)}
    for path in [
        *theirs.values(),
        *(re.sub(r"\w+_[\w-]+", each, theirs["context"]) for each in ("x", "a b", "%2e")),
    ]:
        for method, fields in (("GET", None), ("POST", form)):
            answer = await visitor.ask(method, f"/memory/{path}", fields)
            assert answer.status == 404, path
            assert "mark of alice" not in visitor.page
    assert files_of(service, "alice") == before


async def test_two_people_who_do_anything_on_the_pages_never_meet(service: Service) -> None:
    """Both follow links and send forms at random, with ids of both; only what is one's own changes."""
    chance = random.Random(7)
    paths = [path for user in ("alice", "bob") for path in (await fill(service, user)).values()]
    paths += ["settings", "remembered", "consent", "revoke", "export", "scopes/save_to_thread/revoke"]
    async with (
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as one,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as other,
    ):
        people = {"alice": Visitor(service, one), "bob": Visitor(service, other)}
        for user, visitor in people.items():
            await visitor.sign_in(user)
        for _ in range(length(80, 3000)):
            user, stranger = chance.sample(["alice", "bob"], 2)
            visitor = people[user]
            before = files_of(service, stranger)
            links = [*re.findall(r'href="/memory/([^"?]+)', visitor.page), *paths]
            await visitor.ask("GET", f"/memory/{chance.choice(links)}")
            if "form_secret" not in visitor.page:
                await visitor.get("settings")
            actions = [*re.findall(r'action="/memory/([^"]+)', visitor.page), *paths]
            fields: dict[str, str] = {name: "yes" for name in SCOPES if chance.random() < 0.8}
            fields |= {"form_secret": secret(visitor), "confirm": "yes", "user_id": stranger}
            fields |= {"time_horizon": f"mark of {user}", "constraints": f"mark of {user}\nno"}
            if (action := chance.choice(actions)) != "sign-out":
                await visitor.ask("POST", f"/memory/{action}", fields)
            assert f"mark of {stranger}" not in visitor.page
            assert files_of(service, stranger) == before, action


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
    thread = await service.ask("POST", "/api/snapshots/s/save-as-thread", body)
    refresh = {
        "change_summary": {"changed_inferences": [hostile, {"of": "a record"}]},
        "watch_question_updates": [{"question_id": "q7", "status": "reopened"}],
    }
    refreshed = await service.ask("POST", f"/api/threads/{thread.json['thread_id']}/refresh", refresh)
    assert refreshed.status == 200
    await service.ask(
        "POST", "/api/feedback", FEEDBACK | {"cognition_object": {"name": hostile}, "comment": hostile}
    )
    await visitor.sign_in()
    escaped = html.escape(hostile).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    for page, times in (("settings", 1), ("revoke", 3), ("remembered", 6)):
        await visitor.get(page)
        assert "<script" not in visitor.page
        assert "<img" not in visitor.page
        assert visitor.page.count(escaped) == times, page
    assert "a record" in visitor.page
    assert EN["remembered"]["question"].format(id="q7", status=EN["watch"]["reopened"]) in visitor.page


@pytest.mark.parametrize(
    "action",
    [
        "consent",
        "revoke",
        "sign-out",
        "profile",
        "scopes/create_task/revoke",
        "threads/x/forget",
        "tasks/x/delete",
        "account/delete",
    ],
)
async def test_forms_of_other_sites_do_nothing(service: Service, visitor: Visitor, action: str) -> None:
    await service.grant()
    await visitor.sign_in()
    right = {"form_secret": secret(visitor), "confirm": "yes", "user_id": "alice", "research_depth": "quick"}
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
    for page in ("settings", "consent", "remembered"):
        await visitor.get(f"{page}?lang=zh")
        assert html.escape(ZH[page]["title"]) in visitor.page
        assert ZH["app"] in visitor.page
        assert EN["app"] not in visitor.page


@pytest.mark.parametrize("page", ["sign-in", "settings", "consent", "account/delete"])
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
    await visitor.get("revoke")
    await visitor.send("revoke")
    assert service.store.consent_state("alice") == "revoked"
