"""``memfin import`` and ``export``: recorded conversations as traces, and records of a run as tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

import click
import msgspec

from memfin.chats import Unread, read_chats
from memfin.cli.output import counted, note
from memfin.contracts.run import RUN_ID
from memfin.errors import GateFailed, RunFault, UsageError
from memfin.exchange import inspect_logs
from memfin.exchange.otel import CONVERSATION, ImportStats, import_otel
from memfin.exchange.tables import TableFormat, export_tables
from memfin.journal.disk import Disk
from memfin.results import read_run
from memfin.validation.findings import file_text


@click.group("import", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Turn recorded conversations into a trace or a dataset.

    \b
    memfin import otel spans.jsonl --out dialog_trace.jsonl
    memfin import chat support.jsonl --out data.jsonl

    memfin import COMMAND --help has the details.
    """


@command.command("otel")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", metavar="TRACE", required=True, type=click.Path(path_type=Path), help="File to create."
)
@click.option("--run-id", default="imported", show_default=True, help="The run that the trace is of.")
def otel(files: tuple[Path, ...], out: Path, run_id: str) -> None:
    """Turn OpenTelemetry spans in OTLP FILEs into a dialogue trace.

    \b
    memfin import otel spans.jsonl --out dialog_trace.jsonl
    memfin score dialog_trace.jsonl --out scored

    Files are JSON as the collector's file exporter writes it, or protobuf (.pb, .binpb, .bin), with gzip or
    without. Spans with gen_ai.conversation.id become dialogues, ordered by time.
    """
    if not RUN_ID.match(run_id):
        raise UsageError(f"run id {run_id!r}: use 1 to 128 of the characters A-Z a-z 0-9 . _ -")
    stats = import_otel(files, out, run_id=run_id)
    _report(stats, out)


@command.command("inspect")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out", metavar="TRACE", required=True, type=click.Path(path_type=Path), help="File to create."
)
@click.option("--run-id", default="imported", show_default=True, help="The run that the trace is of.")
def inspect(log: Path, out: Path, run_id: str) -> None:
    """Turn the samples of the inspect_ai LOG (.eval, .json) into a dialogue trace.

    \b
    memfin import inspect logs/task.eval --out dialog_trace.jsonl
    memfin score dialog_trace.jsonl --out scored

    Needs pip install 'memfin[inspect]'. Each sample becomes a dialogue with a turn per user message.
    """
    if not RUN_ID.match(run_id):
        raise UsageError(f"run id {run_id!r}: use 1 to 128 of the characters A-Z a-z 0-9 . _ -")
    stats = inspect_logs.import_inspect(log, out, run_id=run_id)
    if stats.unfinished:
        note(f"warning: {log}: its status is {stats.unfinished}: only finished samples are in it")
    _report(stats, out)


def _report(stats: ImportStats, out: Path) -> None:
    """Print what an import has left out and written."""
    if stats.strays:
        spans = counted(stats.strays, "span")
        note(f"warning: {stats.first_stray}: {spans} without {CONVERSATION} left out, this the first")
    if stats.silent:
        turns = counted(stats.silent, "turn")
        note(f"warning: {stats.first_silent}: {turns} without the user's text left out, this the first")
    if stats.unanswered:
        note(f"warning: {counted(stats.unanswered, 'turn')} without a reply's text: nothing is scored there")
    click.echo(f"{counted(stats.dialogs, 'dialogue')}, {counted(stats.turns, 'turn')}: {out}")


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


@click.command("export", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "form",
    type=click.Choice([*get_args(TableFormat), "inspect"]),
    required=True,
    help="Format of the tables.",
)
@click.option(
    "--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Directory to create."
)
def export(run_dir: Path, form: str, out: Path) -> None:
    """Write the rows of a run, a soak or a benchmark as tables, a file per kind.

    \b
    memfin export runs/my_run --to csv --out tables
    memfin export runs/my_run --to parquet --out tables      needs pip install 'memfin[parquet]'
    memfin export runs/my_run --to inspect --out logs        needs pip install 'memfin[inspect]'

    A record within a row has columns of its own, such as recall.query; lists and mappings are JSON text.
    """
    if form == "inspect":
        run = read_run(run_dir)
        if out.exists():
            raise UsageError(f"{out} exists; remove it or name another directory")
        out.mkdir(parents=True)
        for name, count in inspect_logs.export(run, out).items():
            click.echo(f"{out / name}: {counted(count, 'sample')}")
        return
    for name, rows in export_tables(run_dir, out, cast("TableFormat", form)).items():
        click.echo(f"{out / name}.{form}: {counted(rows, 'row')}")
