"""Figures of a run's page: every number leads to exactly the turns that it counts."""

import re
from collections.abc import AsyncIterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import anyio.to_thread
import pytest
from click.testing import CliRunner
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from memfin.cli.main import memfin
from memfin.report.dialog_report import load_dialog_report
from memfin.report.model import Table
from tests.web.browsers import chromium, needs_chromium
from tests.web.view_runs import Viewer, viewing, write_various


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the run of the sample, and one with scores of a judge."""
    root = tmp_path_factory.mktemp("runs")
    words = ("run", "--runs-dir", str(root), "--run-id", "real", "--quiet")
    assert CliRunner().invoke(memfin, words).exit_code == 0
    write_various(root / "made")
    (root / "made" / "config.json").unlink()  # which names the heuristic judge
    return root


@pytest.fixture
async def viewer(runs: Path, tmp_path: Path) -> AsyncIterator[Viewer]:
    async with viewing(runs, tmp_path) as running:
        yield running


class Links(HTMLParser):
    """Collects the addresses of lists of turns with what they are said to have, and the texts of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, int, str]] = []
        self.tables: list[list[list[str]]] = []
        self._unit = ""
        self._link = ""
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "svg":
            self._unit = values.get("aria-label", "").rpartition(", ")[2]
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True
        elif tag == "a" and re.search(r"/turns(\?|$)", address := values.get("href", "")):
            self._link = address
            if count := re.fullmatch(r"([\d,]+) turns?", values.get("title", "")):
                self._add(count[1], "turns")
            elif count := re.search(r": ([\d,]+)$", values.get("aria-label", "")):
                self._add(count[1], self._unit)

    def _add(self, count: str, unit: str) -> None:
        self.found.append((self._link, int(count.replace(",", "")), unit))
        self._link = ""

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")
        if tag == "a":
            assert not self._link, "a link without a number"

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.tables[-1][-1][-1] += data.strip()
        if self._link and (count := re.fullmatch(r"(?:fall short: )?([\d,]+)", data.strip())):
            self._add(count[1], "turns")


@pytest.mark.parametrize("run", ["real", "made"])
async def test_every_number_leads_to_the_turns_that_it_counts(viewer: Viewer, run: str) -> None:
    page = Links()
    page.feed((await viewer.get(f"/runs/{run}")).text)
    kinds = {name for address, _, _ in page.found for name in re.findall(r"[?&](\w+)=", unescape(address))}
    assert {"metric", "failed", "scenario", "difficulty", "status", "value", "key", "missed"} <= kinds
    assert {"latency", "score"} <= kinds or run == "real"
    assert {unit for _, _, unit in page.found} == {"turns", "dialogues"}
    for address, count, unit in set(page.found):
        found = (await viewer.get(f"{address}&page=99")).text  # without the turns, which take time to draw
        totals = re.search(
            r'<h2 id="turns">([\d,]+) turns?</h2>(?:\s*<p class="small">in ([\d,]+) dialogues?<)?', found
        )
        assert totals is not None
        assert int((totals[1 + (unit == "dialogues")] or "0").replace(",", "")) == count, address


async def test_tables_have_the_values_of_the_report(viewer: Viewer, runs: Path) -> None:
    page = Links()
    page.feed((await viewer.get("/runs/real")).text)
    report = {
        block.title: block
        for section in load_dialog_report(runs / "real").sections
        for block in section.blocks
        if isinstance(block, Table)
    }
    for shown, title in zip(page.tables, ("By scenario", "By difficulty"), strict=False):
        expected = [
            dict(zip(report[title].headings, (cell.text for cell in row), strict=True))
            for row in report[title].rows
        ]
        assert {"M1 Key coverage", "M2 Profile score", "M5 Rubric hit rate"} < set(shown[0])
        columns = [{name: row[name] for name in shown[0]} for row in expected]
        assert [dict(zip(shown[0], row, strict=True)) for row in shown[1:]] == columns


async def test_values_in_the_list_of_runs_lead_to_their_turns(viewer: Viewer) -> None:
    page = (await viewer.get("/")).text
    links = re.findall(r'<dd><strong><a href="(/runs/real/turns\?[^"]+)">', page)
    assert len(links) == 5
    for address in links:
        assert re.search(r'<h2 id="turns">\d+ turns</h2>', (await viewer.get(address)).text)


async def test_bars_of_scores_and_latencies_cover_all_answered_turns(viewer: Viewer) -> None:
    page = Links()
    page.feed((await viewer.get("/runs/made")).text)
    answered = re.search(r">answered</bdi> <span>(\d+)<", (await viewer.get("/runs/made")).text)
    assert answered is not None
    latencies = [count for address, count, _ in page.found if "latency=" in address]
    assert sum(latencies) == int(answered[1])
    assert len(latencies) > 5
    assert len([address for address, _, _ in page.found if "score=" in address]) == 2


@needs_chromium
async def test_bars_are_reached_and_followed_with_the_keyboard(viewer: Viewer, tmp_path: Path) -> None:
    def follow() -> tuple[str, str, str, object]:
        with chromium(tmp_path, javascript=False) as browser:
            browser.get(f"{viewer.url}/runs/made")
            last = browser.find_elements(By.CSS_SELECTOR, ".figures td a")[-1]
            last.send_keys(Keys.TAB)
            bar = browser.switch_to.active_element
            words = bar.get_attribute("aria-label") or ""
            bar.send_keys(Keys.ENTER)
            found = browser.find_element(By.ID, "turns").text
            log = browser.get_log("browser")  # type: ignore[no-untyped-call]
            return words, found, browser.current_url, log

    words, found, address, log = await anyio.to_thread.run_sync(follow)
    assert address.endswith("/turns?metric=m5_explainability.judge_score_mean&score=2..3")
    assert (words, log) == (f"2 to below 3: {found.removesuffix(' turns')}", [])
