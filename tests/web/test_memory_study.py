"""A user study without users: twelve tasks on the pages, done in chromium by what a person reads.

Links, fields and buttons are found by their visible words; among several with the same words by the words
of the entry that they belong to.
"""

import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio.from_thread
import anyio.to_thread
import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import Select, WebDriverWait

from memfin.web.memory.pages.texts import texts
from tests.memory.memory_disks import tree
from tests.support import LONG
from tests.web.browsers import chromium, needs_chromium
from tests.web.memory_service import FEEDBACK, Service, serving

VARIANTS = [False, True] if LONG else [False]
"""With JavaScript, too, in a long run; the pages have none, and forbid it."""

LANGUAGES = [("en", "en"), ("zh", "zh")] if LONG else [("en", "zh")]
"""Languages of the first and of the second half of the tasks; pages load slowly, thirty times in a study."""

WORDS: Final = {
    "en": {
        "language": "English",
        "leverage": "never any leverage",
        "horizon": "five years",
        "thread": "Solar industry",
        "kept": "a third in bond funds",
        "comment": "too long",
    },
    "zh": {
        "language": "中文",
        "leverage": "绝不使用杠杆",
        "horizon": "五年",
        "thread": "光伏产业链",
        "kept": "三分之一是债券基金",
        "comment": "篇幅太长",
    },
}
"""What the person of each language writes."""

pytestmark = needs_chromium


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with serving(tmp_path / "data") as running:
        yield running


@pytest.fixture(params=VARIANTS, ids=["javascript" if each else "no-javascript" for each in VARIANTS])
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path, javascript=request.param) as driver:
        yield driver


class Reader:
    """A person at the pages, who knows nothing but the words on them."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def sees(self, *words: str) -> bool:
        shown = self.browser.find_element(By.TAG_NAME, "body").text
        return all(each in shown for each in words)

    def field(self, label: str) -> WebElement:
        """Return the field under a label."""
        found = self.browser.find_element(By.XPATH, f"//label[starts-with(normalize-space(), '{label}')]")
        return self.browser.find_element(By.ID, str(found.get_attribute("for")))

    def write(self, label: str, words: str) -> None:
        field = self.field(label)
        field.clear()
        field.send_keys(words)

    def choose(self, label: str, option: str) -> None:
        Select(self.field(label)).select_by_visible_text(option)

    def press(self, words: str, entry: str | None = None, *, leaves: bool = True) -> None:
        """Press what has these words, in the entry of a list with those; wait for the next page."""
        place = f"//li[contains(normalize-space(), '{entry}')]" if entry else ""
        path = f"{place}//*[self::a or self::button or self::summary][normalize-space()='{words}']"
        shown = [each for each in self.browser.find_elements(By.XPATH, path) if each.is_displayed()]
        assert shown, f"nothing to press: {words}"
        before = self.browser.find_element(By.TAG_NAME, "html")
        shown[0].click()
        if leaves:
            # Asked in the instant between two pages, chromedriver answers with an "inspector error".
            gone = WebDriverWait(self.browser, 60, 0.05, ignored_exceptions=[WebDriverException])
            gone.until(staleness_of(before))


class Study:
    """The twelve tasks of one person; what a program of the host does in between is asked of the service."""

    def __init__(self, browser: webdriver.Chrome, service: Service, language: str, folder: Path) -> None:
        self.reader = Reader(browser)
        self.service = service
        self.t: Any = texts(cast("Any", language))
        self.said = WORDS[language]
        self.folder = folder

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = anyio.from_thread.run(lambda: self.service.ask(method, path, body))
        assert answer.status in {200, 201}, answer
        return answer.json

    def begin(self) -> None:
        self.reader.browser.get(f"{self.service.url}/memory/")
        if not self.reader.sees(self.t["sign_in"]["title"]):
            self.reader.press(self.said["language"])
        self.reader.write(self.t["sign_in"]["token"], self.service.tokens["alice"])
        self.reader.press(self.t["sign_in"]["submit"])
        cookies = {each["name"]: each for each in self.reader.browser.get_cookies()}
        assert (cookies["memfin_session"]["httpOnly"], cookies["memfin_session"]["sameSite"]) == (
            True,
            "Strict",
        )
        assert self.reader.sees("alice")

    def change_language(self, language: str) -> None:
        """I go on in another language."""
        if not self.reader.sees(texts(cast("Any", language))["nav_remembered"]):
            self.reader.press(WORDS[language]["language"])
        self.t = texts(cast("Any", language))

    def give_consent(self) -> None:
        """I want to be remembered: I allow tasks, my settings and threads, and choose short answers."""
        reader, t = self.reader, self.t
        assert reader.sees(t["consent"]["title"], t["consent"]["none"])  # where a newcomer arrives
        for scope in ("create_task", "save_to_profile", "save_to_thread"):
            reader.field(t["scopes"][scope]["name"]).click()
        reader.choose(t["fields"]["research_depth"], t["values"]["quick"])
        reader.press(t["consent"]["submit"])
        assert reader.sees(t["done"]["consent"])

    def save_a_limit(self) -> None:
        """I never use leverage, and that shall be known from now on; what I must not write is refused."""
        reader, t = self.reader, self.t
        reader.write(t["fields"]["constraints"], f"{self.said['leverage']}\nsomeone@example.com")
        reader.write(t["fields"]["time_horizon"], "3")
        reader.press(t["save"])
        assert reader.sees(t["problems"]["sensitive_input"])
        assert reader.field(t["fields"]["time_horizon"]).get_attribute("value") == "3"  # nothing is lost
        reader.write(t["fields"]["constraints"], self.said["leverage"])
        reader.press(t["save"])
        assert reader.sees(t["done"]["saved"])

    def see_it(self) -> None:
        """I look at what is saved, on another day."""
        self.reader.press(self.t["nav_remembered"])
        self.reader.press(self.t["nav_settings"])
        saved = self.reader.field(self.t["fields"]["constraints"]).get_attribute("value")
        assert saved == self.said["leverage"]

    def see_it_used(self) -> None:
        """I start a task, and my limit is in its prompt."""
        task = self.ask("POST", "/api/tasks", {"route": "pre_execution", "prompt": "?"})
        assert self.said["leverage"] in task["user_context"]

    def change_the_horizon(self) -> None:
        """I change my time horizon and nothing else."""
        reader, t = self.reader, self.t
        reader.write(t["fields"]["time_horizon"], self.said["horizon"])
        reader.press(t["save"])
        assert reader.sees(t["done"]["saved"])
        assert reader.field(t["fields"]["time_horizon"]).get_attribute("value") == self.said["horizon"]
        assert reader.field(t["fields"]["constraints"]).get_attribute("value") == self.said["leverage"]

    def find_what_a_thread_keeps(self) -> None:
        """I want to know what is kept with the topic that I follow."""
        consent = self.service.store.consent_on_file("alice").in_force
        assert consent is not None
        body = {
            "title": self.said["thread"],
            "cognition_object": {},
            "save_user_context": True,
            "consent_ack": {"consent_id": consent.consent_id},
            "user_stated_position_context": self.said["kept"],
        }
        self.ask("POST", "/api/snapshots/snap_1/save-as-thread", body)
        self.reader.press(self.t["nav_remembered"])
        assert not self.reader.sees(self.said["kept"])
        self.reader.press(self.t["remembered"]["contexts"].format(number=1), leaves=False)
        assert self.reader.sees(self.said["kept"])

    def forget_it(self) -> None:
        """It shall not be used any more."""
        reader, t = self.reader, self.t
        reader.press(t["remembered"]["forget"])
        assert reader.sees(self.said["thread"], self.said["kept"], t["confirmations"]["forget"]["text"])
        reader.press(t["confirmations"]["forget"]["button"])
        assert reader.sees(t["done"]["forget"], t["remembered"]["unused"])
        assert b"".join(tree(self.service.store.root).values()).count(self.said["kept"].encode()) == 1

    def delete_the_thread(self) -> None:
        """It shall be gone."""
        reader, t = self.reader, self.t
        reader.press(t["delete"], self.said["thread"])
        reader.press(t["keep"])
        assert reader.sees(self.said["thread"])
        reader.press(t["delete"], self.said["thread"])
        reader.press(t["confirmations"]["thread"]["button"])
        assert reader.sees(t["done"]["thread"])
        assert not reader.sees(self.said["thread"])
        assert self.said["kept"].encode() not in b"".join(tree(self.service.store.root).values())

    def delete_feedback(self) -> None:
        """I see the feedback that I gave yesterday and delete it."""
        reader, t = self.reader, self.t
        self.ask("POST", "/api/feedback", FEEDBACK | {"comment": self.said["comment"]})
        reader.press(t["nav_remembered"])
        assert reader.sees(self.said["comment"])
        reader.press(t["delete"], self.said["comment"])
        assert reader.sees(self.said["comment"])
        reader.press(t["confirmations"]["feedback"]["button"])
        assert reader.sees(t["done"]["feedback"])
        assert not reader.sees(self.said["comment"])

    def take_one_permission_back(self) -> None:
        """Nothing more shall be saved with threads."""
        reader, t = self.reader, self.t
        reader.press(t["nav_settings"])
        reader.press(t["settings"]["take_back"], t["scopes"]["save_to_thread"]["name"])
        assert reader.sees(t["confirmations"]["scope"]["save_to_thread"])
        reader.press(t["confirmations"]["scope"]["button"])
        assert reader.sees(t["done"]["scope"], t["settings"]["scope_no"])
        consent = self.service.store.consent_on_file("alice").in_force
        assert consent is not None
        assert (consent.scopes.save_to_thread, consent.scopes.save_to_profile) == (False, True)

    def download_everything(self) -> None:
        """I want a copy of everything."""
        self.reader.press(self.t["settings"]["export_link"], leaves=False)
        archive = self.folder / "downloads" / "alice.zip"
        waiting = WebDriverWait(self.reader.browser, 60)
        waiting.until(lambda _: archive.exists() and zipfile.is_zipfile(archive))

    def leave(self) -> None:
        """I leave for good."""
        reader, t = self.reader, self.t
        reader.press(t["settings"]["account"])
        assert reader.sees(t["account"]["first"], t["settings"]["export_link"])
        label = t["account"]["type"].format(user="alice")
        reader.write(label, "bob")
        reader.press(t["account"]["submit"])
        assert reader.sees(t["problems"]["other_user_id"])
        reader.write(label, "alice")
        reader.press(t["account"]["submit"])
        assert reader.sees(t["account"]["gone"])
        assert [name for name in tree(self.service.store.root) if "alice" in name] == [
            "consents/_deleted/alice.yaml"
        ]
        reader.browser.get(f"{self.service.url}/memory/settings")
        assert reader.sees(t["sign_in"]["title"])


@pytest.mark.parametrize(("language", "then"), LANGUAGES)
async def test_twelve_tasks_are_done_by_reading_alone(
    service: Service, browser: webdriver.Chrome, tmp_path: Path, language: str, then: str
) -> None:
    study = Study(browser, service, language, tmp_path)
    tasks: list[Callable[[], None]] = [
        study.give_consent,
        study.save_a_limit,
        study.see_it,
        study.see_it_used,
        study.change_the_horizon,
        partial(study.change_language, then),
        study.find_what_a_thread_keeps,
        study.forget_it,
        study.delete_the_thread,
        study.delete_feedback,
        study.take_one_permission_back,
        study.download_everything,
        study.leave,
    ]
    for task in (study.begin, *tasks):
        await anyio.to_thread.run_sync(task)
    logged: list[dict[str, str]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert not [each for each in logged if "Content Security Policy" in each["message"]]
