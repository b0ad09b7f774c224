"""Metrics of recorded rows, streamed from the files (spec section 8, ``aggregate``)."""

from pathlib import Path
from typing import Final

from memfin.actors.dialog_scoring import DialogTotals
from memfin.actors.dialogs import traces_of_run
from memfin.contracts import Counters, EvalSummary, TurnEvalRow, TurnStatus
from memfin.contracts.reading import InvalidRecord, iter_jsonl
from memfin.errors import UsageError
from memfin.language import marked
from memfin.metrics.aggregate import MetricsState
from memfin.sessions import DatasetIndex

NO_TRACES: Final = marked("profiles are in the traces: give --dialog-trace and --dataset")


def aggregate_rows(
    turn_eval: Path, dialog_trace: Path | None = None, dataset: Path | None = None
) -> tuple[EvalSummary, list[str]]:
    """Return the summary of a ``turn_eval.jsonl`` and one line for everything wrong with its rows.

    A line that is no row, or one that contradicts itself, counts as bad where it cannot be counted. A
    second row of the same turn is left out.

    Rows without a ``turn_status``, as plain v1 has them, take that of their trace. Without the traces, the
    counters are those of the rows: every dialogue that has one, and M2 is empty.

    Raises:
        UsageError: a file cannot be opened, holds nothing, a trace is broken, or the traces are those of
            another run.
    """
    state = MetricsState()
    traces: _Traces | None = None
    if dialog_trace is not None and dataset is not None:
        traces = _Traces(state, dialog_trace, dataset)
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
        if traces is not None:
            row = traces.completed(row, run_id, f"{turn_eval}:{number}")  # noqa: PLW2901 - the same row
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
    if traces is not None:
        counters = traces.counters
    summary = state.summary(run_id, str(dataset or ""), counters)
    return summary if traces is not None else _without_profiles(summary, state.m2.name), problems


def _without_profiles(summary: EvalSummary, name: str) -> EvalSummary:
    """Return the summary with the true reason why M2 was not measured."""
    profiles = summary.metrics[name]
    profiles = profiles.replace(not_measured=dict.fromkeys(profiles.micro, NO_TRACES))
    return summary.replace(metrics={**summary.metrics, name: profiles})


class _Traces:
    """Counters and turn statuses of a trace file, whose dialogues are added to M2."""

    def __init__(self, state: MetricsState, path: Path, dataset: Path) -> None:
        self._path = path
        self._run_id = ""
        self._statuses: dict[tuple[str, int], TurnStatus] = {}
        index, totals = DatasetIndex(dataset), DialogTotals()
        for trace, dialog in traces_of_run(path, index):
            self._run_id = trace.run_id
            totals.add_trace(trace, dialog)
            if dialog is not None:
                state.add_dialog(trace, dialog)
                for turn in trace.turns:
                    self._statuses[trace.dialog_id, turn.turn_pair_id] = turn.turn_status
        self.counters = totals.counters()

    def completed(self, row: TurnEvalRow, run_id: str, where: str) -> TurnEvalRow:
        """Return the row with its turn's status.

        Raises:
            UsageError: the row is not of a turn of the traces.
        """
        status = self._statuses.get((row.dialog_id, row.turn_pair_id))
        problem = None
        if run_id != self._run_id:
            problem = f"is of run {run_id!r}, the trace {self._path} of {self._run_id!r}"
        elif status is None:
            problem = f"turn {row.turn_pair_id} of {row.dialog_id!r} is not in the trace {self._path}"
        elif row.turn_status not in (None, status):
            problem = (
                f"turn {row.turn_pair_id} of {row.dialog_id!r} has turn_status {row.turn_status!r}, "
                f"in the trace {self._path} {status!r}"
            )
        if problem is not None:
            raise UsageError(f"{where}: {problem}; give the trace of the same run")
        return row.replace(turn_status=status)
