"""Static pages of the viewer: links, file names, replacement of earlier exports, a browser on files."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import msgspec
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import (
    presence_of_element_located,
    staleness_of,
    title_is,
    url_matches,
)
from selenium.webdriver.support.ui import WebDriverWait

from memfin.contracts.settings import SoakLimits
from memfin.contracts.soak import SoakSummary
from memfin.errors import UsageError
from memfin.web.view.export import MARKER, Export, export_pages, replace_directory
from memfin.web.view.index import PAGE
from tests.report.report_run_factory import row, trace, turn, write_run
from tests.web.browsers import chromium, needs_chromium
from tests.web.test_view_pages import HOSTILE, Strict
from tests.web.view_runs import viewing, write_various

IDS = ("..", "Case", "case", "nul", "~", "index.html", "d?page=2", "x" * 300, "客户/一", HOSTILE, "a b")


class Site(NamedTuple):
    """An export and the runs that it was made of."""

    runs: Path
    out: Path
    export: Export


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors = {""}
        self.text = path.read_text("utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "form"
        for name, value in attrs:
            assert not re.match("hx-|sse-|on|action|style", name), name
            if name == "id":
                self.anchors.add(value or "")
            if name in ("href", "src"):
                self.links.append((tag, value or ""))


def write_soak(directory: Path) -> None:
    directory.mkdir(parents=True)
    moment = "2025-01-01T00:00:00Z"
    soak = SoakSummary(
        run_id="s",
        state="running",
        started_at=moment,
        updated_at=moment,
        memfin_version="1",
        limits=SoakLimits(),
    )
    (directory / "soak_summary.json").write_bytes(msgspec.json.encode(soak))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    runs = folder / "runs"
    write_various(runs / "r", dialogs=13)
    turns = [turn(1), turn(2)]
    traces = [trace(name, turns, dataset_index=at, scenario_type=name) for at, name in enumerate(IDS)]
    write_run(runs / "Con", traces, [row(name, number) for name in IDS for number in (1, 2)])
    write_run(runs / "unreadable", [trace("d", [turn()])])
    (runs / "unreadable" / "dialog_trace.jsonl").write_bytes(b"\x1f\x8b")
    write_run(runs / "no_summary", [trace("d", [turn()])])
    (runs / "no_summary" / "metrics_summary.json").write_bytes(b"{")
    for number in range(110):
        write_soak(runs / f"s.{number}")
    return Site(runs, folder / "out", export_pages(runs, folder / "out"))


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def read(site: Site) -> dict[Path, Page]:
    return {path.resolve(): Page(path) for path in site.out.rglob("*.html")}


def test_every_link_leads_to_a_file_and_an_anchor(site: Site) -> None:
    pages = read(site)
    reached = {(site.out / "index.html").resolve()}
    for path, page in pages.items():
        assert "Content-Security-Policy\" content=\"default-src 'none'; " in page.text
        assert 'class="language"' not in page.text
        for tag, link in page.links:
            address = urlsplit(link)
            assert (address.scheme, address.netloc, address.query) == ("", "", ""), link
            assert not link.startswith("/")
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            assert target.is_relative_to(site.out.resolve())
            assert target.is_file(), link
            if tag == "a":
                assert address.fragment in pages[target].anchors, link
            reached.add(target)
    assert {path.resolve() for path in site.out.rglob("*") if path.is_file()} - reached == {
        (site.out / MARKER).resolve()
    }
    assert site.export.pages == len(pages) > 190
    assert site.export.size == sum(map(len, files(site.out).values()))


def test_names_of_files_are_apart_on_any_disk(site: Site) -> None:
    names = [path.relative_to(site.out).as_posix() for path in site.out.rglob("*")]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[a-z0-9_~/.-]{1,200}", name), name
        for part in name.split("/"):
            assert not re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)|[.-]|.*\.$", part), name
    assert len(list((site.out / "runs").glob("con~*/dialogs/*.html"))) == len(IDS)


def plain(text: str) -> str:
    """Return a page without what only a server can answer, and without the addresses of its links."""
    search = r'(<form(?:(?!</form>).)*?)(<a class="to-filters".*?</a>)(.*?</form>)'
    text = re.sub(search, r"\2\1\3", text, flags=re.DOTALL)
    text = re.sub(r'<script src="/htmx.js"[^>]*></script>|\shx-[\w:-]+="[^"]*"', "", text)
    server = r'<form.*?</form>|<a class="language".*?</a>|<meta [^>]*>|\s(href|src)="[^"]*"'
    return re.sub(r"\s+", "", re.sub(server, "", text, flags=re.DOTALL))


async def test_pages_are_those_of_the_server(site: Site, tmp_path: Path) -> None:
    shown = {plain(page.text) for page in read(site).values()}
    paths = [
        "/",
        "/?page=2",
        "/runs/r",
        "/runs/r?page=2",
        "/runs/unreadable",
        "/runs/no_summary",
    ]
    paths += [
        "/runs/r/turns?failed=answer",
        "/runs/r/turns?label=compliant&page=2",
        "/runs/r/turns?rule=vol.may",
    ]
    paths += [f"/runs/Con/dialogs/{quote(name, safe='')}" for name in IDS if name != ".."]
    async with viewing(site.runs, tmp_path) as viewer:
        for path in paths:
            assert plain((await viewer.get(path)).text) in shown, path


def lists(site: Site) -> Iterator[tuple[str, int, set[str]]]:
    """Yield address, count and turns of the lists that the filters of a run lead to."""
    start = site.out / "runs" / "r.html"
    facet = r'<li><a href="([^"]+)"><bdi>[^<]+</bdi> <span>([\d,]+)</span>'
    for link, count in re.findall(facet, start.read_text("utf-8")):
        found: set[str] = set()
        path: Path | None = start.parent / link
        while path:
            text = path.read_text("utf-8")
            turns = re.findall(r'class="where" href="([^"]+)"', text)
            found.update((path.parent / each).resolve().as_posix() for each in turns)
            after = re.search(r'rel="next" href="([^"]+)"', text)
            path = path.parent / after[1] if after else None
        yield link, int(count.replace(",", "")), found


def test_each_filter_lists_all_its_turns(site: Site) -> None:
    found = list(lists(site))
    assert len(found) > 20
    assert max(count for _, count, _ in found) > PAGE
    for link, count, turns in found:
        assert len(turns) == count, link
    assert not (site.out / "runs" / "r" / "turns.html").exists(), "all turns are on the page of the run"
    first = next(link for link, _, _ in found if "label-compliant" in link)
    text = (site.out / "runs" / first).read_text("utf-8")
    facets = text.partition('<aside class="facets"')[2]
    assert re.search(r"<a><bdi>[^<]+</bdi> <span>\d+", facets), "combined filters are counts without a link"
    assert re.search(r'<a href="[^"]+"><bdi>', facets), "another value of the same filter is a link"


def test_nothing_in_a_hostile_trace_runs_or_leaves(site: Site) -> None:
    hostile = [page.text for page in read(site).values() if "alert(1)" in page.text]
    assert len(hostile) > 2
    for text in hostile:
        Strict().feed(re.sub(r'\shref="[^"]*"', "", re.sub(r'src="[./]*view\.js"', 'src="/view.js"', text)))


def test_unreadable_runs_have_the_page_of_the_server_and_are_named(site: Site) -> None:
    assert all(path.startswith("/runs/unreadable") for path in site.export.problems)
    assert "compressed" in site.export.problems["/runs/unreadable"]
    assert "compressed" in (site.out / "runs" / "unreadable.html").read_text("utf-8")
    assert "metrics_summary.json" in (site.out / "runs" / "no_summary.html").read_text("utf-8")


def test_an_earlier_export_is_replaced_wholly_and_other_files_never(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run = site.runs / "no_summary"
    export_pages(run, out, "zh")
    assert 'lang="zh' in (out / "index.html").read_text("utf-8")
    assert "metrics_summary.json" in (out / "index.html").read_text("utf-8"), "a single run is the first page"
    first = files(out)
    (out / "stale.html").write_text("old")
    export_pages(run, out, "zh")
    assert files(out) == first
    (out / MARKER).unlink()
    (tmp_path / "file").write_text("mine")
    for runs, place, reason in (
        (run, out, "has files that are no export"),
        (run, tmp_path / "file", "not a directory"),
        (run, tmp_path / "a" / "b", "there is no directory"),
        (run, site.runs, "the runs are inside"),
        (site.runs, site.runs, "the runs are inside"),
    ):
        with pytest.raises(UsageError, match=f"--export .*: {reason}"):
            export_pages(runs, place)
    assert files(out).keys() == first.keys() - {MARKER}
    assert {path.name for path in tmp_path.iterdir()} == {"out", "file"}


def test_an_interrupted_export_leaves_the_earlier_one(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupt(pages: int, known: int) -> None:
        if pages == 3:
            raise KeyboardInterrupt

    for earlier in (False, True):
        if earlier:
            export_pages(site.runs / "no_summary", out)
        before = files(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            export_pages(site.runs, out, on_page=interrupt)
        assert files(tmp_path) == before
        assert out.exists() == earlier
    with pytest.raises(FileNotFoundError):
        replace_directory(out, tmp_path)  # as if the second of its renames failed
    assert files(tmp_path) == before


@needs_chromium
def test_the_files_open_in_a_browser_without_a_server(site: Site, tmp_path: Path) -> None:
    with chromium(tmp_path, javascript=True) as browser:
        browser.get((site.out / "index.html").as_uri())
        browser.set_window_size(1280, 900)
        assert browser.find_element(By.TAG_NAME, "h1").text == "Runs"
        link = browser.find_element(By.LINK_TEXT, "Next page →")
        link.click()
        WebDriverWait(browser, 20).until(staleness_of(link))
        browser.find_element(By.LINK_TEXT, "MemFin").click()
        browser.find_element(By.LINK_TEXT, "r").click()
        WebDriverWait(browser, 20).until(title_is("r – MemFin"))
        assert browser.find_element(By.CLASS_NAME, "card").value_of_css_property("border-radius") != "0px"
        browser.find_element(By.PARTIAL_LINK_TEXT, "severe violation").click()
        WebDriverWait(browser, 20).until(presence_of_element_located((By.CLASS_NAME, "chosen")))
        link = browser.find_element(By.CLASS_NAME, "where")
        place = urlsplit(link.get_attribute("href") or "").fragment
        link.click()
        WebDriverWait(browser, 20).until(url_matches(rf"^file:.*/dialogs/[^/]+\.html#{place}$"))
        name = browser.title
        ActionChains(browser).send_keys("n").perform()
        WebDriverWait(browser, 20).until_not(title_is(name))
        ActionChains(browser).send_keys("p").perform()
        WebDriverWait(browser, 20).until(title_is(name))
        ActionChains(browser).send_keys("j").perform()
        WebDriverWait(browser, 20).until(url_matches("#t2$"))
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]
