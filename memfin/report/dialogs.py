"""Counts over the dialogues of a run for its report, in one streaming pass."""

from collections import Counter
from typing import Final, NamedTuple

from memfin.contracts.legacy import canonical_difficulty
from memfin.metrics.percentiles import Percentiles
from memfin.report.degenerate import ReplyShapes
from memfin.report.failures import FailureCounter
from memfin.report.reader import ScannedDialog, ScannedTurn
from memfin.text.lines import one_line

UNKNOWN: Final = "(not given)"
_OTHER: Final = "(other)"
_MAX_LABELS: Final = 200
_CJK: Final = ((0x3400, 0x9FFF), (0x20000, 0x323AF))


class Facts(NamedTuple):
    """What a dialogue is grouped by, fit to be shown."""

    scenario: str
    difficulty: str
    language: str


class DialogCensus:
    """Feeds on the dialogues of the trace; keeps counts, and for each valid dialogue what groups it."""

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
    """Tell the language by the script of a text: ``zh``, ``en`` (Latin letters), or None of neither."""
    han = sum(any(low <= ord(char) <= high for low, high in _CJK) for char in text[:400])
    latin = sum(char.isascii() and char.isalpha() for char in text[:400])
    if not han and not latin:
        return None
    # a Chinese character carries about as much as three letters of an English word
    return "zh" if 3 * han >= latin else "en"
