"""Words that mean the same are one word before a reply or a constraint is read (``synonyms.toml``)."""

from collections.abc import Iterator, Mapping
from functools import cache
from re import Pattern
from types import MappingProxyType
from typing import Final, NamedTuple

from ahocorasick_rs import AhoCorasick, MatchKind

from memfin.scoring.patterns.expressions import late
from memfin.scoring.patterns.files import read_table
from memfin.scoring.patterns.syntax import branches_of, elements_of, inner, is_empty
from memfin.scoring.text.short_forms import SHORT_FORMS

_CLIENT: Final = late(
    r"客户(?:(?<![\s\S]客户)|(?<=[\s,。:;!?、“”()*|>#\-.给跟与和请议按照合出过于在对由用把"
    r"因到是但以向比只免离距依帮定条了劝助超喊供]客户))"
    r"(?![们经端服群关层代满流都总数体分]|资[料产金]|投诉|回访|适当性|"
    r"身份|认知|须知|协议|证券|信息|权益|订单|公司)"
)
"""The person spoken to, in a reply that says 你 to nobody."""


class _Variant(NamedTuple):
    """What is read as ``word``; where a context decides, ``pattern`` matches there only."""

    word: str
    pattern: Pattern[str] | None


@cache
def synonyms() -> Mapping[str, str]:
    """Return every variant, a word with look-arounds, with the word that it is read as."""
    table = read_table("synonyms", dict[str, list[str]])
    return MappingProxyType({variant: word for word, variants in table.items() for variant in variants})


def without_context(variant: str) -> str:
    """Return the word alone, without its look-arounds."""
    return "".join(element for element in elements_of(variant) if not is_empty(element))


@cache
def _known() -> tuple[AhoCorasick, list[list[_Variant]]]:
    """Return an automaton of what variants begin with, and for each the variants that do."""
    by_head: dict[str, list[_Variant]] = {}
    for variant, word in synonyms().items():
        alone = without_context(variant)
        known = _Variant(word, late(variant) if alone != variant else None)
        for head in _heads(alone, variant):
            by_head.setdefault(head, []).append(known)
    for head, pattern, word in SHORT_FORMS:
        by_head.setdefault(head, []).append(_Variant(word, late(pattern)))
    return AhoCorasick(list(by_head), matchkind=MatchKind.LeftmostLongest), list(by_head.values())


def _heads(alone: str, variant: str) -> list[str]:
    """Return what a variant begins with; with a single character goes the one that has to follow."""
    ahead = elements_of(variant)[-1]
    if len(alone) > 1 or not ahead.startswith("(?="):
        return [alone]
    first = [elements_of(branch)[0] for branch in branches_of(inner(ahead))]
    if any(sign.startswith(("(", "[^", "\\")) for sign in first):
        return [alone]
    return [alone + sign for signs in first for sign in signs.strip("[]")]


def variants_in(norm: str) -> Iterator[tuple[int, int, str]]:
    """Yield where a variant or a short form stands in a normalized text, and what it is read as."""
    automaton, variants = _known()
    try:
        found = automaton.find_matches_as_indexes(norm)
    except UnicodeEncodeError:  # half of a surrogate pair
        return
    for index, start, end in found:
        for word, pattern in variants[index]:
            if pattern is None:
                yield start, end, word
                break
            match = pattern.match(norm, start)
            if match is not None:
                yield start, match.end(), word
                break
    if "客户" in norm and norm.count("你") == norm.count("你好"):
        for match in _CLIENT.finditer(norm):
            yield (*match.span(), "你")


def in_usual_words(norm: str) -> str:
    """Return a normalized text with every variant read as its word."""
    pieces: list[str] = []
    last = 0
    for start, end, word in sorted(variants_in(norm)):
        pieces += (norm[last:start], word)
        last = end
    return "".join((*pieces, norm[last:]))
