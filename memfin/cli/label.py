"""``memfin label``: turns of a run are labelled in a browser."""

from pathlib import Path
from typing import Any

import click

from memfin.cli.options import FILE, RUN_DATASET
from memfin.cli.output import note
from memfin.cli.view import server_options
from memfin.language import Language, locale_language


@click.command("label")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--draw", "number", metavar="N", type=click.IntRange(min=1), help="Turns to draw.  [default: 100]"
)
@click.option(
    "--more",
    type=click.Choice(["detector", "unsure"]),
    help="Draw turns with violations found, or those that rules, classifier or judge are unsure of, 4 times "
    "as often.",
)
@click.option("--seed", type=int, help="Seed of the draw.  [default: 0]")
@click.option("--readers", type=click.IntRange(1, 2), help="Readers of each turn.  [default: 1]")
@click.option("--reader", metavar="NAME", help="Name of the only reader.  [default: each visitor is asked]")
@click.option("--labels", metavar="FILE", type=FILE, help="File of the labels.  [default: RUN/labels.jsonl]")
@RUN_DATASET
@server_options(8768, "MEMFIN_LABEL_TOKEN")
def command(run: Path, *, language: Language | None, **options: Any) -> None:
    """Serve pages on which people label turns of RUN, drawn at random.

    \b
    memfin label runs/my_run
    memfin label runs/my_run --draw 200 --more unsure --readers 2

    The draw is stored beside the labels, label_draw.json, and the command goes on with it when it is
    started again. Each label is on the disk before the page goes on. memfin correct takes the labels.
    Prints one line with the address when it is ready, and serves until SIGINT or SIGTERM.
    """
    from memfin.web.label.serving import serve  # noqa: PLC0415 - no other command needs a server

    serve(run, on_warning=note, language=language or locale_language(), **options)
