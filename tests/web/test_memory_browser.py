"""The pages in a real browser, chromium without a window, with and without JavaScript."""

import os
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import Select, WebDriverWait

from memfin.web.memory.pages.texts import texts
from tests.support import LONG
from tests.web.browsers import chromium, needs_chromium
from tests.web.memory_service import Service, serving

VARIANTS = [False, True] if LONG else [False]
"""With JavaScript, too, in a long run; the pages have none, and forbid it."""

EN, ZH = texts("en"), texts("zh")

pytestmark = needs_chromium


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with serving(tmp_path / "data") as running:
        yield running


@pytest.fixture(params=VARIANTS, ids=["javascript" if each else "no-javascript" for each in VARIANTS])
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path, javascript=request.param) as driver:
        yield driver


class Person:
    """Uses the pages as a person does: by the words on them."""

    def __init__(self, browser: webdriver.Chrome, url: str) -> None:
        self.browser = browser
        self.url = url

    def open(self, path: str) -> None:
        self.browser.get(f"{self.url}/memory/{path}")

    def field(self, label: str) -> Any:
        found = self.browser.find_element(By.XPATH, f"//label[starts-with(normalize-space(), '{label}')]")
        return self.browser.find_element(By.ID, str(found.get_attribute("for")))

    def press(self, name: str) -> None:
        """Press a button by its name for assistive technology, and wait for the next page."""
        buttons = self.browser.find_elements(By.TAG_NAME, "button")
        button = next(each for each in buttons if each.accessible_name == name)
        self.leave_by(button)

    def follow(self, link: str) -> None:
        self.leave_by(self.browser.find_element(By.LINK_TEXT, link))

    def leave_by(self, way: WebElement) -> None:
        """Click and wait until this page is gone.

        Asked in the instant between two pages, chromedriver answers with an "inspector error"
        where it should say that the element is stale; so it is asked again.
        """
        before = self.browser.find_element(By.TAG_NAME, "html")
        way.click()
        gone = WebDriverWait(self.browser, 60, ignored_exceptions=[WebDriverException])
        gone.until(staleness_of(before))

    def sees(self, text: str) -> bool:
        return text in self.browser.find_element(By.TAG_NAME, "body").text

    def forbidden(self) -> list[str]:
        """Return what the browser says of things that the pages' policy forbids."""
        logged: list[dict[str, str]] = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return [each["message"] for each in logged if "Content Security Policy" in each["message"]]


async def test_a_person_consents_reviews_and_takes_it_back(
    service: Service, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    person = Person(browser, service.url)
    await anyio.to_thread.run_sync(signs_in, person, service.tokens["alice"])
    await anyio.to_thread.run_sync(consents, person)
    consent = service.store.consent_on_file("alice").in_force
    assert consent is not None
    await service.save_thread(consent.consent_id)
    await anyio.to_thread.run_sync(reviews_in_chinese, person)
    profile = service.store.read_profile("alice")
    assert profile is not None
    assert (profile.language_preference, profile.research_depth) == ("zh", "quick")
    assert profile.user_focus_reason is None
    assert service.store.list_threads("alice")[0].consent_blocked
    await anyio.to_thread.run_sync(downloads_and_revokes, person, tmp_path / "downloads" / "alice.zip")
    assert service.store.consent_state("alice") == "revoked"
    assert person.forbidden() == []


def signs_in(person: Person, token: str) -> None:
    person.open("settings")
    assert person.browser.title.startswith(EN["sign_in"]["title"])
    person.field(EN["sign_in"]["token"]).send_keys(token)
    person.press(EN["sign_in"]["submit"])
    assert person.sees(EN["consent"]["none"])
    cookies = {each["name"]: each for each in person.browser.get_cookies()}
    session = cookies["memfin_session"]
    assert (session["httpOnly"], session["sameSite"]) == (True, "Strict")


def consents(person: Person) -> None:
    person.follow(EN["nav_consent"])
    for scope in ("create_task", "save_to_profile", "save_to_thread"):
        person.field(EN["scopes"][scope]["name"]).click()
    Select(person.field(EN["fields"]["language_preference"])).select_by_visible_text(EN["values"]["zh"])
    Select(person.field(EN["fields"]["research_depth"])).select_by_visible_text(EN["values"]["deep"])
    person.field(EN["fields"]["user_focus_reason"]).send_keys("someone@example.com")
    person.press(EN["consent"]["submit"])
    assert person.sees(EN["problems"]["sensitive_input"])
    field = person.field(EN["fields"]["user_focus_reason"])
    assert field.get_attribute("value") == "someone@example.com"
    field.clear()
    field.send_keys("半导体周期")
    person.press(EN["consent"]["submit"])
    assert person.sees(EN["done"]["consent"])


def reviews_in_chinese(person: Person) -> None:
    person.follow("中文")
    assert person.browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "zh-Hans"
    person.open("settings")
    Select(person.field(ZH["fields"]["research_depth"])).select_by_visible_text(ZH["values"]["quick"])
    person.press(ZH["settings"]["change"].format(name=ZH["fields"]["research_depth"]))
    assert person.sees(ZH["done"]["changed"])
    person.press(ZH["settings"]["remove"].format(name=ZH["fields"]["user_focus_reason"]))
    assert person.sees(ZH["done"]["deleted"])
    person.press(ZH["settings"]["forget"].format(name="光伏产业链"))
    assert person.sees(ZH["done"]["forgotten"])


def downloads_and_revokes(person: Person, archive: Path) -> None:
    person.browser.find_element(By.ID, "download").click()
    WebDriverWait(person.browser, 60).until(lambda _: archive.exists() and zipfile.is_zipfile(archive))
    if folder := os.environ.get("TESTS_SCREENSHOTS"):
        person.browser.set_window_size(900, 1700)
        person.browser.save_screenshot(f"{folder}/settings.png")
    person.field(ZH["settings"]["revoke_confirm"]).click()
    person.press(ZH["settings"]["revoke"])
    assert person.sees(ZH["done"]["revoked"])
    person.press(ZH["sign_out"])
    person.open("settings")
    assert person.browser.title.startswith(ZH["sign_in"]["title"])
