"""``memfin import`` and ``export``: conversations as traces, question sets as benchmarks; exports of runs."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import click
import msgspec

from memfin.chats import Unread, read_chats
from memfin.cli.output import counted, note
from memfin.contracts.run import RUN_ID
from memfin.errors import GateFailed, RunFault, UsageError
from memfin.exchange.conversations import ImportStats
from memfin.exchange.exporters import export_run
from memfin.exchange.inspect_logs import import_inspect
from memfin.exchange.langfuse import import_langfuse
from memfin.exchange.openinference import SESSION
from memfin.exchange.otel import CONVERSATION, import_otel
from memfin.exchange.phoenix import import_phoenix
from memfin.journal.disk import Disk
from memfin.sandbox.references import one_line
from memfin.validation.findings import file_text


@click.group("import", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Turn recorded conversations into a trace or a dataset, and question sets into benchmarks.

    \b
    memfin import otel spans.jsonl --out dialog_trace.jsonl
    memfin import langfuse traces.jsonl observations.jsonl --out dialog_trace.jsonl
    memfin import phoenix spans.parquet --out dialog_trace.jsonl
    memfin import inspect logs/task.eval --out dialog_trace.jsonl
    memfin import chat support.jsonl --out data.jsonl
    memfin import ragbench questions.jsonl --out benchmarks
    memfin import locomo locomo10.json --out locomo.jsonl

    memfin import COMMAND --help has the details.
    """


def _trace_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the commands that write a trace."""
    command = click.option(
        "--run-id", default="imported", show_default=True, help="The run that the trace is of."
    )(command)
    return click.option(
        "--out", metavar="TRACE", required=True, type=click.Path(path_type=Path), help="File to create."
    )(command)


def _span_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments of the commands that import spans."""
    files = click.argument(
        "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )
    return files(_trace_options(command))


def _import(
    source: Callable[..., ImportStats],
    given: Path | Sequence[Path],
    out: Path,
    run_id: str,
    strays: tuple[str, str],
) -> None:
    """Import conversations and print the counts; ``strays`` names what may be left out, and what it lacks."""
    if not RUN_ID.match(run_id):
        raise UsageError(f"run id {run_id!r}: use 1 to 128 of the characters A-Z a-z 0-9 . _ -")
    stats = source(given, out, run_id=run_id)
    noun, lack = strays
    twins = f"{counted(stats.twins, noun)} with the id of an earlier one and other content"
    for count, first, of_what in (
        (stats.strays, stats.first_stray, f"{counted(stats.strays, noun)} {lack}"),
        (stats.twins, stats.first_twin, twins),
        (stats.silent, stats.first_silent, f"{counted(stats.silent, 'turn')} without the user's text"),
        (stats.scores, stats.first_score, f"{counted(stats.scores, 'score')} of Langfuse"),
    ):
        if count:
            note(f"warning: {first}: {of_what} left out, this the first")
    if stats.unfinished:
        note(f"warning: {given}: its status is {stats.unfinished}: only finished samples are in it")
    if stats.unanswered:
        note(f"warning: {counted(stats.unanswered, 'turn')} without a reply's text: nothing is scored there")
    click.echo(f"{counted(stats.dialogs, 'dialogue')}, {counted(stats.turns, 'turn')}: {one_line(str(out))}")


@command.command("otel")
@_span_options
def otel(files: tuple[Path, ...], out: Path, run_id: str) -> None:
    """Turn OpenTelemetry spans in OTLP FILEs into a dialogue trace.

    \b
    memfin import otel spans.jsonl --out dialog_trace.jsonl
    memfin score dialog_trace.jsonl --out scored

    Files are JSON as the collector's file exporter writes it, or protobuf (.pb, .binpb, .bin), with gzip or
    without. Spans with gen_ai.conversation.id, or with session.id of OpenInference, become dialogues, ordered
    by time.
    """
    _import(import_otel, files, out, run_id, ("span", f"without {CONVERSATION}"))


@command.command("langfuse")
@_span_options
def langfuse(files: tuple[Path, ...], out: Path, run_id: str) -> None:
    """Turn exports of Langfuse in FILEs into a dialogue trace.

    \b
    memfin import langfuse traces.jsonl observations.jsonl --out dialog_trace.jsonl
    memfin score dialog_trace.jsonl --out scored

    Files are JSON, JSONL, CSV or Parquet of traces and observations: answers of the API, exports of the
    pages or of blob storage. A session becomes a dialogue, each of its traces a turn.
    """
    _import(import_langfuse, files, out, run_id, ("record", "of other kinds"))


@command.command("phoenix")
@_span_options
def phoenix(files: tuple[Path, ...], out: Path, run_id: str) -> None:
    """Turn exports of Arize Phoenix in FILEs into a dialogue trace.

    \b
    memfin import phoenix spans.parquet --out dialog_trace.jsonl
    memfin score dialog_trace.jsonl --out scored

    Files are JSON, JSONL, CSV or Parquet of get_spans_dataframe, answers of the API, or OTLP in JSON. Spans
    with session.id become dialogues, ordered by time.
    """
    _import(import_phoenix, files, out, run_id, ("span", f"without {SESSION}"))


@command.command("inspect")
@_trace_options
@click.argument("log", type=click.Path(path_type=Path))
def inspect(log: Path, out: Path, run_id: str) -> None:
    """Turn the samples of the inspect_ai LOG (.eval, .json) into a dialogue trace.

    \b
    memfin import inspect logs/task.eval --out dialog_trace.jsonl
    memfin score dialog_trace.jsonl --out scored

    Needs pip install 'memfin[inspect]'. Each sample becomes a dialogue with a turn per user message.
    """
    _import(import_inspect, log, out, run_id, ("sample", ""))


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


@command.command("ragbench")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Directory or NAME.json to create."
)
@click.option(
    "--shape", type=click.Choice(("financebench", "ragas")), help="Shape of the files, if not by its fields."
)
def ragbench(files: tuple[Path, ...], out: Path, shape: Literal["financebench", "ragas"] | None) -> None:
    """Turn questions in the shape of FinanceBench or RAGAS into benchmarks for memfin bench.

    \b
    memfin import ragbench questions.jsonl --out benchmarks    a question file per document
    memfin import ragbench testset.csv --out testset.json      all about one document

    Files are JSON, JSONL, CSV or Parquet. Texts of pages or contexts become the document. The questions left
    out, and those to look at, are counted by reason, each with the first file:line.
    """
    from memfin.exchange.ragbench import import_ragbench  # noqa: PLC0415 - compiles its patterns slowly

    written, remarks = import_ragbench(files, out, shape)
    for remark, places in remarks.items():
        note(f"warning: {places[0]}: {counted(len(places), 'question')} {remark} (this the first)")
    for path, content in written.items():
        click.echo(f"{one_line(str(path))}: {content}")


def _memory_benchmark(name: str, title: str, example: str, text: str) -> click.Command:
    """Return the command that imports a memory benchmark; ``example`` is the name of its published file."""

    @click.command(
        name,
        help=f"""Turn the conversations and questions of {title} in FILE into sessions with probes.

        \b
        memfin import {name} {example} --out {name}.jsonl
        memfin run {name}.jsonl --probe-fork snapshot

        {text} What cannot be used is counted by reason.
        """,
    )
    @click.argument("file", type=click.Path(path_type=Path))
    @click.option(
        "--out", required=True, type=click.Path(path_type=Path), help="Dataset to write; must not exist."
    )
    @click.option("--expect-sha256", "expect", metavar="HEX", help="Refuse a file with another SHA-256.")
    @click.option(
        "--exclude",
        metavar="FILE|ID,...",
        multiple=True,
        help="Leave out these questions; FILE has an id a line.",
    )
    @click.option(
        "--exclude-known-errors",
        "exclude_errors",
        is_flag=True,
        help="Leave out the published answers that are listed as wrong, and evidence that is.",
    )
    def run(
        file: Path, out: Path, expect: str | None, exclude: tuple[str, ...], *, exclude_errors: bool
    ) -> None:
        from memfin.exchange.memory_benchmarks import import_benchmark  # noqa: PLC0415 - not for the others

        ids = [each for value in exclude for each in _ids(value)]
        found = import_benchmark(name, file, out, expect=expect, exclude=ids, exclude_errors=exclude_errors)
        click.echo(f"{one_line(str(file))}: SHA-256 {found.sha256}, {found.edition or 'unknown edition'}")
        if found.edition is None:
            note(f"warning: {file}: unknown edition, so figures may not compare with published ones")
        if exclude_errors and not found.listed:
            note("warning: no list of wrong answers ships for this edition, so none is left out")
        for (noun, remark), of in found.remarks.items():
            note(f"warning: {counted(len(of), noun)} {remark}: {of[0]} (this the first)")
        users, sessions = counted(found.users, "user"), counted(found.sessions, "session")
        probes, places = counted(found.probes, "probe"), counted(found.places, "place")
        click.echo(f"{one_line(str(out))}: {users}, {sessions}, {probes} with {places} of evidence")

    return run


def _ids(value: str) -> list[str]:
    """Return the ids in a file with one a line, or those of a list with commas."""
    if not (path := Path(value)).is_file():
        return value.split(",")
    try:
        return path.read_text("utf-8").split()
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"cannot read {path}: {problem}") from problem


for _benchmark in (
    ("locomo", "LoCoMo", "locomo10.json", "The words of both speakers are told to the agent."),
    (
        "longmemeval", "LongMemEval", "longmemeval_s_cleaned.json",
        "Each instance becomes a user with the sessions of its haystack.",
    ),
    (
        "memoryagentbench", "MemoryAgentBench", "Accurate_Retrieval.parquet",
        "A context is told in pieces of up to 4,000 characters.",
    ),
    ("beam", "BEAM", "beam_100k.jsonl", "Each batch of a chat becomes a session."),
    ("halumem", "HaluMem", "HaluMem-Medium.jsonl", "The questions of a session come after it."),
):  # fmt: skip
    command.add_command(_memory_benchmark(*_benchmark))


@click.command("export", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option(
    "--to", "form", metavar="FORMAT", required=True, help="A name as above, or pkg.module:function."
)
@click.option(
    "--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Directory to create."
)
def export(run_dir: Path, form: str, out: Path) -> None:
    """Write the records of a run as tables, as spans, or in the format of another tool.

    \b
    memfin export runs/my_run --to csv --out tables
    memfin export runs/my_run --to parquet --out tables      needs pip install 'memfin[parquet]'
    memfin export runs/my_run --to otel --out spans          OTLP spans with evaluation results
    memfin export runs/my_run --to langfuse --out batches    batches for the ingestion API
    memfin export runs/my_run --to inspect --out logs        needs pip install 'memfin[inspect]'
    memfin export runs/my_run --to NAME --out DIR            an exporter of a plugin

    Tables have a column per field; a record within a row has columns of its own, such as recall.query;
    mappings are JSON text, as are lists in CSV.
    """
    noun = "row" if form in {"csv", "parquet"} else "record"
    for name, records in export_run(run_dir, out, form).items():
        click.echo(f"{one_line(str(out / name))}: {counted(records, noun)}")
