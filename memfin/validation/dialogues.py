"""Violations in a line of a dataset (spec section 3).

`memfin.dataset` accepts or rejects a dialogue and stops at its first defect. The walk here finds all
defects, each with its ``skip_reason``, and also those that a run tolerates: values outside the dataset's
wordings, profiles that leave the denominator of M2.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from memfin.contracts import Dialog, ProfileTruth, SkipReason, TurnTags
from memfin.contracts.catalog import DIFFICULTIES, HORIZONS, LIQUIDITY_NEEDS, RISK_LEVELS
from memfin.contracts.reading import Line, shown, upgrade
from memfin.dataset import read_entry
from memfin.validation.findings import Steps, Violation
from memfin.validation.rules import digest
from memfin.validation.structure import described, structure_violations


class DatasetRules:
    """The rules of one dataset; keeps a digest of the id of every valid dialogue."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def check_line(self, line: Line, value: object, of_text: list[Violation]) -> Iterator[Violation]:
        """Yield the violations of one line, given with its plain data and the violations of its text."""
        entry = read_entry(line)
        if entry.skip_reason == "invalid_json":
            yield from (_skipped(item.steps, item.message, "invalid_json") for item in of_text)
            return
        yield from of_text
        found = list(dialogue_violations(value))
        yield from found
        if entry.skip_reason and not any(_suffix(entry.skip_reason) in item.message for item in found):
            yield _skipped((), str(entry.detail), entry.skip_reason)
        if entry.dialog is not None:
            key = digest(entry.dialog.dialog_id)
            if key in self._seen:
                message = f"{shown(entry.dialog.dialog_id)} stands on an earlier line too"
                yield _skipped(("dialog_id",), message, "duplicate_dialog_id")
            self._seen.add(key)


def dialogue_violations(value: object) -> Iterator[Violation]:
    """Yield every violation of one line of a dataset, given as plain data."""
    if not isinstance(value, dict):
        yield _skipped((), f"expected an object, got {described(value)}", "not_an_object")
        return
    identity = value.get("dialog_id")
    if not isinstance(identity, str) or not identity.strip():
        state = "missing" if identity is None else f"{described(identity)} is no id"
        yield Violation(("dialog_id",), f"{state} (a run names the dialogue after its line)")
    yield from _turns(value.get("turns"))
    yield from _profile(value.get("profile_gt"))
    difficulty = value.get("difficulty")
    if difficulty is not None and difficulty not in DIFFICULTIES:
        yield _outside(("difficulty",), difficulty, DIFFICULTIES)
    rest = ("scenario_type", "language", "events", "seed_source", "seed_data", "blueprint")
    given = {name: value[name] for name in rest if value.get(name) is not None}
    if isinstance(blueprint := given.get("blueprint"), dict):
        given["blueprint"] = _given(blueprint)
    yield from (item for item in structure_violations(given, Dialog) if item.steps[0] in given)


def _turns(turns: object) -> Iterator[Violation]:
    if not isinstance(turns, list) or not turns:
        state = "the list is empty" if turns == [] else _absent_or("a list of turns", turns)
        yield _skipped(("turns",), state, "missing_turns")
        return
    for index, turn in enumerate(turns):
        steps: Steps = ("turns", index)
        if isinstance(turn, dict):
            yield from _turn(turn, "assistant" if index % 2 else "user", steps)
        else:
            yield _skipped(steps, f"expected an object, got {described(turn)}", "invalid_turn_sequence")
    if len(turns) % 2:
        last: Steps = ("turns", len(turns) - 1)
        yield _skipped(last, "the last user turn has no assistant turn", "invalid_turn_sequence")


def _turn(turn: dict[str, Any], expected: str, steps: Steps) -> Iterator[Violation]:
    role = turn.get("role")
    if role != expected:
        state = "missing" if role is None else f"expected {expected!r}, got {described(role)}"
        yield _skipped((*steps, "role"), state, "invalid_turn_sequence")
    field = "text" if "text" in turn or "content" not in turn else "content"
    words = turn.get(field)
    if not isinstance(words, str):
        yield _skipped((*steps, field), _absent_or("a string", words), "invalid_turn_sequence")
    elif expected == "user" and not words.strip():
        yield _skipped((*steps, field), "the user turn is blank", "invalid_turn_sequence")
    if expected == "assistant":
        yield from _struct(turn.get("turn_tags"), TurnTags, (*steps, "turn_tags"), "missing_gt_tags")


def _struct(value: object, kind: Any, steps: Steps, reason: SkipReason) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield _skipped(steps, _absent_or("an object", value), reason)
        return
    for item in structure_violations(upgrade(_given(value), kind), kind, steps):
        yield _skipped(item.steps, item.message, reason)


def _profile(profile: object) -> Iterator[Violation]:
    yield from _struct(profile, ProfileTruth, ("profile_gt",), "missing_profile_gt")
    if not isinstance(profile, dict):
        return
    levels = {"risk_level_gt": RISK_LEVELS, "horizon_gt": HORIZONS, "liquidity_need_gt": LIQUIDITY_NEEDS}
    for name, allowed in levels.items():
        level = profile.get(name)
        if level is None:
            yield Violation(("profile_gt", name), "missing (the dialogue leaves the denominator of M2)")
        elif isinstance(level, str) and level not in allowed:
            yield _outside(("profile_gt", name), level, allowed)


def _given(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if item is not None}


def _absent_or(expected: str, value: object) -> str:
    return "missing" if value is None else f"expected {expected}, got {described(value)}"


def _outside(steps: Steps, value: object, allowed: tuple[str, ...]) -> Violation:
    return Violation(steps, f"{described(value)} is none of {', '.join(map(repr, allowed))}")


def _skipped(steps: Steps, message: str, reason: SkipReason) -> Violation:
    return Violation(steps, f"{message} {_suffix(reason)}")


def _suffix(reason: SkipReason) -> str:
    return f"(skip_reason {reason})"
