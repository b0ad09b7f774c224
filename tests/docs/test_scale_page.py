"""The tables of the page on scale are what the simulation prints."""

import re
from pathlib import Path

from benchmarks.scale_simulation import SCENARIOS, SMALL, plan_rows, serial_hours, simulated_row
from tests.docs.pages import ROOT
from tests.support import LONG, each_case

PAGE = ROOT / "docs" / "scale.md"
PAGES = (PAGE, ROOT / "docs" / "zh" / "scale.md")
TABLES = re.compile(r"<!-- from benchmarks/scale_simulation.py -->\n(?:\|.*\n){2}((?:\|.*\n)+)")
NUMBER = re.compile(r"\d[\d,.%]*")


def tables(page: Path) -> list[list[str]]:
    return [table.splitlines() for table in TABLES.findall(page.read_text("utf-8"))]


def numbers(row: str) -> list[str]:
    """Return the numbers of a row, without those of its first cell."""
    return NUMBER.findall(row.split("|", 2)[2])


def test_the_planner_is_that_of_the_simulation() -> None:
    plan, _ = tables(PAGE)
    assert plan == [*plan_rows()]
    assert f"process: {serial_hours():.1f} hours for ten million turns" in PAGE.read_text("utf-8")


def test_the_simulated_runs_are_those_of_the_simulation() -> None:
    _, rows = tables(PAGE)
    assert [row.split("|")[1].strip() for row in rows] == [*SCENARIOS]
    for row, (name, scenario) in zip(rows, SCENARIOS.items(), strict=True):
        if LONG or name == SMALL:
            assert row == simulated_row(name, scenario)


@each_case("number", [0, 1])
def test_the_chinese_page_has_the_same_numbers(number: int) -> None:
    english, chinese = (tables(page)[number] for page in PAGES)
    assert [*map(numbers, chinese)] == [*map(numbers, english)]
