"""Results of finished runs: the summary, the settings, and iterators over the records of a directory."""

import importlib
import os
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import inspect

from memfin.contracts import (
    BenchConfigFile,
    Comparison,
    ConfigFile,
    DialogTrace,
    EvalSummary,
    Finding,
    RagResult,
    Record,
    RunConfig,
    SoakSummary,
    TurnEvalRow,
    TurnTrace,
)
from memfin.contracts.base import Bit, Difficulty
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import RagSummary, read_sums
from memfin.contracts.reading import iter_jsonl, open_input, read_json
from memfin.errors import UsageError
from memfin.journal.artifacts import CONFIG
from memfin.journal.layout import DIALOG_TRACE, RAG_RESULTS, TURN_EVAL

if TYPE_CHECKING:
    import pandas as pd  # pyright: ignore[reportMissingImports]
    import polars as pl  # pyright: ignore[reportMissingImports]

S = TypeVar("S", bound=Record)
Table = Literal["rows", "turns", "findings", "results"]

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


class DialogResult(Record):
    """Trace of a dialogue and the rows of its scored turns; a skipped dialogue has none."""

    trace: DialogTrace
    rows: list[TurnEvalRow]


class DialogTurn(TurnTrace, kw_only=True):
    """Trace of a turn with the id, the scenario and the difficulty of its dialogue."""

    dialog_id: str
    scenario_type: str | None = None
    difficulty: Difficulty | None = None


class ReplyFinding(Finding):
    """Finding of a detector with its dialogue, its turn, and the ``words`` of the reply that it covers."""

    dialog_id: str
    turn: int
    words: str


_TABLES: Final[Mapping[Table, type[Record]]] = {
    "rows": TurnEvalRow,
    "turns": DialogTurn,
    "findings": ReplyFinding,
    "results": RagResult,
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
        return self._records("dialogues", TURN_EVAL, TurnEvalRow)

    def traces(self) -> Iterator[DialogTrace]:
        """Return an iterator of the dialogues' traces; raise `UsageError` unless it is a run of dialogues."""
        return self._records("dialogues", DIALOG_TRACE, DialogTrace)

    def results(self) -> Iterator[RagResult]:
        """Return an iterator of the questions; raise `UsageError` unless it is a run of a benchmark."""
        return self._records("rag", RAG_RESULTS, RagResult)

    def dialogs(self) -> Iterator[DialogResult]:
        """Return an iterator of traces with their rows, in the order of the traces.

        Memory holds one dialogue and the place of every row in its file, 8 bytes each.
        """
        return self._joined(self.traces())

    def turns(self) -> Iterator[DialogTurn]:
        """Return an iterator of the traces of the turns, in the order of `traces`."""
        return (
            DialogTurn(
                dialog_id=trace.dialog_id,
                scenario_type=trace.scenario_type,
                difficulty=trace.difficulty,
                **dict(turn),
            )
            for trace in self.traces()
            for turn in trace.turns
        )

    def findings(self) -> Iterator[ReplyFinding]:
        """Return an iterator of the detectors' findings, in the order of `dialogs`."""
        return self._found(self.dialogs())

    def epochs(self) -> "Iterator[Results[Any]]":
        """Yield the complete epochs of a soak that are kept; of a plain run the run itself."""
        from memfin.report.comparison import run_directories  # noqa: PLC0415 - slow to import

        return (Results(path) for path in run_directories(self.directory))

    def to_pandas(self, what: Table = "rows") -> "pd.DataFrame":
        """Return what an iterator yields as a pandas DataFrame, one column per field.

        A record in a field becomes columns named ``field.inner``. Lists of texts and numbers stay lists;
        dictionaries and lists of records become JSON text. A field that is left out is missing.

        Raises:
            UsageError: pandas is not installed, or the suite has no such records.
        """
        library = _library("pandas")
        columns, values = self._table(what)
        return library.DataFrame(values, columns=list(columns))

    def to_polars(self, what: Table = "rows") -> "pl.DataFrame":
        """Return what an iterator yields as a Polars DataFrame, with the columns of `to_pandas`.

        The type of a column is that of its field, so that frames of several runs can be concatenated.

        Raises:
            UsageError: polars is not installed, or the suite has no such records.
        """
        library = _library("polars")
        columns, values = self._table(what)
        schema = {name: _polars_type(library, kind) for name, kind in columns.items()}
        return library.DataFrame(values, schema=schema, orient="row")

    def _table(self, what: Table) -> tuple[dict[str, inspect.Type | None], list[tuple[Any, ...]]]:
        """Return the columns with their types, None for JSON text, and the values of every record."""
        if what not in _TABLES:
            raise UsageError(f"table {what!r}: must be one of {', '.join(_TABLES)}")
        columns = dict(_columns(_TABLES[what]))
        values = [
            tuple(_value(one, path, is_json=kind is None) for path, kind in columns.items())
            for one in getattr(self, what)()
        ]
        return {".".join(path): kind for path, kind in columns.items()}, values

    def _records(self, suite: str, name: str, kind: type[Record]) -> Iterator[Any]:
        if suite != self.suite:
            raise UsageError(f"{self.directory} is {_METHODS[self.suite]}")
        return (record for _, record in iter_jsonl(self.directory / name, kind))

    def _joined(self, traces: Iterator[DialogTrace]) -> Iterator[DialogResult]:
        with open_input(self.directory / TURN_EVAL) as file:
            places: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
            start = 0
            for _, row in iter_jsonl(file, TurnEvalRow):
                places[row.dialog_id].append(start)
                start = file.tell()
            for trace in traces:
                rows = []
                for place in places.pop(trace.dialog_id, ()) if trace.valid_dialog else ():
                    file.seek(place)
                    rows.append(next(iter_jsonl(file, TurnEvalRow))[1])
                yield DialogResult(trace=trace, rows=rows)

    def _found(self, dialogs: Iterator[DialogResult]) -> Iterator[ReplyFinding]:
        for dialog in dialogs:
            replies = {turn.turn_pair_id: turn.pred_assistant_text or "" for turn in dialog.trace.turns}
            for row in dialog.rows:
                reply = replies.get(row.turn_pair_id, "")
                for one in row.findings:
                    words = reply[one.start : one.end]
                    yield ReplyFinding(
                        dialog_id=row.dialog_id, turn=row.turn_pair_id, words=words, **dict(one)
                    )


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


def _columns(
    kind: type[msgspec.Struct], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], inspect.Type | None]]:
    """Yield the path and the type of each column; the type is None for JSON text."""
    for field in msgspec.structs.fields(kind):
        info = inspect.type_info(field.type)
        types = info.types if isinstance(info, inspect.UnionType) else (info,)
        one, *others = (each for each in types if not isinstance(each, inspect.NoneType))
        if isinstance(one, inspect.StructType):
            yield from _columns(one.cls, (*path, field.name))
        else:
            yield (*path, field.name), None if others or _is_nested(one) else one


def _is_nested(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.ListType):
        return _is_nested(kind.item_type)
    return isinstance(kind, inspect.AnyType | inspect.DictType | inspect.StructType | inspect.UnionType)


def _polars_type(polars: Any, kind: inspect.Type | None) -> Any:
    if isinstance(kind, inspect.ListType):
        return polars.List(_polars_type(polars, kind.item_type))
    if isinstance(kind, inspect.IntType) or kind == inspect.type_info(Bit):
        return polars.Int64
    if isinstance(kind, inspect.FloatType):
        return polars.Float64
    return polars.Boolean if isinstance(kind, inspect.BoolType) else polars.String


def _value(value: Any, path: tuple[str, ...], *, is_json: bool) -> Any:
    for name in path:
        value = getattr(value, name)
        if value is None or value is msgspec.UNSET:
            return None
    return msgspec.json.encode(value).decode() if is_json else value


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
