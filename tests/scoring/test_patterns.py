"""The compiled patterns match exactly what the plain ones do; scanning for literals hides nothing."""

import importlib
import json
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin import scoring
from memfin.errors import UsageError
from memfin.scoring.lexicons.lexicon import RuleEntry, load_lexicon
from memfin.scoring.lexicons.scan_plan import alternatives
from memfin.scoring.patterns.expressions import apart, at_head, compile_pattern, expand, late
from memfin.scoring.patterns.files import word_classes
from memfin.scoring.patterns.prefilter import branches
from memfin.scoring.text.language import analyze

LABELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "labels"
ENTRIES = [entry for name in ("risk_tags", "compliance", "rubric") for entry in load_lexicon(name).rule]
SENTENCES = [analyze(text).norm for entry in ENTRIES for text in (*entry.examples, *entry.counter_examples)]
OTHERS = SENTENCES[::3]
"""Each rule is held against its own examples, and against a third of what stands beside the others."""


@cache
def recorded_sentences() -> list[str]:
    if not LABELS.is_dir():
        return []
    rows = [
        json.loads(line) for path in sorted(LABELS.glob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    found: dict[str, None] = {}
    for row in rows[::3]:
        analysis = analyze(row["text"])
        found.update((analysis.norm[low:high], None) for low, high in analysis.sentences)
    return list(found)


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.id) for entry in ENTRIES])
def test_literals_and_reach_hide_no_match(entry: RuleEntry) -> None:
    plain = re.compile(expand(entry.pattern, word_classes()))
    plan = [
        (re.compile(each.regex), each.before, each.literals) for each in alternatives(entry, word_classes())
    ]
    own = [analyze(text).norm for text in entry.examples]
    for sentence in (*own, *OTHERS, *recorded_sentences()):
        if (match := plain.search(sentence)) is None:
            continue
        reached = any(
            fast.search(sentence, max(place.start() - before, 0))
            if before
            else fast.match(sentence, place.start())
            for fast, before, literals in plan
            for literal in literals
            if literal in sentence
            for place in re.finditer(f"(?={re.escape(literal)})", sentence)
        )
        assert reached, (match.group(), sentence)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:甲|乙丙|丁)[^,]{0,3}?(?:戊|己庚|辛)",
        "(?:不?甲|乙)(?:丙|丁|戊)?己",
        r"\b(?:ab|cd|ef)\b[^.]{0,4}x",
        "(?<!甲)(?:乙|丙|丁)(?!戊)",
        "(?:甲)?(?:乙|丙)丁|戊(?:己|庚|辛)*壬",
        "[甲乙](?:丙|丁|[戊己])",
    ],
)
@given(text=st.text(alphabet="甲乙丙丁戊己庚辛壬不,.abcdefx ", max_size=14))
def test_compiled_pattern_matches_where_the_plain_one_does(pattern: str, text: str) -> None:
    plain = re.search(pattern.replace(r"\b", r"(?a:\b)"), text)
    fast = compile_pattern(pattern).search(text)
    assert (fast.span(1) if fast else None) == (plain.span() if plain else None)
    if plain is not None:
        there = re.compile(at_head(pattern)).match(text, plain.start())
        assert there is not None
        assert there.span(1) == plain.span()


@pytest.mark.parametrize("pattern", ["一半|半数|半仓", r"其余|余下(?:的)?|\band (?:the )?rest|\bthe rest"])
@given(
    text=st.lists(st.sampled_from([*"一半数仓其余下的,", "and", "the", " rest"]), max_size=9).map("".join),
    low=st.integers(0, 4),
)
def test_matches_apart_are_those_of_the_plain_pattern(pattern: str, text: str, low: int) -> None:
    latin = pattern.replace(r"\b", r"(?a:\b)")
    plain = [match.span() for match in re.compile(latin).finditer(text, low)]
    assert [match.span(1) for match in apart(compile_pattern(pattern), text, low)] == plain


def test_of_two_matches_that_overlap_the_first_is_found() -> None:
    assert [match.group(1) for match in apart(compile_pattern("一半|半数"), "一半数,半数")] == [
        "一半",
        "半数",
    ]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\ball in\b", "建议all in比特币", "all in"),
        (r"\bleverag\w*\b", "加leverage到2倍", "leverage"),
        (r"(?:cash|bonds?)\b ?[0-9]", "放cash 5%", "cash 5"),
        (r"\b(?:中|in)\b", "在中国", None),
        (r"\bal\b", "建议all in", None),
    ],
)
def test_word_edge_beside_latin_letters_holds_beside_chinese(
    pattern: str, text: str, found: str | None
) -> None:
    match = compile_pattern(pattern).search(text)
    assert (match and match.group(1)) == found


def test_shorthands_are_written_out() -> None:
    assert expand("<A><=2>", {"A": ["甲", "<B>"], "B": ["乙"]}) == r"(?:甲|(?:乙))[^,:|。!?;\n]{0,2}?"
    assert re.fullmatch(expand("a<w2>b", {}), "a one two b")
    assert not re.fullmatch(expand("a<w2>b", {}), "a not b")
    assert not re.search(expand("甲<+3>乙", {}), "甲不乙")


def test_unknown_word_class_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match=r"no word class NOPE in words\.toml"):
        expand("<NOPE>", {})


def test_pattern_without_anything_certain_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing in it is certain to occur"):
        branches("[^甲]{0,4}")


@pytest.mark.parametrize(
    ("pattern", "literals", "before"),
    [
        ("(?:sh|sz)[0-3]{2}港", {f"{market}{digit}" for market in ("sh", "sz") for digit in "0123"}, 0),
        ("甲[0-9]+乙丙", {"乙丙"}, 25),
        ("[^x]{0,4}(?:噢|呃)嗯?[0-2]?$", {"噢", "呃"}, 4),
    ],
)
def test_what_every_match_begins_with_reaches_into_repeated_signs(
    pattern: str, literals: set[str], before: int
) -> None:
    assert branches(pattern) == [(pattern, frozenset(literals), before)]


def test_a_named_group_is_a_group_and_its_name_no_word() -> None:
    (branch,) = branches("(?:涨|跌)[^,]{0,4}(?P<what>噢呃|嗯喏)")
    assert branch.literals <= {"噢呃", "嗯喏", "噢", "嗯"}
    named = compile_pattern("(?P<loss>亏|赔)了|(?P<gain>赚)了")
    found = [(match["loss"], match["gain"]) for match in apart(named, "亏了又赚了,没人赔了")]
    assert found == [("亏", None), (None, "赚"), ("赔", None)]


def test_a_literal_that_is_rare_enough_is_cut_short() -> None:
    (branch,) = branches("噢呃嗯喏")
    assert len(branch.literals) == 1
    assert "噢呃嗯喏".startswith(literal := next(iter(branch.literals)))
    assert len(literal) < len("噢呃嗯喏")
    (latin,) = branches("(?:bumblebees)")
    assert latin.literals == {"bumble"}


def test_a_pattern_is_compiled_when_it_is_first_used() -> None:
    pattern = late(r"(?:亏|赔)+")
    assert pattern.pattern == r"(?:亏|赔)+"
    assert vars(pattern).keys().isdisjoint({"search", "match"})
    match = pattern.search("不会赔")
    assert match is not None
    assert match.span() == (2, 3)
    assert "search" in vars(pattern)
    assert pattern.fullmatch("赔") is not None
    assert late("loss", re.IGNORECASE).match("LOSS") is not None


def test_every_pattern_of_the_package_compiles() -> None:
    """None is compiled when its module is loaded, so that a mistake in one would show at its first reply."""
    count = 0
    for module in pkgutil.walk_packages(scoring.__path__, f"{scoring.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if type(value) is type(late("")):
                assert callable(value.search)
                count += 1
    assert count > 300
