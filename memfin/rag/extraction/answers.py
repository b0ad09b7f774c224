"""Values, yes or no, and abstention in the text of an answer (spec section 9)."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

from memfin.rag.extraction.facts import (
    Fact,
    FactKind,
    PartialDate,
    Period,
    facts_in,
    find_facts,
    find_ranges,
    ordering_masked,
    period,
    quotations,
    unit_asked,
)
from memfin.rag.extraction.normalize import fold, load_patterns, plain, tables
from memfin.text.clauses import CLAUSE_MARKS, SENTENCE_MARKS, between_marks, clauses, sentences

_PATTERNS: Final = load_patterns("answers", relation="|".join(tables()["names"]["fragments"]["relation"]))


def leading_polarity(text: str) -> bool | None:
    """Return True or False for a `plain` text that begins with a yes or a no, else None."""
    if _PATTERNS["yes"].match(text):
        return True
    return False if _PATTERNS["no"].match(text) else None


def polarity(text: str, question: str = "") -> bool | None:
    """Return True or False for an answer of yes or no, None for an open one.

    1. A leading yes or no decides.
    2. Otherwise the first clause does that is more than a setting (根据笔录): an odd number of negations is a
       no; 不是没有, 并非不, 不否认 count as two.
    3. To a negated question in Chinese (没有收吗) yes agrees with the negation, as does a negated clause.
    4. To one in English (did he not pay) the clause after a yes counts: "correct, he did not" is a no.
    """
    shown = _PATTERNS["echo"].sub("", plain(text))
    asked = next(reversed(clauses(plain(question))), "")
    lead = leading_polarity(shown)
    reverses = is_negated(asked)
    if reverses and _PATTERNS["not"].search(asked):
        reverses, rest = False, _PATTERNS["agreed"].sub("", shown)
        shown, lead = (rest, None) if rest else (shown, lead)
    if lead is not None and not (reverses and _PATTERNS["restated"].match(shown)):
        return lead
    clause = next((each for each in clauses(shown) if not _PATTERNS["setting"].match(each)), shown)
    if not clause.strip() or _PATTERNS["open"].search(clause):
        return None
    return is_negated(clause) is reverses


def is_negated(clause: str) -> bool:
    """Return True if a `plain` clause has an odd number of negations."""
    clause = _PATTERNS["neutral"].sub("", _PATTERNS["double"].sub("", negated_once(clause)))
    return len(_PATTERNS["negation"].findall(clause)) % 2 == 1


def negated_once(text: str) -> str:
    """Return a `plain` text in which a negation with two verbs (不认罪,也不认罚) is written once."""
    return _PATTERNS["distributed"].sub(r"\g<left>", text)


_TERM: Final = re.compile("(?i)[a-z]+|[一-鿿]")
_RULES: Final = tables()["answers"]["patterns"].keys()
_KINDS: Final = [name.removeprefix("asks_") for name in _RULES if name.startswith("asks_")]
MAX_CANDIDATES: Final = 100  # an answer with more lists figures and gives none
_MAX_SILENT: Final = 4  # sentences without a sign in an abstention that begins later
_REACH: Final = 14  # characters before a sign in which a negation or a question counts
_BEFORE: Final = 24  # the same before a value


class Abstention(NamedTuple):
    """An abstention with its sign in the text, or the ``reason`` why a text does not abstain.

    ``source`` is the deciding part: a ``typed_answer``, ``declared`` by the system, or the ``text``.
    """

    abstains: bool
    sign: str | None = None
    reason: str | None = None
    source: str = "text"

    def details(self) -> dict[str, Any]:
        """Return the abstention as details of a score."""
        signs = {name: text for name, text in (("sign", self.sign), ("reason", self.reason)) if text}
        return {"abstained": self.abstains, "source": self.source, **signs}


def signs_of_not_knowing(text: str) -> list[re.Match[str]]:
    """Return the signs of not knowing in a `plain` text, without negated and questioned ones."""
    if _PATTERNS["hint"].search(text) is None:
        return []
    return [match for match in _PATTERNS["sign"].finditer(text) if not _is_guarded(text, match)]


def _is_guarded(text: str, match: re.Match[str]) -> bool:
    is_chinese = match["chinese"] is not None
    reach = _REACH if is_chinese else 3 * _REACH
    before = text[max(0, match.start() - reach) : match.start()]
    if _PATTERNS["guarded"].search(f"{before}\0{match[0]}\0{text[match.end() : match.end() + 3]}"):
        return True
    names = ("negated" if is_chinese else "negated_english", "questioned", "condition")
    return any(_PATTERNS[name].search(before) for name in names)


def _segments(text: str) -> list[str]:
    """Return the sentences of a `plain` text, divided before but, however, 但, 不过 as well."""
    found: list[str] = []
    for sentence in sentences(text):
        starts = [match.start() for match in _PATTERNS["contrast"].finditer(sentence) if match.start()]
        found.extend(sentence[a:b] for a, b in zip([0, *starts], [*starts, len(sentence)], strict=True))
    return [segment for segment in found if fold(segment)]


def _bigrams(text: str) -> frozenset[str]:
    folded = fold(_PATTERNS["common"].sub("", text))
    pairs = (folded[place : place + 2] for place in range(len(folded) - 1))
    return frozenset(pair for pair in pairs if pair.isalpha())


def recognize_abstention(text: str, question: str = "") -> Abstention:  # noqa: PLR0911 - one a reason
    """Return the abstention in an answer to a question, or the reason why it does not abstain.

    1. A sign of not knowing decides in the first sentence, and in a later one that is nearer to the question
       by the pairs of characters they share, or as near when the answer does not begin with yes or no.
    2. It does not after a yes, before a guess, or where one of the rules (asks_x, tells_x) finds an answer
       beside it, unless its clause speaks of the kind of thing asked for.
    3. It does not in a clause that follows another one and shares no word with the question.
    """
    shown, asked = plain(text), plain(question)
    folded = fold(shown)
    if not folded:
        return Abstention(abstains=False, reason="empty")
    if _PATTERNS["bare"].fullmatch(folded):
        return Abstention(abstains=True, sign=shown.strip())
    if not _PATTERNS["sign"].search(shown):
        return Abstention(abstains=False, reason="no_sign")
    unquoted = "".join(_outside_quotes(shown))
    if _PATTERNS["conflict"].search(unquoted) and not signs_of_not_knowing(unquoted):
        return Abstention(abstains=False, reason="tells_a_conflict")
    parts = _segments(shown)
    signs = [next(iter(signs_of_not_knowing(part)), None) for part in parts]
    if not any(signs):
        return Abstention(abstains=False, reason="double_negation_or_question")
    kinds = [kind for kind in _KINDS if _PATTERNS[f"asks_{kind}"].search(asked)]
    focus = [_PATTERNS[f"focus_{kind}"] for kind in kinds if f"focus_{kind}" in _RULES]
    place, sign = (0, signs[0]) if signs[0] else _nearest(parts, signs, asked, focus)
    if sign is None:
        return Abstention(abstains=False, reason="beside_the_point")
    if (not place or _PATTERNS["asks_no"].search(asked)) and leading_polarity(parts[0]) is True:
        return Abstention(abstains=False, reason="answers_yes")
    after = parts[place][sign.end() :]
    before = _PATTERNS["end"].sub(",", "".join((*parts[:place], parts[place][: sign.start()])))
    rest = (later for later, mark in zip(parts[place:], signs[place:], strict=True) if mark is None)
    told = "\0".join((before, sign[0], after, "".join(rest)))
    topic, earlier = _topic(before, after), before.rpartition(",")[0]
    shares = not set(_TERM.findall(topic)).isdisjoint(_TERM.findall(asked))
    is_asked = _is_asked(topic, sign[0], asked, focus) or (shares and _PATTERNS["as_for"].search(before))
    rules = (kind for kind in kinds if not (is_asked and f"focus_{kind}" in _RULES))
    reason = next((f"tells_{kind}" for kind in rules if _PATTERNS[f"tells_{kind}"].search(told)), None)
    opens = any(_PATTERNS[name].search(earlier) for name in ("setting", "no_answer"))
    answered = earlier and not opens and ("no" in kinds or not is_negated(earlier))
    is_other = _bigrams(topic) and not shares and not any(each.search(topic) for each in focus)
    if reason is None and answered and is_other:
        reason = "beside_the_point"
    return Abstention(reason is None, sign[0] if reason is None else None, reason)


def _topic(before: str, after: str) -> str:
    """Return the words that the clause of a sign speaks of, or those of a clause before it (至于受益人)."""
    *earlier, own = before.split(",")
    topic = _PATTERNS["idle"].sub("", own + (clauses(after) or [""])[0])
    as_for = _PATTERNS["as_for"].match(earlier[-1]) if earlier and not topic else None
    return earlier[-1][as_for.end() :] if as_for else topic


def _is_asked(topic: str, sign: str, asked: str, focus: Sequence[re.Pattern[str]]) -> bool:
    """Return True if a topic is the kind of thing that a question asks for: a name of who, a day of when."""
    rests = (fold(each.sub("", topic)) for each in focus if each.search(topic + sign))
    return any(not rest or not set(rest).isdisjoint(asked) for rest in rests)


def _outside_quotes(text: str) -> Iterator[str]:
    done = 0
    for quoted in quotations(text):
        if quoted.start >= done:
            yield text[done : quoted.start]
            done = quoted.end
    yield text[done:]


def _nearest(
    parts: list[str], signs: list[re.Match[str] | None], question: str, focus: Sequence[re.Pattern[str]]
) -> tuple[int, re.Match[str] | None]:
    """Return the position and the sign of a later sentence that answers the question, if any."""
    asked = _bigrams(question)
    shared = [len(asked & _bigrams(part)) for part in parts]
    silent = [count for count, sign in zip(shared, signs, strict=True) if sign is None]
    if len(silent) > _MAX_SILENT:
        return 0, None
    floor = max(silent) + (leading_polarity(parts[0]) is not None)
    for place, (part, sign) in enumerate(zip(parts, signs, strict=True)):
        if sign and _is_asked(_topic(part[: sign.start()], part[sign.end() :]), sign[0], question, focus):
            return place, sign
    best = max((place for place, sign in enumerate(signs) if sign is not None), key=shared.__getitem__)
    floor = max(floor, int(_PATTERNS["a_person"].search(parts[best]) is not None))
    return (best, signs[best]) if shared[best] >= floor else (0, None)


ValueT = TypeVar("ValueT")


class Chosen(NamedTuple, Generic[ValueT]):
    """A chosen value, or None with the reason; ``candidates`` are all values considered."""

    value: ValueT | None
    reason: str
    candidates: tuple[ValueT, ...] = ()


class ReadAnswer:
    """Facts of an answer's text and of its question, read once for all fields."""

    def __init__(self, text: str, question: str = "") -> None:
        self.text = ordering_masked(_PATTERNS["inexact"].sub("\0", text))
        if _PATTERNS["money_asked"].search(question):  # 50分 is a sum of money then
            self.text = _PATTERNS["bare_coins"].sub(r"\g<0>钱", self.text)
        self.question = question
        self._known: dict[tuple[int, int], bool] = {}

    @cached_property
    def facts(self) -> list[Fact]:
        """The facts of the answer that it does not deny."""
        return [fact for fact in facts_in(self.text, names=False, indefinite=True) if not self.denies(fact)]

    def of_kind(self, *kinds: FactKind) -> list[Fact]:
        """Return the facts of the answer of the given kinds."""
        return [fact for fact in self.facts if fact.kind in kinds]

    @cached_property
    def asked(self) -> list[Fact]:
        """The facts of the question."""
        return find_facts(self.question, names=False) if self.question else []

    @cached_property
    def unit(self) -> str | None:
        """The canonical unit of the count that the question asks for, or None."""
        return unit_asked(self.question)

    def before(self, fact: Fact) -> str:
        """Return the words before a fact."""
        return self.text[max(0, fact.start - _BEFORE) : fact.start]

    def denies(self, fact: Fact) -> bool:
        """Return True if the answer denies a fact, or declares it unknown."""
        before = self.before(fact)
        if _PATTERNS["not_done"].search(before) and not _PATTERNS["undone"].search(self.question):
            return True
        if _PATTERNS["denied"].search(before) or _PATTERNS["denied_after"].match(self.text, fact.end):
            return True
        span = between_marks(self.text, fact.start, fact.end, CLAUSE_MARKS)
        if span not in self._known:
            self._known[span] = bool(signs_of_not_knowing(self.text[span[0] : span[1]]))
        return self._known[span]


def _named(read: ReadAnswer, facts: Sequence[Fact]) -> list[Fact]:
    """Return the candidates that are named as the total or as the answer by the words before them."""

    def is_alone(fact: Fact) -> bool:
        rest = (other for other in facts if other.value != fact.value and other.start >= fact.end)
        return not any(_PATTERNS["either"].fullmatch(read.text[fact.end : other.start]) for other in rest)

    return [fact for fact in facts if _PATTERNS["named"].search(read.before(fact)) and is_alone(fact)]


def _not_asked(read: ReadAnswer, facts: Sequence[Fact]) -> list[Fact]:
    asked = {fact.value for fact in read.asked}
    return [fact for fact in facts if fact.value not in asked]


def _not_parts(read: ReadAnswer, facts: Sequence[Fact]) -> list[Fact]:
    def lead(fact: Fact) -> str:
        return read.text[between_marks(read.text, fact.start, fact.end, SENTENCE_MARKS)[0] : fact.start]

    return [fact for fact in facts if not _PATTERNS["part"].search(lead(fact))]


def _sums(_: ReadAnswer, facts: Sequence[Fact]) -> list[Fact]:
    """Return the amount that is the sum of the others, if there is one."""
    values = [fact.value for fact in facts]
    for place, fact in enumerate(facts):
        rest = values[:place] + values[place + 1 :]
        if len(rest) > 1 and math.isclose(sum(rest), values[place], rel_tol=1e-9):
            return [fact]
    return []


def _numeric(
    read: ReadAnswer, facts: Sequence[Fact], *narrowings: Callable[[ReadAnswer, Sequence[Fact]], list[Fact]]
) -> Chosen[float]:
    """Return the only number, or the only one left after narrowing."""
    values = tuple(dict.fromkeys(fact.value for fact in facts))
    if not facts:
        return Chosen(None, "none_found")
    if len(values) == 1:
        return Chosen(values[0], "extracted", values)
    for narrow in narrowings if len(facts) <= MAX_CANDIDATES else ():
        kept = {fact.value for fact in narrow(read, facts)}
        if len(kept) == 1:
            return Chosen(kept.pop(), "extracted", values)
    return Chosen(None, "several_candidates", values)


def amounts(read: ReadAnswer) -> list[Fact]:
    """Return the sums of money in an answer, or bare numbers if it names no unit of money."""
    money = read.of_kind("amount", "number")
    kept: list[Fact] = []
    for fact in reversed(money):
        beside = kept and _PATTERNS["either"].fullmatch(read.text[fact.end : kept[-1].start])
        total = _PATTERNS["named"].search(read.before(fact))
        if fact.kind == "amount" or beside or total:  # 42000或43000元 are two amounts, 合计4.2万 is one
            kept.append(fact)
    return kept[::-1] or money


def choose_amount(read: ReadAnswer) -> Chosen[float]:
    """Choose the sum of money that an answer gives."""
    return _numeric(read, amounts(read), _named, _not_asked, _not_parts, _sums)


def choose_breakdown(read: ReadAnswer) -> Chosen[tuple[float, ...]]:
    """Choose the parts that an answer divides a sum into, without the sum itself, named or computed."""
    facts = amounts(read)
    if not facts:
        return Chosen(None, "none_found")
    if len(facts) > MAX_CANDIDATES:
        return Chosen(None, "several_candidates")
    outside = _not_parts(read, facts)
    whole = _sums(read, facts) or _named(read, facts) or (outside if len(outside) < len(facts) else [])
    known = {fact.value for fact in whole}
    parts = tuple(fact.value for fact in facts if len(facts) == 1 or fact.value not in known)
    return Chosen(parts or None, "extracted" if parts else "none_found")


def counts(read: ReadAnswer) -> list[Fact]:
    """Return the counts in an answer, of the unit asked for if it has any."""
    found = read.of_kind("count")
    if read.unit:
        found = [fact for fact in found if fact.unit == read.unit] or found
    if "第几" not in read.question:
        found = [fact for fact in found if not read.text.startswith("第", fact.start)]
    definite = [fact for fact in found if fact.value != 1 or read.text[fact.start].isdigit()]
    return definite or found or read.of_kind("number")


def choose_count(read: ReadAnswer) -> Chosen[float]:
    """Choose the count that an answer gives."""
    return _numeric(read, counts(read), _named, _not_asked, _not_parts)


def dates(read: ReadAnswer) -> list[PartialDate]:
    """Return the dates in an answer, without those that only repeat a part of another one."""
    found = list(dict.fromkeys(fact.value for fact in read.of_kind("date")))
    if len(found) > MAX_CANDIDATES:
        return found
    return [date for date in found if not any(date != other and date.within(other) for other in found)]


def choose_date(read: ReadAnswer) -> Chosen[PartialDate]:
    """Choose the date that an answer gives."""
    found = dates(read)
    asked = {fact.value for fact in read.asked}
    kept = found if len(found) == 1 else [date for date in found if date not in asked]
    if len(kept) == 1:
        return Chosen(kept[0], "extracted", tuple(found))
    return Chosen(None, "several_candidates" if kept else "none_found", tuple(found))


def choose_range(read: ReadAnswer) -> Chosen[Period]:
    """Choose the period that an answer gives: the only one in it, or from its first date to its second."""
    found = read.of_kind("date")
    ranges = set(find_ranges(read.text, found))
    if not ranges and len(found) == 2:  # noqa: PLR2004 - its ends
        ranges = {period(found[0].value, found[1].value)}
    if len(ranges) == 1:
        return Chosen(ranges.pop(), "extracted")
    return Chosen(None, "several_candidates" if found else "none_found")


CHOOSERS: Final[dict[str, Callable[[ReadAnswer], Chosen[Any]]]] = {
    "amount": choose_amount,
    "breakdown": choose_breakdown,
    "count": choose_count,
    "date": choose_date,
    "range": choose_range,
}
"""The readers of values by the kind of value."""
