"""Chat logs as dialogues: OpenAI messages in JSONL, rows of CSV, transcripts in Markdown or plain text."""

import csv
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts.reading import MAX_LINE_BYTES, iter_lines, open_input, shown
from memfin.dataset import InvalidDialogError, detect_language, normalize_dialog
from memfin.errors import UsageError

ROLES: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("user", "human", "client", "customer", "用户", "客户"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "agent", "advisor", "助手", "顾问", "客服"), "assistant"),
    **dict.fromkeys(("system", "developer", "tool", "function", "系统"), None),
}
"""Names of speakers and their roles; None where the dataset has no place for what they say."""

_IDS: Final = (
    "dialog_id",
    "conversation_id",
    "conversation",
    "session_id",
    "session",
    "thread_id",
    "chat_id",
)
_CONTENTS: Final = ("content", "text", "message")
_TIMES: Final = ("timestamp", "time", "created_at", "date")
_SPEAKER: Final = re.compile(
    rf"\s*(?:\*\*|__)?({'|'.join(ROLES)})(?:\*\*|__)?\s*[:：]\s*(?:\*\*|__)?[ \t]*(.*)",
    re.IGNORECASE,
)
_BREAK: Final = re.compile(r"\s*(?:#\s+(.+?)|-{3,}|\*{3,}|_{3,})\s*")


class Unread(NamedTuple):
    """A part of a chat log that is no dialogue: its line, and the reason."""

    line: int
    reason: str


class Chat(NamedTuple):
    """A conversation: its line, its id where the log has one, and its messages as pairs of role and text."""

    line: int
    id: str | None
    messages: Sequence[tuple[str, str]]


class _Columns(NamedTuple):
    """Places of the columns of a CSV file, and their number."""

    id: int
    role: int
    content: int
    time: int | None
    width: int

    def read(self, row: Sequence[str]) -> tuple[float, list[tuple[str, str]]]:
        """Return the time of a row and its message; raise `ValueError` where there is none."""
        if len(row) != self.width:
            raise ValueError(f"{len(row)} columns, but the header has {self.width}")
        return 0.0 if self.time is None else _moment(row[self.time]), _message(
            row[self.role], row[self.content]
        )


def read_chats(path: Path) -> Iterator[dict[str, Any] | Unread]:
    """Yield the dialogues of a chat log in order, and what cannot be read; the suffix decides the form.

    Messages of one role in a row become one turn; those of system and tools are left out. Replies require
    nothing, since they have no tags. A chat without an id is named after a digest of its turns.

    Raises:
        UsageError: the file cannot be read, or its form is unknown.
    """
    forms = {".csv": _of_csv, **dict.fromkeys((".md", ".markdown", ".txt"), _of_transcript)}
    suffix = path.suffix.lower()
    if suffix not in forms and suffix not in (".jsonl", ".ndjson"):
        raise UsageError(
            f"{path}: unknown kind of chat log; known: .jsonl, .ndjson, .csv, .md, .markdown, .txt"
        )
    seen: set[str] = set()
    try:
        if suffix in forms:
            with path.open(encoding="utf-8-sig", newline="") as lines:
                yield from (_dialog(each, seen) for each in forms[suffix](lines))
        else:
            yield from (_dialog(each, seen) for each in _of_messages(path))
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path}: is not UTF-8 text; convert it, for example with iconv") from problem
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem


def _dialog(chat: Chat | Unread, seen: set[str]) -> dict[str, Any] | Unread:
    if isinstance(chat, Unread):
        return chat
    turns: list[dict[str, Any]] = []
    for role, text in chat.messages:
        if turns and turns[-1]["role"] == role:
            turns[-1]["text"] += f"\n{text}"
        else:
            turns.append({"role": role, "text": text} | ({} if role == "user" else {"turn_tags": {}}))
    name = chat.id
    if name is None:
        digest = hashlib.blake2b(msgspec.json.encode(turns), digest_size=6).hexdigest()
        name = f"chat-{digest}"
    if name in seen:
        return Unread(chat.line, f"the conversation {name!r} stands further up too")
    question = next((turn["text"] for turn in turns if turn["role"] == "user"), "")
    found = {"dialog_id": name, "language": detect_language(question), "profile_gt": {}, "turns": turns}
    try:
        normalize_dialog(found)
    except InvalidDialogError as problem:
        return Unread(chat.line, problem.problem.message)
    seen.add(name)
    return found


def _of_messages(path: Path) -> Iterator[Chat | Unread]:
    with open_input(path) as file:
        for line in iter_lines(file):
            try:
                if line.too_long:
                    raise ValueError(f"longer than {MAX_LINE_BYTES} bytes")  # noqa: TRY301 - one handler
                yield _of_object(line.number, msgspec.json.decode(line.data))
            except (ValueError, RecursionError) as problem:  # a DecodeError is a ValueError
                yield Unread(line.number, str(problem))


def _of_object(line: int, value: Any) -> Chat:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise ValueError("expected an object with a list of messages")  # noqa: TRY004 - one handler
    name = next((value[key] for key in ("id", *_IDS) if isinstance(value.get(key), str | int)), None)
    messages: list[tuple[str, str]] = []
    for number, each in enumerate(value["messages"]):
        if not isinstance(each, dict):
            raise ValueError(f"messages[{number}]: expected an object")  # noqa: TRY004 - as the others
        content = each.get("content")
        if isinstance(content, list):  # parts, of which some are images
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "\n".join(part for part in parts if isinstance(part, str))
        try:
            messages += _message(each.get("role"), "" if content is None else content)
        except ValueError as problem:
            raise ValueError(f"messages[{number}]: {problem}") from None
    return Chat(line, str(name).strip() or None if name is not None else None, messages)


def _message(role: object, content: object) -> list[tuple[str, str]]:
    """Return the message, or none where it is blank or not of user or assistant."""
    known = role.strip().lower() if isinstance(role, str) else ""
    if known not in ROLES:
        raise ValueError(f"unknown role {shown(role)}; known: {', '.join(ROLES)}")
    if not isinstance(content, str):
        raise ValueError("the content is no text")  # noqa: TRY004 - as the others
    kept = ROLES[known]
    return [(kept, content.strip())] if kept is not None and content.strip() else []


def _of_csv(lines: Iterable[str]) -> Iterator[Chat | Unread]:
    csv.field_size_limit(MAX_LINE_BYTES)
    rows = csv.reader(lines, strict=True)
    chats: dict[str, list[tuple[float, int, list[tuple[str, str]]]]] = {}
    columns: _Columns | None = None
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows, None)
            if row is None:
                break
            if columns is None:
                columns = _columns(row) if any(row) else None
            elif any(row):
                moment, messages = columns.read(row)
                chats.setdefault(row[columns.id].strip(), []).append((moment, line, messages))
        except csv.Error as problem:
            yield Unread(line, f"not valid CSV: {problem}")
        except UnicodeDecodeError:
            raise
        except ValueError as problem:
            yield Unread(line, str(problem))
            if columns is None:
                return
    for name, found in chats.items():
        found.sort(key=lambda each: each[0])
        yield Chat(min(each[1] for each in found), name or None, [pair for each in found for pair in each[2]])


def _columns(header: Sequence[str]) -> _Columns:
    names = [name.strip().lower() for name in header]
    found: list[int] = []
    for known in (_IDS, ("role",), _CONTENTS):
        name = next((name for name in known if name in names), None)
        if name is None:
            raise ValueError(f"the header has no column {' or '.join(known)}")
        found.append(names.index(name))
    time = next((names.index(name) for name in _TIMES if name in names), None)
    id_, role, content = found
    return _Columns(id_, role, content, time, len(names))


def _moment(text: str) -> float:
    """Return a time in seconds: a number, or ISO 8601."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; expected a number of seconds or ISO 8601") from None


def _of_transcript(lines: Iterable[str]) -> Iterator[Chat | Unread]:
    """Yield the conversations of a transcript.

    A title (``# name``) or a rule (``---``) directly before a speaker begins another conversation; elsewhere
    it is a part of the message.
    """
    start, name = 1, None
    turns: list[tuple[str, list[str]]] = []
    breaks: list[str] = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if found := _SPEAKER.fullmatch(text):
            if any(_BREAK.fullmatch(each) for each in breaks):
                if turns:
                    yield _chat(start, name, turns)
                titles = [title[1] for each in breaks if (title := _BREAK.fullmatch(each)) and title[1]]
                start, name, turns = number, titles[-1] if titles else None, []
            turns.append((found[1].lower(), [found[2]]))
            breaks = []
        elif not text.strip() or _BREAK.fullmatch(text):
            breaks.append(text)
        elif turns:
            turns[-1][1].extend([*breaks, text])
            breaks = []
        else:
            yield Unread(number, "stands before the first speaker, such as User: or 用户：")
    if turns:
        yield _chat(start, name, turns)


def _chat(line: int, name: str | None, turns: Sequence[tuple[str, list[str]]]) -> Chat:
    return Chat(line, name, [pair for role, text in turns for pair in _message(role, "\n".join(text))])
