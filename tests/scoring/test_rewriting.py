"""What a reply says does not hang on how it is typed: the same reply in other signs is read alike."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from opencc import OpenCC

from memfin.scoring.content import LEXICONS, read_content
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.lexicons.lexicon import load_lexicon

HERE = Path(__file__).resolve()
PERCENTAGE = re.compile(r"(?<![\d.~至到-])([1-9]\d?)%(?!\s*[-~至到])")
NUMERALS = "零一二三四五六七八九"
WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F) if chr(code) not in "\"'`*_"}


def in_words(match: re.Match[str]) -> str:
    """Write a percentage below a hundred out: 百分之二十五 where the text is Chinese."""
    if not re.search("[\u4e00-\u9fff]", match.string):
        return f"{match[1]} percent"
    tens, ones = divmod(int(match[1]), 10)
    words = NUMERALS[tens if tens > 1 else 0].strip("零") + ("十" if tens else "")
    return "百分之" + words + (NUMERALS[ones] if ones or not tens else "")


def straight(text: str) -> str:
    return text.replace("“", '"').replace("”", '"')


def chinese(text: str) -> bool:
    return re.search("[\u4e00-\u9fff]", text) is not None


def in_list(text: str) -> bool:
    return re.match(r" *(?:[-*|①-⑳]|[0-9]+[.、])", text) is not None


def sentences_apart(text: str, gap: str) -> str:
    """Put each sentence into a line of its own, quotations and all."""
    if chinese(text):
        return re.sub(r"(?<=[。！？])(?=[^\n”」』’\"'）)])", gap, text)
    return re.sub(r"(?<=[a-z][.!?]) (?=[A-Z])", gap, text)


TRADITIONAL: Final = OpenCC("s2t")

REWRITINGS: Final[dict[str, Callable[[str], str]]] = {
    "traditional characters": TRADITIONAL.convert,
    "full width": lambda text: text.translate(WIDE),
    "half-width marks": lambda text: text.translate(str.maketrans("，；：！？（）％", ",;:!?()%")),
    "in lines": lambda text: f"\n{text}\n",
    "in blanks": lambda text: f"  {text}  ",
    "an ideographic space ahead": lambda text: f"\u3000{text}",
    "a greeting ahead": lambda text: f"谢谢提问。\n\n{text}",
    "a sentence ahead": lambda text: (
        text if in_list(text) else f"好的。{text}" if chinese(text) else f"Sure. {text}"
    ),
    "a lead-in ahead": lambda text: (
        text if in_list(text) else f"一句话：{text}" if chinese(text) else f"In short: {text}"
    ),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "empty lines": lambda text: text if "|" in text else text.replace("\n", "\n\n"),
    "a sentence a line": lambda text: sentences_apart(text, "\n"),
    "a sentence a paragraph": lambda text: sentences_apart(text, "\n\n"),
    "exclamation marks": lambda text: re.sub(r"。|(?<=[a-z])\.(?= [A-Z]|$)", "！", text),
    "trailing off": lambda text: re.sub(r"。$", "……", text),
    "full stops of Latin": lambda text: re.sub(r"(?<=[\u4e00-\u9fff”])。", ". ", text),
    "a quote block": lambda text: re.sub(r"(?m)^", "> ", text),
    "the familiar you": lambda text: text.replace("您", "你"),
    "the polite you": lambda text: text.replace("您", "你").replace("你", "您"),
    "a blank before %": lambda text: re.sub(r"(?<=\d)%", " %", text),
    "percentages in bold": lambda text: re.sub(r"(?<![\d.*])(\d+%)(?!\*)", r"**\1**", text),
    "percentages in words": lambda text: re.sub(
        r"(?<![\d.~至到-])([1-9]\d?)%(?!\s*[-~至到])", in_words, text
    ),
    "straight quotes": straight,
    "corner quotes": lambda text: text.replace("“", "「").replace("”", "」"),
    "single quotes": lambda text: text.replace("“", "‘").replace("”", "’"),
    "typewriter quotes": lambda text: straight(text).replace('"', "'") if "'" not in text else text,
    "typographic apostrophes": lambda text: text.replace("'", "’"),
    "other bullets": lambda text: re.sub(r"(?m)^(\s*)[-*•] ", r"\1· ", text),
}


@cache
def texts() -> dict[str, Any]:
    """Return every example of the lexicons with what is read in it."""
    entries = [entry for name in LEXICONS for entry in load_lexicon(name).rule]
    found = dict.fromkeys(text for entry in entries for text in (*entry.examples, *entry.counter_examples))
    return {text: what(text) for text in found}


def what(text: str) -> tuple[list[str], str, list[str], list[str]]:
    reading = read_content(text)
    return reading.risk_tags, reading.compliance, reading.categories, reading.rubric_items


@pytest.mark.parametrize("rewriting", REWRITINGS)
def test_the_content_is_read_alike(rewriting: str) -> None:
    """The lexicons' examples stand at the edge of a text, where patterns are most easily wrong."""
    rewrite = REWRITINGS[rewriting]
    changed = {text: rewrite(text) for text in texts()}
    assert [other for text, other in changed.items() if other != text and what(other) != texts()[text]] == []


@cache
def cases() -> list[tuple[ConstraintChecker, str, set[str]]]:
    """Return advice with the constraints it is checked against and those that it breaks."""
    found = []
    for name in ("contradiction_cases.jsonl", "limit_cases.jsonl"):
        for line in HERE.with_name(name).read_text("utf-8").splitlines():
            case = json.loads(line)
            checker = ConstraintChecker(case["constraints"])
            found.append((checker, case["text"], broken(checker, case["text"])))
    return found


def broken(checker: ConstraintChecker, text: str) -> set[str]:
    return {found.constraint for found in checker.check(text)}


@pytest.mark.parametrize("rewriting", REWRITINGS)
def test_constraints_are_checked_alike(rewriting: str) -> None:
    rewrite = REWRITINGS[rewriting]
    changed = [
        other
        for checker, text, before in cases()
        if (other := rewrite(text)) != text and broken(checker, other) != before
    ]
    assert changed == []
