"""``memfin merge``: one run of all its shards."""

from collections.abc import Sequence
from pathlib import Path

import click

from memfin.cli.ci import CiOutput, with_ci
from memfin.cli.options import UPLOAD, output_flags, with_language, with_options
from memfin.cli.output import noted_at_intervals
from memfin.cli.run import show_results
from memfin.errors import UsageError
from memfin.scale.merge import merge_shards
from memfin.scale.upload import check_target
from memfin.shards import SHARDS


@click.command("merge", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shards", metavar="SHARD...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Run directory to create.  [default: RUNS_DIR/RUN_ID beside RUN_ID.shards]",
)
@with_options(*UPLOAD)
@output_flags("the metrics summary", variables=True)
@with_language(variable=True)
@with_ci(variables=True)
def command(
    shards: tuple[Path, ...],
    out: Path | None,
    *,
    upload: str | None,
    as_json: bool,
    quiet: bool,
    ci: CiOutput,
) -> None:
    """Merge the shards of a run into one run.

    \b
    memfin merge runs/big.shards
    memfin merge host1/big.shards/0-of-2 host2/big.shards/1-of-2 --out runs/big

    SHARD is the run directory of a shard (memfin run --shard K/N), or RUN_ID.shards for all in it. All shards
    of the run have to be there and complete, and every row is held against its checksum. The merged run has
    the rows in the order of the dataset and the summary of a run that was never split, whatever the number of
    shards; then come the reports, the table and the gates, as after a run. The shards stay.

    No agent or judge is asked or imported; the dataset has to be where the shards had it. RUN is there
    complete or not at all: after an interruption, give the same command again. Exit codes are those of run.
    """
    target = out or default_out(shards)
    if upload is not None:
        check_target(upload, target)
    shown = noted_at_intervals(lambda done, total: f"merged {done:,} of {total:,} dialogues")
    merge_shards(shards, target, None if quiet else shown)
    show_results(target, as_json=as_json, quiet=quiet, ci=ci, upload=upload)


def default_out(shards: Sequence[Path]) -> Path:
    """Return the run directory beside the one directory that all shards are in.

    Raises:
        UsageError: they are not in one directory RUN_ID.shards.
    """
    parents = {path if path.name.endswith(SHARDS) else path.absolute().parent for path in shards}
    if len(parents) == 1 and (parent := parents.pop()).name.endswith(SHARDS):
        return parent.with_name(parent.name.removesuffix(SHARDS))
    raise UsageError("--out: is needed where the shards are not together in a directory RUN_ID.shards")
