"""``memfin view``: runs in a browser, read-only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from memfin.language import LANGUAGES, Language, locale_language


def server_options(port: int, variable: str) -> Callable[[Any], Any]:
    """Return a decorator with the options of a server of pages; its port, and the variable of its token."""

    def decorate(command: Any) -> Any:
        for option in reversed(
            (
                click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
                click.option(
                    "--port",
                    type=click.IntRange(0, 65535),
                    default=port,
                    show_default=True,
                    help="Port to listen on; 0 takes a free one.",
                ),
                click.option(
                    "--token",
                    metavar="TOKEN",
                    envvar=variable,
                    show_envvar=True,
                    help="Token that visitors need.  [default: none on loopback, elsewhere one is made and "
                    "printed]",
                ),
                click.option(
                    "--allowed-host",
                    "names",
                    metavar="NAME",
                    multiple=True,
                    help="A further host name of the server, as behind a proxy. Repeatable.",
                ),
                click.option(
                    "--lang",
                    "language",
                    type=click.Choice(LANGUAGES),
                    help="Language for browsers that ask for neither English nor Chinese.  [default: that of "
                    "the locale]",
                ),
            )
        ):
            command = option(command)
        return command

    return decorate


@click.command("view")
@click.argument("runs", metavar="[RUNS_DIR]", type=click.Path(path_type=Path), default=Path("runs"))
@server_options(8767, "MEMFIN_VIEW_TOKEN")
def command(
    runs: Path, host: str, port: int, token: str | None, names: tuple[str, ...], language: Language | None
) -> None:
    """Serve pages to read every turn of the runs in RUNS_DIR, by default runs.

    \b
    memfin view runs
    memfin view runs/RUN_ID --port 8080

    Prints one line with the address when it is ready, and serves until SIGINT or SIGTERM. Each turn is shown
    with its findings, the recalled memory, the required keys and the judge's verdict. Nothing is changed
    but an index, .view.sqlite in the directory of each run.
    """
    from memfin.web.view.serving import serve  # noqa: PLC0415 - no other command needs a server

    language = language or locale_language()
    serve(runs, host=host, port=port, names=names, token=token, language=language)
