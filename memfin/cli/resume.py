"""``memfin resume``: continue an interrupted run."""

from pathlib import Path

import click

from memfin.cli.options import output_flags
from memfin.cli.run import carry_out
from memfin.errors import UsageError
from memfin.runtime.resume import is_bench, make_resume_plan
from memfin.runtime.soak_directory import is_soak


@click.command("resume")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option(
    "--force",
    is_flag=True,
    help="Continue although the dataset, agent, judge, lexicon or MemFin has changed; the manifest notes it.",
)
@click.option(
    "--retry-failed",
    is_flag=True,
    help="Repeat failed and partial dialogues, failed judgements, and questions that the system failed on.",
)
@click.option("--metrics-port", type=int, metavar="PORT", help="Port for the Prometheus metrics of a soak.")
@output_flags("the metrics summary")
def command(
    run_dir: Path, *, force: bool, retry_failed: bool, metrics_port: int | None, as_json: bool, quiet: bool
) -> None:
    """Continue the run, the benchmark or the soak in RUN_DIR where it stopped.

    \b
    memfin resume runs/20260219_101855_ab12cd
    memfin resume runs/20260219_101855_ab12cd --retry-failed

    Whatever ended the run, committed replays are not asked again and committed judgements not made
    again; the metrics are those of a run that was never interrupted. Settings are the run's own, and
    relative paths in them start from the current directory. Exit codes are those of run.

    The agent and the judge that RUN_DIR names are imported and run: resume what you or people you trust
    began.
    """
    if is_soak(run_dir):
        if retry_failed:
            raise UsageError(
                "--retry-failed: only for runs; a soak counts its failures, and each of its epochs is a run"
            )
        from memfin.cli import soak  # noqa: PLC0415 - only a soak needs it

        soak.resume(run_dir, force=force, metrics_port=metrics_port, as_json=as_json, quiet=quiet)
        return
    if metrics_port is not None:
        raise UsageError(f"--metrics-port: only for soaks; {run_dir} is not one")
    if is_bench(run_dir):
        from memfin.cli import bench  # noqa: PLC0415 - only a benchmark needs it

        bench.resume(run_dir, force=force, retry_failed=retry_failed, as_json=as_json, quiet=quiet)
        return
    plan = make_resume_plan(run_dir, force=force, retry_failed=retry_failed)
    carry_out(plan, as_json=as_json, quiet=quiet)
