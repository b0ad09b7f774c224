"""Makes the pictures of docs/images in Debian's chromium: ``python scripts/screenshots.py``."""

import base64
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT: Final = Path(__file__).resolve().parents[1]
IMAGES: Final = ROOT / "docs" / "images"
WIDTH: Final = 1080
FILTER: Final = "failed=m4_compliance.severe_violation_rate"
SLOW: Final = """
import itertools, time
from adviser import before

turns = itertools.count()

def reply(text):
    if next(turns) > 48:
        time.sleep(60)
    return before(text)
"""
"""An agent whose run is still in progress when it is looked at."""


def memfin(folder: Path, line: str) -> str:
    """Run a command and return its output."""
    words = [sys.executable, "-m", "memfin", *line.split()]
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout  # noqa: S603


def consent(url: str, token: str) -> None:
    """Give consent to everything but training, and save a profile, as the user of a token."""
    given = {
        "scopes": {
            "create_task": True,
            "save_to_profile": True,
            "save_to_thread": True,
            "training_use_allowed": False,
        },
        "preferences": {"language_preference": "en", "research_depth": "deep"},
    }
    profile = {
        "risk_prompt_preference": "risk_first",
        "user_focus_reason": "the solar industry",
        "research_style": "figures first",
        "user_stated_position_context": "a third in bond funds",
        "time_horizon": "three years",
        "constraints": ["no leverage", "no single shares"],
    }
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    for method, path, body in (("POST", "profile-consent", given), ("PATCH", "profile", profile)):
        address, data = f"{url}/api/users/alice/{path}", json.dumps(body).encode()
        with urlopen(Request(address, data, headers, method=method)):  # noqa: S310
            pass


@contextlib.contextmanager
def served(folder: Path, line: str) -> Iterator[str]:
    """Start a server and give the address that it prints, without a slash at its end."""
    words = [sys.executable, "-m", "memfin", *line.split()]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as service:  # noqa: S603
        assert service.stdout is not None  # noqa: S101
        yield re.findall(r"http\S+", service.stdout.readline())[0].rstrip("/")
        service.terminate()


@contextlib.contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Start chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en"):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def save(driver: webdriver.Chrome, name: str, height: int, start: str = "body") -> None:
    """Save a picture of the page that begins at the element of a selector."""
    metrics = {"width": WIDTH, "height": height, "deviceScaleFactor": 1.25, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    top = driver.execute_script(
        "return document.querySelector(arguments[0]).getBoundingClientRect().top + window.scrollY", start
    )
    clip = {"x": 0, "y": max(0, top - 16), "width": WIDTH, "height": height, "scale": 1}
    picture = {"format": "webp", "quality": 45, "clip": clip, "captureBeyondViewport": True}
    data = driver.execute_cdp_cmd("Page.captureScreenshot", picture)["data"]
    (IMAGES / f"{name}.webp").write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def in_progress(folder: Path) -> Iterator[None]:
    """Start a run that does not end within the block."""
    (folder / "slow.py").write_text(SLOW, "utf-8")
    line = "run --agent slow:reply --run-id slow --workers-dialog 1 --quiet"
    words = [sys.executable, "-m", "memfin", *line.split()]
    with subprocess.Popen(words, cwd=folder) as run:  # noqa: S603
        try:
            yield
        finally:
            run.kill()


def label(driver: webdriver.Chrome, address: str) -> None:
    """Label a turn as a severe violation, and open it again."""
    driver.get(address)
    for choice in ("compliance'][value='3", "contradiction'][value='none", "forbidden'][value='保本保收益"):
        driver.find_element(By.CSS_SELECTOR, f"[name='{choice}']").click()
    driver.find_element(By.CSS_SELECTOR, ".send button").click()
    driver.get(address)


def main() -> None:
    """Evaluate the samples, open what they leave and save pictures of it."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made, browser() as driver:
        folder = Path(made)
        for agent in ("builtin", "echo", "oracle"):
            memfin(folder, f"run --agent {agent} --run-id {agent} --quiet")
        memfin(folder, "soak --epochs 8 --run-id soak --quiet")
        for language, suffix in (("en", ""), ("zh", "-zh")):
            memfin(folder, f"report runs/builtin --lang {language}")
            memfin(folder, f"report runs/soak --lang {language}")
            memfin(folder, f"compare runs/echo runs/builtin --lang {language} --html compare.html")
            for name, page, height in (
                ("report", "runs/builtin/report.html", 760),
                ("comparison", "compare.html", 700),
                ("soak", "runs/soak/report.html", 760),
            ):
                driver.get((folder / page).as_uri())
                save(driver, name + suffix, height, "h2" if name == "comparison" else "body")
        tutorial = (ROOT / "docs" / "compliance-officer.md").read_text("utf-8")
        code = tutorial.split("```python\n")[1].split("```")[0]
        (folder / "adviser.py").write_text(code, "utf-8")
        memfin(folder, "run --agent adviser:before --run-id before --lang zh --quiet")
        driver.get((folder / "runs/before/report.html").as_uri())
        save(driver, "violations-zh", 560, "#worst-turns")
        token = re.findall(r"mft_\S+", memfin(folder, "memory token add alice"))[0]
        with served(folder, "memory serve --port 0") as url:
            consent(url, token)
            driver.get(f"{url}/memory/settings")
            driver.find_element(By.NAME, "token").send_keys(token)
            driver.find_element(By.CSS_SELECTOR, "main button").click()
            save(driver, "memory", 830, ".saved")
        with served(folder, "view --port 0") as url:
            for name, page in (
                ("view-turns", f"turns?{FILTER}"),
                ("view-dialogue", f"dialogs/en-boundary-sure-thing?{FILTER}"),
            ):
                driver.get(f"{url}/runs/oracle/{page}")
                save(driver, name, 760)
            driver.get(f"{url}/compare/dialogs/en-boundary-sure-thing?a=echo&b=builtin")
            save(driver, "view-beside", 760)
            with in_progress(folder):
                driver.get(f"{url}/runs/slow")
                WebDriverWait(driver, 60).until(
                    lambda _: driver.find_elements(By.CSS_SELECTOR, "#done[value='5']")
                )
                save(driver, "view-live", 760)
        with served(folder, "label runs/before --port 0 --draw 125 --reader ann") as url:
            label(driver, f"{url}/turns/zh-product-idle-cash/4")
            save(driver, "label-turn", 860)
        memfin(folder, "signoff runs/before")
        driver.get((folder / "runs/before/signoff.html").as_uri())
        save(driver, "signoff", 620, "#violations")


if __name__ == "__main__":
    main()
