"""What a topic means for this client: the explicit ties of an answer to her profile."""

from typing import Final, NamedTuple

from memfin.agents.builtin.knowledge import Knowledge, Question, Topic
from memfin.agents.builtin.profile import ClientProfile, Constraint
from memfin.agents.builtin.rules import ProfileRules

_NAMED: Final = 2
"""Constraints that one answer names; the others take their turn in later answers."""


class Ties(NamedTuple):
    """The tie clauses in order, the constraint that rules the topic out, and a warning if it misfits."""

    clauses: list[str]
    conflict: Constraint | None
    warning: str | None


def tie(
    profile: ClientProfile, topic: Topic, question: Question, known: Knowledge, rules: ProfileRules, turn: int
) -> Ties:
    """Return how a topic bears on the client; `turn` rotates which constraints are named."""
    phrases = known.phrases
    clauses: list[str] = []
    warning = None
    conflict = ruled_out(profile, topic, question, rules)
    if conflict is not None:
        clauses.append(phrases["constraint_conflict"].format(words=conflict.words, name=topic.name))
    elif profile.risk_level is not None:
        level = rules.level_word("risk_level", profile.risk_level.value)
        phrase = "level_only"
        if topic.fits is not None:
            phrase = "fits" if profile.risk_level.value in topic.fits else "does_not_fit"
            phrase = phrase if topic.fits else "unfit_for_most"
        clauses.append(phrases[phrase].format(level=level, name=topic.name))
        if phrase in ("does_not_fit", "unfit_for_most"):
            warning = phrases["suitability"].format(level=level, name=topic.name)
    clauses.extend(_circumstances(profile, known, rules, turn))
    for preference in profile.preferences:
        if preference.asset is not None and preference.asset in topic.assets and conflict is None:
            clauses.append(phrases["preference_tie"].format(words=preference.words, name=topic.name))
            break
    others = [found for found in profile.constraints if found is not conflict]
    if named := _rotated(others, turn):
        quoted = phrases["enumerate"].join(phrases["quote"].format(words=found.words) for found in named)
        clauses.append(phrases["constraint_kept"].format(constraints=quoted))
    return Ties(clauses, conflict, warning)


def _circumstances(profile: ClientProfile, known: Knowledge, rules: ProfileRules, turn: int) -> list[str]:
    """Return what horizon and liquidity mean; a long horizon warns of little and is named now and then."""
    clauses = []
    if profile.horizon is not None and (profile.horizon.value != "long" or turn % 2 == 0):
        word = rules.level_word("horizon", profile.horizon.value)
        clauses.append(known.phrases[f"horizon_{profile.horizon.value}"].format(word=word))
    if profile.liquidity_need is not None and profile.liquidity_need.value == "high":
        clauses.append(known.phrases["liquidity_high"])
    return clauses


def _rotated(constraints: list[Constraint], turn: int) -> list[Constraint]:
    if len(constraints) <= _NAMED:
        return constraints
    first = (turn * _NAMED) % len(constraints)
    return [constraints[(first + step) % len(constraints)] for step in range(_NAMED)]


def ruled_out(
    profile: ClientProfile, topic: Topic, question: Question, rules: ProfileRules
) -> Constraint | None:
    """Return the constraint by which the client excluded what the question is about, if any.

    That is the topic's main asset, or an asset the question names.
    """
    if not topic.assets:
        return None
    named = {rules.asset(word) for word in question.keywords} & set(topic.assets)
    concerned = {topic.assets[0], *named}
    for constraint in profile.constraints:
        if constraint.kind == "forbidden" and constraint.asset in concerned:
            return constraint
        if constraint.kind == "only" and topic.traits and not _among(constraint, topic, rules):
            return constraint
    return None


def _among(constraint: Constraint, topic: Topic, rules: ProfileRules) -> bool:
    """Return whether a topic belongs to the only assets the client wants."""
    wanted = (constraint.asset or "").split(rules.words["list"])
    kinds = {rules.asset_classes.get(asset) for asset in wanted}
    return any(asset in wanted or rules.asset_classes.get(asset) in kinds for asset in topic.assets)
