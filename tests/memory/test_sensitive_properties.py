"""No form of writing hides an identifier from the sensitive-input gate, whose time is linear in the text."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memfin.memory.sensitive import Kind, find_sensitive
from tests.memory import sensitive_values as values
from tests.support import calls, length

EXAMPLES = length(8, 5000)
"""Examples a property; a long run takes minutes."""

Maker = Callable[[Random], str]

CHECKED: dict[str, tuple[Kind, Callable[..., str]]] = {
    "resident": ("identity_number", values.resident),
    "hong_kong": ("identity_number", values.hong_kong),
    "card": ("bank_card", values.card),
    "bitcoin": ("wallet_address", values.bitcoin),
    "segwit": ("wallet_address", values.segwit),
    "tron": ("wallet_address", values.tron),
    "wif": ("private_key", values.wif),
    "english_phrase": (
        "seed_phrase",
        lambda random, **how: " ".join(values.phrase(random, "english", **how)),
    ),
    "long_english_phrase": (
        "seed_phrase",
        lambda random, **how: " ".join(values.phrase(random, "english", 24, **how)),
    ),
    "chinese_phrase": (
        "seed_phrase",
        lambda random, **how: " ".join(values.phrase(random, "chinese_simplified", **how)),
    ),
    "traditional_phrase": (
        "seed_phrase",
        lambda random, **how: "、".join(values.phrase(random, "chinese_traditional", **how)),
    ),
}
UNCHECKED: dict[str, tuple[Kind, Maker]] = {
    "mobile": ("phone", values.mobile),
    "email": ("email", values.email),
    "ethereum": ("wallet_address", values.ethereum),
    "solana": ("wallet_address", values.solana),
    "openai": ("api_key", lambda random: "sk-" + values.letters(random, 40)),
    "github": ("api_key", lambda random: "ghp_" + values.letters(random, 36)),
    "assigned": ("api_key", lambda random: "api_key=" + values.letters(random, 24)),
}
EVERY: dict[str, tuple[Kind, Maker]] = {**CHECKED, **UNCHECKED}

# Ordinary characters, without numerals and the words that are labels.
chinese = st.text(alphabet="我你他想要把请将这那里记得存好放着看过哦吧呢啊，。！", max_size=12)
seeds = st.integers(0, 2**32)
many = settings(max_examples=EXAMPLES, deadline=None)


def kinds(text: str) -> set[Kind]:
    return {each.kind for each in find_sensitive(text)}


def full_width(text: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text)


@pytest.mark.parametrize("name", EVERY)
@many
@given(before=chinese, after=chinese, seed=seeds)
def test_identifiers_are_found_between_chinese_characters(
    name: str, before: str, after: str, seed: int
) -> None:
    kind, make = EVERY[name]
    identifier = make(Random(seed))
    text = before + identifier + after
    found = [each for each in find_sensitive(text) if each.kind == kind]
    assert found
    assert found[0].start <= len(before) + 9
    assert found[-1].end >= len(before) + len(identifier) - 10


@pytest.mark.parametrize("name", CHECKED)
@many
@given(before=chinese, after=chinese, seed=seeds)
def test_a_wrong_checksum_is_no_identifier(name: str, before: str, after: str, seed: int) -> None:
    kind, make = CHECKED[name]
    identifier = make(Random(seed), right=False)
    text = before + identifier + after
    if name.endswith("phrase") and not name.startswith(("english", "long")):
        text = identifier  # a character beside it would be one more word
    assume("seed" not in identifier.split())  # a word of the list, but also one that announces a phrase
    # Any twelve of twenty-four words may be a phrase by chance.
    if name != "long_english_phrase":
        assert kind not in kinds(text)


@pytest.mark.parametrize("name", EVERY)
@many
@given(seed=seeds, data=st.data())
def test_width_and_invisible_characters_hide_nothing(name: str, seed: int, data: st.DataObject) -> None:
    kind, make = EVERY[name]
    identifier = make(Random(seed))
    assert kind in kinds(f"记下{full_width(identifier)}好吗")
    at = data.draw(st.integers(1, len(identifier) - 1))
    hidden = data.draw(st.sampled_from("\u200b\u200d\u2060\ufeff\u00ad\ufe0f"))
    assert kind in kinds(f"记下{identifier[:at]}{hidden}{identifier[at:]}好吗")


@pytest.mark.parametrize("name", ["resident", "card", "bitcoin", "tron", "wif", "mobile", "ethereum"])
@many
@given(seed=seeds, data=st.data())
def test_line_breaks_within_an_identifier_hide_nothing(name: str, seed: int, data: st.DataObject) -> None:
    kind, make = EVERY[name]
    identifier = make(Random(seed))
    at = data.draw(st.integers(2, len(identifier) - 2))
    assert kind in kinds(f"记下{identifier[:at]}\n{identifier[at:]}好吗")


@many
@given(text=st.text(max_size=200))
def test_spans_lie_within_any_text_and_are_in_order(text: str) -> None:
    found = find_sensitive(text)
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert [each.start for each in found] == sorted(each.start for each in found)


@many
@given(text=st.text(alphabet="0123456789 -.\n年月日元xX一二三abcdef,:", max_size=120))
def test_the_same_text_has_the_same_findings(text: str) -> None:
    assert find_sensitive(text) == find_sensitive(text)


@pytest.mark.parametrize("phrase", ["sell ", "abandon ", "seed phrase ", "的 ", "a@b.cc ", "13812345678 "])
def test_eight_times_the_text_is_about_eight_times_the_work(phrase: str) -> None:
    find_sensitive(phrase * 20)  # loads what is loaded once
    few = length(50, 200)
    short, long = (calls(partial(find_sensitive, phrase * count)) for count in (few, 8 * few))
    assert long < 12 * short
