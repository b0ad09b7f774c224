"""Exporters of runs by name: the built-in ones, those of plugins, and functions by reference."""

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args

import msgspec

from memfin.errors import MemfinError, RunFault, UsageError
from memfin.exchange.tables import TableFormat, export_tables
from memfin.results import Results, read_run
from memfin.sandbox.plugins import plugin_reference
from memfin.sandbox.references import check_signature, describe, import_reference

Exporter = Callable[[Results[Any], Path], Mapping[str, int]]
"""Writes files of a run into an empty directory; returns their numbers of records by file name."""

BUILT_IN: Final[Mapping[str, str]] = {
    "otel": "memfin.exchange.export_otel:export",
    "inspect": "memfin.exchange.export_inspect:export",
    "langfuse": "memfin.exchange.export_langfuse:export",
}
"""Modules of the exporters, imported only when one is named."""

_FORMS: Final = ", ".join((*get_args(TableFormat), *BUILT_IN, "a plugin's name or pkg.module:function"))
_EXPECTED: Final = "a function (run, out) that returns the numbers of records by file name"


def export_run(directory: Path, out: Path, form: str) -> dict[str, int]:
    """Write a run in a form into a new directory, and return the numbers of records by file name.

    The directory is written under a temporary name, and nothing is left of it after an error.

    Raises:
        UsageError: there is no such exporter or no such run, or ``out`` exists.
        RunFault: the exporter raised, or returned something else; or the file system refuses.
    """
    if form in get_args(TableFormat):  # of a run that has not finished, too
        write = partial(export_tables, directory, form=cast("TableFormat", form))
    else:
        label = f"exporter {form!r}"
        reference = BUILT_IN.get(form) or plugin_reference("exporter", form, _FORMS, "memfin.exporters")
        exporter: Exporter = import_reference("exporter", reference, _FORMS)
        check_signature(label, exporter, ("run", "out"), _EXPECTED)
        write = partial(_counts, label, exporter, read_run(directory))
    if out.exists():
        raise UsageError(f"{out} exists; remove it or name another directory")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no directory {out.parent}")
    unfinished = out.absolute().with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        unfinished.mkdir()
        counts = write(unfinished)
        unfinished.rename(out)
    except OSError as problem:
        raise RunFault(f"cannot write {out}: {problem.strerror or problem}") from problem
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return counts


def _counts(label: str, exporter: Exporter, run: Results[Any], out: Path) -> dict[str, int]:
    try:
        counts = msgspec.convert(exporter(run, out), dict[str, Annotated[int, msgspec.Meta(ge=0)]])
    except (MemfinError, KeyboardInterrupt):
        raise
    except msgspec.ValidationError as problem:
        raise RunFault(f"{label}: returned no numbers of records by file name: {problem}") from problem
    except BaseException as problem:  # SystemExit, too
        raise RunFault(f"{label}: raised {describe(problem)}") from problem
    for name in counts:
        if Path(name).name != name or not (out / name).is_file():
            raise RunFault(f"{label}: returned {name!r}, and wrote no file of that name")
    return counts
