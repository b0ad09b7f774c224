"""Normalized text and vocabulary of the sensitive-input gate's rules."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, Literal, get_args

import msgspec

from memfin.contracts.base import Count, Record
from memfin.memory.tables import load_table

Kind = Literal[
    "identity_number",
    "person_name",
    "email",
    "phone",
    "bank_card",
    "wallet_address",
    "private_key",
    "seed_phrase",
    "api_key",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class Finding(Record):
    """One piece of sensitive input (memory design §10.2), without its text, so it may be logged.

    ``start`` and ``end`` count characters of the given text; ``field`` is the path within a structure.
    """

    kind: Kind
    rule: str
    start: Count
    end: Count
    field: str = ""


def outermost(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in order, without nested ones."""
    kept: list[Finding] = []
    reached = -1  # the furthest end so far: in this order what lies inside another one ends no later
    for each in sorted(findings, key=lambda each: (each.start, -each.end, KINDS.index(each.kind), each.rule)):
        if each.end > reached:
            reached = each.end
            kept.append(each)
    return tuple(kept)


_KEPT_CONTROLS: Final = frozenset("\n\t")
# Fillers that are letters or symbols by category and show nothing
_INVISIBLE_LETTERS: Final = frozenset("ᅟᅠㅤﾠ⠀")
_NUMERALS: Final = str.maketrans("〇零一二三四五六七八九幺壹贰叁肆伍陆柒捌玖", "001234567891123456789")
# Runs of numerals that are long enough to be read digit by digit
_SPELT_OUT: Final = re.compile(r"[〇零一二三四五六七八九幺壹贰叁肆伍陆柒捌玖0-9]{11,}")
_LIKE_DIGITS: Final = str.maketrans("lIoO", "1100")
# Possible numbers with letters that look like digits
_MISSPELT: Final = re.compile(r"(?<![0-9A-Za-z_])[0-9lIoO](?:[ -]?[0-9lIoO]){10,}(?=[Xx]?(?![0-9A-Za-z_]))")
_MIN_DIGITS: Final = 4
# Cyrillic and Greek letters that look like Latin ones
_ALIKE: Final = str.maketrans(
    "АВЕКМНОРСТУХЅІЈаеорсухѕіјΑΒΕΖΗΙΚΜΝΟΡΤΥΧοχ", "ABEKMHOPCTYXSIJaeopcyxsijABEZHIKMNOPTYXox"
)


class View:
    """Normalized text; its character ``i`` is at ``starts[i]`` of the original.

    Widths, styles, letters that look like Latin ones, digits, dashes, blanks and line ends are unified, and
    invisible characters are gone. ``lower`` is the text in lower case, places kept; ``label_ends`` caches
    where labels end, by topic.
    """

    __slots__ = ("label_ends", "lower", "starts", "text")

    def __init__(self, text: str, starts: Sequence[int]) -> None:
        self.text = text
        self.lower = _lowered(text)
        self.starts = starts
        self.label_ends: dict[str, list[int]] = {}

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Translate a half-open span of the view into offsets of the original."""
        return self.starts[start], self.starts[end - 1] + 1

    def finding(self, kind: Kind, rule: str, start: int, end: int) -> Finding:
        """Return the finding of a rule at a span of the view."""
        begin, stop = self.span(start, end)
        return Finding(kind=kind, rule=rule, start=begin, end=stop)

    def matches(self, kind: Kind, rule: str, pattern: re.Pattern[str]) -> Iterator[Finding]:
        """Yield the finding of every match of a pattern."""
        for match in pattern.finditer(self.text):
            yield self.finding(kind, rule, match.start(), match.end())


def view_of(text: str) -> View:
    """Return the normalized text."""
    if text.isascii() and text.isprintable():
        return View(text, range(len(text)))
    pieces: list[str] = []
    starts: list[int] = []
    for at, character in enumerate(text.replace("\r\n", "\u200b\n")):
        form = character if " " <= character <= "~" else _form(character)
        pieces.append(form)
        starts.extend([at] * len(form))
    normalized = "".join(pieces)
    return View(normalized, starts)


def spelt_out(view: View) -> View:
    """Return the view with long runs of numerals as digits: 一三八… as 138…, l38O… as 1380…."""
    text = _SPELT_OUT.sub(lambda match: match[0].translate(_NUMERALS), view.text)
    text = _MISSPELT.sub(_as_digits, text)
    return view if text == view.text else View(text, view.starts)


def _as_digits(match: re.Match[str]) -> str:
    """Return a run with letters for digits as digits; one with hardly a digit stays unchanged."""
    digits = sum(map(str.isdigit, match[0]))
    return match[0].translate(_LIKE_DIGITS) if digits >= _MIN_DIGITS else match[0]


def without_breaks(view: View) -> View | None:
    """Return the view with line breaks inside words taken out, or None when there are none."""
    kept: list[int] = []
    last = 0
    for match in _BREAK.finditer(view.text):
        kept.extend(range(last, match.start()))
        last = match.end()
    if not last:
        return None
    kept.extend(range(last, len(view.text)))
    return View("".join(view.text[at] for at in kept), [view.starts[at] for at in kept])


_BREAK: Final = re.compile(r"(?<=[!-~])[ \t]*\n\s*(?=[!-~])")


def _lowered(text: str) -> str:
    """Return the text in lower case, character by character; offsets stay valid."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := each.lower()) == 1 else each for each in text)


@lru_cache(maxsize=65536)
def _form(character: str) -> str:
    if character in _KEPT_CONTROLS:
        return character
    if character == "\r":
        return "\n"
    if character in _INVISIBLE_LETTERS:
        return ""
    return "".join(map(_plain, unicodedata.normalize("NFKC", character).translate(_ALIKE)))


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if category in {"Cf", "Cc", "Cs", "Mn", "Me"}:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd" or character == "−":
        return "-"
    if category == "Zs":
        return " "
    if category in {"Zl", "Zp"}:
        return "\n"
    return character


# Topics of labels
Topic = Literal["identity", "passport", "social", "card", "phone", "wallet", "private", "phrase", "order"]
_CLOSE: Final = 16  # characters between a label and its identifier, at most
_SENTENCE_END: Final = re.compile(r"[。!?;]")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of one pattern, as the data file explains it."""

    kind: Kind
    rule: str
    pattern: str
    label: Topic | None = None
    reach: int = _CLOSE
    check: str = ""


class _Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    surnames: str
    compound_surnames: list[str]
    own_labels: list[str]
    form_labels: list[str]
    titles: frozenset[str]
    ordinary: frozenset[str]
    labels: list[str]


class _Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    first: str
    groups: frozenset[tuple[int, ...]]


class _Phones(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    regions: list[str]
    touching: frozenset[str]
    shapes: dict[str, _Shape]


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words and patterns of the rules, as the data file holds them."""

    labels: dict[Topic, list[str]]
    amounts: dict[Literal["units", "signs"], list[str]]  # units behind a number, signs before one
    email: dict[Literal["not_domains", "common_domains"], frozenset[str]]  # endings of names
    api_keys: dict[str, str]
    wallets: dict[Literal["base58", "bech32"], dict[str, str]]  # the rule of a version or a prefix
    names: _Names
    cards: dict[str, str]
    phones: _Phones
    patterns: dict[str, str]
    parts: dict[str, str]
    words: tuple[Rule, ...]
    numbers: tuple[Rule, ...]


@cache
def load_vocabulary() -> Vocabulary:
    """Read the gate's data, once per process."""
    return load_table("sensitive.toml", Vocabulary)


@cache
def ordinary_pairs() -> frozenset[str]:
    """Return pairs of ordinary Chinese; each word of the file is a character and all that follow it."""
    source = files("memfin").joinpath("data", "memory", "ordinary_pairs.txt")
    return frozenset(word[0] + second for word in source.read_text("utf-8").split() for second in word[1:])


def alternatives(words: list[str]) -> str:
    """Return a pattern for any of the words; words of Latin letters match whole words only."""
    return "|".join(
        rf"(?<![a-z]){re.escape(word)}(?![a-z])"
        if word.isascii() and word.replace(" ", "").isalpha()
        else re.escape(word)
        for word in sorted(words, key=len, reverse=True)
    )


def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern of the data file by its name."""
    return compiled(load_vocabulary().patterns[name])


@cache
def compiled(text: str) -> re.Pattern[str]:
    """Return a pattern of the data file with its parts put in."""

    def expanded(text: str) -> str:
        return re.sub(r"<<(\w+)>>", lambda found: expanded(_parts()[found[1]]), text)

    return re.compile(expanded(text))


@cache
def _parts() -> dict[str, str]:
    words = load_vocabulary()
    return words.parts | {
        "common_domains": "|".join(sorted(words.email["common_domains"])),
        "surnames": words.names.surnames,
        "compound_surnames": alternatives(words.names.compound_surnames),
        "own_labels": alternatives(words.names.own_labels),
        "form_labels": alternatives(words.names.form_labels),
        "name_labels": alternatives(words.names.labels),
        "phrase_labels": alternatives(words.labels["phrase"]),
        "units": alternatives(words.amounts["units"]),
        "signs": alternatives(words.amounts["signs"]),
        "bech32": "|".join(words.wallets["bech32"]),
        "api_keys": "|".join(f"(?P<{name}>{form})" for name, form in words.api_keys.items()),
        "cards": "|".join(f"(?P<{name}>{form})" for name, form in words.cards.items()),
    }


@cache
def _labels(topic: Topic) -> re.Pattern[str]:
    return re.compile(alternatives(load_vocabulary().labels[topic]))


def labelled(view: View, at: int, topic: Topic, reach: int = _CLOSE) -> bool:
    """Return True if a label of the topic precedes a position within ``reach``, in its sentence."""
    ends = view.label_ends.get(topic)
    if ends is None:
        ends = view.label_ends[topic] = [label.end() for label in _labels(topic).finditer(view.lower)]
    number = bisect_right(ends, at)
    return (
        number > 0
        and at - ends[number - 1] <= reach
        and _SENTENCE_END.search(view.lower, ends[number - 1], at) is None
    )
