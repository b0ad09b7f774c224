"""``memfin view``: runs in a browser, read-only."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from memfin.cli.options import F, with_options
from memfin.cli.output import INTERVAL, MIB, note
from memfin.errors import UsageError
from memfin.language import LANGUAGES, Language, locale_language, tr, use_language
from memfin.sandbox.references import one_line

SERVER: Final = {"host": "--host", "port": "--port", "token": "--token", "names": "--allowed-host"}
"""Options that only a server has."""


def server_options(port: int, variable: str) -> Callable[[F], F]:
    """Return a decorator with the options of a server of pages; its port, and the variable of its token."""
    return with_options(
        click.Option(["--host"], default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.Option(
            ["--port"],
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="Port to listen on; 0 takes a free one.",
        ),
        click.Option(
            ["--token"],
            metavar="TOKEN",
            envvar=variable,
            show_envvar=True,
            help="Token that visitors need.  [default: none on loopback, elsewhere one is made and printed]",
        ),
        click.Option(
            ["--allowed-host", "names"],
            metavar="NAME",
            multiple=True,
            help="A further host name of the server, as behind a proxy. Repeatable.",
        ),
        click.Option(
            ["--lang", "language"],
            type=click.Choice(LANGUAGES),
            help="Language for browsers that ask for neither English nor Chinese.  [default: that of the "
            "locale]",
        ),
    )


@click.command("view")
@click.argument("runs", metavar="[RUNS_DIR]", type=click.Path(path_type=Path), default=Path("runs"))
@server_options(8767, "MEMFIN_VIEW_TOKEN")
@click.option(
    "--export",
    "out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the pages in the language of --lang into DIR as files that open without a server: "
    "DIR/index.html.",
)
@click.pass_context
def command(
    context: click.Context,
    *,
    runs: Path,
    host: str,
    port: int,
    token: str | None,
    names: tuple[str, ...],
    language: Language | None,
    out: Path | None,
) -> None:
    """Serve pages to read every turn of the runs in RUNS_DIR, by default runs.

    \b
    memfin view runs
    memfin view runs/RUN_ID --port 8080
    memfin view runs/RUN_ID --export site         static files; site is new, empty or an earlier export

    Prints one line with the address when it is ready, and serves until SIGINT or SIGTERM. Each turn is shown
    with its findings, the recalled memory, the required keys and the judge's verdict. Nothing is changed
    but an index, .view.sqlite in the directory of each run.
    """
    language = language or locale_language()
    if out is not None:
        for name, option in SERVER.items():  # a token of the environment may stand beside --export
            if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                raise UsageError(
                    f"{option} is for the server, and --export needs none; leave one of them out"
                )
        _export(runs, out, language)
        return
    from memfin.web.view.serving import serve  # noqa: PLC0415 - no other command needs a server

    serve(runs, host=host, port=port, names=names, token=token, language=language)


def _export(runs: Path, out: Path, language: Language) -> None:
    from memfin.web.view.export import export_pages  # noqa: PLC0415 - no other command needs a server

    printed = time.monotonic()

    def on_page(pages: int, known: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= INTERVAL:
            printed = time.monotonic()
            note(f"{pages:,} pages written of {known:,} found so far")

    found = export_pages(runs, out, language, on_page)
    with use_language(language):
        if found.problems:
            count, (path, words) = len(found.problems), next(iter(found.problems.items()))
            note(tr("pages with a problem: {count:,}; {path}: {words}", count=count, path=path, words=words))
        numbers = {"pages": found.pages, "size": found.size / MIB}
        line = tr(
            "{index} written; pages: {pages:,}, size: {size:,.1f} MiB", index=out / "index.html", **numbers
        )
    click.echo(one_line(line))
