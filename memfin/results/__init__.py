"""Results of finished runs: the summary, the settings, and iterators over the records of a directory."""

import importlib
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from memfin.contracts import (
    BenchConfigFile,
    Comparison,
    ConfigFile,
    DialogTrace,
    EvalSummary,
    RagResult,
    Record,
    RunConfig,
    SoakSummary,
    TurnEvalRow,
)
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import RagSummary, read_sums
from memfin.contracts.reading import read_json
from memfin.errors import UsageError
from memfin.journal.artifacts import CONFIG
from memfin.results.columns import Column
from memfin.results.records import (
    TABLES,
    DialogResult,
    DialogTurn,
    ReplyFinding,
    Table,
    TableName,
    dialog_results,
)

if TYPE_CHECKING:
    import pandas as pd  # pyright: ignore[reportMissingImports]
    import polars as pl  # pyright: ignore[reportMissingImports]

S = TypeVar("S", bound=Record)

_POLARS: Final = {"int64": "Int64", "float64": "Float64", "bool_": "Boolean"}

_METHODS: Final = {
    "dialogues": "a run of dialogues: use rows(), traces(), dialogs(), turns() or findings()",
    "rag": "a run of a benchmark: use results()",
    "soak": "a soak: use epochs()",
}
_SUITES: Final[Mapping[type[Record], Literal["dialogues", "rag", "soak"]]] = {
    EvalSummary: "dialogues",
    RagSummary: "rag",
    SoakSummary: "soak",
}
_FIGURES: Final = {
    "dialogues": ("valid_dialogs", "total_turn_pairs"),
    "rag": ("total_tests", "passed_tests"),
    "soak": ("epochs",),
}


class Results(Generic[S]):
    """Directory of a finished run of dialogues or a benchmark, or of a soak with its finished epochs.

    Every iterator reads its file anew, a record at a time.

    Attributes:
        directory: where the artifacts are.
        suite: ``dialogues``, ``rag`` or ``soak``.
        summary: an `EvalSummary`, `RagSummary` or `SoakSummary`; that of a benchmark lists no individual
            results where it was read from the directory, `results` yields them.
    """

    def __init__(self, path: str | os.PathLike[str], summary: S | None = None) -> None:
        """Read the summary, unless it is given.

        Raises:
            UsageError: the directory holds no run, or one that has not finished.
        """
        self.directory: Final = Path(path)
        self.summary: Final[S] = _summary(self.directory) if summary is None else summary
        self.suite: Final = _SUITES[type(self.summary)]

    def __repr__(self) -> str:
        summary: Any = self.summary
        figures = summary.counters if self.suite == "dialogues" else summary
        shown = " ".join(f"{name}={figures[name]}" for name in _FIGURES[self.suite])
        return f"<Results {self.directory} {shown}>"

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return str(self.summary["run_id"])

    @cached_property
    def config(self) -> RunConfig:
        """The resolved settings; a `BenchConfig` if a benchmark was run."""
        is_rag = self.suite == "rag" or self.summary.get("suite") == "rag"
        return read_json(self.directory / CONFIG, BenchConfigFile if is_rag else ConfigFile).settings

    def rows(self) -> Iterator[TurnEvalRow]:
        """Return an iterator of the scored turns; raise `UsageError` unless it is a run of dialogues."""
        return self._read("rows")

    def traces(self) -> Iterator[DialogTrace]:
        """Return an iterator of the dialogues' traces; raise `UsageError` unless it is a run of dialogues."""
        return self._read("dialogs")

    def results(self) -> Iterator[RagResult]:
        """Return an iterator of the questions; raise `UsageError` unless it is a run of a benchmark."""
        return self._read("results")

    def dialogs(self) -> Iterator[DialogResult]:
        """Return an iterator of traces with their rows, in the order of the traces.

        Memory holds one dialogue and the place of every row in its file, about 50 bytes each.
        """
        self._table("findings")
        return dialog_results(self.directory)

    def turns(self) -> Iterator[DialogTurn]:
        """Return an iterator of the traces of the turns, in the order of `traces`."""
        return self._read("turns")

    def findings(self) -> Iterator[ReplyFinding]:
        """Return an iterator of the detectors' findings, in the order of `dialogs`."""
        return self._read("findings")

    def epochs(self) -> "Iterator[Results[Any]]":
        """Yield the complete epochs of a soak that are kept; of a plain run the run itself."""
        from memfin.report.comparison import run_directories  # noqa: PLC0415 - slow to import

        return (Results(path) for path in run_directories(self.directory))

    def to_pandas(self, what: TableName = "rows") -> "pd.DataFrame":
        """Return a table of ``memfin export`` as a pandas DataFrame, one column per field.

        A record in a field becomes columns named ``field.inner``. Lists of texts and numbers stay lists;
        dictionaries and lists of records become JSON text. A field that is left out is missing.

        Raises:
            UsageError: pandas is not installed, or the run has no such records.
        """
        library = _library("pandas")
        columns, values = self._cells(what)
        return library.DataFrame(values, columns=[column.name for column in columns])

    def to_polars(self, what: TableName = "rows") -> "pl.DataFrame":
        """Return a table of ``memfin export`` as a Polars DataFrame, with the columns of `to_pandas`.

        The type of a column is that of its field, so that frames of several runs can be concatenated.

        Raises:
            UsageError: polars is not installed, or the run has no such records.
        """
        library = _library("polars")
        columns, values = self._cells(what)
        schema = {
            column.name: column.nested(getattr(library, _POLARS.get(column.type, "String")), library.List)
            for column in columns
        }
        return library.DataFrame(values, schema=schema, orient="row")

    def _cells(self, what: TableName) -> tuple[list[Column], list[tuple[Any, ...]]]:
        columns = self._table(what).columns
        return columns, [tuple(column.cell(one) for column in columns) for one in self._read(what)]

    def _read(self, what: TableName) -> Iterator[Any]:
        return self._table(what).read(self.directory)

    def _table(self, what: TableName) -> Table:
        if what not in TABLES:
            raise UsageError(f"table {what!r}: must be one of {', '.join(TABLES)}")
        if not TABLES[what].is_in(self.directory):
            raise UsageError(f"{self.directory} has no {what}; it is {_METHODS[self.suite]}")
        return TABLES[what]


def _summary(path: Path) -> Any:
    from memfin.report.comparison import suite_of  # noqa: PLC0415 - slow to import

    if (path / "soak_summary.json").is_file():
        return read_json(path / "soak_summary.json", SoakSummary)
    match suite_of(path):
        case "samples":
            raise UsageError(f"{path}: a file; give the directory of a run, such as runs/RUN_ID")
        case "rag":
            return read_sums(path / RAG_SUMMARY)
        case _:
            return read_json(path / "metrics_summary.json", EvalSummary)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise UsageError(f"{problem}; to_{name} needs the extra: pip install 'memfin[{name}]'") from problem


def read_run(path: str | os.PathLike[str]) -> Results[Any]:
    """Return the results of a run, a benchmark's run or a soak from its directory.

    Raises:
        UsageError: the directory holds no run, or one that has not finished.
    """
    return Results(path)


RunLike = str | os.PathLike[str] | Results[Any]


def compare(a: RunLike, b: RunLike, *, margins: Mapping[str, float] | None = None) -> Comparison:
    """Compare run b with run a as ``memfin compare`` does: runs, soaks, or logs of inspect_ai.

    ``margins`` are, by the name of a value, how much worse b may be and still count as not inferior.

    Raises:
        UsageError: a directory holds no finished run, the two are of different suites or have nothing in
            common, or a margin names a value that they do not have.
    """
    from memfin.report.comparison import compare_runs  # noqa: PLC0415 - slow to import

    path_a, path_b = (run.directory if isinstance(run, Results) else Path(run) for run in (a, b))
    return compare_runs(path_a, path_b, margins)
