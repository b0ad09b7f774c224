"""Dialogues composed of typed or given text, with a profile and labels that the detectors suggest."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from memfin.cli.check import open_replies
from memfin.cli.output import note
from memfin.contracts import Dialog
from memfin.contracts.catalog import COMPLIANCE_LABELS, HORIZONS, LIQUIDITY_NEEDS, RISK_LEVELS
from memfin.contracts.reading import BOM
from memfin.dataset import detect_language
from memfin.errors import UsageError
from memfin.language import marked, tr
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.detectors import read_content
from memfin.scoring.keys import resolve_memory_required_key
from memfin.scoring.risk import canonical_risk_tag
from memfin.scoring.rubric import RUBRIC_ITEMS
from memfin.scoring.statements import Analysis

LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "difficulty": ("easy", "medium", "hard"),
    "risk_level_gt": RISK_LEVELS,
    "horizon_gt": HORIZONS,
    "liquidity_need_gt": LIQUIDITY_NEEDS,
    "compliance_label_gt": COMPLIANCE_LABELS[:3],
}
"""Fields that have one of some values."""

QUESTIONS: Final[Mapping[str, str]] = {
    "scenario": marked("Scenario"),
    "difficulty": marked("Difficulty"),
    "risk_level_gt": marked("Client's risk level"),
    "horizon_gt": marked("Client's horizon"),
    "liquidity_need_gt": marked("Client's need of liquidity"),
    "constraints_gt": marked("Client's constraints"),
    "preferences_gt": marked("Client's preferences"),
    "memory_required_keys_gt": marked("Memory keys"),
    "risk_disclosure_required_gt": marked("Risk tags"),
    "compliance_label_gt": marked("Compliance"),
    "explainability_rubric_gt": marked("Rubric items"),
}

Exchanges = Sequence[tuple[str, str]]

Choose = Callable[[str, int, Sequence[str], Callable[[Sequence[str]], str | None]], Sequence[str]]
"""Source of the values of a field: of its name, the number of the turn pair or 0, the suggested values, and a
function that returns the text of what is wrong with values, None for valid ones."""


def ask_exchanges() -> list[tuple[str, str]] | None:
    """Ask for the messages of a dialogue up to an empty one; return None where the first one is empty."""
    exchanges: list[tuple[str, str]] = []
    while user := _asked(tr("Client's message {number} (empty: end)", number=len(exchanges) + 1)):
        exchanges.append(
            (user, _asked(tr("Reference reply {number} (may be empty)", number=len(exchanges) + 1)))
        )
    return exchanges or None


def _asked(question: str, default: str = "") -> str:
    text: str = click.prompt(question, default=default, show_default=bool(default), err=True)
    return text.strip()


def ask(
    field: str, number: int, suggested: Sequence[str], problem: Callable[[Sequence[str]], str | None]
) -> Sequence[str]:
    """Ask for the values of a field until they are valid."""
    question = (f"{number}. " if number else "") + tr(QUESTIONS[field])
    question += f" ({', '.join(LEVELS[field])})" if field in LEVELS else ""
    while True:
        answer = _asked(question, "; ".join(suggested))
        found = (
            [] if answer == "-" else [each for item in re.split("[;；]", answer) if (each := item.strip())]
        )
        if (wrong := problem(found)) is None:
            return found
        note(wrong)


def given_answers(given: Mapping[str, Any], tags: Sequence[str], pairs: int, *, suggest: bool) -> Choose:
    """Return values of options by field, with suggestions for what is not given where that is asked for.

    ``tags`` are labels, each with the number of its turn pair in front, by default the last.

    Raises:
        UsageError: a label is of no kind, or its turn pair is not there; later also for invalid values.
    """
    values = {
        (name, 0): [value] if isinstance(value, str) else value for name, value in given.items() if value
    }
    for text in tags:
        head, colon, rest = text.partition(":")
        number, label = (int(head), rest) if colon and re.fullmatch("[0-9]{1,9}", head) else (pairs, text)
        if (field := _field_of(label)) is None or not 1 <= number <= pairs:
            kinds = f"risk tag, memory key, rubric item or compliance label of the {pairs} turn pairs"
            raise UsageError(f"--tag {text!r}: is no {kinds}")
        values.setdefault((field, number), []).append(label)

    def choose(
        field: str, number: int, suggested: Sequence[str], problem: Callable[[Sequence[str]], str | None]
    ) -> Sequence[str]:
        found: Sequence[str] = values.get((field, number), suggested if suggest else ())
        if (wrong := problem(found)) is not None:
            raise UsageError(f"{tr(QUESTIONS[field])}: {wrong}")
        return found

    return choose


def _field_of(label: str) -> str | None:
    if label.startswith(("profile_gt.", "history_turn_index:")):
        return "memory_required_keys_gt"
    if label in LEVELS["compliance_label_gt"]:
        return "compliance_label_gt"
    if label in RUBRIC_ITEMS:
        return "explainability_rubric_gt"
    return "risk_disclosure_required_gt" if canonical_risk_tag(label) is not None else None


def compose(exchanges: Exchanges, choose: Choose) -> dict[str, Any]:
    """Return a dialogue of messages and reference replies; ``choose`` takes or replaces suggestions."""
    words, profile = [user for user, _ in exchanges], dict[str, Any]()
    turns: list[dict[str, Any]] = []
    dialog: dict[str, Any] = {"language": detect_language(words[0]), "profile_gt": profile, "turns": turns}
    for user, reply in exchanges:
        turns += {"role": "user", "text": user}, {"role": "assistant", "text": reply, "turn_tags": {}}

    def chosen(field: str, suggested: Sequence[str], number: int = 0) -> Any:
        found = choose(field, number, suggested, lambda items: _problem(field, items, dialog))
        return [*found] if field not in (*LEVELS, "scenario") else "; ".join(found) or None

    classified = {"scenario_type": chosen("scenario", []), "difficulty": chosen("difficulty", ["medium"])}
    for field, suggested in suggested_profile(words, dialog["language"]).items():
        profile[field] = chosen(field, suggested)
    checker = ConstraintChecker(profile["constraints_gt"])
    for number, (_, reply) in enumerate(exchanges, 1):
        for broken in checker.check(reply).broken:
            note(tr("reply {number} contradicts {constraint}", number=number, constraint=broken.constraint))
        tags = turns[2 * number - 1]["turn_tags"]
        for field, suggested in suggested_labels(exchanges[:number], profile).items():
            tags[field] = chosen(field, suggested, number)
    return {name: value for name, value in classified.items() if value} | dialog


def _problem(field: str, items: Sequence[str], dialog: Mapping[str, Any]) -> str | None:
    allowed = LEVELS.get(field)
    if allowed and (len(items) > 1 or (not items and field in _PROFILE_LEVELS)):
        return tr("give one of {values}", values=", ".join(allowed))
    for item in items:
        if item not in allowed if allowed else not is_known(field, item, dialog):
            return tr("{value!r} is not known, or does not resolve", value=item)
    return None


def is_known(field: str, label: str, dialog: Dialog | Mapping[str, Any]) -> bool:
    """Return False for a label without effect: an unknown risk tag, or a key that does not resolve."""
    if field == "memory_required_keys_gt":
        return resolve_memory_required_key(label, dialog, 0).resolvable
    return field != "risk_disclosure_required_gt" or canonical_risk_tag(label) is not None


_PROFILE_LEVELS: Final = ("risk_level_gt", "horizon_gt", "liquidity_need_gt")


def suggested_profile(words: Sequence[str], language: str) -> dict[str, list[str]]:
    """Return the values of the fields of a profile that the client's messages state."""
    from memfin.agents.builtin import profile as profiles  # noqa: PLC0415 - needed at a prompt only

    rules = profiles.profile_rules("zh" if language == "zh" else "en")
    profile = profiles.ClientProfile()
    for text in words:
        profile = profile.after(profiles.extract(profiles.read_clauses(text, rules), rules, profile))
    found: dict[str, list[str]] = {}
    for field in _PROFILE_LEVELS:
        level, values = profile.levels.get(field.removesuffix("_gt")), LEVELS[field]
        wordings = values[:3] if language == "zh" else values[3:]
        found[field] = [] if level is None else [wordings[values[3:].index(level)]]
    found["constraints_gt"] = [*dict.fromkeys(each.words for each in profile.constraints)]
    return found | {"preferences_gt": profile.preferences}


def suggested_labels(exchanges: Exchanges, profile: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the labels of the last reply by field, as the detectors read it.

    Memory keys are those of values of the profile that the client's messages hold literally. A value of one
    or two characters must be what the messages state, too.
    """
    words, (user, reply) = [each for each, _ in exchanges], exchanges[-1]
    stated = suggested_profile(words, detect_language(words[0]))
    keys = []
    for field, value in profile.items():
        for place, item in enumerate([value] if isinstance(value, str) else value):
            if item in "\n".join(words) and (len(item) > 2 or item in stated[field]):  # noqa: PLR2004
                keys.append(f"profile_gt.{field}" + ("" if field in LEVELS else f"[{place}]"))
    if not keys and len(words) > 1:
        keys = [f"history_turn_index:{len(words) - 1}"]
    reading = read_content(Analysis(reply), user_text=user)
    return {
        "memory_required_keys_gt": keys,
        "risk_disclosure_required_gt": reading.risk_tags,
        "compliance_label_gt": [reading.compliance],
        "explainability_rubric_gt": reading.rubric_items,
    }


def read_dialogs(source: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON or JSON Lines file, ``-`` for standard input.

    Raises:
        UsageError: the file cannot be read, or holds something else.
    """
    with open_replies(source) as file:
        data = file.read().removeprefix(BOM)
    try:
        try:
            found = msgspec.json.decode(data)
        except msgspec.DecodeError:
            found = msgspec.json.Decoder(dict[str, Any]).decode_lines(data)
        dialogs = msgspec.convert(found if isinstance(found, list) else [found], list[dict[str, Any]])
    except (ValueError, RecursionError) as problem:
        raise UsageError(
            f"--from {source}: no JSON object, array of objects or JSON Lines: {problem}"
        ) from None
    if not dialogs:
        raise UsageError(f"--from {source}: there are no dialogues in it")
    return dialogs
