"""``memfin score``: rows and metrics from a recorded trace."""

import sys
from pathlib import Path
from typing import Any

import click

from memfin.cli.progress import progress_view
from memfin.cli.run import present, results, run_to_end, write_reports
from memfin.contracts import HistoryMode
from memfin.errors import GateFailed, UsageError
from memfin.runtime.gates import judge_gates_failed_by
from memfin.runtime.rescore import RescorePlan


@click.command("score", short_help="Score a recorded trace without asking an agent.")
@click.argument("dialog_trace", type=click.Path(path_type=Path))
@click.option(
    "--dataset", type=click.Path(path_type=Path), required=True, help="The dataset that was replayed."
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Directory to create for the result."
)
@click.option(
    "--judge",
    default="heuristic",
    show_default=True,
    help="Judge of the replies: heuristic, none, openai:MODEL or pkg.module:factory.",
)
@click.option(
    "--history",
    type=click.Choice(["free", "forced"]),
    help="History mode of the recorded run.  "
    "[default: what the trace or the run's config.json says, else free]",
)
@click.option("--workers-judge", type=int, default=2, show_default=True, help="Judgements made at a time.")
@click.option(
    "--workers-score",
    type=int,
    help="Processes that score replies; 0 scores them in a thread.  [default: cores minus one]",
)
@click.option(
    "--score-timeout",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds that scoring a reply may take.",
)
@click.option(
    "--score-chars",
    type=int,
    default=100_000,
    show_default=True,
    help="Characters of a reply that are scored, at most: its first.",
)
@click.option("--judge-rpm", type=float, help="Judge requests a minute, at most, in every window.")
@click.option("--judge-tpm", type=float, help="Tokens a minute of an openai judge, at most, in every window.")
@click.option(
    "--judge-scope",
    type=click.Choice(["m5", "uncertain", "all"]),
    default="m5",
    show_default=True,
    help="What verdicts decide: M5 alone, or contradictions, risk tags and compliance as well, of all "
    "turns or of those that rules and classifier leave uncertain.",
)
@click.option(
    "--judge-votes",
    type=int,
    default=1,
    show_default=True,
    help="Judgements of each turn by an openai judge, in varied order; the median counts.",
)
@click.option(
    "--judge-patience",
    type=float,
    default=600.0,
    show_default=True,
    help="Seconds the endpoint of an openai judge may be down before the scoring stops.",
)
@click.option(
    "--judge-cache",
    type=click.Choice(["off", "read", "write"]),
    default="write",
    show_default=True,
    help="Whether verdicts are taken from the cache, and added to it (write).",
)
@click.option("--judge-cache-dir", help="Where the cache is.  [default: runs/.judge_cache]")
@click.option(
    "--judge-max-tokens",
    type=int,
    default=2048,
    show_default=True,
    help="Tokens of an openai judge's answer, at most; a model that thinks aloud needs more.",
)
@click.option(
    "--fail-on-judge-error",
    type=float,
    metavar="N",
    help="Exit 1 when N judgements or more failed; below 1 a share of the judged turns, 0 for any.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Sent to an openai judge.")
@click.option(
    "--turn-timeout", type=float, default=120.0, show_default=True, help="Seconds a judge has for a turn."
)
@click.option("--json", "as_json", is_flag=True, help="Print the metrics summary as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="No progress and no table.")
def command(
    dialog_trace: Path,
    dataset: Path,
    out: Path,
    judge: str,
    history: HistoryMode | None,
    *,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Rebuild turn_eval.jsonl and the metrics from DIALOG_TRACE.

    \b
    memfin score runs/my_run/dialog_trace.jsonl --dataset my_dialogs.jsonl --out rescored

    The directory gets everything that a run writes, so that it can be reported and compared.
    """
    try:
        plan = RescorePlan(dialog_trace, dataset, out, judge=judge, history=history, **settings)
    except OSError as problem:
        raise UsageError(f"{problem.filename or dialog_trace}: {problem.strerror or problem}") from problem
    if not plan.history_known:
        click.echo(
            "memfin: warning: nothing says which history mode the trace was made with; "
            "free is assumed, say --history forced if it was that",
            err=True,
        )
    with progress_view(quiet=quiet) as view:
        summary, stats = results(run_to_end(plan, view))
    present(summary, stats, write_reports(plan.directory), plan.config, as_json=as_json, quiet=quiet)
    sys.stdout.flush()
    if gates := judge_gates_failed_by(
        stats.judged_turns, stats.judge_failures, plan.config.fail_on_judge_error
    ):
        raise GateFailed("; ".join(gates))
