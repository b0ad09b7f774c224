"""All rules over one text: the classifier of sensitive input."""

import re
from collections.abc import Iterator
from typing import Final

from memfin.memory.sensitive.api_keys import api_keys
from memfin.memory.sensitive.cards import bank_cards, card_codes
from memfin.memory.sensitive.digits import numbers, quiet
from memfin.memory.sensitive.emails import emails
from memfin.memory.sensitive.findings import Finding, outermost
from memfin.memory.sensitive.identity import identity_numbers, names_beside
from memfin.memory.sensitive.phones import phones
from memfin.memory.sensitive.private_keys import private_keys
from memfin.memory.sensitive.seed_phrases import seed_phrases
from memfin.memory.sensitive.view import View, spelt_out, view_of, without_breaks
from memfin.memory.sensitive.wallets import wallet_addresses

_FEWEST_DIGITS: Final = re.compile(r"(?:\d\D{0,6}){6}")
"""Every number that is looked for holds six digits close to each other."""


def find_sensitive(text: str) -> tuple[Finding, ...]:
    """Return what of a text must never be saved, in order of its place (memory design §10.2).

    The classifier knows the text and nothing else: no user, no profile, no setting changes its answer
    (memory design §7.2). Whatever the width of characters, invisible ones, separators and line breaks
    within an identifier, and whatever script stands beside it, the answer is the same.
    """
    view = view_of(text)
    if not view.text:
        return ()
    found = list(_in_words(view))
    joined = without_breaks(view)
    if joined is not None:
        found += emails(joined)
        found += api_keys(joined)
    found += _in_numbers(quiet(spelt_out(view)))
    return outermost(found)


def _in_words(view: View) -> Iterator[Finding]:
    yield from emails(view)
    yield from wallet_addresses(view)
    yield from private_keys(view)
    yield from seed_phrases(view)
    yield from api_keys(view)
    yield from card_codes(view)


def _in_numbers(view: View) -> Iterator[Finding]:
    if _FEWEST_DIGITS.search(view.text) is None:
        return
    written = list(numbers(view))
    identities = list(identity_numbers(view, written))
    yield from identities
    yield from names_beside(view, identities)
    yield from bank_cards(view, written)
    yield from phones(view, written)
