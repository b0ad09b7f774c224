"""Corrected rates of runs with labels."""

from pathlib import Path
from typing import Final

from memfin.contracts import CorrectedValue
from memfin.contracts.validity import LABELS
from memfin.errors import UsageError
from memfin.report.reader import CORRECTIONS, ROWS, SUMMARY, TRACES
from memfin.text.lines import one_line
from memfin.web.view.runs import Catalog, Recent, state_of

Corrected = tuple[dict[str, CorrectedValue], str]
"""Rates by ``metric.value``, and why the labels of a run cannot be used."""

_NONE: Final[Corrected] = {}, ""


class CorrectedRates:
    """The corrected rates of the runs of a catalog, computed again once a file has changed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known = Recent[Corrected](100)

    def of(self, run: str) -> Corrected:
        """Return the corrected rates of a run; none of one whose files are links to other places."""
        files = self._catalog.files(run)
        paths = [files[name] for name in (SUMMARY, ROWS, TRACES) if name in files]
        if len(paths) < 3 or len({path.parent for path in paths}) > 1:  # noqa: PLR2004 - a finished run
            return _NONE
        directory = paths[0].parent
        own = [path for name in (LABELS, CORRECTIONS) if (path := directory / name).is_file()]
        if not own or any(path.is_symlink() for path in own):
            return _NONE
        return self._known.get(run, state_of((*paths, *own)), lambda: _read(directory))


def _read(directory: Path) -> Corrected:
    from memfin.validity.corrections import current_corrections  # noqa: PLC0415 - loads slowly

    try:
        found = current_corrections(directory, confined=True)
    except UsageError as problem:
        return {}, one_line(str(problem).replace(f"{directory}/", ""), 300)
    values = found.values if found is not None else {}
    return {name: value for name, value in values.items() if value is not None}, ""
