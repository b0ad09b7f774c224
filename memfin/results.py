"""Results of finished runs: the summary, the settings, and iterators over the records of a directory."""

import os
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

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
)
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import read_sums
from memfin.contracts.reading import iter_jsonl, open_input, read_json
from memfin.errors import UsageError
from memfin.report.comparison import compare_runs, run_directories, suite_of
from memfin.report.rag_report import RESULTS
from memfin.report.reader import CONFIG, ROWS, SUMMARY, TRACES
from memfin.report.soak_report import SUMMARY as SOAK_SUMMARY

S = TypeVar("S", bound=Record)

_METHODS: Final = {
    "dialogues": "a run of dialogues: use rows(), traces(), dialogs() or findings()",
    "rag": "a run of a benchmark: use results()",
    "soak": "a soak: use epochs()",
}


class DialogResult(Record):
    """Trace of a dialogue and the rows of its scored turns; a skipped dialogue has none."""

    trace: DialogTrace
    rows: list[TurnEvalRow]


class ReplyFinding(Finding):
    """Finding of a detector with its dialogue, its turn, and the ``words`` of the reply that it covers."""

    dialog_id: str
    turn: int
    words: str


class Results(Generic[S]):
    """Directory of a finished run of dialogues or a benchmark, or of a soak with its finished epochs.

    Every iterator reads its file anew, a record at a time.

    Attributes:
        directory: where the artifacts are.
        suite: ``dialogues``, ``rag`` or ``soak``.
        summary: an `EvalSummary`, `RagSummary` or `SoakSummary`; that of a benchmark lists no individual
            results, which `results` yields.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the summary.

        Raises:
            UsageError: the directory holds no run, or one that has not finished.
        """
        self.directory: Final = Path(path)
        self.suite: Final = self._suite()
        self.summary: Final[S] = self._summary()

    def _suite(self) -> Literal["dialogues", "rag", "soak"]:
        if (self.directory / SOAK_SUMMARY).is_file():
            return "soak"
        suite = suite_of(self.directory)
        if suite == "samples":
            raise UsageError(f"{self.directory}: not the directory of a run; memfin compare reads such logs")
        return suite

    def _summary(self) -> Any:
        if self.suite == "rag":
            return read_sums(self.directory / RAG_SUMMARY)
        if self.suite == "soak":
            return read_json(self.directory / SOAK_SUMMARY, SoakSummary)
        return read_json(self.directory / SUMMARY, EvalSummary)

    def __repr__(self) -> str:
        return f"<Results {self.directory} ({self.suite})>"

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
        return self._records("dialogues", ROWS, TurnEvalRow)

    def traces(self) -> Iterator[DialogTrace]:
        """Return an iterator of the dialogues' traces; raise `UsageError` unless it is a run of dialogues."""
        return self._records("dialogues", TRACES, DialogTrace)

    def results(self) -> Iterator[RagResult]:
        """Return an iterator of the questions; raise `UsageError` unless it is a run of a benchmark."""
        return self._records("rag", RESULTS, RagResult)

    def dialogs(self) -> Iterator[DialogResult]:
        """Return an iterator of traces with their rows, in the order of the traces.

        Memory holds one dialogue and the place of every row in its file, 8 bytes each.
        """
        return self._joined(self.traces())

    def findings(self) -> Iterator[ReplyFinding]:
        """Return an iterator of the detectors' findings, in the order of `dialogs`."""
        return self._found(self.dialogs())

    def epochs(self) -> "Iterator[Results[Any]]":
        """Yield the complete epochs of a soak that are kept; of a plain run the run itself."""
        return (Results(path) for path in run_directories(self.directory))

    def _records(self, suite: str, name: str, kind: type[Record]) -> Iterator[Any]:
        if suite != self.suite:
            raise UsageError(f"{self.directory} is {_METHODS[self.suite]}")
        return (record for _, record in iter_jsonl(self.directory / name, kind))

    def _joined(self, traces: Iterator[DialogTrace]) -> Iterator[DialogResult]:
        with open_input(self.directory / ROWS) as file:
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
    path_a, path_b = (run.directory if isinstance(run, Results) else Path(run) for run in (a, b))
    return compare_runs(path_a, path_b, margins)
