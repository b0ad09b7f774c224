"""Lines of a JSONL file, read with bounded memory whatever the file holds."""

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line of a dataset that readers accept, in bytes without its line end (spec section 3)."""

MAX_RECORD_BYTES: Final = 1024 * 1024 * 1024
"""The same for artefacts: a trace holds the replies too and grows longer than any line of a dataset."""

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END_ROOM: Final = len(_BOM) + len(b"\r\n")
_SKIP_BYTES: Final = 1024 * 1024


class Line(NamedTuple):
    r"""One physical line of a file.

    ``number`` counts from 1. ``data`` is the line without ``\n`` or ``\r\n`` and, on line 1,
    without a UTF-8 byte order mark. A line over the limit has ``too_long`` set and no data.
    ``had_bom`` says that a byte order mark was taken off.
    """

    number: int
    data: bytes
    too_long: bool = False
    had_bom: bool = False


def iter_lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[Line]:
    r"""Yield the lines of a binary file that hold more than JSON white space.

    Lines end at ``\n`` and nowhere else: text methods also split at U+2028 and its kin, which are
    legal inside a JSON string. At most about ``limit`` bytes are held at a time; the rest of a
    longer line is skipped in small reads. Blank lines are left out but keep their number.

    Raises:
        OSError: when reading the file fails.
    """
    number = 0
    while raw := file.readline(limit + _LINE_END_ROOM):
        number += 1
        complete = raw.endswith(b"\n")
        had_bom = number == 1 and raw.startswith(_BOM)
        data = (raw[len(_BOM) :] if had_bom else raw).removesuffix(b"\n").removesuffix(b"\r")
        if len(data) > limit:
            del raw, data  # not held beside the reads that skip the rest
            while not complete and (rest := file.readline(_SKIP_BYTES)):
                complete = rest.endswith(b"\n")
            yield Line(number, b"", too_long=True, had_bom=had_bom)
        elif data.strip(b" \t\r"):
            yield Line(number, data, had_bom=had_bom)
