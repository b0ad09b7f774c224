"""``memfin label``: turns of a run are labelled in a browser."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfin.cli.correct import DATASET, FILE
from memfin.cli.output import note
from memfin.language import LANGUAGES, Language, locale_language

if TYPE_CHECKING:
    from memfin.validity.labelling import More


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
@DATASET
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8768,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--token",
    metavar="TOKEN",
    envvar="MEMFIN_LABEL_TOKEN",
    show_envvar=True,
    help="Token that visitors need.  [default: none on loopback, elsewhere one is made and printed]",
)
@click.option(
    "--allowed-host",
    "names",
    metavar="NAME",
    multiple=True,
    help="A further host name of the server, as behind a proxy. Repeatable.",
)
@click.option(
    "--lang",
    "language",
    type=click.Choice(LANGUAGES),
    help="Language for browsers that ask for neither English nor Chinese.  [default: that of the locale]",
)
def command(  # noqa: PLR0913 - one argument per option
    run: Path,
    *,
    number: int | None,
    more: "More | None",
    seed: int | None,
    readers: int | None,
    reader: str | None,
    labels: Path | None,
    dataset: Path | None,
    host: str,
    port: int,
    token: str | None,
    names: tuple[str, ...],
    language: Language | None,
) -> None:
    """Serve pages on which people label turns of RUN, drawn at random.

    \b
    memfin label runs/my_run
    memfin label runs/my_run --draw 200 --more unsure --readers 2

    The draw is stored beside the labels, label_draw.json, and the command goes on with it when it is
    started again. Each label is on the disk before the page goes on. memfin correct takes the labels.
    Prints one line with the address when it is ready, and serves until SIGINT or SIGTERM.
    """
    from memfin.web.label.serving import serve  # noqa: PLC0415 - no other command needs a server

    serve(
        run,
        labels=labels,
        number=number,
        more=more,
        seed=seed,
        readers=readers,
        reader=reader,
        dataset=dataset,
        on_warning=note,
        host=host,
        port=port,
        names=names,
        token=token,
        language=language or locale_language(),
    )
