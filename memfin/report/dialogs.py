"""Statistics over the dialogues of a run, and metrics by group, in one streaming pass."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from memfin.contracts import TurnEvalRow
from memfin.contracts.reading import canonical_difficulty
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.percentiles import Percentiles
from memfin.report.common import FailureCounter
from memfin.report.glossary import METRICS, SCORES, format_value, is_measured
from memfin.report.model import Cell, Table, Value, table
from memfin.report.reader import HeadlineValues, ScannedDialog, ScannedTurn
from memfin.report.warnings import ReplyShapes
from memfin.text.lines import one_line

UNKNOWN: Final = "(not given)"
_OTHER: Final = "(other)"
_MAX_LABELS: Final = 200
_MAX_ROWS: Final = 30
_PROFILE: Final = "m2_profile_accuracy"
_DIFFICULTIES: Final = ("easy", "medium", "hard")
_CJK: Final = ((0x3400, 0x9FFF), (0x20000, 0x323AF))


class Facts(NamedTuple):
    """Properties that dialogues are grouped by, fit to be shown."""

    scenario: str
    difficulty: str
    language: str


class DialogStats:
    """Counts over the dialogues of the trace, and the grouping properties of each valid dialogue."""

    def __init__(self) -> None:
        self.facts: dict[str, Facts] = {}
        self.turns: dict[str, int] = {}
        self.shapes = ReplyShapes()
        self.failures = FailureCounter()
        self.latency = Percentiles()
        self.skips: Counter[str] = Counter()
        self.history_mode: str | None = None
        self.judge: str | None = None
        self.language_known = True
        self._labels: dict[Facts, Facts] = {}
        self._seen: tuple[set[str], ...] = (set(), set(), set())

    def add(self, dialog: ScannedDialog) -> None:
        """Count one dialogue, valid or skipped."""
        if not dialog.valid_dialog:
            self.skips[one_line(dialog.skip_reason or "(no reason given)", 60)] += 1
            return
        self.history_mode = self.history_mode or dialog.history_mode
        self.judge = self.judge or dialog.judge
        self.facts[dialog.dialog_id] = self._facts_of(dialog)
        self.turns[dialog.dialog_id] = len(dialog.turns)
        if dialog.dialog_error:
            self.failures.add("dialogue", dialog.dialog_error, dialog.dialog_id)
        for turn in dialog.turns:
            self._add_turn(dialog.dialog_id, turn)

    def _add_turn(self, dialog_id: str, turn: ScannedTurn) -> None:
        if turn.latency_ms is not None and turn.outcome == "ok":
            self.latency.add(turn.latency_ms)
        if turn.outcome != "ok":
            where = f"{one_line(dialog_id, 80)} turn {turn.turn_pair_id}"
            self.failures.add(f"turn {one_line(turn.outcome, 20)}", turn.error, where)
        elif turn.pred_assistant_text is not None:
            self.shapes.add(turn.user_text, turn.pred_assistant_text, turn.gt_assistant_text)

    def _facts_of(self, dialog: ScannedDialog) -> Facts:
        language = dialog.language
        if not language:
            self.language_known = False
            language = script_language(dialog.turns[0].user_text) if dialog.turns else None
        difficulty = canonical_difficulty(dialog.difficulty) or dialog.difficulty
        given = (dialog.scenario_type, difficulty, language)
        facts = Facts(*(self._label(kind, value) for kind, value in enumerate(given)))
        return self._labels.setdefault(facts, facts)  # one object for all dialogues of a kind

    def _label(self, kind: int, value: str | None) -> str:
        label = one_line(value, 60) if value and value.strip() else UNKNOWN
        seen = self._seen[kind]
        if label not in seen and len(seen) >= _MAX_LABELS:
            return _OTHER
        seen.add(label)
        return label


def script_language(text: str) -> str | None:
    """Return the language of a text by its script: ``zh``, ``en`` (Latin letters), or None of neither."""
    han = sum(any(low <= ord(char) <= high for low, high in _CJK) for char in text[:400])
    latin = sum(char.isascii() and char.isalpha() for char in text[:400])
    if not han and not latin:
        return None
    # a Chinese character carries about as much as three letters of an English word
    return "zh" if 3 * han >= latin else "en"


class GroupedMetrics:
    """Sums of the metrics per kind of dialogue, in memory that does not grow with the dialogues.

    `MetricsState` keeps sums per dialogue. Micro values do not depend on that, so all rows of a kind
    are added as one dialogue here.
    """

    def __init__(self) -> None:
        self._states: defaultdict[Facts, MetricsState] = defaultdict(MetricsState)
        self._rows: Counter[Facts] = Counter()

    def add_row(self, row: TurnEvalRow, facts: Facts) -> None:
        """Add a row of a dialogue of that kind."""
        self._rows[facts] += 1
        self._states[facts].add_row(row.replace(dialog_id=""))

    def tables(self, stats: DialogStats, values: Mapping[str, HeadlineValues]) -> tuple[Table, ...]:
        """Return the tables; one of a single group says nothing and is left out.

        M2 is a metric of whole dialogues: its group values are means of the summary's ``by_dialog``.
        """
        script = "" if stats.language_known else "Languages are guessed from the script of the client."
        tables = (
            self._table(kind, stats, values, script if kind == "language" else "") for kind in Facts._fields
        )
        return tuple(found for found in tables if found is not None)

    def _table(
        self, kind: str, stats: DialogStats, values: Mapping[str, HeadlineValues], note: str
    ) -> Table | None:
        label_of = attrgetter(kind)
        states: defaultdict[str, MetricsState] = defaultdict(MetricsState)
        turns: Counter[str] = Counter()
        for facts, state in self._states.items():
            states[label_of(facts)].merge(state)
            turns[label_of(facts)] += self._rows[facts]
        dialogs: Counter[str] = Counter()
        profiles: defaultdict[str, list[float]] = defaultdict(list)
        for dialog_id, facts in stats.facts.items():
            dialogs[label_of(facts)] += 1
            found = values.get(dialog_id)
            if found is not None and found.profile_score is not None:
                profiles[label_of(facts)].append(found.profile_score)
        if len(dialogs) < 2:  # noqa: PLR2004 - nothing to compare
            return None
        shown = sorted(dialogs, key=lambda label: (-dialogs[label], label))[:_MAX_ROWS]
        omitted = len(dialogs) - len(shown)
        left_out = f"{omitted} smaller groups are left out. " if omitted else ""
        measures = [f"{metric.code} {value.label}" for metric in METRICS for value in metric.values]
        headings = ("Group", "Dialogues", "Turns", *measures)
        rows: Iterator[tuple[Value, ...]] = (
            (label, dialogs[label], turns[label], *_values(states[label], profiles[label]))
            for label in sorted(shown, key=_order)
        )
        return table(f"By {kind}", headings, "lrr" + "r" * len(measures), rows, (left_out + note).strip())


def value_cell(key: str, value: float | None) -> Cell:
    """Return a value of a metric as a cell; shares have a bar behind the figure."""
    share = None if value is None or key in SCORES else min(max(value, 0.0), 1.0)
    return Cell(format_value(key, value), share=share)


def _values(state: MetricsState, profiles: list[float]) -> Iterator[Cell]:
    results = state.results()
    for metric in METRICS:
        for value in metric.values:
            if metric.name == _PROFILE:
                yield value_cell(value.key, sum(profiles) / len(profiles) if profiles else None)
                continue
            result = results[metric.name]
            measured = is_measured(value.key, result.counts)
            yield value_cell(value.key, result.micro[value.key] if measured else None)


def _order(label: str) -> tuple[int, str]:
    """Order known difficulties by their difficulty and everything else by its name."""
    return (_DIFFICULTIES.index(label) if label in _DIFFICULTIES else len(_DIFFICULTIES), label)
