"""Numbers in text, written in one piece or in groups."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from memfin.memory.sensitive.view import View

_SEQUENCE: Final = re.compile(r"\d+(?:(?:[ \t]{1,3}|[ \t]?[-./_·•|~*][ \t]?|[ \t]*-?[ \t]*\n[ \t]*)\d+)*")
_GROUP: Final = re.compile(r"\d+")
_NOISE: Final = re.compile(
    r"(?<![0-9a-z])(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?=[0-9]*[a-f][0-9a-f]{0,127})[0-9a-f]{24,128})(?![0-9a-z])"
)
"""UUIDs and digests, whose digits say nothing."""

MOST_DIGITS: Final = 19
_TABLE: Final = 40
"""So many groups are a table: no number in it is looked for digit by digit."""

_MOST_GROUPS: Final = 9


class Number(NamedTuple):
    r"""Digits that may be one number.

    ``sizes`` are the lengths of its groups and ``gaps`` the characters between them, each reduced to
    ``"\n"``, a blank or the sign it holds.
    """

    digits: str
    sizes: tuple[int, ...]
    gaps: tuple[str, ...]
    start: int
    end: int

    @property
    def whole(self) -> bool:
        """Whether it is written in one piece."""
        return not self.gaps

    @property
    def broken(self) -> bool:
        """Whether line ends, two at most, are all that divides it."""
        return 0 < len(self.gaps) <= 2 and set(self.gaps) == {"\n"}  # noqa: PLR2004 - as the docstring says

    @property
    def spaced(self) -> bool:
        """Whether one and the same sign stands between all its digits."""
        return len(set(self.gaps)) == 1 and set(self.sizes) == {1}

    @property
    def uniform(self) -> bool:
        """Whether its groups are divided in one way, line ends apart."""
        return len(set(self.gaps) - {"\n"}) <= 1


def quiet(view: View) -> View:
    """Return the view with UUIDs and digests blotted out, places kept."""
    lower = _NOISE.sub(lambda match: "=" * len(match[0]), view.lower)
    if lower == view.lower:
        return view
    text = "".join("=" if low == "=" else given for low, given in zip(lower, view.text, strict=True))
    return View(text, view.starts)


def numbers(view: View) -> Iterator[Number]:
    """Yield every number of at most 19 digits that neighbouring groups make up, nested ones too."""
    for sequence in _SEQUENCE.finditer(view.text):
        groups = [match.span() for match in _GROUP.finditer(view.text, *sequence.span())]
        gaps = [_sign(view.text[end:start]) for (_, end), (start, _) in pairwise(groups)]
        most = MOST_DIGITS if len(groups) <= _TABLE else _MOST_GROUPS
        for first in range(len(groups)):
            digits = ""
            for last in range(first, min(first + most, len(groups))):
                digits += view.text[slice(*groups[last])]
                if len(digits) > MOST_DIGITS:
                    break
                yield Number(
                    digits,
                    tuple(end - start for start, end in groups[first : last + 1]),
                    tuple(gaps[first:last]),
                    groups[first][0],
                    groups[last][1],
                )


def _sign(gap: str) -> str:
    if "\n" in gap:
        return "\n"
    return gap.strip() or " "
