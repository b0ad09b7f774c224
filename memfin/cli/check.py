"""``memfin check``: findings of the offline detectors in replies, without a dataset."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import click
import msgspec

from memfin.cli.check_view import lines_of
from memfin.cli.replies import Reply, Unread, open_replies, read_replies
from memfin.contracts import CheckedReply
from memfin.errors import GateFailed, UsageError
from memfin.sandbox.references import one_line
from memfin.text.lines import printable

MOST_TOLD: Final = 20
"""Lines of a file, and constraints, that are told one by one where they cannot be read."""


@click.command("check", short_help="Print the findings of the detectors in replies.")
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
    is told and counted, and the others are checked. No finding means that no rule fired, not that a reply
    is compliant. memfin schema checked-reply describes the objects of --json.

    Exit codes: 0 nothing severe, 1 a severe violation was found, 2 bad usage, or something was not read.
    """
    if quiet and as_json:
        raise UsageError("--quiet leaves out lines of text; with --json choose among the findings by kind")
    totals = _Totals()
    for file in files:
        name = printable(file)
        for checked in _checked(file, name, constraints, totals):
            if as_json:
                click.echo(msgspec.json.encode(checked))
                continue
            for line in lines_of(checked, quiet=quiet):
                click.echo(line)
    totals.tell()


class _Totals:
    """Counts of replies, of those with each kind of finding, and of what was not read."""

    def __init__(self) -> None:
        self._replies = 0
        self._silent = 0
        self._kinds: Counter[str] = Counter()
        self._lines = 0
        self._files = 0
        self._constraints: set[str] = set()

    def add(self, checked: CheckedReply) -> None:
        """Count a reply; name its constraints that are not understood, each once."""
        self._replies += 1
        self._kinds.update({each.kind for each in checked.findings})
        self._silent += not checked.findings and not checked.undecided
        for text in checked.unread_constraints:
            if text not in self._constraints and len(self._constraints) < MOST_TOLD:
                self._constraints.add(text)
                _tell(f"constraint {text!r} is not understood; no reply can contradict it")

    def add_unread(self, file: str, unread: Unread, told: int) -> None:
        """Count a line that was not read; ``told`` lines of the file were told before."""
        self._lines += 1
        if told < MOST_TOLD:
            _tell(f"{file}:{unread.line}: {unread.reason}")
        elif told == MOST_TOLD:
            _tell(f"{file}: further lines that cannot be read are counted only")

    def add_unread_file(self, problem: UsageError) -> None:
        """Count a file that was not opened."""
        self._files += 1
        _tell(f"{problem} (text, Markdown, JSON or JSONL; - is standard input)")

    def tell(self) -> None:
        """Tell the sums in a last line.

        Raises:
            UsageError: something was not read.
            GateFailed: a reply holds a severe violation.
        """
        if self._silent == self._replies > 0:
            _tell(f"no rule fired in {_counted(self._replies, 'reply', 'replies')}")
        found = ", ".join(
            f"{self._kinds[kind]} with {words}"
            for kind, words in (
                ("severe", "severe findings"),
                ("minor", "minor findings"),
                ("contradiction", "contradictions"),
            )
        )
        unread = f"{_counted(self._lines, 'line', 'lines')} and {_counted(self._files, 'file', 'files')}"
        summary = f"{_counted(self._replies, 'reply', 'replies')}: {found}; not read: "
        if self._lines or self._files:
            raise UsageError(summary + unread)
        if self._kinds["severe"]:
            raise GateFailed(f"{summary}nothing")
        _tell(f"{summary}nothing")


def _checked(file: str, name: str, constraints: tuple[str, ...], totals: _Totals) -> Iterator[CheckedReply]:
    """Yield the checked replies of a file; what cannot be read goes to the totals."""
    from memfin.cli.checking import check_reply  # noqa: PLC0415 - the lexicons load only when used

    told = 0
    try:
        with open_replies(file) as source:
            for found in read_replies(source, file):
                if isinstance(found, Reply):
                    checked = check_reply(found, name, constraints)
                    totals.add(checked)
                    yield checked
                else:
                    totals.add_unread(name, found, told)
                    told += 1
    except UsageError as problem:
        totals.add_unread_file(problem)


def _tell(line: str) -> None:
    click.echo(f"memfin: {one_line(line)}", err=True)


def _counted(number: int, noun: str, nouns: str) -> str:
    return f"{number} {noun if number == 1 else nouns}"
