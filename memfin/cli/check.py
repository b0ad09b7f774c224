"""``memfin check``: findings of the offline detectors in replies, without a dataset."""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import click
import msgspec

from memfin.cli.output import counted, note
from memfin.cli.replies import Reply, Unread, open_replies, read_replies
from memfin.contracts import CheckedFinding, CheckedReply, Finding
from memfin.contracts.turn_eval import FindingKind
from memfin.errors import GateFailed, UsageError
from memfin.sandbox.references import one_line
from memfin.scoring import compliance, risk
from memfin.scoring.constraint_texts import unread_constraints
from memfin.scoring.contradiction import ConstraintChecker, Contradiction
from memfin.scoring.detectors import read_content
from memfin.scoring.statements import Analysis
from memfin.text.lines import printable

MAX_PROBLEMS: Final = 20
"""Unreadable lines per file, and constraints, that are reported one by one."""

MAX_WORDS: Final = 120
"""Characters of a reply that a line shows."""

_COUNTED: Final = {"severe": "severe findings", "minor": "minor findings", "contradiction": "contradictions"}
_UNDECIDED: Final = "a proposal bears on it, and the rules do not decide it"


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--constraint",
    "constraints",
    metavar="TEXT",
    multiple=True,
    help="A constraint of the client for all replies, such as 'no leverage'. Repeatable.",
)
@click.option("--quiet", is_flag=True, help="Print severe, minor and contradictions only.")
@click.option("--json", "as_json", is_flag=True, help="Print each reply as a JSON object.")
def command(files: tuple[str, ...], constraints: tuple[str, ...], *, quiet: bool, as_json: bool) -> None:
    """Print the findings of the offline detectors in replies as file:line: label: words (rule).

    \b
    memfin check reply.md                                      a text or Markdown file is one reply
    memfin check - < reply.txt                                 standard input
    memfin check replies.jsonl --constraint '最大回撤<10%'     rows with text, id, user_text, constraints
    memfin check chat.jsonl --quiet                            OpenAI messages; assistant ones are replies
    memfin check runs/RUN_ID/dialog_trace.jsonl --json         replies of a recorded run

    Labels are severe, minor, contradiction, undecided and disclosure, each with what it is about. The line
    is that of the finding in a text, and that of the row, with its id, in JSONL. A line that cannot be read
    is reported and counted, and the others are checked. No finding means that no rule fired, not that a reply
    is compliant. memfin schema checked-reply describes the objects of --json.

    Exit codes: 0 nothing severe, 1 a severe violation was found, 2 bad usage, or something was not read.
    """
    if quiet and as_json:
        raise UsageError("--quiet leaves out lines of text; with --json choose among the findings by kind")
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
                    checked = check_reply(found, name, constraints)
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

    def add(self, checked: CheckedReply) -> None:
        """Count a reply; name its constraints that are not understood, each once."""
        self._replies += 1
        self._kinds.update({each.kind for each in checked.findings})
        self._silent += not checked.findings and not checked.undecided
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
        if self._lines or self.unread_files:
            raise UsageError(summary + unread)
        if self._kinds["severe"]:
            raise GateFailed(f"{summary}nothing")
        note(f"{summary}nothing")


def lines_of(checked: CheckedReply, *, quiet: bool) -> Iterator[str]:
    """Yield a line for each finding: violations and contradictions, what is undecided, disclosures.

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
    first = sum(each.kind != "disclosure" for each in checked.findings)
    undecided = [(checked.line, f"undecided {one_line(text)}: {_UNDECIDED}") for text in checked.undecided]
    for line, text in shown[:first] if quiet else (*shown[:first], *undecided, *shown[first:]):
        yield f"{checked.file}:{line}{name}: {text}"


def check_reply(reply: Reply, file: str, constraints: tuple[str, ...] = ()) -> CheckedReply:
    """Run the detectors over a reply of a file, with constraints besides its own."""
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
    return CheckedReply(
        file=file,
        line=reply.line,
        id=reply.id,
        compliance=reading.compliance if reading.categories else None,
        categories=reading.categories,
        risk_tags=reading.risk_tags,
        contradictions=[each.constraint for each in checked.broken],
        undecided=checked.undecided,
        unread_constraints=unread_constraints(constraints),
        unsure=reading.unsure,
        findings=sorted(findings, key=lambda each: (each.kind == "disclosure", each.start, each.end)),
    )


@lru_cache(maxsize=64)
def _checker(constraints: tuple[str, ...]) -> ConstraintChecker:
    return ConstraintChecker(constraints)


def _meanings(found: Finding, text: str, risk_tags: list[str]) -> Iterator[tuple[FindingKind, str]]:
    """Yield the kind and the name of what a finding shows; nothing for elements of an explanation.

    Some findings are misconduct only where the reply has no word of risk; its normal form is needed for that.
    """
    if found.field == risk.FIELD:
        yield "disclosure", found.value
    elif found.field == compliance.FIELD:
        for category in compliance.shown_categories(text, {found.value}, risk_tags):
            yield "severe" if category in compliance.SEVERE_CATEGORIES else "minor", category


def _finding(reply: Reply, kind: FindingKind, value: str, found: Finding | Contradiction) -> CheckedFinding:
    words = reply.text[found.start : found.end]
    first = found.start + len(words) - len(words.lstrip())
    line = reply.text.count("\n", 0, first) + 1 if reply.is_file else reply.line
    return CheckedFinding(
        kind=kind, value=value, rule=found.rule, line=line, start=found.start, end=found.end, words=words
    )
