"""The viewer in a real browser: keys, policy, width."""

import time
from functools import partial
from operator import ne
from pathlib import Path
from urllib.parse import quote

import anyio.to_thread
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.web.browsers import chromium, needs_chromium
from tests.web.live_runs import HOSTILE, SteppedRun, stepped_run
from tests.web.view_runs import Run, viewing, write_various

pytestmark = needs_chromium


async def test_keys_step_through_turns_and_dialogues_without_a_word_on_the_console(tmp_path: Path) -> None:
    run = write_various(tmp_path / "runs" / "r", dialogs=3)
    async with viewing(tmp_path / "runs", tmp_path) as viewer:
        await anyio.to_thread.run_sync(steps, tmp_path, viewer.url, run)


def steps(folder: Path, url: str, run: Run) -> None:
    first, second, third = (f"/runs/r/dialogs/{quote(each.dialog_id, safe='')}" for each in run.traces)
    with chromium(folder, javascript=True) as browser:
        browser.get(f"{url}{second}")
        for keys, place in (
            *(("j", f"{second}#t1"), ("jjk", f"{second}#t2"), ("p", f"{first}#t1"), ("k", f"{first}#t1")),
            *(("nn", f"{third}#t1"), ("jjjjjjjj", f"{third}#t9"), ("jn", f"{third}#t9")),
        ):
            press(browser, keys, url + place)
        browser.get(f"{url}{first}?failed=answer")
        failed = [
            (address, turn.turn_pair_id)
            for address, dialog in zip((first, second, third), run.traces, strict=True)
            for turn in dialog.turns
            if turn.turn_status != "ok"
        ]
        assert len({address for address, _ in failed}) > 1
        start = next(at for at, (address, _) in enumerate(failed) if address != first)
        press(browser, "n", f"{url}{failed[start][0]}?failed=answer#t{failed[start][1]}")
        for address, number in failed[start + 1 :]:
            press(browser, "j", f"{url}{address}?failed=answer#t{number}")
        for path in ("/", "/runs/r", third):
            browser.set_window_size(500, 900)
            browser.get(url + path)
            width = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
            assert width <= 0
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


async def test_a_run_that_goes_on_changes_under_the_eyes_of_a_reader(tmp_path: Path) -> None:
    with stepped_run(tmp_path, dialogs=12) as run:
        await anyio.to_thread.run_sync(until_file, run.path / "run_manifest.json")
        async with viewing(tmp_path / "runs", tmp_path) as viewer:
            await anyio.to_thread.run_sync(watch, tmp_path, viewer.url, run)


def until_file(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.is_file():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def watch(folder: Path, url: str, run: SteppedRun) -> None:
    run.answer(4)
    with chromium(folder, javascript=True) as browser:

        def shows_text(words: str, where: str = ".live") -> None:
            WebDriverWait(browser, 20, ignored_exceptions=[StaleElementReferenceException]).until(
                lambda _: words in browser.find_element(By.CSS_SELECTOR, where).text, words
            )

        browser.get(f"{url}/runs/r")
        shows_text("4 of 12")
        browser.execute_script("document.querySelector('.newest li:last-child a').focus()")
        browser.execute_script("window.same = document.activeElement; scrollTo(0, 300)")
        run.answer(1)
        shows_text("5 of 12")
        shows_text(HOSTILE)
        assert browser.execute_script("return document.activeElement === window.same && same.isConnected")
        assert browser.execute_script("return scrollY > 0")
        browser.find_element(By.CSS_SELECTOR, ".newest a[href$='d0002#t1']").click()
        assert HOSTILE in browser.find_element(By.ID, "t1").text
        browser.get(f"{url}/")
        shows_text("running, 5 of 12", "#runs")
        browser.find_element(By.CSS_SELECTOR, "#runs a").send_keys("")
        run.answer(1)
        shows_text("running, 6 of 12", "#runs")
        assert browser.execute_script("return document.activeElement.matches('#runs a')")
        browser.get(f"{url}/runs/r")
        run.kill()
        shows_text("memfin resume runs/r")
        run.resume()
        shows_text("in progress")
        run.answer(6)
        shows_text("The run has finished.")
        browser.find_element(By.ID, "final").click()
        shows_text("M2", ".cards")
        assert not browser.title.startswith("owned")
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def press(browser: webdriver.Chrome, keys: str, address: str) -> None:
    """Press keys one after the other, and wait until the browser shows an address."""
    for key in keys:
        before = browser.current_url
        ActionChains(browser).send_keys(key).perform()
        if key in "np" and before != address:
            gone = partial(ne, before)
            WebDriverWait(browser, 20).until(lambda _, gone=gone: gone(shows(browser)))  # type: ignore[misc]
    WebDriverWait(browser, 20).until(lambda _: shows(browser) == address, address)


def shows(browser: webdriver.Chrome) -> str:
    """Return the address of the page, or that of the page before until this one is complete."""
    script = "return document.readyState == 'complete' ? location.href : document.referrer"
    shown: str = browser.execute_script(script)
    return shown
