"""The fence around untrusted text in a prompt: what stands inside cannot end it, hide or act.

Two things hold at once. The fence's lines carry a nonce that is drawn for each call, so nobody can
have written them beforehand. And no text can form such a line even if it knew the nonce: every line
of it begins with `MARGIN`, and the characters that fences and the control tokens of chat templates
are made of (``<``, ``>``, ``[``, ``]``) come as their full-width forms. What is invisible or acts on
the display (control characters, bidirectional and zero-width ones, tags, variation selectors) is
spelt out, so that nothing reaches the judge that a reader would not see.
"""

import os
import re
from typing import Final

MARGIN: Final = "| "
"""What every line inside a fence begins with."""

_NEXT_LINE: Final = f"\n{MARGIN}"

_LINE_ENDS: Final = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
"""Characters that end a line, the same as for ``str.splitlines``."""

_FULL_WIDTH: Final = tuple(zip("<>[]", "＜＞［］", strict=True))

_UNSEEN: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that show nothing although they count as printable."""

_SELECTORS: Final = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF), (0x180B, 0x180F))
"""Variation selectors, with which text can carry other text unseen."""


_PLAIN: Final = "\n -~·—‘’“”…、。《》「」【】一-鿿！-～"
"""Characters, as ranges, that are shown as they are and need no closer look: nearly all of a text."""

_DOUBTFUL: Final = re.compile(f"[^{_PLAIN}]")


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
    # One character more, taken off again, keeps the empty line that a text may end with.
    return _NEXT_LINE.join(f"{MARGIN}{visible(text)}|".splitlines())[:-1]


def visible(text: str) -> str:
    """Return text in which everything can be seen and no bracket is one of a fence or a control token."""
    for bracket, wide in _FULL_WIDTH:  # faster than a translation, which looks at every character
        text = text.replace(bracket, wide)
    return _DOUBTFUL.sub(lambda found: _shown(found.group()), text)


def _shown(character: str) -> str:
    if character in _LINE_ENDS:
        return character
    if character.isspace():
        return " "
    code = ord(character)
    hidden = character in _UNSEEN or any(low <= code <= high for low, high in _SELECTORS)
    if character.isprintable() and not hidden:
        return character
    return f"⟨U+{code:04X}⟩"
