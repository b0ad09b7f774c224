"""The pages of the documentation and the fenced blocks in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]

_FENCE: Final = re.compile(
    r"^(?:<!-- not run: (?P<unrun>[^\n]+) -->\n)?"
    r"(?P<fence>`{3,}) *(?P<language>\w*)(?: title=\"(?P<title>[^\"\n]+)\")?[^\n]*\n"
    r"(?P<text>.*?)^(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
_NAMED: Final = re.compile(r"# (\w+\.(?:py|toml))\n")


class Block(NamedTuple):
    """A fenced block: the line its text begins on, its language and its text.

    ``file`` is the file that a reader saves it to, by its title or its first comment. ``follows`` is the
    block right above it, with nothing but blank lines between. ``unrun`` is the reason in the comment above
    it, ``<!-- not run: REASON -->``, without which its commands are run.
    """

    line: int
    language: str
    text: str
    file: str | None
    follows: "Block | None" = None
    unrun: str | None = None


def pages() -> list[Path]:
    """Return the Markdown files of the project, without what tools and runs leave behind."""
    found = [
        path
        for pattern in ("*.md", "docs/**/*.md", "memfin/**/*.md", "runs/README.md", "tests/**/*.md")
        for path in ROOT.glob(pattern)
    ]
    return sorted(found)


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    previous: Block | None = None
    end = 0
    for match in _FENCE.finditer(text):
        touching = previous is not None and not text[end : match.start()].strip()
        line = text.count("\n", 0, match.start("text")) + 1
        named = _NAMED.match(match["text"])
        block = Block(
            line,
            match["language"],
            match["text"],
            match["title"] or (named[1] if named is not None else None),
            previous if touching else None,
            match["unrun"],
        )
        yield block
        previous, end = block, match.end()


def prose(page: Path) -> str:
    """Return the text of a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))
