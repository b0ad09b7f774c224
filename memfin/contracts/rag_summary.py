"""``rag_summary.json`` in pieces: its sums are read and written apart from its list of questions.

The list grows with the benchmark, everything else does not. As MemFin writes the file, every question
begins and ends on lines of its own, so that one question at a time is in memory; a file that somebody
formatted in another way is read as a whole.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from memfin.contracts.rag import RagIndividual, RagSummary
from memfin.contracts.reading import (
    MAX_DOCUMENT_BYTES,
    InvalidRecord,
    RecordT,
    decode,
    open_input,
    read_json,
)

SUMMARY: Final = "rag_summary.json"

_LIST: Final = b'  "individual_results": ['
_ENDS: Final = (b"  ]", b"  ],")
_LAST_LINES: Final = (b"    }", b"    },")
_BOM: Final = b"\xef\xbb\xbf"
_PIECE: Final = 1 << 16


def summary_pieces(summary: RagSummary, results: Iterable[RagIndividual]) -> Iterator[bytes]:
    """Yield the file's bytes: the summary, with these results for those that it lists itself."""
    frame = _indented(summary.replace(individual_results=[]))
    # A line break stands between values only: within a JSON string it is escaped.
    head, _, tail = frame.partition(b"\n" + _LIST)
    gathered = bytearray(head + b"\n" + _LIST)
    separator = b"\n    "
    for one in results:
        gathered += separator + _indented(one).replace(b"\n", b"\n    ")
        separator = b",\n    "
        if len(gathered) >= _PIECE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered) + (b"\n  " if separator[:1] == b"," else b"") + tail + b"\n"


def read_sums(path: str | Path) -> RagSummary:
    """Read everything but the individual results; the summary returned lists none.

    Raises:
        InvalidRecord: the content does not decode; the message begins with the file.
        UsageError: the file cannot be opened.
    """
    with open_input(path) as file:
        content = b"".join(_frame(file, path))
    return _decoded(content, RagSummary, path).replace(individual_results=[])


def iter_individual_results(path: str | Path) -> Iterator[RagIndividual]:
    """Yield the individual results in their order, one in memory at a time.

    Raises:
        InvalidRecord: the content does not decode; the message begins with the file.
        UsageError: the file cannot be opened.
    """
    with open_input(path) as file:
        if any(line.rstrip() == _LIST for line in _lines(file, path)):
            yield from _listed(file, path)
            return
    yield from read_json(path, RagSummary).individual_results


def _listed(file: BinaryIO, path: str | Path) -> Iterator[RagIndividual]:
    """Yield the results of a file that is open at the first line of the list."""
    number = 0
    gathered: list[bytes] = []
    for line in _lines(file, path):
        ending = line.rstrip()
        if ending in _ENDS and not gathered:
            return
        gathered.append(line)
        if ending in _LAST_LINES:
            text = b"".join(gathered).rstrip().removesuffix(b",")
            gathered.clear()
            yield _decoded(text, RagIndividual, path, f".individual_results[{number}]")
            number += 1
    raise InvalidRecord(f"{path}: $.individual_results: the list does not end")


def _frame(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    """Yield the lines of the file without those between the ends of the list."""
    listed = False
    size = 0
    for line in _lines(file, path):
        listed = listed and line.rstrip() not in _ENDS
        if not listed:
            size += len(line)
            if size > MAX_DOCUMENT_BYTES:
                raise InvalidRecord(f"{path}: the file is larger than {MAX_DOCUMENT_BYTES} bytes")
            yield line
        listed = listed or line.rstrip() == _LIST


def _lines(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    while line := file.readline(MAX_DOCUMENT_BYTES + 1):
        if len(line) > MAX_DOCUMENT_BYTES:
            raise InvalidRecord(f"{path}: the file is larger than {MAX_DOCUMENT_BYTES} bytes")
        yield line


def _decoded(data: bytes, kind: type[RecordT], path: str | Path, place: str = "") -> RecordT:
    try:
        return decode(data.removeprefix(_BOM), kind)
    except InvalidRecord as problem:
        raise type(problem)(f"{path}: ${place}{str(problem).removeprefix('$')}") from None


def _indented(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
