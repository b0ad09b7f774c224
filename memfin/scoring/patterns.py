"""Regular expressions of the lexicons: their shorthands, and a rewrite that makes them fast.

Lexicon patterns are long alternations of Chinese words behind short gaps. Python's engine tries every
alternative at every position of a gap; a look-ahead on the set of possible first characters lets it
skip almost all of them. ``hasten`` inserts these look-aheads and changes nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from memfin.errors import UsageError

_SHORTHAND: Final = re.compile(r"<([A-Z][A-Z_]*|[=+]?[0-9]{1,3}|w[0-9]{1,2})>")
_SPECIAL: Final = frozenset("\\.^$*+?{}[]|()")
_WORTHWHILE: Final = 3
_LOOK_AROUND: Final = ("(?!", "(?=", "(?<!", "(?<=")
_LOOK_AHEAD: Final = 16
_OPEN_REPETITION: Final = 24
_QUANTIFIER: Final = re.compile(r"(?:[?*+]|\{[0-9,]*\})?[?+]?")
_MOST_LITERALS: Final = 600
_ATOMS: Final = re.compile(r"(\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.)((?:[?*+]|\{[0-9,]*\})?\??)", re.DOTALL)
_LITERAL: Final = re.compile(r"[^\\.^$*+?{}\[\]|()]+")
_FREQUENT: Final = frozenset(
    "市场 投资 风险 收益 基金 资产 配置 建议 波动 需要 可能 如果 产品 股票 债券 行业 策略 长期 短期 历史 数据 组合 比例 回撤 情况 "
    "您的 你的 流动性 利率 政策 资金 仓位 持有 信息 了解 以及 或者 可以 通过 分析 进行 逻辑 基于 根据 企业 公司 指数".split()
)


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


class Branch(NamedTuple):
    """One alternative of a pattern, with the literals of which every match of it contains one.

    ``before`` and ``after`` bound how far a match reaches beyond the literal, in characters; ``after``
    is None when the alternative asks for the end of its sentence.
    """

    pattern: str
    literals: frozenset[str]
    before: int
    after: int | None


def branches(pattern: str) -> list[Branch]:
    """Split an expanded pattern into its alternatives and find the literals to scan for.

    Raises:
        UsageError: An alternative has no literal that all its matches contain.
    """
    found = []
    for alternative in _distributed(pattern):
        elements = list(_elements(alternative))
        options = list(_options(elements))
        if not options:
            raise UsageError(f"lexicon pattern {alternative!r}: nothing in it is certain to occur")
        literals, start, inside = min(options, key=lambda option: _cost(option[0]))
        before = sum(map(_width, elements[: start + 1] if inside else elements[:start]))
        after = sum(map(_width, elements[start:])) + _LOOK_AHEAD
        at_end = re.search(r"(?<!\\)\$", alternative) is not None
        found.append(Branch(alternative, literals, before, None if at_end else after))
    return found


def _options(elements: list[str]) -> Iterator[tuple[frozenset[str], int, bool]]:
    """Yield sets of literals of which any match contains one.

    With each set goes the element where the literal begins, and whether it may begin inside of it.
    """
    exact = [_exact(element) for element in elements]
    for start, first in enumerate(exact):
        if first is None:
            if literals := _required(elements[start]):
                yield literals, start, True
            continue
        product = frozenset(("",))
        for end in range(start, len(elements)):
            following = exact[end]
            if following is None or len(product) * len(following) > _MOST_LITERALS:
                break
            product = frozenset(head + tail for head in product for tail in following)
            if "" not in product:
                yield product, start, False
        if literals := _required(elements[start]):
            yield literals, start, True


def _exact(element: str) -> frozenset[str] | None:
    """Return everything the element matches, when that is a small set of strings; else None."""
    if element == "\\b" or element.startswith(_LOOK_AROUND):
        return frozenset(("",))
    body, quantifier = _unquantified(element)
    if quantifier not in ("", "?"):
        return None
    found: set[str] = set()
    if body.startswith("("):
        for branch in _branches(_inner(body)):
            product = {""}
            for part in _elements(branch):
                following = _exact(part)
                if following is None or len(product) * len(following) > _MOST_LITERALS:
                    return None
                product = {head + tail for head in product for tail in following}
            found |= product
    elif body.startswith("["):
        if body[1] == "^" or "-" in body[1:-1] or "\\" in body:
            return None
        found = set(body[1:-1])
    elif body.startswith("\\"):
        if body[1].isalnum():
            return None
        found = {body[1]}
    elif body in _SPECIAL:
        return None
    else:
        found = {body}
    return frozenset(found | {""} if quantifier else found)


def _unquantified(element: str) -> tuple[str, str]:
    if element.startswith("("):
        body = element.rindex(")") + 1
    elif element.startswith("["):
        body = _class_end(element, 0) + 1
    else:
        body = 2 if element.startswith("\\") else 1
    return element[:body], element[body:]


def _inner(group: str) -> str:
    return group[3 if group.startswith("(?:") else 1 : -1]


def _elements(branch: str) -> Iterator[str]:
    """Cut a branch into groups, sets and single characters, each with its quantifier."""
    for piece in _pieces(branch):
        if piece.startswith("(") or piece == "\\b":
            yield piece
        else:
            yield from (atom + quantifier for atom, quantifier in _ATOMS.findall(piece))


def _cost(literals: frozenset[str]) -> float:
    return sum(map(_weight, literals))


def _distributed(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern; look-arounds beside a group go to each alternative in it."""
    for branch in _branches(pattern):
        pieces = list(_pieces(branch))
        groups = [
            index for index, piece in enumerate(pieces) if piece.startswith("(?:") and piece.endswith(")")
        ]
        others = [piece for index, piece in enumerate(pieces) if not groups or index != groups[0]]
        if not groups or any(piece != "\\b" and not piece.startswith(_LOOK_AROUND) for piece in others):
            yield branch
            continue
        inner = _branches(pieces[groups[0]][3:-1])
        if len(inner) == 1 or all(_LITERAL.fullmatch(word) for word in inner):
            yield branch
            continue
        head, tail = "".join(pieces[: groups[0]]), "".join(pieces[groups[0] + 1 :])
        for word in inner:
            yield from _distributed(
                f"{head}{word}{tail}" if not (head or tail) else f"{head}(?:{word}){tail}"
            )


def _required(element: str) -> frozenset[str]:
    """Return literals of which any match of the element contains one; empty when there are none."""
    body, quantifier = _unquantified(element)
    if not body.startswith("(") or body.startswith(_LOOK_AROUND) or quantifier.startswith(("?", "*", "{0")):
        return frozenset()
    found: set[str] = set()
    for branch in _branches(_inner(body)):
        options = [literals for literals, _, _ in _options(list(_elements(branch)))]
        if not options:
            return frozenset()
        found |= min(options, key=_cost)
    return frozenset(found)


def _weight(literal: str) -> float:
    """Estimate how often a literal occurs: the rarer, the better it serves as the one to scan for."""
    length = len(literal)
    if literal.isascii():
        return 0.5 ** min(length + 1, 8)
    if length > 1 and any(char.isnumeric() for char in literal):
        return 0.01
    if length <= 2:
        return 1.0 if length == 1 or literal in _FREQUENT else 0.06
    return 0.006 if length == 3 else 0.001


def _width(element: str) -> int:
    """Return the greatest number of characters the element matches (an estimate for open repetition)."""
    if element == "\\b" or element.startswith(_LOOK_AROUND) or element in ("^", "$"):
        return 0
    body, quantifier = _unquantified(element)
    if not body.startswith("("):
        return _repeats(quantifier)
    inner = _branches(_inner(body))
    return max(sum(map(_width, _elements(branch))) for branch in inner) * _repeats(quantifier)


def _repeats(quantifier: str) -> int:
    if quantifier.startswith(("*", "+")):
        return _OPEN_REPETITION
    if quantifier.startswith("{"):
        return int(quantifier.strip("{}?").split(",")[-1] or _OPEN_REPETITION)
    return 1


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
    if branch.startswith("\\b"):
        yield "\\b"
        last = index = 2
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
        index = _QUANTIFIER.match(branch, index + 1).end()  # type: ignore[union-attr]
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
            group, _ = _unquantified(next(_pieces(branch)))
            rest = branch[len(group) :]
            if look_around:
                branch = rest
                continue
            members = _first(_inner(group))
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
