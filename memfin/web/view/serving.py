"""Server of the viewer."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

import anyio

from memfin.errors import UsageError
from memfin.hosting import is_loopback, run
from memfin.language import Language
from memfin.report.reader import MANIFEST
from memfin.report.soak_report import SUMMARY as SOAK_SUMMARY
from memfin.web.pages import fresh_secret
from memfin.web.view.application import view_application
from memfin.web.view.index import Indexes
from memfin.web.view.runs import Catalog
from memfin.web.view.views import Views

MIN_TOKEN: Final = 16
"""Characters of the shortest token."""


def serve(
    runs: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    names: tuple[str, ...] = (),
    token: str | None = None,
    language: Language = "en",
) -> None:
    """Serve the pages of runs until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Port 0 takes a free one, and on an address that the network can reach a missing token is made; the line
    has both. ``names`` are further host names, ``language`` is for browsers that ask for no known one.

    Raises:
        UsageError: there is no such directory, the token is too short, or the address cannot be listened on.
    """
    catalog, start = catalog_of(runs)
    token = checked_token(token, host)
    path = start + (f"?token={quote(token)}" if token else "")
    with TemporaryDirectory(prefix="memfin-view-") as spare:
        views = Views(catalog, Indexes(Path(spare)))
        app = view_application(views, host=host, names=names, token=token, language=language)

        async def serving() -> None:
            await run(app, "view", host, port, path=path)

        anyio.run(serving)


def catalog_of(runs: Path) -> tuple[Catalog, str]:
    """Return the runs of a directory, or a single run, and the path of the first page.

    Raises:
        UsageError: there is no such directory.
    """
    if not runs.is_dir():
        state = "not a directory" if runs.exists() else "no such directory"
        raise UsageError(f"{runs}: {state}; give the directory of runs, such as runs")
    if any((runs / name).is_file() for name in (MANIFEST, SOAK_SUMMARY)):
        only = runs.resolve().name
        return Catalog(runs.resolve().parent, only), f"/runs/{quote(only)}"
    return Catalog(runs), "/"


def checked_token(token: str | None, host: str) -> str | None:
    """Return the token of a server, a new one where the network can reach it and none was given.

    Raises:
        UsageError: the token is too short.
    """
    if token is not None and len(token) < MIN_TOKEN:
        raise UsageError(
            f"--token: {len(token)} characters; give at least {MIN_TOKEN}, or none to have one made"
        )
    return fresh_secret() if token is None and not is_loopback(host) else token
