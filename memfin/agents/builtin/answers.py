"""Puts an answer together from what was asked, what is known, and who asks.

Pure functions of the question, the client file and the turn number; the sentences are data
(``memfin/data/agents/answers.*.toml``).
"""

from typing import Final, NamedTuple

from memfin.agents.bm25 import terms
from memfin.agents.builtin.allocation import CLASSES, Allocation, vehicles
from memfin.agents.builtin.arithmetic import Growth
from memfin.agents.builtin.client import Heard
from memfin.agents.builtin.extraction import Statement
from memfin.agents.builtin.knowledge import Knowledge, Topic
from memfin.agents.builtin.memory import Exchange
from memfin.agents.builtin.profile import ClientProfile, Level, profile_lines
from memfin.agents.builtin.rules import LEVEL_FIELDS, ProfileRules
from memfin.agents.builtin.ties import Ties

_FACTS: Final = 2
_STEPS: Final = 3
_SHARED_TERMS: Final = 3
_QUOTED: Final = 80
"""Characters of an earlier utterance that a recall answer quotes."""

_KINDS_ASKED: Final = {
    "max_drawdown": ("max_drawdown", "no_loss", "max_loss_amount"),
    "cash_floor": ("cash_floor", "reserve"),
}


class Speaker(NamedTuple):
    """Whom the agent answers and in which language."""

    profile: ClientProfile
    known: Knowledge
    rules: ProfileRules


def acknowledge(heard: Heard, speaker: Speaker) -> str:
    """Return the sentence that confirms what the client has just said about herself, or nothing."""
    phrases = speaker.known.phrases
    items = [(item, said) for said in heard.statements if (item := _item(said, heard.before, speaker))]
    if not items:
        return ""
    changed = any(not said.holds or _overrides(said, heard.before) for _, said in items)
    text = phrases["enumerate"].join(dict.fromkeys(item for item, _ in items))
    return phrases["corrected" if changed else "noted"].format(items=text)


def _overrides(said: Statement, before: ClientProfile) -> bool:
    """Return whether a statement changes a level the client had stated otherwise before."""
    earlier: Level | None = getattr(before, said.field) if said.field in LEVEL_FIELDS else None
    return earlier is not None and earlier.value != said.value


def _item(said: Statement, before: ClientProfile, speaker: Speaker) -> str:
    """Return how one statement is confirmed; one that does not hold in the end is passed over."""
    if said.field in LEVEL_FIELDS:
        return _level_item(said, before, speaker)
    phrases, profile = speaker.known.phrases, speaker.profile
    if said.field == "principal":
        return phrases["item_principal"].format(words=said.words)
    if not said.holds:
        lifted = said.asset in before.forbidden and said.asset not in profile.forbidden
        return phrases["item_lifted"].format(asset=said.asset) if lifted else ""
    kept = profile.preferences if said.field == "preference" else profile.constraints
    if all(found.words != said.words for found in kept):
        return ""
    return phrases[f"item_{said.field}"].format(words=said.words)


def _level_item(said: Statement, before: ClientProfile, speaker: Speaker) -> str:
    phrases, rules = speaker.known.phrases, speaker.rules
    current: Level | None = getattr(speaker.profile, said.field)
    earlier: Level | None = getattr(before, said.field)
    label, word = rules.labels[said.field], rules.level_word(said.field, said.value)
    if said.holds and current is not None and current.value == said.value:
        return phrases["item_level"].format(label=label, word=word)
    if not said.holds and current is None and earlier is not None:
        return phrases["item_withdrawn"].format(label=label, word=word)
    return ""


def take_stock(speaker: Speaker) -> str:
    """Return what is known about the client so far and what is missing."""
    phrases = speaker.known.phrases
    lines = profile_lines(speaker.profile, speaker.rules)
    text = phrases["summary"].format(lines=phrases["join"].join(lines)) if lines else ""
    return text + ask_for_missing(speaker)


def ask_for_missing(speaker: Speaker) -> str:
    """Return the question for the levels the client has not stated, or nothing."""
    phrases, labels = speaker.known.phrases, speaker.rules.labels
    missing = [labels[field] for field in LEVEL_FIELDS if getattr(speaker.profile, field) is None]
    return phrases["missing"].format(fields=phrases["enumerate"].join(missing)) if missing else ""


def explain(topic: Topic, ties: Ties, speaker: Speaker, *, discussed: int) -> str:
    """Return the explanation of a topic; `discussed` counts how often it came up before."""
    phrases = speaker.known.phrases
    facts = [topic.facts[(discussed + at) % len(topic.facts)] for at in range(min(_FACTS, len(topic.facts)))]
    opening = topic.refusal or phrases["understood_again" if discussed else "understood"]
    parts = [
        spaced(opening.format(name=topic.name)),
        phrases["reason"].format(facts=phrases["join"].join(facts)),
    ]
    if topic.benefit:
        parts.append(phrases["balance"].format(benefit=topic.benefit, risk=topic.risk))
    parts.append(tie_sentence(ties, speaker))
    if ties.conflict is None:
        parts.append(_steps(topic, speaker))
    return "".join(parts)


def spaced(sentence: str) -> str:
    """Return a text ready to be followed by another sentence: English wants a blank between them."""
    return f"{sentence} " if sentence.endswith((".", "?")) else sentence


def tie_sentence(ties: Ties, speaker: Speaker) -> str:
    """Return the ties to the client as one sentence, or say that nothing is known about her."""
    phrases = speaker.known.phrases
    if ties.clauses:
        return phrases["ties"].format(ties=phrases["join"].join(ties.clauses))
    return phrases["nothing_known"] if not speaker.profile.known() else ""


def _steps(topic: Topic, speaker: Speaker) -> str:
    phrases = speaker.known.phrases
    steps = [
        phrases["step"].format(number=number, step=step)
        for number, step in enumerate(topic.steps[:_STEPS], start=1)
    ]
    return phrases["steps"].format(steps=phrases["join"].join(steps))


def compare(first: Topic, second: Topic, ties: Ties, speaker: Speaker) -> str:
    """Return two topics side by side, along the dimensions both have, or by what each offers and costs."""
    phrases, names = speaker.known.phrases, speaker.known.names
    parts = [phrases["compare_head"].format(first=first.name, second=second.name)]
    parts.extend(
        phrases["compare_line"].format(
            dimension=names[trait],
            first=first.name,
            second=second.name,
            one=one,
            two=second.traits[trait],
        )
        for trait, one in first.traits.items()
        if trait in second.traits
    )
    parts.append(
        phrases["compare_balance"].format(
            benefit_one=first.benefit, risk_one=first.risk, benefit_two=second.benefit, risk_two=second.risk
        )
    )
    parts.append(phrases["compare_close"])
    parts.append(tie_sentence(ties, speaker))
    if ties.conflict is None:
        parts.append(_steps(second if ties.warning else first, speaker))
    return "".join(parts)


def present_allocation(result: Allocation, ties: Ties, topic: Topic, speaker: Speaker) -> str:
    """Return the example weights in words, with the reasoning and what they assume."""
    phrases = speaker.known.phrases
    if result.weights is None:
        quoted = _quoted(result.conflicting, speaker)
        return phrases["allocation_conflict"].format(constraints=quoted)
    parts = []
    if result.assumed:
        fields = phrases["enumerate"].join(speaker.rules.labels[field] for field in result.assumed)
        parts.append(phrases["allocation_assumed"].format(fields=fields))
    parts.append(_weights(result.weights, speaker))
    loss, limit = f"{result.stress_loss:g}", speaker.profile.max_acceptable_loss
    if limit is None:
        parts.append(phrases["allocation_stress"].format(loss=loss))
    else:
        parts.append(phrases["allocation_within"].format(loss=loss, limit=f"{100 * limit:g}"))
    parts.append(phrases["allocation_reasons"])
    parts.extend(_splits(result, speaker))
    if result.unchecked:
        parts.append(phrases["allocation_unchecked"].format(constraints=_quoted(result.unchecked, speaker)))
    parts.extend((tie_sentence(ties, speaker), _steps(topic, speaker)))
    return "".join(parts)


def _quoted(words: list[str], speaker: Speaker) -> str:
    phrases = speaker.known.phrases
    return phrases["enumerate"].join(phrases["quote"].format(words=found) for found in words)


def _weights(weights: dict[str, int], speaker: Speaker) -> str:
    phrases, names = speaker.known.phrases, speaker.known.names
    chosen = vehicles(speaker.profile, speaker.rules, speaker.known.vehicles)
    shares = [
        phrases["allocation_part"].format(name=names[name], share=weights[name], vehicle=chosen[name])
        if weights[name] and name in chosen
        else f"{names[name]} {weights[name]}%"
        for name in CLASSES
    ]
    text = phrases["allocation_head"].format(parts=phrases["enumerate"].join(shares))
    principal = speaker.profile.principal
    if principal:
        amounts = [
            phrases["allocation_amount"].format(name=names[name], amount=f"{principal * share / 100:.0f}")
            for name, share in weights.items()
            if share
        ]
        text += phrases["allocation_amounts"].format(
            principal=f"{principal:.0f}", parts=phrases["enumerate"].join(amounts)
        )
    return text


def _splits(result: Allocation, speaker: Speaker) -> list[str]:
    phrases, names = speaker.known.phrases, speaker.known.names
    sentences = []
    for split in result.splits:
        parts = [
            phrases["allocation_split_part"].format(name=names[name], count=count)
            for name, count in split.positions.items()
        ]
        if parts:
            joined = phrases["enumerate"].join(parts)
            sentences.append(phrases["allocation_split"].format(words=split.words, parts=joined))
    return sentences


def present_growth(growth: Growth, known: Knowledge) -> str:
    """Return a computation in words, with the note that it is arithmetic and no forecast."""
    phrases = known.phrases
    numbers = dict(growth.numbers)
    if growth.moves:
        steps = []
        for at, (rises, value) in enumerate(growth.moves):
            name = f"growth_{'then_' if at else ''}{'up' if rises else 'down'}"
            steps.append(phrases[name].format(value=value))
        numbers["moves"] = phrases["enumerate"].join(steps)
    note = phrases["growth_note"] if "rate" in numbers else ""
    return phrases[growth.phrase].format(**numbers) + note


def answer_recall(heard: Heard, first: Exchange | None, speaker: Speaker) -> str:
    """Return what the client said earlier: from the profile where it is kept, else from memory.

    `first` is the exchange the dialogue began with.
    """
    phrases = speaker.known.phrases
    asked = [name for name, pattern in speaker.known.recall_fields.items() if pattern.search(heard.text)]
    if words := _known_words(asked, speaker):
        return phrases["recalled_field"].format(words=phrases["join"].join(words))
    if asked:
        return phrases["nothing_recalled"]
    wants_first = speaker.known.intents["recall_first"].search(heard.text) is not None
    found = first if wants_first else _closest(heard)
    if found is None or found.user is None:
        return phrases["nothing_recalled"]
    return phrases["recalled_text"].format(words=found.user[:_QUOTED], turn=found.turn_index)


def _closest(heard: Heard) -> Exchange | None:
    """Return the earlier exchange nearest to a question: in the window by shared terms, else recalled.

    A question that shares nothing with the window or the store asks for what was said last.
    """
    asked = set(terms(heard.text))
    window = [found for found in heard.recall.short_term if found.user is not None]
    shared = [len(asked.intersection(terms(found.user or ""))) for found in window]
    if shared and max(shared) >= _SHARED_TERMS:
        return window[len(shared) - 1 - shared[::-1].index(max(shared))]
    if heard.recall.exchanges:
        return heard.recall.exchanges[0]
    return window[-1] if window else None


def _known_words(asked: list[str], speaker: Speaker) -> list[str]:
    """Return the labelled lines of the profile that answer what is asked."""
    profile, labels, rules = speaker.profile, speaker.rules.labels, speaker.rules
    words: list[str] = []
    for name in asked:
        if name in LEVEL_FIELDS:
            level: Level | None = getattr(profile, name)
            if level is not None:
                words.append(f"{labels[name]}: {rules.level_word(name, level.value)} ({level.words})")
        elif name == "principal":
            words.extend([f"{labels[name]}: {profile.principal:.12g}"] if profile.principal else [])
        elif name == "preference":
            words.extend(found.words for found in profile.preferences)
        else:
            kinds = _KINDS_ASKED.get(name)
            words.extend(found.words for found in profile.constraints if kinds is None or found.kind in kinds)
    return list(dict.fromkeys(words))


def unknown(known: Knowledge) -> str:
    """Return the admission that the question is beyond the agent's material."""
    return known.phrases["unknown"] + known.phrases["unknown_offer"]
