"""What a stretch of a reply is about: the assets and practices of the vocabulary that it names.

"It breaks your rule" turns down what was told of last. Where the sentence, or the paragraph, has named a
thing of its own before it says so, it is that thing, and not what another sentence advises.
"""

from functools import cache
from typing import Final

from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.constraints.words import bounded, scanner
from memfin.scoring.patterns.expressions import late

FUNDING: Final = frozenset({"leverage", "margin_trading", "off_market_financing"})
"""Practices that are a way to come by money: what the reply buys with it is no alternative to them."""
_RULE: Final = late(
    r"(?:你|约束|要求|规矩|限制)[^,;。!?\n]{0,12}?(?:只|仅|不|没|未|别|定|说|要求|剔除|排除)[^,;。!?\n]*|"
    r"[^,;。!?\n]{0,10}的?(?:约束|要求|规矩|限制|底线|约定)|"
    r"\byour?\b[^,;.!?\n]{0,24}?\b(?:only|no|not|never|avoid\w*|exclud\w*|rules?|limits?|said|says|asked)\b"
    r"[^,;.!?\n]*"
)
"""Words that tell the user's rule; what they name is no topic."""
_ATTRIBUTES: Final = frozenset(
    {
        "high_fee",
        "opaque_performance",
        "lock_up_products",
        "high_volatility",
        "high_valuation_growth",
        "loss_making",
    }
)
"""What any asset may have: a sentence that names the asset may still be about it."""
_ACTS: Final = frozenset({"chasing_rallies", "bottom_fishing", "short_term_trading"})
"""What may be done with any asset."""


def of_another(text: str, names: frozenset[str]) -> bool:
    """Say whether a text names things, and none of them is one of the terms or akin to one.

    ``names`` are ids of terms, or of asset classes behind ``class:``, as `named` gives them.
    """
    things = names - _ATTRIBUTES
    if names and not things:
        return False
    told = named(_RULE.sub(lambda rule: "," * len(rule[0]), text)) - _ATTRIBUTES
    if things <= _ACTS:
        told -= _ACTS
    return bool(told) and not named(text) & widened(things)


def takes_up_another(text: str, topic: str) -> bool:
    """Say whether a text that takes something up names another thing than the topic does.

    Borrowed money buys anything, and where the topic has no name that the vocabulary knows, nobody can say.
    """
    names = named(topic)
    return bool(names) and not names & FUNDING and of_another(text, names)


def named(text: str) -> frozenset[str]:
    """Return the ids of the terms and ``class:`` ids of the asset classes that a normalized text names."""
    words = scanner()
    found: set[str] = set()
    for index, start, end in words.automaton.find_matches_as_indexes(text):
        role = words.roles[index]
        if role is None or (role.latin and not bounded(text, start, end)):
            continue
        found.update(role.terms, role.acts)
        if any(term.startswith("rating:") for term in role.terms):
            found.add("class:bond")
        if role.asset_class is not None:
            found.add(f"class:{role.asset_class}")
    return widened(frozenset(found))


@cache
def _broader() -> dict[str, frozenset[str]]:
    """Return, by the id of a term, the terms that include it."""
    found: dict[str, set[str]] = {}
    for term in load_vocabulary().terms:
        for narrower in load_vocabulary().closure(term.id):
            found.setdefault(narrower, set()).add(term.id)
    return {name: frozenset(broader) for name, broader in found.items()}


def widened(names: frozenset[str]) -> frozenset[str]:
    """Return the ids with those of all broader terms."""
    return names.union(*(_broader().get(name, frozenset()) for name in names))
