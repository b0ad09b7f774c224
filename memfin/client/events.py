"""Server-sent events: cuts a stream of bytes into the data of its events (WHATWG HTML section 9.2)."""

import re
from typing import Final

from memfin.client.errors import WireError

EVENTS: Final = "text/event-stream"
"""The content type of a stream."""

_BOM: Final = b"\xef\xbb\xbf"
_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_HEAD: Final = 1 << 16
_COMMENTS: Final = re.compile(rb"^:.*\n", re.MULTILINE)
_LINE_ENDS: Final = re.compile(rb"\n{3,}")


def is_event_stream(head: bytes) -> bool | None:
    """Say whether a body that begins so is a stream of events; None while that is open."""
    text = head.removeprefix(_BOM).lstrip()
    if text.startswith(_BEGINNINGS):
        return True
    is_open = len(head) < _LONGEST_HEAD and any(each.startswith(text) for each in _BEGINNINGS)
    return None if is_open else False


def _without_idle_lines(lines: bytes) -> bytes:
    """Leave out comments, and all but two of the line ends in a row: servers send them to keep awake.

    The last line is left as it is, for it may not be complete.
    """
    return _LINE_ENDS.sub(b"\n\n", _COMMENTS.sub(b"", lines))


class EventStream:
    """Takes bytes as they come, cut anywhere, and gives the data of every event that is complete.

    Only ``data`` fields matter here; comments, names and ids of events are passed over.

    Raises:
        WireError: ``encoding`` when a line is not UTF-8.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[str] = []
        self._begun = False
        self._after_return = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that end in this piece."""
        if not piece:
            return []
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a line end that was cut in two
            self._after_return = False
            if not piece:
                return []
        self._after_return = piece.endswith(b"\r")
        found: list[str] = []
        first, *rest = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n", 1)
        self._line.append(first)
        for start in _without_idle_lines(rest[0]).split(b"\n") if rest else ():
            self._end_line(found)
            self._line = [start]
        return found

    def finish(self) -> list[str]:
        """Return the event left open at the end: many servers end without a blank line."""
        found: list[str] = []
        self._end_line(found)
        self._dispatch(found)
        return found

    def _end_line(self, found: list[str]) -> None:
        line = b"".join(self._line)
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(found)
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            try:
                self._data.append(value.removeprefix(b" ").decode())
            except UnicodeDecodeError:
                raise WireError("encoding", "the answer is not UTF-8") from None

    def _dispatch(self, found: list[str]) -> None:
        if self._data:
            found.append("\n".join(self._data))
            self._data = []
