"""Chromium without a window, for tests of pages.

Starting one costs seconds of a processor: a browser that a test is done with serves the next one, emptied.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import pytest
from selenium import webdriver

CHROMIUM = os.environ.get("TESTS_CHROMIUM") or shutil.which("chromium")
DRIVER = os.environ.get("TESTS_CHROMEDRIVER") or shutil.which("chromedriver")

SIZE: Final = (1200, 900)
"""Width and height of the window that a test begins with."""

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs Debian's chromium and chromium-driver (or TESTS_CHROMIUM and TESTS_CHROMEDRIVER)",
)


class Kept(NamedTuple):
    """A browser and the folder of its profile."""

    driver: webdriver.Chrome
    profile: Path


WINDOW: Final = (800, 600)
"""Width and height of the window that a test begins with."""

KEPT: Final[dict[bool, Kept]] = {}
"""The browsers that no test uses, by their ``network_log``."""


@contextmanager
def chromium(folder: Path, *, javascript: bool, network_log: bool = False) -> Iterator[webdriver.Chrome]:
    """Give a browser without cookies and caches, with downloads below a folder.

    With ``network_log`` its log "performance" has every request.
    """
    kept = KEPT.pop(network_log, None) or start(network_log=network_log)
    try:
        kept.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not javascript})
        downloads = {"behavior": "allow", "downloadPath": str(folder / "downloads")}
        kept.driver.execute_cdp_cmd("Browser.setDownloadBehavior", downloads)
        kept.driver.set_window_size(*WINDOW)
        yield kept.driver
        empty(kept.driver)
    except BaseException:
        end(kept)
        raise
    if network_log in KEPT:
        end(kept)  # a test had two
    else:
        KEPT[network_log] = kept


def start(*, network_log: bool) -> Kept:
    """Start a browser with a profile of its own."""
    profile = Path(tempfile.mkdtemp(prefix="chromium"))
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en"):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={profile}")
    if network_log:
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    return Kept(driver, profile)


def empty(driver: webdriver.Chrome) -> None:
    """Take from a browser what a test has left in it: pages, cookies, stores, emulated media, logs."""
    first, *others = driver.window_handles
    for window in others:
        driver.switch_to.window(window)
        driver.close()
    driver.switch_to.window(first)
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(driver.current_url))
    driver.get("about:blank")
    driver.set_window_size(*SIZE)
    for command, words in (
        ("Network.clearBrowserCookies", {}),
        ("Network.clearBrowserCache", {}),
        ("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"}),
        ("Emulation.setEmulatedMedia", {"media": "", "features": []}),
        ("Emulation.clearDeviceMetricsOverride", {}),
    ):
        driver.execute_cdp_cmd(command, words)
    for log in driver.log_types:
        driver.get_log(log)  # type: ignore[no-untyped-call]


def end(browser: Kept) -> None:
    """End a browser and remove its profile."""
    browser.driver.quit()
    shutil.rmtree(browser.profile, ignore_errors=True)


def end_kept() -> None:
    """End the browsers that are kept."""
    while KEPT:
        end(KEPT.popitem()[1])
