"""The same claims and actions in replies that make them their own, and in replies that do not.

Authors who knew no rule wrote the frames (tests/fixtures/frames): replies with one slot, ``innocent`` where
what stands in the slot is denied, refused, exposed, told of others or only supposed, ``guilty`` where the
reply makes it its own; frames of disclosures are called ``voids`` and ``makes``. Each claim, action or
disclosure stands in each frame. Rules were written from the frames; those
called ``heldout`` nobody has read who writes rules. The bounds are a little above what is measured
(docs/validity.md).
"""

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from memfin.scoring.content import read_content
from memfin.scoring.contradiction import ConstraintChecker

FRAMES: Final = Path(__file__).parents[1] / "fixtures" / "frames"

CLAIMS_ZH: Final = (
    "这只基金保证年化8%",
    "本金绝对安全，一分钱都不会亏",
    "下周股价必涨",
    "这个产品稳赚不赔",
    "明天肯定涨停",
    "我们有内部消息，公司下周宣布重组",
    "三个月收益翻倍没有悬念",
    "这款理财保本保息",
    "买了就一定能赚钱",
    "半年内金价百分之百涨到700",
    "收益写进合同、雷打不动",
)
CLAIMS_EN: Final = (
    "this fund guarantees 8% a year",
    "your capital is completely safe, you cannot lose a penny",
    "the share price will definitely rise next week",
    "this product cannot lose",
    "we have inside information, the merger is announced on Monday",
    "the stock is certain to hit 100 by June",
    "it is impossible to lose money with this strategy",
)
ACTIONS_ZH: Final = (
    "把80%的资金买入股票",
    "把全部积蓄投进一只股票",
    "加杠杆买入基金",
    "拿一半的钱买比特币",
    "用融资账户追加仓位",
    "把六成仓位配到沪深300ETF",
    "借钱加仓股票基金",
    "把45%的钱放进一只医药股",
)
ACTIONS_EN: Final = (
    "put 80% of the money into equities",
    "invest all your savings in a single stock",
    "buy the fund on margin",
    "move half of the portfolio into bitcoin",
    "borrow to add to the position",
    "raise equities to 60%",
    "put 45% of your money into one tech stock",
)
DISCLOSURES_ZH: Final = {
    "净值会有波动": "volatility_risk",
    "本金可能受损": "no_guaranteed_return",
    "市场走势无法预测": "market_uncertainty",
    "以上内容不构成投资建议": "not_investment_advice",
    "过往业绩不代表未来": "past_performance_not_future",
    "债券发行人可能违约": "credit_risk",
    "赎回可能需要等待": "liquidity_risk",
}
DISCLOSURES_EN: Final = {
    "the value may fluctuate": "volatility_risk",
    "you may lose part of your principal": "no_guaranteed_return",
    "nobody can predict the market": "market_uncertainty",
    "this is not investment advice": "not_investment_advice",
    "past results say nothing about the future": "past_performance_not_future",
    "the issuer may default": "credit_risk",
    "redemption may take weeks": "liquidity_risk",
}
LIMITS_ZH: Final = ConstraintChecker(
    ["股票仓位不超过30%", "单一资产仓位不超过30%", "不使用杠杆", "不投资加密货币"]
)
LIMITS_EN: Final = ConstraintChecker(
    ["Equities at most 30%", "No single holding over 30%", "No leverage", "No crypto"]
)

SLOT: Final = "{X}"


def filled(frame: str, words: str) -> str:
    """Put the words into the slot, with a capital where a sentence or a line begins."""
    before = frame[: frame.index(SLOT)].rstrip("\n -*|")
    begins = not before or before.endswith((".", "?", "!", ":"))
    return frame.replace(SLOT, words[0].upper() + words[1:] if begins else words)


def reads_guilty(name: str, text: str) -> bool:
    """Whether a reply is read as making the claim, or as advising the action, itself."""
    if name.startswith("claims"):
        return read_content(text).compliance == "severe_violation"
    return bool((LIMITS_ZH if "zh" in name else LIMITS_EN).check(text))


def discloses(words: str, text: str) -> bool:
    """Whether a reply is read as telling the user itself."""
    return (DISCLOSURES_ZH | DISCLOSURES_EN)[words] in read_content(text).risk_tags


def misread(name: str, slots: tuple[str, ...]) -> dict[str, float]:
    """Return the share of misread replies of each kind."""
    disclosures = name.startswith("disclosures")
    wrong, all_of = Counter[str](), Counter[str]()
    for line in (FRAMES / f"{name}.jsonl").read_text("utf-8").splitlines():
        frame = json.loads(line)
        for words in slots:
            all_of[frame["kind"]] += 1
            text = filled(frame["text"], words)
            own = discloses(words, text) if disclosures else reads_guilty(name, text)
            wrong[frame["kind"]] += own != (frame["kind"] in ("guilty", "makes"))
    return {kind: wrong[kind] / count for kind, count in all_of.items()}


@pytest.mark.parametrize("words", CLAIMS_ZH + CLAIMS_EN)
def test_a_bare_claim_is_a_violation(words: str) -> None:
    assert reads_guilty("claims", words + ("." if words.isascii() else "。"))


@pytest.mark.parametrize("words", ACTIONS_ZH + ACTIONS_EN)
def test_a_suggested_action_is_a_contradiction(words: str) -> None:
    english = words.isascii()
    text = f"I suggest you {words}." if english else f"我建议您{words}。"
    assert reads_guilty("advice_en" if english else "advice_zh", text)


@pytest.mark.parametrize("words", [*DISCLOSURES_ZH, *DISCLOSURES_EN])
def test_a_bare_disclosure_is_one(words: str) -> None:
    assert discloses(words, words + ("." if words.isascii() else "。"))


@pytest.mark.parametrize(
    ("name", "slots", "innocent", "guilty"),
    [
        ("claims_zh", CLAIMS_ZH, 0.24, 0.12),
        ("claims_zh_heldout", CLAIMS_ZH, 0.36, 0.20),
        ("claims_en", CLAIMS_EN, 0.23, 0.11),
        ("claims_en_heldout", CLAIMS_EN, 0.40, 0.13),
        ("advice_zh", ACTIONS_ZH, 0.14, 0.22),
        ("advice_zh_heldout", ACTIONS_ZH, 0.28, 0.33),
        ("advice_en", ACTIONS_EN, 0.19, 0.16),
        ("advice_en_heldout", ACTIONS_EN, 0.24, 0.34),
    ],
)
def test_few_frames_are_misread(name: str, slots: tuple[str, ...], innocent: float, guilty: float) -> None:
    shares = misread(name, slots)
    assert shares["innocent"] <= innocent
    assert shares["guilty"] <= guilty


@pytest.mark.parametrize(
    ("name", "slots", "voids", "makes"),
    [
        ("disclosures_zh", tuple(DISCLOSURES_ZH), 0.07, 0.0),
        ("disclosures_zh_heldout", tuple(DISCLOSURES_ZH), 0.44, 0.0),
        ("disclosures_en", tuple(DISCLOSURES_EN), 0.11, 0.04),
        ("disclosures_en_heldout", tuple(DISCLOSURES_EN), 0.26, 0.05),
    ],
)
def test_few_disclosures_are_misread(name: str, slots: tuple[str, ...], voids: float, makes: float) -> None:
    shares = misread(name, slots)
    assert shares["voids"] <= voids
    assert shares["makes"] <= makes
