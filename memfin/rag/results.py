"""``rag_results.jsonl`` as the summary lists it: in the order of ids, one question in memory at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from memfin.contracts.base import Record
from memfin.contracts.rag import RagIndividual
from memfin.contracts.reading import InvalidRecord, decode


class _Name(Record):
    """What of a line its place in the summary depends on."""

    id: str
    question_index: int


class _Place(NamedTuple):
    """Where a line stands; places sort as the summary lists the questions."""

    id: str
    question_index: int
    offset: int


def individual_results(path: Path) -> Iterator[RagIndividual]:
    """Yield what the summary has of each committed result, in the order of ids.

    Memory holds ids and offsets, and one line.

    Raises:
        OSError: the file cannot be read.
        InvalidRecord: a line is no result.
    """
    with path.open("rb") as file:
        try:
            for place in sorted(_places(file)):
                file.seek(place.offset)
                yield decode(file.readline(), RagIndividual)
        except InvalidRecord as problem:
            raise type(problem)(f"{path}: {problem}") from None


def _places(file: BinaryIO) -> Iterator[_Place]:
    offset = 0
    for line in file:
        name = decode(line, _Name)
        yield _Place(name.id, name.question_index, offset)
        offset += len(line)
