"""The Chinese pages have the headings, tables and code of the English pages, and each links to the other."""

import re
from pathlib import Path

from tests.docs.pages import ROOT, blocks, prose
from tests.support import each_case

DOCS = ROOT / "docs"
CHINESE = sorted((DOCS / "zh").glob("*.md"))
TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
IDENTIFIER = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


def test_every_page_is_in_chinese() -> None:
    assert [page.name for page in CHINESE] == sorted(page.name for page in DOCS.glob("*.md"))


@each_case("page", CHINESE)
def test_there_is_an_english_page_of_the_same_name(page: Path) -> None:
    assert (DOCS / page.name).is_file()


@each_case("page", CHINESE)
def test_the_headings_have_the_same_levels(page: Path) -> None:
    levels, expected = (
        re.findall(r"^#+(?= )", prose(found), re.MULTILINE) for found in (page, DOCS / page.name)
    )
    assert levels == expected


@each_case("page", CHINESE)
def test_the_tables_have_the_same_rows(page: Path) -> None:
    rows, expected = (
        [len(table.splitlines()) for table in TABLE.findall(prose(found))]
        for found in (page, DOCS / page.name)
    )
    assert rows == expected


@each_case("page", CHINESE)
def test_the_blocks_of_code_are_the_same(page: Path) -> None:
    shown, expected = (
        [(block.language, block.text) for block in blocks(found)] for found in (page, DOCS / page.name)
    )
    assert shown == expected


@each_case("page", CHINESE)
def test_the_identifiers_are_the_same(page: Path) -> None:
    named, expected = (
        {" ".join(name.split()) for _, name in IDENTIFIER.findall(prose(found))}
        for found in (page, DOCS / page.name)
    )
    assert named == expected


@each_case("page", CHINESE)
def test_each_page_links_to_the_other_below_its_title(page: Path) -> None:
    for found, link in (
        (page, f"[English](../{page.name})"),
        (DOCS / page.name, f"[中文](zh/{page.name})"),
    ):
        assert found.read_text("utf-8").splitlines()[1:4] == ["", link, ""]


@each_case("page", CHINESE)
def test_links_lead_to_chinese_pages_where_there_are_some(page: Path) -> None:
    linked = re.findall(r"(?<!\[English\])\(\.\./([\w-]+\.md)", prose(page))
    assert [name for name in linked if (page.parent / name).is_file()] == []


def test_only_pages_with_a_chinese_page_link_to_one() -> None:
    linking = [page for page in sorted(DOCS.glob("*.md")) if "](zh/" in page.read_text("utf-8")]
    assert [page.name for page in linking] == [page.name for page in CHINESE]
