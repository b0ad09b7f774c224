"""Metrics by scenario, difficulty and language, from the mergeable states of the metrics."""

from collections.abc import Callable, Mapping
from typing import Final

from memfin.contracts import TurnEvalRow
from memfin.metrics.aggregate import MetricsState
from memfin.report.dialogs import DialogCensus, Facts
from memfin.report.glossary import METRICS, is_measured
from memfin.report.model import GroupRow, GroupTable
from memfin.report.reader import HeadlineValues

_MAX_ROWS: Final = 30
_PROFILE: Final = "m2_profile_accuracy"
_DIFFICULTIES: Final = ("easy", "medium", "hard")


class GroupedMetrics:
    """One state of sums for every kind of dialogue that occurs, whatever the number of dialogues.

    The states keep a cell of sums a dialogue. Micro values do not depend on how rows share cells, so
    all rows of a kind go into one cell here, and memory stays flat.
    """

    def __init__(self) -> None:
        self._states: dict[Facts, MetricsState] = {}
        self._rows: dict[Facts, int] = {}

    def add_row(self, row: TurnEvalRow, facts: Facts) -> None:
        """Count a row of a dialogue of that kind."""
        if facts not in self._states:
            self._states[facts] = MetricsState()
            self._rows[facts] = 0
        self._rows[facts] += 1
        self._states[facts].add_row(row.replace(dialog_id=""))

    def tables(self, census: DialogCensus, values: Mapping[str, HeadlineValues]) -> tuple[GroupTable, ...]:
        """Return the tables; one of a single group says nothing and is left out.

        M2 is a metric of whole dialogues: its group values are means of the summary's ``by_dialog``.
        """
        scripts = (
            ""
            if census.language_known
            else "The trace does not give the language; it is told by the script of the client's words."
        )
        tables = (
            self._table("By scenario", lambda facts: facts.scenario, census, values),
            self._table("By difficulty", lambda facts: facts.difficulty, census, values),
            self._table("By language", lambda facts: facts.language, census, values, note=scripts),
        )
        return tuple(table for table in tables if len(table.rows) > 1)

    def _table(
        self,
        title: str,
        label_of: Callable[[Facts], str],
        census: DialogCensus,
        values: Mapping[str, HeadlineValues],
        note: str = "",
    ) -> GroupTable:
        states: dict[str, MetricsState] = {}
        rows: dict[str, int] = {}
        for facts, state in self._states.items():
            label = label_of(facts)
            states.setdefault(label, MetricsState()).merge(state)
            rows[label] = rows.get(label, 0) + self._rows[facts]
        dialogs: dict[str, int] = {}
        profiles: dict[str, list[float]] = {}
        for dialog_id, facts in census.facts.items():
            label = label_of(facts)
            dialogs[label] = dialogs.get(label, 0) + 1
            found = values.get(dialog_id)
            if found is not None and found.profile_score is not None:
                profiles.setdefault(label, []).append(found.profile_score)
        every = [
            GroupRow(
                label=label,
                dialogs=count,
                turns=rows.get(label, 0),
                values=_values(states.get(label), profiles.get(label, [])),
            )
            for label, count in dialogs.items()
        ]
        every.sort(key=_order)
        shown = sorted(every, key=lambda row: (-row.dialogs, row.label))[:_MAX_ROWS]
        return GroupTable(
            title=title,
            rows=tuple(row for row in every if row in shown),
            note=note,
            omitted=len(every) - len(shown),
        )


def _values(state: MetricsState | None, profiles: list[float]) -> dict[str, float | None]:
    results = (state or MetricsState()).results()
    values: dict[str, float | None] = {}
    for metric in METRICS:
        if metric.name == _PROFILE:
            values[metric.headline.key] = sum(profiles) / len(profiles) if profiles else None
            continue
        result = results[metric.name]
        for value in metric.values:
            values[value.key] = result.micro[value.key] if is_measured(value.key, result.counts) else None
    return values


def _order(row: GroupRow) -> tuple[int, str]:
    """Order known difficulties by their difficulty and everything else by its name."""
    known = row.label in _DIFFICULTIES
    return (_DIFFICULTIES.index(row.label) if known else len(_DIFFICULTIES), row.label)
