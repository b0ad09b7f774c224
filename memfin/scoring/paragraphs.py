"""Lines of running text whose sentences follow one another, read as one line.

List items, table rows, headings and lines that end inside a sentence stay lines of their own, and so does
the line that leads into a list or table.
"""

import re
from typing import Final, Literal

from memfin.scoring.patterns import late

LineKind = Literal["text", "item", "row", "heading"]

DROPPED: Final = "\v"
"""Stands where a line break carries nothing; normalized text holds none of its own."""

_HEADING: Final = late(r" *#+")
_ITEM: Final = late(r" *(?:[-*•·●▪➤→✅❌⚠>]|\(?[0-9]{1,2}[.)、]|[(]?[一二三四五六七八九十]{1,2}[)、]|[①-⑳])")
_BREAK: Final = late(r"([。.!?…][*_`”\"'’』」)]*)( *\n[ \n]*)(?=[^ ])")
_CJK: Final = late(r"[\u3400-\u9fff”』」)][!?…]|。")
_HEAD: Final = 8


def kind_of(norm: str, start: int) -> LineKind:
    """Tell the kind of the line that begins at ``start`` from its first characters."""
    head = norm[start : start + _HEAD]
    if head.lstrip(" ").startswith("|"):
        return "row"
    if _HEADING.match(head):
        return "heading"
    return "item" if _ITEM.match(head) else "text"


def joined(norm: str) -> str:
    """Put sentences of running text into one line, in a text of the same length.

    A break becomes one blank, none between Chinese sentences, and ``DROPPED`` for all else.
    """
    return _BREAK.sub(_bridge, norm) if "\n" in norm else norm


def _bridge(match: re.Match[str]) -> str:
    norm, end = match.string, match.end()
    start = norm.rfind("\n", 0, match.start()) + 1
    if kind_of(norm, start) != "text" or kind_of(norm, end) != "text" or _leads_in(norm, end):
        return match.group()
    line_end = norm.find("\n", end)
    if not _whole(norm[start : match.end(1)], norm[end : len(norm) if line_end < 0 else line_end]):
        return match.group()
    mark, gap = match.groups()
    blank = "" if _CJK.match(norm, match.start() - (mark[0] != "。")) else " "
    return mark + blank + DROPPED * (len(gap) - len(blank))


def _leads_in(norm: str, start: int) -> bool:
    """Say whether the line at ``start`` stands right above a list or a table."""
    end = norm.find("\n", start)
    while end >= 0 and norm.startswith("\n", end):
        end += 1
    return end > 0 and kind_of(norm, end) in ("item", "row")


def _whole(line: str, following: str) -> bool:
    """Say whether no quotation is left open, or the one that is ends in the following line."""
    if line.count('"') % 2 or line.count("“") > line.count("”"):
        return following.count('"') % 2 == 1 or following.count("”") > following.count("“")
    return True
