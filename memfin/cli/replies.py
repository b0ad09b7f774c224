"""Replies in files: text, JSONL rows, chat logs and dialogue traces, one reply in memory at a time.

The suffix decides where it is known (``.jsonl``, ``.ndjson``, ``.json``, ``.md``, ``.markdown``), otherwise
the content: a file that begins as a JSON object or an array of objects, or ends with a line that is one, is
JSON; any other is text.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from itertools import chain
from pathlib import PurePath
from typing import BinaryIO, Final, NamedTuple

import msgspec

from memfin.contracts import Record
from memfin.contracts.reading import BOM, MAX_LINE_BYTES, InvalidRecord, Line, decode, iter_lines, open_input
from memfin.errors import UsageError

_JSON_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*(?:[\"}]|$)|\[\s*(?:[{\]]|$))")
_FORMS: Final = "expected an object with text, messages or turns, or an array of messages, on one line"
_NO_REPLY: Final = "the file holds no reply; it needs text, an assistant message or pred_assistant_text"
_NO_TEXT: Final = "the file is not UTF-8 text; convert it, for example with iconv -f GB18030 -t UTF-8"
_TOO_LARGE: Final = f"more than {MAX_LINE_BYTES} bytes; write one reply per line into a .jsonl file"


class Reply(NamedTuple):
    """A reply and where it was read.

    ``line`` is that of the JSON value that holds it; where ``is_file`` is set, the file is the reply. ``id``
    is the row's; in a conversation it is ``id#number`` or the number, which is the turn's in a trace.
    """

    line: int
    id: str | None
    text: str
    user_text: str = ""
    constraints: tuple[str, ...] = ()
    is_file: bool = False


class Unread(NamedTuple):
    """A line, or the file from that line on, that holds no reply for the reason given."""

    line: int
    reason: str


class _Value(Record):
    """A JSON object of any form: row, conversation, message, part of one, trace, turn, profile."""

    id: str | int | None = None
    text: str | None = None
    user_text: str | None = None
    constraints: list[str] | None = None
    messages: "list[_Value] | None" = None
    role: str | None = None
    content: "str | list[_Value] | None" = None
    trace_version: str | None = None
    dialog_id: str | None = None
    turns: "list[_Value] | None" = None
    turn_pair_id: int | None = None
    pred_assistant_text: str | None = None
    profile_gt: "_Value | None" = None
    constraints_gt: list[str] | None = None


def open_replies(name: str) -> AbstractContextManager[BinaryIO]:
    """Open a file of replies, or standard input for ``-``, for reading bytes; raise UsageError otherwise."""
    if name != "-":
        return open_input(name)
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a file")
    return nullcontext(sys.stdin.buffer)


def read_replies(file: BinaryIO, name: str) -> Iterator[Reply | Unread]:
    """Yield the replies of a file that is open for reading bytes, in order, and what could not be read."""
    match PurePath(name).suffix.lower():
        case ".jsonl" | ".ndjson":
            found = _rows(iter_lines(file))
        case ".md" | ".markdown":
            found = _text(file.read(MAX_LINE_BYTES + 1))
        case suffix:
            found = _by_content(file, is_json=suffix == ".json")
    yield next(found, Unread(1, _NO_REPLY))
    yield from found


def _by_content(file: BinaryIO, *, is_json: bool) -> Iterator[Reply | Unread]:
    head = file.readline(MAX_LINE_BYTES + 1)
    if _JSON_START.match(head) and _is_json(head):  # a line that is JSON alone: others may follow
        below = (line._replace(number=1 + line.number) for line in iter_lines(file))
        yield from _rows(chain(iter_lines(BytesIO(head)), below))
        return
    data = head + file.read(MAX_LINE_BYTES + 1)
    last = data.rstrip().rpartition(b"\n")[2]
    if _JSON_START.match(last) and _is_json(last) and not _is_json(data):  # rows below a damaged one
        yield from _rows(iter_lines(BytesIO(data)))
    elif not is_json and not _JSON_START.match(data):
        yield from _text(data)
    elif len(data) > MAX_LINE_BYTES:
        yield Unread(1, _TOO_LARGE)
    elif data.strip():
        yield from _rows([Line(1, data.removeprefix(BOM))])


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data.removeprefix(BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _text(data: bytes) -> Iterator[Reply | Unread]:
    """Yield the file as one reply; nothing for one of white space."""
    try:
        text, bad = data.removeprefix(BOM).decode(), data.find(b"\0")
    except UnicodeDecodeError as problem:
        text, bad = "", problem.start
    if len(data) > MAX_LINE_BYTES:
        yield Unread(1, _TOO_LARGE)
    elif bad >= 0:
        yield Unread(data.count(b"\n", 0, bad) + 1, _NO_TEXT)
    elif text.strip():
        yield Reply(1, None, text, is_file=True)


def _rows(lines: Iterable[Line]) -> Iterator[Reply | Unread]:
    for line in lines:
        if line.too_long:
            yield Unread(line.number, _TOO_LARGE)
            continue
        try:
            if line.data.lstrip().startswith(b"["):
                found = _array(decode(line.data, list[_Value]), line.number)
            else:
                found = _object(decode(line.data, _Value), line.number)
        except InvalidRecord as problem:
            yield Unread(line.number, f"{problem}; {_FORMS}")
        else:
            yield from found


def _array(values: list[_Value], line: int) -> Iterator[Reply | Unread]:
    if any(each.role is not None for each in values):
        yield from _conversation(values, line)
    else:
        for place, each in enumerate(values, 1):
            yield from _object(each, line, str(place))


def _object(value: _Value, line: int, name: str | None = None) -> Iterator[Reply | Unread]:
    """Yield the replies of an object; ``name`` is for one without an id."""
    if (own := value.dialog_id if value.id is None else value.id) is not None:
        name = str(own)
    prefix = "" if name is None else f"{name}#"
    constraints = tuple(value.constraints or ())
    if value.text is not None:
        yield Reply(line, name, value.text, value.user_text or "", constraints)
    elif value.messages is not None:
        yield from _conversation(value.messages, line, prefix, constraints)
    elif value.turns is not None:
        if value.profile_gt is not None:
            constraints = tuple(value.profile_gt.constraints_gt or ())
        for place, turn in enumerate(value.turns, 1):
            if turn.pred_assistant_text is not None:
                name = f"{prefix}{turn.turn_pair_id or place}"
                yield Reply(line, name, turn.pred_assistant_text, turn.user_text or "", constraints)
    else:
        yield Unread(line, f"no reply in this value; {_FORMS}")


def _conversation(
    messages: Iterable[_Value], line: int, prefix: str = "", constraints: tuple[str, ...] = ()
) -> Iterator[Reply]:
    """Yield the assistant messages that hold text, each with the user message before it."""
    user_text, count = "", 0
    for message in messages:
        content = message.text if message.content is None else message.content
        if isinstance(content, list):
            content = "\n".join(part.text for part in content if part.text is not None)
        if message.role == "user":
            user_text = content or ""
        elif message.role == "assistant" and content:
            count += 1
            yield Reply(line, f"{prefix}{count}", content, user_text, constraints)
