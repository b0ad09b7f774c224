"""Regular expressions of the lexicons: their shorthands, and a rewrite that makes them fast.

Lexicon patterns are long alternations of Chinese words behind short gaps. Python's engine tries every
alternative at every position of a gap; a look-ahead on the set of possible first characters lets it
skip almost all of them. Compiling inserts these look-aheads and changes one thing else: a word edge
beside Latin letters or digits holds beside Chinese characters too (加leverage到2倍).
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from memfin.errors import UsageError
from memfin.scoring.patterns.syntax import (
    LOOK_BEHIND,
    SPECIAL,
    WORD_EDGE,
    branches_of,
    elements_of,
    inner,
    is_empty,
    is_optional,
    unquantified,
)

_SHORTHAND: Final = re.compile(r"<([A-Z][A-Z_]*|[=+]?[0-9]{1,3}|w[0-9]{1,2})>")
# A set of Chinese characters takes up half a kilobyte and 60 us when it is compiled.
_WORTHWHILE: Final = 10
# A word edge to which Chinese characters are no letters; as fast as the plain one.
_LATIN_EDGE: Final = rf"(?a:{WORD_EDGE})"
_LETTER: Final = r"\w"
# The rest of a word that began in Latin letters.
_LATIN_LETTER: Final = "[a-z0-9_]"


def expand(pattern: str, classes: Mapping[str, list[str]]) -> str:
    """Write out the shorthands of a lexicon pattern.

    ``<NAME>`` is a word class, ``<8>`` up to eight characters of the same sentence, ``<=8>`` of the
    same clause, ``<+8>`` of the same clause without a sign of negation, ``<w4>`` up to four
    further English words, none of which denies.

    Raises:
        UsageError: The pattern names a word class that does not exist.
    """

    def written_out(match: re.Match[str]) -> str:
        name = match.group(1)
        if name.startswith("="):
            return f"[^,:|。!?;\\n]{{0,{name[1:]}}}?"
        if name.startswith("+"):
            return f"[^,:|。!?;\\n不没无未非别勿]{{0,{name[1:]}}}?"
        if name.isdecimal():
            return f"[^。!?;\\n]{{0,{name}}}?"
        if name.startswith("w"):
            denials = "no|not|zero|without|never|little|cannot|can't"
            return f"(?:[ ,'-]+(?!(?:{denials})\\b)[^ .!?;,]+){{0,{name[1:]}}}?[ ,]+"
        if name not in classes:
            raise UsageError(f"lexicon pattern {pattern!r}: no word class {name} in words.toml")
        return "(?:" + "|".join(expand(word, classes) for word in classes[name]) + ")"

    return _SHORTHAND.sub(written_out, pattern)


def at_head(pattern: str) -> str:
    """Write a pattern for ``match`` at a known place; group 1 is what the pattern matched."""
    return f"({_hastened_behind_head(pattern)})"


def to_search(pattern: str) -> str:
    """Write a pattern so that one ``search`` is fast; group 1 of a match is what the pattern matched."""
    return at_head(pattern) if _begins_plainly(pattern) else _asserted(pattern)


class _Late:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, source: str, flags: int, rewrite: Callable[[str], str] | None) -> None:
        self.pattern: Final = source
        self._flags: Final = flags
        self._rewrite: Final = rewrite

    def __getattr__(self, name: str) -> Any:
        """Compile it and take over its methods; Python asks here for those that are not there yet."""
        source = self.pattern if self._rewrite is None else self._rewrite(self.pattern)
        compiled = re.compile(source, self._flags)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "split", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled when it is first used.

    Five hundred of them stand in this package; to compile them all takes half a second and 10 MB, in
    every process that scores nothing, too.
    """
    return cast("re.Pattern[str]", _Late(pattern, flags, None))


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Prepare a pattern of our own for ``search`` and `apart`; group 1 of a match is what it matched.

    It is compiled when it is first used.
    """
    return cast("re.Pattern[str]", _Late(pattern, 0, _asserted))


def _asserted(pattern: str) -> str:
    """Put the set of a pattern's first characters in front, and assert the pattern one character back.

    The engine skips quickly to the next candidate only if a pattern begins with a character set.
    """
    first = _first(pattern)
    return at_head(pattern) if first is None else f"{_set(first)}(?<=(?={at_head(pattern)}).)"


def apart(
    pattern: re.Pattern[str], text: str, low: int = 0, high: int = sys.maxsize
) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern of `compile_pattern` in ``text[low:high]`` that do not overlap.

    Such a pattern takes up its first character only, so its own ``finditer`` finds 半数 inside 一半数 too.
    """
    last = low
    for match in pattern.finditer(text, low, high):
        start, end = match.span(1)
        if start >= last:
            last = end
            yield match


class Quick:
    """A pattern whose matches are found as fast as `compile_pattern` finds them, with their own groups."""

    __slots__ = ("_fast", "_plain")

    def __init__(self, pattern: str) -> None:
        """Prepare the pattern twice: to find where it may match, and to match there."""
        self._fast: Final = compile_pattern(pattern)
        self._plain: Final = late(pattern)

    def finditer(self, text: str, low: int = 0, high: int = sys.maxsize) -> Iterator[re.Match[str]]:
        """Yield the matches within ``text[low:high]`` that do not overlap."""
        last = low
        for place in self._fast.finditer(text, low, high):
            if place.start() >= last:
                match = self._plain.match(text, place.start(), high)
                if match is not None:
                    last = match.end()
                    yield match

    def search(self, text: str, low: int = 0, high: int = sys.maxsize) -> re.Match[str] | None:
        """Return the first match within ``text[low:high]``, or None."""
        return next(self.finditer(text, low, high), None)


def _hastened(pattern: str) -> str:
    """Return an equivalent pattern whose longer alternations first look at the next character."""
    return "|".join("".join(_hastened_branch(elements_of(branch))) for branch in branches_of(pattern))


def _hastened_behind_head(pattern: str) -> str:
    """Hasten what stands behind a pattern's first word: where that can begin is known when it is tried."""
    if len(branches_of(pattern)) > 1:
        return _hastened(pattern)
    elements = elements_of(pattern)
    head = next((index for index, element in enumerate(elements) if not is_empty(element)), 0)
    return "".join(_hastened_branch(elements, head))


def _hastened_branch(elements: tuple[str, ...], head: int = -1) -> Iterator[str]:
    """Yield the elements of a branch, hastened; the one at ``head`` without a look at its own first signs."""
    for index, element in enumerate(elements):
        if element == WORD_EDGE:
            latin = _is_latin(_last(elements[:index])) or _is_latin(_first("".join(elements[index + 1 :])))
            yield _LATIN_EDGE if latin else element
        elif element.startswith(_LETTER) and _is_latin(_last(elements[:index])):
            yield _LATIN_LETTER + element.removeprefix(_LETTER)
        else:
            yield _hastened_element(element, ahead=index != head)


def _begins_plainly(pattern: str) -> bool:
    """Say whether the engine finds the set of a pattern's first characters by itself."""
    branches = branches_of(pattern)
    body, quantifier = unquantified(elements_of(branches[0])[0]) if branches[0] else ("", "?")
    if len(branches) > 1:
        return all(map(_begins_with_a_letter, branches))
    if body.startswith("(?:") and not quantifier:
        return _begins_plainly(inner(body))
    return _begins_with_a_letter(pattern)


def _begins_with_a_letter(branch: str) -> bool:
    body, quantifier = unquantified(elements_of(branch)[0]) if branch else ("", "?")
    return len(body) == 1 and body not in SPECIAL and not is_optional(quantifier)


def _hastened_element(element: str, *, ahead: bool) -> str:
    # A look-behind must keep its fixed width, and a denial must not be made easier to meet.
    if not element.startswith("(") or element.startswith(LOOK_BEHIND):
        return element
    group, quantifier = unquantified(element)
    body = inner(group)
    faster = _hastened(body)
    first = _first(body) if ahead and len(branches_of(body)) >= _WORTHWHILE else None
    if first and not group.startswith("(?!"):
        faster = f"(?={_set(first)})(?:{faster})"
    return f"{group[: -1 - len(body)]}{faster}){quantifier}"


def _first(pattern: str) -> set[str] | None:
    """Return what a match may begin with, as members of a character set; None when unknown.

    A branch that may match nothing, or begins with anything but words, sets and plain groups, makes
    the whole pattern unknown.
    """
    found: set[str] = set()
    for branch in branches_of(pattern):
        for element in elements_of(branch):
            if is_empty(element):
                continue
            body, quantifier = unquantified(element)
            members = _first_of_element(body)
            if members is None:
                return None
            found |= members
            if not is_optional(quantifier):
                break
        else:
            return None
    return found


def _first_of_element(body: str) -> set[str] | None:
    if body.startswith("("):
        return _first(inner(body))
    if body.startswith("["):
        return None if body[1] == "^" else {body[1:-1]}
    if body.startswith("\\"):
        return {body} if body[1] in "dw" or not body[1].isalnum() else None
    return None if body in SPECIAL else {body}


def _last(elements: tuple[str, ...]) -> set[str] | None:
    """Return what a match of these elements may end with; None when unknown."""
    found: set[str] = set()
    for index in reversed(range(len(elements))):
        if is_empty(elements[index]):
            continue
        body, quantifier = unquantified(elements[index])
        if body == _LETTER and _is_latin(_last(elements[:index])):
            members: set[str] | None = {_LATIN_LETTER[1:-1]}
        elif body.startswith("("):
            ends = [_last(elements_of(branch)) for branch in branches_of(inner(body))]
            members = None if None in ends else set[str]().union(*filter(None, ends))
        else:
            members = _first_of_element(body)
        if members is None:
            return None
        found |= members
        if not is_optional(quantifier):
            return found
    return None


def _is_latin(members: set[str] | None) -> bool:
    return members is not None and all(
        member == r"\d" or (member.isascii() and member.replace("-", "").replace("_", "").isalnum())
        for member in members
    )


def _set(members: set[str]) -> str:
    plain = sorted(member for member in members if member != "-")
    return "[" + "".join(plain) + ("\\-" if "-" in members else "") + "]"
