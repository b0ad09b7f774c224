"""Perturbations of a dialogue by family: each returns the variant, or None where it does not apply."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from memfin.contracts import Dialog, Fact, Turn, TurnTags
from memfin.contracts.pressure import CHANGING, Family, Perturbation
from memfin.dataset import align_turn_pairs
from memfin.pressure.sentences import Choices, Sentences, sentences_of
from memfin.pressure.values import Change, find_change, values_of
from memfin.text.quantities import quantities

FOREIGN_SHARES: Final = (37, 43, 47, 53, 57, 63)
"""Percentages that false facts give: such as clients' own limits hardly are."""

_SENTENCE_END: Final = tuple("。.!?！？…")


class _Case(NamedTuple):
    dialog: Dialog
    family: Family
    random: Random
    sentences: Sentences
    change: Change | None

    @property
    def asked(self) -> list[int]:
        """The positions of the user turns that are answered."""
        return [pair.user_turn_abs_idx for pair in align_turn_pairs(self.dialog)]

    def with_texts(self, texts: Mapping[int, str]) -> Dialog:
        """Return the dialogue with other texts at some positions."""
        turns = self.dialog.turns
        return self.dialog.replace(
            turns=[turn.replace(text=texts[at]) if at in texts else turn for at, turn in enumerate(turns)]
        )

    def after(self, at: int, sentence: str) -> dict[int, str]:
        """Return the text of the turn at a position with a sentence behind it."""
        return {at: joined(self.dialog.turns[at].text, sentence)}


_Made = tuple[Dialog, dict[str, Any]]


def perturb(dialog: Dialog, family: Family, seed: int, change: Change | None = None) -> Dialog:
    """Return the variant ``ID~FAMILY`` of a dialogue; where nothing applies, its words are the original's.

    The same dialogue, family and seed always give the same variant. ``change`` is the one that a family
    which changes a value makes; `change_of` finds it.
    """
    random = Random(f"{seed}/{family}/{dialog.dialog_id}")  # noqa: S311 - a choice of sentences
    case = _Case(dialog, family, random, sentences_of(dialog.language), change)
    variant, more = _FAMILIES[family](case)
    pairs = [(pair.turn_pair_id, pair.turn_pair_id) for pair in align_turn_pairs(dialog)]
    return variant.replace(
        dialog_id=f"{dialog.dialog_id}~{family}",
        user_id=None if dialog.user_id is None else f"{dialog.user_id}~{family}",
        probes=[
            probe.replace(evidence=[_renamed(place, family) for place in probe.evidence])
            for probe in variant.probes
        ],
        earlier=[],
        perturbation=Perturbation(
            family=family,
            of=dialog.dialog_id,
            preserves=family not in CHANGING,
            seed=seed,
            pairs=pairs,
            **more,
        ),
    )


def change_of(dialog: Dialog) -> Change | None:
    """Return the change of a value that the client tells in this dialogue, None if none can be made."""
    told = {value for at in _users(dialog) for value in values_of(dialog.turns[at].text)}
    own = [fact for fact in dialog.facts if fact.owner is None and not fact.planted and fact.told_at]
    texts = (*dialog.profile_gt.constraints_gt, *(fact.value for fact in own))
    candidates = [text for text in texts if told.intersection(values_of(text))]
    truth = dialog.profile_gt
    fixed = filter(None, (truth.risk_level_gt, truth.horizon_gt, truth.liquidity_need_gt))
    return find_change(candidates, _spoken(dialog), (*fixed, *truth.preferences_gt))


def _users(dialog: Dialog) -> list[int]:
    return [at for at, turn in enumerate(dialog.turns) if turn.role == "user"]


def _spoken(dialog: Dialog) -> Iterator[str]:
    """Yield all texts of a dialogue in which the client's values stand."""
    yield from (turn.text for turn in dialog.turns)
    yield from dialog.profile_gt.constraints_gt
    for turn in dialog.turns:
        yield from turn.turn_tags.memory_required_keys_gt if turn.turn_tags else ()
    for fact in dialog.facts:
        yield from (fact.value, *fact.aliases)
    for probe in dialog.probes:
        yield from (probe.answer or "", *probe.aliases)


def _renamed(place: str, family: Family) -> str:
    dialog_id, mark, turn = place.partition("#")
    return f"{dialog_id}~{family}{mark}{turn}"


def joined(text: str, sentence: str) -> str:
    """Return a text with a sentence behind it, with the marks that the language wants between them."""
    text = text.rstrip()
    if not text.endswith((*_SENTENCE_END, '"', "”", "」", ")", "）")):
        text += "。" if re.match(r"[\u4e00-\u9fff]", sentence) else "."
    return text + ("" if re.match(r"[\u4e00-\u9fff]", sentence) else " ") + sentence


# ------------------------------------------------------------------ preserving


def _paraphrase(case: _Case) -> _Made:
    wording, random = case.sentences.paraphrase, case.random
    kept = sorted(_literals(case.dialog), key=len, reverse=True)
    texts = {}
    for at in case.asked:
        text = case.dialog.turns[at].text
        spans = [(each.start, each.end) for each in quantities(text)]
        spans += [match.span() for word in kept for match in re.finditer(re.escape(word), text)]
        pieces, end = [], 0
        for start, stop in sorted(spans):
            pieces += [_reworded(text[end:start], wording.words), text[max(end, start) : max(end, stop)]]
            end = max(end, stop)
        text = "".join((*pieces, _reworded(text[end:], wording.words)))
        ending = random.choice(wording.endings)
        text = random.choice(wording.openings) + text
        texts[at] = joined(text, ending) if ending else text
    return case.with_texts(texts), {}


def _reworded(text: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def _literals(dialog: Dialog) -> set[str]:
    """Return the words of a dialogue that must stay as they are: those that labels compare literally."""
    truth = dialog.profile_gt
    words = {*truth.constraints_gt, *truth.preferences_gt}
    words |= {*filter(None, (truth.risk_level_gt, truth.horizon_gt, truth.liquidity_need_gt))}
    for fact in dialog.facts:
        words |= {fact.value, *fact.aliases}
    for turn in dialog.turns:
        words |= {*turn.turn_tags.memory_required_keys_gt} if turn.turn_tags else set()
    return {word for word in words if word}


def _added(choices: Callable[[Sentences], Choices], every: int) -> Callable[[_Case], _Made]:
    """Return a perturbation that adds a sentence to every so many user turns, the first of them included."""

    def perturbed(case: _Case) -> _Made:
        sentences = choices(case.sentences).sentences
        first = case.random.randrange(len(sentences))
        texts: dict[int, str] = {}
        for number, at in enumerate(case.asked[::every], first):
            texts |= case.after(at, sentences[number % len(sentences)])
        return case.with_texts(texts), {}

    return perturbed


def _planted(case: _Case) -> _Made:
    return _told(case, case.sentences.planted.documents, planted=True)


def _other_people(case: _Case) -> _Made:
    return _told(case, case.sentences.other_people.sentences, owners=case.sentences.other_people.names)


def _told(
    case: _Case, templates: Sequence[str], owners: Sequence[str] = (), *, planted: bool = False
) -> _Made:
    """Put a false or foreign fact into the second half of the user's words, and into the ledger."""
    dialog, random = case.dialog, case.random
    standing = {value for text in _spoken(dialog) for value in values_of(text)}
    free = [share for share in FOREIGN_SHARES if f"share:{share / 100:g}" not in standing]
    if not free:
        return dialog, {}
    share, template = random.choice(free), random.choice(templates)
    number = (len(case.asked) + 1) // 2
    owner = next((name for name in owners if name in template), None)
    fact = Fact(
        id=f"{case.family}-{dialog.dialog_id}",
        value=f"{share}%",
        told_at=number,
        kind="percent",
        owner=owner,
        planted=planted,
    )
    variant = case.with_texts(case.after(case.asked[number - 1], template.format(share=share)))
    return variant.replace(facts=[*variant.facts, fact]), {}


def _pushing(case: _Case) -> _Made:
    pushing, dialog = case.sentences.pushing, case.dialog
    tags = TurnTags(compliance_label_gt="compliant")
    script = case.random.choice(pushing.scripts)
    turns = [
        turn
        for asked, reply in zip(script, pushing.replies, strict=True)
        for turn in (Turn(role="user", text=asked), Turn(role="assistant", text=reply, turn_tags=tags))
    ]
    before = len(case.asked)
    rounds = [before + number for number in range(1, len(script) + 1)]
    return dialog.replace(turns=[*dialog.turns, *turns]), {"rounds": rounds}


# ------------------------------------------------------------------ changing


def _changed_fact(case: _Case) -> _Made:
    change, dialog = case.change, case.dialog
    if change is None or any(change.apply(text) is None for text in _spoken(dialog)):
        return dialog, {}

    def new(text: str) -> str:
        return change.apply(text) or text

    def all_new(texts: Iterable[str]) -> list[str]:
        return [*map(new, texts)]

    def tags(tags: TurnTags | None) -> TurnTags | None:
        return tags and tags.replace(memory_required_keys_gt=all_new(tags.memory_required_keys_gt))

    truth = dialog.profile_gt
    variant = dialog.replace(
        profile_gt=truth.replace(constraints_gt=all_new(truth.constraints_gt)),
        turns=[turn.replace(text=new(turn.text), turn_tags=tags(turn.turn_tags)) for turn in dialog.turns],
        facts=[fact.replace(value=new(fact.value), aliases=all_new(fact.aliases)) for fact in dialog.facts],
        probes=[
            probe.replace(answer=probe.answer and new(probe.answer), aliases=all_new(probe.aliases))
            for probe in dialog.probes
        ],
        events=[
            {name: new(value) if isinstance(value, str) else value for name, value in event.items()}
            for event in dialog.events
        ],
    )
    return variant, {"change": change.record}


_FAMILIES: Final[Mapping[Family, Callable[[_Case], _Made]]] = {
    "paraphrase": _paraphrase,
    "distractors": _added(lambda sentences: sentences.distractors, 1),
    "changed_fact": _changed_fact,
    "flattery": _added(lambda sentences: sentences.flattery, 2),
    "false_premise": _added(lambda sentences: sentences.false_premise, 3),
    "pushing": _pushing,
    "planted": _planted,
    "other_people": _other_people,
}
FAMILIES: Final[tuple[Family, ...]] = tuple(_FAMILIES)
