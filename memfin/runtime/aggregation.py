"""Metrics of recorded rows, streamed from the files (spec section 8, ``aggregate``)."""

from pathlib import Path

from memfin.actors.dialog_scoring import DialogTotals
from memfin.actors.dialogs import dialog_of
from memfin.contracts import Counters, DialogTrace, EvalSummary, TurnEvalRow
from memfin.contracts.reading import InvalidRecord, iter_jsonl
from memfin.dataset import DatasetIndex
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState


def aggregate_rows(
    turn_eval: Path, dialog_trace: Path | None = None, dataset: Path | None = None
) -> tuple[EvalSummary, list[str]]:
    """Return the summary of a ``turn_eval.jsonl`` and one line for everything wrong with its rows.

    A line that is no row, or one that contradicts itself, counts as bad where it cannot be counted. A
    second row of the same turn is left out.

    Without the traces, the counters are those of the rows: every dialogue that has one, and M2 is
    empty.

    Raises:
        UsageError: a file cannot be opened, holds nothing, or a trace is broken.
    """
    state = MetricsState()
    problems: list[str] = []

    def bad_line(number: int, problem: InvalidRecord) -> None:
        state.add_row({})
        problems.append(f"{turn_eval}:{number}: {problem}")

    dialogs: set[str] = set()
    rows = 0
    run_id = ""
    seen: set[tuple[str, int]] = set()
    for number, row in iter_jsonl(turn_eval, TurnEvalRow, on_error=bad_line):
        run_id = run_id or row.run_id
        if row.run_id != run_id:
            problems.append(f"{turn_eval}:{number}: is of run {row.run_id!r}, the first row of {run_id!r}")
        if (row.dialog_id, row.turn_pair_id) in seen:
            second = f"a second row of turn {row.turn_pair_id} of {row.dialog_id!r}, left out"
            problems.append(f"{turn_eval}:{number}: {second}")
            continue
        seen.add((row.dialog_id, row.turn_pair_id))
        rows += 1
        dialogs.add(row.dialog_id)
        bad = state.bad_rows
        state.add_row(row)
        if state.bad_rows > bad:
            problems.append(
                f"{turn_eval}:{number}: the row contradicts itself; memfin validate {turn_eval} says where"
            )
    if not rows and not problems:
        raise UsageError(f"{turn_eval}: holds no rows")
    counters = Counters(total_dialogs=len(dialogs), valid_dialogs=len(dialogs), total_turn_pairs=rows)
    if dialog_trace is not None and dataset is not None:
        counters = _add_traces(state, dialog_trace, dataset)
    return state.summary(run_id, str(dataset or ""), counters), problems


def _add_traces(state: MetricsState, dialog_trace: Path, dataset: Path) -> Counters:
    index = DatasetIndex(dataset)
    totals = DialogTotals()
    for number, trace in iter_jsonl(dialog_trace, DialogTrace):
        totals.add_trace(trace)
        dialog = dialog_of(trace, index, f"{dialog_trace}:{number}")
        if dialog is not None:
            state.add_dialog(trace, dialog)
    return totals.counters()
