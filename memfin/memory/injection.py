"""The block of memory in a system prompt, and why nothing a person wrote can end or forge it (§6.2).

Each slice is one line, ``name: value``, between two tags. What people wrote stands as JSON strings on
their slice's line: line ends are blanks, quotation marks are escaped, so no text begins a line or a
value of its own. The characters that tags and the control tokens of chat templates are made of come
as their full-width forms, unless they compare with a number ("<10%"), and what cannot be seen is left
out, so no text, whatever it holds, is a tag.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from memfin.contracts import Record
from memfin.errors import UsageError
from memfin.memory.boundaries import CLOSING, OPENING
from memfin.text.lines import flat, visible

_NUMBER: Final = r"(?!\s?=?\s?[-+±]?[¥￥$€£]?\s?[0-9０-９零〇一二两三四五六七八九十百半])"
_BRACKETS: Final = re.compile(rf"[<>]{_NUMBER}|[\[\]]")
_WIDE: Final = dict(zip("<>[]", "＜＞［］", strict=True))
_NAME: Final = "user_context"
_HARMLESS_NAME: Final = "user context"


class UserContextBlock(Record):
    """The text that memory adds to a system prompt; made by `block_of` alone.

    It is a type of its own, no string, so that what must not be personalised cannot be given it.
    """

    text: str


def block_of(lines: Iterable[str]) -> UserContextBlock:
    """Return the block of slices' lines, as `line_of` makes them (memory design §6.2)."""
    return UserContextBlock(text="\n".join((OPENING, *lines, CLOSING)))


def injected(system_prompt: str, block: UserContextBlock) -> str:
    """Return a system prompt with memory at its end, right before the user's message (§6.4).

    Raises:
        TypeError: the prompt is no text, such as one that must stay impersonal.
        UsageError: the prompt holds such a block already.
    """
    if not isinstance(system_prompt, str):
        raise TypeError(f"memory goes into a prompt of text, not into {type(system_prompt).__name__}")
    if OPENING in system_prompt or CLOSING in system_prompt:
        raise UsageError(f"the system prompt holds {OPENING} already: inject memory once, into the prompt")
    return f"{system_prompt}\n\n{block.text}" if system_prompt else block.text


def line_of(label: str, value: str | int | Sequence[str], *, quoted: bool) -> str:
    """Return a slice's line; ``quoted`` for what people wrote, which `escaped` has seen already."""
    if quoted:
        return f"{label}: {msgspec.json.encode(value).decode()}"
    return f"{label}: {value}"


def escaped(text: str) -> str:
    """Return a person's words as one line without tags, control tokens and what cannot be seen.

    Numbers with a comparison keep it: "<10%" and ">= 3" stay what they are.
    """
    text = flat(visible(text, spell=lambda _: ""))
    text = _BRACKETS.sub(lambda found: _WIDE[found.group()], text)
    # Full-width and other forms of the tag's name count as the name.
    if _NAME in (plain := unicodedata.normalize("NFKC", text).casefold()):
        text = _BRACKETS.sub(lambda found: _WIDE[found.group()], plain.replace(_NAME, _HARMLESS_NAME))
    return text.strip()
