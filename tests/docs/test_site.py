"""The documentation site has every page in its navigation; building it is make docs."""

import re

from tests.docs.pages import ROOT

NAV = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1].split("\ntheme:\n")[0]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"[\w/-]+\.md", NAV)
    moved = {"quickstart.md"}
    assert len(listed) == len(set(listed))
    docs = ROOT / "docs"
    notebooks = [f"notebooks/{path.stem}.md" for path in (docs / "notebooks").glob("*.ipynb")]
    assert {*notebooks, *(path.name for path in docs.glob("*.md"))} <= {*listed, *moved}
    assert "Decisions: adr" in NAV


def test_the_start_page_links_to_every_page() -> None:
    for index, folder in (("index.md", ""), ("zh/index.md", r"(?:\.\./)?")):
        text = (ROOT / "docs" / index).read_text("utf-8")
        for path in (ROOT / "docs").glob("*.md"):
            if path.name not in ("index.md", "quickstart.md"):
                assert re.search(rf"\]\({folder}{path.name}", text), f"{index} has no link to {path.name}"


def test_images_of_the_pages_are_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "docs" / "images").glob("*")) < 600_000
