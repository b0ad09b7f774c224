"""Text out of a run, made fit to be looked at: hostile characters shown, long texts cut, spans marked.

Replies, user turns and error messages come from outside. What a reader sees must be what is there:
control characters become visible, and nothing may reorder or hide the text around it. Escaping
for HTML or Markdown is the renderer's business and comes after this.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_SPACE: Final = re.compile(r"\s+")
_BIDI: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))


def _substitutes() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20)}  # the control pictures block
    table |= {ord("\t"): " ", ord("\n"): "\n", ord("\r"): "\n", 0x0B: "\n", 0x0C: "\n", 0x7F: "␡"}
    table |= dict.fromkeys(range(0x80, 0xA0), "\ufffd") | {0x85: "\n", 0x2028: "\n", 0x2029: "\n"}
    table |= {code: f"⟨U+{code:04X}⟩" for code in _BIDI}
    table |= dict.fromkeys((0xFFFE, 0xFFFF, *range(0xD800, 0xE000), *range(0xE0000, 0xE0080)), "\ufffd")
    return table


_SUBSTITUTES: Final = _substitutes()


def visible(text: str) -> str:
    r"""Return text in which every character can be seen and none acts on its surroundings.

    Controls show as their pictures (NUL as ␀), direction overrides as ⟨U+202E⟩, lone surrogates
    and tag characters as the replacement character; every kind of line break is ``\n``.
    """
    return text.replace("\r\n", "\n").translate(_SUBSTITUTES)


def one_line(text: str, limit: int) -> str:
    """Return visible text on one line, cut to ``limit`` characters with an ellipsis."""
    # the cut comes twice: first to bound the work on a huge text, then to bound the result
    line = flat(visible(text[: 4 * limit + 64])).strip()
    return line if len(line) <= limit and len(text) <= 4 * limit + 64 else line[: limit - 1].rstrip() + "…"


def flat(text: str) -> str:
    """Return text with every run of white space, line ends included, as one space."""
    return _SPACE.sub(" ", text)


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of an excerpt; ``marked`` when a finding covers it."""

    text: str
    marked: bool = False


def segments(text: str, spans: Iterable[tuple[int, int]], limit: int) -> tuple[Segment, ...]:
    """Cut the first ``limit`` characters of a text into marked and unmarked pieces.

    ``spans`` are half-open character offsets into ``text``; overlapping ones are joined, those out
    of range are clipped. The last piece ends with an ellipsis when the text was cut.
    """
    shown = min(limit, len(text))
    pieces: list[Segment] = []
    at = 0
    for start, end in _joined(spans, shown):
        if start > at:
            pieces.append(Segment(visible(text[at:start])))
        pieces.append(Segment(visible(text[start:end]), marked=True))
        at = end
    if at < shown:
        pieces.append(Segment(visible(text[at:shown])))
    if len(text) > shown:
        pieces.append(Segment("…"))
    return tuple(pieces)


def around(text: str, start: int, end: int, *, context: int, limit: int) -> tuple[str, str, str]:
    """Return the text before a span, the span, and the text after it, each on one line.

    ``context`` bounds the outer two, ``limit`` the span, in characters. A span that lies outside
    the text gives three empty strings.
    """
    start, end = max(0, start), min(len(text), end)
    if start >= end:
        return "", "", ""
    before = flat(visible(text[max(0, start - context) : start]))
    after = flat(visible(text[end : end + context]))
    return (
        ("…" if start > context else "") + before,
        one_line(text[start:end], limit),
        after + ("…" if end + context < len(text) else ""),
    )


def _joined(spans: Iterable[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        start, end = max(0, low), min(high, size)
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
