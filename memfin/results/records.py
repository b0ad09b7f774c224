"""Records of a run directory by the name of their table."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from memfin.contracts import (
    DialogTrace,
    Finding,
    Judgement,
    RagResult,
    Record,
    SoakEpoch,
    TurnEvalRow,
    TurnTrace,
)
from memfin.contracts.base import Difficulty
from memfin.contracts.rag import RagJudgement
from memfin.contracts.reading import iter_jsonl, open_input
from memfin.journal import layout
from memfin.results.columns import Column, columns_of

TableName = Literal[
    "dialogs", "turns", "rows", "findings", "judgements", "results", "answers", "rag_judgements", "epochs"
]


class DialogResult(Record):
    """Trace of a dialogue and the rows of its scored turns; a skipped dialogue has none."""

    trace: DialogTrace
    rows: list[TurnEvalRow]


class DialogTurn(TurnTrace, kw_only=True):
    """Trace of a turn with the run, the id, the scenario and the difficulty of its dialogue."""

    run_id: str
    dialog_id: str
    scenario_type: str | None = None
    difficulty: Difficulty | None = None


class ReplyFinding(Finding):
    """Finding of a detector with its dialogue, its turn, and the ``words`` of the reply that it covers."""

    run_id: str
    dialog_id: str
    turn: int
    words: str


class Table(NamedTuple):
    """Records of one kind, the files of a run directory that they come from, and their iterator."""

    kind: type[Record]
    files: tuple[str, ...]
    read: Callable[[Path], Iterator[Any]]

    @property
    def columns(self) -> list[Column]:
        """The columns; the turns of a dialogue are none, they have a table of their own."""
        return [
            column for column in columns_of(self.kind) if (self.kind, column.name) != (DialogTrace, "turns")
        ]

    def is_in(self, directory: Path) -> bool:
        """Return True if the directory has the files."""
        return all((directory / name).is_file() for name in self.files)


def dialog_results(directory: Path) -> Iterator[DialogResult]:
    """Yield the traces with their rows, in the order of the traces.

    Memory holds one dialogue and the place of every row in its file, about 50 bytes each.
    """
    with open_input(directory / layout.TURN_EVAL) as file:
        places: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        start = 0
        for _, row in iter_jsonl(file, TurnEvalRow):
            places[row.dialog_id].append(start)
            start = file.tell()
        for _, trace in iter_jsonl(directory / layout.DIALOG_TRACE, DialogTrace):
            rows = []
            for place in places.pop(trace.dialog_id, ()) if trace.valid_dialog else ():
                file.seek(place)
                rows.append(next(iter_jsonl(file, TurnEvalRow))[1])
            yield DialogResult(trace=trace, rows=rows)


def _turns(directory: Path) -> Iterator[DialogTurn]:
    for _, trace in iter_jsonl(directory / layout.DIALOG_TRACE, DialogTrace):
        for turn in trace.turns:
            yield DialogTurn(
                run_id=trace.run_id,
                dialog_id=trace.dialog_id,
                scenario_type=trace.scenario_type,
                difficulty=trace.difficulty,
                **dict(turn),
            )


def _findings(directory: Path) -> Iterator[ReplyFinding]:
    for dialog in dialog_results(directory):
        replies = {turn.turn_pair_id: turn.pred_assistant_text or "" for turn in dialog.trace.turns}
        for row in dialog.rows:
            reply = replies.get(row.turn_pair_id, "")
            for one in row.findings:
                yield ReplyFinding(
                    run_id=row.run_id,
                    dialog_id=row.dialog_id,
                    turn=row.turn_pair_id,
                    words=reply[one.start : one.end],
                    **dict(one),
                )


def _lines(name: str, kind: type[Record]) -> Table:
    return Table(kind, (name,), lambda directory: (each for _, each in iter_jsonl(directory / name, kind)))


TABLES: Final[Mapping[TableName, Table]] = {
    "dialogs": _lines(layout.DIALOG_TRACE, DialogTrace),
    "turns": Table(DialogTurn, (layout.DIALOG_TRACE,), _turns),
    "rows": _lines(layout.TURN_EVAL, TurnEvalRow),
    "findings": Table(ReplyFinding, (layout.DIALOG_TRACE, layout.TURN_EVAL), _findings),
    "judgements": _lines(layout.JUDGEMENTS, Judgement),
    "results": _lines(layout.RAG_RESULTS, RagResult),
    "answers": _lines(layout.RAG_ANSWERS, RagResult),
    "rag_judgements": _lines(layout.RAG_JUDGEMENTS, RagJudgement),
    "epochs": _lines("soak.jsonl", SoakEpoch),
}
