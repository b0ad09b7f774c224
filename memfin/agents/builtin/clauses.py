"""A client's words in clauses, each with what stops it from being a statement about the client.

The agent reads with rules of its own and not with those of MemFin's scoring, which judge it.
"""

from typing import Final, NamedTuple

from memfin.agents.builtin.rules import ProfileRules
from memfin.contracts import Language
from memfin.text.clauses import sentence_bounds

# Case and Chinese punctuation stay, unlike in `memfin.text.normalize`: the agent quotes these words.
_WIDE: Final = "％＜＞＋＄０１２３４５６７８９" + "".join(
    map(chr, (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B)))
)
_READING_FORM: Final[dict[int, int]] = {
    **{ord(sign): ord(sign) - 0xFEE0 for sign in _WIDE},
    **dict.fromkeys(map(ord, "‘’"), ord("'")),
    **dict.fromkeys(map(ord, "\u3000\u00a0"), ord(" ")),
}
_END_MARKS: Final = "。！？!?；;…."
_CLOSING: Final = "”」』\"'）)"
_SHORT: Final = 12


class Clause(NamedTuple):
    """A stretch of the client's words in reading form (half-width, straight quotes, same length)."""

    text: str
    sentence: int
    question: bool
    hypothetical: bool
    hearsay: bool
    personal: bool

    @property
    def stated(self) -> bool:
        """Say whether the client states it, neither asking nor supposing nor reporting somebody else."""
        return not (self.question or self.hypothetical or self.hearsay)


def detect_language(text: str, default: Language) -> Language:
    """Return the language a text is in; one that does not show it has the default.

    A few Latin words in a Chinese sentence are terms, and a single one on its own shows nothing.
    """
    han = sum("\u4e00" <= char <= "\u9fff" for char in text)
    if han:
        latin = sum(char.isascii() and char.isalpha() for char in text)
        return "en" if latin > 8 * han else "zh"
    words = sum(word.isascii() and word.strip('.,!?"').replace("'", "").isalpha() for word in text.split())
    return "en" if words >= 3 else default  # noqa: PLR2004 - fewer may be a ticker and its exchange


def read_clauses(text: str, rules: ProfileRules) -> list[Clause]:
    """Return the clauses of a text in order."""
    form = text.translate(_READING_FORM)
    clauses: list[Clause] = []
    for number, (start, end) in enumerate(sentence_bounds(form)):
        sentence = form[start:end].rstrip()
        asks = sentence.rstrip(_CLOSING).endswith(("?", "？"))
        clauses.extend(_clauses_of(sentence.rstrip(_END_MARKS), number, asks=asks, rules=rules))
    return clauses


def _clauses_of(sentence: str, number: int, *, asks: bool, rules: ProfileRules) -> list[Clause]:
    reading = rules.reading
    parts = [part.strip() for part in reading["clause_end"].split(sentence)]
    parts = [part for part in parts if part]
    personal = reading["first_person"].search(sentence) is not None
    clauses = []
    supposing, others = False, False
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        # A condition governs what follows it in its sentence: "if I were bold, I would buy stocks".
        supposing = supposing or reading["hypothetical"].search(part) is not None
        # A clause without a subject is about whom the one before was about: "my friend is bold, buys gold".
        if reading["other_subject"].match(part):
            others = True
        elif reading["first_person"].search(part):
            others = False
        clauses.append(
            Clause(
                text=part,
                sentence=number,
                question=(asks and last) or reading["question"].search(part) is not None,
                hypothetical=supposing,
                hearsay=others or reading["hearsay"].search(part) is not None,
                personal=personal or len(part) < _SHORT,
            )
        )
    return clauses


def about_others(clause: Clause, at: int, rules: ProfileRules) -> bool:
    """Return whether somebody else than the client is the subject of what stands at an offset."""
    others = list(rules.reading["others"].finditer(clause.text, 0, at))
    return bool(others) and rules.reading["first_person"].search(clause.text, others[-1].end(), at) is None
