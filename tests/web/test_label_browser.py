"""Labelling in a real browser with a real server: keys alone, a killed server, two readers, marks."""

import json
import signal
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from memfin.validation import validate_path
from tests.commands import run_command
from tests.web.browsers import chromium, needs_chromium
from tests.web.label_runs import CONSTRAINT, HOSTILE, label_process, write_label_run


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "labels.jsonl").read_text("utf-8").splitlines()]


def press(browser: webdriver.Chrome, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def press_and_follow(browser: webdriver.Chrome, *keys: str) -> None:
    """Press keys, of which the last one leads to another page, and wait until that is there."""
    browser.execute_script("document.documentElement.dataset.old = 1")
    press(browser, *keys)
    script = "return !document.documentElement.dataset.old && document.readyState == 'complete'"
    WebDriverWait(browser, 20).until(
        lambda _: browser.execute_script(script), f"{keys} {browser.current_url}"
    )


def begin(browser: webdriver.Chrome, url: str, reader: str) -> None:
    browser.delete_all_cookies()
    browser.get(url)
    press_and_follow(browser, *reader, Keys.ENTER)  # the field has the focus
    press_and_follow(browser, "j")


def words_on_the_console(browser: webdriver.Chrome) -> list[Any]:
    return list(browser.get_log("browser"))  # type: ignore[no-untyped-call]


@needs_chromium
def test_turns_are_labelled_by_keys_alone_though_the_server_is_killed(tmp_path: Path) -> None:
    run = write_label_run(tmp_path / "runs" / "r")
    with chromium(tmp_path, javascript=True) as browser:
        with label_process(run, "--draw", 6, "--seed", 4) as (process, url):
            begin(browser, url, "ann")
            for done in range(3):
                assert len(lines(run)) == done if done else not (run / "labels.jsonl").exists()
                press_and_follow(browser, "1", "0", "x", "s", "d", "d", "f", Keys.ENTER)
            press(browser, "3", "0", "0", "5", "x", "w", "t", "t")  # not saved yet
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert len(lines(run)) == 3
        with label_process(run, port=int(url.rpartition(":")[2])):
            press_and_follow(browser, "u", "/", "w", "j", Keys.ESCAPE, Keys.ENTER)  # the page is still there
            for _ in range(2):
                press_and_follow(browser, "2", "4", "q", "s", Keys.ENTER)
            assert browser.current_url == f"{url}/"
            assert "All turns of the draw are labelled." in browser.page_source
            assert words_on_the_console(browser) == []
    found = lines(run)
    assert list(validate_path(run / "labels.jsonl")) == []
    drawn = json.loads((run / "label_draw.json").read_text())["turns"]
    assert [(each["dialog_id"], each["turn"]) for each in found] == [
        (each["dialog_id"], each["turn"]) for each in drawn
    ]
    names = ("compliance", "contradiction", "forbidden_hits", "risk_tags", "rubric", "note", "unsure")
    tags = {"volatility_risk": True, "<tag>": False}
    labels = [[each.get(name) for name in names] for each in found]
    assert labels[:3] == [["compliant", 0, [], tags, {"信息依据": True}, None, None]] * 3
    assert labels[3] == ["severe_violation", 1, ["明确买入指令"], None, None, "wj", True]
    assert found[3]["contradicted_constraints"] == ["不用杠杆"]
    assert (
        labels[4:]
        == [["minor_violation", 1, ["保本保收益"], {"volatility_risk": True}, None, None, None]] * 2
    )
    assert {each["reader"] for each in found} == {"ann"}


@needs_chromium
def test_two_readers_label_blindly_and_settle_what_they_differ_on(tmp_path: Path) -> None:
    run = write_label_run(tmp_path / "runs" / "r")
    with (
        label_process(run, "--draw", 3, "--readers", 2) as (_, url),
        label_process(run) as (_, other_url),  # a second process on the same file
        chromium(tmp_path, javascript=True) as browser,
    ):
        for reader, address, first in (("ann", url, "1"), ("bob", other_url, "3")):
            begin(browser, address, reader)
            assert "rule.of.a.detector" not in browser.page_source
            assert "severe violation</bdi></td>" not in browser.page_source
            for key in (first, "1", "1"):
                press_and_follow(browser, key, "0", "s", Keys.ENTER)
        browser.get(f"{other_url}/agreement")
        rows = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "tbody tr")]
        assert rows[0].startswith("Compliance 3 66.7 %")
        browser.find_element(By.CSS_SELECTOR, ".drawn a").click()
        assert "ann" in browser.find_element(By.CSS_SELECTOR, ".compared").text
        press_and_follow(browser, "2", Keys.ENTER)
        assert browser.current_url == f"{other_url}/agreement"
        assert "decided" in browser.find_element(By.CSS_SELECTOR, ".drawn").text
        assert words_on_the_console(browser) == []
    kinds = [(each["reader"], each["compliance"]) for each in lines(run)]
    assert kinds.count(("adjudicated", "minor_violation")) == 1
    assert len(kinds) == 7
    assert run_command("correct", run, "--labels", run / "labels.jsonl", cwd=tmp_path).returncode == 0


@needs_chromium
def test_words_are_marked_and_hostile_replies_stay_text(tmp_path: Path) -> None:
    run = write_label_run(tmp_path / "runs" / "r", dialogs=1, turns=1)
    with (
        label_process(run, "--reader", "ann") as (_, url),
        chromium(tmp_path, javascript=True) as browser,
    ):
        browser.get(f"{url}/next")
        place = browser.current_url
        select = (
            "const spans = document.querySelectorAll('#reply [data-at]'), range = document.createRange();"
            "const [a, i, b, j] = arguments;"
            "range.setStart(a < 0 ? document.body : spans[a].firstChild, i);"
            "range.setEnd(b < 0 ? document.body : spans[b].firstChild, j);"
            "getSelection().removeAllRanges(); getSelection().addRange(range);"
        )
        shown = browser.execute_script(
            "return [...document.querySelectorAll('#reply [data-at]')].map(each => each.textContent)"
        )
        assert shown[0] == "<script>alert(1)</script>"
        emoji = next(at for at, text in enumerate(shown) if "😀" in text)
        browser.execute_script(select, 0, 8, 0, 13)
        press(browser, "q")
        browser.execute_script(select, 0, 0, emoji, 2)  # 2 UTF-16 units are one character
        press(browser, "4")
        browser.execute_script(select, emoji, 4, emoji, 6)
        press(browser, "s", "m")  # without a selection m does nothing
        browser.execute_script(select, -1, 0, 0, 3)
        press(browser, "m", Keys.ENTER)
        WebDriverWait(browser, 20).until(lambda _: browser.current_url == f"{url}/")
        browser.get(place)
        marks = [each.text for each in browser.find_elements(By.CSS_SELECTOR, ".marks li")]
        assert marks[0] == "promise of principal or return: alert ×"
        for width in (1280, 500):
            browser.set_window_size(width, 900)
            for path in ("/", place.removeprefix(url)):
                browser.get(url + path)
                script = "return document.documentElement.scrollWidth - innerWidth"
                assert browser.execute_script(script) <= 0
        assert words_on_the_console(browser) == []
    (label,) = lines(run)
    words = [(label["text"][each["start"] : each["end"]], each["label"]) for each in label["marks"]]
    assert words == [
        ("alert", "保本保收益"),
        (HOSTILE[: HOSTILE.index("😀") + 1], "contradiction"),
        ("保本", "volatility_risk"),
        ("<sc", "volatility_risk"),
    ]
    assert (label["contradicted_constraints"], label["risk_tags"]) == (
        [CONSTRAINT],
        {"volatility_risk": True},
    )


@needs_chromium
def test_forms_work_without_javascript(tmp_path: Path) -> None:
    run = write_label_run(tmp_path / "runs" / "r", dialogs=1, turns=2)
    with (
        label_process(run, "--reader", "ann") as (_, url),
        chromium(tmp_path, javascript=False) as browser,
    ):
        browser.set_window_size(1280, 1400)
        browser.get(f"{url}/next")
        browser.find_element(By.CSS_SELECTOR, "[name=compliance][value='2']").click()
        browser.find_element(By.CSS_SELECTOR, ".send button").click()
        WebDriverWait(browser, 20).until(lambda _: browser.current_url.endswith("/2"))
        browser.find_element(By.CSS_SELECTOR, "[name=contradiction][value=none]").click()
        browser.find_element(By.CSS_SELECTOR, ".send button").click()
        WebDriverWait(browser, 20).until(lambda _: browser.current_url == f"{url}/")
    assert [(each.get("compliance"), each.get("contradiction")) for each in lines(run)] == [
        ("minor_violation", None),
        (None, 0),
    ]


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    run = write_label_run(tmp_path / "runs" / "r")
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "a", "text": "b"}\n')
    for words, message in (
        (["none"], "none: no such directory; give the directory of a run, such as runs/RUN_ID"),
        (
            [run, "--reader", "adjudicated"],
            "--reader: not a name; give one of 1 to 60 characters, not 'adjudicated'",
        ),
        (
            [run, "--labels", "no/l.jsonl"],
            "no: no such directory; make it, or name another file with --labels",
        ),
        ([run, "--token", "short"], "--token: 5 characters; give at least 16, or none to have one made"),
        ([run, "--labels", other], f"{other}: it has labels, and there is no label_draw.json beside it"),
    ):
        refused = run_command("label", *words, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert refused.stderr.startswith(f"memfin: {message}"), refused.stderr
