"""Chromium without a window, for tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

CHROMIUM = os.environ.get("TESTS_CHROMIUM") or shutil.which("chromium")
DRIVER = os.environ.get("TESTS_CHROMEDRIVER") or shutil.which("chromedriver")

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs Debian's chromium and chromium-driver (or TESTS_CHROMIUM and TESTS_CHROMEDRIVER)",
)


@contextmanager
def chromium(folder: Path, *, javascript: bool, network_log: bool = False) -> Iterator[webdriver.Chrome]:
    """Start a browser with a profile and downloads of its own below a folder.

    With ``network_log`` its log "performance" has every request.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en"):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    if network_log:
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    preferences: dict[str, Any] = {"download.default_directory": str(folder / "downloads")}
    if not javascript:
        preferences["profile.managed_default_content_settings.javascript"] = 2
    options.add_experimental_option("prefs", preferences)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()
