"""Just enough of the grammar of regular expressions to take lexicon patterns apart.

Lexicon patterns use literals, character sets, groups, look-arounds and quantifiers, and some name a group;
no back-references, no flags. The same word classes recur in hundreds of patterns, hence the caches.
"""

import re
from functools import cache
from typing import Final

WORD_EDGE: Final = "\\b"
LOOK_BEHIND: Final = ("(?<!", "(?<=")
LOOK_AROUND: Final = (*LOOK_BEHIND, "(?!", "(?=")
SPECIAL: Final = frozenset("\\.^$*+?{}[]|()")

_QUANTIFIER: Final = r"(?:[?*+]|\{[0-9,]*\})?\??"
_TOKEN: Final = re.compile(rf"(\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.)({_QUANTIFIER})", re.DOTALL)
# The signs that shape a pattern; sets and escapes are consumed whole, plain characters skipped.
_STRUCTURE: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[()|]", re.DOTALL)
_GROUP_HEAD: Final = re.compile(r"\((?:\?(?:[:=!]|<[=!]|P<\w+>))?")
_AFTER_GROUP: Final = re.compile(_QUANTIFIER)


@cache
def branches_of(pattern: str) -> tuple[str, ...]:
    """Split a pattern at its outermost bars."""
    found, depth, last = [], 0, 0
    for match in _STRUCTURE.finditer(pattern):
        sign = match.group()
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
        elif sign == "|" and not depth:
            found.append(pattern[last : match.start()])
            last = match.start() + 1
    return (*found, pattern[last:])


@cache
def elements_of(branch: str) -> tuple[str, ...]:
    """Cut a branch into groups, sets and single characters, each with its quantifier."""
    found, index = [], 0
    while match := _TOKEN.match(branch, index):
        if match.group(1) == "(":
            end = _group_end(branch, index)
            quantifier = _AFTER_GROUP.match(branch, end)
            end = quantifier.end() if quantifier else end
        else:
            end = match.end()
        found.append(branch[index:end])
        index = end
    return tuple(found)


def _group_end(branch: str, index: int) -> int:
    depth = 0
    for match in _STRUCTURE.finditer(branch, index):
        sign = match.group()
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
            if not depth:
                return match.end()
    return len(branch)


@cache
def unquantified(element: str) -> tuple[str, str]:
    """Part an element from its quantifier, which may be empty."""
    if element.startswith("("):
        end = _group_end(element, 0)
        return element[:end], element[end:]
    match = _TOKEN.match(element)
    return (match.group(1), match.group(2)) if match else (element, "")


def inner(group: str) -> str:
    """Return what stands between the parentheses of a group."""
    head = _GROUP_HEAD.match(group)
    return group[head.end() if head else 0 : -1]


def is_empty(element: str) -> bool:
    """Say whether an element matches a place instead of characters."""
    return element in (WORD_EDGE, "^", "$") or element.startswith(LOOK_AROUND)


def is_optional(quantifier: str) -> bool:
    """Say whether a quantifier lets its element be left out."""
    return quantifier.startswith(("?", "*", "{0"))
