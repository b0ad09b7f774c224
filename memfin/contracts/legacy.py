"""Other spellings that are read as those of v1 (spec sections 3 and 4).

The contract's older draft called a turn's status ``status`` and the labels ``minor`` and ``severe``
(trace-fields-and-metric-formulas, the tables of ``TurnTrace`` and ``turn_eval``). Datasets, and the
traces that copied from them, may say ``med`` for the difficulty ``medium``.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from memfin.contracts.base import Difficulty
from memfin.contracts.dataset import TurnTags
from memfin.contracts.labels import LabelledReply
from memfin.contracts.trace import DialogTrace, TurnTrace
from memfin.contracts.turn_eval import TurnEvalRow

_LABELS: Final = MappingProxyType({"minor": "minor_violation", "severe": "severe_violation"})
_DIFFICULTIES: Final[Mapping[str, Difficulty]] = MappingProxyType(
    {"easy": "easy", "medium": "medium", "med": "medium", "hard": "hard"}
)


def upgrade(value: object, kind: object) -> object:
    """Return plain data for a contract type with the older draft's names replaced by v1's.

    Data of an unexpected shape is returned as it is: what is wrong with it is for the decoder to say.
    """
    change = _UPGRADES.get(kind)
    return change(value) if change is not None and isinstance(value, dict) else value


def canonical_difficulty(value: object) -> Difficulty | None:
    """Return the difficulty that is meant, or None for what is none."""
    return _DIFFICULTIES.get(value) if isinstance(value, str) else None


def _with_labels(value: dict[str, Any], *fields: str) -> dict[str, Any]:
    """Rename the draft's labels in the given fields."""
    changes = {
        name: _LABELS[label]
        for name in fields
        if isinstance(label := value.get(name), str) and label in _LABELS
    }
    return {**value, **changes} if changes else value


def _tags(value: dict[str, Any]) -> dict[str, Any]:
    return _with_labels(value, "compliance_label_gt")


def _turn(value: dict[str, Any]) -> dict[str, Any]:
    if "turn_status" not in value and "status" in value:
        value = {**value, "turn_status": value["status"]}
    tags = value.get("gt_turn_tags")
    return {**value, "gt_turn_tags": _tags(tags)} if isinstance(tags, dict) else value


def _dialog(value: dict[str, Any]) -> dict[str, Any]:
    if (difficulty := canonical_difficulty(value.get("difficulty"))) is not None:
        value = {**value, "difficulty": difficulty}
    turns = value.get("turns")
    if not isinstance(turns, list):
        return value
    return {**value, "turns": [_turn(turn) if isinstance(turn, dict) else turn for turn in turns]}


def _row(value: dict[str, Any]) -> dict[str, Any]:
    return _with_labels(value, "pred_compliance_label", "gt_compliance_label")


def _labelled(value: dict[str, Any]) -> dict[str, Any]:
    return _with_labels(value, "compliance")


_UPGRADES: Final[Mapping[object, Callable[[dict[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {
        DialogTrace: _dialog,
        TurnTrace: _turn,
        TurnEvalRow: _row,
        TurnTags: _tags,
        LabelledReply: _labelled,
    }
)
