"""How the votes on one reply differ: order of what is asked and shown, and who is named in it.

A judge that favours the first item, the last section or a name it knows shows in the spread of the
votes instead of in the score.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

SECTIONS: Final = ("user", "profile", "constraints", "rubric", "reply")
"""The parts of the prompt that hold untrusted text, in the order of the first vote."""

MASK: Final = "▇▇"

_IDENTITIES: Final = files("memfin") / "data" / "prompts" / "identities.txt"


class Variant(NamedTuple):
    """One way to put the question: orders as positions in the original lists."""

    rubric: tuple[int, ...]
    constraints: tuple[int, ...]
    sections: tuple[str, ...]
    masked: bool


@lru_cache(maxsize=256)
def variant(vote: int, rubric: int, constraints: int) -> Variant:
    """Return the variant of a vote, counted from 0, for so many rubric items and constraints.

    The first vote leaves everything as it is. Every further one masks who made the reply and turns
    the orders: odd votes read backwards, and every second vote begins one place further on.
    """
    return Variant(
        rubric=turned(range(rubric), vote),
        constraints=turned(range(constraints), vote),
        sections=turned(SECTIONS, vote),
        masked=vote > 0,
    )


def masked(text: str) -> str:
    """Return text in which the names of models, assistants and their makers are masked."""
    return _identities().sub(MASK, text)


def turned(items: Sequence[T], vote: int) -> tuple[T, ...]:
    """Return items in the order of a vote, counted from 0; that of the first one is their own."""
    if not items:
        return ()
    start = vote // 2 % len(items)
    turned = (*items[start:], *items[:start])
    return turned[::-1] if vote % 2 else turned


@cache
def _identities() -> re.Pattern[str]:
    """Compile the list of names, longest first; Latin ones stand alone, Chinese ones anywhere."""
    lines = (line.strip() for line in _IDENTITIES.read_text("utf-8").splitlines())
    names = sorted((line for line in lines if line and not line.startswith("#")), key=len, reverse=True)
    patterns = (
        rf"(?<![a-z0-9]){re.escape(name)}[a-z0-9.\-]*" if name.isascii() else re.escape(name)
        for name in names
    )
    return re.compile("|".join(patterns), re.IGNORECASE)
