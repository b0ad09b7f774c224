"""``memfin validity``: agreement of the detectors, or of a judge, with labelled replies."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

import anyio
import click
import msgspec

from memfin.cli.options import (
    SettingsCommand,
    config_option,
    output_flags,
    read_config,
    setting_options,
    with_options,
)
from memfin.cli.output import INTERVAL, counted, note, print_table
from memfin.cli.process import STUCK_EXIT
from memfin.contracts import Disagreement, RunConfig, ValidityReport
from memfin.errors import GateFailed, UsageError
from memfin.runtime.watchdog import LoopWatchdog
from memfin.sandbox.references import one_line
from memfin.validity.gates import failed_gates, parse_gate
from memfin.validity.measurement import InvalidLabels, measure_validity

SETTINGS: Final = setting_options(
    RunConfig,
    ("runs_dir", "turn_timeout", "seed"),
    groups=("Judge",),
    judge={
        "default": None,
        "help": "Measure a judge: openai:MODEL or pkg.module:factory.  [default: the offline detectors]",
        "extra": {"group": "Judge", "variable": None},
    },
    judge_scope={
        "default": "all",
        "help": "Readings of the judge: the rubric alone (m5), or contradictions, risk tags and compliance "
        "too; uncertain is the same as all.",
        "extra": {"group": "Judge", "variable": None},
    },
)
"""Settings of a run that are for its judge; what is measured comes from flags alone."""


def _read_config(path: Path) -> dict[str, Any]:
    """Return the file's settings of the judge."""
    names = {option.name for option in SETTINGS if option.envvar}
    return {name: value for name, value in read_config(path).items() if name in names}


@click.command("validity", cls=SettingsCommand)
@click.argument("labels", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--fail-under",
    multiple=True,
    metavar="NAME=X",
    help="Exit 1 when the value is below X, such as risk_tags.micro_f1=0.9. Repeatable.",
)
@with_options(*SETTINGS, config_option(_read_config))
@output_flags("the report", quiet="No progress.")
def command(
    labels: tuple[Path, ...], fail_under: tuple[str, ...], *, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Measure the detectors, or a judge, against the labelled replies of LABELS.

    \b
    memfin validity labels.jsonl
    memfin validity first.jsonl second.jsonl --json --fail-under risk_tags.micro_f1=0.9
    memfin validity labels.jsonl --judge openai:my-model --workers-judge 16

    A line of LABELS is a reply with what careful readers found in it: memfin schema labelled-reply.
    A field or tag that a line lacks is not scored. Prints precision, recall, F1, kappa, intervals,
    the confusion of compliance labels, and every disagreement with the words behind it.

    Exit codes: 0 done, 1 a gate failed or every judgement did, 2 bad usage or input, 3 stopped by a fault.
    """
    gates = dict(parse_gate(text) for text in fail_under)
    with tempfile.TemporaryFile() as spool:
        report = _measured(labels, settings, spool, quiet=quiet)
        spool.seek(0)
        if as_json:
            _print_json(report, spool)
        else:
            _print_tables(report, spool)
    sys.stdout.flush()
    _warn(report)
    problems = failed_gates(report, gates)
    if report.judge is not None and report.judge.failed and report.judge.failed == report.judge.asked:
        problems.append(f"every one of the {report.judge.asked} judgements failed")
    if problems:
        raise GateFailed("; ".join(problems))


def _measured(
    labels: tuple[Path, ...], settings: dict[str, Any], spool: IO[bytes], *, quiet: bool
) -> ValidityReport:
    """Measure in a loop of its own; disagreements wait in the spool, one per line."""
    judge = settings["judge"]

    async def main() -> ValidityReport:
        async with contextlib.AsyncExitStack() as stack:
            if judge is not None and ":" in judge and not judge.startswith("openai:"):
                await stack.enter_async_context(_watchdog(judge, settings["turn_timeout"]))
            return await measure_validity(
                labels,
                on_disagreement=lambda found: spool.write(msgspec.json.encode(found) + b"\n"),
                on_progress=None if quiet else _progress(),
                on_warning=lambda line: note(f"warning: {line}"),
                **settings,
            )

    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for data, not for what judges print
            return anyio.run(main)
    except InvalidLabels as invalid:
        for finding in invalid.findings:
            click.echo(one_line(str(finding)), err=True)
        count = counted(len(invalid.findings), "finding")
        raise UsageError(f"{count} in the labels; nothing was measured") from None


def _progress() -> Callable[[int, int], None]:
    """Return a function that prints every few seconds how many replies are done."""
    printed = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= INTERVAL:
            printed = time.monotonic()
            note(f"{done} of {total} replies")

    return show


def _watchdog(judge: str, limit: float) -> LoopWatchdog:
    """Name a judge that blocks the loop; end the process when it never gives it back."""

    def warn(seconds: float) -> None:
        note(
            f"warning: judge {judge} has blocked the event loop for {seconds:.1f} s; "
            "make its judge a plain function, or await instead of blocking"
        )

    def give_up(seconds: float) -> None:
        note(f"judge {judge} has blocked the event loop for {seconds:.0f} s, over its time-out")
        os._exit(STUCK_EXIT)

    return LoopWatchdog(warn, give_up, limit + 5.0)


def _warn(report: ValidityReport) -> None:
    """Print what the figures leave out."""
    for field, names in dict(report.unknown).items():
        for name, rows in names.items():
            note(f"warning: {field} {name!r} is unknown and not scored ({rows} rows)")
    if (judge := report.judge) is not None and judge.failures:
        first = judge.failures[0]
        note(
            f"warning: {judge.failed} of {judge.asked} judgements failed and are in no figure; "
            f"the first, {first.file}:{first.line}: {first.reason}"
        )
    sections = (report.risk_tags, report.contradiction, report.compliance, report.forbidden, report.rubric)
    if not any(scores is not None and scores.rows for scores in sections):
        note(f"warning: no reply has a label for {report.measured}")


def _print_json(report: ValidityReport, spool: IO[bytes]) -> None:
    """Print the report with its disagreements, which may be many, one at a time."""
    whole = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    head, _, _ = whole.rpartition("[]\n}")
    click.echo(f"{head}[", nl=False)
    for number, line in enumerate(spool):
        click.echo(f"{',' if number else ''}\n    {line.decode().rstrip()}", nl=False)
    click.echo("\n  ]\n}")


def _print_tables(report: ValidityReport, spool: IO[bytes]) -> None:
    from memfin.validity.table import disagreement_text, tables  # noqa: PLC0415 - rich loads slowly

    files = ", ".join(one_line(file.path) for file in report.files)
    who = "offline detectors" if report.judge is None else f"judge {one_line(report.measured)}"
    click.echo(f"{who} against {report.rows} labelled replies of {files}\n")
    for table in tables(report):
        print_table(table, highlight=False)
        click.echo()
    if report.judge is not None and report.judge.stats is not None:
        stats = report.judge.stats
        click.echo(
            f"judged: {report.judge.asked}, failed: {report.judge.failed}, "
            f"tokens: {stats.prompt_tokens} + {stats.completion_tokens}, from the cache: {stats.cache_hits}\n"
        )
    count = 0
    for count, line in enumerate(spool, 1):  # noqa: B007 - the count is used below
        click.echo(disagreement_text(msgspec.json.decode(line, type=Disagreement)))
    click.echo(counted(count, "disagreement"))
