"""The examples of the page on embedding run as they stand and print what it says."""

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "embedding.md"
FOUND = list(blocks(PAGE))
SHOWN = {block.follows.line: block.text for block in FOUND if block.follows and block.language == "text"}
EXAMPLES = [(block.text, SHOWN[block.line]) for block in FOUND if block.language == "python"]


@pytest.mark.parametrize(("example", "shown"), EXAMPLES, ids=["events", "records", "ending early"])
def test_an_example_prints_what_the_page_shows(
    example: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})  # noqa: S102 - our own page
    assert printed.getvalue() == shown


def test_every_test_that_the_page_names_exists() -> None:
    named = {word for word in PAGE.read_text("utf-8").replace("`", " ").split() if word.endswith(".py")}
    assert len(named) >= 3
    for name in named:
        assert (ROOT / name).is_file(), name
