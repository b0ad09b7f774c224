"""The words of the vocabulary behind one Aho-Corasick automaton, and what each of them stands for.

Leftmost-longest: a longer word hides the shorter ones inside it, and takes over what they mean.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple, get_args

from ahocorasick_rs import AhoCorasick, Implementation, MatchKind

from memfin.scoring.constraints.vocabulary import Vocabulary, load_vocabulary
from memfin.scoring.patterns.expressions import late

RATINGS: Final[Mapping[str, int]] = {
    "aa+": 1,
    "aa": 2,
    "aa-": 3,
    "a+": 4,
    "single-a": 4,
    "a-rated": 4,
    "a级债": 4,
    "a级信用": 4,
    "a级主体": 4,
    "bbb": 5,
    "bb+": 6,
    "bb": 6,
    "bb-": 6,
    "ccc": 7,
}
"""Ratings below AAA that replies name, from good to poor; each is a term ``rating:...`` of the scan."""


Sign = Literal["share", "all_in", "hold"]
"""Words that announce a share, an all-in order, a holding period."""


class Role(NamedTuple):
    """What a word of the vocabulary stands for: terms, acts of terms, an asset class, parts of frames."""

    terms: tuple[str, ...]
    acts: tuple[str, ...]
    frames: tuple[tuple[str, int, int], ...]
    asset_class: str | None
    sign: Sign | None
    latin: bool


Meaning = tuple[
    tuple[str, ...], tuple[str, ...], tuple[tuple[str, int, int], ...], str | None, Sign | None, bool
]
"""A role as a plain tuple, which is read several times as fast."""

Table = Sequence[Meaning | None]


_ENDING: Final = late(r"(?:s|es|ed|ing|ping|ning)(?![a-z])")


class Scanner(NamedTuple):
    """The automaton, the roles of its patterns, and the patterns that speak of each term."""

    automaton: AhoCorasick
    roles: tuple[Role | None, ...]
    by_term: Mapping[str, tuple[int, ...]]
    by_sign: Mapping[Sign, tuple[int, ...]]
    classes: tuple[int, ...]


def bounded(text: str, start: int, end: int) -> bool:
    """Say whether a match that begins or ends in a Latin letter is a whole word, inflected or not."""
    if "a" <= text[start] <= "z" and start and "a" <= text[start - 1] <= "z":
        return False
    if not ("a" <= text[end - 1] <= "z" and end < len(text) and "a" <= text[end] <= "z"):
        return True
    return _ENDING.match(text, end) is not None


@lru_cache(maxsize=1024)
def role_table(terms: frozenset[str], signs: frozenset[Sign], *, classes: bool) -> Table:
    """Return the roles that matter to the given terms and signs, and to asset classes if asked.

    Dialogues of one dataset share their kinds of constraints, so the last tables are kept.
    """
    vocabulary = scanner()
    table: list[Role | None] = [None] * len(vocabulary.roles)
    wanted = [vocabulary.by_sign[sign] for sign in signs]
    if classes:
        wanted.append(vocabulary.classes)
    for indexes in wanted:
        for index in indexes:
            role = vocabulary.roles[index]
            table[index] = None if role is None else role._replace(terms=(), acts=(), frames=())
    for name in terms:
        for index in vocabulary.by_term.get(name, ()):
            role = vocabulary.roles[index]
            if role is not None:
                table[index] = role._replace(
                    terms=tuple(term for term in role.terms if term in terms),
                    acts=tuple(term for term in role.acts if term in terms),
                    frames=tuple(part for part in role.frames if part[0] in terms),
                )
    return [
        None
        if role is None
        else (role.terms, role.acts, role.frames, role.asset_class, role.sign, role.latin)
        for role in table
    ]


@cache
def scanner() -> Scanner:
    """Compile the vocabulary (once a process, a few milliseconds)."""
    vocabulary = load_vocabulary()
    terms, acts, frames = _terms(vocabulary)
    classes: dict[str, str] = {}
    for entry in vocabulary.classes:
        for word in entry.words:
            classes.setdefault(word, entry.id)
    for company in vocabulary.companies:
        # A bank is as well the place where money lies.
        if not company.endswith(("银行", "行", "bank")):
            classes.setdefault(company, "equity")
    signs: dict[str, Sign] = dict.fromkeys(vocabulary.holding, "hold")
    signs |= dict.fromkeys(vocabulary.share_signs, "share")
    signs |= dict.fromkeys(vocabulary.all_in, "all_in")
    blockers = {*vocabulary.blockers, "aaa"}
    patterns = sorted({*terms, *acts, *frames, *classes, *signs, *blockers})
    overlapping = AhoCorasick(patterns)
    roles: list[Role | None] = []
    by_term: dict[str, list[int]] = {}
    for number, pattern in enumerate(patterns):
        if pattern in blockers:
            # A blocker that is a word of a class is nothing but that: the stock fund, 超短债.
            own = classes.get(pattern)
            latin = "a" <= pattern[0] <= "z" or "a" <= pattern[-1] <= "z"
            roles.append(None if own is None else Role((), (), (), own, None, latin))
            continue
        # A longer word hides the shorter ones inside it from the scan, so it takes over what they mean.
        inner = sorted(
            (
                patterns[index]
                for index, start, end in overlapping.find_matches_as_indexes(pattern, overlapping=True)
                if bounded(pattern, start, end)
                and (patterns[index] not in RATINGS or patterns[index] == pattern)
            ),
            key=len,
        )
        role = Role(
            terms=tuple(dict.fromkeys(name for word in inner for name in terms.get(word, ()))),
            acts=tuple(dict.fromkeys(name for word in inner for name in acts.get(word, ()))),
            frames=tuple(dict.fromkeys(part for word in inner for part in frames.get(word, ()))),
            asset_class=next((classes[word] for word in reversed(inner) if word in classes), None),
            sign=next((signs[word] for word in reversed(inner) if word in signs), None),
            latin="a" <= pattern[0] <= "z" or "a" <= pattern[-1] <= "z",
        )
        roles.append(role)
        for name in {*role.terms, *role.acts, *(part[0] for part in role.frames)}:
            by_term.setdefault(name, []).append(number)
    automaton = AhoCorasick(
        patterns, matchkind=MatchKind.LeftmostLongest, implementation=Implementation.ContiguousNFA
    )
    return Scanner(
        automaton=automaton,
        roles=tuple(roles),
        by_term={name: tuple(numbers) for name, numbers in by_term.items()},
        by_sign={sign: _where(roles, sign) for sign in get_args(Sign)},
        classes=tuple(
            index for index, role in enumerate(roles) if role is not None and role.asset_class is not None
        ),
    )


def _where(roles: Sequence[Role | None], sign: Sign) -> tuple[int, ...]:
    return tuple(index for index, role in enumerate(roles) if role is not None and role.sign == sign)


def _terms(
    vocabulary: Vocabulary,
) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, list[tuple[str, int, int]]]]:
    terms: dict[str, list[str]] = {}
    acts: dict[str, list[str]] = {}
    frames: dict[str, list[tuple[str, int, int]]] = {}
    for term in vocabulary.terms:
        for word in (*term.names, *term.words):
            terms.setdefault(word, []).append(term.id)
        for word in term.acts:
            acts.setdefault(word, []).append(term.id)
        for number, groups in enumerate(term.frames):
            for part, words in enumerate(groups):
                for word in words:
                    frames.setdefault(word, []).append((term.id, number, part))
    for company in vocabulary.companies:
        terms.setdefault(company, []).append("individual_stocks")
    for rating in RATINGS:
        terms.setdefault(rating, []).append(f"rating:{rating}")
    return terms, acts, frames
