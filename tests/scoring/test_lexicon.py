"""Lexicons: every rule keeps its examples, and the language of patterns does what it says."""

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from memfin.errors import UsageError
from memfin.scoring import lexicon as module
from memfin.scoring.detectors import read_content
from memfin.scoring.lexicon import (
    MAX_PATTERN,
    Lexicon,
    LexiconFile,
    lexicon_hashes,
    read_bytes,
    read_table,
)
from memfin.text.document import Document
from tests.support import each_case

MOST_RULES = {"risk_tags": 150, "compliance": 40, "rubric": 20}


@pytest.mark.parametrize("name", MOST_RULES)
def test_every_rule_finds_its_examples_and_no_counter_example(name: str) -> None:
    rules = read_table(name, LexiconFile).rule
    samples = [
        (rule.id, text, text in rule.examples)
        for rule in rules
        for text in rule.examples + rule.counter_examples
    ]
    wrong = [
        f"{rule} {'misses' if expected else 'finds'} {text!r}"
        for rule, text, expected in samples
        if (rule in {finding.rule for finding in read_content(text).findings}) is not expected
    ]
    assert wrong == []


@pytest.mark.parametrize(("name", "most"), MOST_RULES.items())
def test_lexicons_stay_small(name: str, most: int) -> None:
    rules = read_table(name, LexiconFile).rule
    assert len(rules) <= most
    assert [rule.id for rule in rules if not rule.examples or not rule.patterns] == []
    assert [pattern for rule in rules for pattern in rule.patterns if len(pattern) > MAX_PATTERN] == []


def test_ids_are_unique_among_all_lexicons() -> None:
    ids = Counter(rule.id for name in MOST_RULES for rule in read_table(name, LexiconFile).rule)
    assert [name for name, times in ids.items() if times > 1] == []


def test_hashes_are_those_of_the_files() -> None:
    hashes = lexicon_hashes()
    assert {"words.toml", "risk_tags.toml", "weights.bin"} <= set(hashes)
    assert all(value == hashlib.sha256(read_bytes(name)).hexdigest() for name, value in hashes.items())
    hashes.clear()
    assert lexicon_hashes()


# A small lexicon of its own.

Finds = Callable[[str], list[str]]
WORDS = """
NOT = ["不", "没有", "cannot", "not"]
IGNORE = ["波动率", "不仅"]
CAN = ["we can", "可以"]
PRICE = ["净值", "price"]
FALL = ["波动", "下跌", "fall*"]
HIGH = ["很高"]
"""


@pytest.fixture
def lexicon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Finds]:
    """Return a function that compiles one rule of these patterns and returns a finder of its matches."""
    monkeypatch.setattr(module, "_DIRECTORY", tmp_path)

    def compiled(*patterns: str, more: str = "", words: str = "") -> Finds:
        (tmp_path / "words.toml").write_text(WORDS, "utf-8")
        rule = f'id = "r"\nvalue = "v"\nexamples = []\npatterns = {list(patterns)!r}\n{more}'
        (tmp_path / "own.toml").write_text(f"[[rule]]\n{rule}\n[words]\n{words}", "utf-8")
        built = Lexicon(["own"])

        def finds(text: str) -> list[str]:
            document = Document(text)
            return [
                document.text[match.start : match.end]
                for sentence in built.sentences(document)
                for match in built.matches(document.text, sentence)
            ]

        return finds

    return compiled


@each_case(
    ("pattern", "text", "found"),
    [
        ("PRICE FALL", "净值可能会下跌。", ["净值可能会下跌"]),
        ("PRICE FALL", "净值这一回倒是真的下跌。", []),
        ("PRICE ~8 FALL", "净值这一回倒是真的下跌。", ["净值这一回倒是真的下跌"]),
        ("PRICE ~0 FALL", "净值下跌，净值会下跌。", ["净值下跌"]),
        ("PRICE ~8 FALL", "净值，会下跌。", []),
        ("PRICE ~~8 FALL", "净值，会下跌。", ["净值，会下跌"]),
        ("PRICE ~~30 FALL", "净值不变。指数下跌。", []),
        ("PRICE FALL", "下跌的净值。", []),
        ("PRICE|HIGH FALL", "很高，净值下跌。很高会下跌。", ["净值下跌", "很高会下跌"]),
        ("'油价'|'金价' FALL", "金价下跌。", ["金价下跌"]),
        ("PRICE|'油价' FALL", "油价下跌。净值下跌。", ["油价下跌", "净值下跌"]),
        ("'investor's' PRICE", "The investor's price.", ["investor's price"]),
        ("PRICE", "净值。净值。", ["净值", "净值"]),
        ("PRICE FALL", "price falling, price.", ["price fall"]),
        ("PRICE", "prices, priced, overprice", []),
        ("FALL", "waterfall", []),
        ("FALL", "波动率很高。", []),
        ("FALL", "波动很高。", ["波动"]),
    ],
)
def test_patterns_are_sequences_with_gaps(
    lexicon: Callable[..., Finds], pattern: str, text: str, found: list[str]
) -> None:
    assert lexicon(pattern)(text) == [each.replace("，", ",") for each in found]


@pytest.mark.parametrize(
    ("negation", "text", "found"),
    [
        ("inside", "净值不会下跌", False),
        ("inside", "不能说这个净值下跌", True),
        ("inside", "不净值下跌", False),
        ("inside", "净值不仅下跌", True),
        ("before", "净值不会下跌", True),
        ("before", "没有净值下跌", False),
        ("none", "净值不会下跌", True),
        ("none", "没有净值下跌", True),
    ],
)
def test_a_negation_silences_where_the_rule_says(
    lexicon: Callable[..., Finds], negation: str, text: str, found: bool
) -> None:
    assert bool(lexicon("PRICE FALL", more=f'negation = "{negation}"')(text)) is found


def test_a_pattern_that_asks_for_a_negation_is_not_silenced(lexicon: Callable[..., Finds]) -> None:
    assert lexicon("NOT FALL")("净值不会下跌") == ["不会下跌"]


def test_a_class_of_unless_silences_the_whole_sentence(lexicon: Callable[..., Finds]) -> None:
    finds = lexicon("PRICE FALL", more='unless = ["HIGH"]')
    assert finds("净值下跌。很高。") == ["净值下跌"]
    assert finds("净值下跌，位置很高。") == []


def test_a_phrase_that_is_no_word_here_hides_none(lexicon: Callable[..., Finds]) -> None:
    finds = lexicon("NOT")
    assert finds("We cannot say.") == ["cannot"]
    assert finds("We can say.") == []
    assert lexicon("CAN")("We can say.") == ["we can"]


def test_the_longest_word_wins_and_one_word_may_be_of_two_classes(lexicon: Callable[..., Finds]) -> None:
    words = 'LONG = ["净值下跌"]\nALSO = ["净值"]'
    assert lexicon("LONG", words=words)("净值下跌") == ["净值下跌"]
    assert lexicon("PRICE", words=words)("净值下跌") == []
    assert lexicon("ALSO FALL", words=words)("净值会下跌") == ["净值会下跌"]
    assert lexicon("PRICE FALL", words=words)("净值会下跌") == ["净值会下跌"]


def test_a_rule_matches_once_in_a_sentence_and_not_when_settled(lexicon: Callable[..., Finds]) -> None:
    assert lexicon("PRICE", "FALL")("净值下跌") == ["净值"]
    built, document = Lexicon(["own"]), Document("净值下跌")
    (sentence,) = built.sentences(document)
    assert list(built.matches(document.text, sentence, {"r"})) == []


@pytest.mark.parametrize(
    "pattern",
    ["", "price", "PRICE ~x FALL", "~4 PRICE", "'open", "PRICE 'a'" * 60],
)
def test_a_broken_pattern_names_its_rule(lexicon: Callable[..., Finds], pattern: str) -> None:
    with pytest.raises(UsageError, match="rule r"):
        lexicon(pattern)


def test_an_unknown_class_a_broken_file_and_a_missing_one_are_named(
    lexicon: Callable[..., Finds], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="rule r: no word class NOWHERE"):
        lexicon("PRICE NOWHERE")
    with pytest.raises(UsageError, match=r"own\.toml"):
        lexicon("PRICE", more="surprise = 1")
    with pytest.raises(UsageError, match=r"absent\.toml"):
        read_table("absent", LexiconFile)
    (tmp_path / "bad.toml").write_text("a = ", "utf-8")
    with pytest.raises(UsageError, match=r"bad\.toml"):
        read_table("bad", LexiconFile)
