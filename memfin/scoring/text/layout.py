"""One way of setting a reply out: how sentences end, which lines belong together, what is in a quote block.

Lines of running text whose sentences follow one another are read as one line. List items, table rows,
headings and lines that end inside a sentence stay lines of their own, and so does the line that leads into
a list or table. Exclamations, and dots that trail off at the end of a line, end sentences as full stops do;
a dash between words is a comma.
"""

import re
from typing import Final, Literal

from memfin.scoring.patterns.expressions import late

LineKind = Literal["text", "item", "row", "heading"]

DROPPED: Final = "\v"
"""Stands where a line break carries nothing; normalized text holds none of its own."""

_HEADING: Final = late(r"#+")
_ITEM: Final = late(
    r"(?:(?!\*st)[-*•·●▪➤→✅❌⚠>]|\(?[0-9]{1,2}[.)、]|[(]?[一二三四五六七八九十]{1,2}[)、]|[①-⑳])"
)
_ENTRY: Final = late(
    r"[*_]*(?:[^\n。!?;,|:]{1,20}[*_]*(?: ?[:-]+| ?\()?[*_]* ?约?[$£€¥]?[0-9][0-9,.]*(?:%|万元?|元|k)?\)?|"
    r"[0-9]{1,2}%[的 :]?[^\n。!?;,|:]{1,20})[*_ \v]*(?:\n[\n\v]*|$)"
)
_BEFORE_BREAK: Final = late(r" +(?=\n)")
# What goes before an item, a row or a heading is no break within running text.
_BREAK: Final = late(
    r"\n[ \n\v]*+(?!(?!\*st)[-*•·●▪➤→✅❌⚠>#|]|\(?[0-9]{1,2}[.)、]|[(]?[一二三四五六七八九十]{1,2}[)、]|"
    r"[①-⑳])"
)
_SENTENCE_ENDS: Final = tuple("。.?!…")
_CLOSING: Final = DROPPED + " *_`”\"'』」)"
_HEAD: Final = 8
_BLANKS: Final = " " + DROPPED
_NEAR: Final = 24
_LONGEST_ENTRY: Final = 40
_CHINESE: Final = late(r"[\u3400-\u9fff]")
_CHINESE_STOPPED: Final = late(
    r"!(?:(?<=[\u3400-\u9fff”』」]!)(?!\?)|(?<=[0-9a-z%)]!)(?=[\n*_ ]*[\u3400-\u9fff])|(?<=。!))"
)
_STOPPED: Final = late(r"!(?<=[a-z0-9%)]!)(?=[*_”\"]*(?:\s|$))")
_OPENS: Final = late(
    r"\s*(?:(?:in short|in brief|in a nutshell|in summary|to sum up|(?:the )?(?:bottom line|short answer)|"
    r"my (?:answer|view|take)|i (?:see|get|know|understand) (?:what you mean|your (?:point|concern))|"
    r"i hear you|understood|got it|sure|hello|hi(?: there)?|good question)[,:](?= )|"
    r"(?:一句话(?:总结|概括|来?说)?|结论(?:先行|如下)?|简单来?说|简而言之|总的来说|总而言之|综上(?:所述)?|"
    r"我的(?:看法|回答|意见|想法|理解)(?:是|如下)?|(?:我)?(?:明白|理解|懂|知道)你的(?:意思|想法|顾虑|心情|"
    r"需求)|"
    r"好的|收到|明白了?|你好)[,:](?! *\n))"
)
"""What opens a reply and says nothing of its own: a sentence for itself."""
_CHINESE_DOT: Final = late(
    r"\.(?<![\n ][一二三四五六七八九十]\.)(?:(?<=[\u3400-\u9fff”』」]\.)(?![0-9a-z.])|"
    r"(?<=[%)]\.)(?= ?[\u3400-\u9fff]))"
)
_DASH: Final = late(r"--(?<=[\u3400-\u9fff”』」%)]--)(?=[\u3400-\u9fff“『「])")
_ENGLISH_DASH: Final = late(r" - (?<=[a-z0-9%)] - )(?=[a-z])")
_CELL_BREAK: Final = late(r"<br ?/?>")
"""A line break inside a table cell."""
_TRAILING: Final = ("…", "~")
_TRAILS_OFF: Final = late(r"(?:(?<=[\u3400-\u9fff”』」%)])(?:…+|~+)|(?<=[0-9a-z])…+)(?=[*_]*(?:\n|$))")
_QUOTE_MARK: Final = late(r"(?m)^ *>(?: *>)*(?: |$)")
_QUOTED_BLOCK: Final = late(r"(?m)^ *>(?: *>)*(?: ?(?=$|[|#]|\|)| (?= *(?:[-*•] |[0-9]+\.)))")


def kind_of(norm: str, start: int) -> LineKind:
    """Tell the kind of the line that begins at ``start`` from its first characters."""
    head = norm[start : start + _HEAD].lstrip(_BLANKS)
    if head.startswith("|"):
        return "row"
    if _HEADING.match(head):
        return "heading"
    if _ITEM.match(head) or _is_entry(norm, start):
        return "item"
    return "text"


def _is_entry(norm: str, start: int) -> bool:
    """Say whether the line is a name with a number, and the line before or behind it another one."""
    end = norm.find("\n", start)
    if (len(norm) if end < 0 else end) - start > _LONGEST_ENTRY:
        return False
    match = _ENTRY.match(norm, start)
    if match is None:
        return False
    first = start - 1
    while norm[first - 1 : first] == "\n":
        first -= 1
    return (match.end() < len(norm) and _ENTRY.match(norm, match.end()) is not None) or (
        first > 0 and _ENTRY.match(norm, norm.rfind("\n", 0, first) + 1) is not None
    )


def _commas(norm: str) -> str:
    """Put a comma for a dash between words and for a break inside a table cell."""
    if "--" in norm:
        norm = _DASH.sub("," + DROPPED, norm)
    if " - " in norm:
        norm = _ENGLISH_DASH.sub(DROPPED + ", ", norm)
    if "<br" in norm:
        norm = _CELL_BREAK.sub(lambda mark: ",".ljust(len(mark[0]), DROPPED), norm)
    return norm


def laid_out(norm: str) -> str:
    """Put a normalized text into one layout, in a text of the same length.

    A break between sentences becomes one blank, none between Chinese ones, and ``DROPPED`` for all else.
    """
    if norm.startswith((" ", "\n")):
        rest = norm.lstrip(" \n")
        norm = rest.rjust(len(norm), DROPPED)
    if ">" in norm and _QUOTE_MARK.search(norm):
        norm = _unquoted(norm)
    if "." in norm:
        norm = _CHINESE_DOT.sub("。", norm)
    norm = _commas(norm)
    if "!" in norm:
        norm = _STOPPED.sub(_full_stop, _CHINESE_STOPPED.sub("。", norm))
    opens = _OPENS.match(norm)
    if opens is not None:
        last = opens.end() - 1
        norm = norm[:last] + ("。" if norm[last - 1] > "\u2e80" else ".") + norm[last + 1 :]
    if any(map(norm.__contains__, _TRAILING)):
        norm = _TRAILS_OFF.sub(_stop, norm)
    if " \n" in norm:
        norm = _BEFORE_BREAK.sub(_drop, norm)
    return _BREAK.sub(_bridge, norm) if "\n" in norm else norm


def _drop(match: re.Match[str]) -> str:
    return DROPPED * len(match.group())


def _full_stop(match: re.Match[str]) -> str:
    near = match.string[max(0, match.start() - _NEAR) : match.start()]
    return "。" if _CHINESE.search(near) else "."


def _stop(match: re.Match[str]) -> str:
    return "。" + DROPPED * (len(match.group()) - 1)


def _unquoted(norm: str) -> str:
    """Drop the marks of quote blocks: of a block that holds a list, table or heading, or all of the text."""
    whole = all(_QUOTE_MARK.match(line) for line in norm.split("\n") if line)
    marks = _QUOTE_MARK if whole else _QUOTED_BLOCK
    return marks.sub(_drop, norm)


def _bridge(match: re.Match[str]) -> str:
    norm, (first, end) = match.string, match.span()
    start = norm.rfind("\n", 0, first) + 1
    line = norm[start:first].rstrip(_CLOSING)
    if not line.endswith(_SENTENCE_ENDS) or end == len(norm):
        return match.group()
    if kind_of(norm, start) != "text" or kind_of(norm, end) != "text" or _leads_in(norm, end):
        return match.group()
    line_end = norm.find("\n", end)
    if not _whole(norm[start:first], norm[end : len(norm) if line_end < 0 else line_end]):
        return match.group()
    chinese = line[-1] == "。" or _CHINESE.match(line[-2:]) is not None
    return ("" if chinese else " ").ljust(end - first, DROPPED)


def _leads_in(norm: str, start: int) -> bool:
    """Say whether the line at ``start`` stands right above a list or a table."""
    end = norm.find("\n", start)
    while end >= 0 and norm.startswith(("\n", DROPPED), end):
        end += 1
    return end > 0 and kind_of(norm, end) in ("item", "row")


def _whole(line: str, following: str) -> bool:
    """Say whether no quotation is left open, or the one that is ends in the following line."""
    if line.count('"') % 2 or line.count("“") > line.count("”"):
        return following.count('"') % 2 == 1 or following.count("”") > following.count("“")
    return True
