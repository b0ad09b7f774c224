"""Pages and reports without a serious finding of axe-core, in light and dark, in English and Chinese."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

import anyio.to_thread
import pytest
from selenium import webdriver

from memfin.language import Language, use_language
from memfin.report import render_html_report, write_reports
from memfin.report.comparison import compare_runs
from memfin.report.comparison_report import comparison_report
from memfin.report.reader import label_files
from memfin.report.signoff import render_signoff
from memfin.validity.evidence import read_readings
from memfin.web.memory.pages.texts import texts
from tests.report.test_soak_report import write_soak as write_soak_of_epochs
from tests.support import LONG
from tests.web.browsers import chromium, needs_chromium
from tests.web.label_runs import Form, Labelling, labelling, write_label_run
from tests.web.memory_service import FEEDBACK, serving
from tests.web.test_memory_study import Reader
from tests.web.view_runs import viewing, write_benchmark, write_soak, write_various

AXE = os.environ.get("TESTS_AXE", "")
pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not AXE, reason="needs axe.min.js of axe-core (TESTS_AXE; make test-accessibility)"),
]

PATHS = ("/", "/none", f"/runs/r/turns?q={quote('第3')}", "/runs/r/turns?label=nothing")
"""Pages of the viewer that a crawl does not find, or from which it starts."""

MEMORY_PATHS = ("settings", "remembered", "consent", "revoke", "account/delete", "goodbye", "none")
"""Pages of the memory service; the first one leads to the sign-in."""

# Every template, colour and language is in one of the two; a long run has all four.
LOOKS: list[tuple[str, Language]] = [("light", "en"), ("dark", "zh"), ("light", "zh"), ("dark", "en")]
if not LONG:
    del LOOKS[2:]

FINDINGS = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"]}).then(
  found => done(found.violations.filter(each => ["serious", "critical"].includes(each.impact)).flatMap(
    each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))));
"""


def findings(browser: webdriver.Chrome) -> list[str]:
    """Return the serious and critical findings on the page that is open."""
    browser.execute_script(Path(AXE).read_text("utf-8"))
    found: list[str] = browser.execute_async_script(FINDINGS)
    return [f"{browser.current_url}: {each}" for each in found]


@contextmanager
def looking(folder: Path) -> Iterator[tuple[webdriver.Chrome, Callable[[str], None]]]:
    """Give a browser, and a function that has it prefer light or dark."""
    with chromium(folder, javascript=True) as browser:

        def prefer(scheme: str) -> None:
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

        yield browser, prefer


def kind(address: str) -> str:
    """Return what the addresses of pages of one route have in common, of those below the same run."""
    path, query = urlsplit(address)[2:4]
    parts = [
        part if at < 3 or re.fullmatch("[a-z-]+", part) else "*" for at, part in enumerate(path.split("/"))
    ]
    return "/".join(parts) + ("?" if query else "")


def crawl(folder: Path, url: str) -> list[str]:
    """Open one page of each kind, in each look, and return what is found on them."""
    found: list[str] = []
    with looking(folder) as (browser, prefer):
        for scheme, language in LOOKS:
            prefer(scheme)
            browser.get(f"{url}/?lang={language}")
            queue, seen = [url + path for path in PATHS], set[str]()
            for address in queue:
                if kind(address) in seen:
                    continue
                seen.add(kind(address))
                browser.get(address)
                found += findings(browser)
                hrefs = "return [...document.links].filter(a => !a.download).map(a => a.href.split('#')[0])"
                links: list[str] = browser.execute_script(hrefs)
                queue += [each for each in links if each.startswith(f"{url}/") and "lang=" not in each]
            assert {"/", "/none", "/runs/b", "/runs/s", "/runs/r/dialogs/*", "/runs/r/turns?"} <= seen
    return found


async def test_pages_of_the_viewer(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_various(runs / "r")
    write_benchmark(runs / "b", 3)
    write_soak(runs / "s")
    async with viewing(runs, tmp_path) as viewer:
        assert await anyio.to_thread.run_sync(crawl, tmp_path, viewer.url) == []


async def test_reports(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_various(runs / "r", dialogs=3, turns=4)
    write_benchmark(runs / "b", 3)
    write_soak_of_epochs(runs / "s", 12)
    pair = runs / "r", tmp_path / "other"
    write_various(pair[1], dialogs=3, turns=4, seed=8)
    compared, comparison = compare_runs(*pair), tmp_path / "comparison.html"

    def look() -> Iterator[str]:
        with looking(tmp_path) as (browser, prefer):
            for scheme, language in LOOKS:
                prefer(scheme)
                with use_language(language):
                    comparison.write_text(render_html_report(comparison_report([compared], [pair])), "utf-8")
                for run in sorted(runs.iterdir()):
                    write_reports(run, language=language)
                    browser.get((run / "report.html").as_uri())
                    yield from findings(browser)
                browser.get(comparison.as_uri())
                yield from findings(browser)

    assert await anyio.to_thread.run_sync(lambda: list(look())) == []


async def test_pages_of_the_memory_service(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as service:
        await service.save_thread(await service.grant())
        service.store.begin_task("alice", "snapshot")
        for rating in ("thumbs_up", "thumbs_down"):
            await service.ask("POST", "/api/feedback", FEEDBACK | {"rating": rating})
        found = await anyio.to_thread.run_sync(
            partial(memory_pages, tmp_path, service.url, service.tokens["alice"])
        )
    assert found == []


def memory_pages(folder: Path, url: str, token: str) -> list[str]:
    """Open the pages of the memory service before and after a sign-in; return what is found on them."""
    found: list[str] = []
    with looking(folder) as (browser, prefer):
        reader, words = Reader(browser), texts("en")["sign_in"]
        for signed_in in (False, True):
            for scheme, language in LOOKS:
                prefer(scheme)
                for path in MEMORY_PATHS if signed_in else MEMORY_PATHS[:1]:
                    browser.get(f"{url}/memory/{path}?lang={language}")
                    found += findings(browser)
            if not signed_in:
                browser.get(f"{url}/memory/settings?lang=en")
                reader.write(words["token"], token)
                reader.press(words["submit"])
    return found


async def test_pages_of_labels_and_sign_off(tmp_path: Path) -> None:
    run = write_label_run(tmp_path / "runs" / "r")
    async with labelling(run, tmp_path / "spare", number=6, readers=2) as pages:
        first, second, third, *_ = pages.places()
        for place, reader, label in ((first, "ann", "1"), (first, "bob", "3"), (second, "ann", "1")):
            form = Form((await pages.get(place, reader)).text).fields
            sent = await pages.post(place, [*form, ("compliance", label)], reader)
            assert sent.status == 303, sent.text
        paths = ["", first, second, third, "/agreement", first.replace("turns", "adjudicate"), "/none"]
        assert await anyio.to_thread.run_sync(label_pages, tmp_path, pages, run, paths) == []


def label_pages(folder: Path, pages: Labelling, run: Path, paths: list[str]) -> list[str]:
    """Open the pages of labels before and after a name is given, and the sign-off page of the run."""
    found: list[str] = []
    page = folder / "signoff.html"
    readings = read_readings(run, label_files(run), None)
    with looking(folder) as (browser, prefer):
        for scheme, language in LOOKS:
            prefer(scheme)
            browser.get(f"{pages.url}/?lang={language}")
            browser.delete_cookie("memfin_label_reader")
            browser.get(f"{pages.url}/")
            found += findings(browser)
            browser.add_cookie({"name": "memfin_label_reader", "value": "ann"})
            for path in paths:
                browser.get(f"{pages.url}{path}")
                found += findings(browser)
            with use_language(language):
                page.write_text(render_signoff(run, readings, "1"), "utf-8")
            browser.get(page.as_uri())
            found += findings(browser)
    return found
