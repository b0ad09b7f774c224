"""Pieces of a text out of a run: long ones cut, spans marked."""

from collections.abc import Iterable
from dataclasses import dataclass

from memfin.text.lines import flat, one_line, visible


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
    before = flat(text[max(0, start - context) : start])
    after = flat(text[end : end + context])
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
