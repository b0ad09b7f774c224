"""Constraints in the words of many people: what they mean does not depend on how they are put.

Authors who knew no rule worded the known constraints (tests/fixtures/constraints). Rules were written from
the wordings; those called ``heldout`` nobody has read who writes rules. The bounds are a little above what
is measured (docs/validity.md).
"""

import json
import sys
from pathlib import Path
from typing import Final

import pytest

from memfin.scoring.constraints.predicates import (
    AllowedUniverse,
    AssetClassCap,
    AssetClassFloor,
    CashFloor,
    ForbiddenAsset,
    ForbiddenPractice,
    LowFee,
    MaxDrawdown,
    MaxLockUp,
    MinRating,
    Predicate,
    SingleAssetCap,
)
from memfin.scoring.constraints.texts import parse_constraint, parse_constraints

WORDINGS: Final = Path(__file__).parents[1] / "fixtures" / "constraints"

LOW_RATED: Final = (
    ForbiddenAsset("low_rated_credit"),
    ForbiddenAsset("speculative_grade"),
    *(MinRating(rating) for rating in ("AAA", "AA+", "AA")),
)
BORROWING: Final = (
    ForbiddenPractice("leverage"),
    ForbiddenPractice("margin_trading"),
    ForbiddenPractice("off_market_financing"),
)
DEAR: Final = (LowFee(), ForbiddenPractice("high_fee"))


def as_good(found: Predicate, meant: Predicate) -> bool:
    """Whether a predicate is the one that is meant, or rules out the same advice."""
    if isinstance(found, SingleAssetCap) and isinstance(meant, SingleAssetCap):
        return found.limit == meant.limit
    if BORROWING[0] in (found, meant) and {found, meant} <= set(BORROWING):
        return True
    return found == meant or any({found, meant} <= set(kin) for kin in (LOW_RATED, DEAR))


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("wordings_zh", 0.04),
        ("wordings_zh_heldout", 0.08),
        ("wordings_en", 0.04),
        ("wordings_en_heldout", 0.11),
    ],
)
def test_few_wordings_are_misread(name: str, bound: float) -> None:
    rows = [json.loads(line) for line in (WORDINGS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    missed = 0
    for row in rows:
        meant = parse_constraint(row["constraint"])
        assert meant is not None
        missed += not any(as_good(found, meant) for found in parse_constraints(row["text"]))
    assert missed / len(rows) <= bound


DIRECTIONS: Final = [
    ("At least 60% in equities", AssetClassFloor("equity", 0.6)),
    ("I want more than 60% in stocks", AssetClassFloor("equity", 0.6)),
    ("I don't want more than 60% in stocks overall.", AssetClassCap("equity", 0.6)),
    ("Equity above 60% is off the table.", AssetClassCap("equity", 0.6)),
    ("Equity below 60% is not acceptable", AssetClassFloor("equity", 0.6)),
    ("Don't let equities drop below 40%", AssetClassFloor("equity", 0.4)),
    ("At least 40% must be in something other than equities.", AssetClassCap("equity", 0.6)),
    ("严禁权益仓位超过60%", AssetClassCap("equity", 0.6)),
    ("权益低于40%我不接受", AssetClassFloor("equity", 0.4)),
    ("六成以上权益对我来说太高了", AssetClassCap("equity", 0.6)),
    ("Cash above 30% is too much", AssetClassCap("cash", 0.3)),
    ("现金太多没意思，最多留10%", AssetClassCap("cash", 0.1)),
    ("Letting cash fall below 15% is strictly forbidden.", CashFloor(share=0.15)),
    ("No more than 85% invested; minimum 15% cash.", CashFloor(share=0.15)),
    ("Up to 85% may be invested, the rest stays in cash.", CashFloor(share=0.15)),
    ("十万里留两万现金应急", CashFloor(share=0.2)),
    ("At most 10% in cash, the rest invested", AssetClassCap("cash", 0.1)),
    ("现金最多10%，其余投基金", AssetClassCap("cash", 0.1)),
    ("股票最多60%，其余现金", CashFloor(share=0.4)),
    ("I lost 30% on one stock, so no single stock above 10%", SingleAssetCap(0.1, "asset")),
    ("去年亏了30%，所以股票最多20%", AssetClassCap("equity", 0.2)),
    ("持有不超过一年", MaxLockUp(1.0)),
    ("可转债可以，但不超过10%", AssetClassCap("convertible", 0.1)),
]


@pytest.mark.parametrize(("text", "meaning"), DIRECTIONS, ids=[text for text, _ in DIRECTIONS])
def test_a_bound_has_its_direction(text: str, meaning: Predicate) -> None:
    assert parse_constraints(text) == (meaning,)


@pytest.mark.parametrize(
    "text",
    [
        "不反对用杠杆",
        "不排斥小盘股",
        "不怕波动",
        "短线可以做",
        "I have no problem with small caps",
        "No objection to derivatives",
        "I'm not opposed to leverage",
        "Nothing against convertibles",
        "I don't mind high volatility",
        "No limit on equities",
    ],
)
def test_what_is_allowed_is_no_ban(text: str) -> None:
    assert parse_constraints(text) == ()


@pytest.mark.parametrize("text", ["Long-only equity fund", "Not more than 3 trades a month"])
def test_words_of_another_constraint_are_not_taken_for_it(text: str) -> None:
    assert parse_constraints(text) == ()


@pytest.mark.parametrize(
    ("text", "meanings"),
    [
        ("不用杠杆，回撤控制在15%以内", {ForbiddenPractice("leverage"), MaxDrawdown(0.15)}),
        ("Max 30% in a single fund; no crypto", {SingleAssetCap(0.3, "fund"), ForbiddenAsset("crypto")}),
        (
            "No more than 10% in any one stock and no leverage",
            {SingleAssetCap(0.1, "asset"), ForbiddenPractice("leverage")},
        ),
        ("Index funds only, low cost", {AllowedUniverse("index_funds"), LowFee()}),
    ],
)
def test_a_text_of_several_constraints_has_them_all(text: str, meanings: set[Predicate]) -> None:
    assert set(parse_constraints(text)) == meanings


@pytest.mark.parametrize("word", ["，且不", "a and no ", "现金10%,其余", "as they ", "20 out of every 100 "])
def test_a_word_repeated_for_ever_is_read_in_the_time_of_its_length(word: str) -> None:
    """Measured in steps of the reader, not in seconds: the parts of a text are bounded."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    used = {}
    for length in (4_000, 16_000):
        calls = 0
        sys.setprofile(count)
        try:
            parse_constraints((word * length)[:length])
        finally:
            sys.setprofile(None)
        used[length] = calls
    assert used[16_000] < 8 * used[4_000]
