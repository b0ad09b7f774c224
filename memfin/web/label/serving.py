"""Server of the labelling pages."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import anyio

from memfin.contracts.validity import ADJUDICATED, LABELS
from memfin.errors import UsageError
from memfin.hosting import run as run_server
from memfin.language import Language
from memfin.validity.corrections import read_run
from memfin.validity.labelling import LabelStore, More, open_draw
from memfin.web.label.application import label_application
from memfin.web.label.views import MAX_NAME, LabelViews, reader_name
from memfin.web.view.index import Indexes
from memfin.web.view.runs import Catalog
from memfin.web.view.serving import checked_token


def serve(  # noqa: PLR0913 - one argument per option
    run: Path,
    *,
    labels: Path | None,
    number: int | None,
    more: More | None,
    seed: int | None,
    readers: int | None,
    reader: str | None,
    dataset: Path | None,
    on_warning: Callable[[str], object],
    host: str,
    port: int,
    names: tuple[str, ...],
    token: str | None,
    language: Language,
) -> None:
    """Serve pages to label turns of a run until SIGINT or SIGTERM; prints one line with the address.

    The arguments are the options of ``memfin label``. Of the draw, None is what the draw that is there has,
    or else the default; ``on_warning`` gets warnings of one line.

    Raises:
        UsageError: the run, its labels or an option cannot be used, or the address cannot be listened on.
    """
    token = checked_token(token, host)
    if reader is not None and not (reader and reader == reader_name(reader)):
        raise UsageError(f"--reader: not a name; give one of 1 to {MAX_NAME} characters, not {ADJUDICATED!r}")
    path = labels or run / LABELS
    if run.is_dir() and not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such directory; make it, or name another file with --labels")
    store = LabelStore(path)
    draw = open_draw(run, store, number=number, more=more, seed=seed, readers=readers)
    store.read()
    source = read_run(run, dataset=dataset).dataset
    if source is None:
        on_warning(
            "warning: the run's dataset is not at its place: turns whose trace has no profile are shown "
            "without constraints; name it with --dataset"
        )
    place = run.resolve()
    files = Catalog(place.parent, place.name).files(place.name)
    with TemporaryDirectory(prefix="memfin-label-") as spare:
        views = LabelViews(store, draw, files, Indexes(Path(spare)), dataset=source, reader=reader)
        app = label_application(views, host=host, names=names, token=token, language=language)

        async def serving() -> None:
            query = f"?token={quote(token)}" if token else ""
            await run_server(app, "label", host, port, path=f"/{query}", drained=True)

        anyio.run(serving)
