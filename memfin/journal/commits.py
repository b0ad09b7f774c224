"""The commit log: one line per commit with its own checksum, read and written as pure functions."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from memfin.contracts import DialogStatus, ModelUsage, Record
from memfin.contracts.base import Count
from memfin.errors import UsageError

COMMITS: Final = "commits.log"
FORMAT: Final = 1
HINT: Final = "memfin validate --repair RUN_DIR --out NEW_DIR writes a copy of the intact part"

CommitKind = Literal["opened", "replay", "judged", "result"]

_DIGEST_SIZE: Final = 16
_CHECK: Final = b',"check":"'
_TAIL: Final = len(_CHECK) + 2 * _DIGEST_SIZE + len(b'"}\n')


class JournalDamaged(UsageError):  # noqa: N818 - names the state that was found
    """Committed data is damaged; the message names the file, the offset, and the remedy."""

    def __init__(self, where: str, offset: int, what: str) -> None:
        self.where = where
        self.offset = offset
        self.what = f"offset {offset}: {what}; {HINT}"
        super().__init__(f"{where}: {self.what}")


class Part(Record):
    """Position of the rows of one commit in one file: ``length`` bytes from ``offset``, whole lines."""

    file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]+\.jsonl\Z")]
    offset: Count
    length: Count
    rows: Count
    digest: str


class CommitRecord(Record, omit_defaults=True):
    """One line of the commit log.

    ``seq`` counts from 1 without a gap. ``group`` is the ``seq`` of the first record that went to
    disk in the same write: when it is on disk, every earlier group is. ``opened`` heads the log and
    names its format; ``replay`` commits a dialogue's trace and ``judged`` its final rows; ``result``
    commits a question of a benchmark at once, where there is no judge. With one ``replay`` commits its
    answer and ``judged`` its final result. ``dataset_index`` and ``dialog_id`` say which dialogue, or
    which question, it is. ``artifacts`` are the checksums of the run's settings and manifest by the names of
    their files, on the first line; ``opened`` comes again where a run goes on with others.
    """

    seq: Annotated[int, msgspec.Meta(ge=1)]
    group: Annotated[int, msgspec.Meta(ge=1)]
    kind: CommitKind
    format: int | None = None
    artifacts: dict[str, str] = msgspec.field(default_factory=dict, name="papers")
    dataset_index: int = 0
    dialog_id: str = ""
    status: DialogStatus | None = None
    retries: Count = 0
    abandoned: Count = 0
    judge_failures: Count = 0
    usage: ModelUsage | None = None
    parts: tuple[Part, ...] = ()


class Entry(NamedTuple):
    """Commit of a dialogue or question to write: encoded rows by file, and the fields of its record."""

    kind: CommitKind
    dataset_index: int = 0
    dialog_id: str = ""
    rows: Mapping[str, Sequence[bytes]] = {}
    artifacts: dict[str, str] = {}
    status: DialogStatus | None = None
    retries: int = 0
    abandoned: int = 0
    judge_failures: int = 0
    usage: ModelUsage | None = None


def entry_of(record: CommitRecord, read: Callable[[Part], bytes]) -> Entry:
    """Return the entry that writes a commit again; ``read`` returns the rows of a part."""
    rows = {part.file: read(part).removesuffix(b"\n").split(b"\n") for part in record.parts}
    return Entry(rows=rows, **{name: record[name] for name in Entry._fields if name != "rows"})


class Located(NamedTuple):
    """An intact record with the start and end of its line in the log."""

    offset: int
    end: int
    record: CommitRecord


class Group(NamedTuple):
    """The bytes that one group adds to every file, and its lines of the commit log."""

    data: Mapping[str, bytes]
    log: bytes
    records: Sequence[CommitRecord]


def digest(data: bytes) -> str:
    """Return the checksum of bytes: BLAKE2b of 16 bytes, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=_DIGEST_SIZE).hexdigest()


def sealed(body: bytes) -> bytes:
    """Return the line of a JSON object: the checksum of all before it as its last field."""
    return body[:-1] + _CHECK + digest(body).encode() + b'"}\n'


def unsealed(line: bytes) -> bytes | None:
    """Return the JSON object of a line with its line end; None if a byte was changed."""
    body, check = line[:-_TAIL] + b"}", line[-_TAIL:]
    return body if check == _CHECK + digest(body).encode() + b'"}\n' else None


def encode_record(record: CommitRecord) -> bytes:
    """Encode the line of a record."""
    return sealed(msgspec.json.encode(record))


def decode_line(line: bytes) -> CommitRecord | None:
    """Return the record of a line with its line end; None if a byte was changed."""
    body = unsealed(line)
    if body is None:
        return None
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError:
        return None


def encode_group(entries: Sequence[Entry], seq: int, ends: Mapping[str, int]) -> Group:
    """Encode a group of commits for files of the sizes ``ends``; the first has number ``seq``."""
    pieces: dict[str, list[bytes]] = {}
    sizes = dict(ends)
    records: list[CommitRecord] = []
    for number, entry in enumerate(entries, seq):
        parts: list[Part] = []
        for file, lines in entry.rows.items():
            if not lines:
                continue
            data = b"\n".join(lines) + b"\n"
            offset, length = sizes.get(file, 0), len(data)
            sizes[file] = offset + length
            pieces.setdefault(file, []).append(data)
            parts.append(Part(file=file, offset=offset, length=length, rows=len(lines), digest=digest(data)))
        fields = entry._asdict()
        del fields["rows"]
        version = FORMAT if entry.kind == "opened" else None
        records.append(CommitRecord(seq=number, group=seq, format=version, parts=tuple(parts), **fields))
    rows = {file: b"".join(data) for file, data in pieces.items()}
    return Group(rows, b"".join(map(encode_record, records)), records)


def sound_records(lines: Iterable[bytes], where: str) -> Iterator[Located]:
    """Yield the records of a commit log up to its end or to a tail torn by a crash.

    ``lines`` are the physical lines with their line ends. Where the yielding ends, a torn tail
    begins: the bytes of a group whose writing a crash cut short. A defect before a later group is
    no such tail, since a group is begun only when the one before is safely on disk.

    Raises:
        JournalDamaged: a line within the log is damaged.
        UsageError: the log is of a format that this release does not read.
    """
    offset, seq = 0, 0
    torn: int | None = None
    for line in lines:
        record = decode_line(line)
        if torn is None and record is not None and record.seq == seq + 1 and record.group <= record.seq:
            if seq == 0:
                _check_head(record, where)
            seq += 1
            yield Located(offset, offset + len(line), record)
        elif torn is None:
            if record is not None:
                raise JournalDamaged(where, offset, f"record {record.seq} instead of {seq + 1}")
            torn = offset
        if torn is not None and record is not None and record.group > seq + 1:
            raise JournalDamaged(where, torn, "this line is damaged, and later ones are intact")
        offset += len(line)


def _check_head(record: CommitRecord, where: str) -> None:
    if record.kind != "opened":
        raise JournalDamaged(where, 0, "the log does not begin as a commit log")
    if record.format != FORMAT:
        raise UsageError(f"{where}: is of format {record.format}; this release reads format {FORMAT}")


_DECODER: Final = msgspec.json.Decoder(CommitRecord)
