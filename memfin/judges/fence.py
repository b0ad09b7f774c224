"""The fence around untrusted text in a prompt: what stands inside cannot end it, hide or act.

Two things hold at once. The fence's lines carry a nonce that is drawn for each call, so nobody can
have written them beforehand. And no text can form such a line even if it knew the nonce: every line
of it begins with `MARGIN`, and the characters that fences and the control tokens of chat templates
are made of (``<``, ``>``, ``[``, ``]``) come as their full-width forms. What is invisible or acts on
the display (control characters, bidirectional and zero-width ones, tags, variation selectors) is
spelt out, so that nothing reaches the judge that a reader would not see.
"""

import os
from typing import Final

from memfin.text.lines import visible

MARGIN: Final = "| "
"""What every line inside a fence begins with."""

_NEXT_LINE: Final = f"\n{MARGIN}"
_FULL_WIDTH: Final = tuple(zip("<>[]", "＜＞［］", strict=True))


def new_nonce() -> str:
    """Return 128 random bits as 32 hexadecimal digits."""
    return os.urandom(16).hex()


def fenced(name: str, text: str, nonce: str) -> str:
    """Return untrusted text inside its fence, of several lines, without a final line end.

    Args:
        name: what the text is, in MemFin's own words, such as ``reply``.
        text: the untrusted text.
        nonce: the nonce of the call.
    """
    return fence(name, margined(text), nonce)


def fence(name: str, content: str, nonce: str) -> str:
    """Return the fence's lines around what `margined` has made of a text."""
    return f"<untrusted {name} {nonce}>\n{content}\n</untrusted {name} {nonce}>"


def margined(text: str) -> str:
    """Return untrusted text as it stands inside a fence: visible, each line behind its margin."""
    for bracket, wide in _FULL_WIDTH:  # faster than a translation, which looks at every character
        text = text.replace(bracket, wide)
    return MARGIN + visible(text, kept=frozenset()).replace("\n", _NEXT_LINE)
