"""``memfin check``: findings of the offline detectors in replies, without a dataset.

Replies are text, JSONL rows, chat logs and dialogue traces, one in memory at a time. The suffix of a file
decides where it is known (``.jsonl``, ``.ndjson``, ``.json``, ``.md``, ``.markdown``), otherwise the content:
a file that begins as a JSON object or an array of objects, or ends with a line that is one, is JSON; any
other is text.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from io import BytesIO
from itertools import chain
from pathlib import PurePath
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

import click
import msgspec

from memfin.cli.output import counted, note
from memfin.contracts import CheckedFinding, CheckedReply, Finding, Record
from memfin.contracts.reading import BOM, MAX_LINE_BYTES, InvalidRecord, Line, decode, iter_lines, open_input
from memfin.contracts.turn_eval import FindingKind
from memfin.errors import GateFailed, UsageError
from memfin.sandbox.references import one_line
from memfin.scoring import compliance, risk
from memfin.scoring.compliance import worst_label
from memfin.scoring.constraint_texts import unread_constraints
from memfin.scoring.contradiction import ConstraintChecker, Contradiction
from memfin.scoring.detectors import read_content
from memfin.scoring.statements import Analysis
from memfin.scoring.user_detectors import Detection, load_detectors, run_detector
from memfin.text.lines import printable

MAX_PROBLEMS: Final = 20
"""Unreadable lines per file, and constraints, that are reported one by one."""

MAX_WORDS: Final = 120
"""Characters of a reply that a line shows."""

_COUNTED: Final = {"severe": "severe findings", "minor": "minor findings", "contradiction": "contradictions"}
_OTHERS: Final = ("finding", "disclosure")
_UNDECIDED: Final = "a proposal bears on it, and the rules do not decide it"
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


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--constraint",
    "constraints",
    metavar="TEXT",
    multiple=True,
    help="A constraint of the client for all replies, such as 'no leverage'. Repeatable.",
)
@click.option(
    "--detector",
    "detectors",
    metavar="REF",
    multiple=True,
    help="Detector of your own, pkg.module:Name; its findings are added. Repeatable.",
)
@click.option("--quiet", is_flag=True, help="Print severe, minor and contradictions only.")
@click.option("--json", "as_json", is_flag=True, help="Print each reply as a JSON object.")
def command(
    files: tuple[str, ...],
    constraints: tuple[str, ...],
    detectors: tuple[str, ...],
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print the findings of the offline detectors in replies as file:line: label: words (rule).

    \b
    memfin check reply.md                                      a text or Markdown file is one reply
    memfin check - < reply.txt                                 standard input
    memfin check replies.jsonl --constraint '最大回撤<10%'     rows with text, id, user_text, constraints
    memfin check chat.jsonl --quiet                            OpenAI messages; assistant ones are replies
    memfin check runs/RUN_ID/dialog_trace.jsonl --json         replies of a recorded run

    Labels are severe, minor, contradiction, undecided, finding and disclosure, each with what it is about.
    The line is that of the finding in a text, and that of the row, with its id, in JSONL. A line that cannot
    be read is reported and counted, and the others are checked. No finding means that no rule fired, not that
    a reply is compliant. memfin schema checked-reply describes the objects of --json.

    Exit codes: 0 nothing severe, 1 a severe violation was found, 2 bad usage, or something was not read.
    """
    if quiet and as_json:
        raise UsageError("--quiet leaves out lines of text; with --json choose among the findings by kind")
    own = {name: reference for name, (reference, _) in load_detectors(detectors).items()}
    totals = _Totals()
    for file in files:
        name, unread = printable(file), 0
        try:
            with open_replies(file) as source:
                for found in read_replies(source, file):
                    if isinstance(found, Unread):
                        totals.add_unread(name, found, unread)
                        unread += 1
                        continue
                    checked = check_reply(found, name, constraints, own)
                    totals.add(checked)
                    for line in [msgspec.json.encode(checked)] if as_json else lines_of(checked, quiet=quiet):
                        click.echo(line)
        except UsageError as problem:
            totals.unread_files += 1
            note(f"{problem} (text, Markdown, JSON or JSONL; - is standard input)")
    totals.report()


class _Totals:
    """Counts of replies, of those with each kind of finding, and of what was not read."""

    def __init__(self) -> None:
        self._replies = 0
        self._silent = 0
        self._kinds: Counter[str] = Counter()
        self._lines = 0
        self.unread_files = 0
        self._constraints: set[str] = set()
        self._failed: Counter[str] = Counter()

    def add(self, checked: CheckedReply) -> None:
        """Count a reply; name its constraints that are not understood, each once."""
        self._replies += 1
        self._kinds.update({each.kind for each in checked.findings})
        self._silent += not checked.findings and not checked.undecided
        for detector, error in checked.get("detector_errors", {}).items():
            if not self._failed[detector]:
                note(
                    f"{checked.file}:{checked.line}: {detector} failed: {error}; further failures are counted"
                )
            self._failed[detector] += 1
        for text in checked.unread_constraints:
            if text not in self._constraints and len(self._constraints) < MAX_PROBLEMS:
                self._constraints.add(text)
                note(f"constraint {text!r} is not understood; no reply can contradict it")

    def add_unread(self, file: str, unread: Unread, before: int) -> None:
        """Count a line that was not read, after ``before`` others of the file."""
        self._lines += 1
        if before < MAX_PROBLEMS:
            note(f"{file}:{unread.line}: {unread.reason}")
        elif before == MAX_PROBLEMS:
            note(f"{file}: further lines that cannot be read are counted only")

    def report(self) -> None:
        """Print the sums as the last line.

        Raises:
            UsageError: something was not read.
            GateFailed: a reply holds a severe violation.
        """
        if self._silent == self._replies > 0:
            note(f"no rule fired in {counted(self._replies, 'reply', 'replies')}")
        found = ", ".join(f"{self._kinds[kind]} with {words}" for kind, words in _COUNTED.items())
        unread = f"{counted(self._lines, 'line')} and {counted(self.unread_files, 'file')}"
        summary = f"{counted(self._replies, 'reply', 'replies')}: {found}; not read: "
        if self._failed:
            failures = ", ".join(f"{name} in {count}" for name, count in self._failed.items())
            unread += f"; detectors failed: {failures}"
        if self._lines or self.unread_files or self._failed:
            raise UsageError(summary + unread)
        if self._kinds["severe"]:
            raise GateFailed(f"{summary}nothing")
        note(f"{summary}nothing")


def lines_of(checked: CheckedReply, *, quiet: bool) -> Iterator[str]:
    """Yield a line for each finding: violations and contradictions, what is undecided, the others.

    ``quiet`` leaves out what is neither a violation nor a contradiction.
    """
    name = "" if checked.id is None else f"[{printable(checked.id)}]"
    shown = [
        (
            each.line,
            f"{each.kind} {one_line(each.value)}: {one_line(each.words, MAX_WORDS)} ({one_line(each.rule)})",
        )
        for each in checked.findings
    ]
    first = sum(each.kind not in _OTHERS for each in checked.findings)
    undecided = [(checked.line, f"undecided {one_line(text)}: {_UNDECIDED}") for text in checked.undecided]
    for line, text in shown[:first] if quiet else (*shown[:first], *undecided, *shown[first:]):
        yield f"{checked.file}:{line}{name}: {text}"


def check_reply(
    reply: Reply,
    file: str,
    constraints: tuple[str, ...] = (),
    detectors: Mapping[str, str] = MappingProxyType({}),
) -> CheckedReply:
    """Run the detectors over a reply of a file, with constraints besides its own.

    ``detectors`` are references of users' detectors by name.
    """
    constraints = tuple(dict.fromkeys((*constraints, *reply.constraints)))
    analysis = Analysis(reply.text)
    reading = read_content(analysis, user_text=reply.user_text)
    checked = _checker(constraints).check(analysis)
    findings = [
        _finding(reply, kind, value, found)
        for found in reading.findings
        for kind, value in _meanings(found, analysis.text, reading.risk_tags)
    ]
    findings += [_finding(reply, "contradiction", each.constraint, each) for each in checked.broken]
    label = reading.compliance if reading.categories else None
    errors: dict[str, str] = {}
    for name, reference in detectors.items() if reply.text.strip() else ():
        result = run_detector(reference, reply.text, reply.user_text, constraints)
        if result.error is not None:
            errors[name] = result.error
        for each in result.found:
            named = each.replace(rule=f"{name}: {each.rule}" if each.rule else name)
            findings.append(_finding(reply, each.severity or "finding", each.value, named))
        if result.label != "compliant":
            label = worst_label(label or "compliant", result.label)
    return CheckedReply(
        file=file,
        line=reply.line,
        id=reply.id,
        compliance=label,
        categories=reading.categories,
        risk_tags=reading.risk_tags,
        contradictions=[each.constraint for each in checked.broken],
        undecided=checked.undecided,
        unread_constraints=unread_constraints(constraints),
        unsure=reading.unsure,
        findings=sorted(findings, key=lambda each: (each.kind in _OTHERS, each.start, each.end)),
        detector_errors=errors or msgspec.UNSET,
    )


_checker = lru_cache(maxsize=64)(ConstraintChecker)


def _meanings(found: Finding, text: str, risk_tags: list[str]) -> Iterator[tuple[FindingKind, str]]:
    """Yield the kind and the name of what a finding shows; nothing for elements of an explanation.

    Some findings are misconduct only where the reply has no word of risk; its normal form is needed for that.
    """
    if found.field == risk.FIELD:
        yield "disclosure", found.value
    elif found.field == compliance.FIELD:
        for category in compliance.shown_categories(text, {found.value}, risk_tags):
            yield "severe" if category in compliance.SEVERE_CATEGORIES else "minor", category


def _finding(
    reply: Reply, kind: FindingKind, value: str, found: Finding | Contradiction | Detection
) -> CheckedFinding:
    words = reply.text[found.start : found.end]
    first = found.start + len(words) - len(words.lstrip())
    line = reply.text.count("\n", 0, first) + 1 if reply.is_file else reply.line
    return CheckedFinding(
        kind=kind, value=value, rule=found.rule, line=line, start=found.start, end=found.end, words=words
    )


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
