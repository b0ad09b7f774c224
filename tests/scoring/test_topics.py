"""What a reply says of one thing neither takes advice on another back nor makes any."""

import json
from pathlib import Path
from typing import Any

import pytest

from memfin.scoring.constraints.predicates import ForbiddenAsset, ForbiddenPractice
from memfin.scoring.constraints.topics import named, of_another, takes_up_another
from memfin.scoring.contradiction import ConstraintChecker

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "contradiction_cases.jsonl").read_text("utf-8").splitlines()
]
OTHERS = {
    True: {
        "收藏品买卖价差大，和您的组合没有关系，看看就行。": "collectibles",
        "您问到的比特币波动太大，不在您的范围里，我没有放进来。": "crypto",
        "有人推荐替朋友做担保，这与您的约束冲突，请直接拒绝。": "guarantees",
        "民间借贷的利息再高，您也说过不碰，所以跳过。": "private_lending",
    },
    False: {
        "Stamps and coins are hard to price, and they fall outside what you allow.": "collectibles",
        "Bitcoin swings wildly; you ruled it out, so I left it out.": "crypto",
    },
}
"""A sentence about something else, which it turns down, and the term it is about."""


def single_ban(case: dict[str, Any]) -> str | None:
    """Return the term that the only constraint of a case forbids."""
    predicates = ConstraintChecker(case["constraints"]).predicates
    if len(predicates) == 1 and isinstance(predicates[0][1], ForbiddenAsset | ForbiddenPractice):
        return predicates[0][1].term
    return None


@pytest.mark.parametrize("chinese", [True, False], ids=["in Chinese", "in English"])
@pytest.mark.parametrize("gap", ["", "\n\n"], ids=["in the same paragraph", "in another paragraph"])
def test_turning_another_thing_down_takes_no_advice_back_and_makes_none(chinese: bool, gap: str) -> None:
    """Of a hundred texts three at most may be read otherwise; without topics it is one in ten."""
    changed, tried = [], 0
    gap = gap or ("" if chinese else " ")
    for case in CASES:
        term, text = single_ban(case), case["text"].strip()
        if term is None or chinese == text.isascii() or text[-1] not in "。.":
            continue
        checker = ConstraintChecker(case["constraints"])
        expected = bool(checker.check(text))
        for words, about in OTHERS[chinese].items():
            if named(words) & named(text) or about == term:
                continue
            for mixed in (text + gap + words, words + gap + text):
                tried += 1
                if bool(checker.check(mixed)) != expected:
                    changed.append(mixed)
    assert tried > 500
    assert len(changed) < 0.03 * tried, (len(changed), tried, changed[:20])


def test_a_text_is_about_another_thing_only_if_it_names_none_of_the_terms() -> None:
    crypto = frozenset({"crypto"})
    assert of_another("黄金太贵,不适合你", crypto)
    assert not of_another("比特币太贵,不适合你", crypto)
    assert not of_another("它太贵,不适合你", crypto)


def test_the_clients_own_rule_is_no_topic() -> None:
    """The rule is told to turn the thing down, whatever words it has."""
    assert not of_another("这与你只买公募基金的约束冲突", frozenset({"individual_stocks"}))
    assert not of_another("it breaks your rule of no gold", frozenset({"crypto"}))


def test_a_broader_name_is_the_same_thing() -> None:
    assert not of_another("杠杆与你的约束冲突", frozenset({"margin_trading"}))
    assert not of_another("融资融券与你的约束冲突", frozenset({"leverage"}))


def test_what_any_asset_may_have_belongs_to_the_asset_named() -> None:
    assert not of_another("这只黄金基金不便宜,先不配", frozenset({"high_fee"}))


def test_what_may_be_done_with_any_asset_is_told_by_its_own_words() -> None:
    assert not of_another("半导体三天涨了15%,不追高", frozenset({"chasing_rallies"}))
    assert of_another("比特币一周跌了两成,看看就好", frozenset({"chasing_rallies"}))


def test_borrowed_money_may_buy_anything() -> None:
    assert not takes_up_another("拿它买点沪深300", "消费贷可以批二十万")
    assert takes_up_another("拿一成买黄金", "比特币一周跌了两成")
