"""Regular expressions of the lexicons: their shorthands, and a rewrite that makes them fast.

Lexicon patterns are long alternations of Chinese words behind short gaps. Python's engine tries every
alternative at every position of a gap; a look-ahead on the set of possible first characters lets it
skip almost all of them. ``hasten`` inserts these look-aheads and changes nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from memfin.errors import UsageError

_SHORTHAND: Final = re.compile(r"<([A-Z][A-Z_]*|[=+]?[0-9]{1,3}|w[0-9]{1,2})>")
_SPECIAL: Final = frozenset("\\.^$*+?{}[]|()")
_WORTHWHILE: Final = 3


def expand(pattern: str, classes: Mapping[str, list[str]]) -> str:
    """Write out the shorthands of a lexicon pattern.

    ``<NAME>`` is a word class, ``<8>`` up to eight characters of the same sentence, ``<=8>`` of the
    same clause, ``<+8>`` of the same clause without a sign of negation, ``<w4>`` up to four further English words, none of which
    denies.

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
            return f"(?:[ ,'-]+(?!(?:no|not|zero|without|never|little)\\b)[^ .!?;,]+){{0,{name[1:]}}}?[ ,]+"
        if name not in classes:
            raise UsageError(f"lexicon pattern {pattern!r}: no word class {name} in words.toml")
        return "(?:" + "|".join(expand(word, classes) for word in classes[name]) + ")"

    return _SHORTHAND.sub(written_out, pattern)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern so that ``search`` is fast; group 1 of a match is what the pattern matched.

    The engine skips quickly to the next candidate only if a pattern begins with a character set. So
    the set of possible first characters goes in front, and the pattern itself is asserted from one
    character back.
    """
    hastened = hasten(pattern)
    first = _first(pattern)
    if first is None:
        return re.compile(f"({hastened})")
    return re.compile(f"{_set(first)}(?<=(?=({hastened})).)")


def hasten(pattern: str) -> str:
    """Return an equivalent pattern whose longer alternations first look at the next character."""
    alternatives = []
    for branch in _branches(pattern):
        pieces = []
        for piece in _pieces(branch):
            if not piece.startswith("("):
                pieces.append(piece)
                continue
            body = piece.rindex(")")
            head = next(
                (mark for mark in ("(?:", "(?<!", "(?<=", "(?=", "(?!") if piece.startswith(mark)), "("
            )
            inner = piece[len(head) : body]
            if head in ("(?<!", "(?<="):
                pieces.append(piece)
                continue
            faster = hasten(inner)
            first = _first(inner) if len(_branches(inner)) >= _WORTHWHILE else None
            if first and head != "(?!":
                faster = f"(?={_set(first)})(?:{faster})"
            pieces.append(f"{head}{faster}{piece[body:]}")
        alternatives.append("".join(pieces))
    return "|".join(alternatives)


def _branches(pattern: str) -> list[str]:
    """Split a pattern at its outermost bars."""
    found, depth, last, index = [], 0, 0, 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(pattern, index)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "|" and not depth:
            found.append(pattern[last:index])
            last = index + 1
        index += 1
    found.append(pattern[last:])
    return found


def _pieces(branch: str) -> Iterator[str]:
    """Cut a branch into its outermost groups (quantifier included) and the stretches between."""
    last = index = 0
    while index < len(branch):
        char = branch[index]
        if char == "\\":
            index += 2
            continue
        if char == "[":
            index = _class_end(branch, index) + 1
            continue
        if char != "(":
            index += 1
            continue
        if last < index:
            yield branch[last:index]
        start, depth = index, 0
        while True:
            char = branch[index]
            if char == "\\":
                index += 1
            elif char == "[":
                index = _class_end(branch, index)
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if not depth:
                    break
            index += 1
        index += 1
        yield branch[start:index]
        last = index
    if last < len(branch):
        yield branch[last:]


def _class_end(pattern: str, index: int) -> int:
    """Return the position of the bracket that closes the character class at ``index``."""
    index += 2 if pattern[index + 1] in "^]" else 1
    while pattern[index] != "]":
        index += 2 if pattern[index] == "\\" else 1
    return index


def _first(pattern: str) -> set[str] | None:
    """Return what a match may begin with, as members of a character class; None when unknown.

    A branch that may match nothing, or begins with anything but words, sets and plain groups, makes
    the whole pattern unknown.
    """
    found: set[str] = set()
    for branch in _branches(pattern):
        members = _first_of_branch(branch)
        if members is None:
            return None
        found |= members
    return found


def _first_of_branch(branch: str) -> set[str] | None:
    while True:
        if not branch:
            return None
        look_around = branch.startswith(("(?<!", "(?<=", "(?!", "(?="))
        if branch[0] == "(":
            group = next(_pieces(branch))
            rest = branch[len(group) :]
            if look_around:
                branch = rest
                continue
            members = _first(group[3:-1] if group.startswith("(?:") else group[1:-1])
        elif branch[0] == "[":
            end = _class_end(branch, 0)
            rest, members = branch[end + 1 :], None if branch[1] == "^" else {branch[1:end]}
        elif branch[0] == "\\":
            if branch[1] == "b":
                branch = branch[2:]
                continue
            rest, members = branch[2:], {branch[:2]} if branch[1] in "dw" or not branch[1].isalnum() else None
        elif branch[0] in _SPECIAL:
            return None
        else:
            rest, members = branch[1:], {branch[0]}
        if members is None:
            return None
        optional = rest.startswith(("?", "*", "{0"))
        if not optional:
            return members
        after = re.sub(r"^(?:[?*]|\{[0-9,]*\})[?+]?", "", rest)
        following = _first_of_branch(after)
        return None if following is None else members | following


def _set(members: set[str]) -> str:
    plain = sorted(member for member in members if member != "-")
    return "[" + "".join(plain) + ("\\-" if "-" in members else "") + "]"
