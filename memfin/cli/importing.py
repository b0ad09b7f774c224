"""``memfin import``: dialogues made of other files."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from memfin.chats import Unread, read_chats
from memfin.cli.output import counted, note
from memfin.errors import GateFailed, RunFault, UsageError
from memfin.journal.disk import Disk
from memfin.validation.findings import file_text


@click.group("import")
def command() -> None:
    """Make a dataset of other files.

    \b
    memfin import chat support.jsonl --out data.jsonl
    """


@command.command("chat")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Dataset to write; must not exist."
)
def chat(file: Path, out: Path) -> None:
    """Turn the chat log FILE into dialogues; its replies become reference replies without tags.

    \b
    memfin import chat messages.jsonl --out data.jsonl   one {"messages": [...]} of OpenAI per line
    memfin import chat export.csv --out data.jsonl       columns conversation_id, role, content
    memfin import chat transcript.md --out data.jsonl    lines **User:** and **Assistant:**, 用户：

    What cannot be read is listed as file:line: reason. Exit code 0: everything was read. 1: something was
    not. 2: nothing was, and no file is written.
    """
    if out.exists():
        raise UsageError(f"{out} exists already; name another file")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no directory {out.parent}")
    written = unread = 0

    def lines() -> Iterator[bytes]:
        nonlocal written, unread
        for found in read_chats(file):
            if isinstance(found, Unread):
                click.echo(f"{file_text(file)}:{found.line}: {found.reason}", err=True)
                unread += 1
            else:
                written += 1
                yield msgspec.json.encode(found) + b"\n"
        if not written:
            raise UsageError(f"{file}: holds no conversation that can be read; nothing was written")

    try:
        Disk().write_whole(out, lines())
    except OSError as problem:
        raise RunFault(f"{out}: {problem.strerror or problem}") from problem
    line = f"{out}: {counted(written, 'dialogue')}"
    if unread:
        raise GateFailed(f"{line}; {counted(unread, 'part')} of {file} not read")
    note(line)
