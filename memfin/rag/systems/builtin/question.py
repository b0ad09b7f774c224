"""What a question asks for: a sum, a date, a number of things, yes or no, a name, a list, or words."""

import re
from typing import Final, Literal, NamedTuple, cast

from memfin.rag.language import language_of
from memfin.rag.systems.builtin.words import shown, vocabulary

Kind = Literal[
    "amount",
    "breakdown",
    "date",
    "range",
    "clock",
    "count",
    "boolean",
    "person",
    "place",
    "organization",
    "id",
    "list",
    "conflict",
    "text",
]

_UNIT: Final = re.compile(
    r"(?:多少|几)(个月|个人|小时|分钟|次|人|名|天|年|月|笔|份|张|位|岁|个|套|家|期|户|回|趟|页|处|项|条|封|遍)"
)
_ENGLISH_UNIT: Final = re.compile(
    r"how many (?:\w+ )??(times|people|persons|payments|transfers|days|weeks|months|years|hours|witnesses)"
)
_CANONICAL: Final = {
    **dict.fromkeys(("人", "名", "位", "个人", "people", "persons", "witnesses"), "人"),
    **dict.fromkeys(("次", "回", "趟", "遍", "times"), "次"),
    **dict.fromkeys(("天", "days"), "天"),
    **dict.fromkeys(("个月", "月", "months"), "月"),
    **dict.fromkeys(("年", "years"), "年"),
    **dict.fromkeys(("小时", "hours"), "小时"),
    **dict.fromkeys(("分钟",), "分钟"),
    **dict.fromkeys(("笔", "payments", "transfers"), "笔"),
    **dict.fromkeys(("weeks",), "周"),
    "岁": "岁",
}
_DURATIONS: Final = frozenset(("天", "周", "月", "年", "小时", "分钟"))


class Question(NamedTuple):
    """A question, read.

    ``units`` are those that a count may have, none for any; ``details`` says that it wants more than a
    sum or a summary.
    """

    text: str
    kind: Kind
    units: frozenset[str]
    details: bool
    total: bool
    chinese: bool


def read_question(text: str) -> Question:
    """Return what a question asks for."""
    words = shown(text)
    known = vocabulary()
    kind = cast(
        "Kind", next((kind for kind, pattern in known.kinds.items() if pattern.search(words)), "text")
    )
    units: frozenset[str] = frozenset()
    if kind == "count":
        if known.signs["duration"].search(words):
            units = _DURATIONS
        elif known.signs["age"].search(words):
            units = frozenset("岁")
        elif (found := _UNIT.search(words) or _ENGLISH_UNIT.search(words)) is not None:
            units = frozenset((_CANONICAL.get(found[1], found[1] if found[1] != "个" else ""),))
    return Question(
        text,
        kind,
        units,
        details=known.signs["details"].search(words) is not None,
        total=known.signs["total"].search(words) is not None,
        chinese=language_of(text) == "zh",
    )


def asks_same(question: Question, other: str) -> bool:
    """Say whether another question asks for the same kind of thing."""
    pattern = vocabulary().kinds.get(question.kind)
    return pattern is not None and pattern.search(shown(other)) is not None


def speaks_of(question: Question, text: str) -> bool:
    """Say whether a sentence speaks of the kind of thing that is asked for."""
    pattern = vocabulary().topics.get(question.kind)
    return pattern is None or pattern.search(shown(text)) is not None
